//! A child process that cannot outlive its end-to-end test: it is killed on drop, and by the kernel if the test
//! itself is killed. Its output goes to a log file, which is copied to standard error if the test panics.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::{need, wait};

const DUMPED_LINES: usize = 200;

/// Anonymous memory of a process in bytes (`RssAnon`).
pub fn anonymous_memory(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("a running process");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("a process has memory");
    let kilobytes = line.trim().split(' ').next().and_then(|n| n.parse::<u64>().ok());
    1024 * kilobytes.expect("a number")
}

/// A running child process.
pub struct Process {
    name: String,
    child: Child,
    stdin: Option<ChildStdin>,
    log: PathBuf,
}

impl Process {
    /// Starts `program` with its output in `folder`/`name`.log. Panics if the program cannot be started.
    pub fn spawn<S: AsRef<OsStr>>(
        folder: &Path,
        name: &str,
        program: impl AsRef<OsStr>,
        arguments: &[S],
    ) -> Process {
        need::program(&program.as_ref().to_string_lossy());
        let log = folder.join(format!("{name}.log"));
        let output = File::options().create(true).append(true).open(&log);
        let output = output.unwrap_or_else(|error| panic!("no log file {}: {error}", log.display()));
        let errors = output.try_clone().unwrap_or_else(|error| panic!("no second handle on a log: {error}"));
        // `setpriv` executes the program in the same process, so it can be signalled and reaped as our child.
        let mut child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL"])
            .arg(&program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {name}: {error}"));
        let stdin = child.stdin.take();
        Process { name: name.to_owned(), child, stdin, log }
    }

    /// Process identifier.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// All output so far, one character per byte, so that byte offsets stay valid.
    pub fn output(&self) -> String {
        let bytes = std::fs::read(&self.log).unwrap_or_default();
        bytes.iter().map(|byte| if byte.is_ascii() { *byte as char } else { '?' }).collect()
    }

    /// Writes one line to the standard input.
    pub fn say(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().unwrap_or_else(|| panic!("{} has no standard input", self.name));
        let written = stdin.write_all(format!("{line}\n").as_bytes()).and_then(|()| stdin.flush());
        written.unwrap_or_else(|error| panic!("{} does not read {line:?}: {error}", self.name));
    }

    /// Waits until `text` is printed after byte `from`. Returns the output from there on. Panics with the log if the
    /// process ends or `limit` passes before.
    pub fn wait_for(&mut self, text: &str, from: usize, limit: Duration) -> String {
        let found = wait::until(limit, || {
            let ended = self.ended().is_some();
            let fresh = self.output().get(from..).unwrap_or_default().to_owned();
            (ended || fresh.contains(text)).then_some(fresh)
        });
        match found {
            Some(fresh) if fresh.contains(text) => fresh,
            Some(_) => {
                let how = self.ended();
                panic!("{} ended without printing {text:?}: {how:?}", self.name)
            }
            None => panic!("{} did not print {text:?} in {limit:?}", self.name),
        }
    }

    /// Exit status, if it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap_or_else(|error| panic!("cannot wait for {}: {error}", self.name))
    }

    /// Waits until it ends by itself. Panics after `limit`.
    pub fn finish(&mut self, limit: Duration) -> ExitStatus {
        drop(self.stdin.take());
        let status = wait::until(limit, || self.ended());
        status.unwrap_or_else(|| panic!("{} still runs after {limit:?}", self.name))
    }

    /// Sends SIGTERM and waits. Panics if it does not end within `limit`.
    pub fn terminate(&mut self, limit: Duration) -> ExitStatus {
        if self.ended().is_none() {
            // Fails only if it has ended in the meantime.
            let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        }
        self.finish(limit)
    }

    /// Sends SIGKILL, as in a crash, and waits; its resources are free when this returns.
    pub fn kill(&mut self) {
        // Fails only if it has ended in the meantime; the wait only reaps a dead process.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn dump(&self) {
        let output = self.output();
        let lines: Vec<&str> = output.lines().collect();
        let tail = lines[lines.len().saturating_sub(DUMPED_LINES)..].join("\n");
        eprintln!("--- {} printed at last ({}):\n{tail}\n---", self.name, self.log.display());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.dump();
        }
        self.kill();
    }
}
