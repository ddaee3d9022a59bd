//! One table per response.

use crate::api::model::{FdbReport, FlowReport, PortReport, Status, Traffic, WorkersReport};
use crate::dataplane::connections::{ConnectionEnds, ConnectionLimits, ConnectionReport, RefusedConnections};
use crate::dataplane::flow_report::FlowCounts;
use crate::dataplane::link_report::{StpPortReport, StpReport};
use crate::dataplane::report::{
    BridgePort, BridgeReport, ControllerReport, ControllerState, MoveEvent, OpenflowReport, Origin,
};
use crate::dataplane::tunnels::TunnelEntry;
use console::table;
use console::units::{bytes, count, duration, percent, ratio, scaled};
use engine::{PortEvent, PortSnapshot};
use std::collections::BTreeMap;
use std::fmt::Write;

/// `linerate status`
pub(crate) fn status(status: &Status) -> String {
    let Traffic { rx_packets, rx_bytes, tx_packets, tx_bytes, replicated, punted, drops } = &status.traffic;
    let mut text = format!(
        "switch    {} (linerate {}, process {}), up {}\n\
         workers   {}{}, {} asleep; copies with {}\n\
         ports     {}, {} connected\n\
         in        {} packets, {}\n\
         out       {} packets, {}; {} copies made by flooding, {} packets to control\n\
         lost      {}\n",
        status.name,
        status.version,
        status.pid,
        duration(status.uptime_ns),
        status.workers,
        roles(&status.roles),
        status.sleeping,
        status.kernel,
        status.ports,
        status.connected,
        count(*rx_packets),
        bytes(*rx_bytes),
        count(*tx_packets),
        bytes(*tx_bytes),
        count(*replicated),
        count(*punted),
        reasons(drops),
    );
    for bridge in &status.bridges {
        let (used, ports) = (bridge.addresses, bridge.ports.join(", "));
        // Writing to a String cannot fail.
        let _ =
            writeln!(text, "bridge    {}: {used} of {} addresses; ports {ports}", bridge.name, bridge.table);
        if let Some(counts) = &bridge.flows {
            text.push_str(&flow_counts(counts));
        }
    }
    text
}

/// Counters of the flow tables of a bridge, in one line.
fn flow_counts(counts: &FlowCounts) -> String {
    let FlowCounts { flows, head, megaflow, tables, drops } = counts;
    let drops =
        drops.iter().map(|drop| format!("; table {} {} {}", drop.table, drop.reason, count(drop.packets)));
    let drops: String = drops.collect();
    let found = [("head cache", head), ("megaflow cache", megaflow), ("tables", tables)];
    let found = found.map(|(place, packets)| format!("{} in {place}", count(*packets))).join(", ");
    format!("          {} flows; packets found: {found}{drops}\n", count(*flows as u64))
}

/// Number of workers per role: ` (1 rx, 2 work)`; empty if there are no roles.
fn roles(roles: &BTreeMap<String, usize>) -> String {
    let each: Vec<String> = roles.iter().map(|(role, workers)| format!("{workers} {role}")).collect();
    if each.is_empty() { String::new() } else { format!(" ({})", each.join(", ")) }
}

/// Dropped packets by reason, in one line.
pub(crate) fn reasons(drops: &BTreeMap<String, u64>) -> String {
    let each: Vec<String> =
        drops.iter().map(|(reason, packets)| format!("{reason} {}", count(*packets))).collect();
    if each.is_empty() { "nothing".to_owned() } else { each.join(", ") }
}

