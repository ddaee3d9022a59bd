//! `GET /metrics`: counters in the text format of Prometheus (exposition format 0.0.4) or in that of `OpenMetrics` 1.0.
//! `bonds` has those of bonds, mirrors and tunnels, `sampled` those of sampled bursts, `export` those of sFlow and IPFIX; `page` writes the formats.

mod bonds;
mod export;
mod page;
mod sampled;

use super::model::{BondReport, BridgeStatus, MirrorReport};
use super::queue_report::QueueReport;
use crate::dataplane::export_report::ExportReport;
use crate::dataplane::health::HealthReport;
use crate::dataplane::link_report::NeighborsReport;
use crate::dataplane::multicast_report::MulticastReport;
use crate::dataplane::report::BridgeReport;
use crate::dataplane::tunnels::TunnelEntry;
use engine::Snapshot;
use page::Page;
use std::fmt::Display;

pub(super) use page::Format;

/// Objects that metrics describe.
#[derive(Default)]
pub(super) struct Sources {
    pub(super) now: Snapshot,
    pub(super) health: HealthReport,
    pub(super) bridges: Vec<BridgeStatus>,
    pub(super) reports: Vec<BridgeReport>,
    pub(super) neighbors: NeighborsReport,
    pub(super) bonds: Vec<BondReport>,
    pub(super) mirrors: Vec<MirrorReport>,
    pub(super) tunnels: Vec<TunnelEntry>,
    pub(super) queues: Vec<QueueReport>,
    pub(super) multicasts: Vec<MulticastReport>,
    pub(super) export: ExportReport,
}

const COUNTER: &str = "counter";
const GAUGE: &str = "gauge";

/// All metrics of a switch.
pub(super) fn text(sources: &Sources, format: Format) -> String {
    page(sources, format).finish()
}

/// Name, type and meaning of all metrics.
pub(crate) fn meanings() -> Vec<[String; 3]> {
    page(&Sources::default(), Format::Prometheus).metrics
}

fn page(sources: &Sources, format: Format) -> Page {
    let mut page = Page::new(format);
    ports(&sources.now, &mut page);
    policers(&sources.now, &mut page);
    classes(&sources.queues, &mut page);
    workers(&sources.now, &sources.health, &mut page);
    sampled::sampled(&sources.now, &mut page);
    tables(&sources.bridges, &mut page);
    trees(&sources.reports, &mut page);
    discovery(&sources.neighbors, &mut page);
    groups(&sources.multicasts, &mut page);
    bonds::bonds(&sources.bonds, &mut page);
    bonds::mirrors(&sources.mirrors, &mut page);
    bonds::tunnels(&sources.tunnels, &mut page);
    export::export(&sources.export, &mut page);
    page
}

/// LLDP.
fn discovery(report: &NeighborsReport, page: &mut Page) {
    let neighbors = report.ports.iter().map(|port| {
        let known = report.neighbors.iter().filter(|neighbor| neighbor.port == port.port).count();
        ([("port", &port.port as &dyn Display)], known as u64)
    });
    page.add(("lldp_neighbors", GAUGE, "Neighbours of the port."), neighbors);
    let frames = report.ports.iter().flat_map(|port| {
        let kinds: [(&dyn Display, u64); 4] = [
            (&"received", port.received),
            (&"invalid", port.invalid),
            (&"refused", port.refused),
            (&"sent", port.sent),
        ];
        kinds.map(|(kind, frames)| ([("port", &port.port as &dyn Display), ("kind", kind)], frames))
    });
    page.add(("lldp_frames_total", COUNTER, "LLDP frames that the port received, ignored and sent."), frames);
}

/// Multicast snooping.
fn groups(bridges: &[MulticastReport], page: &mut Page) {
    let numbers =
        bridges.iter().map(|report| ([("bridge", &report.bridge as &dyn Display)], report.total as u64));
    page.add(("multicast_groups", GAUGE, "Multicast groups of the bridge, counted for each VLAN."), numbers);
    let ports = || bridges.iter().flat_map(|report| &report.ports);
    let messages = ports().flat_map(|port| {
        let invalid = port.invalid.values().sum();
        let kinds: [(&dyn Display, u64); 3] =
            [(&"report", port.reports), (&"query", port.queries), (&"invalid", invalid)];
        kinds.map(|(kind, messages)| ([("port", &port.port as &dyn Display), ("kind", kind)], messages))
    });
    page.add(
        ("multicast_messages_total", COUNTER, "IGMP and MLD messages received from the port."),
        messages,
    );
    let refused = ports().flat_map(|port| {
        let limits: [(&dyn Display, u64); 2] = [(&"port", port.port_full), (&"bridge", port.bridge_full)];
        limits.map(|(limit, refused)| ([("port", &port.port as &dyn Display), ("limit", limit)], refused))
    });
    page.add(("multicast_refused_total", COUNTER, "Memberships refused because of a limit."), refused);
}

