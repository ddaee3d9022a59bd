//! Device writes (DMA): the effect of a network card on the caches.
//!
//! A write goes to the shared cache (Intel's DDIO): a line already there is updated in place; any other may use only a
//! few ways, so that a card cannot evict everything else. No core keeps a copy, and none spends time. Device reads are
//! not modelled: they take the newest bytes wherever they are and change no line state.

use super::directory::NO_CORE;
use super::machine::Machine;
use crate::memory::{Address, LINE};

impl Machine {
    /// Performs a device write of `length` bytes on the first socket.
    pub fn device_write(&mut self, at: Address, length: u64) {
        for line in lines(at, length) {
            let sharers = self.directory.at(line).sharers;
            self.take_from_others(usize::MAX, line, sharers, self.present);
            self.forget(line);
            self.directory.at(line).version += 1;
            for core in 0..self.cores.len() {
                self.wake(core, line, self.present);
            }
            // A copy in the other socket's cache would be stale.
            if self.latency_of_shared(0, line).is_none() {
                self.llc.remove(line);
            }
            if let Some(pushed) = self.llc.insert_within(0, line, true, self.timing.device_ways) {
                self.leaves_shared(0, pushed, self.present);
            }
        }
    }

    /// Removes all rights to the line, including grace periods.
    pub(super) fn forget(&mut self, line: u64) {
        self.cores.iter_mut().for_each(|core| core.let_go(line));
        let entry = self.directory.at(line);
        entry.sharers = 0;
        (entry.owner, entry.winner) = (NO_CORE, NO_CORE);
        (entry.exclusive, entry.dirty) = (false, false);
    }
}

fn lines(at: Address, length: u64) -> std::ops::Range<u64> {
    at / LINE..(at + length).div_ceil(LINE)
}
