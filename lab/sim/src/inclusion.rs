//! A shared cache that includes the private ones: whatever one of its socket's cores has is in it too.
//!
//! What is fetched enters it on the way to the core, and a line that has to leave it is taken back from the cores. A cache that does not
//! include them takes only what they evict, and nothing here happens.

use super::Time;
use super::directory::NOBODY;
use super::machine::Machine;
use super::sockets::Pushed;

impl Machine {
    /// A core has the line from now on.
    pub(super) fn include(&mut self, core: usize, line: u64) {
        if self.timing.inclusive {
            self.enter_llc(core, line, false);
        }
    }

    /// A line had to leave a socket's shared cache.
    pub(super) fn leaves_shared(&mut self, socket: usize, pushed: Pushed, now: Time) {
        let newest = self.timing.inclusive && self.take_back(socket, pushed.line);
        if newest || pushed.dirty {
            self.write_memory(pushed.line, now);
        }
    }

    /// The socket's cores lose the line; whether one of them had the only newest copy.
    fn take_back(&mut self, socket: usize, line: u64) -> bool {
        let sharers = self.directory.at(line).sharers;
        let here = |core: &usize| sharers & (1 << core) != 0 && self.sockets.of(*core) == socket;
        let losers: u32 = (0..self.cores.len()).filter(here).map(|core| 1 << core).sum();
        let owner = self.directory.at(line).owner;
        if owner != NOBODY && losers & (1 << owner) != 0 {
            self.grant_evicted(usize::from(owner), line);
        }
        self.take_from_others(usize::MAX, line, losers, self.present);
        let entry = self.directory.at(line);
        // Each has to leave, whichever had the newest.
        (0..32)
            .filter(|core| losers & (1 << core) != 0)
            .fold(false, |newest, core| entry.leave(core) | newest)
    }
}
