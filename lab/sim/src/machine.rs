//! The machine: cores over shared caches and memory, and the effect of each access.
//!
//! The events are: a core issues its next instruction, a core requests a line ahead of a store, and the head of a
//! core's store buffer becomes visible. `Machine::next` returns the earliest event; the driver must process events in
//! that order.

use super::core::{Core, State};
use super::counters::{Counters, Source};
use super::directory::Directory;
use super::moves::Moves;
use super::profile::Profile;
use super::sockets::{Shared, Sockets};
use super::stores::Store;
use super::timing::Timing;
use super::values::Values;
use super::{TICKS, Time};
use crate::Prefetchers;
use crate::memory::{Address, LINE, Width};

/// The next event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// This core's oldest store becomes visible
    Commit(usize),
    /// This core requests a line that a store will need
    Ahead(usize),
    /// This core issues
    Run(usize),
    /// All cores are done
    Finished,
    /// Every core that is not done waits for another
    Deadlock,
}

/// The simulated machine.
#[derive(Clone, Debug)]
pub struct Machine {
    pub(super) timing: Timing,
    pub(super) cores: Vec<Core>,
    pub(super) directory: Directory,
    pub(super) llc: Shared,
    pub(super) sockets: Sockets,
    pub(super) prefetchers: Prefetchers,
    /// Random source for time variation; `None` for exact times
    pub(super) rng: Option<fastrand::Rng>,
    /// Time of the current event
    pub(super) present: Time,
    pub(super) values: Values,
    frequency: f64,
    /// Loads from another core's modified line, by core and line, for lines below the watched end
    line_hits: Vec<Vec<u64>>,
    pub(super) moves: Moves,
    /// Visible stores: line, core and time
    #[cfg(test)]
    pub(super) written: Vec<(u64, usize, Time)>,
}

impl Machine {
    /// Creates a machine of `cores` cores (at most 32) over an arena of `bytes` bytes.
    pub fn new(profile: &Profile, cores: usize, bytes: u64, prefetchers: Prefetchers) -> Machine {
        let timing = Timing::new(profile);
        Machine {
            cores: (0..cores).map(|_| Core::new(&timing)).collect(),
            directory: Directory::new(bytes / LINE + 2),
            llc: Shared::new(profile),
            sockets: Sockets::one(),
            prefetchers,
            rng: None,
            present: 0,
            values: Values::new(bytes),
            frequency: profile.frequency.value,
            line_hits: vec![Vec::new(); cores],
            moves: Moves::default(),
            #[cfg(test)]
            written: Vec::new(),
            timing,
        }
    }

    /// Also counts, from now on, loads from other cores' modified lines per line below `end`.
    pub fn watch(&mut self, end: Address) {
        self.line_hits.fill(vec![0; end.div_ceil(LINE) as usize]);
    }

    /// Varies core-to-core and memory times by the profile's spread from now on; the same seed gives the same times.
    #[must_use]
    pub fn seeded(self, seed: u64) -> Machine {
        Machine { rng: Some(fastrand::Rng::with_seed(seed)), ..self }
    }

    /// Puts a line into the shared cache as changed by a program that ran before, with the line that the adjacent-line
    /// prefetcher fetches.
    pub fn warm(&mut self, line: u64) {
        if self.llc.uses(line) {
            return;
        }
        self.enter_llc(0, line, true);
        if self.prefetchers.adjacent && !self.llc.uses(line ^ 1) {
            self.enter_llc(0, line ^ 1, false);
        }
    }

    /// Loads from other cores' modified lines so far, per watched line.
    pub fn line_hits(&self, core: usize) -> &[u64] {
        &self.line_hits[core]
    }

    /// Counters of a core so far.
    pub fn counters(&self, core: usize) -> Counters {
        Counters { time: self.cores[core].clock, ..self.cores[core].counters }
    }

    /// Converts virtual time to seconds.
    pub fn seconds(&self, time: Time) -> f64 {
        time as f64 / TICKS as f64 / self.frequency * 1e-9
    }

    /// Returns the last stored value, for inspection from outside.
    pub fn peek(&self, at: Address, width: Width) -> u64 {
        self.values.load(at, width.bytes())
    }

    /// Stores a value before the program begins, without any cache.
    pub fn poke(&mut self, at: Address, width: Width, value: u64) {
        self.values.store(at, width.bytes(), value);
    }

    /// Returns the earliest event. At equal times a store becomes visible first, then a line is requested ahead, then
    /// an instruction issues.
    pub(super) fn next(&self) -> Next {
        let mut best: Option<(Time, u8, Next)> = None;
        let mut offer = |time: Time, rank: u8, next: Next| {
            if best.is_none_or(|(other, other_rank, _)| (time, rank) < (other, other_rank)) {
                best = Some((time, rank, next));
            }
        };
        for (id, core) in self.cores.iter().enumerate() {
            if let Some(due) = core.stores.due(self.timing.store) {
                offer(due, 0, Next::Commit(id));
            }
            if let Some(due) = core.want_due() {
                offer(due, 1, Next::Ahead(id));
            }
            if core.state == State::Running {
                offer(core.clock, 2, Next::Run(id));
            }
        }
        let idle = || {
            if self.cores.iter().all(|core| core.state == State::Done) {
                Next::Finished
            } else {
                Next::Deadlock
            }
        };
        best.map_or_else(idle, |(_, _, next)| next)
    }

    /// Whether all stores are visible and all loads have retired; if stores remain, the core waits for the oldest.
    pub(super) fn drained(&mut self, id: usize) -> bool {
        let core = &mut self.cores[id];
        core.retire();
        if core.stores.len() > 0 {
            core.state = State::Full;
        }
        core.stores.len() == 0
    }

