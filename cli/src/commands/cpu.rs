//! `--cpu`: CPU affinity of a measuring thread.

use crate::host::Host;
use console::Diagnostic;

/// Pins this thread to `cpu`, so that migration does not disturb measurements. `None`: does nothing.
pub(crate) fn pin(cpu: Option<usize>) -> Result<(), Diagnostic> {
    let Some(cpu) = cpu else { return Ok(()) };
    if let Some((reason, remedy)) = Host::here().unusable(cpu) {
        return Err(Diagnostic::bad(format!("--cpu {cpu}"), format!("this CPU {reason}"), remedy));
    }
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu);
    rustix::thread::sched_setaffinity(None, &set)
        .map_err(|e| Diagnostic::failed(format!("--cpu {cpu}"), e, "leave --cpu out"))
}
