//! Receive queue of a stream port.
//!
//! Bytes are read into a large slot of private memory, many frames per call, and frames stay in place until their burst
//! is completed. A slot is filled from front to back, and reused from the front once all its frames are completed. If
//! the last frame does not fit, its received part is moved to the front of another slot, so that each frame is
//! contiguous. Bytes of a frame are not written while its burst is in flight, so a frame cannot change after
//! validation.

use super::connection::Connection;
use super::frames::{Front, MAX_FRAME, PREFIX, front};
use super::sys::{self, Stop};
use crate::arena::Arena;
use crate::{Burst, BurstStats, DropReason, PortFault, QueueState, RxQueue};
use mem::VolatileSlice;
use mem::copy::Portable;
use ring::BufId;
use rustix::fd::BorrowedFd;
use std::sync::Arc;

/// Slot size in bytes: more than a burst of full-size Ethernet frames, and enough for the longest frame.
const SLOT: usize = 128 << 10;
const _: () = assert!(SLOT >= PREFIX + MAX_FRAME);
/// A worker has at most two bursts in flight, and one slot is being filled; one more allows a late burst.
const SLOTS: usize = 4;
/// Minimum free space for a read, in bytes, so that a system call is worthwhile.
const WORTHWHILE: usize = SLOT / 4;

/// Memory of one queue, in bytes.
pub(super) const MEMORY: usize = SLOT * SLOTS;

/// A receive queue.
pub(super) struct Rx {
    wire: Arc<Connection>,
    arena: Arena,
    /// Number of frames in bursts, by slot.
    out: [u32; SLOTS],
    /// The slot being filled; bytes up to `taken` are in bursts, bytes up to `filled` are received.
    slot: usize,
    taken: usize,
    filled: usize,
}

impl Rx {
    /// A queue that has read `received` already.
    ///
    /// # Errors
    /// Out of memory, or more bytes than a queue reads ahead.
    pub(super) fn new(wire: Arc<Connection>, received: &[u8]) -> Result<Self, PortFault> {
        let arena = Arena::new(SLOTS, SLOT)?;
        let filled = received.len();
        let to = arena.slot(0).slice(0, filled).ok_or(PortFault::State("it has read too far ahead"))?;
        // SAFETY: the arena is private and alive, and the slice has this length.
        unsafe { to.copy_in::<Portable>(received) };
        Ok(Self { wire, arena, out: [0; SLOTS], slot: 0, taken: 0, filled })
    }

    /// Classifies the bytes after the taken frames.
    #[inline(always)]
    fn front(&self) -> Result<Front, PortFault> {
        let mut prefix = [0; PREFIX];
        let have = self.filled - self.taken;
        if let Some(seg) = self.arena.slot(self.slot).slice(self.taken, PREFIX).filter(|_| have >= PREFIX) {
            // SAFETY: the arena is private and alive, and both have the length of a prefix.
            unsafe { seg.copy_out::<Portable>(&mut prefix) };
        }
        front(have, prefix)
    }

    /// Takes complete frames from the slot, as many as fit in the burst.
    #[inline]
    fn take(&mut self, burst: &mut Burst, stats: &mut BurstStats) -> Result<(), PortFault> {
        while burst.room() > 0 {
            let (len, short) = match self.front()? {
                Front::Frame(len) => (len, false),
                Front::Short(len) => (len, true),
                Front::Partial(_) => break,
            };
            burst.pin(self.arena.map());
            let buf_id = BufId { id: self.slot as u16, slots: 1 };
            stats.packets += 1;
            stats.bytes += len as u64;
            if short {
                stats.drop(DropReason::TooShort, 1);
                burst.give_back(buf_id);
            } else {
                let frame = self.arena.slot(self.slot).slice(self.taken + PREFIX, len);
                burst.push(buf_id, frame.unwrap_or(VolatileSlice::EMPTY));
            }
            self.out[self.slot] += 1;
            self.taken += PREFIX + len;
        }
        Ok(())
    }

    /// Reads once. Returns whether data arrived.
    #[inline]
    fn read(&mut self, missing: usize) -> bool {
        if self.wire.has_ended() || !self.make_room(missing) {
            return false;
        }
        let free = self.arena.slot(self.slot).split_at(self.filled).1;
        // SAFETY: the arena is private and alive; no frame in a burst extends beyond `filled`.
        match unsafe { sys::receive(self.wire.socket(), free) } {
            Ok(bytes) => self.filled += bytes,
            Err(Stop::Now) => return false,
            Err(Stop::Ended) => {
                self.wire.end();
                return false;
            }
        }
        true
    }

    /// Makes space for the missing part of the current frame. Returns `false` if all other slots have frames in bursts.
    fn make_room(&mut self, missing: usize) -> bool {
        let begun = self.filled - self.taken;
        if begun == 0 && self.out[self.slot] == 0 {
            (self.taken, self.filled) = (0, 0);
            return true;
        }
        // A partial frame is moved only if necessary.
        let wanted = if begun == 0 { WORTHWHILE } else { missing };
        if SLOT - self.filled >= wanted {
            return true;
        }
        let mut others = (0..self.arena.slots()).filter(|other| *other != self.slot);
        let Some(next) = others.find(|other| self.out[*other] == 0) else { return false };
        let from = self.arena.slot(self.slot).slice(self.taken, begun).unwrap_or(VolatileSlice::EMPTY);
        // SAFETY: the arena is private and alive; a partial frame is shorter than a slot. The other slot has no frame
        // in a burst.
        unsafe { self.arena.slot(next).copy_from::<Portable>(from, from.len()) };
        (self.slot, self.taken, self.filled) = (next, 0, begun);
        true
    }
}

impl RxQueue for Rx {
    fn prefetch(&self) {}

    /// Returns frames already received, or else those of one read.
    fn rx(&mut self, burst: &mut Burst, stats: &mut BurstStats) -> Result<(), PortFault> {
        if let Front::Partial(missing) = self.front()?
            && !self.read(missing)
        {
            return Ok(());
        }
        self.take(burst, stats)
    }

    fn complete(&mut self, buffers: &[BufId]) {
        for buf_id in buffers {
            self.out[usize::from(buf_id.id)] -= 1;
        }
    }

    fn notify(&mut self) {}

    /// The socket itself reports readability.
    fn enable_notification(&mut self) -> Result<bool, PortFault> {
        Ok(!matches!(self.front()?, Front::Partial(_)))
    }

    fn disable_notification(&mut self) {}

    fn kick_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.wire.socket())
    }

    /// Private memory does not change.
    fn refresh(&mut self) -> Result<(), PortFault> {
        Ok(())
    }

    fn freeze(self: Box<Self>) -> QueueState {
        let rest = self.arena.slot(self.slot).slice(self.taken, self.filled - self.taken);
        let rest = rest.unwrap_or(VolatileSlice::EMPTY);
        let mut bytes = vec![0; rest.len()];
        // SAFETY: the arena is private and alive, and both have the same length.
        unsafe { rest.copy_out::<Portable>(&mut bytes) };
        QueueState::Bytes(bytes.into())
    }
}