/// Spanning trees.
fn trees(bridges: &[BridgeReport], page: &mut Page) {
    let trees = || bridges.iter().filter_map(|bridge| Some((&bridge.name, bridge.stp.as_ref()?)));
    let bridge = |name| [("bridge", name as &dyn Display)];
    let changes = trees().map(|(name, stp)| (bridge(name), stp.topology_changes));
    page.add(("stp_topology_changes_total", COUNTER, "Topology changes of the spanning tree."), changes);
    let flushes = trees().map(|(name, stp)| (bridge(name), stp.flushes));
    page.add(("stp_flushes_total", COUNTER, "Flushes of addresses for topology changes."), flushes);
    let ports = || bridges.iter().flat_map(|bridge| &bridge.ports);
    let ports = || ports().filter_map(|port| Some((&port.port, port.stp.as_ref()?)));
    let states = ports().map(|(name, stp)| {
        let (port, role, state): (&dyn Display, &dyn Display, &dyn Display) = (name, &stp.role, &stp.state);
        ([("port", port), ("role", role), ("state", state)], 1)
    });
    page.add(("stp_port", GAUGE, "Role and state of the port in the spanning tree; always 1."), states);
    let frames = ports().flat_map(|(name, stp)| {
        let kinds: [(&dyn Display, u64); 3] =
            [(&"received", stp.received), (&"invalid", stp.invalid), (&"sent", stp.sent)];
        kinds.map(|(kind, frames)| ([("port", name as &dyn Display), ("kind", kind)], frames))
    });
    page.add(("stp_bpdus_total", COUNTER, "BPDUs that the port received, ignored and sent."), frames);
}

fn ports(now: &Snapshot, page: &mut Page) {
    type Read = fn(&engine::PortSnapshot) -> u64;
    let counters: [(&str, &str, Read); 4] = [
        ("port_received_packets_total", "Packets received from the port.", |port| port.rx_packets),
        ("port_received_bytes_total", "Bytes received from the port.", |port| port.rx_bytes),
        ("port_sent_packets_total", "Packets sent to the port.", |port| port.tx_packets),
        ("port_sent_bytes_total", "Bytes sent to the port.", |port| port.tx_bytes),
    ];
    for (name, help, read) in counters {
        let samples = now.ports.iter().map(|port| ([("port", &port.name as &dyn Display)], read(port)));
        page.add((name, COUNTER, help), samples);
    }
    let drops = now.ports.iter().flat_map(|port| port.drops.iter().map(move |drop| (port, drop)));
    let drops = drops.map(|(port, (reason, packets))| {
        ([("port", &port.name as &dyn Display), ("reason", reason as &dyn Display)], *packets)
    });
    let states = now
        .ports
        .iter()
        .map(|port| ([("port", &port.name as &dyn Display), ("state", &port.state as &dyn Display)], 1));
    page.add(("port_state", GAUGE, "State of the port; always 1."), states);
    page.add(("port_dropped_packets_total", COUNTER, "Packets dropped, by reason."), drops);
}

/// Policers of ports.
fn policers(now: &Snapshot, page: &mut Page) {
    let metrics = [
        (
            "port_policed_packets_total",
            "Packets that the policer coloured.",
            ["policer_green", "policer_yellow", "policer_red"],
        ),
        (
            "port_policed_bytes_total",
            "Bytes of packets that the policer coloured.",
            ["policer_green_bytes", "policer_yellow_bytes", "policer_red_bytes"],
        ),
    ];
    for (name, help, details) in metrics {
        let colours = ["green", "yellow", "red"].iter().zip(details);
        let samples = now.ports.iter().flat_map(|port| colours.clone().map(move |colour| (port, colour)));
        let samples = samples.filter_map(|(port, (colour, detail))| {
            let count = port.details.get(detail)?.parse().ok()?;
            Some(([("port", &port.name as &dyn Display), ("colour", colour as &dyn Display)], count))
        });
        page.add((name, COUNTER, help), samples);
    }
}

