//! Locations of frames, for the server and the client end.
//!
//! A server reads the location of the client's buffer from each descriptor and validates it. A client owns the
//! buffers and keeps a private record of the buffer in each entry, so it reads only lengths and flags. When a client
//! sends, each buffer belongs to one entry permanently. When it receives, the buffers returned first are placed into
//! the entries lent next. At both ends a buffer is a segment of one map that does not change during the connection.

use super::RingFault;
use super::ring::{Client, End, Ring, Server, Word};
use crate::memory::Memory;
use crate::retain::Lender;
use crate::{BURST, Burst, PortFault};
use mem::{GuestMemory, Translator, VolatileSlice};
use ring::BufId;
use std::sync::Arc;

/// log2 of the address range reserved in the map for each region: offsets have 32 bits.
const REGION_SPAN: u32 = 33;

/// Address in the map of byte `offset` of region `region`.
#[inline(always)]
pub(super) fn address(region: u16, offset: u32) -> u64 {
    u64::from(region) << REGION_SPAN | u64::from(offset)
}

/// Region bytes addressable by a 32-bit offset, plus one frame of maximum length.
pub(super) const MAX_REACH: u64 = (1 << 32) + (1 << 16);

/// A transmit buffer: its room, and the region field of its descriptor's first word.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) room: VolatileSlice,
    pub(super) region: u16,
}

impl Place {
    pub(super) const EMPTY: Place = Place { room: VolatileSlice::EMPTY, region: 0 };

    /// The descriptor word for `len` bytes.
    #[inline(always)]
    pub(super) fn filled(self, len: usize) -> Word {
        Word::new(self.region, len as u32)
    }
}

const INVALID: PortFault = PortFault::State("positions and buffers do not agree with the memif ring");

/// The buffers of one ring.
pub(super) trait Buffers: Send + 'static {
    /// The end that these buffers belong to.
    type End: End;

    /// Maximum buffers of one received frame.
    const MAX_PIECES: usize;

    /// Pins the memory of received frames for `burst`.
    fn pin(&self, burst: &mut Burst);

    /// Whether the file behind a buffer was truncated.
    fn is_lost(&mut self) -> bool;

    /// The peer's descriptor word and the data of the buffer of entry `at`.
    fn received(&mut self, ring: &Ring, at: u16) -> Result<(Word, VolatileSlice), RingFault>;

    /// The buffer of entry `at`, for writing.
    fn to_fill(&mut self, ring: &Ring, at: u16) -> Result<Place, RingFault>;

    /// The identifier that returns the buffer of entry `at`.
    fn buf_id(&self, ring: &Ring, at: u16) -> BufId;

    /// Like [`Buffers::buf_id`], for a frame in `slots` entries. `burst` must have room for it. Buffers that one
    /// identifier cannot describe are added to `burst` here.
    fn chain_id(&self, ring: &Ring, at: u16, slots: u16, burst: &mut Burst) -> BufId;

    /// Refills entries from `done` on with returned buffers. Returns the first entry that is not refilled.
    fn give_back(&mut self, ring: &Ring, done: u16, buffers: &[BufId]) -> u16;

    /// Writes the descriptor word of entry `at`.
    fn describe(ring: &Ring, at: u16, word: Word);

    /// Number of the buffer in each entry. Only the owner of the buffers has this record.
    fn freeze(&self) -> Vec<u16> {
        Vec::new()
    }

    /// Continues a receive queue whose entries from `at` on contain the buffers `held` and whose entries from `done`
    /// to `at` contain none. Returns the first entry that was not returned to the peer.
    fn thaw(&mut self, ring: &Ring, at: u16, done: u16, held: &[u16]) -> Result<u16, PortFault>;
}

/// Buffers of the peer.
#[derive(Debug)]
pub(crate) struct Borrowed(Translator);

impl Borrowed {
    pub(super) fn new(map: &Arc<GuestMemory>) -> Self {
        Self(Translator::new(map.clone()))
    }

    #[inline(always)]
    fn find(&mut self, ring: &Ring, at: u16) -> Result<(Word, VolatileSlice), RingFault> {
        let (word, offset) = (ring.word(at), ring.offset(at));
        let seg = self.0.translate(address(word.region(), offset), word.len());
        let outside = || RingFault::Outside { region: word.region(), offset, len: word.len() };
        Ok((word, seg.ok_or_else(outside)?))
    }
}

