//! Setup of a benchmark: the generator's ports, the switch and the guest, built from the options and validated
//! (`validate`) before anything is started.
//!
//! Our own switch gets a configuration that mirrors the generator's ports. In `phy-vm-phy` it has two bridges, so
//! that frames must pass through the guest, which bridges two virtio-user ports, as a second process of this program
//! or in the generator's thread. In `loop` the guest reflects frames.

use super::child::Start;
use super::folder::Folder;
use super::parts::{Guest, Parts};
use super::subject::Switch;
use super::validate;
use super::workers::workers;
use crate::args::bench_options::{BenchOptions, Listener, OwnGuest};
use crate::commands::generate::input::{KEYS_OF_A_STREAM, apply, keys, validated_ports, wrong_stream};
use crate::remedy;
use crate::settings::topology::PortSettings;
use console::Diagnostic;
use generator::Description;
use rfc2544::{CpuSet, Plan, Setup, Topology};
use serde_json::json;
use std::time::Duration;

/// A validated benchmark.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) plan: Plan,
    pub(super) setup: Setup,
    pub(super) stream: Description,
    pub(super) ports: Vec<PortSettings>,
    pub(super) switch: Option<Start>,
    pub(super) guest: Option<Guest>,
    pub(super) cpus: CpuSet,
    pub(super) timeout: Duration,
    pub(super) folder: Folder,
    /// Whether the switch runs in the generator's thread, with its own ports.
    pub(super) inline: bool,
}

/// Builds a benchmark from the options. Starts nothing.
pub(super) fn job(options: &BenchOptions, place: &str) -> anyhow::Result<Job> {
    let plan = options.plan();
    plan.validate().map_err(|error| remedy::invalid(place, &error, "correct it"))?;
    let stream = stream(options, &plan, place)?;
    validate::cpus(options)?;
    validate::timeout(options)?;
    let folder = Folder::new()?;
    let topology = options.topology.unwrap_or_default();
    let switch = Switch::of(options);
    validate_inline(options, topology, switch)?;
    validate_workers(options, switch)?;
    validate_guest(options, topology)?;
    let ports = ports(options, topology, switch, &folder)?;
    let workers = workers(options)?;
    let parts = Parts { options, topology, switch, ports: &ports, folder: &folder, workers };
    validate::uses(options, switch, parts.has_guest())?;
    let inline = matches!(switch, Switch::Inline);
    let (switch, switch_ports) = parts.switch()?;
    let guest = parts.guest()?;
    let setup = parts.setup(&stream, guest.is_some(), &switch_ports);
    let cpus = CpuSet { generator: options.cpu, switch: options.switch_cpu, guest: options.guest_cpu };
    Ok(Job { plan, setup, stream, ports, switch, guest, cpus, timeout: options.timeout(), folder, inline })
}

/// Rejects options that an inline switch cannot use: it has no other thread and no configurable ports.
fn validate_inline(options: &BenchOptions, topology: Topology, switch: Switch<'_>) -> Result<(), Diagnostic> {
    let given = !(options.ports.is_empty() && options.port_flags.is_empty());
    let not_here = [
        ("--topology", topology != Topology::VmVm),
        ("--port", given),
        ("--switch-cpu", options.switch_cpu.is_some()),
    ];
    let wrong = not_here.into_iter().find(|(_, wrong)| *wrong && matches!(switch, Switch::Inline));
    wrong.map_or(Ok(()), |(flag, _)| {
        let reason = "an inline switch has two ports and runs on the generator's CPU";
        Err(Diagnostic::bad(format!("--switch inline with {flag}"), reason, format!("leave out {flag}")))
    })
}

/// Rejects options that an inline guest cannot use: it forwards or reflects, on the generator's CPU.
fn validate_guest(options: &BenchOptions, topology: Topology) -> Result<(), Diagnostic> {
    let not_here = [("--topology", topology == Topology::VmVm), ("--guest-cpu", options.guest_cpu.is_some())];
    let inline = options.guest == Some(OwnGuest::Inline);
    let wrong = not_here.into_iter().find(|(_, wrong)| inline && *wrong);
    wrong.map_or(Ok(()), |(flag, _)| {
        let reason = "an inline guest forwards (phy-vm-phy) or reflects (loop), on the generator's CPU";
        Err(Diagnostic::bad(
            format!("--guest inline with {flag}"),
            reason,
            format!("correct or leave out {flag}"),
        ))
    })
}

fn validate_workers(options: &BenchOptions, switch: Switch<'_>) -> Result<(), Diagnostic> {
    let foreign = options.switch_workers.is_some() && !matches!(switch, Switch::Ours);
    let place = "--switch-workers";
    let reason = "this option applies only to the built-in switch";
    if foreign { Err(Diagnostic::bad(place, reason, "leave it out")) } else { Ok(()) }
}

/// The stream, validated with each frame size.
fn stream(options: &BenchOptions, plan: &Plan, place: &str) -> Result<Description, Diagnostic> {
    let mut stream = Description::default();
    for (key, value) in &options.stream {
        let set = stream.set(key, value.clone());
        set.map_err(|error| remedy::invalid(format!("{place}, [stream]"), &error, KEYS_OF_A_STREAM))?;
    }
    apply(&options.set, &mut stream)?;
    stream.flows = options.flows.unwrap_or(stream.flows);
    let not_here = [("rate", stream.rate.is_some()), ("pcap", stream.pcap.is_some())];
    if let Some((key, _)) = not_here.into_iter().find(|(_, given)| *given) {
        let reason = format!("`{key}` of the stream is set by the benchmark");
        return Err(Diagnostic::bad(place, reason, "remove it"));
    }
    for size in &plan.sizes {
        let sized = Description { size: size.clone(), ..stream.clone() };
        sized.plan().map_err(|error| wrong_stream(place, 0, &sized, &error))?;
    }
    Ok(stream)
}

/// The generator's ports: those configured, or virtio-user ports on generated sockets.
fn ports(
    options: &BenchOptions,
    topology: Topology,
    switch: Switch<'_>,
    folder: &Folder,
) -> anyhow::Result<Vec<PortSettings>> {
    let flags = options.port_flags.iter().map(|port| keys(port)).collect::<Result<Vec<_>, _>>()?;
    let given = if flags.is_empty() { options.ports.clone() } else { flags };
    let wanted = if topology == Topology::Loop { 1 } else { 2 };
    if !given.is_empty() {
        if given.len() != wanted {
            let reason = format!("there are {} ports, and {} has {wanted}", given.len(), topology.name());
            return Err(Diagnostic::bad("--port", reason, "name as many, or none").into());
        }
        return validated_ports(given);
    }
    if matches!(switch, Switch::Inline) {
        return Ok(Vec::new());
    }
    if matches!(switch, Switch::Running) {
        let reason = "a running switch has no ports for temporary sockets";
        return Err(Diagnostic::bad(
            "--switch running",
            reason,
            "name its sockets or interfaces with --port",
        )
        .into());
    }
    let mode = match (switch, options.sockets.unwrap_or_default()) {
        (Switch::Command(_), Listener::Ours) => "server",
        _ => "client",
    };
    let port = |name: &str| {
        let keys =
            json!({ "name": name, "kind": "virtio-user", "socket": folder.socket(name), "mode": mode });
        keys.as_object().cloned().unwrap_or_default()
    };
    validated_ports(["a", "b"][..wanted].iter().map(|name| port(name)).collect())
}