/// `linerate ports show`
pub(crate) fn ports(ports: &[PortReport]) -> String {
    let titles =
        ["PORT", "STATE", "BRIDGE", "KIND", ">QUEUES", ">IN", ">BYTES", ">OUT", ">BYTES", ">LOST", "PLACE"];
    let row = |port: &PortReport| {
        let (settings, live) = (&port.settings, port.live.as_ref());
        let number = |read: fn(&PortSnapshot) -> u64| live.map_or_else(String::new, |live| count(read(live)));
        let volume = |read: fn(&PortSnapshot) -> u64| live.map_or_else(String::new, |live| bytes(read(live)));
        vec![
            settings.name.clone(),
            live.map_or("starting", |live| &live.state).to_owned(),
            settings.bridge.clone(),
            settings.kind.name().to_owned(),
            number(|live| live.queues.iter().filter(|queue| queue.rx_running).count() as u64),
            number(|live| live.rx_packets),
            volume(|live| live.rx_bytes),
            number(|live| live.tx_packets),
            volume(|live| live.tx_bytes),
            number(|live| live.drops.values().sum()),
            settings.kind.place(),
        ]
    };
    let reasons = ports.iter().filter_map(|port| {
        let (live, name) = (port.live.as_ref()?, &port.settings.name);
        let reason = live.reason.as_ref().map(|reason| format!("\n{name}: {reason}"));
        let lost = (!live.drops.is_empty()).then(|| format!("\n{name}: lost {}", reasons(&live.drops)));
        Some(reason.unwrap_or_default() + &lost.unwrap_or_default())
    });
    table(&titles, ports.iter().map(row)) + &reasons.collect::<String>()
}

/// `linerate ports show NAME`
pub(crate) fn port(report: &PortReport) -> String {
    let mut lines = vec![format!("{}, bridge {}", report.settings, report.settings.bridge)];
    lines.extend(report.stp.iter().map(port_in_tree));
    lines.extend(report.live.iter().flat_map(live));
    lines.join("\n")
}

/// State of a port in its spanning tree, in one line.
fn port_in_tree(stp: &StpPortReport) -> String {
    let StpPortReport { role, state, cost, designated_bridge, version, .. } = stp;
    let reason = stp.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    format!(
        "spanning tree: {role}, {state}{reason}; cost {cost}, designated bridge {designated_bridge}, {version}"
    )
}

fn live(live: &PortSnapshot) -> Vec<String> {
    let reason = live.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    let mut rows = vec![
        ("state".to_owned(), format!("{}{reason}; connected {} times", live.state, live.connects)),
        ("memory".to_owned(), format!("{} regions, {}", live.memory_regions, bytes(live.memory_bytes))),
        ("in".to_owned(), format!("{} packets, {}", live.rx_packets, bytes(live.rx_bytes))),
        ("out".to_owned(), format!("{} packets, {}", live.tx_packets, bytes(live.tx_bytes))),
        ("lost".to_owned(), reasons(&live.drops)),
        ("features".to_owned(), features(live)),
    ];
    rows.extend(live.details.iter().map(|(name, value)| (name.clone(), value.clone())));
    let running = |yes| if yes { "runs" } else { "stopped" };
    rows.extend(live.queues.iter().enumerate().map(|(i, queue)| {
        let (rx, tx) = (running(queue.rx_running), running(queue.tx_running));
        (format!("pair {i}"), format!("{} entries; receive {rx}, transmit {tx}", queue.size))
    }));
    rows.extend(
        live.history
            .iter()
            .enumerate()
            .map(|(i, event)| (if i == 0 { "history" } else { "" }.to_owned(), happened(event))),
    );
    let width = rows.iter().map(|(label, _)| label.chars().count()).max().unwrap_or(0) + 2;
    rows.iter().map(|(label, value)| format!("{label:<width$}{value}")).collect()
}

/// A change of the state with its time, and its reason in parentheses.
fn happened(event: &PortEvent) -> String {
    let reason = event.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    format!("{} {}{reason}", event.time, event.state)
}

fn features(live: &PortSnapshot) -> String {
    if live.features.is_empty() { "none negotiated".to_owned() } else { live.features.join(" ") }
}

