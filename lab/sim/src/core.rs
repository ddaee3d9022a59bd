//! One core: clock, window of instructions in flight, caches and counters.
//!
//! Instructions issue in program order, at most `width` per cycle. Issue stalls until the instruction one reorder
//! buffer length earlier retires. Loads overlap within that window; retirement is in order.

use std::collections::VecDeque;

use super::Time;
use super::counters::{Counters, Source};
use super::prefetch::Streams;
use super::stores::Stores;
use super::tags::Tags;
use super::timing::Timing;

/// Execution state of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Running,
    /// Waits until this line changes
    Parked(u64),
    /// Waits until its store buffer has room
    Full,
    Done,
}

/// A load that has not retired.
#[derive(Clone, Copy, Debug)]
struct InFlight {
    instruction: u64,
    retires: Time,
    /// Time at which it got a fill buffer, or its issue time if it needed none
    buffered: Time,
    source: Source,
}

/// A line granted to another core but still usable by this one between these times.
#[derive(Clone, Copy, Debug)]
struct Grace {
    line: u64,
    from: Time,
    until: Time,
}

/// One core.
#[derive(Clone, Debug)]
pub(super) struct Core {
    pub(super) state: State,
    pub(super) clock: Time,
    pub(super) l1: Tags,
    pub(super) l2: Tags,
    pub(super) stores: Stores,
    pub(super) streams: Streams,
    pub(super) counters: Counters,
    /// Time at which everything issued so far has retired
    pub(super) retired: Time,
    /// Time at which the last load has its value, and its source
    pub(super) loaded: Time,
    loaded_from: Source,
    loaded_buffered: Time,
    /// Time at which the last access got its fill buffer, or its issue time if it needed none
    pub(super) buffered: Time,
    /// Earliest start of accesses whose address depends on the last load
    pub(super) depends: Time,
    depends_on: Source,
    /// State seen by the last load of a value: line and line version
    pub(super) seen: (u64, u32),
    /// Value found by the last exchange
    pub(super) found: u64,
    /// Line of the current non-temporal write, and the time until which it occupies a fill buffer
    pub(super) past: Option<(u64, Time)>,
    graces: Vec<Grace>,
    /// Time until which a request for ownership is outstanding
    owning_until: Time,
    /// Lines needed by buffered stores, and the earliest time of the request for each
    wanted: VecDeque<(u64, Time)>,
    window: VecDeque<InFlight>,
    fills: Vec<Time>,
    /// Times at which each fill buffer was taken and released
    #[cfg(test)]
    pub(super) taken: Vec<(Time, Time)>,
}

impl Core {
    pub(super) fn new(timing: &Timing) -> Core {
        Core {
            state: State::Running,
            clock: 0,
            l1: Tags::new(timing.l1_bytes, timing.l1_ways, false),
            l2: Tags::new(timing.l2_bytes, timing.l2_ways, false),
            stores: Stores::default(),
            streams: Streams::default(),
            counters: Counters::default(),
            retired: 0,
            loaded: 0,
            loaded_from: Source::L1,
            loaded_buffered: 0,
            buffered: 0,
            depends: 0,
            depends_on: Source::L1,
            seen: (u64::MAX, 0),
            found: 0,
            past: None,
            graces: Vec::new(),
            owning_until: 0,
            wanted: VecDeque::new(),
            window: VecDeque::new(),
            fills: vec![0; timing.fill_buffers],
            #[cfg(test)]
            taken: Vec::new(),
        }
    }

    /// Issues instructions: advances the clock by their issue time, and further if the window is full.
    pub(super) fn issue(&mut self, count: u64, timing: &Timing) {
        self.counters.instructions += count;
        self.clock += count * timing.issue;
        let oldest = self.counters.instructions.saturating_sub(timing.reorder_buffer);
        while let Some(first) = self.window.front().filter(|first| first.instruction <= oldest) {
            let (retires, buffered, source) = (first.retires, first.buffered, first.source);
            self.stall_until(retires, buffered, source);
            self.window.pop_front();
        }
    }

