//! Computes rates from two readings of the counters.

use crate::api::model::BridgeStatus;
use crate::dataplane::rate_history::PortHistory;
use engine::{DepthSnapshot, PortSnapshot, Snapshot, StepSnapshot, WorkerSnapshot};
use serde::Serialize;
use std::collections::BTreeMap;

/// All rates between two readings.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Rates {
    /// Seconds between the readings.
    pub(crate) seconds: f64,
    pub(crate) ports: Vec<PortRate>,
    pub(crate) workers: Vec<WorkerRate>,
    /// OpenFlow bridges.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) bridges: Vec<BridgeRate>,
}

/// Rates of one OpenFlow bridge, in packets per second by the place where their result was found.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct BridgeRate {
    pub(crate) name: String,
    /// Number of flows.
    pub(crate) flows: usize,
    /// Head caches.
    pub(crate) head: f64,
    /// Megaflow caches.
    pub(crate) megaflow: f64,
    /// Flow tables.
    pub(crate) tables: f64,
}

/// Rates of one port. Frames are counted without their checksum.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct PortRate {
    pub(crate) name: String,
    pub(crate) state: String,
    /// Millions of packets per second received.
    pub(crate) in_mpps: f64,
    pub(crate) in_gbps: f64,
    /// Millions of packets per second sent.
    pub(crate) out_mpps: f64,
    pub(crate) out_gbps: f64,
    /// Packets dropped per second, by reason.
    pub(crate) drops: BTreeMap<String, f64>,
    /// Median and 99th percentile of the latency of sampled packets to the port, in nanoseconds.
    pub(crate) latency_p50_ns: Option<u64>,
    pub(crate) latency_p99_ns: Option<u64>,
    /// Mean number of packets that sampled polls have found.
    pub(crate) receive_depth: Option<f64>,
    /// Rates of the last minutes, as the switch has kept them.
    #[serde(skip)]
    pub(crate) history: PortHistory,
}

/// Rates of one worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct WorkerRate {
    pub(crate) index: usize,
    pub(crate) cpu: Option<usize>,
    /// Role.
    pub(crate) role: String,
    pub(crate) sleeping: bool,
    pub(crate) mpps: f64,
    /// Share of cycles in rounds with packets, 0 to 1.
    pub(crate) busy: f64,
    /// Share of empty polls, 0 to 1.
    pub(crate) empty_polls: f64,
    /// Busy cycles per packet.
    pub(crate) cycles_per_packet: Option<f64>,
    pub(crate) wakes_per_second: f64,
    /// Cycles per packet of sampled bursts.
    pub(crate) steps: Option<StepRate>,
}

/// Cycles per packet by step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct StepRate {
    pub(crate) receive: f64,
    pub(crate) pipeline: f64,
    pub(crate) transmit: f64,
}

/// Rates between `old` and `new`. For a new port or worker, rates since its start.
pub(crate) fn between(old: &Snapshot, new: &Snapshot) -> Rates {
    let seconds = new.uptime_ns.saturating_sub(old.uptime_ns) as f64 / 1e9;
    let port = |now: &PortSnapshot| {
        let before = old.ports.iter().find(|port| port.id == now.id && port.name == now.name);
        port_rate(&before.cloned().unwrap_or_default(), now, seconds)
    };
    let worker = |now: &WorkerSnapshot| {
        let before = old.workers.iter().find(|worker| worker.index == now.index);
        worker_rate(&before.cloned().unwrap_or_default(), now, seconds)
    };
    Rates {
        seconds,
        ports: new.ports.iter().map(port).collect(),
        workers: new.workers.iter().map(worker).collect(),
        bridges: Vec::new(),
    }
}

/// Rates of the OpenFlow bridges between two readings that are `seconds` apart.
pub(crate) fn of_bridges(old: &[BridgeStatus], new: &[BridgeStatus], seconds: f64) -> Vec<BridgeRate> {
    let bridge = |now: &BridgeStatus| {
        let (name, counts) = (now.name.clone(), now.flows.as_ref()?);
        let before = old.iter().find(|bridge| bridge.name == name).and_then(|bridge| bridge.flows.clone());
        let before = before.unwrap_or_default();
        Some(BridgeRate {
            name,
            flows: counts.flows,
            head: per_second(before.head, counts.head, seconds),
            megaflow: per_second(before.megaflow, counts.megaflow, seconds),
            tables: per_second(before.tables, counts.tables, seconds),
        })
    };
    new.iter().filter_map(bridge).collect()
}

/// Events per second; zero if the clock or the counter did not advance.
fn per_second(old: u64, new: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { new.saturating_sub(old) as f64 / seconds } else { 0.0 }
}

fn port_rate(old: &PortSnapshot, new: &PortSnapshot, seconds: f64) -> PortRate {
    let rate = |old, new| per_second(old, new, seconds);
    let drop = |(reason, packets): (&String, &u64)| {
        let rate = rate(old.drops.get(reason).copied().unwrap_or(0), *packets);
        (rate > 0.0).then(|| (reason.clone(), rate))
    };
    let latency = new.latency.as_ref().map(|now| now.since(&old.latency.clone().unwrap_or_default()));
    let quantile = |share| latency.as_ref().and_then(|latency| latency.quantile(share));
    PortRate {
        name: new.name.clone(),
        state: new.state.clone(),
        in_mpps: rate(old.rx_packets, new.rx_packets) / 1e6,
        in_gbps: rate(old.rx_bytes, new.rx_bytes) * 8.0 / 1e9,
        out_mpps: rate(old.tx_packets, new.tx_packets) / 1e6,
        out_gbps: rate(old.tx_bytes, new.tx_bytes) * 8.0 / 1e9,
        drops: new.drops.iter().filter_map(drop).collect(),
        latency_p50_ns: quantile(0.5),
        latency_p99_ns: quantile(0.99),
        history: PortHistory::default(),
        receive_depth: depth(old.depth.unwrap_or_default(), new.depth.unwrap_or_default()),
    }
}