/// `linerate bridges show`
pub(crate) fn bridges(bridges: &[BridgeReport]) -> String {
    let titles = [
        "BRIDGE",
        "PORT",
        ">LEARNED",
        ">MOST",
        ">STATIC",
        ">NOT LEARNED",
        ">DEFERRED",
        ">MOVES",
        ">REFUSED MOVES",
    ];
    let row = |bridge: &BridgeReport, port: &BridgePort| {
        let numbers = [u64::from(port.learned), port.max_macs.into(), port.pinned.into(), port.not_learned];
        let events = [port.deferred, port.moves, port.refused_moves];
        let numbers = numbers.into_iter().chain(events).map(count);
        [bridge.name.clone(), port.port.clone()].into_iter().chain(numbers).collect()
    };
    let rows = bridges.iter().flat_map(|bridge| bridge.ports.iter().map(|port| row(bridge, port)));
    let events = bridges.iter().flat_map(|bridge| bridge.refused_moves.iter().map(refused_move));
    let controllers =
        bridges.iter().filter_map(|bridge| Some(openflow(&bridge.name, bridge.openflow.as_ref()?)));
    let trees = bridges.iter().filter_map(|bridge| Some(tree(bridge, bridge.stp.as_ref()?)));
    let parts = std::iter::once(table(&titles, rows)).chain(events).chain(controllers).chain(trees);
    parts.collect::<Vec<_>>().join("\n")
}

/// The spanning tree of a bridge: a line for the bridge, and a table of its ports.
fn tree(bridge: &BridgeReport, stp: &StpReport) -> String {
    let StpReport { protocol, id, root, root_cost, topology_changes, .. } = stp;
    let root = match &stp.root_port {
        None => "is the root".to_owned(),
        Some(port) => format!("root {root} behind port {port}, cost {root_cost}"),
    };
    let line =
        format!("\n{}: {protocol}, bridge {id}, {root}; {topology_changes} topology changes\n", bridge.name);
    let titles = ["PORT", "ROLE", "STATE", ">COST", "DESIGNATED BRIDGE", "VERSION", ">RECEIVED", ">SENT"];
    let ports = || bridge.ports.iter().filter_map(|port| Some((&port.port, port.stp.as_ref()?)));
    let row = |(name, stp): (&String, &StpPortReport)| {
        let edge = if stp.edge { " (edge)" } else { "" };
        let texts = [name.clone(), format!("{}{edge}", stp.role), stp.state.clone(), stp.cost.to_string()];
        let others =
            [stp.designated_bridge.clone(), stp.version.clone(), count(stp.received), count(stp.sent)];
        texts.into_iter().chain(others).collect()
    };
    let reasons = ports().filter_map(|(name, stp)| Some(format!("{name}: {}\n", stp.reason.as_ref()?)));
    line + &table(&titles, ports().map(row)) + &reasons.collect::<String>()
}

/// The controllers of a bridge, a line each.
fn openflow(bridge: &str, openflow: &OpenflowReport) -> String {
    let OpenflowReport { datapath_id, management, standalone, controllers } = openflow;
    let mut text = format!("\n{bridge}: datapath {datapath_id}");
    if let Some(path) = management {
        // Writing to a String cannot fail.
        let _ = write!(text, ", ovs-ofctl at unix:{path}");
    }
    if *standalone {
        text.push_str("; forwards as a learning bridge, because no controller is connected");
    }
    for controller in controllers {
        let _ = write!(text, "\n  {}: {}", controller.target, state(controller));
    }
    text
}

/// The state of a controller: `connected for 5 s, OpenFlow 1.3, primary`.
fn state(controller: &ControllerReport) -> String {
    let ControllerReport { state, seconds, retry_in, sessions, auxiliary, role, version, last_error, .. } =
        controller;
    let mut text = match state {
        ControllerState::Connecting => "connecting".to_owned(),
        ControllerState::Listening => "listening".to_owned(),
        ControllerState::Waiting => format!("connects again in {} s", retry_in.unwrap_or(0)),
        ControllerState::Connected => format!("connected for {seconds} s"),
    };
    let details = [version, role].into_iter().flatten();
    details.for_each(|detail| text.extend([", ", detail.as_str()]));
    if *sessions > 1 {
        let _ = write!(text, ", {sessions} sessions");
    }
    if *auxiliary > 0 {
        let _ = write!(text, ", {auxiliary} auxiliary");
    }
    if let Some(error) = last_error.as_ref().filter(|_| *state != ControllerState::Connected) {
        let _ = write!(text, " (last error: {error})");
    }
    text
}