/// Queues of ports.
fn classes(queues: &[QueueReport], page: &mut Page) {
    type Read = fn(&QueueReport) -> u64;
    let metrics: [(&str, &str, &str, Read); 7] = [
        ("queue_sent_packets_total", COUNTER, "Packets that left the queue.", |queue| queue.packets),
        ("queue_sent_bytes_total", COUNTER, "Bytes that left the queue.", |queue| queue.bytes),
        ("queue_full_packets_total", COUNTER, "Packets dropped because the queue was full.", |queue| {
            queue.full
        }),
        ("queue_codel_packets_total", COUNTER, "Packets that CoDel dropped.", |queue| queue.codel),
        ("queue_marked_packets_total", COUNTER, "Packets that CoDel marked.", |queue| queue.marked),
        ("queue_backlog_packets", GAUGE, "Packets that wait in the queue.", |queue| queue.backlog),
        ("queue_backlog_bytes", GAUGE, "Bytes that wait in the queue.", |queue| queue.backlog_bytes),
    ];
    for (name, kind, help, read) in metrics {
        let samples = queues.iter().map(|queue| {
            ([("port", &queue.port as &dyn Display), ("queue", &queue.queue as &dyn Display)], read(queue))
        });
        page.add((name, kind, help), samples);
    }
}

fn workers(now: &Snapshot, health: &HealthReport, page: &mut Page) {
    type Read<'a> = &'a dyn Fn(&engine::WorkerSnapshot) -> u64;
    let mut add = |metric: (&str, &str, &str), read: Read<'_>| {
        let samples =
            now.workers.iter().map(|worker| ([("worker", &worker.index as &dyn Display)], read(worker)));
        page.add(metric, samples);
    };
    add(("worker_packets_total", COUNTER, "Packets processed by the worker."), &|worker| worker.packets);
    add(("worker_busy_cycles_total", COUNTER, "Cycles of rounds with packets."), &|worker| {
        worker.busy_cycles
    });
    add(("worker_idle_cycles_total", COUNTER, "Cycles of rounds without packets."), &|worker| {
        worker.idle_cycles
    });
    add(("worker_hung", GAUGE, "Whether the worker neither sleeps nor ends a round."), &|worker| {
        health.hung_workers.iter().any(|hung| hung.worker == worker.index).into()
    });
    add(("worker_cycles_per_second", GAUGE, "Cycles of a second, busy or not."), &|_| {
        now.cycles_per_second as u64
    });
}