fn depth(old: DepthSnapshot, new: DepthSnapshot) -> Option<f64> {
    let (polls, packets) = (new.polls.saturating_sub(old.polls), new.packets.saturating_sub(old.packets));
    (polls > 0).then(|| packets as f64 / polls as f64)
}

fn steps(old: StepSnapshot, new: StepSnapshot) -> Option<StepRate> {
    let packets = new.packets.saturating_sub(old.packets);
    let each = |old: u64, new: u64| new.saturating_sub(old) as f64 / packets as f64;
    (packets > 0).then(|| StepRate {
        receive: each(old.receive, new.receive),
        pipeline: each(old.pipeline, new.pipeline),
        transmit: each(old.transmit, new.transmit),
    })
}

fn worker_rate(old: &WorkerSnapshot, new: &WorkerSnapshot, seconds: f64) -> WorkerRate {
    let busy = new.busy_cycles.saturating_sub(old.busy_cycles);
    let idle = new.idle_cycles.saturating_sub(old.idle_cycles);
    let packets = new.packets.saturating_sub(old.packets);
    let share = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
    WorkerRate {
        index: new.index,
        cpu: new.cpu,
        role: new.role.clone(),
        sleeping: new.sleeping,
        mpps: per_second(old.packets, new.packets, seconds) / 1e6,
        busy: share(busy, busy + idle),
        empty_polls: share(
            new.empty_polls.saturating_sub(old.empty_polls),
            new.polls.saturating_sub(old.polls),
        ),
        cycles_per_packet: (packets > 0).then(|| busy as f64 / packets as f64),
        wakes_per_second: per_second(old.wakes, new.wakes, seconds),
        steps: steps(old.steps, new.steps),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(packets: u64, drops: u64) -> PortSnapshot {
        let drops = BTreeMap::from([("queue-full".to_owned(), drops), ("too-short".to_owned(), 7)]);
        PortSnapshot {
            name: "a".to_owned(),
            rx_packets: packets,
            rx_bytes: packets * 64,
            tx_packets: packets / 2,
            drops,
            ..PortSnapshot::default()
        }
    }

    fn at(uptime_ns: u64, ports: Vec<PortSnapshot>, workers: Vec<WorkerSnapshot>) -> Snapshot {
        Snapshot { uptime_ns, ports, workers, ..Snapshot::default() }
    }

    #[test]
    fn rates_are_differences_over_the_seconds_between() {
        let rates = between(
            &at(1_000_000_000, vec![port(1_000_000, 10)], vec![]),
            &at(3_000_000_000, vec![port(5_000_000, 30)], vec![]),
        );
        let port = &rates.ports[0];
        assert_eq!((rates.seconds, port.in_mpps, port.out_mpps), (2.0, 2.0, 1.0));
        assert!((port.in_gbps - 1.024).abs() < 1e-9, "{port:?}");
        assert_eq!(port.drops, BTreeMap::from([("queue-full".to_owned(), 10.0)]));
    }

    #[test]
    fn a_worker_is_busy_for_the_cycles_in_which_it_had_packets() {
        let old = WorkerSnapshot {
            polls: 10,
            empty_polls: 5,
            busy_cycles: 100,
            idle_cycles: 100,
            ..Default::default()
        };
        let new = WorkerSnapshot {
            polls: 30,
            empty_polls: 10,
            busy_cycles: 400,
            idle_cycles: 200,
            packets: 6,
            ..old.clone()
        };
        let rates = between(&at(0, vec![], vec![old]), &at(1_000_000_000, vec![], vec![new]));
        let worker = &rates.workers[0];
        assert_eq!((worker.busy, worker.empty_polls, worker.cycles_per_packet), (0.75, 0.25, Some(50.0)));
    }

    #[test]
    fn bridges_with_flow_tables_have_rates_of_their_caches() {
        let bridge = |head: u64, tables: u64| {
            let counts = crate::dataplane::flow_report::FlowCounts { head, tables, ..Default::default() };
            let settings = crate::settings::topology::BridgeSettings::named("br0");
            BridgeStatus { flows: Some(counts), ..BridgeStatus::of(&settings, &[], 0) }
        };
        let plain = BridgeStatus { flows: None, ..bridge(0, 0) };
        let rates = of_bridges(&[bridge(10, 5)], &[bridge(30, 6), plain], 2.0);
        assert_eq!(rates.len(), 1);
        assert_eq!((rates[0].head, rates[0].megaflow, rates[0].tables), (10.0, 0.0, 0.5));
    }

    #[test]
    fn reset_counters_and_zero_time_give_zero_rates() {
        let (high, low) = (at(5, vec![port(100, 0)], vec![]), at(5, vec![port(1, 0)], vec![]));
        let rates = between(&high, &low);
        assert_eq!((rates.seconds, rates.ports[0].in_mpps), (0.0, 0.0));
    }
}
