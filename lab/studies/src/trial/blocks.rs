//! Rounds of a trial: order, slices and repetitions.

use std::ops::ControlFlow;

use super::disturbance::{Disturbance, SwitchCounter, stolen};
use super::record::{Record, Repeated, Round};
use super::{Plan, Progress, TrialError};
use crate::counted::{Counts, Events, Watch as CounterWatch};
use crate::experiment::Length;
use crate::factors::Named;
use crate::results::EventRow;
use crate::slice::{Bench, Slice, Watch, slice};
use real::Arena;

/// Tries of a slice before its round omits it: about this many seconds, and at least this many tries.
const TRYING: (f64, usize) = (0.25, 6);
/// Length of a pilot run, which determines the packets of a slice, and number of pilot runs: the first is often slow.
const PILOT: Length = Length { packets: 50_000, warm_up: 10_000 };
const PILOTS: usize = 3;

/// Disturbance watch and counter watch of a thread.
struct Both {
    switches: SwitchCounter,
    counters: Option<CounterWatch>,
}

impl Watch for Both {
    fn begin(&mut self) {
        self.switches.begin();
        if let Some(counters) = &mut self.counters {
            counters.begin();
        }
    }

    fn end(&mut self) {
        if let Some(counters) = &mut self.counters {
            counters.end();
        }
        self.switches.end();
    }
}

/// Execution environment and state of a trial's slices.
pub(super) struct Blocks<'a> {
    pub(super) plan: &'a Plan,
    /// Configurations in the order of the record's slices
    pub(super) all: &'a [Named],
    pub(super) arena: &'a mut Arena,
    pub(super) bench: &'a Bench,
    pub(super) events: &'a mut Option<Events>,
}

impl Blocks<'_> {
    /// Determines the packets per slice of each configuration that lacks them; returns a break if the trial was
    /// stopped.
    pub(super) fn pilots(
        &mut self,
        record: &mut Record,
        progress: &mut dyn Progress,
    ) -> Result<ControlFlow<()>, TrialError> {
        for (place, named) in self.all.iter().enumerate() {
            if record.slices[place].packets > 0 {
                continue;
            }
            progress.step(place, self.steps(), &named.name);
            let mut pilot: f64 = 0.0;
            for _ in 0..PILOTS {
                pilot = pilot.max(self.slice(named, PILOT, None)?.0.mpps());
            }
            record.slices[place].packets = packets_for(pilot, self.plan.slice.as_secs_f64());
            if progress.stopped() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Runs the round with this number; returns `None` if the trial was stopped before its end.
    pub(super) fn round(
        &mut self,
        number: usize,
        record: &Record,
        progress: &mut dyn Progress,
    ) -> Result<Option<Round>, TrialError> {
        let many = self.all.len();
        let mut round = Round { mpps: vec![None; many], ..Round::default() };
        if self.events.is_some() {
            round.events = vec![Vec::new(); many];
        }
        for (nth, place) in order(self.plan.seed, number, many).into_iter().enumerate() {
            if progress.stopped() {
                return Ok(None);
            }
            progress.step((number + 1) * many + nth, self.steps(), &self.all[place].name);
            self.quiet_slice(place, number, record.slices[place].packets, &mut round)?;
        }
        Ok(Some(round))
    }

    /// Number of slices of the whole trial, with one for each pilot.
    pub(super) fn steps(&self) -> usize {
        self.all.len() * (self.plan.rounds + 1)
    }

    /// Runs a slice until one is undisturbed, at most `tries` times.
    fn quiet_slice(
        &mut self,
        place: usize,
        number: usize,
        packets: u64,
        round: &mut Round,
    ) -> Result<(), TrialError> {
        let group = self.events.as_ref().map(|events| events.group(number));
        let length = Length { packets, warm_up: packets / 5 };
        for _ in 0..tries(self.plan) {
            let (slice, disturbance) = self.slice(&self.all[place], length, group)?;
            if disturbance == Disturbance::default() {
                round.mpps[place] = Some(slice.mpps());
                if let Some(events) = round.events.get_mut(place) {
                    *events = self.counts(slice);
                }
                return Ok(());
            }
            let Repeated { slices, ticks, switches } = round.repeated;
            round.repeated = Repeated {
                slices: slices + 1,
                ticks: ticks + disturbance.ticks,
                switches: switches + disturbance.switches,
            };
        }
        Ok(())
    }

    fn slice(
        &mut self,
        named: &Named,
        length: Length,
        group: Option<usize>,
    ) -> Result<(Slice<Both>, Disturbance), TrialError> {
        let events = self.events.as_ref();
        let watch = || Both {
            switches: SwitchCounter::default(),
            counters: events.zip(group).map(|(events, group)| events.watch(group)),
        };
        let before = stolen(self.bench.pinning.cpus());
        let slice = slice(self.bench, self.arena, &named.config, length, &watch)?;
        let ticks = stolen(self.bench.pinning.cpus()).saturating_sub(before);
        let switches = slice.watches.iter().map(|(_, watch)| watch.switches.switches()).sum();
        Ok((slice, Disturbance { ticks, switches }))
    }

    /// Returns the threads' counts per packet.
    fn counts(&mut self, slice: Slice<Both>) -> Vec<EventRow> {
        let (mut counts, mut multiplexed) = (Counts::default(), false);
        for (thread, watch) in slice.watches {
            if let Some(mut counters) = watch.counters {
                multiplexed |= counts.add(thread, counters.read(), slice.packets);
            }
        }
        if let Some(events) = self.events.as_mut().filter(|_| multiplexed) {
            events.narrow();
        }
        counts.rows()
    }
}

/// Maximum number of tries of a slice.
pub(super) fn tries(plan: &Plan) -> usize {
    ((TRYING.0 / plan.slice.as_secs_f64()) as usize).max(TRYING.1)
}

/// Number of packets that take about `seconds` at this rate.
fn packets_for(mpps: f64, seconds: f64) -> u64 {
    ((mpps * 1e6 * seconds) as u64).max(1000)
}

/// Returns the order of a block.
pub(crate) fn order(seed: u64, block: usize, many: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..many).collect();
    // Orders must differ between the blocks of a seed and between blocks of adjacent seeds.
    let mixed = fastrand::Rng::with_seed(seed).u64(..) ^ (block as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    fastrand::Rng::with_seed(mixed).shuffle(&mut order);
    order
}
