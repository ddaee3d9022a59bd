//! `--cpu`: CPU affinity of a measuring thread.

use crate::host::Host;
use console::Diagnostic;
use rustix::thread::CpuSet;

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

/// Runs `work` on CPUs that this thread had before it was pinned, so that threads which it starts have them too.
pub(crate) fn with_affinity<T>(before: &CpuSet, work: impl FnOnce() -> T) -> T {
    let own = rustix::thread::sched_getaffinity(None);
    // Without affinity the threads still work.
    let _ = rustix::thread::sched_setaffinity(None, before);
    let done = work();
    if let Ok(own) = own {
        let _ = rustix::thread::sched_setaffinity(None, &own);
    }
    done
}

/// Pins this thread to a CPU that [`validate`] accepted.
pub(crate) fn place(cpu: usize) -> rustix::io::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu);
    rustix::thread::sched_setaffinity(None, &set)
}
