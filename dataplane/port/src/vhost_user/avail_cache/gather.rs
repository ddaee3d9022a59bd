//! Gathering several buffers for one frame: all or none.

use super::{Core, buf_id};
use crate::PortFault;
use crate::transmit::{Filled, Slots, Taken};
use ring::device::DeviceRing;
use ring::{BufId, Direction, RingFault, resolve};

/// Maximum buffers of one frame: 64 KiB in buffers of 1 KiB. No guest driver uses smaller ones.
const MAX_BUFFERS: usize = 64;

/// Record of a gathering for which the buffers did not suffice. While the front of the ring is unchanged, gathering
/// again would fail in the same way.
#[derive(Clone, Copy)]
pub(super) struct Failed {
    /// Capacity of the buffers: a frame that needs more fails again.
    bytes: usize,
    /// Number of ring entries of the buffers.
    slots: u32,
    /// Whether no more buffers are gathered for a frame, however many are available.
    too_small: bool,
}

/// Adds a buffer whose pieces are added already. Returns a fault if it has no bytes.
#[inline(always)]
fn add_buffer(slots: &mut Slots, buf_id: BufId, capacity: usize) -> Result<(), RingFault> {
    slots.add_buffer(Filled::new(buf_id.id, buf_id.slots, capacity));
    if capacity == 0 { Err(RingFault::NoRoom) } else { Ok(()) }
}

impl<R: DeviceRing> Core<R> {
    /// Result for a frame for which gathering would fail as before.
    #[cold]
    pub(super) fn fails_again(&mut self, need: usize) -> Option<Taken> {
        let failed = self.failed.filter(|failed| need > failed.bytes)?;
        if failed.too_small {
            return Some(Taken::TooSmall);
        }
        // Returned buffers may be in the avail cache again, and more with them; the ring then starts after them.
        let cached = self.plain.held as u32 + self.chain.map_or(0, |buf_id| buf_id.slots.into());
        let others = failed.slots.checked_sub(cached)?;
        (!self.ring.has_beyond(others)).then_some(Taken::Full)
    }

    /// Gathers buffers until `need` bytes fit. The first plain buffer, if any, is too small.
    #[cold]
    pub(super) fn take_several(&mut self, need: usize, slots: &mut Slots) -> Result<Taken, PortFault> {
        if !self.mergeable && self.plain.held > 0 {
            let is_empty = self.plain.front().is_some_and(|(_, seg)| seg.is_empty());
            return if is_empty { Err(RingFault::NoRoom.into()) } else { Ok(Taken::TooSmall) };
        }
        let taken = self.gather(need, slots);
        if let Ok(Taken::Slot) = taken {
            self.failed = None;
            self.walked += slots.gathered().0.len() as u64;
        } else {
            self.ungather(slots, &taken);
        }
        taken
    }

    /// Whether a frame of `need` bytes can be taken, or must be accepted to be counted. The ring does not change.
    #[cold]
    pub(super) fn can_gather(&mut self, need: usize) -> bool {
        let mut probe = std::mem::take(&mut self.probe);
        let taken = self.take_several(need, &mut probe);
        if matches!(taken, Ok(Taken::Slot)) {
            self.ungather(&mut probe, &taken);
            self.failed = None;
        }
        self.probe = probe;
        // The next call that sends finds and reports a fault again.
        !matches!(taken, Ok(Taken::Full))
    }

    /// Gathers buffers until `need` bytes fit, or returns the reason why they do not.
    #[inline(always)]
    pub(super) fn gather(&mut self, need: usize, slots: &mut Slots) -> Result<Taken, PortFault> {
        let (mut bytes, mut buffers) = (0, 0);
        let most = if self.mergeable { MAX_BUFFERS } else { 1 };
        while bytes < need {
            if buffers >= most || slots.gathered().0.len() > ring::MAX_PIECES {
                return Ok(Taken::TooSmall);
            }
            buffers += 1;
            if self.plain.held == 0 && self.chain.is_none() {
                self.fill_cache()?;
            }
            if let Some((buf_id, seg)) = self.plain.front() {
                self.plain.drop_front(1);
                slots.add_piece(seg);
                add_buffer(slots, buf_id, seg.len())?;
                bytes += seg.len();
            } else {
                let Some(capacity) = self.gather_chain(slots)? else { return Ok(Taken::Full) };
                bytes += capacity;
            }
        }
        Ok(Taken::Slot)
    }

    /// Takes the chain after the plain buffers. Returns its capacity in bytes, or `None` if there is no chain.
    #[cold]
    fn gather_chain(&mut self, slots: &mut Slots) -> Result<Option<usize>, PortFault> {
        let Some(buf_id) = self.chain.take() else { return Ok(None) };
        let from = slots.gathered().0.len();
        let resolved =
            resolve(&self.chain_descriptors, Direction::Write, &mut self.translator, slots.pieces_mut());
        self.chain_descriptors.clear();
        let capacity = slots.gathered().0[from..].iter().map(|s| s.len()).sum();
        let added = add_buffer(slots, buf_id, capacity);
        resolved?;
        added?;
        Ok(Some(capacity))
    }

    /// Returns all gathered buffers to the ring; the avail cache is empty then. The next frame may need less.
    #[cold]
    pub(super) fn ungather(&mut self, gathered: &mut Slots, taken: &Result<Taken, PortFault>) {
        let (pieces, buffers) = gathered.gathered();
        self.walked += 2 * pieces.len() as u64;
        let bytes = pieces.iter().map(|piece| piece.len()).sum();
        let slots = buffers.iter().map(|buffer| u32::from(buffer.tag)).sum();
        // The next call finds a fault again.
        let too_small = matches!(taken, Ok(Taken::TooSmall));
        self.failed = taken.is_ok().then_some(Failed { bytes, slots, too_small });
        self.rewind_from(0);
        buffers.iter().rev().for_each(|buffer| self.ring.rewind(&[buf_id(buffer)]));
        gathered.ungather();
    }
}
