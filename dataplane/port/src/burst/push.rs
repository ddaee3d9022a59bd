//! Adding packets to a burst: received, created, and derived from another burst.

use super::{BURST, Burst, ETHERNET_HEADER, HEAD, HEADROOM, Heads, MAX_HEAD, SLOT, Shape};
use mem::{VolatileSlice, Wide};
use ring::BufId;

/// Maximum bytes before a splice on the path with fixed-length copies.
const FRONT: usize = 16;

/// Free slots of a burst for packets of one segment each: slices of equal length.
#[derive(Debug)]
pub struct FreeSlots<'a> {
    rest: &'a mut [VolatileSlice],
    len: &'a mut [u32],
    buf_ids: &'a mut [BufId],
    shape: &'a mut Shape,
}

impl FreeSlots<'_> {
    /// Fills slot `k` with a segment of the pinned map. Returns `false` if `k` is out of range.
    #[inline(always)]
    pub fn fill(&mut self, k: usize, buf_id: BufId, frame: Wide) -> bool {
        self.put(k, buf_id, frame.seg())
    }

    /// [`FreeSlots::fill`] for a segment without a margin. The heads of the burst are then copied one by one, at their
    /// exact lengths.
    #[cold]
    pub fn fill_exact(&mut self, k: usize, buf_id: BufId, frame: VolatileSlice) -> bool {
        *self.shape = (*self.shape).max(Shape::Single);
        self.put(k, buf_id, frame)
    }

    #[inline(always)]
    fn put(&mut self, k: usize, buf_id: BufId, frame: VolatileSlice) -> bool {
        if k >= self.rest.len() || k >= self.len.len() || k >= self.buf_ids.len() {
            return false;
        }
        (self.rest[k], self.len[k], self.buf_ids[k]) = (frame, frame.len() as u32, buf_id);
        true
    }
}

impl Burst {
    /// Adds a packet in one segment of the pinned map.
    #[inline(always)]
    pub fn push(&mut self, buf_id: BufId, frame: VolatileSlice) {
        let i = self.n;
        self.rest[i] = frame;
        self.len[i] = frame.len() as u32;
        self.n += 1;
        self.is_at_least(Shape::Single);
        self.give_back(buf_id);
    }

