//! Workers on the available CPUs, each on its own, fed by a port that always has packets and needs no CPU
//! (`packet_source`).
//!
//! There is no generator by design: it would take a CPU from the workers and become the bottleneck first.

use super::Distribution;
use super::packet_source::{PacketSource, STATIONS};
use crate::usage::budget::{BudgetError, failed};
use bridge::Switch;
use bridge::{BridgeConfig, PortConfig};
use engine::machine::Machine;
use engine::{Engine, EngineConfig, HandoffConfig, Model, Polling, QueueFull, Snapshot, WorkerConfig};
use port::Rss;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// Compared numbers of queues.
pub const QUEUES: [usize; 3] = [1, 2, 4];
/// Maximum number of workers.
const MAX_WORKERS: usize = 16;
const WARM_UP: Duration = Duration::from_millis(50);

/// Result of one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Distribution of packets to workers.
    pub way: Distribution,
    /// CPU of each worker.
    pub cpus: Vec<usize>,
    /// Queues of the receiving port.
    pub queues: usize,
    /// Packets per second sent.
    pub pps: f64,
    /// Fraction of the classified packets that each worker received from its queues and handoff queues.
    pub shares: Vec<f64>,
    /// Packets lost during the measurement.
    pub lost: u64,
}

/// Returns the CPUs of the workers, in assignment order.
pub fn cpus(machine: &Machine, first: [usize; 2]) -> Vec<usize> {
    let others = machine.allowed().map(|cpu| cpu.number).filter(|cpu| !first.contains(cpu));
    first.into_iter().chain(others).take(MAX_WORKERS).collect()
}

/// Returns the cases for these CPUs: powers of two of workers, and queues.
pub fn cases(cpus: &[usize]) -> Vec<(Distribution, usize, usize)> {
    let workers = || std::iter::successors(Some(1), |n| Some(2 * n)).take_while(|n| *n <= cpus.len());
    let with = workers().flat_map(|workers| QUEUES.map(|queues| (Distribution::Queues, workers, queues)));
    with.chain(workers().map(|workers| (Distribution::Software, workers, 1))).collect()
}

/// Measures all cases. `machine` must be read before the thread is pinned.
pub fn measure(
    machine: &Machine,
    first: [usize; 2],
    length: Duration,
    told: &mut dyn FnMut(&str) -> Result<(), BudgetError>,
) -> Result<Vec<Row>, BudgetError> {
    let cpus = cpus(machine, first);
    let mut rows = Vec::new();
    for (way, workers, queues) in cases(&cpus) {
        told(&format!("{workers} workers, {queues} queues, {}", way.title()))?;
        let (engine, _) = start(way, &cpus[..workers], queues, u64::MAX)?;
        std::thread::sleep(WARM_UP);
        let (before, began) = (engine.snapshot(), Instant::now());
        std::thread::sleep(length);
        let (now, took) = (engine.snapshot(), began.elapsed());
        engine.stop().map_err(failed)?;
        rows.push(row(way, &cpus[..workers], queues, (&before, &now), took));
    }
    Ok(rows)
}

/// Starts a switch that forwards from a source port to a sink port; each queue yields at most `most` packets.
fn start(
    way: Distribution,
    cpus: &[usize],
    queues: usize,
    most: u64,
) -> Result<(Engine, Switch), BudgetError> {
    let switch = Switch::new(2);
    switch.add_bridge("lan", BridgeConfig::default()).map_err(failed)?;
    let worker =
        |&cpu: &usize| WorkerConfig { cpu: Some(cpu), polling: Polling::Busy, queue_full: QueueFull::Drop };
    let workers = cpus.iter().map(worker).collect();
    let config = EngineConfig { workers, max_ports: 2, rss: Rss::default() };
    let model = match way {
        Distribution::Queues => Model::RunToCompletion,
        Distribution::Software => Model::SoftwareRss(HandoffConfig::default()),
    };
    let engine = Engine::start_as(config, model, &switch).map_err(failed)?;
    let [from, to] = STATIONS;
    // The receiving port is attached before any packet arrives.
    let ports = [
        ("sink", PacketSource::new(0, [to, from], 0)),
        ("source", PacketSource::new(queues, STATIONS, most)),
    ];
    for (name, port) in ports {
        let id = engine.reserve(name).map_err(failed)?;
        switch.add_port(id, "lan", &PortConfig::default()).map_err(failed)?;
        let added = match way {
            Distribution::Queues => engine.add_reserved(id, Box::new(port)),
            Distribution::Software => engine.add_rss_port(id, Box::new(port)),
        };
        added.map_err(failed)?;
    }
    Ok((engine, switch))
}

fn sent(snapshot: &Snapshot) -> u64 {
    snapshot.ports.iter().filter(|port| port.name == "sink").map(|port| port.tx_packets).sum()
}

fn lost(snapshot: &Snapshot) -> u64 {
    snapshot.ports.iter().flat_map(|port| port.drops.values()).sum()
}

fn row(
    way: Distribution,
    cpus: &[usize],
    queues: usize,
    (before, now): (&Snapshot, &Snapshot),
    took: Duration,
) -> Row {
    let classified = now.workers.iter().zip(&before.workers).filter(|(stage, _)| stage.role == "all");
    let classified: Vec<u64> = classified.map(|(now, before)| now.packets - before.packets).collect();
    let all = classified.iter().sum::<u64>().max(1) as f64;
    Row {
        way,
        cpus: cpus.to_vec(),
        queues,
        pps: (sent(now) - sent(before)) as f64 / took.as_secs_f64(),
        shares: classified.into_iter().map(|packets| packets as f64 / all).collect(),
        lost: lost(now) - lost(before),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_packet_of_a_source_is_sent_for_any_number_of_queues_and_workers() {
        const EACH: u64 = 3_000;
        let cpu = Machine::here().allowed().next().unwrap().number;
        for (way, workers, queues) in cases(&[cpu, cpu]) {
            let (engine, _switch) = start(way, &vec![cpu; workers], queues, EACH).unwrap();
            // The source announces its station with one additional frame.
            let all = EACH * queues as u64 + 1;
            let deadline = Instant::now() + Duration::from_secs(20);
            let mut now = engine.snapshot();
            while sent(&now) < all && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(5));
                now = engine.snapshot();
            }
            engine.stop().unwrap();
            assert_eq!(sent(&now), all, "{way:?}, {workers} workers, {queues} queues");
            // The sink's announcement has no receiver.
            assert!(lost(&now) <= 1, "{way:?}, {workers} workers, {queues} queues");
        }
    }

    #[test]
    fn two_cpus_are_enough_for_one_and_two_workers() {
        let cases = cases(&[0, 1]);
        assert_eq!(cases.iter().filter(|(way, ..)| *way == Distribution::Queues).count(), 6);
        assert!(
            cases.contains(&(Distribution::Software, 2, 1))
                && cases.iter().all(|(_, workers, _)| *workers <= 2)
        );
    }
}
