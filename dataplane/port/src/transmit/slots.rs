//! Reserved slots in a queue's memory, and writing frames to them.
//!
//! Slots pin their memory, so that frames can be written regardless of what happens to the queue. The peer can write
//! to the same memory at any time: no reference to it is created, and nothing is read back except the header, which
//! is only compared. Slots must not be kept longer than a burst: uncommitted slots delay all later ones.
//!
//! If slots of a shared ring are dropped without a commit, they are posted as empty frames ([`Slots::refuse`]), so
//! that later frames are sent. Slots of a ring with one handle are lost until the ring restarts.

use super::checksum::finished;
use super::tickets::Ticket;
use crate::burst::layout;
use crate::{Burst, Capabilities, Frame, OFFLOAD_HEADER, Offload};
use mem::copy::Kernel;
use mem::{GuestMemory, VolatileSlice};
use std::ops::Range;
use std::sync::{Arc, Weak};

/// Maximum length of the header before a frame.
const MAX_HEADER: usize = 12;

/// Kind of virtio-net header (VIRTIO 1.2 section 5.1.6) before a frame.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum HeaderKind {
    /// No header.
    #[default]
    Nothing,
    /// Header of a device for a driver with these capabilities, with the number of buffers.
    Driver(Capabilities),
    /// Header of a driver, which does not claim validated checksums (section 5.1.6.2.1).
    Device,
}

/// Header before a frame.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Form {
    /// Length in bytes: 0, 10, or 12 if the header ends with the number of buffers.
    pub(crate) header_len: usize,
    pub(crate) kind: HeaderKind,
}

impl Form {
    /// The header's offload fields for a packet with this head.
    #[inline(always)]
    pub(crate) fn fields(self, offload: Offload, head: &[u8]) -> [u8; OFFLOAD_HEADER] {
        if offload == Offload::NONE { [0; OFFLOAD_HEADER] } else { self.fields_of_offload(offload, head) }
    }

    #[inline(never)]
    fn fields_of_offload(self, offload: Offload, head: &[u8]) -> [u8; OFFLOAD_HEADER] {
        match self.kind {
            HeaderKind::Driver(capabilities) => offload.for_receiver(capabilities).header(head),
            HeaderKind::Device if offload.is_work() => offload.header(head),
            _ => [0; OFFLOAD_HEADER],
        }
    }

    /// Header of a frame in `buffers` buffers.
    #[inline(always)]
    fn header(self, words: [u8; OFFLOAD_HEADER], buffers: usize) -> [u8; MAX_HEADER] {
        let mut header = [0; MAX_HEADER];
        header[..OFFLOAD_HEADER].copy_from_slice(&words);
        if matches!(self.kind, HeaderKind::Driver(_)) {
            header[OFFLOAD_HEADER..].copy_from_slice(&(buffers as u16).to_le_bytes());
        }
        header
    }
}

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
pub(super) trait Abandon: Send + Sync {
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
    home: Option<Weak<dyn Abandon>>,
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
    pub(super) fn belong_to<H: Abandon + 'static>(&mut self, home: &Arc<H>) {
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

    /// Writes packet `i` of `burst`, which must have the reserved length, to the `k`-th slot. Its offloads must be
    /// covered by the queue's [`capabilities`](crate::TxQueue::capabilities).
    #[inline]
    pub fn write_packet<K: Kernel>(&mut self, k: usize, burst: &Burst, i: usize) {
        debug_assert_eq!(self.frame_len(k), burst.frame_len(i));
        let (slot, header) = self.header(k, burst.offload(i), burst.head(i));
        let [piece] = self.pieces[range(slot.pieces)] else {
            return self.scatter::<K>(slot, &header, &burst.frame(i));
        };
        let (first, body) = piece.split_at(self.form.header_len);
        if body.len() >= burst.frame_len(i) {
            // SAFETY: the piece is inside the map that `self` pins; the body has room for the packet.
            unsafe {
                write_header(first, &header[..self.form.header_len]);
                burst.write_to::<K, { layout::ANY }>(
                    (i, burst.frame_len(i)),
                    body.split_at(burst.frame_len(i)).0,
                );
            }
        }
    }

    /// Writes a frame to several pieces.
    #[cold]
    fn scatter<K: Kernel>(&self, slot: Slot, header: &[u8; MAX_HEADER], frame: &Frame<'_>) {
        self.put_header(slot, header);
        let bodies = self.bodies(slot);
        // SAFETY: the pieces are inside the map that `self` pins and were gathered until header and frame fit.
        unsafe { frame.scatter_to::<K>(bodies) };
    }

    /// Writes a frame given as concatenated `parts` of the reserved total length. Each slot is written once.
    ///
    /// `offload` describes the offloads left; the first part contains the packet's headers. A checksum that the queue
    /// does not accept ([`capabilities`](crate::TxQueue::capabilities)) is completed here. Segmentation must be
    /// accepted, because a slot holds one frame. If it is not, or if the checksum is outside the frame, the frame is
    /// not sent, and counts as [`DropReason::BadOffload`](crate::DropReason::BadOffload) at commit.
    pub fn write<K: Kernel>(&mut self, k: usize, offload: Offload, parts: &[&[u8]]) {
        if offload.is_work() && !self.accepted.cover(offload.needs()) {
            return self.write_finished::<K>(k, offload, parts);
        }
        self.write_parts::<K>(k, offload, parts);
    }