fn refused_move(event: &MoveEvent) -> String {
    let MoveEvent { mac, vlan, old_port, new_port, age } = event;
    let vlan = if *vlan == 0 { String::new() } else { format!(" in VLAN {vlan}") };
    format!(
        "{age} s ago: {mac}{vlan} sent from port {new_port} while in use at port {old_port}; it was not moved"
    )
}

/// `linerate workers show`
pub(crate) fn workers(report: &WorkersReport) -> String {
    let titles = [
        ">WORKER",
        ">CPU",
        "ROLE",
        "STATE",
        ">QUEUES",
        ">BUSY %",
        ">EMPTY %",
        ">CYCLES/PACKET",
        ">PACKETS/BURST",
        ">PACKETS",
        ">CARRIED",
        ">SKIPPED",
        ">SLEEPS",
    ];
    let rows = report.workers.iter().map(|worker| {
        vec![
            worker.index.to_string(),
            worker.cpu.map_or("any".to_owned(), |cpu| cpu.to_string()),
            worker.role.clone(),
            if worker.sleeping { "asleep" } else { "polling" }.to_owned(),
            worker.queues.to_string(),
            percent(worker.busy_cycles, worker.busy_cycles + worker.idle_cycles),
            percent(worker.empty_polls, worker.polls),
            ratio(worker.busy_cycles, worker.packets),
            ratio(worker.packets, worker.bursts),
            count(worker.packets),
            count(worker.carried_turns),
            count(worker.skipped_turns),
            count(worker.sleeps),
        ]
    });
    let budget = report.budget;
    format!(
        "{}A turn of a receive queue takes at most {} units of work; the rest is carried over and continues with {} per turn.\n\
         A queue that has used {} more than another queue with packets is skipped.\n",
        table(&titles, rows),
        budget.turn,
        budget.slice,
        budget.lead
    )
}

/// `linerate fdb show`
pub(crate) fn fdb(report: &FdbReport) -> String {
    let rows = report.entries.iter().map(|entry| {
        vec![
            entry.bridge.clone(),
            if entry.vlan == 0 { "-".to_owned() } else { entry.vlan.to_string() },
            entry.mac.to_string(),
            entry.port.clone(),
            match entry.origin {
                Origin::Static => "static".to_owned(),
                Origin::Learned => "learned".to_owned(),
            },
            entry.age.map_or("-".to_owned(), |seconds| format!("{seconds} s")),
        ]
    });
    let text = table(&["BRIDGE", ">VLAN", "ADDRESS", "PORT", "ORIGIN", ">AGE"], rows);
    limited(text, report.entries.len(), report.total)
}

/// A table of `shown` entries, and how many of `total` it leaves out.
fn limited(text: String, shown: usize, total: usize) -> String {
    match total.saturating_sub(shown) {
        0 => text,
        more => format!("{text}\n... and {more} more; --limit shows more of them"),
    }
}

/// `linerate flows show`
pub(crate) fn flows(report: &FlowReport) -> String {
    let rows = report.flows.iter().map(|flow| {
        let numbers = [flow.table.to_string(), flow.priority.to_string(), count(flow.packets)];
        let texts = [&flow.cookie, &flow.matching, &flow.actions].map(Clone::clone);
        let rates = flow.rate.map(|rate| [scaled(rate.packets), scaled(rate.bits)]);
        let rest = [bytes(flow.bytes), format!("{} s", flow.age)];
        let rates = rates.into_iter().flatten();
        let bridge = [flow.bridge.clone()].into_iter();
        bridge.chain(numbers).chain(rest).chain(rates).chain(texts).collect()
    });
    let has_rates = report.flows.iter().any(|flow| flow.rate.is_some());
    let rates: &[&str] = if has_rates { &[">PACKETS/S", ">BIT/S"] } else { &[] };
    let counters = ["BRIDGE", ">TABLE", ">PRIORITY", ">PACKETS", ">BYTES", ">AGE"];
    let titles = [&counters, rates, &["COOKIE", "MATCH", "ACTIONS"]].concat();
    limited(table(&titles, rows), report.flows.len(), report.total)
}

