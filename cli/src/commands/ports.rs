//! `linerate ports`: each command sends one request and prints the response.

use super::config;
use super::show::ports as tables;
use super::unsaved;
use super::verbs::{changes, with_settings};
use crate::api::client::{Client, quote};
use crate::api::model::PortReport;
use crate::args::switch::{PortsAddArgs, PortsCommand, PortsRemoveArgs, PortsSetArgs, PortsShowArgs};
use crate::dataplane::report::BridgeReport;
use crate::settings::kinds::PortKind;
use crate::settings::section;
use crate::settings::topology::PortSettings;
use serde_json::{Value, json};

/// `linerate ports ...`
pub(crate) fn run(client: &Client, command: &PortsCommand) -> anyhow::Result<()> {
    match command {
        PortsCommand::Show(args) => show(client, args),
        PortsCommand::Add(args) => add(client, args),
        PortsCommand::Set(args) => set(client, args),
        PortsCommand::Remove(args) => remove(client, args),
    }
}

fn path(name: &str) -> String {
    format!("/v1/ports/{}", quote(name))
}

fn set(client: &Client, args: &PortsSetArgs) -> anyhow::Result<()> {
    let body = changes(&args.keys)?;
    config::print(&client.patient().patch(&path(&args.name), &body)?, args.show.output)?;
    unsaved::changed(client, args.save)
}

fn remove(client: &Client, args: &PortsRemoveArgs) -> anyhow::Result<()> {
    let port: PortSettings = client.delete(&path(&args.name))?;
    console::print(&port, args.show.output, |port| format!("removed {port}"))?;
    unsaved::removed(client, args.save, "port")
}

fn show(client: &Client, args: &PortsShowArgs) -> anyhow::Result<()> {
    if let Some(name) = &args.name {
        let port: PortReport = client.get(&path(name))?;
        let bridges: Vec<BridgeReport> = client.get("/v1/bridges")?;
        let addresses = bridges.iter().flat_map(|bridge| &bridge.ports).find(|other| other.port == *name);
        return console::print(&port, args.show.output, |port| tables::port(port, addresses));
    }
    let ports: Vec<PortReport> = client.get("/v1/ports")?;
    console::print(&ports, args.show.output, |ports| tables::ports(ports))
}

fn add(client: &Client, args: &PortsAddArgs) -> anyhow::Result<()> {
    let port: PortReport = client.patient().post("/v1/ports", &request(args)?)?;
    let section = unsaved::section(args.save, "port", "", &section::of("port", &port.settings)?);
    console::print(&port, args.show.output, |port| {
        let settings = &port.settings;
        format!("added {settings}, bridge {}{section}", settings.bridge)
    })?;
    note_absent_peer(client, &port.settings)?;
    unsaved::added(client, args.save)
}

/// Says that a patch port waits for a port that does not exist yet. The port itself reports it after a second.
fn note_absent_peer(client: &Client, port: &PortSettings) -> anyhow::Result<()> {
    let PortKind::Patch(patch) = &port.kind else { return Ok(()) };
    let ports: Vec<PortReport> = client.get("/v1/ports")?;
    if ports.iter().all(|other| other.settings.name != patch.peer) {
        console::note(&format!("port {} waits until its peer, port {}, is added", port.name, patch.peer));
    }
    Ok(())
}

/// Request body: the given options under their names in the configuration file.
fn request(args: &PortsAddArgs) -> anyhow::Result<Value> {
    let vlan = match (args.vlan, args.trunk.as_slice(), args.native) {
        (Some(vlan), ..) => json!(vlan),
        (None, [], _) => Value::Null,
        (None, trunk, None) => json!({ "trunk": trunk }),
        (None, trunk, Some(native)) => json!({ "trunk": trunk, "native": native }),
    };
    let fields = [
        ("name", json!(args.name)),
        ("socket", json!(args.socket.as_ref().map(std::path::absolute).transpose()?)),
        ("kind", json!(args.kind)),
        ("mode", json!(args.mode)),
        ("bridge", json!(args.bridge)),
        ("queue_pairs", json!(args.queue_pairs)),
        ("ring", json!(args.ring)),
        ("queue_size", json!(args.queue_size)),
        ("mergeable", json!(args.mergeable)),
        ("mtu", json!(args.mtu)),
        ("vlan", vlan),
        ("broadcast_limit", json!(args.broadcast_limit)),
        ("unknown_limit", json!(args.unknown_limit)),
        ("trusted", args.trusted.then_some(true).into()),
        ("macs", listed(&args.macs)),
        ("learn", json!(args.learn)),
        ("max_macs", json!(args.max_macs)),
        ("sources", listed(&args.sources)),
    ];
    let given = fields.into_iter().filter(|(_, value)| !value.is_null());
    let body = given.map(|(key, value)| (key.to_owned(), value)).collect();
    Ok(with_settings(body, &args.set)?)
}

/// The list, or null if it is empty.
fn listed(list: &[String]) -> Value {
    if list.is_empty() { Value::Null } else { json!(list) }
}
