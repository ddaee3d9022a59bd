//! Reads each section: keys, types, ranges and defaults. `validate` checks sections against each other and against
//! this machine; `kinds` reads the keys of each kind of port.

use crate::host;
use crate::settings::access::Access;
use crate::settings::bonds::{BondSettings, LacpMode};
use crate::settings::confine::ConfineSettings;
use crate::settings::conntrack::ConntrackSettings;
use crate::settings::control::{ControlAccess, ReadSocket};
use crate::settings::export::ExportSettings;
use crate::settings::flows::FileFlows;
use crate::settings::grants::GrantSettings;
use crate::settings::kinds;
use crate::settings::links::{LinkSettings, StpSettings};
use crate::settings::mirror::MirrorSettings;
use crate::settings::model::RssMode;
use crate::settings::multicast::MulticastSettings;
use crate::settings::openflow::{DatapathId, OpenflowSettings};
use crate::settings::policy::Policy;
use crate::settings::reader::fields::Fields;
use crate::settings::reader::node::{Node, Value};
use crate::settings::reader::notes::{Findings, Section, shortened};
use crate::settings::remote::RemoteSettings;
use crate::settings::topology::{
    BridgeSettings, MacMoves, PipelineKind, PortSettings, Rss, StaticEntry, SwitchSettings, Topology,
    WorkerSettings,
};
use crate::settings::underlay::UnderlaySettings;
use crate::settings::vlan;
use crate::settings::web;
use crate::settings::wrappers::Wrappers;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;
use wire::MacAddress;

/// IEEE 802.1Q table 8-6.
const AGEING: RangeInclusive<Duration> = Duration::from_secs(10)..=Duration::from_secs(1_000_000);
const TABLE: RangeInclusive<i128> = 16..=16_777_216;
/// RFC 791 requires at least 68.
const MTU: RangeInclusive<i128> = 68..=65_535;
const QUEUE_PAIRS: RangeInclusive<i128> = 1..=128;

/// Addresses that a neighbour keeps.
const MAX_ADDRESSES: usize = 8;

/// Name of the default bridge.
const ONLY_BRIDGE: &str = "main";

/// Reads the tree of a whole file.
pub(crate) fn topology(root: &Node, notes: &mut Findings) -> Topology {
    let mut fields = Fields::open(root, Section::File, notes);
    let switch = fields.node("switch");
    let (worker, bridges) = (fields.node("worker"), sections(&mut fields, "bridge"));
    let (ports, grants) = (sections(&mut fields, "port"), sections(&mut fields, "grant"));
    let bonds = sections(&mut fields, "bond");
    let (flows, acl) = (sections(&mut fields, "flow"), sections(&mut fields, "acl"));
    let mirrors = sections(&mut fields, "mirror");
    let underlays = sections(&mut fields, "underlay");
    let (placement, conntrack) = (fields.node("placement"), fields.node("conntrack"));
    fields.finish();
    let (model, workers) = super::workers::read(worker, super::placement::stages_by(placement), notes);
    let mut topology = Topology {
        switch: switch.map(|node| read_switch(node, notes)).unwrap_or_default(),
        model,
        workers,
        placement: placement.map(|node| super::placement::read(node, notes)),
        bridges: bridges.iter().enumerate().map(|(i, node)| read_bridge(node, i, notes)).collect(),
        ports: ports.iter().enumerate().map(|(i, node)| read_port(node, i, notes)).collect(),
        bonds: bonds.iter().enumerate().map(|(i, node)| read_bond(node, i, notes)).collect(),
        grants: grants.iter().enumerate().map(|(i, node)| read_grant(node, i, notes)).collect(),
        flows: FileFlows::read(flows, acl, notes),
        mirrors: mirrors.iter().enumerate().map(|(i, node)| MirrorSettings::read(node, i, notes)).collect(),
        underlays: underlays
            .iter()
            .enumerate()
            .map(|(i, node)| UnderlaySettings::read(node, i, notes))
            .collect(),
        conntrack: conntrack.map(|node| ConntrackSettings::read(node, notes)).unwrap_or_default(),
    };
    complete(&mut topology);
    topology
}

