//! A device's writes (DMA): what a network card does to the caches.
//!
//! A write goes into the shared cache (Intel's DDIO): a line that is there already is written where it is, any other may
//! take only a few of the ways, so that a card cannot push everything else out. No core keeps a copy, and none spends time.
//! A device's reads are not there: they take the newest bytes from wherever they are and change no line's state.

use super::directory::NOBODY;
use super::machine::Machine;
use crate::memory::{Address, LINE};

impl Machine {
    /// A device on the first socket writes so many bytes.
    pub fn device_write(&mut self, at: Address, length: u64) {
        for line in lines(at, length) {
            let sharers = self.directory.at(line).sharers;
            self.take_from_others(usize::MAX, line, sharers, self.present);
            self.forget(line);
            self.directory.at(line).version += 1;
            for core in 0..self.cores.len() {
                self.wake(core, line, self.present);
            }
            // A copy of the other socket's would be old.
            if self.latency_of_shared(0, line).is_none() {
                self.llc.remove(line);
            }
            if let Some(pushed) = self.llc.insert_within(0, line, true, self.timing.device_ways) {
                self.leaves_shared(0, pushed, self.present);
            }
        }
    }

    /// Nobody has the line, and nobody goes on using it.
    pub(super) fn forget(&mut self, line: u64) {
        self.cores.iter_mut().for_each(|core| core.let_go(line));
        let entry = self.directory.at(line);
        entry.sharers = 0;
        (entry.owner, entry.winner) = (NOBODY, NOBODY);
        (entry.exclusive, entry.dirty) = (false, false);
    }
}

fn lines(at: Address, length: u64) -> std::ops::Range<u64> {
    at / LINE..(at + length).div_ceil(LINE)
}
