//! The machine: cores over shared caches and memory, and what each access of a core does.
//!
//! Two kinds of events exist: a core issues its next instruction, and the head of a core's store buffer becomes visible. `Machine::next`
//! says which is earliest; whoever drives the machine must take them in that order and no other.

use super::core::{Core, State};
use super::counters::{Counters, Source};
use super::directory::Directory;
use super::moves::Moves;
use super::profile::{Profile, Protocol};
use super::sockets::{Shared, Sockets};
use super::stores::Store;
use super::timing::Timing;
use super::values::Values;
use super::{TICKS, Time};
use crate::Prefetchers;
use crate::memory::{Address, LINE, Width};

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// This core's oldest store becomes visible
    Commit(usize),
    /// This core asks for a line that a store will need
    Ahead(usize),
    /// This core issues
    Run(usize),
    /// All cores are done
    Finished,
    /// Every core that is not done waits for another
    Stuck,
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
    /// By how much the next time differs; nothing, if times are to be exact
    pub(super) luck: Option<fastrand::Rng>,
    /// The time of the event that is happening
    pub(super) present: Time,
    values: Values,
    frequency: f64,
    /// By core and line, for the lines below the watched end: loads from another core's modified line
    line_hits: Vec<Vec<u64>>,
    pub(super) moves: Moves,
    /// Stores that became visible: line, core and when
    #[cfg(test)]
    pub(super) written: Vec<(u64, usize, Time)>,
}

impl Machine {
    /// A machine of so many cores (at most 32) over an arena of so many bytes.
    pub fn new(profile: &Profile, cores: usize, bytes: u64, prefetchers: Prefetchers) -> Machine {
        let timing = Timing::new(profile);
        Machine {
            cores: (0..cores).map(|_| Core::new(&timing)).collect(),
            directory: Directory::new(bytes / LINE + 2),
            llc: Shared::new(profile),
            sockets: Sockets::one(),
            prefetchers,
            luck: None,
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

    /// From here on, loads from other cores' modified lines are counted for each line below `end` too.
    pub fn watch(&mut self, end: Address) {
        self.line_hits.fill(vec![0; end.div_ceil(LINE) as usize]);
    }

    /// From here on, times between cores and to memory differ by the profile's spread, the same way for the same seed.
    #[must_use]
    pub fn seeded(self, seed: u64) -> Machine {
        Machine { luck: Some(fastrand::Rng::with_seed(seed)), ..self }
    }

    /// The program has been running: a line that it changed has come to the shared cache, and what a prefetcher brings with
    /// it.
    pub fn warm(&mut self, line: u64) {
        if self.llc.uses(line) {
            return;
        }
        self.enter_llc(0, line, true);
        if self.prefetchers.adjacent && !self.llc.uses(line ^ 1) {
            self.enter_llc(0, line ^ 1, false);
        }
    }

    /// What a core counted so far of each watched line.
    pub fn line_hits(&self, core: usize) -> &[u64] {
        &self.line_hits[core]
    }

    /// What a core counted so far.
    pub fn counters(&self, core: usize) -> Counters {
        Counters { time: self.cores[core].clock, ..self.cores[core].counters }
    }

    /// Seconds in so much virtual time.
    pub fn seconds(&self, time: Time) -> f64 {
        time as f64 / TICKS as f64 / self.frequency * 1e-9
    }

    /// A value as it was stored last, for whoever looks from outside.
    pub fn peek(&self, at: Address, width: Width) -> u64 {
        self.values.load(at, width.bytes())
    }

    /// Puts a value where it lies before the program begins: no cache takes part.
    pub fn poke(&mut self, at: Address, width: Width, value: u64) {
        self.values.store(at, width.bytes(), value);
    }

    /// Which event is earliest; at the same time a store becomes visible before a line is asked for ahead, and that comes
    /// before an instruction.
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
            if self.cores.iter().all(|core| core.state == State::Done) { Next::Finished } else { Next::Stuck }
        };
        best.map_or_else(idle, |(_, _, next)| next)
    }

    /// The head of a core's store buffer becomes visible, or is put off until it can.
    pub(super) fn commit(&mut self, id: usize) {
        let (Some(now), Some(store)) =
            (self.cores[id].stores.due(self.timing.store), self.cores[id].stores.head().copied())
        else {
            return;
        };
        self.present = now;
        if let Some(how) = store.cleaning {
            self.commit_cleaning(id, store.line(), how, now);
            return;
        }
        if store.past {
            self.commit_past(id, store, now);
            return;
        }
        let entry = *self.directory.at(store.line());
        let owned = entry.owned_by(id).then_some(entry.owned_from);
        let asked = entry.for_writing;
        if owned.is_some_and(|from| from <= now) {
            self.commit_owned(id, store, now);
        } else if let Some(from) = self.cores[id].grace(store.line(), now) {
            // Even if the line is to come back: with every line that comes and goes the store would be put off again.
            if from > now {
                self.await_ownership(id, now, from, asked);
            } else {
                self.commit_lost(id, store, now);
            }
        } else if let Some(from) = owned {
            self.await_ownership(id, now, from, asked);
        } else {
            let fill = self.access(id, store.line(), true, now);
            self.cores[id].counters.rfo_demand += 1;
            self.cores[id].owning(now, fill.ready);
            self.await_ownership(id, now, fill.ready, true);
        }
    }

    /// The oldest store waits for its line. A request for ownership that was made ahead of it is in demand from now on; a line that
    /// was asked for in order to read is none.
    fn await_ownership(&mut self, id: usize, now: Time, from: Time, asked: bool) {
        self.cores[id].counters.rfo_time += if asked { from - now } else { 0 };
        self.cores[id].stores.postpone(from);
    }