    /// Slots for further packets of one segment each, for a loop that fills many.
    #[inline(always)]
    pub fn places(&mut self) -> FreeSlots<'_> {
        let (n, returned, room) = (self.n, self.returned, self.room());
        FreeSlots {
            rest: &mut self.rest[n..][..room],
            len: &mut self.len[n..][..room],
            buf_ids: &mut self.buf_ids[returned..][..room],
            shape: &mut self.shape,
        }
    }

    /// Adds the first `n` slots of [`Burst::places`]. Returns their total length in bytes.
    #[inline(always)]
    pub fn filled(&mut self, n: usize) -> u64 {
        // No overflow: at most 64 packets of 64 KiB.
        let bytes: u32 = self.len[self.n..][..n].iter().sum();
        self.n += n;
        self.returned += n;
        bytes.into()
    }

    #[inline(always)]
    pub(super) fn is_at_least(&mut self, shape: Shape) {
        self.shape = self.shape.max(shape);
    }

    /// Adds a packet in one segment of the pinned map, without a buffer to return. Returns `false` if the burst is
    /// full.
    pub fn push_kept(&mut self, frame: VolatileSlice) -> bool {
        let i = self.n;
        if i == BURST {
            return false;
        }
        (self.rest[i], self.len[i]) = (frame, frame.len() as u32);
        self.is_at_least(Shape::Single);
        self.n += 1;
        true
    }

    /// Adds a packet in several segments of the pinned map. The caller must check [`Burst::has_chain_room`] before.
    pub fn push_chain(&mut self, buf_id: BufId, frame: &[VolatileSlice]) {
        let (first, more) = frame.split_first().unwrap_or((&VolatileSlice::EMPTY, &[]));
        let from = self.spill.len() as u32;
        self.spill.extend_from_slice(more);
        let i = self.n;
        self.rest[i] = *first;
        self.set_more(i, from);
        self.len[i] = frame.iter().map(|s| s.len() as u32).sum();
        self.n += 1;
        self.give_back(buf_id);
    }

    /// Assigns the spilled segments from `from` on to packet `i`.
    pub(super) fn set_more(&mut self, i: usize, from: u32) {
        if std::mem::replace(&mut self.shape, Shape::Chained) != Shape::Chained {
            self.more = [(0, 0); BURST];
        }
        self.more[i] = (from, self.spill.len() as u32);
    }

    /// Range of the spilled segments of packet `i`.
    #[inline(always)]
    pub(super) fn more(&self, i: usize) -> (u32, u32) {
        if self.shape == Shape::Chained { self.more[i] } else { (0, 0) }
    }

    /// Records a buffer to return that carries no packet.
    #[inline]
    pub fn give_back(&mut self, buf_id: BufId) {
        self.buf_ids[self.returned] = buf_id;
        self.returned += 1;
    }

    /// Clears the burst for packets derived from those of `source`, whose memory they continue to use.
    pub fn begin_from(&mut self, source: &Burst) {
        self.begin(0);
        (self.now, self.heads, self.is_derived) = (source.now, Heads::Whole, true);
        match source.pins.get(source.source) {
            Some(Some(pin)) => self.pin(&pin.map),
            _ => self.pins[0] = None,
        }
    }

    /// Adds a packet with the private head `head`, of at most [`MAX_HEAD`] bytes plus the headroom, and the
    /// segments `rest` of the pinned map. Returns its index, or `None` if the burst is full or the head too long.
    #[inline]
    pub fn push_derived(&mut self, head: &[u8], rest: impl Iterator<Item = VolatileSlice>) -> Option<usize> {
        let i = self.n;
        if i == BURST || head.len() > SLOT {
            return None;
        }
        self.settle();
        let start = HEADROOM.min(SLOT - head.len());
        self.slots.0[i][start..start + head.len()].copy_from_slice(head);
        (self.start[i], self.head[i]) = (start as u16, head.len() as u16);
        let from = self.spill.len();
        self.spill.extend(rest);
        let bytes: usize = self.spill[from..].iter().map(|seg| seg.len()).sum();
        self.rest[i] = VolatileSlice::EMPTY;
        self.set_more(i, from as u32);
        self.len[i] = (head.len() + bytes) as u32;
        self.n += 1;
        Some(i)
    }

    /// Cuts the last packet, which must have been created here, to `keep` bytes. It has no offload then.
    pub(crate) fn truncate_derived(&mut self, keep: usize) {
        let i = self.n - 1;
        let have = usize::from(self.head[i]).min(keep);
        if !self.is_whole() {
            let (from, to) = self.more(i);
            let more = &mut self.spill[from as usize..to as usize];
            let mut left = keep - have;
            for seg in std::iter::once(&mut self.rest[i]).chain(more) {
                *seg = seg.split_at(left).0;
                left -= seg.len();
            }
        }
        (self.head[i], self.len[i]) = (have as u16, keep as u32);
        self.set_offload(i, crate::Offload::NONE);
    }

    /// Removes the last packet, which must have been created here.
    pub(crate) fn pop_derived(&mut self) {
        self.n -= 1;
    }

    /// Adds packets of `source`, with at most one segment after the head, as changed by an edit without patches.
    /// Returns their number: less than that of `indices` if the next one, or the edit, is not supported by this fast
    /// path.
    #[inline(never)]
    pub(crate) fn push_spliced(&mut self, source: &Burst, indices: &[u8], edit: &crate::Edit) -> usize {
        let Some(splice) = edit.as_splice() else { return 0 };
        if source.shape == Shape::Chained {
            return 0;
        }
        let is_whole = source.is_whole();
        let push = |i: &&u8| {
            let i = usize::from(**i);
            let rest = if is_whole { VolatileSlice::EMPTY } else { source.rest[i] };
            self.splice(source, i, splice, rest).is_some()
        };
        indices.iter().take_while(push).count()
    }

    /// Adds packet `i` of `source` with a changed head.
    #[inline(always)]
    fn splice(
        &mut self,
        source: &Burst,
        i: usize,
        (at, strip, insert): (usize, usize, &[u8]),
        rest: VolatileSlice,
    ) -> Option<()> {
        let number = self.n;
        let (start, head) = (source.start[i] as usize, source.head[i] as usize);
        let len = (head + insert.len()).checked_sub(strip)?;
        // The head after the splice is copied with one fixed length.
        let behind = head.checked_sub(at + strip).filter(|behind| *behind <= HEAD)?;
        // [`Burst::alike`] requires that heads in place hold at least an Ethernet header.
        if number == BURST || len.wrapping_sub(ETHERNET_HEADER) > MAX_HEAD - ETHERNET_HEADER {
            return None;
        }
        // Fixed-length copies, front to back: excess bytes are overwritten by the next copy or are beyond the head.
        let from = source.slots.0[i].get(start..)?;
        let to = &mut self.slots.0[number][HEADROOM..];
        if at > FRONT || at + insert.len() + HEAD > to.len() {
            return None;
        }
        *to.first_chunk_mut()? = *from.first_chunk::<FRONT>()?;
        match insert.first_chunk::<4>() {
            Some(tag) if insert.len() == 4 => *to[at..].first_chunk_mut()? = *tag,
            _ => to[at..at + insert.len()].copy_from_slice(insert),
        }
        let (from, to) = (&from[at + strip..], &mut to[at + insert.len()..]);
        if behind <= HEAD / 2 {
            *to.first_chunk_mut()? = *from.first_chunk::<{ HEAD / 2 }>()?;
        } else {
            *to.first_chunk_mut()? = *from.first_chunk::<HEAD>()?;
        }
        self.add_head(number, len, rest);
        Some(())
    }

    /// Adds packet `number`, whose head of `len` bytes was written directly after the headroom.
    #[inline(always)]
    fn add_head(&mut self, number: usize, len: usize, rest: VolatileSlice) {
        if !rest.is_empty() {
            self.settle();
        }
        self.is_at_least(Shape::Single);
        (self.start[number], self.head[number]) = (HEADROOM as u16, len as u16);
        (self.rest[number], self.len[number]) = (rest, (len + rest.len()) as u32);
        if self.shape == Shape::Chained {
            self.more[number] = (0, 0);
        }
        self.n += 1;
    }

    /// Adds a frame created by the switch, of at most [`HEAD`] bytes. Returns `false` if it is longer or the burst is
    /// full. A burst must not hold both such frames and packets whose heads are not loaded.
    pub fn push_own(&mut self, frame: &[u8]) -> bool {
        if frame.len() > HEAD || self.n == BURST {
            return false;
        }
        self.settle_rests();
        let i = self.n;
        self.slots.0[i][HEADROOM..HEADROOM + frame.len()].copy_from_slice(frame);
        (self.start[i], self.head[i]) = (HEADROOM as u16, frame.len() as u16);
        (self.rest[i], self.len[i]) = (VolatileSlice::EMPTY, frame.len() as u32);
        self.is_at_least(Shape::Single);
        self.n += 1;
        // All bytes are in the head, so heads must not be loaded again.
        self.heads = self.heads.max(Heads::Loaded);
        true
    }

    /// [`Burst::push_own`] for a frame of any length. Bytes beyond the head stay in `frame`, which must stay alive and
    /// unchanged until the burst was sent.
    pub fn push_lent(&mut self, frame: &[u8]) -> bool {
        let (head, rest) = frame.split_at(frame.len().min(HEAD));
        if rest.is_empty() {
            return self.push_own(head);
        }
        let is_pushed = self.push_derived(head, std::iter::once(VolatileSlice::of_private(rest))).is_some();
        // As for a frame without a rest.
        self.heads = self.heads.max(Heads::Loaded);
        is_pushed
    }
}
