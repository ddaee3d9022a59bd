//! The patterns on real memory, in rounds: everything once a round, so that what drifts meets all of it alike.

use std::sync::Barrier;

use super::patterns::{
    Left, Role, Scatter, chain, chase, handed_over, increments, knee, misses, pages, past, ping_pong, stores,
    stream,
};
use super::{Caches, CalibrateError, Calibration, Measured};
use crate::cache::memory::{Address, LINE, Width};
use crate::cache::real::{
    Arena, Clock, Processor, RealMemory, Seats, SeatsError, dependent_additions, seats::pin,
};
use crate::cache::results::Estimate;
use crate::cache::trial::Progress;
use crate::cache::trial::statistics::{FEWEST, interval};

/// Most misses at once that are tried.
const AT_ONCE: usize = 40;
/// Lines that one core hands to the other.
const HANDED: u64 = 1024;

/// Where in the arena, in bytes: chains in front, zeroes behind, lines that two cores share at the end.
#[derive(Clone, Copy, Debug)]
struct Places {
    zeroes: Address,
    shared: Address,
    bytes: u64,
}

impl Places {
    fn of(caches: &Caches) -> Places {
        // Far more than the shared cache holds.
        let large = (caches.llc.bytes * 8).next_power_of_two();
        let shared = 2 * large;
        Places { zeroes: large, shared, bytes: shared + (64 << 20) }
    }
}

/// What each round brings; one entry for each constant.
#[derive(Debug, Default)]
struct Samples {
    named: Vec<(&'static str, &'static str, Vec<f64>)>,
    chase: Vec<(u64, Vec<f64>)>,
    misses: Vec<(usize, Vec<f64>)>,
}

impl Samples {
    fn add(&mut self, name: &'static str, unit: &'static str, value: f64) {
        match self.named.iter_mut().find(|(other, ..)| *other == name) {
            Some((.., values)) => values.push(value),
            None => self.named.push((name, unit, vec![value])),
        }
    }
}

