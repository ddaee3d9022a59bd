//! Up to 64 packets processed together on one core: the only packet container of the fast path.
//!
//! For each packet a burst holds a private copy of its head (the first [`HEAD`] bytes) and the validated segments of
//! the rest, which stay in the source's memory. Pipelines read only heads and describe changes as edits. A burst is
//! reused and does not allocate. It must not outlive the maps of its segments, so it pins them: one map per source,
//! replaced only when that source fills the burst again.

mod generated;
mod meta;
mod pool_bufs;

pub use generated::GeneratedBurst;
pub use meta::{ConnectionState, Notes};
pub use pool_bufs::{Route, TakeRun};

use crate::retain::Lender;
use crate::work::{self, RECEIVE_PIECES};
use crate::{Capabilities, Offload};
use mem::copy::{Kernel, Lines, heads};
use mem::line::LINE;
use mem::pool::Buffer;
use mem::{GuestMemory, VolatileSlice, Wide};
use meta::Meta;
use pool_bufs::PoolBufs;
use ring::BufId;
use std::sync::Arc;

/// Maximum packets in one burst.
pub const BURST: usize = 64;
/// The indices of a full burst, in order. Used to send all packets of a burst.
pub const PLACES: [u8; BURST] = {
    let mut places = [0; BURST];
    let mut i = 0;
    while i < BURST {
        places[i] = i as u8;
        i += 1;
    }
    places
};
/// Bytes of each packet that are copied before validation.
pub const HEAD: usize = 128;
/// Headroom before a head, for added headers.
pub const HEADROOM: usize = 128;
/// Size of a head slot: an odd number of cache lines, so that heads are spread over all sets of a cache.
pub const SLOT: usize = HEADROOM + MAX_HEAD;
/// Minimum packet length.
pub(crate) const ETHERNET_HEADER: usize = 14;
/// Maximum bytes before a splice on the path with fixed-length copies.
const FRONT: usize = 16;
/// Maximum length of a frame that is written without a call.
const MAX_SHORT: usize = 64;
/// Maximum private head of a packet created here.
pub const MAX_HEAD: usize = HEAD + 64;
const _: () = assert!(SLOT <= u16::MAX as usize && (SLOT / 64) % 2 == 1);
/// Capacity in segments beyond the first, for all packets together, of a new burst. Covers the segments for which
/// [`Burst::has_chain_room`] still returns `true` plus the longest legal chain, and those of 64 packets of 64 KiB in
/// pool buffers.
const SPILL: usize = 2 * RECEIVE_PIECES + ring::MAX_PIECES;

#[repr(C, align(64))]
struct Slots([[u8; SLOT]; BURST]);

/// Time in nanoseconds since the engine started, read once per round of a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Now(pub u64);

/// Segment layout that all packets of a burst are known to have. Ordered from simple to general.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Shape {
    /// One segment each, which was [`Wide`].
    Wide,
    /// One segment each.
    Single,
    /// Possibly several segments.
    Chained,
}

/// State of the heads of all packets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Heads {
    /// Not loaded.
    Absent,
    /// Loaded, anywhere in their slots.
    Loaded,
    /// Loaded, starting directly after the headroom.
    InPlace,
    /// As `InPlace`, and each packet is completely in its head. `rest` is not valid then.
    Whole,
}

/// Layout of a burst's packets, a parameter of the functions that write them.
pub(crate) mod layout {
    /// Each packet is completely in its head, directly after the headroom.
    pub(crate) const WHOLE: u8 = 0;
    /// Heads start directly after the headroom, and each packet has at most one segment after its head.
    pub(crate) const IN_PLACE: u8 = 1;
    /// Any layout.
    pub(crate) const ANY: u8 = 2;
}

/// A pinned map of one source, and the lender of its buffers if the source owns them.
#[derive(Clone)]
struct Pin {
    map: Arc<GuestMemory>,
    lender: Option<Lender>,
}

/// Up to [`BURST`] packets of one source.
pub struct Burst {
    slots: Box<Slots>,
    n: usize,
    source: usize,
    now: Now,
    /// Whether `offload` is valid. If false, no packet needs an offload and `offload` is neither read nor written.
    offloads: bool,
    offload: [Offload; BURST],
    start: [u16; BURST],
    head: [u16; BURST],
    len: [u32; BURST],
    rest: [VolatileSlice; BURST],
    shape: Shape,
    heads: Heads,
    /// Valid only for [`Shape::Chained`]. Not written otherwise, because most bursts have no chained packets.
    more: [(u32, u32); BURST],
    spill: Vec<VolatileSlice>,
    buf_ids: [BufId; BURST],
    returned: usize,
    /// Maximum number of buffers to take.
    limit: usize,
    /// Whether the packets are derived from another burst ([`Burst::begin_from`]).
    is_made: bool,
    pins: Vec<Option<Pin>>,
    pool_bufs: PoolBufs,
    route: Route,
    meta: Meta,
}