    /// Whether the core can buffer another store; if not, it waits for the oldest to leave.
    pub(super) fn has_room(&mut self, id: usize) -> bool {
        let room = self.cores[id].stores.len() < self.timing.store_buffer;
        if !room {
            self.cores[id].state = State::Full;
        }
        room
    }

    /// Loads a value of at most 8 bytes within a line. If `follows`, its address comes from the previous load.
    pub(super) fn load(&mut self, id: usize, at: Address, bytes: u64, follows: bool) -> u64 {
        self.cores[id].issue(1, &self.timing);
        self.cores[id].counters.loads += 1;
        let now =
            if follows { self.cores[id].clock.max(self.cores[id].depends) } else { self.cores[id].clock };
        let (line, value) = (at / LINE, self.values.load(at, bytes));
        if let Some(value) = self.cores[id].stores.forward(at, bytes, value) {
            self.cores[id].buffered = now;
            self.cores[id].load_completes(now + self.timing.l1, Source::L1);
            return value;
        }
        self.demand(id, line, now);
        self.cores[id].seen = (line, self.directory.at(line).version);
        value
    }

    /// Loads bytes whose value is not used.
    pub(super) fn touch(&mut self, id: usize, at: Address) {
        self.cores[id].issue(1, &self.timing);
        self.cores[id].counters.loads += 1;
        let now = self.cores[id].clock.max(self.cores[id].depends);
        self.demand(id, at / LINE, now);
    }

    fn demand(&mut self, id: usize, line: u64, now: Time) {
        let modified = {
            let entry = self.directory.at(line);
            entry.dirty && !entry.shared_by(id)
        };
        let fill = self.access(id, line, false, now);
        let counters = &mut self.cores[id].counters;
        // A load that waits for bytes already on their way is not a separate miss.
        let level = if fill.pending { 0 } else { fill.source as u64 };
        counters.l1_misses += u64::from(level >= Source::L2 as u64);
        counters.l2_misses += u64::from(level >= Source::Llc as u64);
        counters.llc_misses += u64::from(level == Source::Dram as u64);
        counters.hits_modified += u64::from(modified && level == Source::Core as u64);
        if let Some(hits) = self.line_hits[id].get_mut(line as usize) {
            *hits += u64::from(modified && level == Source::Core as u64);
        }
        self.cores[id].load_completes(fill.ready, fill.source);
    }

    /// Buffers a store; its line is requested as soon as the store has retired, before it reaches the head.
    pub(super) fn store(&mut self, id: usize, at: Address, bytes: u64, value: Option<u64>, past: bool) {
        self.cores[id].issue(1, &self.timing);
        let core = &self.cores[id];
        let now = if value.is_some() { core.clock } else { core.clock.max(core.depends) };
        let ready = now.max(core.retired);
        self.cores[id].stores.push(Store { at, bytes, value, expected: None, ready, past, cleaning: None });
        if !past {
            self.cores[id].want(at / LINE, ready);
        }
    }

    /// Buffers a locked exchange within a line. All earlier stores of the core must be visible. The exchange happens
    /// when its store becomes visible; `found` returns the value read then.
    pub(super) fn exchange(&mut self, id: usize, at: Address, bytes: u64, expected: u64, value: u64) {
        self.cores[id].issue(1, &self.timing);
        let core = &mut self.cores[id];
        let ready = core.clock.max(core.retired);
        let (value, expected) = (Some(value), Some(expected));
        core.stores.push(Store { at, bytes, value, expected, ready, past: false, cleaning: None });
        core.want(at / LINE, ready);
    }

    /// Value found by the core's last exchange.
    pub(super) fn found(&self, id: usize) -> u64 {
        self.cores[id].found
    }

    /// Requests the next line that a buffered store needs, unless the core already has it.
    pub(super) fn ask_ahead(&mut self, id: usize) {
        let (Some(now), Some(line)) = (self.cores[id].want_due(), self.cores[id].next_wanted()) else {
            return;
        };
        self.present = now;
        let mine = self.directory.at(line).owned_by(id) || self.cores[id].grace(line, now).is_some();
        if !mine {
            self.cores[id].counters.rfo_ahead += 1;
            let fill = self.access(id, line, true, now);
            self.cores[id].owning(now, fill.ready);
        }
    }

    /// Executes a software prefetch.
    pub(super) fn prefetch(&mut self, id: usize, at: Address, write: bool) {
        self.cores[id].issue(1, &self.timing);
        let now = self.cores[id].clock.max(self.cores[id].depends);
        self.access(id, at / LINE, write, now);
    }

    /// Issues instructions that do not access memory.
    pub(super) fn work(&mut self, id: usize, instructions: u64) {
        self.cores[id].issue(instructions, &self.timing);
    }

    /// Makes later addresses depend on the last load's value.
    pub(super) fn follows(&mut self, id: usize) {
        self.cores[id].follow();
    }

    /// Handles a poll that did not find the wanted value: parks the core until the line changes.
    pub(super) fn pause(&mut self, id: usize, at: Address) {
        let line = at / LINE;
        self.cores[id].resolve(self.timing.mispredict);
        let version = self.directory.at(line).version;
        let unchanged = self.cores[id].seen == (line, version);
        if unchanged && self.cores[id].l2.has(line) {
            self.cores[id].state = State::Parked(line);
        }
    }

    /// Marks the core's thread as ended.
    pub(super) fn finish(&mut self, id: usize) {
        self.cores[id].state = State::Done;
    }
}
