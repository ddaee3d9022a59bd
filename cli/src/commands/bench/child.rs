//! Child processes of a measuring command: a switch or a guest, supervised, with their output in a file.

use super::supervise::GRACE;
use console::Diagnostic;
use rustix::process::{Pid, Signal, kill_process_group};
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Maximum number of output lines in an error.
const SHOWN: usize = 12;

/// How to start a child.
#[derive(Clone, Debug)]
pub(in crate::commands) struct Start {
    /// Display name.
    pub(in crate::commands) name: &'static str,
    /// The command and its arguments.
    pub(in crate::commands) words: Vec<OsString>,
}

impl Start {
    /// A shell command.
    pub(in crate::commands) fn shell(name: &'static str, command: &str) -> Self {
        Self { name, words: ["/bin/sh", "-c", command].map(OsString::from).into() }
    }

    /// This program with the given arguments.
    pub(in crate::commands) fn own(
        name: &'static str,
        words: &[impl AsRef<str>],
    ) -> Result<Self, Diagnostic> {
        let mut all = vec![own()?];
        all.extend(words.iter().map(|word| OsString::from(word.as_ref())));
        Ok(Self { name, words: all })
    }
}

fn own() -> Result<OsString, Diagnostic> {
    let remedy = "allow this program to execute itself";
    let path = std::env::current_exe().map_err(|e| Diagnostic::failed("linerate", e, remedy))?;
    Ok(path.into())
}

/// A running child; terminated on drop.
#[derive(Debug)]
pub(in crate::commands) struct Running {
    name: &'static str,
    supervise: Child,
    log: PathBuf,
    status: Option<ExitStatus>,
}

impl Running {
    /// Starts the child with its output in a file in `folder`.
    pub(in crate::commands) fn start(start: &Start, folder: &Path) -> Result<Self, Diagnostic> {
        let name = start.name;
        let failed = |e: std::io::Error| Diagnostic::failed(name, e, "check that it can be started manually");
        let log = folder.join(format!("{}.log", name.replace(' ', "-")));
        let output = File::create(&log).map_err(failed)?;
        let mut command = Command::new(own()?);
        command.arg("supervise").arg("--").args(&start.words).stdin(Stdio::piped());
        command.stderr(output.try_clone().map_err(failed)?).stdout(output).process_group(0);
        Ok(Self { name, supervise: command.spawn().map_err(failed)?, log, status: None })
    }

    /// Display name.
    pub(in crate::commands) fn name(&self) -> &'static str {
        self.name
    }

    /// Whether the child has ended by itself.
    pub(in crate::commands) fn has_ended(&mut self) -> bool {
        if self.status.is_none() {
            self.status = self.supervise.try_wait().ok().flatten();
        }
        self.status.is_some()
    }

    /// Describes the exit status.
    pub(in crate::commands) fn how(&self) -> String {
        self.status.map_or_else(|| "it runs".to_owned(), |status| status.to_string())
    }

    /// Returns the last lines of its output, for an error.
    pub(in crate::commands) fn words(&self) -> String {
        let bytes = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        if lines.is_empty() {
            return format!("it printed nothing ({})", self.log.display());
        }
        let last = lines[lines.len().saturating_sub(SHOWN)..].join("\n    | ");
        format!("its last output (complete output in {}):\n    | {last}", self.log.display())
    }

    /// Terminates the child, and kills it if it does not end in time.
    fn end(&mut self) {
        drop(self.supervise.stdin.take());
        let until = Instant::now() + GRACE + Duration::from_secs(2);
        while !self.has_ended() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        if !self.has_ended() {
            if let Some(group) = Pid::from_raw(self.supervise.id().cast_signed()) {
                // Fails only if the group has ended.
                let _ = kill_process_group(group, Signal::KILL);
            }
            let _ = self.supervise.wait();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}