/// Free slots of a burst for packets of one segment each: slices of equal length.
#[derive(Debug)]
pub struct Places<'a> {
    rest: &'a mut [VolatileSlice],
    len: &'a mut [u32],
    buf_ids: &'a mut [BufId],
    shape: &'a mut Shape,
}

impl Places<'_> {
    /// Fills slot `k` with a segment of the pinned map. Returns `false` if `k` is out of range.
    #[inline(always)]
    pub fn fill(&mut self, k: usize, buf_id: BufId, frame: Wide) -> bool {
        self.put(k, buf_id, frame.seg())
    }

    /// [`Places::fill`] for a segment without a margin. The heads of the burst are then copied one by one, at their
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

/// One packet of a burst: its private head, and the rest in the source's memory.
#[derive(Clone, Copy)]
pub struct Frame<'a> {
    /// Private first bytes.
    pub head: &'a [u8],
    /// Offloads still needed.
    pub offload: Offload,
    rest: VolatileSlice,
    more: &'a [VolatileSlice],
}

impl std::fmt::Debug for Burst {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Burst")
            .field("packets", &self.n)
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

/// Zero if and only if the two are equal. Branch-free, because several results are combined.
#[inline(always)]
fn difference<const N: usize>(a: &[u8; N], b: &[u8; N]) -> u64 {
    let word = |bytes: &[u8; N], at: usize| {
        bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u64::from_ne_bytes(*word))
    };
    let part = |at: usize| word(a, at) ^ word(b, at);
    const { assert!(N >= 8 && N <= 24) };
    part(0) | part(N - 8) | if N > 16 { part(8) } else { 0 }
}

impl Default for Burst {
    fn default() -> Self {
        Self::new()
    }
}

impl Burst {
    /// Creates an empty burst. Allocates the head slots and the list of segments.
    #[expect(clippy::large_stack_arrays, reason = "boxed where it is made")]
    pub fn new() -> Self {
        Self {
            slots: Box::new(Slots([[0; SLOT]; BURST])),
            n: 0,
            source: 0,
            now: Now::default(),
            offloads: false,
            offload: [Offload::NONE; BURST],
            start: [HEADROOM as u16; BURST],
            head: [0; BURST],
            len: [0; BURST],
            rest: [VolatileSlice::EMPTY; BURST],
            shape: Shape::Wide,
            heads: Heads::Absent,
            more: [(0, 0); BURST],
            spill: Vec::with_capacity(SPILL),
            buf_ids: [BufId::default(); BURST],
            returned: 0,
            limit: BURST,
            is_made: false,
            pins: Vec::new(),
            pool_bufs: PoolBufs::default(),
            route: Route::default(),
            meta: Meta::default(),
        }
    }

    /// Clears the burst for packets of this worker's receive queue `source`.
    #[inline]
    pub fn begin(&mut self, source: usize) {
        self.begin_limited(source, BURST);
    }

    /// [`Burst::begin`] with at most `limit` buffers, 1 to [`BURST`].
    #[inline]
    pub fn begin_limited(&mut self, source: usize, limit: usize) {
        debug_assert!((1..=BURST).contains(&limit));
        (self.n, self.returned, self.source, self.limit) = (0, 0, source, limit);
        (self.heads, self.offloads, self.shape, self.is_made) = (Heads::Absent, false, Shape::Wide, false);
        self.spill.clear();
        self.pool_bufs.clear();
        self.meta.clear();
        if self.pins.len() <= source {
            self.pins.resize_with(source + 1, || None);
        }
    }

    /// Sets the time of the burst.
    #[inline(always)]
    pub fn set_now(&mut self, now: Now) {
        self.now = now;
    }

    /// Time at which the burst was started: the only clock of ports.
    pub fn now(&self) -> Now {
        self.now
    }

    /// Unpins all maps and removes the packets in the burst.
    pub fn unpin(&mut self) {
        (self.n, self.returned) = (0, 0);
        self.spill.clear();
        self.pins.fill_with(|| None);
    }