/// Measures in so many rounds.
pub fn run(rounds: usize, seed: u64, progress: &mut dyn Progress) -> Result<Calibration, CalibrateError> {
    if rounds < FEWEST {
        return Err(CalibrateError::TooFewRounds(rounds));
    }
    let (processor, caches) = (Processor::here(), Caches::here());
    let cpus = match Seats::here()? {
        Seats::Three([a, b, _]) | Seats::Two([a, b]) => [a, b],
        Seats::InTurn => return Err(SeatsError::TooFew(1).into()),
    };
    let places = Places::of(&caches);
    let mut bench = Bench {
        arena: Arena::new(places.bytes)?,
        clock: Clock::calibrated(&processor),
        places,
        caches,
        cpus,
    };
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
    fn round(&mut self, samples: &mut Samples, seed: u64) -> Result<(), SeatsError> {
        let ghz = self.alone(|_, clock| {
            let from = clock();
            dependent_additions(100_000);
            1e7 / (clock() - from)
        })?;
        samples.add("frequency", "GHz", ghz);
        self.chases(samples, seed)?;
        self.many_misses(samples, seed)?;
        self.all_stores(samples)?;
        self.streams(samples)?;
        self.shared_lines(samples, seed)
    }

    /// One thread on the first CPU.
    fn alone<T: Send>(
        &self,
        body: impl FnOnce(&mut RealMemory<'_>, &dyn Fn() -> f64) -> T + Send,
    ) -> Result<T, SeatsError> {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                pin(self.cpus[0])?;
                Ok(body(&mut self.memory(), &|| self.now()))
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Two threads, each on its CPU, that begin together.
    fn pair(
        &self,
        body: impl Fn(&mut RealMemory<'_>, &dyn Fn() -> f64, Role) -> f64 + Sync,
    ) -> Result<[f64; 2], SeatsError> {
        let gate = Barrier::new(2);
        let one = |role: Role, cpu: usize| {
            let pinned = pin(cpu);
            gate.wait();
            // Without its own CPU a thread still answers the other one; the error is told afterwards.
            let took = body(&mut self.memory(), &|| self.now(), role);
            pinned.map(|()| took)
        };
        std::thread::scope(|scope| {
            let first = scope.spawn(|| one(Role::First, self.cpus[0]));
            let second = scope.spawn(|| one(Role::Second, self.cpus[1]));
            let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            Ok([join(first)?, join(second)?])
        })
    }

    fn memory(&self) -> RealMemory<'_> {
        // SAFETY: every place below comes from `Places`, whose `bytes` the arena has; past the caches goes only a
        // processor that was asked (`streams`).
        unsafe { self.arena.view() }
    }

    fn now(&self) -> f64 {
        self.clock.seconds(0, self.clock.ticks()) * 1e9
    }

    fn lay(&mut self, links: &[(Address, u64)]) {
        for (at, next) in links {
            self.arena.poke(*at, Width::Eight, *next);
        }
    }

    fn chases(&mut self, samples: &mut Samples, seed: u64) -> Result<(), SeatsError> {
        let mut sizes: Vec<u64> =
            (12..48).map(|bits| 1 << bits).filter(|size| *size <= self.places.zeroes).collect();
        let levels = [
            ("l1.latency", self.caches.l1.bytes / 2),
            // Near its size a cache also misses, and neighbours have their part of the shared one.
            ("l2.latency", self.caches.l2.bytes / 4),
            ("llc.latency", (self.caches.l2.bytes * 4).min(self.caches.llc.bytes / 4)),
            ("dram", self.places.zeroes),
        ];
        sizes.extend(levels.iter().map(|(_, size)| *size));
        sizes.sort_unstable();
        sizes.dedup();
        for size in sizes {
            let links = chain(0, size / LINE, seed);
            self.lay(&links);
            // Around once, so that what fits is in; where nothing fits, a part is enough.
            let (warm, steps) = ((size / LINE).min(200_000), 50_000);
            let took = self.alone(|memory, clock| chase(memory, |_| clock(), 0, warm, steps).0)?;
            match samples.chase.iter_mut().find(|(other, _)| *other == size) {
                Some((_, values)) => values.push(took),
                None => samples.chase.push((size, vec![took])),
            }
            for (name, _) in levels.iter().filter(|(_, wanted)| *wanted == size) {
                samples.add(name, "ns", took);
            }
        }
        Ok(())
    }

    fn many_misses(&self, samples: &mut Samples, seed: u64) -> Result<(), SeatsError> {
        let scatter = Scatter { base: self.places.zeroes, lines: self.places.zeroes / LINE };
        let mut times = Vec::new();
        for at_once in 1..=AT_ONCE {
            let first = seed.wrapping_mul(1 << 20) + (at_once as u64) * 65_536;
            let took = self.alone(|memory, clock| {
                pages(memory, self.places.zeroes, self.places.zeroes);
                misses(memory, |_| clock(), scatter, first, at_once, 2000)
            })?;
            times.push(took);
            match samples.misses.iter_mut().find(|(other, _)| *other == at_once) {
                Some((_, values)) => values.push(took),
                None => samples.misses.push((at_once, vec![took])),
            }
        }
        samples.add("parallel_misses", "lines", knee(&times) as f64);
        Ok(())
    }

    fn all_stores(&self, samples: &mut Samples) -> Result<(), SeatsError> {
        let levels = [
            ("store.l1", self.caches.l1.bytes / 2),
            ("store.l2", self.caches.l2.bytes / 2),
            ("store.llc", self.caches.llc.bytes / 4),
            ("store.dram", self.places.zeroes),
        ];
        for (name, size) in levels {
            let lines = ((size / LINE + 1).next_power_of_two() / 2).max(2);
            let scatter = Scatter { base: self.places.zeroes, lines };
            let took = self.alone(|memory, clock| stores(memory, |_| clock(), scatter, 100_000))?;
            samples.add(name, "ns", took);
        }
        Ok(())
    }

    fn streams(&self, samples: &mut Samples) -> Result<(), SeatsError> {
        let lines = 500_000.min(self.places.zeroes / LINE - 1);
        let base = self.places.zeroes;
        samples.add("stream", "ns", self.alone(|memory, clock| stream(memory, |_| clock(), base, lines))?);
        if can_go_past() {
            samples.add("past", "ns", self.alone(|memory, clock| past(memory, |_| clock(), base, lines))?);
        }
        Ok(())
    }

    fn shared_lines(&mut self, samples: &mut Samples, seed: u64) -> Result<(), SeatsError> {
        let line = self.places.shared;
        self.arena.poke(line, Width::Eight, 0);
        let took = self.pair(|memory, clock, role| ping_pong(memory, |_| clock(), role, line, 10_000))?;
        samples.add("hand_over", "ns", took[0]);
        for (name, apart) in [("increment.same_line", 8), ("increment.split_line", 2 * LINE)] {
            let took = self.pair(|memory, clock, role| {
                let counter = line + if role == Role::First { 0 } else { apart };
                increments(memory, |_| clock(), counter, 200_000)
            })?;
            samples.add(name, "ns", f64::midpoint(took[0], took[1]));
        }
        for (name, left) in [("core_modified", Left::Modified), ("core_clean", Left::Clean)] {
            // Lines that nobody has touched lately, in pairs of a page that a round does not share with the last one.
            let part =
                (seed % 256) * (HANDED * LINE) * 2 + if left == Left::Clean { HANDED * LINE } else { 0 };
            let links = chain(line + (1 << 20) + part % (32 << 20), HANDED, seed);
            self.lay(&links);
            self.arena.poke(line, Width::Eight, 0);
            self.evict()?;
            let took =
                self.pair(|memory, clock, role| handed_over(memory, |_| clock(), role, &links, left, line))?;
            samples.add(name, "ns", took[1]);
        }
        Ok(())
    }

    /// Fills the caches of the first CPU, and the shared one, with something else.
    fn evict(&self) -> Result<(), SeatsError> {
        let lines = self.caches.llc.bytes * 2 / LINE;
        self.alone(|memory, clock| stream(memory, |_| clock(), self.places.zeroes, lines)).map(|_| ())
    }

    fn calibration(&self, samples: &Samples, processor: Processor, seed: u64, rounds: usize) -> Calibration {
        let of = |values: &[f64]| {
            let none = Estimate { median: f64::NAN, low: f64::NAN, high: f64::NAN };
            interval(values, seed).unwrap_or(none)
        };
        let mut chase: Vec<_> = samples.chase.iter().map(|(size, values)| (*size, of(values))).collect();
        chase.sort_by_key(|(size, _)| *size);
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
            chase,
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

/// Whether this processor writes past its caches as `vmovntdq` does.
fn can_go_past() -> bool {
    crate::cache::factors::find("b").is_ok_and(|named| Processor::here().judge(&named).is_ok())
}
