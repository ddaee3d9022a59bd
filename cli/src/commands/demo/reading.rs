//! Measurements between two snapshots.

use super::Cpus;
use crate::args::guest::{DemoArgs, FrameSize};
use engine::{PortSnapshot, Snapshot};
use measure::Processor;
use serde::Serialize;
use std::collections::BTreeMap;

/// Report of the demonstration.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) processor: String,
    pub(super) switch_cpu: Option<usize>,
    pub(super) guest_cpus: Vec<Option<usize>>,
    pub(super) ring: String,
    pub(super) descriptors: String,
    pub(super) frames_in_circulation: u32,
    pub(super) runs: Vec<Reading>,
}

impl Report {
    pub(super) fn new(args: &DemoArgs, cpus: &Cpus) -> Self {
        Self {
            processor: Processor::here().name,
            switch_cpu: cpus.switch,
            guest_cpus: cpus.guests.clone(),
            ring: args.ring.to_string(),
            descriptors: args.descriptors.name().to_owned(),
            frames_in_circulation: 2 * args.in_flight,
            runs: Vec::new(),
        }
    }
}

/// Measurement of one interval. A frame counts once, when the switch has sent it.
#[derive(Debug, Serialize)]
pub(super) struct Reading {
    pub(super) size: String,
    pub(super) seconds: f64,
    pub(super) packets: u64,
    pub(super) mpps: f64,
    pub(super) gbit_per_second: f64,
    /// The worker's busy cycles per packet.
    pub(super) cycles_per_packet: f64,
    /// Share of empty polls, which shows how long the switch waited for the guests.
    pub(super) empty_polls: f64,
    pub(super) packets_per_burst: f64,
    pub(super) kernel: String,
    /// Round trip of a cache line between the switch's CPU and those of the guests, before and after.
    pub(super) distances_ns: Vec<f64>,
    pub(super) ports: Vec<PortReading>,
}

/// Measurement of one port.
#[derive(Debug, Serialize)]
pub(super) struct PortReading {
    pub(super) name: String,
    pub(super) rx_mpps: f64,
    pub(super) tx_mpps: f64,
    pub(super) rx_gbit_per_second: f64,
    pub(super) tx_gbit_per_second: f64,
    pub(super) drops: BTreeMap<String, u64>,
}

impl Reading {
    pub(super) fn between(size: FrameSize, before: &Snapshot, after: &Snapshot) -> Self {
        let seconds = (after.uptime_ns - before.uptime_ns) as f64 / 1e9;
        let ports: Vec<_> = after.ports.iter().map(|port| port_reading(port, before, seconds)).collect();
        let worker = |pick: fn(&engine::WorkerSnapshot) -> u64| {
            let total = |s: &Snapshot| s.workers.iter().map(pick).sum::<u64>();
            total(after) - total(before)
        };
        let sent = |s: &Snapshot| s.ports.iter().map(|port| port.tx_packets).sum::<u64>();
        let packets = sent(after) - sent(before);
        Self {
            size: size.to_string(),
            seconds,
            packets,
            mpps: packets as f64 / seconds / 1e6,
            gbit_per_second: ports.iter().map(|port| port.tx_gbit_per_second).sum(),
            cycles_per_packet: worker(|w| w.busy_cycles) as f64 / (worker(|w| w.packets).max(1)) as f64,
            empty_polls: worker(|w| w.empty_polls) as f64 / (worker(|w| w.polls).max(1)) as f64,
            packets_per_burst: worker(|w| w.packets) as f64 / (worker(|w| w.bursts).max(1)) as f64,
            kernel: after.kernel.clone(),
            distances_ns: Vec::new(),
            ports,
        }
    }
}

fn port_reading(port: &PortSnapshot, before: &Snapshot, seconds: f64) -> PortReading {
    let old = before.ports.iter().find(|old| old.id == port.id);
    let rate = |pick: fn(&PortSnapshot) -> u64| (pick(port) - old.map_or(0, pick)) as f64 / seconds;
    let dropped = |name: &String, n: u64| n - old.and_then(|old| old.drops.get(name)).copied().unwrap_or(0);
    let drops = port.drops.iter().map(|(name, &n)| (name.clone(), dropped(name, n)));
    PortReading {
        name: port.name.clone(),
        rx_mpps: rate(|p| p.rx_packets) / 1e6,
        tx_mpps: rate(|p| p.tx_packets) / 1e6,
        rx_gbit_per_second: rate(|p| p.rx_bytes) * 8.0 / 1e9,
        tx_gbit_per_second: rate(|p| p.tx_bytes) * 8.0 / 1e9,
        drops: drops.filter(|(_, n)| *n > 0).collect(),
    }
}
