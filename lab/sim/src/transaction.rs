//! Line acquisition: the coherence protocol, one complete transaction at a time.
//!
//! Rights change when a request is served, in order of virtual time; bytes and the permission to use them arrive after
//! the latency. An acquired line is held: the next request is served when the hold ends, and until then the losing core
//! may use the line (`directory`).

use super::Time;
use super::core::State;
use super::counters::Source;
use super::directory::NO_CORE;
use super::machine::Machine;
use super::profile::Protocol;

/// Arrival time and source of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fill {
    pub(super) ready: Time,
    pub(super) source: Source,
    /// The line was already on its way: another access waits for the same bytes
    pub(super) pending: bool,
}

impl Machine {
    /// Brings a line to a core, with ownership if `write`.
    pub(super) fn access(&mut self, core: usize, line: u64, write: bool, now: Time) -> Fill {
        let may = !write || self.directory.at(line).owned_by(core);
        self.cores[core].buffered = now;
        let l1_latency = self.timing.l1;
        if let Some(entry) = self.cores[core].l1.find(line).filter(|_| may) {
            let pending = entry.ready > now + l1_latency;
            let ready = entry.ready.max(now + l1_latency);
            let source = if pending { entry.source } else { Source::L1 };
            return Fill { ready, source, pending };
        }
        if let Some(fill) = self.still_here(core, line, now).filter(|_| !write) {
            return fill;
        }
        let start = self.cores[core].fill_free(now);
        self.cores[core].buffered = start;
        let (fill, missed) = self.beyond_l1(core, line, write, start);
        self.cores[core].take_fill(start, fill.ready);
        self.enter_l1(core, line, fill);
        // Prefetchers run last: their lines may evict this line from a small cache, and then from both levels.
        if missed && self.prefetchers.adjacent {
            self.fetch_ahead(core, line ^ 1, start);
        }
        self.stream(core, line, start);
        fill
    }

    /// A line requested by another core can be read until it leaves.
    fn still_here(&self, core: usize, line: u64, now: Time) -> Option<Fill> {
        let from = self.cores[core].grace(line, now)?;
        let ready = from.max(now + self.timing.l1);
        let pending = from > now + self.timing.l1;
        Some(Fill { ready, source: if pending { Source::Core } else { Source::L1 }, pending })
    }

    /// Varies the latency by up to the profile's spread, because real paths differ by core and moment.
    fn scattered(&mut self, fill: Fill, start: Time) -> Fill {
        let Some(rng) = self.rng.as_mut() else { return fill };
        let part = 1.0 + self.timing.spread * (2.0 * rng.f64() - 1.0);
        Fill { ready: start + ((fill.ready - start) as f64 * part) as Time, ..fill }
    }

    /// Returns the fill of a line that is not in the first level, and whether it missed the second.
    fn beyond_l1(&mut self, core: usize, line: u64, write: bool, start: Time) -> (Fill, bool) {
        let may = !write || self.directory.at(line).owned_by(core);
        let latency = self.timing.l2;
        if let Some(entry) = self.cores[core].l2.find(line).filter(|_| may) {
            entry.unused = false;
            let pending = entry.ready > start + latency;
            let fill = Fill {
                ready: entry.ready.max(start + latency),
                source: if pending { entry.source } else { Source::L2 },
                pending: false,
            };
            return (fill, false);
        }
        let fill = self.obtain(core, line, write, start);
        self.enter_l2(core, line, fill, false);
        (fill, true)
    }

    fn stream(&mut self, core: usize, line: u64, now: Time) {
        if !self.prefetchers.stream {
            return;
        }
        if let Some(run) = self.cores[core].streams.access(line) {
            for ahead in run.ahead(self.timing.stream_lines) {
                self.fetch_ahead(core, ahead, now);
            }
        }
    }

    /// Fetches a line into the second level for a hardware prefetcher.
    fn fetch_ahead(&mut self, core: usize, line: u64, now: Time) {
        if self.directory.covers(line) && !self.cores[core].l2.has(line) {
            let fill = self.obtain(core, line, false, now);
            self.enter_l2(core, line, fill, true);
        }
    }

    /// Requests a line from the directory: its holders give it up or share it.
    pub(super) fn obtain(&mut self, core: usize, line: u64, write: bool, now: Time) -> Fill {
        let start = self.serve_from(core, line, now);
        let fill = self.source(core, line, write, start);
        let fill = self.scattered(fill, start);
        self.note_move(core, line, write);
        self.hand_over(core, line, write, start);
        self.include(core, line);
        let hold = self.timing.hold;
        let entry = self.directory.at(line);
        entry.winner = core as u8;
        entry.held = fill.ready + hold;
        if entry.owned_by(core) {
            entry.owned_from = fill.ready;
            entry.for_writing = write;
        }
        fill
    }

    /// Returns the time at which a request can be served. A line acquired by another core is not given away before its
    /// hold ends. Ownership of a line still on its way here is requested on arrival; earlier, its last owner could
    /// still be writing.
    fn serve_from(&mut self, core: usize, line: u64, now: Time) -> Time {
        let entry = self.directory.at(line);
        if entry.winner == NO_CORE || entry.held <= now {
            return now;
        }
        let entry = *entry;
        if usize::from(entry.winner) == core {
            return if entry.shared_by(core) {
                now.max(entry.held.saturating_sub(self.timing.hold))
            } else {
                now
            };
        }
        if entry.exclusive {
            self.cores[usize::from(entry.owner)].grant(line, entry.owned_from, entry.held);
        }
        entry.held
    }