impl Buffers for Borrowed {
    type End = Server;

    const MAX_PIECES: usize = 128;

    #[inline(always)]
    fn pin(&self, burst: &mut Burst) {
        burst.pin(self.0.map());
    }

    #[inline(always)]
    fn is_lost(&mut self) -> bool {
        self.0.is_lost()
    }

    #[inline(always)]
    fn received(&mut self, ring: &Ring, at: u16) -> Result<(Word, VolatileSlice), RingFault> {
        self.find(ring, at)
    }

    #[inline(always)]
    fn to_fill(&mut self, ring: &Ring, at: u16) -> Result<Place, RingFault> {
        let (word, room) = self.find(ring, at)?;
        Ok(Place { room, region: word.region() })
    }

    /// Buffers return in order, so only their number matters.
    #[inline(always)]
    fn buf_id(&self, _: &Ring, _: u16) -> BufId {
        BufId { id: 0, slots: 1 }
    }

    fn chain_id(&self, _: &Ring, _: u16, slots: u16, _: &mut Burst) -> BufId {
        BufId { id: 0, slots }
    }

    /// The client writes the location of its next buffer itself.
    #[inline(always)]
    fn give_back(&mut self, _: &Ring, done: u16, buffers: &[BufId]) -> u16 {
        buffers.iter().fold(done, |done, buf_id| done.wrapping_add(buf_id.slots))
    }

    /// Received frames are returned at the end of their burst, so `done` equals `at`.
    fn thaw(&mut self, _: &Ring, at: u16, done: u16, held: &[u16]) -> Result<u16, PortFault> {
        if at == done && held.is_empty() { Ok(done) } else { Err(INVALID) }
    }

    /// Always written: the client wrote the buffer's room into this word, so it never has the new value already.
    #[inline(always)]
    fn describe(ring: &Ring, at: u16, word: Word) {
        ring.set_word(at, word);
    }
}

/// Layout of the port's own buffers: offset of the first in its region, distance between buffers, and bytes of each.
#[derive(Clone, Copy, Debug)]
struct BufferLayout {
    first: u32,
    stride: u32,
    room: u32,
}

impl BufferLayout {
    /// Describes buffer `id`, with its full room, in entry `at`.
    fn describe(self, ring: &Ring, at: u16, id: u16) {
        ring.set_offset(at, self.first + u32::from(id) * self.stride);
        ring.set_word(at, Word::new(0, self.room));
    }

    /// Lends buffer `id` in entry `at`.
    #[inline(always)]
    fn lend(self, held: &mut [u16], ring: &Ring, at: u16, id: u16) {
        let held = &mut held[usize::from(ring.slot(at))];
        if *held == id {
            // Same buffer as before: only the length is restored, because the server overwrote the room with the
            // frame's length.
            return ring.set_word(at, Word::new(0, self.room));
        }
        *held = id;
        self.describe(ring, at, id);
    }
}

/// Contiguous buffers owned by this end.
#[derive(Clone, Debug)]
pub(crate) struct Own {
    whole: VolatileSlice,
    row: BufferLayout,
    map: Arc<GuestMemory>,
    /// The buffer in each entry. Private, because the peer can write descriptors.
    held: Box<[u16]>,
    lender: Lender,
}

impl Own {
    /// Distance between buffers of `room` bytes: whole cache lines, and two more against aliasing.
    pub(super) fn stride(room: u32) -> u32 {
        room.next_multiple_of(64) + 128
    }

    /// Creates as many buffers as fit in `whole`, at most one per entry of `ring`. `whole` starts at byte `first` of
    /// its region.
    pub(super) fn new(
        memory: &Memory,
        ring: &Ring,
        (whole, first): (Option<VolatileSlice>, u32),
        room: u32,
    ) -> Result<Self, RingFault> {
        let (whole, row) =
            (whole.ok_or(RingFault::Place)?, BufferLayout { first, stride: Self::stride(room), room });
        let lender = Lender::shared(whole, row.stride as usize, ring.size().into(), memory.pages().clone());
        Ok(Self { whole, row, map: memory.map.clone(), held: (0..ring.size()).collect(), lender })
    }