/// Adds the default worker and the default bridge if the file has none, and completes the ports.
fn complete(topology: &mut Topology) {
    if topology.workers.is_empty() {
        topology.workers.push(WorkerSettings::default());
    }
    if topology.bridges.is_empty() {
        topology.bridges.push(BridgeSettings::named(ONLY_BRIDGE));
    }
    for port in &mut topology.ports {
        complete_port(port, &topology.bridges, &topology.switch);
    }
    for bond in &mut topology.bonds {
        complete_bond(bond, &topology.bridges);
    }
    for grant in &mut topology.grants {
        complete_bridge(&mut grant.bridge, &topology.bridges);
    }
    let mirrors = topology.mirrors.iter_mut().map(|mirror| &mut mirror.bridge);
    for underlay in &mut topology.underlays {
        complete_bridge(&mut underlay.bridge, &topology.bridges);
    }
    for bridge in topology.flows.bridges_mut().chain(mirrors) {
        complete_bridge(bridge, &topology.bridges);
    }
}

/// Completes a port: without `bridge` it joins the bridge if there is only one. Unset access to its socket is
/// inherited from the switch.
pub(crate) fn complete_port(port: &mut PortSettings, bridges: &[BridgeSettings], switch: &SwitchSettings) {
    if let Some(access) = port.kind.access_mut() {
        access.complete(&switch.access);
    }
    complete_bridge(&mut port.bridge, bridges);
}

/// Completes a bond: without `bridge` it belongs to the bridge if there is only one. LACP has an address of this
/// system.
pub(super) fn complete_bond(bond: &mut BondSettings, bridges: &[BridgeSettings]) {
    complete_bridge(&mut bond.bridge, bridges);
    if bond.lacp.mode != LacpMode::Off {
        let own = || MacAddress::from_u64(DatapathId::of(&host::id(), &bond.bridge).0);
        bond.lacp.system_id.get_or_insert_with(own);
    }
}

pub(super) fn complete_bridge(name: &mut String, bridges: &[BridgeSettings]) {
    if let (true, [only]) = (name.is_empty(), bridges) {
        name.clone_from(&only.name);
    }
}

/// Returns the sections of `[[key]]`.
fn sections<'a>(fields: &mut Fields<'a, '_>, key: &'static str) -> &'a [Node] {
    match fields.node(key) {
        Some(Node { value: Value::List(list), .. }) => list,
        Some(node) => {
            let reason = format!("`{key}` is {}, not a list of sections", node.kind());
            fields.wrong::<()>(key, reason, format!("write [[{key}]], with two brackets on each side"));
            &[]
        }
        None => &[],
    }
}

fn read_switch(node: &Node, notes: &mut Findings) -> SwitchSettings {
    notes.call(Section::Switch, "switch".to_owned());
    let mut fields = Fields::open(node, Section::Switch, notes);
    let default = SwitchSettings::default();
    let name = fields.text("name").map_or(default.name, str::to_owned);
    let control = fields.text("control").map(PathBuf::from);
    let (control_access, read) = (ControlAccess::read(&mut fields), ReadSocket::read(&mut fields));
    let grants = fields.text("grants").map(PathBuf::from);
    let metrics = fields.address("metrics");
    let (web, web_token_file) = read_web(&mut fields);
    let web_capture = fields.flag("web_capture").unwrap_or_default();
    let rss_modes = [("symmetric", Rss::Symmetric), ("toeplitz", Rss::Toeplitz), ("pair", Rss::Pair)];
    let rss = fields.choice("rss", &rss_modes).unwrap_or_default();
    let access = Access::read(&mut fields);
    let management_addresses = management_addresses(&mut fields);
    let (confine, remote) = (ConfineSettings::read(&mut fields), RemoteSettings::read(&mut fields));
    fields.finish();
    SwitchSettings {
        name,
        control,
        control_access,
        read,
        grants,
        metrics,
        web,
        remote,
        web_token_file,
        web_capture,
        management_addresses,
        rss,
        access,
        confine,
    }
}

