//! `--cpu`: CPU affinity of a measuring thread.

use crate::host::Host;
use console::Diagnostic;

/// Pins this thread to `cpu`, so that migration does not disturb measurements. `None`: does nothing.
pub(crate) fn pin(cpu: Option<usize>) -> Result<(), Diagnostic> {
    let Some(cpu) = cpu else { return Ok(()) };
    let allowed = Host::here().allowed();
    if !allowed.contains(&cpu) {
        let remedy = format!("choose one of the CPUs that this process may use: {allowed:?}");
        return Err(Diagnostic::bad(format!("--cpu {cpu}"), "this CPU cannot be used", remedy));
    }
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu);
    rustix::thread::sched_setaffinity(None, &set)
        .map_err(|e| Diagnostic::failed(format!("--cpu {cpu}"), e, "leave --cpu out"))
}