/// `linerate tunnels show`
pub(crate) fn tunnels(found: &[TunnelEntry]) -> String {
    let rows = found.iter().map(|entry| {
        let number = |n: u64| n.to_string();
        vec![
            entry.port.clone(),
            entry.bridge.clone(),
            entry.number.to_string(),
            entry.protocol.clone(),
            entry.remote.clone(),
            if entry.key.is_empty() { "-".to_owned() } else { entry.key.clone() },
            entry.mtu.map_or_else(|| "-".to_owned(), |mtu| mtu.to_string()),
            number(entry.rx_packets),
            number(entry.rx_bytes),
            number(entry.tx_packets),
            number(entry.tx_bytes),
            entry.reason.clone().unwrap_or_default(),
        ]
    });
    let titles = [
        "PORT",
        "BRIDGE",
        ">NUMBER",
        "PROTOCOL",
        "REMOTE",
        "KEY",
        ">MTU",
        ">RX",
        ">RX-BYTES",
        ">TX",
        ">TX-BYTES",
        "REASON",
    ];
    table(&titles, rows)
}

/// `linerate ct show`
pub(crate) fn connections(report: &ConnectionReport) -> String {
    let ends = |ends: &ConnectionEnds| {
        let ConnectionEnds { source, source_port, destination, destination_port } = ends;
        format!("{source} {source_port} > {destination} {destination_port}")
    };
    let rows = report.connections.iter().map(|entry| {
        vec![
            entry.protocol.to_string(),
            entry.zone.to_string(),
            ends(&entry.original),
            ends(&entry.reply),
            entry.state.clone(),
            format!("{:#x}", entry.mark),
            format!("{} s", entry.timeout),
        ]
    });
    let titles = [">PROTOCOL", ">ZONE", "ORIGINAL", "REPLY", "STATE", ">MARK", ">TIMEOUT"];
    limited(table(&titles, rows), report.connections.len(), report.total)
}