/// Reads the address of the web page and the file with its token.
fn read_web(fields: &mut Fields<'_, '_>) -> (Option<SocketAddr>, Option<PathBuf>) {
    let address = fields.address("web");
    if let Some(address) = address.filter(|address| !web::is_allowed(*address)) {
        fields.invalid::<()>("web", format_args!("\"{address}\""), web::EXPECTED, web::REMEDY.to_owned());
    }
    let file = fields.text("web_token_file").map(PathBuf::from);
    if let Some(path) = file.as_ref().filter(|path| !path.is_absolute()) {
        let reason = format!("`web_token_file` {}: the path is not absolute", path.display());
        fields.wrong::<()>("web_token_file", reason, "begin it with /".to_owned());
    }
    (address, file)
}

fn management_addresses(fields: &mut Fields<'_, '_>) -> Vec<IpAddr> {
    let address = |text: &str| {
        text.parse()
            .map_err(|_| format!("`management_addresses` lists \"{text}\", which is not an IP address"))
    };
    let mut addresses = fields.list("management_addresses", address, "[\"192.0.2.1\"]");
    if addresses.len() > MAX_ADDRESSES {
        let reason = format!("`management_addresses` has {} entries", addresses.len());
        fields.wrong::<()>("management_addresses", reason, format!("list at most {MAX_ADDRESSES}"));
        addresses.truncate(MAX_ADDRESSES);
    }
    addresses
}

/// Reads a `[[bridge]]` section.
pub(super) fn read_bridge(node: &Node, index: usize, notes: &mut Findings) -> BridgeSettings {
    let section = Section::Bridge(index);
    let mut fields = open_named(node, section, "bridge", index, notes);
    let name = fields.required("name", "main").to_owned();
    let default = BridgeSettings::named(&name);
    let pipelines = [("learning", PipelineKind::Learning), ("openflow", PipelineKind::Openflow)];
    let pipeline = fields.choice("pipeline", &pipelines).unwrap_or_default();
    let openflow = read_openflow(&mut fields, pipeline);
    let table = fields.number("table", TABLE, "addresses").unwrap_or(default.table);
    let ageing = fields.span_within("ageing", &AGEING).unwrap_or(default.ageing);
    let max_macs_per_port =
        fields.number("max_macs_per_port", 1..=i128::from(table), "addresses, at most the size of the table");
    let forward_reserved = fields.flag("forward_reserved").unwrap_or(default.forward_reserved);
    let mac_moves = fields.choice("mac_moves", &[("guarded", MacMoves::Guarded), ("free", MacMoves::Free)]);
    let dhcp_snooping = fields.flag("dhcp_snooping").unwrap_or(default.dhcp_snooping);
    let stp = StpSettings::read(&mut fields, openflow.is_some());
    let export = ExportSettings::read(&mut fields, index);
    let multicast = MulticastSettings::read(&mut fields, openflow.is_some());
    let statics = sections(&mut fields, "static");
    fields.finish();
    let section = |i| Section::Static(index, i);
    let statics = statics.iter().enumerate();
    let statics = statics.map(|(i, node)| {
        notes.call(section(i), format!("bridge \"{name}\", static entry {i}"));
        read_static(node, section(i), notes)
    });
    let statics = statics.collect();
    let mac_moves = mac_moves.unwrap_or_default();
    BridgeSettings {
        name,
        pipeline,
        openflow,
        ageing,
        table,
        max_macs_per_port,
        forward_reserved,
        mac_moves,
        dhcp_snooping,
        stp,
        export,
        multicast,
        statics,
    }
}

