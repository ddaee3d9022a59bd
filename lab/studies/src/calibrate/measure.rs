//! Runs the list on real memory, in rounds: every benchmark once per round, so that drift affects all alike.

use std::collections::BTreeMap;
use std::sync::Barrier;

use super::list::{Effort, Meaning, Places, Step, list};
use super::task::Task;
use super::{Caches, CalibrateError, Calibration, Measured};
use crate::trial::Progress;
use measure::Estimate;
use measure::pinning::pin;
use measure::statistics::{MIN_SAMPLES, interval};
use measure::{Clock, CpuPinning, PinningError, Processor};
use real::{Arena, RealMemory, dependent_additions};
use sim::memory::Width;
use sim::micro::{Side, knee, stream};

/// Size of the memory region as a multiple of the shared cache, part of which neighbours may use.
const TIMES: u64 = 8;

/// Samples per round; one entry per constant.
#[derive(Debug, Default)]
struct Samples {
    named: Vec<(&'static str, &'static str, Vec<f64>)>,
    chase: BTreeMap<u64, Vec<f64>>,
    misses: BTreeMap<usize, Vec<f64>>,
}

impl Samples {
    fn add(&mut self, name: &'static str, unit: &'static str, value: f64) {
        match self.named.iter_mut().find(|(other, ..)| *other == name) {
            Some((.., values)) => values.push(value),
            None => self.named.push((name, unit, vec![value])),
        }
    }
}

/// Measures in `rounds` rounds.
pub fn run(rounds: usize, seed: u64, progress: &mut dyn Progress) -> Result<Calibration, CalibrateError> {
    if rounds < MIN_SAMPLES {
        return Err(CalibrateError::TooFewRounds(rounds));
    }
    let (processor, caches) = (Processor::here(), Caches::here());
    let cpus = match CpuPinning::here()? {
        CpuPinning::Three([a, b, _]) | CpuPinning::Two([a, b]) => [a, b],
        CpuPinning::InTurn => return Err(PinningError::TooFew(1).into()),
    };
    let places = Places::of(&caches, TIMES);
    let mut bench =
        Bench { arena: Arena::new(places.bytes)?, clock: Clock::calibrated(), places, caches, cpus };
    let mut samples = Samples::default();
    for round in 0..rounds {
        progress.step(round, rounds, "calibration");
        bench.round(&mut samples, seed + round as u64)?;
    }
    progress.step(rounds, rounds, "");
    Ok(bench.calibration(&samples, processor, seed, rounds))
}

struct Bench {
    arena: Arena,
    clock: Clock,
    places: Places,
    caches: Caches,
    cpus: [usize; 2],
}

impl Bench {
    fn round(&mut self, samples: &mut Samples, seed: u64) -> Result<(), PinningError> {
        let ghz = self.alone(|_, clock| {
            let from = clock();
            dependent_additions(100_000);
            1e7 / (clock() - from)
        })?;
        samples.add("frequency", "GHz", ghz);
        let mut groups = Vec::new();
        for Step { task, meaning } in list(&self.caches, self.places, Effort::REAL, seed) {
            if matches!(task, Task::Past { .. }) && !can_go_past() {
                continue;
            }
            let took = self.time(&task)?;
            match meaning {
                Meaning::Constant(name) => samples.add(name, "ns", took),
                Meaning::Misses(at_once) => {
                    groups.push(took);
                    samples.misses.entry(at_once).or_default().push(took);
                }
                Meaning::Chase(size) => samples.chase.entry(size).or_default().push(took),
            }
            if let (Task::Chase { bytes, .. }, Meaning::Constant(_)) = (task, meaning) {
                samples.chase.entry(bytes).or_default().push(took);
            }
        }
        samples.add("parallel_misses", "lines", knee(&groups) as f64);
        Ok(())
    }

    /// Times one micro-benchmark.
    fn time(&mut self, task: &Task) -> Result<f64, PinningError> {
        for (at, value) in task.values() {
            self.arena.poke(at, Width::Eight, value);
        }
        if matches!(task, Task::HandedOver { .. }) {
            self.evict()?;
        }
        if task.is_pair() {
            return self
                .pair(|memory, clock, side| task.run(memory, |_| clock(), side))
                .map(|both| task.pick(both));
        }
        self.alone(|memory, clock| task.run(memory, |_| clock(), Side::First))
    }

    /// Runs `body` on a thread on the first CPU.
    fn alone<T: Send>(
        &self,
        body: impl FnOnce(&mut RealMemory<'_>, &dyn Fn() -> f64) -> T + Send,
    ) -> Result<T, PinningError> {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                pin(self.cpus[0])?;
                Ok(body(&mut self.memory(), &|| self.now()))
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Runs `body` on two threads that start together, each on its own CPU.
    fn pair(
        &self,
        body: impl Fn(&mut RealMemory<'_>, &dyn Fn() -> f64, Side) -> f64 + Sync,
    ) -> Result<[f64; 2], PinningError> {
        let gate = Barrier::new(2);
        let one = |side: Side, cpu: usize| {
            let pinned = pin(cpu);
            gate.wait();
            // A thread that could not be pinned still runs, because the other one waits for it; the error is returned
            // afterwards.
            let took = body(&mut self.memory(), &|| self.now(), side);
            pinned.map(|()| took)
        };
        std::thread::scope(|scope| {
            let first = scope.spawn(|| one(Side::First, self.cpus[0]));
            let second = scope.spawn(|| one(Side::Second, self.cpus[1]));
            let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            Ok([join(first)?, join(second)?])
        })
    }

    fn memory(&self) -> RealMemory<'_> {
        // SAFETY: every address below comes from `Places`, whose `bytes` the arena has; non-temporal copies run only if
        // the processor supports them (`can_go_past`).
        unsafe { self.arena.view() }
    }

    fn now(&self) -> f64 {
        self.clock.seconds(0, self.clock.ticks()) * 1e9
    }

    /// Evicts the first CPU's caches and the shared cache.
    fn evict(&self) -> Result<(), PinningError> {
        let lines = self.caches.llc.bytes * 2 / sim::memory::LINE;
        self.alone(|memory, _| stream(memory, self.places.zeroes, lines))
    }

    fn calibration(&self, samples: &Samples, processor: Processor, seed: u64, rounds: usize) -> Calibration {
        let of = |values: &[f64]| {
            let none = Estimate { median: f64::NAN, low: f64::NAN, high: f64::NAN };
            interval(values, seed).unwrap_or(none)
        };
        let [first, second] = self.cpus;
        let shared = "in a virtual machine: neighbours have their part of the shared cache and of memory";
        let shared = processor.has("hypervisor").then(|| shared.to_owned());
        Calibration {
            processor: processor.name,
            caches: self.caches,
            measured: samples
                .named
                .iter()
                .map(|(name, unit, values)| Measured { name, unit, value: of(values) })
                .collect(),
            chase: samples.chase.iter().map(|(size, values)| (*size, of(values))).collect(),
            misses: samples.misses.iter().map(|(many, values)| (*many, of(values))).collect(),
            notes: vec![
                format!("{rounds} rounds on CPUs {first} and {second}; {}", self.clock.name()),
                format!("memory: {}", self.arena.pages()),
            ]
            .into_iter()
            .chain(shared)
            .collect(),
        }
    }
}

/// Whether this processor supports non-temporal stores (`vmovntdq`).
fn can_go_past() -> bool {
    crate::factors::find("b")
        .is_ok_and(|named| crate::requirements::validate(&Processor::here(), &named).is_ok())
}
