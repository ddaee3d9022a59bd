//! Measures benefit and cost of work stealing: four queues that always have packets, a pipeline that does some work per
//! packet and drops it, and two workers on their own CPUs.
//!
//! `cargo run --release -p linerate-benches --bin stealing -- [CPU CPU]` prints Mpps, medians of interleaved rounds:
//! all queues on one worker, or two on each; run to completion, or stealing. It applies no limits.

use anyhow::Result;
use engine::{Engine, EngineConfig, Model, Pipeline, Pipelines, Polling, Rss, Verdicts, WorkerConfig};
use measure::rounds::interleaved;
use measure::statistics::median;
use port::{
    Attach, BURST, BufId, Burst, BurstStats, DropReason, PortControl, PortFault, PortState, PortStatus,
    RxQueue,
};
use rustix::fd::BorrowedFd;
use std::time::{Duration, Instant};

const QUEUES: u16 = 4;
const TIME: Duration = Duration::from_millis(250);
const ROUNDS: usize = 7;
/// Work per packet, in iterations of an empty loop.
const WORK: [u32; 4] = [0, 50, 200, 1000];

/// A receive queue that is never empty.
struct Endless;

impl RxQueue for Endless {
    fn prefetch(&self) {}

    fn rx(&mut self, burst: &mut Burst, stats: &mut BurstStats) -> Result<(), PortFault> {
        for _ in 0..BURST {
            burst.push_own(&[2; 60]);
        }
        (stats.packets, stats.bytes) = (BURST as u64, 60 * BURST as u64);
        Ok(())
    }

    fn complete(&mut self, _: &[BufId]) {}
    fn notify(&mut self) {}
    fn enable_notification(&mut self) -> Result<bool, PortFault> {
        Ok(true)
    }
    fn disable_notification(&mut self) {}
    fn kick_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    fn refresh(&mut self) -> Result<(), PortFault> {
        Ok(())
    }
}

/// A port with one such queue; the flag is set once the queue is attached.
struct Source(bool);

impl PortControl for Source {
    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }

    fn handle(&mut self, _: Instant, engine: &mut dyn Attach) {
        if !std::mem::replace(&mut self.0, true) {
            engine.start_rx(0, Box::new(Endless));
        }
    }

    fn fault(&mut self, _: Instant, _: PortFault, _: &mut dyn Attach) {}

    fn close(&mut self, engine: &mut dyn Attach) {
        drop(engine.stop_rx(0));
    }

    fn status(&self) -> PortStatus {
        PortStatus {
            state: PortState::Connected,
            kind: "endless",
            place: String::new(),
            features: Vec::new(),
            queues: Vec::new(),
            connects: 1,
            memory: (0, 0),
        }
    }
}

/// Runs this many loop iterations per packet and drops it.
struct Work(u32);

impl Pipeline for Work {
    fn process(&mut self, burst: &mut Burst, _: &engine::Context, out: &mut Verdicts) {
        for i in 0..burst.len() {
            for turn in 0..self.0 {
                std::hint::black_box(turn);
            }
            out.drop(i, DropReason::NoDestination);
        }
    }
}

impl Pipelines for Work {
    fn worker(&self, _: usize) -> Box<dyn Pipeline> {
        Box::new(Work(self.0))
    }
}

/// Rate in Mpps with the queues placed on these workers.
fn rate(cpus: [usize; 2], model: &Model, work: u32, homes: [usize; QUEUES as usize]) -> Result<f64> {
    let worker = |cpu| WorkerConfig { cpu: Some(cpu), polling: Polling::Busy, ..WorkerConfig::default() };
    let config = EngineConfig { workers: cpus.map(worker).to_vec(), max_ports: 8, rss: Rss::default() };
    let engine = Engine::start_as(config, model.clone(), &Work(work))?;
    let add = |n| engine.add_port(&format!("p{n}"), Box::new(Source(false)));
    let ports = (0..QUEUES).map(add).collect::<Result<Vec<_>, _>>()?;
    while engine.queues()?.len() < usize::from(QUEUES) {
        std::thread::sleep(Duration::from_millis(1));
    }
    // Queues are moved instead of placed by rules, because queues with a rule are not stolen from.
    for (port, home) in ports.into_iter().zip(homes) {
        engine.move_queue(port, 0, home)?;
    }
    let packets = || engine.snapshot().workers.iter().map(|worker| worker.packets).sum::<u64>();
    let (before, began) = (packets(), Instant::now());
    std::thread::sleep(TIME);
    let rate = (packets() - before) as f64 / began.elapsed().as_secs_f64() / 1e6;
    engine.stop()?;
    Ok(rate)
}

fn main() -> Result<()> {
    let cpus: Vec<usize> = std::env::args().skip(1).map(|cpu| cpu.parse()).collect::<Result<_, _>>()?;
    let cpus = [cpus.first().copied().unwrap_or(0), cpus.get(1).copied().unwrap_or(1)];
    let (one, even) = ([0; QUEUES as usize], [0, 1, 0, 1]);
    let cases = [
        ("run to completion, one worker has all", Model::RunToCompletion, one),
        ("stealing, one worker has all", Model::Stealing, one),
        ("run to completion, two each", Model::RunToCompletion, even),
        ("stealing, two each", Model::Stealing, even),
    ];
    println!("{:<40}{}", "Mpps by turns of work", WORK.map(|work| format!("{work:>10}")).concat());
    let mut rates = interleaved(ROUNDS, cases.len() * WORK.len(), |n| {
        let (_, model, homes) = &cases[n / WORK.len()];
        rate(cpus, model, WORK[n % WORK.len()], *homes)
    })?;
    for ((name, ..), rates) in cases.iter().zip(rates.chunks_mut(WORK.len())) {
        let cell = |rates: &mut Vec<f64>| format!("{:>10.2}", median(rates).unwrap_or(f64::NAN));
        println!("{name:<40}{}", rates.iter_mut().map(cell).collect::<String>());
    }
    Ok(())
}
