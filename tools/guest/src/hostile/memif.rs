//! A memif client that writes its rings directly, with invalid or extreme contents.

use super::super::GuestError;
use super::device::Counts;
use super::group::Unit;
use super::plan::Plan;
use port::memif::{Options, RawClient, RawEntry, RawRing};
use std::path::Path;
use std::time::Duration;

/// Frames per turn, at most; the same as a greedy sender.
const BURST: u16 = 64;
/// Frames sent before a ring is corrupted.
const VALID_FRAMES: u64 = 64;
/// Turns between two polls of the socket.
const POLL_TURNS: u32 = 256;
/// Maximum number of entries in a chain that a server accepts.
const CHAIN: u16 = 128;

/// Ring contents of the attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RingAttack {
    /// Frames in chains of maximum length, with entries of alternately one and zero bytes.
    Pieces,
    /// Frames of zero bytes.
    Empty,
    /// A chain without end.
    Loop,
    /// Buffers outside the shared memory.
    Offsets,
    /// An index more than a ring ahead, or one that moves backwards.
    Index,
    /// Receive buffers of alternately one and zero bytes.
    TinyBuffers,
}

/// A connected client.
struct Device {
    client: RawClient,
    writing: RingAttack,
    frame: Vec<u8>,
    /// Next entry to send, and next entry that the server fills.
    head: u16,
    taken: u16,
    broken: bool,
    round: u64,
    turns: u32,
    counts: Counts,
}

/// Attaches to the memif socket at `path`. `round` is the index of the connection: violations with several forms cycle
/// through them.
pub(super) fn plug_in(
    path: &Path,
    writing: RingAttack,
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
    /// Writes the constant entries and posts every receive buffer.
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
            RingAttack::Pieces => {
                let (k, next) = (at % CHAIN, at % CHAIN + 1 < CHAIN);
                let offset = ring.offset(0) + u32::from(k / 2);
                RawEntry { offset, len: u32::from(k % 2), next, ..whole }
            }
            RingAttack::Empty => RawEntry { len: 0, ..whole },
            RingAttack::Loop | RingAttack::Offsets | RingAttack::Index | RingAttack::TinyBuffers => whole,
        }
    }

    fn lend(&self, ring: &RawRing, at: u16) {
        let len = if self.writing == RingAttack::TinyBuffers { u32::from(at % 2) } else { ring.room() };
        ring.describe(at, RawEntry { offset: ring.offset(at), len, ..RawEntry::default() });
    }

    /// Reposts used receive buffers, at most a burst of them.
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
            RingAttack::Pieces => (free / CHAIN, free / CHAIN * CHAIN),
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

    /// Corrupts the ring to the server, if the attack does so, once the server has consumed all sent entries.
    fn corrupt_ring(&mut self) {
        let ring = &self.client.to_server;
        let (head, size, odd) = (self.head, ring.size(), !self.round.is_multiple_of(2));
        let end = match self.writing {
            RingAttack::Loop => {
                let entry = |at| RawEntry { next: true, ..self.entry(at) };
                (0..size).map(|k| head.wrapping_add(k)).for_each(|at| ring.describe(at, entry(at)));
                // Depending on the round, the server finds the end of the sent entries, or a frame that is too long.
                head.wrapping_add(if odd { CHAIN / 2 } else { size })
            }
            RingAttack::Offsets => {
                let wrong = [
                    RawEntry { region: 7, ..self.entry(head) },
                    RawEntry { offset: u32::MAX - 1, ..self.entry(head) },
                    RawEntry { len: u32::MAX, ..self.entry(head) },
                ];
                ring.describe(head, wrong[self.round as usize % wrong.len()]);
                head.wrapping_add(1)
            }
            RingAttack::Index if odd => head.wrapping_sub(1),
            RingAttack::Index => head.wrapping_add(size + 1),
            RingAttack::Pieces | RingAttack::Empty | RingAttack::TinyBuffers => return,
        };
        self.broken = true;
        ring.publish(end);
        ring.wake();
    }
}

impl Unit for Device {
    fn step(&mut self) -> Result<(), GuestError> {
        self.receive();
        let honest = self.counts.sent < VALID_FRAMES;
        if honest || matches!(self.writing, RingAttack::Pieces | RingAttack::Empty | RingAttack::TinyBuffers)
        {
            self.send();
        } else if !self.broken && self.client.to_server.theirs() == self.head {
            self.corrupt_ring();
        }
        self.turns += 1;
        if self.turns.is_multiple_of(POLL_TURNS) {
            self.client.look()?;
        }
        Ok(())
    }

    fn counts(&self) -> Counts {
        self.counts
    }
}
