//! Tables of flows, tunnels and connections.

use super::tables::limited;
use crate::api::model::FlowReport;
use crate::dataplane::connections::{ConnectionEnds, ConnectionLimits, ConnectionReport, RefusedConnections};
use crate::dataplane::tunnels::{OptionEntry, TunnelEntry};
use console::table;
use console::units::{bytes, count, scaled};
use std::fmt::Write;

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

/// `linerate tunnels options show`
pub(crate) fn tunnel_options(found: &[OptionEntry]) -> String {
    let rows = found.iter().map(|OptionEntry { bridge, field, class, kind, length }| {
        vec![bridge.clone(), field.clone(), class.clone(), kind.clone(), length.to_string()]
    });
    table(&["BRIDGE", "FIELD", ">CLASS", ">TYPE", ">LENGTH"], rows)
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
    let ConnectionLimits {
        connections,
        max,
        max_per_zone,
        max_per_port,
        replaced,
        refused,
        zones,
        ports,
        ..
    } = limits;
    let or_none = |limit: Option<u32>| limit.map_or_else(|| "none".to_owned(), |limit| limit.to_string());
    let RefusedConnections { total, zone, port } = refused;
    let row = |what: String, used: String, limit: String, refused: String| {
        vec![what, used, limit, String::new(), refused]
    };
    let mut all = row("all".to_owned(), connections.to_string(), max.to_string(), total.to_string());
    all[3] = replaced.to_string();
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
    let mut text = table(&["OF", ">CONNECTIONS", ">LIMIT", ">REPLACED", ">REFUSED"], rows);
    let timeouts = limits.timeouts.iter().map(|(name, timeout)| vec![name.clone(), timeout.clone()]);
    // Writing to a String cannot fail.
    let _ = write!(text, "\n{}", table(&["TIMEOUT", ">AFTER"], timeouts));
    let check = if limits.tcp_window_check { "invalid" } else { "accepted" };
    let _ = write!(text, "\nTCP segments outside of the window are {check}");
    text
}
