//! Tables of bridges, their spanning trees and controllers.

use crate::dataplane::link_report::{StpPortReport, StpReport};
use crate::dataplane::report::{
    BridgePort, BridgeReport, ControllerReport, ControllerState, MoveEvent, OpenflowReport,
};
use console::table;
use console::units::count;
use std::fmt::Write;

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
