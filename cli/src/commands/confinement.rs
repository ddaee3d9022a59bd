//! Confines the process of a switch, after its sockets are bound and before any of its threads exists.

use crate::api::model::ConfinementReport;
use crate::log::LogFormat;
use crate::settings::needs;
use crate::settings::topology::Topology;
use confine::{Plan, Role};
use console::Diagnostic;
use std::io;
use std::path::Path;
use tracing::{info, warn};

/// Confines the calling thread and all that it starts from now on, if `topology` says so. Workers are confined further
/// when they start. `inherited` is what is in force in the process that has started this one.
pub(super) fn start(
    topology: &Topology,
    control: &Path,
    log: LogFormat,
    inherited: &[u64],
) -> Result<Option<ConfinementReport>, Diagnostic> {
    let Some(plan) = needs::plan(topology, control, log.line()) else { return Ok(None) };
    let plan = Plan { inherited: inherited.to_vec(), ..plan };
    let confinement = confine::start(&plan)
        .map_err(|error| Diagnostic::failed("confinement", error, "write confine = false in [switch]"))?;
    engine::at_worker_start(|| confine::enter(Role::Worker).map_err(io::Error::other));
    if let Some(reason) = &confinement.unfiltered {
        warn!(%reason, "system calls are not filtered");
    }
    let report = ConfinementReport::from(&confinement);
    let dropped = confine::names(confinement.dropped).len();
    info!(confinement = %report, dropped, "the process is confined");
    Ok(Some(report))
}
