//! Who takes part: the generator's ports, the switch and the guest, made of what users ask for and judged before
//! anything starts (`judge`).
//!
//! A switch of our own gets a configuration that mirrors the generator's ports. In `phy-vm-phy` it has two bridges,
//! so that frames must pass the guest, which bridges two virtio-user ports, as a second process of this program or within the
//! generator's thread; in `loop` the guest reflects.

use super::child::Start;
use super::folder::Folder;
use super::judge;
use super::parts::{Guest, Parts};
use super::wishes::{Listener, Own, OwnGuest, Wishes};
use super::workers::workers;
use crate::topology::PortSettings;
use crate::traffic::input::{described, judged_ports, keys, wrong_stream};
use crate::trouble::Trouble;
use lab::bench::{CpuSet, Plan, PlanError, Setup, Topology};
use lab::traffic::Description;
use serde_json::json;
use std::time::Duration;

/// Everything, judged.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) plan: Plan,
    pub(super) setup: Setup,
    pub(super) stream: Description,
    pub(super) ports: Vec<PortSettings>,
    pub(super) switch: Option<Start>,
    pub(super) guest: Option<Guest>,
    pub(super) cpus: CpuSet,
    pub(super) patience: Duration,
    pub(super) folder: Folder,
    /// The switch runs within the generator's thread, over ports of its own.
    pub(super) merged: bool,
}

/// Who runs the switch.
#[derive(Clone, Copy)]
pub(super) enum Switch<'a> {
    Ours,
    Running,
    Merged,
    Command(&'a str),
}

/// Makes a job of what is asked for. Nothing is started.
pub(super) fn job(wishes: &Wishes, place: &str) -> anyhow::Result<Job> {
    let plan = wishes.plan();
    plan.judge().map_err(|error| wrong_plan(place, &error))?;
    let stream = stream(wishes, &plan, place)?;
    judge::cpus(wishes)?;
    judge::patience(wishes)?;
    let folder = Folder::new()?;
    let topology = wishes.topology.unwrap_or_default();
    let switch = match (&wishes.switch_command, wishes.switch.unwrap_or_default()) {
        (Some(command), _) => Switch::Command(command),
        (None, Own::Linerate) => Switch::Ours,
        (None, Own::Running) => Switch::Running,
        (None, Own::Merged) => Switch::Merged,
    };
    judge_merged(wishes, topology, switch)?;
    judge_workers(wishes, switch)?;
    judge_guest(wishes, topology)?;
    let ports = ports(wishes, topology, switch, &folder)?;
    let workers = workers(wishes)?;
    let parts = Parts { wishes, topology, switch, ports: &ports, folder: &folder, workers };
    judge::uses(wishes, switch, parts.has_guest())?;
    let merged = matches!(switch, Switch::Merged);
    let (switch, switch_ports) = parts.switch()?;
    let guest = parts.guest()?;
    let setup = parts.setup(&stream, guest.is_some(), &switch_ports);
    let cpus = CpuSet { generator: wishes.cpu, switch: wishes.switch_cpu, guest: wishes.guest_cpu };
    Ok(Job { plan, setup, stream, ports, switch, guest, cpus, patience: wishes.patience(), folder, merged })
}

/// There is no other thread, so there is nothing to place and nobody to connect to.
fn judge_merged(wishes: &Wishes, topology: Topology, switch: Switch<'_>) -> Result<(), Trouble> {
    let given = !(wishes.ports.is_empty() && wishes.port_flags.is_empty());
    let not_here = [
        ("--topology", topology != Topology::VmVm),
        ("--port", given),
        ("--switch-cpu", wishes.switch_cpu.is_some()),
    ];
    let wrong = not_here.into_iter().find(|(_, wrong)| *wrong && matches!(switch, Switch::Merged));
    wrong.map_or(Ok(()), |(flag, _)| {
        let reason = "a switch within the generator has its two ports and the generator's CPU";
        Err(Trouble::bad(format!("--switch merged with {flag}"), reason, format!("leave out {flag}")))
    })
}