    /// Records an issued load that completes at `at`.
    pub(super) fn load_completes(&mut self, at: Time, source: Source) {
        self.retired = self.retired.max(at);
        (self.loaded, self.loaded_from, self.loaded_buffered) = (at, source, self.buffered);
        self.window.push_back(InFlight {
            instruction: self.counters.instructions,
            retires: self.retired,
            buffered: self.buffered,
            source,
        });
    }

    /// Makes later accesses wait for the last load's value.
    pub(super) fn follow(&mut self) {
        (self.depends, self.depends_on) = (self.loaded, self.loaded_from);
    }

    /// Waits for the last load's value and charges a branch misprediction.
    pub(super) fn resolve(&mut self, penalty: Time) {
        let (loaded, source) = (self.loaded, self.loaded_from);
        self.stall_until(loaded, self.loaded_buffered, source);
        self.clock += penalty;
    }

    /// Waits until everything issued so far has retired.
    pub(super) fn retire(&mut self) {
        let last = self.window.back().map_or((0, Source::L1), |last| (last.buffered, last.source));
        self.stall_until(self.retired, last.0, last.1);
    }

    /// Stalls until `until`. The part before the line got its fill buffer counts as a fill buffer stall.
    fn stall_until(&mut self, until: Time, buffered: Time, source: Source) {
        if until > self.clock {
            let fills = buffered.min(until).saturating_sub(self.clock);
            self.counters.stall_fills += fills;
            self.counters.stall(source, until - self.clock - fills);
            self.clock = until;
        }
    }

    /// Records that an issued store needs this line.
    pub(super) fn want(&mut self, line: u64, from: Time) {
        if self.wanted.back().is_none_or(|(last, _)| *last != line) {
            self.wanted.push_back((line, from));
        }
    }

    /// Time at which the next wanted line can be requested: it needs a free fill buffer.
    pub(super) fn want_due(&self) -> Option<Time> {
        self.wanted.front().map(|(_, from)| self.fill_free(*from))
    }

    /// Removes and returns the next wanted line.
    pub(super) fn next_wanted(&mut self) -> Option<u64> {
        self.wanted.pop_front().map(|(line, _)| line)
    }

    /// Counts the time with outstanding requests for ownership; overlapping requests count once.
    pub(super) fn owning(&mut self, from: Time, until: Time) {
        self.counters.rfo_any_time += until.saturating_sub(from.max(self.owning_until));
        self.owning_until = self.owning_until.max(until);
    }

    /// Records that the line goes to another core but stays usable here from `from` until `until`.
    pub(super) fn grant(&mut self, line: u64, from: Time, until: Time) {
        let now = self.stores.due(0).unwrap_or(self.clock).min(self.clock);
        self.graces.retain(|grace| now < grace.until);
        self.graces.push(Grace { line, from, until });
    }

    /// Ends the use of a line here at once: its remaining copy is stale.
    pub(super) fn let_go(&mut self, line: u64) {
        self.graces.retain(|grace| grace.line != line);
    }

    /// Time from which a granted line is usable here; `None` if its grace period is over.
    pub(super) fn grace(&self, line: u64, now: Time) -> Option<Time> {
        let usable = self.graces.iter().filter(|grace| grace.line == line && now < grace.until);
        usable.map(|grace| grace.from).min()
    }

    /// Earliest time, not before `now`, at which a fill buffer is free.
    pub(super) fn fill_free(&self, now: Time) -> Time {
        self.fills.iter().copied().min().unwrap_or(0).max(now)
    }

    /// Takes a fill buffer from `from` until `until`.
    pub(super) fn take_fill(&mut self, from: Time, until: Time) {
        if let Some(first) = self.fills.iter_mut().min() {
            *first = until;
        }
        #[cfg(test)]
        self.taken.push((from, until));
        // No buffer is taken before the first is free, so no time is counted twice.
        let next = self.fills.iter().copied().min().unwrap_or(0);
        if next > from {
            self.counters.fill_full_time += next - from;
        }
    }
}
