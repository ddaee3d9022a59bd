//! Reserved slots in a queue's memory, and writing frames to them.
//!
//! Slots pin their memory, so that frames can be written regardless of what happens to the queue. The peer can write
//! to the same memory at any time: no reference to it is created, and nothing is read back except the header, which
//! is only compared. Slots must not be kept longer than a burst: uncommitted slots delay all later ones.
//!
//! If slots of a shared ring are dropped without a commit, they are posted as empty frames ([`Slots::refuse`]), so
//! that later frames are sent. Slots of a ring with one handle are lost until the ring restarts.

mod form;
mod write;

pub(crate) use form::{Form, HeaderKind};

use super::tickets::Ticket;
use crate::{Capabilities, Offload};
use mem::{GuestMemory, VolatileSlice};
use std::ops::Range;
use std::sync::{Arc, Weak};

/// A buffer of a slot, to be posted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filled {
    /// Identifier in the ring.
    pub(crate) id: u16,
    /// Number of ring entries (vhost-user) or region (memif).
    pub(crate) tag: u16,
    /// Bytes to write, including the header. While a frame's buffers are gathered: the buffer's capacity.
    pub(crate) len: u32,
    /// Whether the frame continues in the next buffer.
    pub(crate) has_next: bool,
    /// Whether its header leaves an offload.
    pub(crate) is_marked: bool,
    /// Whether the frame is a header without data. It is not to be sent; the ring reclaims the buffer if it can.
    pub(crate) is_refused: bool,
}

impl Filled {
    /// Creates a buffer of `len` bytes.
    #[inline(always)]
    pub(crate) fn new(id: u16, tag: u16, len: usize) -> Self {
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        Self { id, tag, len, has_next: false, is_marked: false, is_refused: false }
    }
}

/// A shared ring, for slots dropped without a commit.
pub(super) trait ReturnSlots: Send + Sync {
    /// Returns a ticket with the buffers of refused frames.
    fn abandon(&self, ticket: Ticket, filled: &mut Vec<Filled>);
}

/// Slot of one frame.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// Index of its length in the reservation.
    number: u32,
    len: u32,
    /// Ranges of its pieces and buffers. A refused frame has no pieces.
    pieces: (u32, u32),
    buffers: (u32, u32),
    offload: Offload,
}

fn range((from, to): (u32, u32)) -> Range<usize> {
    from as usize..to as usize
}

/// Slots for frames in a transmit queue's memory, between [`TxQueue::reserve`](crate::TxQueue::reserve) and
/// [`TxQueue::commit`](crate::TxQueue::commit). Reused; allocates only until it has held the largest reservation.
#[derive(Debug, Default)]
pub struct Slots {
    form: Form,
    /// Offloads that written frames may leave.
    accepted: Capabilities,
    /// Number of frames that are not sent because their offloads cannot be completed.
    refused: usize,
    list: Vec<Slot>,
    /// Pieces of all frames, including headers, in order.
    pieces: Vec<VolatileSlice>,
    buffers: Vec<Filled>,
    /// Index of the first piece and of the first buffer of the frame being gathered.
    from: (usize, usize),
    pin: Option<Arc<GuestMemory>>,
    /// Position in the order of a shared queue.
    pub(super) ticket: Option<Ticket>,
    /// The ring to which an uncommitted ticket returns.
    home: Option<Weak<dyn ReturnSlots>>,
    /// Private memory, for queues without reservable memory.
    pub(super) staging: super::staged::Staging,
}

impl Slots {
    /// Creates an empty set of slots.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of slots.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are no slots.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether the last frame is in one piece.
    #[inline(always)]
    pub(super) fn ends_plain(&self) -> bool {
        self.list.last().is_some_and(|slot| slot.pieces.1 - slot.pieces.0 == 1)
    }

    /// Index in the reservation of the `k`-th slot's length. Frames that fit in no buffers have no slot.
    pub fn number(&self, k: usize) -> usize {
        self.list[k].number as usize
    }

    /// Length in bytes of the frame in the `k`-th slot.
    pub fn frame_len(&self, k: usize) -> usize {
        self.list[k].len as usize
    }

