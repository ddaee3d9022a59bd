//! Frames from the peer, as the switch receives them.
//!
//! Bytes are read into a large slot of memory of our own, many frames with one call, and frames stay where they came
//! to lie until their burst is completed. A slot is filled from front to back; one whose frames have all been
//! completed is used again, from the front. A frame that does not fit behind the others has what there is of it moved
//! to the front of another slot, so that each lies in one piece. Bytes that belong to a frame are never written again
//! while its burst is out, so a frame cannot change after it was validated.

use super::frames::{Front, LONGEST, PREFIX, front};
use super::sys::{self, Stop};
use super::wire::Wire;
use crate::arena::Arena;
use crate::{Burst, BurstStats, DropReason, PortFault, RxQueue};
use mem::VolatileSlice;
use mem::copy::Portable;
use ring::BufId;
use rustix::fd::BorrowedFd;
use std::sync::Arc;

/// Bytes of a slot: more than a burst of full Ethernet frames, and never less than the longest frame needs behind
/// whatever is moved with it.
const SLOT: usize = 128 << 10;
const _: () = assert!(SLOT >= PREFIX + LONGEST);
/// A worker has two bursts out at most, and one slot is being filled; one more, so that a burst may be late.
const SLOTS: usize = 4;
/// Bytes that a read should have room for, so that a call to the kernel is worth its price.
const WORTHWHILE: usize = SLOT / 4;

/// Memory of one queue, in bytes.
pub(super) const MEMORY: usize = SLOT * SLOTS;

/// Where frames come in.
pub(super) struct Rx {
    wire: Arc<Wire>,
    arena: Arena,
    /// Frames of each slot that are in a burst.
    out: [u32; SLOTS],
    /// The slot that is filled; bytes up to `taken` are in bursts, those up to `filled` are there.
    slot: usize,
    taken: usize,
    filled: usize,
}

impl Rx {
    pub(super) fn new(wire: Arc<Wire>) -> Result<Self, PortFault> {
        let arena = Arena::new(SLOTS, SLOT)?;
        Ok(Self { wire, arena, out: [0; SLOTS], slot: 0, taken: 0, filled: 0 })
    }

    /// What stands behind the frames that were taken.
    #[inline(always)]
    fn front(&self) -> Result<Front, PortFault> {
        let mut prefix = [0; PREFIX];
        let have = self.filled - self.taken;
        if let Some(seg) = self.arena.slot(self.slot).slice(self.taken, PREFIX).filter(|_| have >= PREFIX) {
            // SAFETY: the arena is ours and alive, and both have the length of a prefix.
            unsafe { seg.copy_out::<Portable>(&mut prefix) };
        }
        front(have, prefix)
    }

    /// Takes whole frames off the slot, up to the burst's room.
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

    /// Reads once. Whether anything came.
    #[inline]
    fn read(&mut self, missing: usize) -> bool {
        if self.wire.has_ended() || !self.make_room(missing) {
            return false;
        }
        let free = self.arena.slot(self.slot).split_at(self.filled).1;
        // SAFETY: the arena is ours and alive; no frame in a burst reaches beyond `filled`.
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

    /// Sees to it that what is missing of the frame at the front can follow it. `false` while every other slot has
    /// frames in a burst.
    fn make_room(&mut self, missing: usize) -> bool {
        let begun = self.filled - self.taken;
        if begun == 0 && self.out[self.slot] == 0 {
            (self.taken, self.filled) = (0, 0);
            return true;
        }
        // What is begun is worth moving only if it must be.
        let wanted = if begun == 0 { WORTHWHILE } else { missing };
        if SLOT - self.filled >= wanted {
            return true;
        }
        let mut others = (0..self.arena.slots()).filter(|other| *other != self.slot);
        let Some(next) = others.find(|other| self.out[*other] == 0) else { return false };
        let from = self.arena.slot(self.slot).slice(self.taken, begun).unwrap_or(VolatileSlice::EMPTY);
        // SAFETY: the arena is ours and alive; what is begun has less than a frame's bytes, and a slot has more. The
        // other slot has no frame in a burst.
        unsafe { self.arena.slot(next).copy_from::<Portable>(from, from.len()) };
        (self.slot, self.taken, self.filled) = (next, 0, begun);
        true
    }
}

impl RxQueue for Rx {
    fn prefetch(&self) {}

    /// Frames that are there already, or else those of one read.
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

    /// What the socket has, it says itself.
    fn enable_notification(&mut self) -> Result<bool, PortFault> {
        Ok(!matches!(self.front()?, Front::Partial(_)))
    }

    fn disable_notification(&mut self) {}

    fn kick_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.wire.socket())
    }

    /// The memory is the port's own and stays as it is.
    fn refresh(&mut self) -> Result<(), PortFault> {
        Ok(())
    }
}
