//! `linerate supervise COMMAND`: runs a command for as long as our standard input is open.
//!
//! It is the first of a process group of its own. When standard input ends, for whatever reason, even because its
//! holder was killed, the group is asked to end (SIGTERM), and ended (SIGKILL) if the command is not gone within some
//! seconds. So nothing that a benchmark started outlives it. It needs no code between fork and exec, where hardly
//! anything is allowed.

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

/// How long a command has to end in order.
pub(super) const GRACE: Duration = Duration::from_secs(5);
/// How long what it leaves behind has.
const LEFT_BEHIND: Duration = Duration::from_millis(200);
const LOOK: Duration = Duration::from_millis(5);

/// Runs the command; ends as it ends.
pub(crate) fn run(args: &SuperviseArgs) -> anyhow::Result<()> {
    if getpgrp() != getpid() {
        // Otherwise the group's other processes would be ended with it.
        let remedy = "let `linerate bench` start it";
        return Err(
            Diagnostic::bad("linerate supervise", "it has no process group of its own", remedy).into()
        );
    }
    let (Some(program), words) = (args.command.first(), args.command.get(1..).unwrap_or_default()) else {
        return Ok(());
    };
    // Asking the group to end asks us, too.
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
        // Whether it ended or broke is the same.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        watched.store(true, Ordering::Relaxed);
    });
    let status = wait(&mut child, &released)?;
    // What the command has left behind in the group goes with it.
    signal_group(Signal::TERM);
    if released.load(Ordering::Relaxed) {
        std::thread::sleep(LEFT_BEHIND);
        // The last that we do: we are of the group.
        signal_group(Signal::KILL);
    }
    // As a shell does: the exit status tells the parent how the command ended.
    let code = status.map(|status| status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)));
    std::process::exit(code.unwrap_or(0))
}

/// Until the command has ended; none: it does not.
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
        std::thread::sleep(LOOK);
    }
}

fn signal_group(signal: Signal) {
    if let Some(group) = Pid::from_raw(getpgrp().as_raw_nonzero().get()) {
        // A group that is gone is what is wanted.
        let _ = kill_process_group(group, signal);
    }
}
