//! A switch in a separate process: start, readiness, readings from `/proc`, termination.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Timeout for a switch to become ready, or to end.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The switch to start, and its CPUs.
pub(crate) struct SwitchUnderTest {
    /// Path of `linerate`; `None` for the library.
    pub(crate) program: Option<PathBuf>,
    pub(crate) cpu: usize,
    /// CPU of the polling guests and of measurements that need no second CPU.
    pub(crate) guest_cpu: usize,
}

/// A running switch.
pub(crate) struct Switch {
    child: Child,
    folder: TempDir,
    pub(crate) sockets: Vec<PathBuf>,
    /// Time from start until ready.
    pub(crate) took: Duration,
}

impl SwitchUnderTest {
    /// Name in titles.
    pub(crate) fn name(&self) -> &'static str {
        if self.program.is_some() { "linerate run" } else { "engine and bridge as a library" }
    }

    /// Starts the switch with `ports` listening ports and waits until it is ready.
    pub(crate) fn start(&self, ports: usize, busy: bool) -> Result<Switch> {
        let folder = TempDir::with_prefix("linerate-scale-").context("no temporary folder")?;
        let sockets: Vec<_> = (0..ports).map(|port| folder.path().join(format!("p{port}"))).collect();
        let mut command = match &self.program {
            Some(program) => self.linerate(program, folder.path(), &sockets, busy)?,
            None => self.library(&sockets, busy)?,
        };
        let start = Instant::now();
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = child.with_context(|| format!("{command:?} cannot be started"))?;
        let mut switch = Switch { child, folder, sockets, took: Duration::ZERO };
        let control = self.program.is_some();
        switch.wait(start, |switch| {
            (!control || switch.answers()) && switch.sockets.iter().all(|s| s.exists())
        })?;
        switch.took = start.elapsed();
        Ok(switch)
    }

    fn linerate(&self, program: &Path, folder: &Path, sockets: &[PathBuf], busy: bool) -> Result<Command> {
        let polling = if busy { "busy" } else { "adaptive" };
        let mut text = format!("[[worker]]\ncpu = {}\npolling = \"{polling}\"\n", self.cpu);
        for (port, socket) in sockets.iter().enumerate() {
            writeln!(text, "\n[[port]]\nname = \"p{port}\"\nsocket = \"{}\"", socket.display())?;
        }
        fs::write(folder.join("switch.toml"), text)?;
        let mut command = Command::new(program);
        command.arg("--control").arg(folder.join("control")).arg("run").arg(folder.join("switch.toml"));
        Ok(command)
    }

    fn library(&self, sockets: &[PathBuf], busy: bool) -> Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("serve").arg(self.cpu.to_string()).args(busy.then_some("--busy")).args(sockets);
        Ok(command)
    }
}

impl Switch {
    fn wait(&mut self, start: Instant, ready: impl Fn(&Self) -> bool) -> Result<()> {
        while !ready(self) {
            if let Some(status) = self.child.try_wait()? {
                bail!("the switch ended with {status} before it was ready");
            }
            if start.elapsed() > TIMEOUT {
                bail!("the switch was not ready after {} s: does it open its ports yet?", TIMEOUT.as_secs());
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        Ok(())
    }

    /// Whether the control API answers.
    fn answers(&self) -> bool {
        let ask = || {
            let mut stream = UnixStream::connect(self.folder.path().join("control"))?;
            stream.set_read_timeout(Some(TIMEOUT))?;
            stream.write_all(b"GET /v1/status HTTP/1.1\r\nHost: linerate\r\nConnection: close\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok::<_, std::io::Error>(answer.starts_with("HTTP/1.1 200"))
        };
        ask().unwrap_or(false)
    }

    fn proc(&self, file: &str) -> Result<String> {
        let path = format!("/proc/{}/{file}", self.child.id());
        fs::read_to_string(&path).with_context(|| format!("{path} cannot be read"))
    }

    /// A value of its `/proc` status file, in KiB.
    pub(crate) fn kib(&self, key: &str) -> Result<f64> {
        let status = self.proc("status")?;
        let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
        let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        number.with_context(|| format!("the kernel does not say {key}"))
    }

    /// CPU time in user and kernel mode, at the kernel's resolution of 10 ms.
    pub(crate) fn ticks(&self) -> Result<Duration> {
        let stat = self.proc("stat")?;
        let fields: Vec<_> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let field = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok());
        // Fields 14 and 15 of proc(5); the first two, up to the ')', are not in the list.
        let ticks = field(11).zip(field(12)).context("the kernel does not say utime and stime")?;
        Ok(Duration::from_millis((ticks.0 + ticks.1) * 10))
    }

    /// CPU time of all threads, in nanosecond resolution.
    pub(crate) fn run_time(&self) -> Result<Duration> {
        let first = |text: &str| text.split_whitespace().next()?.parse().ok();
        self.sum_over_threads("schedstat", first).map(Duration::from_nanos)
    }

    /// Voluntary context switches of all its threads.
    pub(crate) fn sleeps(&self) -> Result<u64> {
        let key = "voluntary_ctxt_switches:";
        self.sum_over_threads("status", |text| {
            text.lines().find_map(|line| line.strip_prefix(key))?.trim().parse().ok()
        })
    }

    fn sum_over_threads(&self, file: &str, number: impl Fn(&str) -> Option<u64>) -> Result<u64> {
        let mut total = 0;
        for task in fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let path = task?.path().join(file);
            let text =
                fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?;
            total += number(&text).with_context(|| format!("{} lacks a number", path.display()))?;
        }
        Ok(total)
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        if let Some(pid) = Pid::from_raw(self.child.id().cast_signed()) {
            // Fails if the process has already ended.
            let _ = kill_process(pid, Signal::TERM);
        }
        let start = Instant::now();
        while let Ok(None) = self.child.try_wait() {
            if start.elapsed() > TIMEOUT {
                let _ = self.child.kill();
                let _ = self.child.wait();
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Runs `work` on one CPU, in a separate thread, so that switches started elsewhere do not inherit the affinity.
pub(crate) fn pinned<T: Send>(cpu: usize, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let body = || {
        measure::pinning::pin(cpu)?;
        work()
    };
    let ended = std::thread::scope(|scope| scope.spawn(body).join());
    ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
