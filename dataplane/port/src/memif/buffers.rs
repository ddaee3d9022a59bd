//! Where frames lie, as either end finds it.
//!
//! A server reads from each descriptor where the client's buffer is, and every such place is judged. A client made the
//! buffers and knows which one is in each entry, so only lengths and flags are read: to send each belongs to its entry for ever,
//! and a receiver puts those that came back first into the entries that it lends next. In both cases a buffer is a segment
//! of one map that stays as it is for as long as the connection does.

use super::RingFault;
use super::ring::{Client, End, Ring, Server, Word};
use crate::memory::Memory;
use crate::retain::Lender;
use crate::{BURST, Burst, PortFault};
use mem::{GuestMemory, Translator, VolatileSlice};
use ring::BufId;
use std::sync::Arc;

/// Addresses of a map that each region has for itself: offsets have 32 bits.
const REGION_SPAN: u32 = 33;

/// The map's address of byte `offset` of region `region`.
#[inline(always)]
pub(super) fn address(region: u16, offset: u32) -> u64 {
    u64::from(region) << REGION_SPAN | u64::from(offset)
}

/// Bytes of a region that offsets of 32 bits can name, and one longest frame.
pub(super) const REACH: u64 = (1 << 32) + (1 << 16);

/// A buffer to send in: its room, and the first word of its descriptor but for length and flags.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) room: VolatileSlice,
    pub(super) region: u16,
}

impl Place {
    pub(super) const EMPTY: Place = Place { room: VolatileSlice::EMPTY, region: 0 };

    /// The word that says that `len` bytes are there.
    #[inline(always)]
    pub(super) fn filled(self, len: usize) -> Word {
        Word::new(self.region, len as u32)
    }
}

const INVALID: PortFault = PortFault::State("positions and buffers do not agree with the memif ring");

/// The buffers of one ring.
pub(super) trait Buffers: Send + 'static {
    /// Which end this is.
    type End: End;

    /// Most buffers of one frame that is received.
    const MOST_PIECES: usize;

    /// Keeps the memory of received frames mapped for `burst`.
    fn pin(&self, burst: &mut Burst);

    /// Whether the file behind a buffer was cut.
    fn is_lost(&mut self) -> bool;

    /// What the peer has put into the buffer of entry `at`.
    fn received(&mut self, ring: &Ring, at: u16) -> Result<(Word, VolatileSlice), RingFault>;

    /// The buffer of entry `at`, to be filled.
    fn to_fill(&mut self, ring: &Ring, at: u16) -> Result<Place, RingFault>;

    /// What gives back the buffer of entry `at`.
    fn buf_id(&self, ring: &Ring, at: u16) -> BufId;

    /// The same for the buffers of a frame in `slots` entries, which `burst` has room for; those that a buffer id cannot name
    /// are `burst`'s already.
    fn chain_id(&self, ring: &Ring, at: u16, slots: u16, burst: &mut Burst) -> BufId;

    /// Makes entries from `done` on ready with buffers that came back. Returns the first entry that is not.
    fn give_back(&mut self, ring: &Ring, done: u16, buffers: &[BufId]) -> u16;

    /// Says what is in entry `at`.
    fn describe(ring: &Ring, at: u16, word: Word);

    /// The number of the buffer in each entry, which only the side that owns the buffers knows.
    fn freeze(&self) -> Vec<u16> {
        Vec::new()
    }

    /// Continues a receive queue whose entries from `at` hold the buffers `held`, and whose entries from `done` to `at`
    /// hold none. Returns the first entry that was not given back.
    fn thaw(&mut self, ring: &Ring, at: u16, done: u16, held: &[u16]) -> Result<u16, PortFault>;
}

/// Buffers of the peer's.
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

    const MOST_PIECES: usize = 128;

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

    /// Buffers go back in order, so their number is all that counts.
    #[inline(always)]
    fn buf_id(&self, _: &Ring, _: u16) -> BufId {
        BufId { id: 0, slots: 1 }
    }

    fn chain_id(&self, _: &Ring, _: u16, slots: u16, _: &mut Burst) -> BufId {
        BufId { id: 0, slots }
    }

    /// The client says where its next frame is.
    #[inline(always)]
    fn give_back(&mut self, _: &Ring, done: u16, buffers: &[BufId]) -> u16 {
        buffers.iter().fold(done, |done, buf_id| done.wrapping_add(buf_id.slots))
    }

    /// Received frames are given back at the end of their burst, so `done` is `at`.
    fn thaw(&mut self, _: &Ring, at: u16, done: u16, held: &[u16]) -> Result<u16, PortFault> {
        if at == done && held.is_empty() { Ok(done) } else { Err(INVALID) }
    }

    /// The client wrote the room into this word, so it never says already what it must.
    #[inline(always)]
    fn describe(ring: &Ring, at: u16, word: Word) {
        ring.set_word(at, word);
    }
}