    /// Total length of all frames in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.list.iter().map(|slot| u64::from(slot.len)).sum()
    }

    /// Empties the slots and prepares them for buffers in `map`.
    #[inline]
    pub(super) fn begin(&mut self, map: &Arc<GuestMemory>, form: Form) {
        debug_assert!(self.ticket.is_none(), "the last reservation was not committed");
        self.clear();
        self.form = form;
        if self.pin.as_ref().is_none_or(|pin| !Arc::ptr_eq(pin, map)) {
            self.pin = Some(map.clone());
        }
    }

    /// Removes all slots.
    pub(super) fn clear(&mut self) {
        self.list.clear();
        self.pieces.clear();
        self.buffers.clear();
        (self.from, self.refused) = ((0, 0), 0);
    }

    /// Sets the offloads that written frames may leave ([`Slots::write`]).
    pub(super) fn accept(&mut self, accepted: Capabilities) {
        self.accepted = accepted;
    }

    /// Sets the ring to which uncommitted tickets return.
    pub(super) fn belong_to<H: ReturnSlots + 'static>(&mut self, home: &Arc<H>) {
        if self.home.as_ref().is_none_or(|old| !std::ptr::addr_eq(old.as_ptr(), Arc::as_ptr(home))) {
            let home: Weak<H> = Arc::downgrade(home);
            self.home = Some(home);
        }
    }

    /// Returns the buffers of an uncommitted reservation.
    pub(super) fn abandon(&mut self) {
        if let Some(ticket) = self.ticket.take()
            && let Some(home) = self.home.as_ref().and_then(Weak::upgrade)
        {
            (0..self.len()).for_each(|k| self.refuse(k));
            home.abandon(ticket, &mut self.buffers);
        }
    }

    /// Unpins the memory.
    pub(super) fn unpin(&mut self) {
        self.pin = None;
    }

    /// Adds a piece of the pinned map to the frame being gathered.
    #[inline(always)]
    pub(crate) fn add_piece(&mut self, piece: VolatileSlice) {
        self.pieces.push(piece);
    }

    /// Adds a buffer to the frame being gathered, after its pieces.
    #[inline(always)]
    pub(crate) fn add_buffer(&mut self, buffer: Filled) {
        self.buffers.push(buffer);
    }

    /// The list of pieces.
    pub(crate) fn pieces_mut(&mut self) -> &mut Vec<VolatileSlice> {
        &mut self.pieces
    }

    /// Pieces and buffers of the frame being gathered.
    #[inline(always)]
    pub(crate) fn gathered(&self) -> (&[VolatileSlice], &[Filled]) {
        (&self.pieces[self.from.0..], &self.buffers[self.from.1..])
    }

    /// Discards the pieces and buffers of the frame being gathered.
    pub(crate) fn ungather(&mut self) {
        self.pieces.truncate(self.from.0);
        self.buffers.truncate(self.from.1);
    }

    /// Turns the gathered buffers into the slot of a frame of `len` bytes, index `number` in the reservation.
    #[inline]
    pub(super) fn add_slot(&mut self, number: usize, len: usize) {
        let to = (self.pieces.len(), self.buffers.len());
        let (mut left, buffers) = (self.form.header_len + len, &mut self.buffers[self.from.1..]);
        let mut more = buffers.len();
        for buffer in buffers {
            let here = left.min(buffer.len as usize);
            more -= 1;
            (buffer.len, buffer.has_next) = (here as u32, more > 0);
            left -= here;
        }
        self.list.push(Slot {
            number: number as u32,
            len: len as u32,
            pieces: (self.from.0 as u32, to.0 as u32),
            buffers: (self.from.1 as u32, to.1 as u32),
            offload: Offload::NONE,
        });
        self.from = to;
    }

    /// Buffers of all frames, in order.
    pub(crate) fn filled(&self) -> &[Filled] {
        &self.buffers
    }

    /// Like [`Slots::filled`], to be swapped with another list.
    pub(super) fn filled_mut(&mut self) -> &mut Vec<Filled> {
        &mut self.buffers
    }

    /// Offloads left for the frame in the `k`-th slot.
    pub(super) fn offload(&self, k: usize) -> Offload {
        self.list[k].offload
    }

    /// Memory of the `k`-th slot, which must be one piece.
    pub(super) fn piece(&self, k: usize) -> VolatileSlice {
        self.pieces[self.list[k].pieces.0 as usize]
    }

    /// Number of frames that are not sent because their offloads cannot be completed.
    pub(super) fn refused(&self) -> usize {
        self.refused
    }

    /// Whether the frame in the `k`-th slot is refused.
    pub(super) fn is_refused(&self, k: usize) -> bool {
        range(self.list[k].pieces).is_empty()
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        self.abandon();
    }
}