    /// Pins `map`: it stays mapped while this burst may hold segments of it.
    #[inline]
    pub fn pin(&mut self, map: &Arc<GuestMemory>) {
        let pin = &mut self.pins[self.source];
        if pin.as_ref().is_none_or(|old| !Arc::ptr_eq(&old.map, map) || old.lender.is_some()) {
            *pin = Some(Pin { map: map.clone(), lender: None });
        }
    }

    /// [`Burst::pin`] for a source that owns its buffers, so that packets can be retained in place.
    #[inline]
    pub(crate) fn pin_own(&mut self, map: &Arc<GuestMemory>, lender: &Lender) {
        let pin = &mut self.pins[self.source];
        if pin.as_ref().is_none_or(|old| !Arc::ptr_eq(&old.map, map) || old.lender.is_none()) {
            *pin = Some(Pin { map: map.clone(), lender: Some(lender.clone()) });
        }
    }

    /// Map of this burst's packets and lender of their buffers, if the source owns them.
    pub(crate) fn lender(&self) -> Option<(Arc<GuestMemory>, Lender)> {
        let pin = self.pins.get(self.source)?.as_ref()?;
        Some((pin.map.clone(), pin.lender.clone()?))
    }

    /// Whether the burst still has to return all of these buffers.
    pub(crate) fn holds(&self, ids: &[u16]) -> bool {
        ids.iter().all(|id| self.buf_ids().iter().any(|buf_id| buf_id.id == *id))
    }

    /// Removes these buffers from those to return.
    pub(crate) fn take_out(&mut self, ids: &[u16]) {
        let mut to = 0;
        for from in 0..self.returned {
            self.buf_ids[to] = self.buf_ids[from];
            to += usize::from(!ids.contains(&self.buf_ids[from].id));
        }
        self.returned = to;
    }

    /// Unpins the maps of other sources, so that a burst kept for long does not keep them mapped.
    pub fn keep_own_pin(&mut self) {
        let own = self.source;
        let others = self.pins.iter_mut().enumerate().filter(|(source, _)| *source != own);
        others.for_each(|(_, pin)| *pin = None);
    }

    /// Receive queue given to [`Burst::begin`].
    pub fn source(&self) -> usize {
        self.source
    }

