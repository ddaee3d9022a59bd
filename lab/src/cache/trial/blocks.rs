//! The blocks of a trial: orders, slices, what is run again, and what was collected for each configuration.

use super::quiet::{Disturbance, Quiet, stolen};
use super::statistics::{FEWEST, median, ratio};
use super::{Plan, Progress, TrialError};
use crate::cache::counted::{Counts, Events, Watch as CounterWatch};
use crate::cache::experiment::Length;
use crate::cache::factors::Named;
use crate::cache::real::{Arena, Bench, Slice, run::Watch, slice};
use crate::cache::results::Row;

/// For about how long a slice is tried before its block goes without it, in seconds, and how often at least.
const TRYING: (f64, usize) = (0.25, 6);
/// Packets of the run that says how many make a slice.
const PILOT: Length = Length { packets: 50_000, warm_up: 10_000 };

/// Quiet and counters together.
struct Both {
    quiet: Quiet,
    counters: Option<CounterWatch>,
}

impl Watch for Both {
    fn begin(&mut self) {
        self.quiet.begin();
        if let Some(counters) = &mut self.counters {
            counters.begin();
        }
    }

    fn end(&mut self) {
        if let Some(counters) = &mut self.counters {
            counters.end();
        }
        self.quiet.end();
    }
}

/// A trial under way.
pub(super) struct Blocks<'a> {
    plan: &'a Plan,
    all: &'a [Named],
    arena: Arena,
    bench: Bench,
    events: Option<Events>,
    lengths: Vec<Length>,
    /// By block, then by configuration; none where every try was disturbed
    mpps: Vec<Vec<Option<f64>>>,
    counts: Vec<Counts>,
    repeated: Disturbance,
    repeats: usize,
    missing: usize,
}

