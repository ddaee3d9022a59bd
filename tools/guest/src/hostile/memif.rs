//! A memif client that writes its rings itself, and not as a client may, or only just.

use super::super::GuestError;
use super::device::Counts;
use super::plan::Plan;
use super::squad::Unit;
use port::memif::{Options, RawClient, RawEntry, RawRing};
use std::path::Path;
use std::time::Duration;

/// Frames of one turn: what a greedy sender does at most.
const BURST: u16 = 64;
/// Frames that are sent before a ring is broken.
const HONEST: u64 = 64;
/// Turns between two looks at the socket.
const LOOK: u32 = 256;
/// Entries of the longest chain that a server takes.
const CHAIN: u16 = 128;

/// How the rings are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writing {
    /// Frames in chains of as many entries as a chain may have, of one byte and of none by turns.
    Pieces,
    /// Frames without a byte.
    Empty,
    /// A chain that never ends.
    Loop,
    /// Buffers outside the shared memory.
    Offsets,
    /// An index further ahead than the ring is long, or one that goes back.
    Index,
    /// Receive buffers of one byte and of none by turns.
    TinyBuffers,
}

/// A client that is connected.
struct Device {
    client: RawClient,
    writing: Writing,
    frame: Vec<u8>,
    /// The next entry to send by, and the next that the server fills.
    head: u16,
    taken: u16,
    broken: bool,
    round: u64,
    turns: u32,
    counts: Counts,
}

/// Attaches to the memif socket at `path`. `round` says which connection of the device this is: what is wrong in several
/// ways takes turns.
pub(super) fn plug_in(
    path: &Path,
    writing: Writing,
    plan: &Plan,
    round: u64,
    timeout: Duration,
) -> Result<Box<dyn Unit>, GuestError> {
    let client = RawClient::attach(path, Options::default(), timeout)?;
    let mut device = Device {
        client,
        writing,
        frame: plan.frame().to_vec(),
        head: 0,
        taken: 0,
        broken: false,
        round,
        turns: 0,
        counts: Counts::default(),
    };
    device.prepare();
    Ok(Box::new(device))
}

impl Device {
    /// Writes the entries that stay as they are, and lends every receive buffer.
    fn prepare(&mut self) {
        let (ring, frame) = (&self.client.to_server, &self.frame);
        for at in 0..ring.size() {
            ring.fill(at, frame);
            ring.describe(at, self.entry(at));
        }
        let ring = &self.client.to_client;
        (0..ring.size()).for_each(|at| self.lend(ring, at));
        ring.publish(ring.size());
    }

    /// The entry at `at` of the ring to the server.
    fn entry(&self, at: u16) -> RawEntry {
        let ring = &self.client.to_server;
        let whole = RawEntry { offset: ring.offset(at), len: self.frame.len() as u32, ..RawEntry::default() };
        match self.writing {
            Writing::Pieces => {
                let (k, next) = (at % CHAIN, at % CHAIN + 1 < CHAIN);
                let offset = ring.offset(0) + u32::from(k / 2);
                RawEntry { offset, len: u32::from(k % 2), next, ..whole }
            }
            Writing::Empty => RawEntry { len: 0, ..whole },
            Writing::Loop | Writing::Offsets | Writing::Index | Writing::TinyBuffers => whole,
        }
    }

    fn lend(&self, ring: &RawRing, at: u16) {
        let len = if self.writing == Writing::TinyBuffers { u32::from(at % 2) } else { ring.room() };
        ring.describe(at, RawEntry { offset: ring.offset(at), len, ..RawEntry::default() });
    }

    /// Lends what came again, at most a burst of it.
    fn receive(&mut self) {
        let ring = &self.client.to_client;
        let came = ring.theirs().wrapping_sub(self.taken).min(BURST);
        for k in 0..came {
            self.lend(ring, self.taken.wrapping_add(k));
        }
        self.taken = self.taken.wrapping_add(came);
        self.counts.received += u64::from(came);
        if came > 0 {
            ring.publish(self.taken.wrapping_add(ring.size()));
        }
    }

    fn send(&mut self) {
        let ring = &self.client.to_server;
        let free = ring.size().saturating_sub(self.head.wrapping_sub(ring.theirs()));
        let (frames, entries) = match self.writing {
            Writing::Pieces => (free / CHAIN, free / CHAIN * CHAIN),
            _ => (free.min(BURST), free.min(BURST)),
        };
        if entries == 0 {
            return;
        }
        self.head = self.head.wrapping_add(entries);
        self.counts.sent += u64::from(frames);
        self.client.to_server.publish(self.head);
        self.client.to_server.wake();
    }

    /// Breaks the ring to the server, if that is the attack, once every entry went through it.
    fn shatter(&mut self) {
        let ring = &self.client.to_server;
        let (head, size, odd) = (self.head, ring.size(), !self.round.is_multiple_of(2));
        let end = match self.writing {
            Writing::Loop => {
                let entry = |at| RawEntry { next: true, ..self.entry(at) };
                (0..size).map(|k| head.wrapping_add(k)).for_each(|at| ring.describe(at, entry(at)));
                // A server finds the end of what was sent, or that no frame is that long.
                head.wrapping_add(if odd { CHAIN / 2 } else { size })
            }
            Writing::Offsets => {
                let wrong = [
                    RawEntry { region: 7, ..self.entry(head) },
                    RawEntry { offset: u32::MAX - 1, ..self.entry(head) },
                    RawEntry { len: u32::MAX, ..self.entry(head) },
                ];
                ring.describe(head, wrong[self.round as usize % wrong.len()]);
                head.wrapping_add(1)
            }
            Writing::Index if odd => head.wrapping_sub(1),
            Writing::Index => head.wrapping_add(size + 1),
            Writing::Pieces | Writing::Empty | Writing::TinyBuffers => return,
        };
        self.broken = true;
        ring.publish(end);
        ring.wake();
    }
}

impl Unit for Device {
    fn step(&mut self) -> Result<(), GuestError> {
        self.receive();
        let honest = self.counts.sent < HONEST;
        if honest || matches!(self.writing, Writing::Pieces | Writing::Empty | Writing::TinyBuffers) {
            self.send();
        } else if !self.broken && self.client.to_server.theirs() == self.head {
            self.shatter();
        }
        self.turns += 1;
        if self.turns.is_multiple_of(LOOK) {
            self.client.look()?;
        }
        Ok(())
    }

    fn counts(&self) -> Counts {
        self.counts
    }
}
