//! Sockets: the socket of each core and address, and each socket's shared cache and memory.
//!
//! The default is one socket. With two, a line from the other one (its memory, shared cache or cores) has the profile's
//! remote latencies, and a core's evicted lines go to the shared cache of its own socket. Line rights are kept in the
//! directory, independent of sockets.

use std::ops::Range;

use super::Time;
use super::counters::Source;
use super::directory::NO_CORE;
use super::machine::Machine;
use super::profile::Profile;
use super::tags::Tags;
use crate::memory::{Address, LINE};

/// Maximum number of sockets.
const SOCKETS: usize = 2;

/// The profile describes only one socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the profile has no second socket: set `transfer.remote_dram` and `transfer.remote_core`")]
pub struct OneSocket;

/// Cores and memory of the second socket; all others are on the first.
#[derive(Clone, Debug, Default)]
pub struct Sockets {
    cores: u32,
    memory: Vec<Range<Address>>,
}

impl Sockets {
    /// Places everything on the first socket.
    pub fn one() -> Sockets {
        Sockets::default()
    }

    /// Places this core on the second socket.
    #[must_use]
    pub fn with_core(mut self, core: usize) -> Sockets {
        self.cores |= 1 << core;
        self
    }

    /// Places this memory on the second socket.
    #[must_use]
    pub fn with_memory(mut self, memory: Range<Address>) -> Sockets {
        self.memory.push(memory);
        self
    }

    pub(super) fn of(&self, core: usize) -> usize {
        usize::from(self.cores & (1 << core) != 0)
    }

    fn home(&self, line: u64) -> usize {
        usize::from(self.memory.iter().any(|range| range.contains(&(line * LINE))))
    }
}

/// A line evicted by an insertion.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pushed {
    pub(super) line: u64,
    /// The bytes are newer than memory's
    pub(super) dirty: bool,
}

/// The shared caches, and the time at which each socket's memory can accept the next request.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    caches: [Tags; SOCKETS],
    memory_free: [Time; SOCKETS],
}

impl Shared {
    pub(super) fn new(profile: &Profile) -> Shared {
        let tags = || Tags::new(profile.llc.bytes.value as u64, profile.llc.ways.value as u64, true);
        Shared { caches: [tags(), tags()], memory_free: [0; SOCKETS] }
    }

    /// Whether the line is in a shared cache; if so, it becomes the most recently used.
    pub(super) fn uses(&mut self, line: u64) -> bool {
        self.caches.iter_mut().any(|cache| cache.find(line).is_some())
    }

    /// Whether the line is in this socket's shared cache.
    #[cfg(test)]
    pub(super) fn has_on(&self, socket: usize, line: u64) -> bool {
        self.caches[socket].has(line)
    }

    #[cfg(test)]
    pub(super) fn has(&self, line: u64) -> bool {
        self.caches.iter().any(|cache| cache.has(line))
    }

    /// Removes a line from all shared caches; returns whether it was newer than memory's.
    pub(super) fn remove(&mut self, line: u64) -> bool {
        let mut dirty = false;
        for cache in &mut self.caches {
            dirty |= cache.remove(line).is_some_and(|old| old.dirty);
        }
        dirty
    }

    /// Inserts a line into a socket's shared cache; returns the evicted line.
    pub(super) fn insert(&mut self, socket: usize, line: u64, dirty: bool) -> Option<Pushed> {
        self.insert_within(socket, line, dirty, usize::MAX)
    }

    /// Same, but a line that is not there yet may take only the first `ways` ways.
    pub(super) fn insert_within(
        &mut self,
        socket: usize,
        line: u64,
        dirty: bool,
        ways: usize,
    ) -> Option<Pushed> {
        let pushed = self.caches[socket].insert_within(line, 0, Source::Llc, false, ways);
        if let Some(entry) = self.caches[socket].find(line) {
            entry.dirty |= dirty;
        }
        pushed.map(|(gone, old)| Pushed { line: gone, dirty: old.dirty })
    }

    /// Marks a line as written to memory; returns whether it was dirty.
    pub(super) fn written_back(&mut self, line: u64) -> bool {
        let mut dirty = false;
        for entry in self.caches.iter_mut().filter_map(|cache| cache.find(line)) {
            dirty |= std::mem::take(&mut entry.dirty);
        }
        dirty
    }
}

impl Machine {
    /// Places cores and memory on two sockets.
    pub fn on(mut self, sockets: Sockets) -> Result<Machine, OneSocket> {
        if self.timing.remote_dram.is_none() || self.timing.remote_core.is_none() {
            return Err(OneSocket);
        }
        self.sockets = sockets;
        Ok(self)
    }

    /// Latency of a transfer from another core: `near` if both are on one socket.
    pub(super) fn with_core(&self, near: Time, core: usize, other: u8) -> Time {
        let apart = other != NO_CORE && self.sockets.of(core) != self.sockets.of(usize::from(other));
        self.timing.remote_core.filter(|_| apart).unwrap_or(near)
    }

    /// Latency of a message to `others`: `near` if all are on one socket.
    pub(super) fn with_others(&self, near: Time, core: usize, others: u32) -> Time {
        let on_second = others & self.sockets.cores;
        let apart = if self.sockets.of(core) == 1 { others & !self.sockets.cores } else { on_second };
        self.timing.remote_core.filter(|_| apart != 0).unwrap_or(near)
    }

    /// Latency of a line from a shared cache; `None` if none has it.
    pub(super) fn shared_latency(&self, core: usize, line: u64) -> Option<Time> {
        let own = self.sockets.of(core);
        let remote = || self.timing.remote_core.filter(|_| self.llc.caches[1 - own].has(line));
        self.latency_of_shared(own, line).or_else(remote)
    }

    /// Latency of a line from this socket's shared cache, seen from this socket; `None` if it does not have it.
    pub(super) fn latency_of_shared(&self, socket: usize, line: u64) -> Option<Time> {
        self.llc.caches[socket].has(line).then_some(self.timing.llc)
    }

    /// Returns the time at which a line requested from memory at `start` arrives. Memory accepts one request at a time.
    pub(super) fn fetch_memory(&mut self, core: usize, line: u64, start: Time) -> Time {
        let home = self.sockets.home(line);
        let far = self.timing.remote_dram.filter(|_| home != self.sockets.of(core));
        let begins = self.memory_turn(home, start);
        begins + far.unwrap_or(self.timing.dram)
    }

    /// Writes a line to memory, which occupies one request slot.
    pub(super) fn write_memory(&mut self, line: u64, now: Time) {
        self.memory_turn(self.sockets.home(line), now);
    }

    /// Takes a memory request slot. A request for a later time uses a slot of the present: throughput stays right, and
    /// earlier requests do not wait for later ones.
    fn memory_turn(&mut self, home: usize, start: Time) -> Time {
        let free = &mut self.llc.memory_free[home];
        let turn = (*free).max(start.min(self.present));
        *free = turn + self.timing.dram_interval;
        turn.max(start)
    }
}
