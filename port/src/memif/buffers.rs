//! Where frames lie, as either end finds it.
//!
//! A server reads from each descriptor where the client's buffer is, and every such place is judged. A client made the
//! buffers: each belongs to its entry for ever, so only lengths and flags are read. In both cases a buffer is a segment
//! of one map that stays as it is for as long as the connection does.

use super::RingFault;
use super::ring::{Client, End, Ring, Server, Word};
use mem::{Map, Seg, Translator};
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
    pub(super) room: Seg,
    pub(super) region: u16,
}

impl Place {
    pub(super) const EMPTY: Place = Place { room: Seg::EMPTY, region: 0 };

    /// The word that says that `len` bytes are there.
    #[inline(always)]
    pub(super) fn filled(self, len: usize) -> Word {
        Word::new(self.region, len as u32)
    }
}

/// The buffers of one ring.
pub(super) trait Buffers: Send + 'static {
    /// Which end this is.
    type End: End;

    /// The map that every buffer lies in.
    fn map(&self) -> &Arc<Map>;

    /// Whether the file behind a buffer was cut.
    fn is_lost(&mut self) -> bool;

    /// What the peer has put into the buffer of entry `at`.
    fn received(&mut self, ring: &Ring, at: u16) -> Result<(Word, Seg), RingFault>;

    /// The buffer of entry `at`, to be filled.
    fn to_fill(&mut self, ring: &Ring, at: u16) -> Result<Place, RingFault>;

    /// Makes entry `at` ready to be lent again.
    fn lend(&self, ring: &Ring, at: u16);

    /// Says what is in entry `at`.
    fn describe(ring: &Ring, at: u16, word: Word);
}

/// Buffers of the peer's.
#[derive(Debug)]
pub(crate) struct Borrowed(Translator);

impl Borrowed {
    pub(super) fn new(map: &Arc<Map>) -> Self {
        Self(Translator::new(map.clone()))
    }

    #[inline(always)]
    fn find(&mut self, ring: &Ring, at: u16) -> Result<(Word, Seg), RingFault> {
        let (word, offset) = (ring.word(at), ring.offset(at));
        let seg = self.0.translate(address(word.region(), offset), word.len());
        let outside = || RingFault::Outside { region: word.region(), offset, len: word.len() };
        Ok((word, seg.ok_or_else(outside)?))
    }
}

impl Buffers for Borrowed {
    type End = Server;

    #[inline(always)]
    fn map(&self) -> &Arc<Map> {
        self.0.map()
    }

    #[inline(always)]
    fn is_lost(&mut self) -> bool {
        self.0.is_lost()
    }

    #[inline(always)]
    fn received(&mut self, ring: &Ring, at: u16) -> Result<(Word, Seg), RingFault> {
        self.find(ring, at)
    }

    #[inline(always)]
    fn to_fill(&mut self, ring: &Ring, at: u16) -> Result<Place, RingFault> {
        let (word, room) = self.find(ring, at)?;
        Ok(Place { room, region: word.region() })
    }

    /// The client says where its next frame is.
    #[inline(always)]
    fn lend(&self, _: &Ring, _: u16) {}

    /// The client wrote the room into this word, so it never says already what it must.
    #[inline(always)]
    fn describe(ring: &Ring, at: u16, word: Word) {
        ring.set_word(at, word);
    }
}

/// Buffers of our own, in a row.
#[derive(Clone, Debug)]
pub(crate) struct Own {
    whole: Seg,
    stride: u32,
    room: u32,
    map: Arc<Map>,
}

impl Own {
    /// Bytes from one buffer of `room` bytes to the next: whole lines, and two against aliasing.
    pub(super) fn stride(room: u32) -> u32 {
        room.next_multiple_of(64) + 128
    }

    /// As many buffers as `whole` has room for.
    pub(super) fn new(map: &Arc<Map>, whole: Option<Seg>, room: u32) -> Result<Self, RingFault> {
        Ok(Self { whole: whole.ok_or(RingFault::Place)?, stride: Self::stride(room), room, map: map.clone() })
    }

    /// Bytes of one buffer.
    pub(super) fn room(&self) -> u32 {
        self.room
    }

    /// All of the buffer of entry `at`.
    pub(super) fn whole(&self, ring: &Ring, at: u16) -> Seg {
        self.part(ring.slot(at), self.room)
    }

    /// The first `len` bytes of buffer `slot`; nothing where they lie outside, which slots of the ring and lengths up to
    /// the room never do.
    #[inline(always)]
    fn part(&self, slot: u16, len: u32) -> Seg {
        let at = usize::from(slot) * self.stride as usize;
        self.whole.slice(at, len as usize).unwrap_or(Seg::EMPTY)
    }
}

impl Buffers for Own {
    type End = Client;

    #[inline(always)]
    fn map(&self) -> &Arc<Map> {
        &self.map
    }

    /// Nobody can cut a sealed file.
    #[inline(always)]
    fn is_lost(&mut self) -> bool {
        false
    }

    #[inline(always)]
    fn received(&mut self, ring: &Ring, at: u16) -> Result<(Word, Seg), RingFault> {
        let word = ring.word(at);
        if word.len() > self.room {
            return Err(RingFault::Length { len: word.len(), room: self.room });
        }
        Ok((word, self.part(ring.slot(at), word.len())))
    }

    #[inline(always)]
    fn to_fill(&mut self, ring: &Ring, at: u16) -> Result<Place, RingFault> {
        Ok(Place { room: self.part(ring.slot(at), self.room), region: 0 })
    }

    /// The server wrote a frame's length where it looks for the room.
    #[inline(always)]
    fn lend(&self, ring: &Ring, at: u16) {
        ring.set_word(at, Word::new(0, self.room));
    }

    /// Nobody but us writes these descriptors, so one that says already what it must stays where it is, in both caches.
    #[inline(always)]
    fn describe(ring: &Ring, at: u16, word: Word) {
        if ring.word(at) != word {
            ring.set_word(at, word);
        }
    }
}
