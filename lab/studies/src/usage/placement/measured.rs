//! The patterns on this machine: a switch in stages between the generator's two ends, with its threads placed by
//! `engine::placement`.
//!
//! The generator has its own CPU if the switch's threads have one each without it. If there are too few CPUs, the
//! patterns are laid out twice: over the CPUs without the generator's, and over all, where one is shared with it. Each
//! row records the CPU of every stage.

use super::{Buffers, PATTERNS};
use crate::usage::budget::BudgetError;
use engine::machine::Machine;
use engine::placement::{Pattern, Plan, Requirements, Role, Stage, Stages, plan};
use engine::{HandoffConfig, Model, PipelineConfig, Polling, QueueFull, Roles, Snapshot, WorkerConfig};
use generator::meter::Summary;
use generator::rate::Rate;
use generator::rig::Bench;
use generator::rig::Outcome;
use measure::pinning::pin;
use serde::{Deserialize, Serialize};
use std::time::Duration;

const KEY: u32 = 0x706c;
/// Number of stages: Rx, Worker and Tx.
const STAGES: usize = 3;
/// Load at which latency is measured, as a fraction of the maximum throughput.
const LOAD: f64 = 0.5;

/// Result of one pattern.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The pattern.
    pub pattern: Pattern,
    /// CPUs of Rx, Worker and Tx.
    pub cpus: [usize; STAGES],
    /// Number of threads of the three stages.
    pub threads: usize,
    /// CPU of the generator, which is one of those above if there are too few CPUs.
    pub generator: usize,
    /// Packets per second received back at maximum load.
    pub pps: f64,
    /// Time from passing a packet to the port until receiving it back, in nanoseconds, at half of the maximum load.
    pub latency_ns: Summary,
    /// Jitter as defined by RFC 3550 at the same load, in nanoseconds.
    pub jitter_ns: f64,
    /// Fraction of the packets sent at that load that was lost.
    pub loss: f64,
    /// Packets received by the Rx stage at maximum load.
    pub packets: u64,
    /// Pool cache counts at maximum load, by stage.
    pub pool: Vec<Buffers>,
}

impl Row {
    /// Whether a stage shares its CPU with the generator.
    pub fn shares(&self) -> bool {
        self.cpus.contains(&self.generator)
    }
}

/// Returns the CPU sets over which the patterns are laid out.
pub fn cpu_sets(machine: &Machine, cpus: [usize; 2]) -> Vec<Vec<usize>> {
    let [first, generator] = cpus;
    let others = machine.allowed().map(|cpu| cpu.number).filter(|cpu| !cpus.contains(cpu));
    let own: Vec<usize> = std::iter::once(first).chain(others).take(STAGES).collect();
    if own.len() == STAGES {
        return vec![own];
    }
    let all = own.iter().copied().chain([generator]).collect();
    vec![own, all]
}

/// Measures all patterns. `machine` must be read before the thread is pinned.
pub fn measure(
    machine: &Machine,
    cpus: [usize; 2],
    length: Duration,
    told: &mut dyn FnMut(&str) -> Result<(), BudgetError>,
) -> Result<Vec<Row>, BudgetError> {
    pin(cpus[1])?;
    let mut rows = Vec::new();
    for set in cpu_sets(machine, cpus) {
        for pattern in PATTERNS {
            told(&format!("{pattern} on CPUs {set:?}"))?;
            let plan = lay_out(machine, &set, pattern)?;
            rows.push(row(&plan, cpus[1], length)?);
        }
    }
    Ok(rows)
}

fn lay_out(machine: &Machine, cpus: &[usize], pattern: Pattern) -> Result<Plan, BudgetError> {
    let stages = Stages { run_to_completion: 0, rx: 1, worker: 1, tx: 1 };
    let requirements = Requirements { stages, pattern, cpus: cpus.to_vec(), ..Requirements::default() };
    plan(machine, &requirements).map_err(|error| BudgetError::Thread(error.to_string()))
}

/// Returns the engine's configuration for a plan.
fn model(plan: &Plan) -> (Vec<WorkerConfig>, Model) {
    let has = |roles: &[Role], stage| roles.iter().any(|role| role.stage == stage);
    let roles = plan.threads.iter().map(|thread| Roles {
        rx: has(&thread.roles, Stage::Rx),
        work: has(&thread.roles, Stage::Worker),
        tx: has(&thread.roles, Stage::Tx),
    });
    // Threads that share a CPU must yield it when idle.
    let worker =
        |cpu| WorkerConfig { cpu: Some(cpu), polling: Polling::Adaptive, queue_full: QueueFull::Drop };
    let workers = plan.threads.iter().map(|thread| worker(thread.cpu)).collect();
    (workers, Model::Pipeline(PipelineConfig { roles: roles.collect(), handoffs: HandoffConfig::default() }))
}