/// `linerate ct limits show`
pub(crate) fn connection_limits(limits: &ConnectionLimits) -> String {
    let ConnectionLimits { connections, max, max_per_zone, max_per_port, refused, zones, ports, timeouts } =
        limits;
    let or_none = |limit: Option<u32>| limit.map_or_else(|| "none".to_owned(), |limit| limit.to_string());
    let RefusedConnections { total, zone, port } = refused;
    let row = |what: String, used: String, limit: String, refused: String| vec![what, used, limit, refused];
    let all = row("all".to_owned(), connections.to_string(), max.to_string(), total.to_string());
    let every_zone = row("each zone".to_owned(), String::new(), or_none(*max_per_zone), zone.to_string());
    let every_port = row("each port".to_owned(), String::new(), max_per_port.to_string(), port.to_string());
    let zones = zones.iter().map(|of| {
        let limit = of.max.or(*max_per_zone);
        row(format!("zone {}", of.zone), of.connections.to_string(), or_none(limit), String::new())
    });
    let ports = ports.iter().map(|of| {
        row(format!("port {}", of.port), of.connections.to_string(), max_per_port.to_string(), String::new())
    });
    let rows = [all, every_zone].into_iter().chain(zones).chain([every_port]).chain(ports);
    let mut text = table(&["OF", ">CONNECTIONS", ">LIMIT", ">REFUSED"], rows);
    let timeouts = timeouts.iter().map(|(name, timeout)| vec![name.clone(), timeout.clone()]);
    // Writing to a String cannot fail.
    let _ = write!(text, "\n{}", table(&["TIMEOUT", ">AFTER"], timeouts));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_a_port_begin_in_one_column_behind_the_longest_label() {
        let details = [("capture-ended".to_owned(), "No space left".to_owned())].into();
        let lines = live(&PortSnapshot { details, state: "waiting".to_owned(), ..PortSnapshot::default() });
        assert_eq!(lines[0], "state          waiting; connected 0 times");
        assert!(lines.contains(&"capture-ended  No space left".to_owned()), "{lines:?}");
    }

    #[test]
    fn refused_moves_name_both_ports() {
        let (old_port, new_port) = ("a".to_owned(), "b".to_owned());
        let mac = wire::MacAddress::new([2, 0, 0, 0, 0, 1]);
        let refused_moves = vec![MoveEvent { mac, vlan: 5, old_port, new_port, age: 3 }];
        let (name, ports) = ("main".to_owned(), Vec::new());
        let text = bridges(&[BridgeReport {
            name,
            addresses: 0,
            table: 16,
            ports,
            refused_moves,
            openflow: None,
            stp: None,
        }]);
        let expected =
            "3 s ago: 02:00:00:00:00:01 in VLAN 5 sent from port b while in use at port a; it was not moved";
        assert_eq!(text.lines().last(), Some(expected));
    }

    #[test]
    fn controllers_follow_the_ports_of_a_bridge() {
        let controller = |state, last_error: Option<&str>| ControllerReport {
            target: "tcp:192.0.2.1:6653".to_owned(),
            state,
            seconds: 61,
            retry_in: Some(4),
            sessions: 1,
            auxiliary: 0,
            role: last_error.is_none().then(|| "primary".to_owned()),
            version: last_error.is_none().then(|| "OpenFlow 1.3".to_owned()),
            received: 0,
            sent: 0,
            discarded: 0,
            last_error: last_error.map(str::to_owned),
        };
        let controllers = vec![
            controller(ControllerState::Connected, None),
            controller(ControllerState::Waiting, Some("gone")),
        ];
        let management = Some("/run/linerate/br0.mgmt".to_owned());
        let report =
            OpenflowReport { datapath_id: "ab".to_owned(), management, standalone: false, controllers };
        let expected = "\nbr0: datapath ab, ovs-ofctl at unix:/run/linerate/br0.mgmt\n  \
            tcp:192.0.2.1:6653: connected for 61 s, OpenFlow 1.3, primary\n  \
            tcp:192.0.2.1:6653: connects again in 4 s (last error: gone)";
        assert_eq!(openflow("br0", &report), expected);
    }

    #[test]
    fn a_connected_port_shows_earlier_reasons_in_its_history_only() {
        let event = |second: u8, state: &str, reason: Option<&str>| PortEvent {
            time: format!("2026-11-24T09:52:0{second}.000Z"),
            state: state.to_owned(),
            reason: reason.map(str::to_owned),
        };
        let history = vec![event(1, "faulted", Some("gone")), event(2, "connected", None)];
        let lines = live(&PortSnapshot { history, state: "connected".to_owned(), ..PortSnapshot::default() });
        assert_eq!(lines[0], "state     connected; connected 0 times");
        let shown = &lines[lines.len() - 2..];
        let expected = [
            "history   2026-11-24T09:52:01.000Z faulted (gone)",
            "          2026-11-24T09:52:02.000Z connected",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn the_table_of_ports_has_bytes_and_reasons() {
        let settings = serde_json::json!({ "name": "a", "kind": "null", "queue_pairs": 1, "bridge": "main" });
        let drops = [("no-buffer".to_owned(), 7)].into();
        let live = PortSnapshot {
            rx_bytes: 2048,
            drops,
            reason: Some("gone".to_owned()),
            ..PortSnapshot::default()
        };
        let ports =
            [PortReport { settings: serde_json::from_value(settings).unwrap(), live: Some(live), stp: None }];
        let text = super::ports(&ports);
        assert!(text.contains("2.00 KiB") && text.ends_with("\na: gone\na: lost no-buffer 7"), "{text}");
    }
}
