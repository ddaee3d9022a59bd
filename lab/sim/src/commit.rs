//! Commits stores: the head of a core's store buffer becomes visible to all cores, or waits for its line.

use super::Time;
use super::core::State;
use super::machine::Machine;
use super::profile::Protocol;
use super::stores::Store;

impl Machine {
    /// Makes the head of a core's store buffer visible, or postpones it.
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
            // Applies even if the line is to come back: otherwise every transfer of the line would postpone the store
            // again.
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

    /// Postpones the oldest store until `from`. The wait counts as ownership time if the line was requested for
    /// writing, at the head or ahead of it; a line requested for reading does not count.
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

    /// Commits a store into a line on its way to another core: the bytes go along, and also to the shared cache if the
    /// other core only reads.
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

    /// Commits a non-temporal store; each line takes a fill buffer until it has drained.
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

    /// Removes the store from the buffer and makes it visible to all cores.
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

    /// Removes the head of the buffer and resumes the core if it waited for room.
    pub(super) fn leave_buffer(&mut self, id: usize, now: Time) -> Option<Store> {
        let core = &mut self.cores[id];
        if core.state == State::Full {
            core.state = State::Running;
            core.counters.stall_stores += now.saturating_sub(core.clock);
            core.clock = core.clock.max(now);
        }
        core.stores.pop(now)
    }

    /// Whether a conditional store finds its expected value; always true for an unconditional store.
    fn finds_expected(&mut self, id: usize, store: Store) -> bool {
        let Some(expected) = store.expected else { return true };
        self.cores[id].found = self.values.load(store.at, store.bytes);
        self.cores[id].found == expected
    }
}