    /// Returns the source and arrival time of the bytes or the ownership.
    fn source(&mut self, core: usize, line: u64, write: bool, start: Time) -> Fill {
        let entry = *self.directory.at(line);
        let others = entry.sharers & !(1 << core);
        if entry.shared_by(core) {
            // The bytes are here; only ownership is missing, and it takes a message to the other sharers.
            let latency = self.with_others(self.timing.upgrade, core, others);
            return Fill { ready: start + latency, source: Source::Core, pending: false };
        }
        if entry.exclusive || (entry.dirty && others != 0) {
            let latency = if entry.dirty { self.timing.core_modified } else { self.timing.core_clean };
            let latency = self.with_core(latency, core, entry.owner);
            return Fill { ready: start + latency, source: Source::Core, pending: false };
        }
        let fill = self.clean_copy(core, line, start);
        if !write || others == 0 {
            return fill;
        }
        // A write also waits for the other sharers to invalidate their copies.
        let gone = start + self.with_others(self.timing.core_clean, core, others);
        Fill { ready: fill.ready.max(gone), source: Source::Core, pending: false }
    }

    /// Fetches an unmodified line: from a shared cache, from the core that forwards it, or from memory.
    fn clean_copy(&mut self, core: usize, line: u64, start: Time) -> Fill {
        if let Some(latency) = self.shared_latency(core, line) {
            return Fill { ready: start + latency, source: Source::Llc, pending: false };
        }
        let owner = self.directory.at(line).owner;
        if owner != NO_CORE && self.timing.protocol == Protocol::Mesif {
            let latency = self.with_core(self.timing.core_clean, core, owner);
            return Fill { ready: start + latency, source: Source::Core, pending: false };
        }
        Fill { ready: self.fetch_memory(core, line, start), source: Source::Dram, pending: false }
    }

    /// Updates the holders of a line.
    fn hand_over(&mut self, core: usize, line: u64, write: bool, start: Time) {
        let entry = *self.directory.at(line);
        let others = entry.sharers & !(1 << core);
        let moves = self.timing.migratory && entry.exclusive && entry.dirty;
        if write || others == 0 || moves {
            let dirty = self.llc.remove(line);
            self.take_from_others(core, line, others, start);
            let mine = self.directory.at(line);
            mine.sharers = 1 << core;
            mine.owner = core as u8;
            mine.exclusive = true;
            mine.dirty |= dirty;
            return;
        }
        let writes_back = entry.dirty && self.timing.protocol == Protocol::Mesif;
        if writes_back {
            self.enter_llc(usize::from(entry.owner), line, true);
        }
        let mine = self.directory.at(line);
        mine.sharers |= 1 << core;
        mine.exclusive = false;
        if !entry.dirty || writes_back {
            mine.owner = core as u8;
            mine.dirty = false;
        }
    }

    pub(super) fn take_from_others(&mut self, core: usize, line: u64, others: u32, start: Time) {
        for other in (0..self.cores.len()).filter(|other| *other != core && others & (1 << other) != 0) {
            self.cores[other].l1.remove(line);
            self.cores[other].l2.remove(line);
            self.cores[other].counters.lost_lines += 1;
            self.wake(other, line, start);
        }
    }

    /// Resumes a core parked on this line.
    pub(super) fn wake(&mut self, core: usize, line: u64, now: Time) {
        let woken = &mut self.cores[core];
        if woken.state != State::Parked(line) {
            return;
        }
        woken.state = State::Running;
        let now = now.max(woken.clock);
        let spun = now - woken.clock;
        woken.counters.spin += spun;
        // A loop of load, compare and branch takes one first-level latency per iteration.
        woken.counters.instructions += 3 * spun / self.timing.l1;
        woken.clock = now;
    }

    fn enter_l1(&mut self, core: usize, line: u64, fill: Fill) {
        let own = &mut self.cores[core];
        if !own.l1.has(line) {
            own.counters.l1_replacements += 1;
        }
        own.l1.insert(line, fill.ready, fill.source, false);
    }

    fn enter_l2(&mut self, core: usize, line: u64, fill: Fill, ahead: bool) {
        let Some((gone, entry)) = self.cores[core].l2.insert(line, fill.ready, fill.source, ahead) else {
            return;
        };
        // The second level includes the first.
        self.cores[core].l1.remove(gone);
        self.grant_evicted(core, gone);
        let left = self.directory.at(gone);
        let newest = left.leave(core);
        let alone = left.sharers == 0;
        let counters = &mut self.cores[core].counters;
        if newest {
            counters.l2_non_silent += 1;
        } else {
            counters.l2_silent += 1;
        }
        counters.l2_useless += u64::from(entry.unused);
        if newest || alone {
            self.enter_llc(core, gone, newest);
        }
    }

    /// Grants a grace period for a line evicted before its owner used it, as for a line requested by another core. In a
    /// small cache each request for a store's line could otherwise evict it again, and the store would never become
    /// visible.
    pub(super) fn grant_evicted(&mut self, core: usize, line: u64) {
        let entry = *self.directory.at(line);
        if entry.owned_by(core) && usize::from(entry.winner) == core {
            self.cores[core].grant(line, entry.owned_from, entry.held);
        }
    }

    /// Inserts a line that a core's second level evicted or a sharer wrote back into the shared cache.
    pub(super) fn enter_llc(&mut self, core: usize, line: u64, dirty: bool) {
        let socket = self.sockets.of(core);
        if let Some(pushed) = self.llc.insert(socket, line, dirty) {
            self.leaves_shared(socket, pushed, 0);
        }
    }

    /// Removes a line from every cache.
    pub(super) fn purge(&mut self, line: u64, now: Time) {
        let sharers = self.directory.at(line).sharers;
        self.take_from_others(usize::MAX, line, sharers, now);
        self.llc.remove(line);
        self.forget(line);
    }
}
