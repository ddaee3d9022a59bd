//! Tables of ports.

use super::tables::reasons;
use crate::api::model::PortReport;
use crate::dataplane::link_report::StpPortReport;
use crate::dataplane::report::BridgePort;
use console::table;
use console::units::{bytes, count, nanoseconds};
use engine::{DepthSnapshot, LatencySnapshot, PortEvent, PortSnapshot, RingDepthSnapshot};

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
pub(crate) fn port(report: &PortReport, addresses: Option<&BridgePort>) -> String {
    let mut lines = vec![format!("{}, bridge {}", report.settings, report.settings.bridge)];
    lines.extend(report.stp.iter().map(port_in_tree));
    lines.extend(report.live.iter().flat_map(|port| live(port, addresses)));
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

fn live(live: &PortSnapshot, addresses: Option<&BridgePort>) -> Vec<String> {
    let reason = live.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    let mut rows = vec![
        ("state".to_owned(), format!("{}{reason}; connected {} times", live.state, live.connects)),
        ("memory".to_owned(), format!("{} regions, {}", live.memory_regions, bytes(live.memory_bytes))),
        ("in".to_owned(), format!("{} packets, {}", live.rx_packets, bytes(live.rx_bytes))),
        ("out".to_owned(), format!("{} packets, {}", live.tx_packets, bytes(live.tx_bytes))),
        ("lost".to_owned(), reasons(&live.drops)),
        ("features".to_owned(), features(live)),
    ];
    rows.extend(live.latency.iter().map(|latency| ("latency".to_owned(), latencies(latency))));
    rows.extend(live.depth.iter().map(|depth| ("waiting".to_owned(), waiting(*depth))));
    rows.extend(live.transmit_depth.iter().map(|depth| ("unreturned".to_owned(), unreturned(*depth))));
    rows.extend(addresses.map(|port| ("addresses".to_owned(), learned(port))));
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

/// Addresses that a bridge has learned at a port, and those that it has not because of a limit.
fn learned(port: &BridgePort) -> String {
    let BridgePort { learned, max_macs, pinned, not_learned, .. } = port;
    format!("{learned} learned of at most {max_macs}, {pinned} static; {not_learned} packets with others")
}

/// Quantiles of the latency of sampled packets.
fn latencies(latency: &LatencySnapshot) -> String {
    let at = |share| latency.quantile(share).map_or_else(|| "-".to_owned(), nanoseconds);
    let (p50, p99, max) = (at(0.5), at(0.99), at(1.0));
    format!("p50 {p50}, p99 {p99}, max {max} to this port, of {} sampled packets", count(latency.packets()))
}

/// Mean number of packets in the receive queues.
fn waiting(depth: DepthSnapshot) -> String {
    let mean = depth.packets as f64 / depth.polls.max(1) as f64;
    format!("{mean:.1} packets found by a poll, of {} sampled polls that found some", count(depth.polls))
}

/// Mean number of entries with the peer in the transmit rings.
fn unreturned(depth: RingDepthSnapshot) -> String {
    let mean = depth.entries as f64 / depth.rings.max(1) as f64;
    format!("{mean:.1} entries of a transmit ring after sending, of {} samples", count(depth.rings))
}

/// A change of the state with its time, and its reason in parentheses.
fn happened(event: &PortEvent) -> String {
    let reason = event.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    format!("{} {}{reason}", event.time, event.state)
}

fn features(live: &PortSnapshot) -> String {
    if live.features.is_empty() { "none negotiated".to_owned() } else { live.features.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_a_port_begin_in_one_column_behind_the_longest_label() {
        let details = [("capture_ended".to_owned(), "No space left".to_owned())].into();
        let port = PortSnapshot { details, state: "waiting".to_owned(), ..PortSnapshot::default() };
        let lines = live(&port, None);
        assert_eq!(lines[0], "state          waiting; connected 0 times");
        assert!(lines.contains(&"capture_ended  No space left".to_owned()), "{lines:?}");
    }

    #[test]
    fn sampled_latencies_are_quantiles() {
        let bucket = |up_to_ns, packets| engine::LatencyBucket { up_to_ns: Some(up_to_ns), packets };
        let latency = LatencySnapshot { sum_ns: 0, buckets: vec![bucket(1024, 98), bucket(1_310_720, 2)] };
        let depth = Some(DepthSnapshot { polls: 2, packets: 65 });
        let transmit_depth = Some(RingDepthSnapshot { rings: 4, entries: 10 });
        let port = PortSnapshot { latency: Some(latency), depth, transmit_depth, ..PortSnapshot::default() };
        let lines = live(&port, None).join("\n");
        let expected = "p50 1.02 us, p99 1.31 ms, max 1.31 ms to this port, of 100 sampled packets";
        assert!(lines.contains(expected) && lines.contains("32.5 packets found by a poll"), "{lines}");
        assert!(lines.contains("unreturned  2.5 entries of a transmit ring"), "{lines}");
    }

    #[test]
    fn a_connected_port_shows_earlier_reasons_in_its_history_only() {
        let event = |second: u8, state: &str, reason: Option<&str>| PortEvent {
            time: format!("2026-11-24T09:52:0{second}.000Z"),
            state: state.to_owned(),
            reason: reason.map(str::to_owned),
        };
        let history = vec![event(1, "faulted", Some("gone")), event(2, "connected", None)];
        let port = PortSnapshot { history, state: "connected".to_owned(), ..PortSnapshot::default() };
        let lines = live(&port, None);
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
