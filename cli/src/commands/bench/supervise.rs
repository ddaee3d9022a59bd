//! `linerate supervise COMMAND`: runs a command while standard input is open.
//!
//! It is the leader of its own process group. When standard input ends, even because its holder was killed, the group
//! gets SIGTERM, and SIGKILL if the command does not end within some seconds. Children of a benchmark therefore
//! cannot outlive it. This needs no code between fork and exec, where few operations are allowed.

use crate::args::bench::SuperviseArgs;
use console::Diagnostic;
use rustix::process::{Pid, Signal, getpgrp, getpid, kill_process_group};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Time for a command to end after SIGTERM.
pub(super) const GRACE: Duration = Duration::from_secs(5);
/// Time for the rest of its process group.
const LEFT_BEHIND: Duration = Duration::from_millis(200);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Runs the command, and exits with its status.
pub(crate) fn run(args: &SuperviseArgs) -> anyhow::Result<()> {
    if getpgrp() != getpid() {
        // Otherwise the group's other processes would be ended as well.
        let remedy = "let `linerate bench` start it";
        return Err(
            Diagnostic::bad("linerate supervise", "it has no process group of its own", remedy).into()
        );
    }
    let (Some(program), words) = (args.command.first(), args.command.get(1..).unwrap_or_default()) else {
        return Ok(());
    };
    // Signals to the group reach this process as well, and must not end it.
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    let shown = program.to_string_lossy().into_owned();
    let child = Command::new(program).args(words).stdin(Stdio::null()).spawn();
    let mut child =
        child.map_err(|error| Diagnostic::failed(shown, error, "name a program that can be run"))?;
    let released = Arc::new(AtomicBool::new(false));
    let watched = released.clone();
    std::thread::spawn(move || {
        // End of file and errors are handled alike.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        watched.store(true, Ordering::Relaxed);
    });
    let status = wait(&mut child, &released)?;
    // Ends processes that the command left in the group.
    signal_group(Signal::TERM);
    if released.load(Ordering::Relaxed) {
        std::thread::sleep(LEFT_BEHIND);
        // This ends the current process as well, which is in the group.
        signal_group(Signal::KILL);
    }
    // As a shell does: the exit status reports how the command ended.
    let code = status.map(|status| status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)));
    std::process::exit(code.unwrap_or(0))
}

/// Waits until the command has ended. Returns `None` if it does not end.
fn wait(child: &mut Child, released: &AtomicBool) -> std::io::Result<Option<ExitStatus>> {
    let mut until = None;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if released.load(Ordering::Relaxed) && until.is_none() {
            signal_group(Signal::TERM);
            until = Some(Instant::now() + GRACE);
        }
        if until.is_some_and(|until| Instant::now() > until) {
            return Ok(None);
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

fn signal_group(signal: Signal) {
    if let Some(group) = Pid::from_raw(getpgrp().as_raw_nonzero().get()) {
        // Fails only if the group has ended.
        let _ = kill_process_group(group, signal);
    }
}
