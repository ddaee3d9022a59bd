//! `--cpu`: CPU affinity of a measuring thread.

use crate::host::Host;
use console::Diagnostic;

/// Pins this thread to `cpu`, so that migration does not disturb measurements. `None`: does nothing.
pub(crate) fn pin(cpu: Option<usize>) -> Result<(), Diagnostic> {
    let Some(cpu) = cpu else { return Ok(()) };
    validate("--cpu", cpu)?;
    place(cpu).map_err(|e| Diagnostic::failed(format!("--cpu {cpu}"), e, "leave --cpu out"))
}

/// Returns an error if this process may not use the CPU that an option names.
pub(crate) fn validate(option: &str, cpu: usize) -> Result<(), Diagnostic> {
    if let Some((reason, remedy)) = Host::here().unusable(cpu) {
        return Err(Diagnostic::bad(format!("{option} {cpu}"), format!("this CPU {reason}"), remedy));
    }
    Ok(())
}

/// Pins this thread to a CPU that [`validate`] accepted.
pub(crate) fn place(cpu: usize) -> rustix::io::Result<()> {
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu);
    rustix::thread::sched_setaffinity(None, &set)
}
