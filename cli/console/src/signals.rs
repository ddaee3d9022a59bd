//! SIGINT and SIGTERM during long operations.

use crate::{Diagnostic, FAILED};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Returns a flag set by the first signal. The second signal ends the process at once, with exit code 1.
pub fn stop_on_signals() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, FAILED.into(), stop.clone())?;
        signal_hook::flag::register(signal, stop.clone())?;
    }
    Ok(stop)
}

/// Makes the first signal end the process with exit code 1, for an operation without partial results.
pub fn exit_on_signals(program: &'static str, command: &'static str) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        if signals.forever().next().is_some() {
            let error = Diagnostic::failed(command, "ended by a signal; there is no result", "run it again");
            eprintln!("{program}: {error}");
            std::process::exit(FAILED.into());
        }
    })?;
    Ok(())
}