fn tables(bridges: &[BridgeStatus], page: &mut Page) {
    let openflow = || bridges.iter().filter_map(|bridge| Some((&bridge.name, bridge.flows.as_ref()?)));
    let flows = openflow().map(|(name, counts)| ([("bridge", name as &dyn Display)], counts.flows as u64));
    page.add(("flows", GAUGE, "Flows of the tables of the bridge."), flows);
    let found = openflow().flat_map(|(name, counts)| {
        let places: [(&dyn Display, u64); 3] =
            [(&"head", counts.head), (&"megaflow", counts.megaflow), (&"tables", counts.tables)];
        places.map(|(place, packets)| ([("bridge", name as &dyn Display), ("place", place)], packets))
    });
    page.add(("flow_lookups_total", COUNTER, "Packets by the place where their result was found."), found);
    let probes = openflow().map(|(name, counts)| ([("bridge", name as &dyn Display)], counts.probes));
    page.add(
        ("flow_probes_total", COUNTER, "Masks that lookups in the megaflow cache have compared."),
        probes,
    );
    let evicted = openflow().flat_map(|(name, counts)| {
        let kinds: [(&dyn Display, u64); 2] =
            [(&"megaflow", counts.evicted), (&"mask", counts.evicted_masks)];
        kinds.map(|(kind, n)| ([("bridge", name as &dyn Display), ("kind", kind)], n))
    });
    page.add(("flow_evictions_total", COUNTER, "Megaflows and their masks that others replaced."), evicted);
    let drops = openflow().flat_map(|(name, counts)| counts.drops.iter().map(move |drop| (name, drop)));
    let drops = drops.map(|(name, drop)| {
        let (bridge, table): (&dyn Display, &dyn Display) = (name, &drop.table);
        ([("bridge", bridge), ("table", table), ("reason", &drop.reason as &dyn Display)], drop.packets)
    });
    page.add(("table_dropped_packets_total", COUNTER, "Packets that a table dropped, by reason."), drops);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataplane::flow_report::{FlowCounts, TableDrop};
    use crate::dataplane::health::HungWorker;
    use crate::settings::topology::BridgeSettings;
    use engine::{PortSnapshot, WorkerSnapshot};
    use std::collections::BTreeSet;

    #[test]
    fn counters_are_lines_with_labels_and_absent_ones_have_no_title() {
        let port = PortSnapshot {
            name: "a\"b".to_owned(),
            state: "faulted".to_owned(),
            rx_packets: 7,
            drops: [("no-flow".to_owned(), 2)].into(),
            details: [("policer_red".to_owned(), "3".to_owned())].into(),
            ..PortSnapshot::default()
        };
        let now = Snapshot {
            ports: vec![port],
            workers: vec![WorkerSnapshot::default()],
            cycles_per_second: 1e3,
            ..Snapshot::default()
        };
        let queue = QueueReport { port: "red".to_owned(), queue: 1, codel: 4, ..QueueReport::default() };
        let hung = HungWorker { seconds: 5, ..HungWorker::default() };
        let health = HealthReport { hung_workers: vec![hung] };
        let text =
            text(&Sources { now, health, queues: vec![queue], ..Sources::default() }, Format::Prometheus);
        for line in [
            "linerate_port_policed_packets_total{port=\"a\\\"b\",colour=\"red\"} 3",
            "linerate_queue_codel_packets_total{port=\"red\",queue=\"1\"} 4",
            "# TYPE linerate_port_received_packets_total counter",
            "linerate_port_received_packets_total{port=\"a\\\"b\"} 7",
            "linerate_port_dropped_packets_total{port=\"a\\\"b\",reason=\"no-flow\"} 2",
            "linerate_port_state{port=\"a\\\"b\",state=\"faulted\"} 1",
            "linerate_worker_packets_total{worker=\"0\"} 0",
            "linerate_worker_hung{worker=\"0\"} 1",
            "linerate_worker_cycles_per_second{worker=\"0\"} 1000",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is missing in\n{text}");
        }
        assert!(!text.contains("linerate_flows"), "{text}");
    }

    #[test]
    fn bridges_have_their_caches_and_drops_by_table() {
        let drops = vec![TableDrop { table: 3, reason: "flow-drop".to_owned(), packets: 9 }];
        let flows = Some(FlowCounts {
            flows: 2,
            head: 5,
            megaflow: 4,
            tables: 1,
            probes: 6,
            evicted: 7,
            evicted_masks: 8,
            drops,
        });
        let bridge = BridgeStatus { flows, ..BridgeStatus::of(&BridgeSettings::named("br0"), &[], 0) };
        let text = text(&Sources { bridges: vec![bridge], ..Sources::default() }, Format::Prometheus);
        let expected = [
            "linerate_flows{bridge=\"br0\"} 2",
            "linerate_flow_lookups_total{bridge=\"br0\",place=\"head\"} 5",
            "linerate_flow_lookups_total{bridge=\"br0\",place=\"megaflow\"} 4",
            "linerate_flow_lookups_total{bridge=\"br0\",place=\"tables\"} 1",
            "linerate_flow_probes_total{bridge=\"br0\"} 6",
            "linerate_flow_evictions_total{bridge=\"br0\",kind=\"megaflow\"} 7",
            "linerate_flow_evictions_total{bridge=\"br0\",kind=\"mask\"} 8",
            "linerate_table_dropped_packets_total{bridge=\"br0\",table=\"3\",reason=\"flow-drop\"} 9",
        ];
        let found: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(found, expected);
    }

    /// Names of metrics in a text, without the suffixes of histograms and summaries.
    fn used(text: &str) -> BTreeSet<String> {
        let distributions = meanings().into_iter().filter(|[_, kind, _]| kind != COUNTER && kind != GAUGE);
        let distributions: Vec<String> = distributions.map(|[name, ..]| name).collect();
        let words = text.split(|c: char| !c.is_ascii_lowercase() && c != '_');
        let metric = |word: &str| {
            let of = |name: &&String| {
                let suffix = word.strip_prefix(name.as_str());
                suffix.is_some_and(|suffix| ["_bucket", "_sum", "_count"].contains(&suffix))
            };
            distributions.iter().find(of).cloned().unwrap_or_else(|| word.to_owned())
        };
        words.filter(|word| word.starts_with("linerate_")).map(metric).collect()
    }

    #[test]
    fn alert_rules_use_metrics_that_exist_and_the_dashboard_has_all() {
        let names: BTreeSet<String> = meanings().into_iter().map(|[name, ..]| name).collect();
        let rules = used(include_str!("../../../contrib/prometheus/linerate.rules.yml"));
        assert!(rules.len() > 5 && rules.is_subset(&names), "{:?}", rules.difference(&names));
        assert_eq!(used(include_str!("../../../contrib/grafana/linerate.json")), names);
    }

    #[test]
    fn the_reference_has_each_metric_once_with_a_valid_name() {
        let mut names: Vec<String> = meanings().into_iter().map(|[name, ..]| name).collect();
        let is_valid =
            |name: &String| name.chars().all(|c| c.is_ascii_lowercase() || "_0123456789".contains(c));
        assert!(names.iter().all(is_valid), "{names:?}");
        for [name, kind, help] in meanings() {
            assert_eq!(name.ends_with("_total"), kind == COUNTER, "{name}");
            assert!(help.ends_with('.'), "{name}: {help}");
        }
        let all = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