    /// Describes each buffer in the entry of its number.
    pub(super) fn describe_all(&self, ring: &Ring) {
        (0..ring.size()).for_each(|slot| self.row.describe(ring, slot, slot));
    }

    #[inline(always)]
    fn held(&self, ring: &Ring, at: u16) -> u16 {
        self.held[usize::from(ring.slot(at))]
    }

    /// Size of one buffer in bytes.
    pub(super) fn room(&self) -> u32 {
        self.row.room
    }

    /// The complete buffer of entry `at`.
    pub(super) fn whole(&self, ring: &Ring, at: u16) -> VolatileSlice {
        self.part(self.held(ring, at), self.row.room)
    }

    /// The first `len` bytes of buffer `id`. Empty if out of range, which own buffers and lengths up to the room
    /// never are.
    #[inline(always)]
    fn part(&self, id: u16, len: u32) -> VolatileSlice {
        let at = usize::from(id) * self.row.stride as usize;
        self.whole.slice(at, len as usize).unwrap_or(VolatileSlice::EMPTY)
    }
}

impl Buffers for Own {
    type End = Client;

    /// Each buffer has an identifier of its own.
    const MAX_PIECES: usize = BURST;

    #[inline(always)]
    fn pin(&self, burst: &mut Burst) {
        burst.pin_own(&self.map, &self.lender);
    }

    /// A sealed file cannot be truncated.
    #[inline(always)]
    fn is_lost(&mut self) -> bool {
        false
    }

    #[inline(always)]
    fn received(&mut self, ring: &Ring, at: u16) -> Result<(Word, VolatileSlice), RingFault> {
        let word = ring.word(at);
        if word.len() > self.row.room {
            return Err(RingFault::Length { len: word.len(), room: self.row.room });
        }
        Ok((word, self.part(self.held(ring, at), word.len())))
    }

    #[inline(always)]
    fn to_fill(&mut self, ring: &Ring, at: u16) -> Result<Place, RingFault> {
        Ok(Place { room: self.whole(ring, at), region: 0 })
    }

    #[inline(always)]
    fn buf_id(&self, ring: &Ring, at: u16) -> BufId {
        BufId { id: self.held(ring, at), slots: 1 }
    }

    fn chain_id(&self, ring: &Ring, at: u16, slots: u16, burst: &mut Burst) -> BufId {
        (1..slots).for_each(|k| burst.give_back(self.buf_id(ring, at.wrapping_add(k))));
        self.buf_id(ring, at)
    }

    #[inline(always)]
    fn give_back(&mut self, ring: &Ring, mut done: u16, buffers: &[BufId]) -> u16 {
        let Self { row, held, lender, .. } = self;
        let mut lend = |id| {
            row.lend(held, ring, done, id);
            done = done.wrapping_add(1);
        };
        for buf_id in buffers {
            lend(buf_id.id);
        }
        lender.collect(lend);
        done
    }

    fn freeze(&self) -> Vec<u16> {
        self.held.to_vec()
    }

    /// Buffers that are in no entry are lent to retained packets, and are lent to the peer again when they return. Those
    /// of packets that another process retained return at once, when the next burst completes: until then that process
    /// may still continue the ring.
    fn thaw(&mut self, ring: &Ring, at: u16, done: u16, held: &[u16]) -> Result<u16, PortFault> {
        let (size, out) = (ring.size(), at.wrapping_sub(done));
        if held.len() != usize::from(size) || out > size {
            return Err(INVALID);
        }
        let mut missing = vec![true; size.into()];
        for k in 0..size - out {
            let id = held[usize::from(ring.slot(at.wrapping_add(k)))];
            let is_missing = missing.get_mut(usize::from(id)).ok_or(INVALID)?;
            if !std::mem::take(is_missing) {
                return Err(INVALID);
            }
        }
        self.held = held.into();
        if !self.lender.is_lending() {
            self.lender.add_returned((0..size).filter(|&id| missing[usize::from(id)]));
        }
        Ok(done)
    }

    /// Written only if different: these descriptors have no other writer, so an unchanged line stays in both caches.
    #[inline(always)]
    fn describe(ring: &Ring, at: u16, word: Word) {
        if ring.word(at) != word {
            ring.set_word(at, word);
        }
    }
}