impl<'a> Blocks<'a> {
    pub(super) fn new(
        plan: &'a Plan,
        all: &'a [Named],
        arena: Arena,
        bench: Bench,
        events: Option<Events>,
    ) -> Blocks<'a> {
        Blocks {
            plan,
            all,
            arena,
            bench,
            events,
            lengths: Vec::new(),
            mpps: Vec::new(),
            counts: vec![Counts::default(); all.len()],
            repeated: Disturbance::default(),
            repeats: 0,
            missing: 0,
        }
    }

    /// Runs all blocks.
    pub(super) fn run(&mut self, progress: &mut dyn Progress) -> Result<(), TrialError> {
        let slices = self.all.len() * (self.plan.rounds + 1);
        let mut done = 0;
        for named in self.all {
            progress.step(done, slices, &named.name);
            let pilot = self.slice(named, PILOT, None)?.0.mpps();
            self.lengths.push(length_for(pilot, self.plan.slice.as_secs_f64()));
            done += 1;
        }
        for block in 0..self.plan.rounds {
            let mut row = vec![None; self.all.len()];
            for place in order(self.plan.seed, block, self.all.len()) {
                progress.step(done, slices, &self.all[place].name);
                row[place] = self.quiet_slice(place, block)?;
                done += 1;
            }
            self.mpps.push(row);
        }
        progress.step(slices, slices, "");
        Ok(())
    }

    /// A slice that nobody disturbed, if one can be had in a few tries.
    fn quiet_slice(&mut self, place: usize, block: usize) -> Result<Option<f64>, TrialError> {
        let group = self.events.as_ref().map(|events| events.group(block));
        for _ in 0..tries(self.plan) {
            let (slice, disturbance) = self.slice(&self.all[place], self.lengths[place], group)?;
            if disturbance == Disturbance::default() {
                let mpps = slice.mpps();
                self.keep_counts(place, slice);
                return Ok(Some(mpps));
            }
            self.repeats += 1;
            self.repeated = self.repeated.plus(disturbance);
        }
        self.missing += 1;
        Ok(None)
    }

    fn slice(
        &mut self,
        named: &Named,
        length: Length,
        group: Option<usize>,
    ) -> Result<(Slice<Both>, Disturbance), TrialError> {
        let events = self.events.as_ref();
        let watch = || Both {
            quiet: Quiet::default(),
            counters: events.zip(group).map(|(events, group)| events.watch(group)),
        };
        let before = stolen(self.bench.seats.cpus());
        let slice = slice(&self.bench, &mut self.arena, &named.config, length, &watch)?;
        let ticks = stolen(self.bench.seats.cpus()).saturating_sub(before);
        let switches = slice.watches.iter().map(|(_, watch)| watch.quiet.switches()).sum();
        Ok((slice, Disturbance { ticks, switches }))
    }

    fn keep_counts(&mut self, place: usize, slice: Slice<Both>) {
        let mut multiplexed = false;
        for (thread, watch) in slice.watches {
            if let Some(mut counters) = watch.counters {
                multiplexed |= self.counts[place].add(thread, counters.read(), slice.packets);
            }
        }
        if let Some(events) = self.events.as_mut().filter(|_| multiplexed) {
            events.narrow();
        }
    }

    /// Packets of a slice of the base.
    pub(super) fn packets(&self) -> u64 {
        self.lengths.first().map_or(0, |length| length.packets)
    }

    /// One row for each configuration.
    pub(super) fn rows(&self) -> Vec<Row> {
        let row = |(place, named): (usize, &Named)| {
            let mut mpps: Vec<f64> = self.mpps.iter().filter_map(|block| block[place]).collect();
            Row {
                name: named.name.clone(),
                mpps: median(&mut mpps).unwrap_or(f64::NAN),
                ratio: if place == 0 { None } else { ratio(&self.pairs(place), self.plan.seed) },
                lines: Vec::new(),
                threads: Vec::new(),
                events: self.counts[place].rows(),
            }
        };
        self.all.iter().enumerate().map(row).filter(|row| row.mpps.is_finite()).collect()
    }

    /// Logarithms of the ratios to the base of the same block.
    fn pairs(&self, place: usize) -> Vec<f64> {
        self.mpps.iter().filter_map(|block| Some((block[place]? / block[0]?).ln())).collect()
    }

    /// What was run again or left out.
    pub(super) fn notes(&self) -> Vec<String> {
        let slices = self.all.len() * self.plan.rounds;
        let mut notes = vec![format!(
            "{} of {} slices were discarded and run again: {} ticks (10 ms) of stolen time, {} involuntary context switches",
            self.repeats,
            slices + self.repeats - self.missing.min(self.repeats),
            self.repeated.ticks,
            self.repeated.switches
        )];
        if self.missing > 0 {
            notes.push(format!(
                "{} of {slices} slices were disturbed in each of {} tries and are left out of their blocks",
                self.missing,
                tries(self.plan)
            ));
        }
        for (place, named) in self.all.iter().enumerate() {
            let pairs = self.pairs(place).len();
            if pairs < FEWEST {
                notes.push(format!(
                    "{}: only {pairs} rounds without disturbance in it and in the base, which give no interval; run it on a quieter machine, with shorter slices or for more rounds",
                    named.name
                ));
            }
        }
        notes.extend(self.events.as_ref().map(Events::note));
        notes
    }
}

fn tries(plan: &Plan) -> usize {
    ((TRYING.0 / plan.slice.as_secs_f64()) as usize).max(TRYING.1)
}

/// Packets that take about so long at this rate, and a fifth of them before that.
fn length_for(mpps: f64, seconds: f64) -> Length {
    let packets = ((mpps * 1e6 * seconds) as u64).max(1000);
    Length { packets, warm_up: packets / 5 }
}

/// The order of a block.
pub(in crate::cache) fn order(seed: u64, block: usize, many: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..many).collect();
    // Blocks of one seed must not resemble each other, nor one block those of near seeds.
    let mixed = fastrand::Rng::with_seed(seed).u64(..) ^ (block as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    fastrand::Rng::with_seed(mixed).shuffle(&mut order);
    order
}
