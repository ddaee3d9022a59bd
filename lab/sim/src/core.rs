//! One core: its clock, the window of instructions in flight, its caches, and what it counted.
//!
//! Instructions issue in program order, at most the width of them a cycle, and none while the one a reorder buffer's
//! length ahead of it has not retired. Loads overlap within that window; retirement is in order.

use std::collections::VecDeque;

use super::Time;
use super::counters::{Counters, Source};
use super::prefetch::Streams;
use super::stores::Stores;
use super::tags::Tags;
use super::timing::Timing;

/// Whether a core can go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Running,
    /// Waits for this line to change
    Parked(u64),
    /// Waits for room in its store buffer
    Full,
    Done,
}

/// A load that has not retired.
#[derive(Clone, Copy, Debug)]
struct InFlight {
    instruction: u64,
    retires: Time,
    /// When it had a fill buffer, or needed none
    buffered: Time,
    source: Source,
}

/// A line that was lost to another core, but not yet: it may be used between these times.
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
    /// When everything issued so far has retired
    pub(super) retired: Time,
    /// When the last load has its value, and where from
    pub(super) loaded: Time,
    loaded_from: Source,
    loaded_buffered: Time,
    /// When the last access had its fill buffer, or needed none
    pub(super) buffered: Time,
    /// What touches packets cannot begin before this
    pub(super) depends: Time,
    depends_on: Source,
    /// What the last load of a value saw: line, version, and whether the line is still here
    pub(super) seen: (u64, u32),
    /// What the last exchange found
    pub(super) found: u64,
    /// The line that is being written past the caches, and until when it takes a buffer
    pub(super) past: Option<(u64, Time)>,
    graces: Vec<Grace>,
    /// Until when a request for ownership is outstanding
    owning_until: Time,
    /// Lines that stores on their way out will need, and from when on
    wanted: VecDeque<(u64, Time)>,
    window: VecDeque<InFlight>,
    fills: Vec<Time>,
    /// When each was taken and given back
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

    /// Issues instructions: the clock moves by their width, and further where the window is full.
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

    /// A load was issued and will complete.
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

    /// What follows cannot be addressed before the last load has its value.
    pub(super) fn follow(&mut self) {
        (self.depends, self.depends_on) = (self.loaded, self.loaded_from);
    }

    /// The last load's value decides what comes next, and was foreseen wrongly.
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

    /// Of the wait, what lies before the line had its fill buffer is the buffers'.
    fn stall_until(&mut self, until: Time, buffered: Time, source: Source) {
        if until > self.clock {
            let fills = buffered.min(until).saturating_sub(self.clock);
            self.counters.stall_fills += fills;
            self.counters.stall(source, until - self.clock - fills);
            self.clock = until;
        }
    }

    /// A store that was just issued will need this line.
    pub(super) fn want(&mut self, line: u64, from: Time) {
        if self.wanted.back().is_none_or(|(last, _)| *last != line) {
            self.wanted.push_back((line, from));
        }
    }

    /// When the next of the wanted lines can be asked for: it needs a fill buffer.
    pub(super) fn want_due(&self) -> Option<Time> {
        self.wanted.front().map(|(_, from)| self.fill_free(*from))
    }

    /// The next of the wanted lines.
    pub(super) fn next_wanted(&mut self) -> Option<u64> {
        self.wanted.pop_front().map(|(line, _)| line)
    }

    /// A request for ownership is outstanding: the time counts once, however many there are.
    pub(super) fn owning(&mut self, from: Time, until: Time) {
        self.counters.rfo_any_time += until.saturating_sub(from.max(self.owning_until));
        self.owning_until = self.owning_until.max(until);
    }

    /// The line goes to another core, which asked before this one was done with it.
    pub(super) fn grant(&mut self, line: u64, from: Time, until: Time) {
        let now = self.stores.due(0).unwrap_or(self.clock).min(self.clock);
        self.graces.retain(|grace| now < grace.until);
        self.graces.push(Grace { line, from, until });
    }

    /// The line is gone at once: what was left of it here is old.
    pub(super) fn let_go(&mut self, line: u64) {
        self.graces.retain(|grace| grace.line != line);
    }

    /// From when on a line that was lost may still be used, if it may at this time or later.
    pub(super) fn grace(&self, line: u64, now: Time) -> Option<Time> {
        let usable = self.graces.iter().filter(|grace| grace.line == line && now < grace.until);
        usable.map(|grace| grace.from).min()
    }

    /// When a fill buffer is free, not before `now`.
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
        // Nobody takes one before the first is free, so no time counts twice.
        let next = self.fills.iter().copied().min().unwrap_or(0);
        if next > from {
            self.counters.fill_full_time += next - from;
        }
    }
}