    /// Number of packets.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.n
    }

    /// Whether there are no packets.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// Whether there are neither packets nor buffers to return. Such a burst need not be completed.
    #[inline(always)]
    pub fn is_untouched(&self) -> bool {
        self.n | self.returned == 0
    }

    /// Number of further buffers that can be taken if each is a packet.
    #[inline(always)]
    pub fn room(&self) -> usize {
        self.limit.saturating_sub(self.returned)
    }

    /// Number of further buffers that fit if several may form one packet. Ignores the limit, because a limit below
    /// the longest packet would block the queue.
    #[inline(always)]
    pub fn buffer_room(&self) -> usize {
        BURST - self.returned
    }

    /// Buffers to return, in the order in which they were taken.
    #[inline(always)]
    pub fn buf_ids(&self) -> &[BufId] {
        &self.buf_ids[..self.returned]
    }

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
    pub fn places(&mut self) -> Places<'_> {
        let (n, returned, room) = (self.n, self.returned, self.room());
        Places {
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
    fn is_at_least(&mut self, shape: Shape) {
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

    /// Removes the packets from `from` on for which `keep` returns `false`. Their buffers stay in the list to return.
    /// `keep` is called once per packet, with its new index (if kept) and its old one. Each packet moves at most
    /// once.
    pub fn filter(&mut self, from: usize, mut keep: impl FnMut(&mut Self, usize, usize) -> bool) {
        self.settle();
        self.meta.forget_heads();
        let (n, mut to) = (self.n, from);
        for i in from..n {
            if to < i {
                self.shift(i, to);
            }
            to += usize::from(keep(self, to, i));
        }
        self.pool_bufs.truncate(to);
        self.meta.truncate(to);
        self.n = to;
        // Packets pushed next start without offloads.
        self.offload[to..n].fill(Offload::NONE);
        self.more[to..n].fill((0, 0));
    }

    /// Moves packet `i` to the slot of a removed packet.
    fn shift(&mut self, i: usize, to: usize) {
        (self.start[to], self.head[to], self.len[to]) = (self.start[i], self.head[i], self.len[i]);
        (self.rest[to], self.more[to], self.offload[to]) = (self.rest[i], self.more[i], self.offload[i]);
        self.pool_bufs.swap(to, i);
        self.meta.move_notes(i, to);
        if self.heads != Heads::Absent {
            self.slots.0[to] = self.slots.0[i];
        }
    }

    /// Sets the offloads that packet `i` still needs.
    #[inline(always)]
    pub fn set_offload(&mut self, i: usize, offload: Offload) {
        if !self.offloads {
            if offload == Offload::NONE {
                return;
            }
            (self.offloads, self.offload) = (true, [Offload::NONE; BURST]);
        }
        self.offload[i] = offload;
    }

    /// Offloads that packet `i` still needs.
    #[inline(always)]
    pub fn offload(&self, i: usize) -> Offload {
        if self.offloads { self.offload[i] } else { Offload::NONE }
    }

    /// Whether any packet may need an offload.
    #[inline(always)]
    pub fn has_offloads(&self) -> bool {
        self.offloads
    }

    /// Capabilities that an output needs to accept every packet unchanged.
    #[inline(always)]
    pub fn needs(&self) -> Capabilities {
        if self.offloads { self.needs_of_all() } else { Capabilities::NONE }
    }

    fn needs_of_all(&self) -> Capabilities {
        Capabilities(self.offload[..self.n].iter().fold(0, |needs, offload| needs | offload.needs().0))
    }

    /// Whether a packet with any legal number of segments can be added.
    pub fn has_chain_room(&self) -> bool {
        self.room() > 0 && self.spill.len() <= RECEIVE_PIECES
    }

    /// Upper bound on the cost of sending every packet to one output, in work units.
    #[inline]
    pub fn cost(&self) -> u64 {
        // No overflow: at most 64 packets of 64 KiB.
        let bytes: u32 = self.len[..self.n].iter().sum();
        work::sending(self.n as u64, bytes.into()) + self.spill.len() as u64 * work::PIECE
    }

    /// Cost of sending packet `i`, without the cost of its output.
    pub fn packet_cost(&self, i: usize) -> u64 {
        let (from, to) = self.more(i);
        work::SENT + u64::from(self.len[i]) / work::BYTES + u64::from(to - from) * work::PIECE
    }

    /// Cost in work units of segmenting packet `i` in software; 0 if it needs no segmentation.
    pub fn segment_cost(&self, i: usize) -> u64 {
        let offload = self.offload[i];
        let segments = offload.segmentation().map_or(0, |_| self.len[i] as usize / offload.segment().max(1));
        segments as u64 * (work::SEGMENT + work::SENT)
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
    fn set_more(&mut self, i: usize, from: u32) {
        if std::mem::replace(&mut self.shape, Shape::Chained) != Shape::Chained {
            self.more = [(0, 0); BURST];
        }
        self.more[i] = (from, self.spill.len() as u32);
    }

    /// Range of the spilled segments of packet `i`.
    #[inline(always)]
    fn more(&self, i: usize) -> (u32, u32) {
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
        (self.now, self.heads, self.is_made) = (source.now, Heads::Whole, true);
        match source.pins.get(source.source) {
            Some(Some(pin)) => self.pin(&pin.map),
            _ => self.pins[0] = None,
        }
    }

    /// Adds a packet with the private head `head`, of at most [`MAX_HEAD`] bytes plus the headroom, and the
    /// segments `rest` of the pinned map. Returns its index, or `None` if the burst is full or the head too long.
    #[inline]
    pub fn push_made(&mut self, head: &[u8], rest: impl Iterator<Item = VolatileSlice>) -> Option<usize> {
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

    /// Removes the last packet, which must have been created here.
    pub(crate) fn pop_made(&mut self) {
        self.n -= 1;
    }

    /// Adds packet `i` of `source`, with at most one segment after its head, as changed by an edit without patches.
    /// Returns `None` and adds nothing if the head or the edit is not supported by this fast path.
    #[inline]
    pub(crate) fn push_spliced(&mut self, source: &Burst, i: usize, edit: &crate::Edit) -> Option<usize> {
        let (number, (at, strip, insert)) = (self.n, edit.as_splice()?);
        let (start, head) = (source.start[i] as usize, source.head[i] as usize);
        let len = (head + insert.len()).checked_sub(strip)?;
        if source.shape == Shape::Chained || number == BURST || at + strip > head {
            return None;
        }
        // [`Burst::alike`] requires that heads in place hold at least an Ethernet header.
        if len.wrapping_sub(ETHERNET_HEADER) > MAX_HEAD - ETHERNET_HEADER {
            return None;
        }
        // The head after the splice is copied with one fixed length.
        if head - at - strip > HEAD {
            return None;
        }
        // Fixed-length copies, front to back: excess bytes are overwritten by the next copy or are beyond the head.
        let slot = &source.slots.0[i];
        let front = slot.get(start..)?.first_chunk::<FRONT>()?;
        let behind = slot.get(start + at + strip..)?.first_chunk::<HEAD>()?;
        let to = &mut self.slots.0[number][HEADROOM..];
        if at > FRONT || at + insert.len() + HEAD > to.len() {
            return None;
        }
        *to.first_chunk_mut()? = *front;
        match insert.first_chunk::<4>() {
            Some(tag) if insert.len() == 4 => *to[at..].first_chunk_mut()? = *tag,
            _ => to[at..at + insert.len()].copy_from_slice(insert),
        }
        *to[at + insert.len()..].first_chunk_mut()? = *behind;
        self.add_head(number, len, source.rest(i));
        Some(number)
    }

    /// Adds packet `number`, whose head of `len` bytes was written directly after the headroom.
    #[inline]
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

    /// Copies every packet's head into the burst. Afterwards the source cannot change validated bytes. Callers that
    /// need heads earlier than the pipeline may call it; heads are loaded only once.
    #[inline]
    pub fn load_heads<K: Kernel>(&mut self) {
        if self.heads != Heads::Absent {
            return;
        }
        self.heads = Heads::Loaded;
        let n = self.n;
        if self.shape != Shape::Wide {
            (0..n).for_each(|i| self.load_head::<K>(i));
            return self.validate_heads();
        }
        let lens = &self.len[..n];
        // Minimum and maximum take several instructions on the baseline vector extension, these expressions one or
        // two. `longest` must be a power of two.
        let fit = |longest: usize| lens.iter().fold(0, |all, len| all | len.wrapping_sub(1)) < longest as u32;
        let exceed = |most: usize| {
            lens.iter().fold(-1, |all, len| all & (most as u32).wrapping_sub(*len).cast_signed()) < 0
        };
        let are_short = fit(LINE);
        let are_long = !are_short && exceed(HEAD - 1);
        let lines = match are_short {
            true => Lines::One,
            false if are_long || exceed(LINE) => Lines::Two,
            false => Lines::Own,
        };
        // SAFETY: the segments belong to the map pinned for this source, and all of them were wide.
        unsafe { heads::<K, SLOT>(&mut self.slots.0[..n], HEADROOM, &self.rest[..n], lines) };
        self.start[..n].fill(HEADROOM as u16);
        self.heads = Heads::InPlace;
        if are_long {
            self.head[..n].fill(HEAD as u16);
            for rest in &mut self.rest[..n] {
                // SAFETY: each packet consists of this one segment, and the shortest has at least `HEAD` bytes.
                *rest = unsafe { rest.skip(HEAD as u32) };
            }
            return;
        }
        if are_short || fit(HEAD) {
            self.heads = Heads::Whole;
            return self.head[..n].iter_mut().zip(lens).for_each(|(head, len)| *head = *len as u16);
        }
        for ((rest, head), len) in self.rest[..n].iter_mut().zip(&mut self.head).zip(&self.len) {
            let first = (*len as usize).min(HEAD);
            *head = first as u16;
            *rest = rest.split_at(first).1;
        }
    }

    /// Updates the state of heads that were loaded individually: in place if each packet has an Ethernet header.
    fn validate_heads(&mut self) {
        let lens = &self.len[..self.n];
        let (shortest, all) = lens.iter().fold((u32::MAX, 0), |(min, all), &len| (min.min(len), all | len));
        if self.shape == Shape::Single && shortest >= ETHERNET_HEADER as u32 {
            self.heads = if all < HEAD as u32 { Heads::Whole } else { Heads::InPlace };
        }
    }

    /// Allows heads at any position in their slots from now on.
    #[inline]
    fn settle(&mut self) {
        self.settle_rests();
        self.heads = self.heads.min(Heads::Loaded);
    }

    /// Allows packets with more than their heads from now on.
    #[inline]
    fn settle_rests(&mut self) {
        if self.heads == Heads::Whole {
            self.heads = Heads::InPlace;
            self.rest[..self.n].fill(VolatileSlice::EMPTY);
        }
    }

    /// Segment after the head of packet `i`, without spilled segments.
    #[inline(always)]
    fn rest(&self, i: usize) -> VolatileSlice {
        if self.is_whole() { VolatileSlice::EMPTY } else { self.rest[i] }
    }

    /// Whether each packet is completely in its head, directly after the headroom.
    #[inline(always)]
    fn is_whole(&self) -> bool {
        self.heads == Heads::Whole
    }

    /// Layout of all packets, for [`Burst::write_to`].
    #[inline(always)]
    pub(crate) fn layout(&self) -> u8 {
        match self.heads {
            Heads::Whole => layout::WHOLE,
            Heads::InPlace if self.shape != Shape::Chained => layout::IN_PLACE,
            _ => layout::ANY,
        }
    }

    /// Leaves every packet in the source's memory, for pipelines that need no heads. Heads can still be loaded.
    #[inline]
    pub fn leave_heads(&mut self) {
        if self.heads == Heads::Absent {
            self.head[..self.n].fill(0);
        }
    }

    #[inline(always)]
    fn load_head<K: Kernel>(&mut self, i: usize) {
        let (first, rest) = self.rest[i].split_at(HEAD);
        let slot = &mut self.slots.0[i][HEADROOM..HEADROOM + first.len()];
        // SAFETY: the segment belongs to the map pinned for this source, and the slice has its length.
        unsafe { first.copy_out::<K>(slot) };
        self.rest[i] = rest;
        (self.start[i], self.head[i]) = (HEADROOM as u16, first.len() as u16);
        let (at, end) = self.more(i);
        if at != end && first.len() < HEAD {
            self.load_scattered_head::<K>(i);
        }
    }

    /// Loads the rest of a head whose first segment is shorter than a head.
    #[cold]
    fn load_scattered_head<K: Kernel>(&mut self, i: usize) {
        let (mut at, end) = self.more[i];
        let mut have = self.head[i] as usize;
        while at < end && have < HEAD {
            let (first, rest) = self.spill[at as usize].split_at(HEAD - have);
            let slot = &mut self.slots.0[i][HEADROOM + have..HEADROOM + have + first.len()];
            // SAFETY: as in `load_head`.
            unsafe { first.copy_out::<K>(slot) };
            have += first.len();
            self.rest[i] = rest;
            at += 1;
        }
        self.more[i].0 = at;
        self.head[i] = have as u16;
    }

    /// Private head of packet `i`.
    #[inline(always)]
    pub fn head(&self, i: usize) -> &[u8] {
        let start = self.start[i] as usize;
        &self.slots.0[i][start..start + self.head[i] as usize]
    }

    /// First `N` bytes of the private head of packet `i`. Returns `None` if it is shorter.
    #[inline(always)]
    pub fn first<const N: usize>(&self, i: usize) -> Option<&[u8; N]> {
        let start = self.start[i] as usize;
        if (self.head[i] as usize) < N { None } else { self.slots.0[i].get(start..start + N)?.first_chunk() }
    }

    /// Number of leading packets that start with these bytes.
    #[inline(always)]
    pub fn alike<const N: usize>(&self, bytes: &[u8; N]) -> usize {
        if self.heads < Heads::InPlace || N > ETHERNET_HEADER {
            return (0..self.n).take_while(|i| self.first(*i) == Some(bytes)).count();
        }
        // Every frame has an Ethernet header, and all heads start directly after the headroom.
        let slots = &self.slots.0[..self.n];
        let differ =
            |slot: &[u8; SLOT]| slot[HEADROOM..].first_chunk().map_or(1, |head| difference(head, bytes));
        let (fours, _) = slots.as_chunks::<4>();
        let are_alike = |four: &&[[u8; SLOT]; 4]| four.iter().fold(0, |all, slot| all | differ(slot)) == 0;
        let sure = 4 * fours.iter().take_while(are_alike).count();
        sure + slots[sure..].iter().take_while(|slot| differ(slot) == 0).count()
    }

    /// The private first bytes of packet `i`, for the port that receives or completes the packet. Pipelines have no access: a
    /// packet that goes to another stage leaves in the form in which it was received, and other outputs read the same head.
    #[inline(always)]
    pub(crate) fn head_mut(&mut self, i: usize) -> &mut [u8] {
        let start = self.start[i] as usize;
        &mut self.slots.0[i][start..start + self.head[i] as usize]
    }

    /// Length of packet `i`, head and rest.
    #[inline(always)]
    pub fn frame_len(&self, i: usize) -> usize {
        self.len[i] as usize
    }

    /// Adds `n` bytes with unspecified content before packet `i`. Returns `false` if the headroom is exhausted. Only
    /// for sources, like [`Burst::head_mut`].
    pub(crate) fn grow_head(&mut self, i: usize, n: usize) -> bool {
        if n > self.start[i] as usize {
            return false;
        }
        let len = self.frame_len(i) + n;
        let Ok(offload) = self.offload(i).spliced((0, 0, n), len) else { return false };
        self.settle();
        self.start[i] -= n as u16;
        self.head[i] += n as u16;
        self.len[i] = len as u32;
        self.set_offload(i, offload);
        true
    }

    /// Packet `i`, for transmission.
    #[inline(always)]
    pub fn frame(&self, i: usize) -> Frame<'_> {
        let (from, to) = self.more(i);
        let more = &self.spill[from as usize..to as usize];
        Frame { head: self.head(i), offload: self.offload(i), rest: self.rest(i), more }
    }

    /// Writes packet `i` of `len` bytes to the start of `to`, like [`Frame::write_to`]. `LAYOUT` is
    /// [`Burst::layout`].
    ///
    /// # Safety
    /// The map of `to` is alive, `len` is the packet's length, and `to.len()` is at least `len`.
    #[inline(always)]
    pub(crate) unsafe fn write_to<K: Kernel, const LAYOUT: u8>(
        &self,
        (i, len): (usize, usize),
        to: VolatileSlice,
    ) {
        debug_assert!(len == self.frame_len(i) && (LAYOUT == layout::ANY || LAYOUT == self.layout()));
        // Loaded once, so that the compiler reuses the compared value for the copy.
        let rest = self.rest[i];
        // SAFETY: the contract of this function.
        unsafe {
            match LAYOUT {
                // The shortest Ethernet frames, which fill at most one line, without a call.
                layout::WHOLE if (MAX_SHORT / 2 + 1..=MAX_SHORT).contains(&len) => {
                    to.copy_in::<K>(&self.slots.0[i][HEADROOM..HEADROOM + len]);
                }
                // Long frames, whose head length is known at compile time.
                layout::IN_PLACE if self.head[i] as usize == HEAD && rest.len() > 4 * MAX_SHORT => {
                    to.copy_in::<K>(&self.slots.0[i][HEADROOM..HEADROOM + HEAD]);
                    // Head and rest form the packet, so `to` is longer than a head.
                    to.skip(HEAD as u32).copy_from::<K>(rest, rest.len());
                }
                // Completely in the source's memory.
                layout::ANY if self.heads == Heads::Absent && self.shape != Shape::Chained => {
                    to.copy_from::<K>(rest, len);
                }
                _ => self.write_long::<K>(i, to),
            }
        }
    }

    /// [`Burst::write_to`] for the other cases. Not inlined, so that the loops for short frames keep their values in
    /// registers.
    ///
    /// # Safety
    /// As for [`Burst::write_to`].
    #[inline(never)]
    unsafe fn write_long<K: Kernel>(&self, i: usize, to: VolatileSlice) {
        // SAFETY: the contract of this function.
        unsafe {
            if self.shape == Shape::Chained {
                return self.frame(i).write_to::<K>(to);
            }
            let (i, head) = (i % BURST, self.head[i % BURST] as usize);
            to.copy_in::<K>(self.head(i));
            let rest = self.rest(i);
            if !rest.is_empty() {
                to.split_at(head).1.copy_from::<K>(rest, rest.len());
            }
        }
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
}

impl Frame<'_> {
    /// Whether the whole frame is in the private head.
    #[inline(always)]
    pub fn is_head_only(&self) -> bool {
        self.rest.is_empty() && self.more.is_empty()
    }

    /// Segment `k` of the rest, including empty ones. Returns `None` after the last.
    pub(crate) fn piece(&self, k: usize) -> Option<VolatileSlice> {
        if k == 0 { Some(self.rest) } else { self.more.get(k - 1).copied() }
    }

    /// Non-empty segments after the head, in order, in the source's memory.
    pub fn rest(&self) -> impl Iterator<Item = VolatileSlice> {
        std::iter::once(self.rest).chain(self.more.iter().copied()).filter(|seg| !seg.is_empty())
    }

    /// Copies the frame to private memory, as far as it fits. Returns the number of bytes copied.
    pub fn copy_to<K: Kernel>(&self, to: &mut [u8]) -> usize {
        let mut at = self.head.len().min(to.len());
        to[..at].copy_from_slice(&self.head[..at]);
        for seg in self.rest() {
            let piece = seg.split_at(to.len() - at).0;
            // SAFETY: the segment is pinned by the burst that lent this frame; the slice has the piece's length.
            unsafe { piece.copy_out::<K>(&mut to[at..at + piece.len()]) };
            at += piece.len();
        }
        at
    }

    /// Copies the frame to empty buffers, which must have enough space.
    pub(crate) fn copy_into<K: Kernel>(&self, buffers: &mut [Buffer]) {
        let (mut head, mut rest) = (self.head, self.rest());
        let mut seg = VolatileSlice::EMPTY;
        for buffer in buffers {
            while buffer.tailroom() > 0 {
                if head.is_empty() && seg.is_empty() {
                    let Some(next) = rest.next() else { return };
                    seg = next;
                }
                let n = buffer.tailroom().min(if head.is_empty() { seg.len() } else { head.len() });
                let Some(to) = buffer.append(n) else { return };
                if head.is_empty() {
                    // SAFETY: the segment is pinned by the burst that lent this frame; `n` is at most its length.
                    unsafe { seg.split_at(n).0.copy_out::<K>(to) };
                    seg = seg.split_at(n).1;
                } else {
                    to.copy_from_slice(&head[..n]);
                    head = &head[n..];
                }
            }
        }
    }

    /// Copies only the last `N` bytes of the frame to private memory. Returns `None` if the frame is shorter.
    #[inline]
    pub fn tail<K: Kernel, const N: usize>(&self) -> Option<[u8; N]> {
        let mut tail = [0; N];
        if self.more.is_empty() && self.rest.len() >= N {
            let last = self.rest.split_at(self.rest.len() - N).1;
            // SAFETY: the segment is pinned by the burst that lent this frame; both have `N` bytes.
            unsafe { last.copy_out::<K>(&mut tail) };
            return Some(tail);
        }
        if self.is_head_only() {
            return self.head.last_chunk().copied();
        }
        self.scattered_tail::<K>(&mut tail).then_some(tail)
    }

    /// [`Frame::tail`] for a tail in several segments. Returns `false` if the frame is shorter than `tail`.
    fn scattered_tail<K: Kernel>(&self, tail: &mut [u8]) -> bool {
        let bytes = self.head.len() + self.rest().map(VolatileSlice::len).sum::<usize>();
        let Some(mut skip) = bytes.checked_sub(tail.len()) else { return false };
        let from_head = self.head.get(skip..).unwrap_or_default();
        tail[..from_head.len()].copy_from_slice(from_head);
        let mut at = from_head.len();
        skip = skip.saturating_sub(self.head.len());
        for seg in self.rest() {
            let piece = seg.split_at(skip).1;
            skip = skip.saturating_sub(seg.len());
            // SAFETY: the segment is pinned by the burst that lent this frame; the slice has the piece's length, and
            // the segments after `skip` fill exactly the part of `tail` that the head left.
            unsafe { piece.copy_out::<K>(&mut tail[at..at + piece.len()]) };
            at += piece.len();
        }
        true
    }

    /// Writes the frame to the start of `to`.
    ///
    /// # Safety
    /// The map of `to` is alive, and `to.len()` is at least the frame's length.
    #[inline(always)]
    pub unsafe fn write_to<K: Kernel>(&self, to: VolatileSlice) {
        let (first, mut after) = to.split_at(self.head.len());
        // SAFETY: the destination is valid by contract; the source segments are pinned by the burst that lent this
        // frame.
        unsafe {
            first.copy_in::<K>(self.head);
            if !self.rest.is_empty() {
                after.copy_from::<K>(self.rest, self.rest.len());
                after = after.split_at(self.rest.len()).1;
            }
            for seg in self.more {
                after.copy_from::<K>(*seg, seg.len());
                after = after.split_at(seg.len()).1;
            }
        }
    }

    /// Writes the frame to the segments `to`, in order.
    ///
    /// # Safety
    /// The map of the segments is alive, and their total length is at least the frame's.
    pub unsafe fn scatter_to<K: Kernel>(&self, to: impl Iterator<Item = VolatileSlice>) {
        let mut to = to;
        let mut room = VolatileSlice::EMPTY;
        let mut from_head = self.head;
        while !from_head.is_empty() {
            if room.is_empty() {
                let Some(next) = to.next() else { return };
                room = next;
            }
            let n = from_head.len().min(room.len());
            // SAFETY: the destination is valid by contract; `n` is at most both lengths.
            unsafe { room.copy_in::<K>(&from_head[..n]) };
            (room, from_head) = (room.split_at(n).1, &from_head[n..]);
        }
        for mut from in std::iter::once(self.rest).chain(self.more.iter().copied()) {
            while !from.is_empty() {
                if room.is_empty() {
                    let Some(next) = to.next() else { return };
                    room = next;
                }
                let n = from.len().min(room.len());
                // SAFETY: the destination is valid by contract and the source is pinned; `n` is at most both lengths.
                unsafe { room.copy_from::<K>(from, n) };
                (room, from) = (room.split_at(n).1, from.split_at(n).1);
            }
        }
    }
}