/// It forwards or reflects, on the generator's CPU.
fn judge_guest(wishes: &Wishes, topology: Topology) -> Result<(), Trouble> {
    let not_here = [("--topology", topology == Topology::VmVm), ("--guest-cpu", wishes.guest_cpu.is_some())];
    let merged = wishes.guest == Some(OwnGuest::Merged);
    let wrong = not_here.into_iter().find(|(_, wrong)| merged && *wrong);
    wrong.map_or(Ok(()), |(flag, _)| {
        let reason =
            "a guest within the generator forwards (phy-vm-phy) or reflects (loop), on the generator's CPU";
        Err(Trouble::bad(
            format!("--guest merged with {flag}"),
            reason,
            format!("correct or leave out {flag}"),
        ))
    })
}

fn judge_workers(wishes: &Wishes, switch: Switch<'_>) -> Result<(), Trouble> {
    let foreign = wishes.switch_workers.is_some() && !matches!(switch, Switch::Ours);
    let place = "--switch-workers";
    let reason = "only a switch that is started here as linerate is run by it";
    if foreign { Err(Trouble::bad(place, reason, "leave it out")) } else { Ok(()) }
}

/// A plan's error names its word, why, and behind `; ` what to do.
fn wrong_plan(place: &str, error: &PlanError) -> Trouble {
    let told = error.to_string();
    let (reason, remedy) = told.rsplit_once("; ").unwrap_or((&told, "correct it"));
    Trouble::bad(place, reason, remedy)
}

/// The frames, judged at each size.
fn stream(wishes: &Wishes, plan: &Plan, place: &str) -> Result<Description, Trouble> {
    let file = wishes.stream.clone().unwrap_or_default();
    let mut stream = described(&wishes.set, &file)?;
    stream.flows = wishes.flows.unwrap_or(stream.flows);
    let not_here = [("rate", stream.rate.is_some()), ("pcap", stream.pcap.is_some())];
    if let Some((key, _)) = not_here.into_iter().find(|(_, given)| *given) {
        let reason = format!("`{key}` of the stream is what a benchmark decides itself");
        return Err(Trouble::bad(place, reason, "remove it"));
    }
    for size in &plan.sizes {
        let sized = Description { size: size.clone(), ..stream.clone() };
        sized.plan().map_err(|error| wrong_stream(place, 0, &sized, &error))?;
    }
    Ok(stream)
}

/// The generator's ports: those that are named, or virtio-user ports on sockets of their own.
fn ports(
    wishes: &Wishes,
    topology: Topology,
    switch: Switch<'_>,
    folder: &Folder,
) -> anyhow::Result<Vec<PortSettings>> {
    let flags = wishes.port_flags.iter().map(|port| keys(port)).collect::<Result<Vec<_>, _>>()?;
    let given = if flags.is_empty() { wishes.ports.clone() } else { flags };
    let wanted = if topology == Topology::Loop { 1 } else { 2 };
    if !given.is_empty() {
        if given.len() != wanted {
            let reason = format!("there are {} ports, and {} has {wanted}", given.len(), topology.name());
            return Err(Trouble::bad("--port", reason, "name so many, or none").into());
        }
        return judged_ports(given);
    }
    if matches!(switch, Switch::Merged) {
        return Ok(Vec::new());
    }
    if matches!(switch, Switch::Running) {
        let reason = "a switch that runs already does not know sockets that are made up here";
        return Err(Trouble::bad("--switch running", reason, "name its places with --port").into());
    }
    let mode = match (switch, wishes.sockets.unwrap_or_default()) {
        (Switch::Command(_), Listener::Ours) => "server",
        _ => "client",
    };
    let port = |name: &str| {
        let keys =
            json!({ "name": name, "kind": "virtio-user", "socket": folder.socket(name), "mode": mode });
        keys.as_object().cloned().unwrap_or_default()
    };
    judged_ports(["a", "b"][..wanted].iter().map(|name| port(name)).collect())
}
