//! Inclusive shared cache: contains every line that a private cache of its socket has.
//!
//! A fetched line enters it on the way to the core, and a line evicted from it is invalidated in the cores. A
//! non-inclusive cache takes only lines evicted by the cores, and this module does nothing.

use super::Time;
use super::directory::NO_CORE;
use super::machine::Machine;
use super::sockets::Pushed;

impl Machine {
    /// Inserts a line that a core received.
    pub(super) fn include(&mut self, core: usize, line: u64) {
        if self.timing.inclusive {
            self.enter_llc(core, line, false);
        }
    }

    /// Handles an eviction from a socket's shared cache.
    pub(super) fn leaves_shared(&mut self, socket: usize, pushed: Pushed, now: Time) {
        let newest = self.timing.inclusive && self.take_back(socket, pushed.line);
        if newest || pushed.dirty {
            self.write_memory(pushed.line, now);
        }
    }

    /// Invalidates the line in the socket's cores; returns whether one of them had the only newest copy.
    fn take_back(&mut self, socket: usize, line: u64) -> bool {
        let sharers = self.directory.at(line).sharers;
        let here = |core: &usize| sharers & (1 << core) != 0 && self.sockets.of(*core) == socket;
        let losers: u32 = (0..self.cores.len()).filter(here).map(|core| 1 << core).sum();
        let owner = self.directory.at(line).owner;
        if owner != NO_CORE && losers & (1 << owner) != 0 {
            self.grant_evicted(usize::from(owner), line);
        }
        self.take_from_others(usize::MAX, line, losers, self.present);
        let entry = self.directory.at(line);
        // The fold visits every core, even after the newest copy is found.
        (0..32)
            .filter(|core| losers & (1 << core) != 0)
            .fold(false, |newest, core| entry.leave(core) | newest)
    }
}