fn row(plan: &Plan, generator: usize, length: Duration) -> Result<Row, BudgetError> {
    let (most, snapshot) = run(plan, Rate::Unlimited, length)?;
    let (half, _) = run(plan, Rate::Frames(most.received_pps * LOAD), length)?;
    let cpu = |stage| plan.cpu_of(Role { stage, index: 0 }).unwrap_or_default();
    let stream = half.streams.first();
    let rx = snapshot.workers.iter().filter(|stage| stage.role == "rx");
    Ok(Row {
        pattern: plan.pattern,
        cpus: [Stage::Rx, Stage::Worker, Stage::Tx].map(cpu),
        threads: plan.threads.len(),
        generator,
        pps: most.received_pps,
        latency_ns: stream.map(|stream| stream.latency_ns).unwrap_or_default(),
        jitter_ns: stream.map(|stream| stream.jitter_ns).unwrap_or_default(),
        loss: half.loss_ratio,
        packets: rx.map(|stage| stage.packets).sum(),
        pool: snapshot.workers.iter().map(buffers).collect(),
    })
}

fn buffers(stage: &engine::WorkerSnapshot) -> Buffers {
    let pool = stage.pool;
    Buffers {
        stage: stage.role.clone(),
        hits: pool.hits,
        refills: pool.refills,
        spills: pool.spills,
        empty: pool.empty,
        retries: pool.retries,
    }
}

/// Runs one load; returns the outcome and the switch's counters at its end.
fn run(plan: &Plan, rate: Rate, duration: Duration) -> Result<(Outcome, Snapshot), BudgetError> {
    let (workers, model) = model(plan);
    let bench = Bench::start_as(workers, model, None)?;
    let outcome = bench.loaded(rate, duration, KEY)?;
    let snapshot = bench.snapshot();
    bench.stop()?;
    Ok((outcome, snapshot))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counts_of_the_stages_agree_with_the_packets_that_passed() {
        let machine = Machine::here();
        let cpu = machine.allowed().next().unwrap().number;
        for pattern in PATTERNS {
            let plan = lay_out(&machine, &[cpu], pattern).unwrap();
            let (outcome, snapshot) = run(&plan, Rate::Frames(20_000.0), Duration::from_millis(40)).unwrap();
            let ports = &snapshot.ports;
            let sum = |of: fn(&engine::PortSnapshot) -> u64| ports.iter().map(of).sum::<u64>();
            let lost: u64 = ports.iter().flat_map(|port| port.drops.values()).sum();
            assert_eq!(sum(|port| port.rx_packets + port.replicated), sum(|port| port.tx_packets) + lost);
            assert!(outcome.received_pps > 0.0, "{pattern}: nothing came through");
            let pool: Vec<Buffers> = snapshot.workers.iter().map(buffers).collect();
            let sum = Buffers::sum(&pool);
            let taken = sum.hits + sum.refills;
            let rx: u64 = snapshot.workers.iter().filter(|s| s.role == "rx").map(|s| s.packets).sum();
            // A packet that finds its handoff queue full is dropped before (Rx) or after (Worker) it has a buffer.
            let full: u64 = ports.iter().filter_map(|port| port.drops.get("handoff-full")).sum();
            assert!(
                (rx - full..=rx).contains(&taken),
                "{pattern}: a buffer for each packet, {pool:?} of {rx}, {full} dropped"
            );
        }
    }

    #[test]
    fn the_engine_runs_the_stages_on_the_cores_of_the_row() {
        let machine = Machine::here();
        let cpu = machine.allowed().next().unwrap().number;
        for (pattern, threads) in PATTERNS.into_iter().zip([3, 2, 1, 2, 2, 3]) {
            let plan = lay_out(&machine, &[cpu], pattern).unwrap();
            let (workers, model) = model(&plan);
            let bench = Bench::start_as(workers, model, None).unwrap();
            let snapshot = bench.snapshot();
            bench.stop().unwrap();
            assert_eq!(plan.threads.len(), threads, "{pattern}");
            let mut roles: Vec<_> = snapshot.workers.iter().map(|stage| (&*stage.role, stage.cpu)).collect();
            roles.sort_unstable();
            assert_eq!(roles, [("rx", Some(cpu)), ("tx", Some(cpu)), ("work", Some(cpu))], "{pattern}");
        }
    }

    #[test]
    fn a_generator_shares_its_cpu_only_where_there_are_too_few() {
        let machine = |cpus: usize| {
            let cpu =
                |number| engine::machine::Cpu { number, core: number, allowed: true, ..Default::default() };
            Machine { cpus: (0..cpus).map(cpu).collect(), ..Machine::default() }
        };
        assert_eq!(cpu_sets(&machine(2), [0, 1]), [vec![0], vec![0, 1]]);
        assert_eq!(cpu_sets(&machine(3), [2, 0]), [vec![2, 1], vec![2, 1, 0]]);
        assert_eq!(cpu_sets(&machine(8), [0, 1]), [vec![0, 2, 3]]);
    }
}
