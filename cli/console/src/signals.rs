//! SIGINT and SIGTERM during long operations.

use crate::{Diagnostic, FAILED};
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Maximum delay in handling a signal.
pub const SIGNAL_POLL: Duration = Duration::from_millis(100);

/// Installs signal handlers with SIGINT, SIGTERM and SIGHUP blocked in this thread, so that a signal that arrives
/// meanwhile is delivered to complete handlers. Otherwise signal-hook loses one that arrives after it has installed its
/// handler and before it has stored the action. Must be called before other threads start.
pub fn register_signals<T>(register: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let signals = SigSet::from_iter([Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP]);
    let previous = signals.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let registered = register();
    previous.thread_set_mask()?;
    registered
}

/// Returns a flag set by the first signal. The second signal ends the process at once, with exit code 1.
pub fn stop_on_signals() -> io::Result<Arc<AtomicBool>> {
    register_signals(|| {
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register_conditional_shutdown(signal, FAILED.into(), stop.clone())?;
            signal_hook::flag::register(signal, stop.clone())?;
        }
        Ok(stop)
    })
}

/// Sleeps for `time`, or until `stop` is set. Returns whether it is set.
pub fn sleep(time: Duration, stop: &AtomicBool) -> bool {
    let began = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let left = time.saturating_sub(began.elapsed());
        if left.is_zero() {
            return false;
        }
        std::thread::sleep(left.min(SIGNAL_POLL));
    }
    true
}

/// Makes the first signal end the process with exit code 1, for an operation without partial results.
pub fn exit_on_signals(program: &'static str, command: &'static str) -> io::Result<()> {
    let mut signals = register_signals(|| Signals::new([SIGINT, SIGTERM]))?;
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        if signals.forever().next().is_some() {
            let error = Diagnostic::failed(command, "ended by a signal; there is no result", "run it again");
            eprintln!("{program}: {error}");
            std::process::exit(FAILED.into());
        }
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_during_the_registration_is_delivered_after_it() {
        let flag = register_signals(|| {
            // Ends the process unless blocked.
            signal_hook::low_level::raise(SIGTERM)?;
            let flag = Arc::new(AtomicBool::new(false));
            signal_hook::flag::register(SIGTERM, flag.clone())?;
            assert!(!flag.load(Ordering::Relaxed));
            Ok(flag)
        });
        assert!(flag.unwrap().load(Ordering::Relaxed));
    }

    #[test]
    fn sleep_ends_with_its_time_or_the_flag() {
        let stop = AtomicBool::new(false);
        assert!(!sleep(Duration::from_millis(1), &stop));
        stop.store(true, Ordering::Relaxed);
        assert!(sleep(Duration::from_hours(1), &stop));
    }
}