    /// Completes the checksum and writes the frame, or refuses it.
    #[cold]
    fn write_finished<K: Kernel>(&mut self, k: usize, offload: Offload, parts: &[&[u8]]) {
        let is_possible = offload.segmentation().is_none();
        let field = is_possible.then(|| finished(offload, parts, self.frame_len(k))).flatten();
        let Some(field) = field else { return self.refuse(k) };
        self.write_parts::<K>(k, Offload::NONE, parts);
        let (mut skip, mut left) = (field.at, field.bytes());
        for body in self.bodies(self.list[k]) {
            let behind = body.split_at(skip).1;
            skip -= skip.min(body.len());
            let (here, rest) = left.split_at(left.len().min(behind.len()));
            // SAFETY: the piece is inside the map that `self` pins; the bytes were limited to its length.
            unsafe { behind.split_at(here.len()).0.copy_in::<K>(here) };
            left = rest;
        }
    }

    /// Marks the frame in the `k`-th slot as not to be sent. Its buffers keep their place in ring order, so they are
    /// posted as an empty frame, which every receiver drops as too short.
    fn refuse(&mut self, k: usize) {
        if self.is_refused(k) {
            return;
        }
        let (slot, header) = self.header(k, Offload::NONE, &[]);
        self.put_header(slot, &header);
        let mut left = self.form.header_len as u32;
        for buffer in &mut self.buffers[range(slot.buffers)] {
            buffer.len = buffer.len.min(left);
            buffer.is_refused = true;
            left -= buffer.len;
        }
        let slot = &mut self.list[k];
        (slot.pieces, slot.len) = ((0, 0), 0);
        self.refused += 1;
    }

    fn write_parts<K: Kernel>(&mut self, k: usize, offload: Offload, parts: &[&[u8]]) {
        let (slot, header) = self.header(k, offload, parts.first().copied().unwrap_or_default());
        self.put_header(slot, &header);
        let mut bodies = self.bodies(slot);
        let mut room = VolatileSlice::EMPTY;
        for part in parts {
            let mut part = *part;
            while !part.is_empty() {
                if room.is_empty() {
                    let Some(next) = bodies.next() else { return };
                    room = next;
                }
                let (here, rest) = part.split_at(part.len().min(room.len()));
                // SAFETY: the piece is inside the map that `self` pins; the part was limited to its length.
                unsafe { room.copy_in::<K>(here) };
                (room, part) = (room.split_at(here.len()).1, rest);
            }
        }
    }

    /// Records the offloads of the frame in slot `k`. Returns the slot and its header.
    #[inline]
    fn header(&mut self, k: usize, offload: Offload, head: &[u8]) -> (Slot, [u8; MAX_HEADER]) {
        let slot = &mut self.list[k];
        slot.offload = offload;
        let (words, buffers) = (self.form.fields(offload, head), &mut self.buffers[range(slot.buffers)]);
        let header = self.form.header(words, buffers.len());
        if let Some(first) = buffers.first_mut() {
            first.is_marked = words != [0; OFFLOAD_HEADER];
        }
        (*slot, header)
    }

    /// Writes a header to the beginning of the slot's pieces.
    #[inline(always)]
    fn put_header(&self, slot: Slot, header: &[u8; MAX_HEADER]) {
        let (pieces, header_len, mut written) = (&self.pieces[range(slot.pieces)], self.form.header_len, 0);
        for piece in pieces {
            let here = piece.split_at(header_len - written).0;
            // SAFETY: the piece is inside the map that `self` pins.
            unsafe { write_header(here, &header[written..written + here.len()]) };
            written += here.len();
        }
    }

    /// The part of each of the slot's pieces after the header.
    #[inline(always)]
    fn bodies(&self, slot: Slot) -> impl Iterator<Item = VolatileSlice> {
        let (pieces, header_len, mut skipped) = (&self.pieces[range(slot.pieces)], self.form.header_len, 0);
        pieces.iter().map(move |piece| {
            let (here, body) = piece.split_at(header_len - skipped);
            skipped += here.len();
            body
        })
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        self.abandon();
    }
}

/// Writes a header, or a part of it, only if it differs: most headers are zero, and a line that is not written stays
/// in both caches.
///
/// # Safety
/// The map that created `to` must be alive, and `to.len()` must be at least the header's length.
#[inline(always)]
unsafe fn write_header(to: VolatileSlice, header: &[u8]) {
    // SAFETY: by contract.
    unsafe {
        match header.first_chunk() {
            Some(first) => {
                to.put_if_different(0, u64::from_ne_bytes(*first));
                match header[8..] {
                    [] => {}
                    [a, b] => to.put_if_different(8, u16::from_ne_bytes([a, b])),
                    [a, b, c, d] => to.put_if_different(8, u32::from_ne_bytes([a, b, c, d])),
                    ref rest => to.split_at(8).1.copy_in::<mem::copy::Portable>(rest),
                }
            }
            None => to.copy_in::<mem::copy::Portable>(header),
        }
    }
}