    fn commit_owned(&mut self, id: usize, store: Store, now: Time) {
        self.directory.at(store.line()).dirty = true;
        let near = self.cores[id].l1.has(store.line());
        self.visible(id, now);
        if !near {
            self.access(id, store.line(), true, now);
            self.cores[id].stores.committed += self.timing.store_l2 - self.timing.store;
        }
    }

    /// A store into a line that is on its way to another core: its bytes go along, and to the shared cache where the other one
    /// only reads.
    fn commit_lost(&mut self, id: usize, store: Store, now: Time) {
        let line = store.line();
        let entry = self.directory.at(line);
        if entry.exclusive || self.timing.protocol == Protocol::Moesi && entry.dirty {
            entry.dirty = true;
        } else {
            self.enter_llc(id, line, true);
        }
        self.visible(id, now);
    }

    /// A store past the caches takes a fill buffer for each line until it has drained.
    fn commit_past(&mut self, id: usize, store: Store, now: Time) {
        let drains = self.cores[id].past.is_some_and(|(line, until)| line == store.line() && now < until);
        if drains {
            self.purge(store.line(), now);
        } else {
            let free = self.cores[id].fill_free(now);
            if free > now {
                self.cores[id].stores.postpone(free);
                return;
            }
            self.cores[id].past = Some((store.line(), now + self.timing.drain));
            self.purge(store.line(), now);
            self.write_memory(store.line(), now);
            self.cores[id].take_fill(now, now + self.timing.drain);
        }
        self.visible(id, now);
    }

    /// The store leaves the buffer and everybody can see it.
    fn visible(&mut self, id: usize, now: Time) {
        let Some(store) = self.leave_buffer(id, now) else { return };
        if let Some(value) = store.value
            && self.finds_expected(id, store)
        {
            self.values.store(store.at, store.bytes, value);
        }
        self.directory.at(store.line()).version += 1;
        self.cores[id].counters.stores += 1;
        #[cfg(test)]
        self.written.push((store.line(), id, now));
        for other in (0..self.cores.len()).filter(|other| *other != id) {
            self.wake(other, store.line(), now);
        }
    }

    /// The head leaves the buffer, and who waited for room goes on.
    pub(super) fn leave_buffer(&mut self, id: usize, now: Time) -> Option<Store> {
        let core = &mut self.cores[id];
        if core.state == State::Full {
            core.state = State::Running;
            core.counters.stall_stores += now.saturating_sub(core.clock);
            core.clock = core.clock.max(now);
        }
        core.stores.pop(now)
    }

    /// Whether the core's stores are all visible and its loads have retired; if stores are left, it waits for the oldest.
    pub(super) fn drained(&mut self, id: usize) -> bool {
        let core = &mut self.cores[id];
        core.retire();
        if core.stores.len() > 0 {
            core.state = State::Full;
        }
        core.stores.len() == 0
    }

    /// Whether the core can take another store; if not, it waits for the oldest to leave.
    pub(super) fn has_room(&mut self, id: usize) -> bool {
        let room = self.cores[id].stores.len() < self.timing.store_buffer;
        if !room {
            self.cores[id].state = State::Full;
        }
        room
    }

    /// A load of a value of at most 8 bytes within a line. If it follows, its address comes from the load before it.
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

    /// A load of bytes that nobody asks for.
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
        // A load that waits for bytes that are on their way is no miss of its own.
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

    /// A store; its line is asked for as soon as it has retired, ahead of its turn.
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

    /// A locked exchange within a line, which nothing of its core may pass: all stores before it are visible. It happens
    /// when its store becomes visible, and what was there then is `found`.
    pub(super) fn exchange(&mut self, id: usize, at: Address, bytes: u64, expected: u64, value: u64) {
        self.cores[id].issue(1, &self.timing);
        let core = &mut self.cores[id];
        let ready = core.clock.max(core.retired);
        let (value, expected) = (Some(value), Some(expected));
        core.stores.push(Store { at, bytes, value, expected, ready, past: false, cleaning: None });
        core.want(at / LINE, ready);
    }

    /// Whether a store that expects something finds it; one that does not may always be.
    fn finds_expected(&mut self, id: usize, store: Store) -> bool {
        let Some(expected) = store.expected else { return true };
        self.cores[id].found = self.values.load(store.at, store.bytes);
        self.cores[id].found == expected
    }

    /// What the core's last exchange found.
    pub(super) fn found(&self, id: usize) -> u64 {
        self.cores[id].found
    }

    /// Asks for the next line that a store on its way out will need, unless the core has it by now.
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

    /// A prefetch by the program.
    pub(super) fn prefetch(&mut self, id: usize, at: Address, write: bool) {
        self.cores[id].issue(1, &self.timing);
        let now = self.cores[id].clock.max(self.cores[id].depends);
        self.access(id, at / LINE, write, now);
    }

    /// Instructions without memory.
    pub(super) fn work(&mut self, id: usize, instructions: u64) {
        self.cores[id].issue(instructions, &self.timing);
    }

    /// What follows needs the last load's value to be addressed.
    pub(super) fn follows(&mut self, id: usize) {
        self.cores[id].follow();
    }

    /// What was loaded from here was not what was wanted: waits until the line changes.
    pub(super) fn pause(&mut self, id: usize, at: Address) {
        let line = at / LINE;
        self.cores[id].resolve(self.timing.mispredict);
        let version = self.directory.at(line).version;
        let unchanged = self.cores[id].seen == (line, version);
        if unchanged && self.cores[id].l2.has(line) {
            self.cores[id].state = State::Parked(line);
        }
    }

    /// The core's thread has ended.
    pub(super) fn finish(&mut self, id: usize) {
        self.cores[id].state = State::Done;
    }
}