/// Reads the keys that only bridges with flow tables have.
fn read_openflow(fields: &mut Fields<'_, '_>, pipeline: PipelineKind) -> Option<OpenflowSettings> {
    if pipeline == PipelineKind::Openflow {
        return Some(OpenflowSettings::read(fields));
    }
    // The reason is known already if `pipeline` is invalid.
    let is_known = !fields.is_spoiled("pipeline");
    for key in OpenflowSettings::KEYS {
        let reason = format!("`{key}` has no effect: the bridge has no flow tables");
        if is_known {
            fields.foreign(key, reason, "write pipeline = \"openflow\", or remove it");
        } else {
            fields.allow(key);
        }
    }
    None
}

/// Opens a section whose title in errors is its `name`, or its index if it has no valid name.
fn open_named<'a, 'n>(
    node: &'a Node,
    section: Section,
    kind: &str,
    index: usize,
    notes: &'n mut Findings,
) -> Fields<'a, 'n> {
    let name = match &node.value {
        Value::Table(entries) => {
            entries.iter().find(|entry| entry.key == "name").map(|entry| &entry.node.value)
        }
        _ => None,
    };
    let title = match name {
        Some(Value::Text(name)) => format!("{kind} \"{}\"", shortened(name)),
        _ => format!("{kind} {index}"),
    };
    notes.call(section, title);
    Fields::open(node, section, notes)
}

/// Reads a `[[bridge.static]]` section.
pub(crate) fn read_static(node: &Node, section: Section, notes: &mut Findings) -> StaticEntry {
    let mut fields = Fields::open(node, section, notes);
    let text = fields.required("mac", "02:00:00:00:00:01");
    let mac = text.parse::<MacAddress>();
    let mac = match mac {
        Ok(mac) if !mac.is_group() && !mac.is_zero() => Some(mac),
        Ok(mac) => fields.wrong("mac", format!("`mac` {mac} is a group address or zero"), one_station()),
        Err(_) => fields.wrong("mac", format!("`mac` \"{text}\" is not an Ethernet address"), one_station()),
    };
    let entry = StaticEntry {
        mac: mac.unwrap_or(MacAddress::ZERO),
        port: fields.required("port", "guest-a").to_owned(),
        vlan: fields.number("vlan", 0..=*vlan::RANGE.end(), "as a VLAN (0: none)").unwrap_or(0),
    };
    fields.finish();
    entry
}

fn one_station() -> String {
    "write the address of one station, such as 02:00:00:00:00:01".to_owned()
}

/// Reads a `[[port]]` section.
pub(crate) fn read_port(node: &Node, index: usize, notes: &mut Findings) -> PortSettings {
    let section = Section::Port(index);
    let mut fields = open_named(node, section, "port", index, notes);
    let port = PortSettings {
        name: fields.required("name", "guest-a").to_owned(),
        kind: kinds::read(&mut fields),
        queue_pairs: fields.number("queue_pairs", QUEUE_PAIRS, "pairs").unwrap_or(1),
        mtu: fields.number("mtu", MTU, "bytes"),
        bridge: fields.text("bridge").unwrap_or_default().to_owned(),
        policy: Policy::read(&mut fields),
        links: LinkSettings::read(&mut fields),
        rss_mode: fields.choice("rss_mode", &[("queues", RssMode::Queues), ("software", RssMode::Software)]),
        wrappers: Wrappers::read(&mut fields),
    };
    fields.finish();
    port
}

/// Reads a `[[bond]]` section.
pub(super) fn read_bond(node: &Node, index: usize, notes: &mut Findings) -> BondSettings {
    let mut fields = open_named(node, Section::Bond(index), "bond", index, notes);
    let bond = BondSettings::read(&mut fields);
    fields.finish();
    bond
}

/// Reads a `[[grant]]` section.
fn read_grant(node: &Node, index: usize, notes: &mut Findings) -> GrantSettings {
    let section = Section::Grant(index);
    notes.call(section, format!("grant {index}"));
    let mut fields = Fields::open(node, section, notes);
    let grant = GrantSettings::read(&mut fields);
    fields.finish();
    grant
}