/// How buffers of our own lie: the first one's place in its region, bytes to the next one, and bytes of each.
#[derive(Clone, Copy, Debug)]
struct Row {
    first: u32,
    stride: u32,
    room: u32,
}

impl Row {
    /// Says that buffer `id` is in entry `at`, with all of its room.
    fn describe(self, ring: &Ring, at: u16, id: u16) {
        ring.set_offset(at, self.first + u32::from(id) * self.stride);
        ring.set_word(at, Word::new(0, self.room));
    }

    /// Lends buffer `id` in entry `at`.
    #[inline(always)]
    fn lend(self, held: &mut [u16], ring: &Ring, at: u16, id: u16) {
        let held = &mut held[usize::from(ring.slot(at))];
        if *held == id {
            // The server wrote a frame's length where it looks for the room.
            return ring.set_word(at, Word::new(0, self.room));
        }
        *held = id;
        self.describe(ring, at, id);
    }
}

/// Buffers of our own, in a row.
#[derive(Clone, Debug)]
pub(crate) struct Own {
    whole: VolatileSlice,
    row: Row,
    map: Arc<GuestMemory>,
    /// By entry, the buffer that is in it. Private: the peer can write descriptors.
    held: Box<[u16]>,
    lender: Lender,
}

impl Own {
    /// Bytes from one buffer of `room` bytes to the next: whole lines, and two against aliasing.
    pub(super) fn stride(room: u32) -> u32 {
        room.next_multiple_of(64) + 128
    }

    /// As many buffers as `whole` has room for, up to one for each of `ring`'s entries. `whole` begins at byte `first` of its
    /// region.
    pub(super) fn new(
        memory: &Memory,
        ring: &Ring,
        (whole, first): (Option<VolatileSlice>, u32),
        room: u32,
    ) -> Result<Self, RingFault> {
        let (whole, row) = (whole.ok_or(RingFault::Place)?, Row { first, stride: Self::stride(room), room });
        let lender = Lender::shared(whole, row.stride as usize, ring.size().into(), memory.pages().clone());
        (0..ring.size()).for_each(|slot| row.describe(ring, slot, slot));
        Ok(Self { whole, row, map: memory.map.clone(), held: (0..ring.size()).collect(), lender })
    }

    #[inline(always)]
    fn held(&self, ring: &Ring, at: u16) -> u16 {
        self.held[usize::from(ring.slot(at))]
    }

    /// Bytes of one buffer.
    pub(super) fn room(&self) -> u32 {
        self.row.room
    }

    /// All of the buffer of entry `at`.
    pub(super) fn whole(&self, ring: &Ring, at: u16) -> VolatileSlice {
        self.part(self.held(ring, at), self.row.room)
    }

    /// The first `len` bytes of buffer `id`; nothing where they lie outside, which our buffers and lengths up to the room never
    /// do.
    #[inline(always)]
    fn part(&self, id: u16, len: u32) -> VolatileSlice {
        let at = usize::from(id) * self.row.stride as usize;
        self.whole.slice(at, len as usize).unwrap_or(VolatileSlice::EMPTY)
    }
}

impl Buffers for Own {
    type End = Client;

    /// Each buffer has a buffer id.
    const MOST_PIECES: usize = BURST;

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

    /// Buffers that are in no entry are lent again, unless packets are retained: then they are, and come back later.
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
        if self.lender.is_lending() {
            return Ok(done);
        }
        let missing = (0..size).filter(|&id| missing[usize::from(id)]);
        let ids: Vec<BufId> = missing.map(|id| BufId { id, slots: 1 }).collect();
        Ok(self.give_back(ring, done, &ids))
    }

    /// These descriptors have no other writer, so one that says already what it must stays where it is, in both caches.
    #[inline(always)]
    fn describe(ring: &Ring, at: u16, word: Word) {
        if ring.word(at) != word {
            ring.set_word(at, word);
        }
    }
}
