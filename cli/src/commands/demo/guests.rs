//! Guests of the demonstration: child processes of this program.

use super::Cpus;
use crate::args::guest::{DemoArgs, FrameSize};
use console::Diagnostic;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Running guests; terminated on drop.
pub(super) struct Guests(Vec<Child>);

impl Guests {
    /// Starts one process per CPU for guests; a single process runs both.
    pub(super) fn start(
        args: &DemoArgs,
        size: FrameSize,
        cpus: &Cpus,
        sockets: &[PathBuf; 2],
    ) -> Result<Self, Diagnostic> {
        let mut guests = Self(Vec::new());
        match cpus.guests.as_slice() {
            [a, b] => {
                guests.spawn(args, size, *a, &sockets[..1], 0)?;
                guests.spawn(args, size, *b, &sockets[1..], 1)?;
            }
            other => guests.spawn(args, size, other.first().copied().flatten(), sockets, 0)?,
        }
        Ok(guests)
    }

    fn spawn(
        &mut self,
        args: &DemoArgs,
        size: FrameSize,
        cpu: Option<usize>,
        sockets: &[PathBuf],
        first: usize,
    ) -> Result<(), Diagnostic> {
        let failed =
            |e: std::io::Error| Diagnostic::failed("demo", e, "allow this program to execute itself");
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command.args([
            "guest",
            "--wait",
            "--mode",
            "macswap",
            "--ring",
            args.ring.name(),
            "--output",
            "json",
        ]);
        command.args(["--descriptors", args.descriptors.name()]);
        command.args(["--size", &size.to_string(), "--in-flight", &args.in_flight.to_string()]);
        command.args(["--mac", &format!("02:00:00:00:00:{:02x}", first + 1)]);
        if sockets.len() == 1 {
            command.args(["--peer", &format!("02:00:00:00:00:{:02x}", 2 - first)]);
        }
        for socket in sockets {
            command.arg("--connect").arg(socket);
        }
        if let Some(cpu) = cpu {
            command.args(["--cpu", &cpu.to_string()]);
        }
        self.0.push(command.stdout(Stdio::null()).stdin(Stdio::null()).spawn().map_err(failed)?);
        Ok(())
    }

    /// Returns an error if a guest has ended by itself; its own message is already printed.
    pub(super) fn check(&mut self) -> Result<(), Diagnostic> {
        for child in &mut self.0 {
            if let Ok(Some(status)) = child.try_wait() {
                let reason = format!("a guest ended with {status}");
                return Err(Diagnostic::failed("demo", reason, "see its message above"));
            }
        }
        Ok(())
    }

    /// Terminates the guests and waits for them.
    pub(super) fn stop(self) {
        drop(self);
    }
}

impl Drop for Guests {
    fn drop(&mut self) {
        for child in &self.0 {
            if let Some(pid) = rustix::process::Pid::from_raw(child.id().cast_signed()) {
                // Fails only if the guest has already ended.
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            }
        }
        for child in &mut self.0 {
            let _ = child.wait();
        }
    }
}
