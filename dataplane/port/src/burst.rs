//! Up to 64 packets on their way through one core: the only packet container on the fast path.
//!
//! A burst holds, for each packet, a private copy of its head (the first [`HEAD`] bytes) and the checked
//! segments of the rest, which stay in the source's memory. Pipelines read heads only, and say by edits what is to be changed. A burst is
//! reused for ever and allocates nothing; it must never outlive the maps of its segments, so it keeps them
//! pinned: one map per source, replaced only when that source fills the burst anew.

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

/// Most packets in one burst.
pub const BURST: usize = 64;
/// The places of a full burst, in order: what sends every packet of one.
pub const PLACES: [u8; BURST] = {
    let mut places = [0; BURST];
    let mut i = 0;
    while i < BURST {
        places[i] = i as u8;
        i += 1;
    }
    places
};
/// Bytes of each packet that are copied before it is judged.
pub const HEAD: usize = 128;
/// Room in front of a head for headers that are added.
pub(crate) const HEADROOM: usize = 128;
/// An odd number of lines, so that heads spread over all sets of a cache.
const SLOT: usize = HEADROOM + LONGEST_HEAD;
/// No packet is shorter.
pub(crate) const ETHERNET_HEADER: usize = 14;
/// Bytes in front of a splice that is done without a call.
const FRONT: usize = 16;
/// Longest frame that is sent without a call.
const MOST_SHORT: usize = 64;
/// Longest private head of a packet that was made here.
pub const LONGEST_HEAD: usize = HEAD + 64;
const _: () = assert!(SLOT <= u16::MAX as usize && (SLOT / 64) % 2 == 1);
/// Segments beyond the first, for all packets together, that a new burst has memory for: as many as a burst may hold when
/// [`Burst::has_chain_room`] still returns `true`, the longest legal chain, and those of 64 packets of 64 KiB in pool buffers.
const SPILL: usize = 2 * RECEIVE_PIECES + ring::MAX_PIECES;

#[repr(C, align(64))]
struct Slots([[u8; SLOT]; BURST]);

/// Time in nanoseconds since the engine started, read once per round of a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Now(pub u64);

/// What is known of where all packets of a burst lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Shape {
    /// Each in one segment that was [`Wide`].
    Wide,
    /// Each in one segment.
    Single,
    /// Some may lie in several.
    Chained,
}

/// What is known of the heads of all packets of a burst.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Heads {
    /// They are not loaded.
    Absent,
    /// They are somewhere in their slots.
    Loaded,
    /// They begin where heads are loaded, behind the headroom.
    InPlace,
    /// In addition each packet lies in its head. Then `rest` says nothing.
    Whole,
}

/// Where packets of a burst lie, as a parameter of the functions that write them.
pub(crate) mod layout {
    /// Each lies in its head, where heads are loaded.
    pub(crate) const WHOLE: u8 = 0;
    /// Heads are where they are loaded, and each packet has one piece behind it at most.
    pub(crate) const IN_PLACE: u8 = 1;
    /// Anywhere.
    pub(crate) const ANY: u8 = 2;
}

/// A map that packets of a source lie in, and what lends its buffers if they are the source's own.
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
    /// Whether `offload` says anything: most bursts leave nothing to be done, and then it is neither read nor written.
    offloads: bool,
    offload: [Offload; BURST],
    start: [u16; BURST],
    head: [u16; BURST],
    len: [u32; BURST],
    rest: [VolatileSlice; BURST],
    shape: Shape,
    heads: Heads,
    /// Of no meaning unless packets are [`Shape::Chained`]: most bursts have no packet in several segments, and then this is
    /// not written.
    more: [(u32, u32); BURST],
    spill: Vec<VolatileSlice>,
    buf_ids: [BufId; BURST],
    returned: usize,
    /// Most buffers that are taken.
    limit: usize,
    /// Whether packets are those of another burst ([`Burst::begin_from`]).
    is_made: bool,
    pins: Vec<Option<Pin>>,
    pool_bufs: PoolBufs,
    route: Route,
    meta: Meta,
}

/// Places in a burst for packets of one segment each: lists of the same length.
#[derive(Debug)]
pub struct Places<'a> {
    rest: &'a mut [VolatileSlice],
    len: &'a mut [u32],
    buf_ids: &'a mut [BufId],
    shape: &'a mut Shape,
}

impl Places<'_> {
    /// Fills place `k` with a segment of the pinned map. `false` if there are fewer places.
    #[inline(always)]
    pub fn fill(&mut self, k: usize, buf_id: BufId, frame: Wide) -> bool {
        self.put(k, buf_id, frame.seg())
    }

    /// As [`Places::fill`], for a segment without a margin. Heads of the burst are loaded byte by byte then.
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

/// One packet of a burst: its private head and the rest in the source's memory.
#[derive(Clone, Copy)]
pub struct Frame<'a> {
    /// The first bytes, as the pipeline left them.
    pub head: &'a [u8],
    /// What its source left to be done.
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

/// Zero just where the two are equal. Without a branch, as several are asked for at once.
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
    /// An empty burst. The only allocation of its life.
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

    /// Empties the burst for packets of receive queue number `source` of this worker.
    #[inline]
    pub fn begin(&mut self, source: usize) {
        self.begin_limited(source, BURST);
    }

    /// The same for at most `limit` buffers, from 1 to [`BURST`].
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

    /// Says when it is.
    #[inline(always)]
    pub fn set_now(&mut self, now: Now) {
        self.now = now;
    }

    /// When the burst was begun: the only clock that ports have.
    pub fn now(&self) -> Now {
        self.now
    }

    /// Lets go of every pinned map. Packets still in the burst are gone with them.
    pub fn unpin(&mut self) {
        (self.n, self.returned) = (0, 0);
        self.spill.clear();
        self.pins.fill_with(|| None);
    }

    /// Keeps `map` mapped for as long as this burst may hold segments of it.
    #[inline]
    pub fn pin(&mut self, map: &Arc<GuestMemory>) {
        let pin = &mut self.pins[self.source];
        if pin.as_ref().is_none_or(|old| !Arc::ptr_eq(&old.map, map) || old.lender.is_some()) {
            *pin = Some(Pin { map: map.clone(), lender: None });
        }
    }

    /// The same for a source whose buffers are its own: packets can be retained where they lie.
    #[inline]
    pub(crate) fn pin_own(&mut self, map: &Arc<GuestMemory>, lender: &Lender) {
        let pin = &mut self.pins[self.source];
        if pin.as_ref().is_none_or(|old| !Arc::ptr_eq(&old.map, map) || old.lender.is_none()) {
            *pin = Some(Pin { map: map.clone(), lender: Some(lender.clone()) });
        }
    }

    /// The map of this burst's packets and what lends their buffers, if they are the source's own.
    pub(crate) fn lender(&self) -> Option<(Arc<GuestMemory>, Lender)> {
        let pin = self.pins.get(self.source)?.as_ref()?;
        Some((pin.map.clone(), pin.lender.clone()?))
    }

    /// Whether all of these buffers are to be given back.
    pub(crate) fn holds(&self, ids: &[u16]) -> bool {
        ids.iter().all(|id| self.buf_ids().iter().any(|buf_id| buf_id.id == *id))
    }

    /// These buffers are not to be given back.
    pub(crate) fn take_out(&mut self, ids: &[u16]) {
        let mut to = 0;
        for from in 0..self.returned {
            self.buf_ids[to] = self.buf_ids[from];
            to += usize::from(!ids.contains(&self.buf_ids[from].id));
        }
        self.returned = to;
    }

    /// Lets go of maps that other sources' packets lay in before: a burst that is kept for long must not keep them.
    pub fn keep_own_pin(&mut self) {
        let own = self.source;
        let others = self.pins.iter_mut().enumerate().filter(|(source, _)| *source != own);
        others.for_each(|(_, pin)| *pin = None);
    }

    /// The number given to [`Burst::begin`].
    pub fn source(&self) -> usize {
        self.source
    }

    /// Packets in the burst.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.n
    }

    /// Whether there is no packet.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// Whether there is neither a packet nor anything to be given back: then this burst need not be completed.
    #[inline(always)]
    pub fn is_untouched(&self) -> bool {
        self.n | self.returned == 0
    }

    /// How many more buffers can be taken, where each is a packet.
    #[inline(always)]
    pub fn room(&self) -> usize {
        self.limit.saturating_sub(self.returned)
    }

    /// How many more buffers fit, where several may be one packet: a limit below the longest packet would stop the queue.
    #[inline(always)]
    pub fn buffer_room(&self) -> usize {
        BURST - self.returned
    }

    /// The buffers to give back, in the order they were taken.
    #[inline(always)]
    pub fn buf_ids(&self) -> &[BufId] {
        &self.buf_ids[..self.returned]
    }

    /// Adds a packet that lies in one segment of the pinned map.
    #[inline(always)]
    pub fn push(&mut self, buf_id: BufId, frame: VolatileSlice) {
        let i = self.n;
        self.rest[i] = frame;
        self.len[i] = frame.len() as u32;
        self.n += 1;
        self.is_at_least(Shape::Single);
        self.give_back(buf_id);
    }

    /// Places for more packets of one segment each, for a loop that fills many.
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

    /// The first `n` of [`Burst::places`] were filled. Returns how many bytes they have.
    #[inline(always)]
    pub fn filled(&mut self, n: usize) -> u64 {
        // At most 64 packets of 64 KiB: the sum fits.
        let bytes: u32 = self.len[self.n..][..n].iter().sum();
        self.n += n;
        self.returned += n;
        bytes.into()
    }

    #[inline(always)]
    fn is_at_least(&mut self, shape: Shape) {
        self.shape = self.shape.max(shape);
    }

    /// Adds a packet of which nothing is to be given back: it lies in one segment of the pinned map. `false` when
    /// the burst is full.
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

    /// Takes packets out: from number `from` on those that `keep` refuses. What has to be given back for them stays. `keep`
    /// sees each packet once, under the number that it has from then on if it stays, and the number that it had. Each packet
    /// moves at most once.
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
        // What is pushed next starts with nothing to be done.
        self.offload[to..n].fill(Offload::NONE);
        self.more[to..n].fill((0, 0));
    }

    /// Moves packet `i` to the place of one that is not needed any more.
    fn shift(&mut self, i: usize, to: usize) {
        (self.start[to], self.head[to], self.len[to]) = (self.start[i], self.head[i], self.len[i]);
        (self.rest[to], self.more[to], self.offload[to]) = (self.rest[i], self.more[i], self.offload[i]);
        self.pool_bufs.swap(to, i);
        self.meta.move_notes(i, to);
        if self.heads != Heads::Absent {
            self.slots.0[to] = self.slots.0[i];
        }
    }

    /// Says what is left to be done for packet `i`.
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

    /// What is left to be done for packet `i`.
    #[inline(always)]
    pub fn offload(&self, i: usize) -> Offload {
        if self.offloads { self.offload[i] } else { Offload::NONE }
    }

    /// Whether anything may be left to be done for any packet.
    #[inline(always)]
    pub fn has_offloads(&self) -> bool {
        self.offloads
    }

    /// What an output must be able to do to take every packet as it is.
    #[inline(always)]
    pub fn needs(&self) -> Capabilities {
        if self.offloads { self.needs_of_all() } else { Capabilities::NONE }
    }

    fn needs_of_all(&self) -> Capabilities {
        Capabilities(self.offload[..self.n].iter().fold(0, |needs, offload| needs | offload.needs().0))
    }

    /// Whether a packet in any legal number of segments can be added.
    pub fn has_chain_room(&self) -> bool {
        self.room() > 0 && self.spill.len() <= RECEIVE_PIECES
    }

    /// Most that sending every packet to one output can cost, in units of work.
    #[inline]
    pub fn cost(&self) -> u64 {
        // At most 64 packets of 64 KiB: the sum fits.
        let bytes: u32 = self.len[..self.n].iter().sum();
        work::sending(self.n as u64, bytes.into()) + self.spill.len() as u64 * work::PIECE
    }

    /// What sending packet `i` costs, beside its output.
    pub fn packet_cost(&self, i: usize) -> u64 {
        let (from, to) = self.more(i);
        work::SENT + u64::from(self.len[i]) / work::BYTES + u64::from(to - from) * work::PIECE
    }

    /// What cutting packet `i` into segments costs, in units of work, where that is asked for and has to be done in software.
    pub fn segment_cost(&self, i: usize) -> u64 {
        let offload = self.offload[i];
        let segments = offload.segmentation().map_or(0, |_| self.len[i] as usize / offload.segment().max(1));
        segments as u64 * (work::SEGMENT + work::SENT)
    }

    /// Adds a packet that lies in several segments of the pinned map. The caller has asked
    /// [`Burst::has_chain_room`].
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

    /// Packet `i` also lies in the spilled segments from number `from` on.
    fn set_more(&mut self, i: usize, from: u32) {
        if std::mem::replace(&mut self.shape, Shape::Chained) != Shape::Chained {
            self.more = [(0, 0); BURST];
        }
        self.more[i] = (from, self.spill.len() as u32);
    }

    /// Where the spilled segments of packet `i` are.
    #[inline(always)]
    fn more(&self, i: usize) -> (u32, u32) {
        if self.shape == Shape::Chained { self.more[i] } else { (0, 0) }
    }

    /// Notes a buffer to give back that brought no packet.
    #[inline]
    pub fn give_back(&mut self, buf_id: BufId) {
        self.buf_ids[self.returned] = buf_id;
        self.returned += 1;
    }

    /// Empties the burst for packets that are made of those of `source`, whose memory they go on lying in.
    pub fn begin_from(&mut self, source: &Burst) {
        self.begin(0);
        (self.now, self.heads, self.is_made) = (source.now, Heads::Whole, true);
        match source.pins.get(source.source) {
            Some(Some(pin)) => self.pin(&pin.map),
            _ => self.pins[0] = None,
        }
    }

    /// Adds a packet with a private head of up to [`LONGEST_HEAD`] bytes and the headroom, behind which `rest` follows: segments
    /// of the pinned map. Its number; `None` when the burst is full or the head too long.
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

    /// Takes the last packet out, which was made here.
    pub(crate) fn pop_made(&mut self) {
        self.n -= 1;
    }

    /// Adds packet `i` of `source`, one segment at most behind its head, as an edit without patches leaves it. `None` where
    /// heads or edit are too long for that: then nothing was added.
    #[inline]
    pub(crate) fn push_spliced(&mut self, source: &Burst, i: usize, edit: &crate::Edit) -> Option<usize> {
        let (number, (at, strip, insert)) = (self.n, edit.as_splice()?);
        let (start, head) = (source.start[i] as usize, source.head[i] as usize);
        let len = (head + insert.len()).checked_sub(strip)?;
        if source.shape == Shape::Chained || number == BURST || at + strip > head {
            return None;
        }
        // Heads in place have an Ethernet header at least ([`Burst::alike`]).
        if len.wrapping_sub(ETHERNET_HEADER) > LONGEST_HEAD - ETHERNET_HEADER {
            return None;
        }
        // What lies behind the splice is copied in one piece of fixed length.
        if head - at - strip > HEAD {
            return None;
        }
        // Copies of fixed lengths, from the front on: what one copies too much is overwritten by the next one or lies behind the head.
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

    /// Packet `number`, whose head of `len` bytes stands where heads are loaded, is the next one.
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

    /// Copies every packet's head into the burst. From here on the source cannot change what is validated. A caller that needs
    /// heads earlier than the pipeline does may load them; they are loaded once.
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
        // Maximum and minimum take several instructions of the oldest vector sets, these one or two. `longest` is
        // a power of two.
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
                // SAFETY: each packet lies in this one segment, and the shortest has so many bytes.
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

    /// Notes where heads are that were loaded one by one: in place, if each packet has an Ethernet header.
    fn validate_heads(&mut self) {
        let lens = &self.len[..self.n];
        let (shortest, all) = lens.iter().fold((u32::MAX, 0), |(min, all), &len| (min.min(len), all | len));
        if self.shape == Shape::Single && shortest >= ETHERNET_HEADER as u32 {
            self.heads = if all < HEAD as u32 { Heads::Whole } else { Heads::InPlace };
        }
    }

    /// Heads may be anywhere in their slots from here on.
    #[inline]
    fn settle(&mut self) {
        self.settle_rests();
        self.heads = self.heads.min(Heads::Loaded);
    }

    /// Packets may have more than their heads from here on.
    #[inline]
    fn settle_rests(&mut self) {
        if self.heads == Heads::Whole {
            self.heads = Heads::InPlace;
            self.rest[..self.n].fill(VolatileSlice::EMPTY);
        }
    }

    /// What lies behind the head of packet `i`, but for spilled segments.
    #[inline(always)]
    fn rest(&self, i: usize) -> VolatileSlice {
        if self.is_whole() { VolatileSlice::EMPTY } else { self.rest[i] }
    }

    /// Whether each packet lies in its head, and that where heads are loaded.
    #[inline(always)]
    fn is_whole(&self) -> bool {
        self.heads == Heads::Whole
    }

    /// What [`Burst::write_to`] is told of all packets.
    #[inline(always)]
    pub(crate) fn layout(&self) -> u8 {
        match self.heads {
            Heads::Whole => layout::WHOLE,
            Heads::InPlace if self.shape != Shape::Chained => layout::IN_PLACE,
            _ => layout::ANY,
        }
    }

    /// Leaves every packet wholly where it lies: for pipelines that need no heads. Heads may be loaded still.
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

    /// The head of a packet whose first segment is shorter than a head.
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

    /// The private first bytes of packet `i`.
    #[inline(always)]
    pub fn head(&self, i: usize) -> &[u8] {
        let start = self.start[i] as usize;
        &self.slots.0[i][start..start + self.head[i] as usize]
    }

    /// The first `N` private bytes of packet `i`; `None` if there are fewer.
    #[inline(always)]
    pub fn first<const N: usize>(&self, i: usize) -> Option<&[u8; N]> {
        let start = self.start[i] as usize;
        if (self.head[i] as usize) < N { None } else { self.slots.0[i].get(start..start + N)?.first_chunk() }
    }

    /// How many packets from the front on begin with these bytes, up to the first that does not.
    #[inline(always)]
    pub fn alike<const N: usize>(&self, bytes: &[u8; N]) -> usize {
        if self.heads < Heads::InPlace || N > ETHERNET_HEADER {
            return (0..self.n).take_while(|i| self.first(*i) == Some(bytes)).count();
        }
        // Every frame has an Ethernet header, and all heads are where they were loaded.
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

    /// Bytes of packet `i`, head and rest.
    #[inline(always)]
    pub fn frame_len(&self, i: usize) -> usize {
        self.len[i] as usize
    }

    /// Makes room for `n` bytes in front of packet `i`, their content unspecified. `false` when the headroom is
    /// used up. For sources, as [`Burst::head_mut`] is.
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

    /// Packet `i`, for sending.
    #[inline(always)]
    pub fn frame(&self, i: usize) -> Frame<'_> {
        let (from, to) = self.more(i);
        let more = &self.spill[from as usize..to as usize];
        Frame { head: self.head(i), offload: self.offload(i), rest: self.rest(i), more }
    }

    /// Writes packet `i`, which has `len` bytes, to the front of `to`, as [`Frame::write_to`] does. `LAYOUT`: [`Burst::layout`].
    ///
    /// # Safety
    /// The map that made `to` is alive, `len` is the packet's length, and `to.len()` is at least that.
    #[inline(always)]
    pub(crate) unsafe fn write_to<K: Kernel, const LAYOUT: u8>(
        &self,
        (i, len): (usize, usize),
        to: VolatileSlice,
    ) {
        debug_assert!(len == self.frame_len(i) && (LAYOUT == layout::ANY || LAYOUT == self.layout()));
        // Read once, so that what is compared is known where it is copied.
        let rest = self.rest[i];
        // SAFETY: by contract.
        unsafe {
            match LAYOUT {
                // The shortest frames of Ethernet, which fill a line at most, without a call.
                layout::WHOLE if (MOST_SHORT / 2 + 1..=MOST_SHORT).contains(&len) => {
                    to.copy_in::<K>(&self.slots.0[i][HEADROOM..HEADROOM + len]);
                }
                // Long frames: lengths that the kernel knows beforehand.
                layout::IN_PLACE if self.head[i] as usize == HEAD && rest.len() > 4 * MOST_SHORT => {
                    to.copy_in::<K>(&self.slots.0[i][HEADROOM..HEADROOM + HEAD]);
                    // Head and rest are the packet, so `to` is longer than a head.
                    to.skip(HEAD as u32).copy_from::<K>(rest, rest.len());
                }
                // Wholly where it lies.
                layout::ANY if self.heads == Heads::Absent && self.shape != Shape::Chained => {
                    to.copy_from::<K>(rest, len);
                }
                _ => self.write_long::<K>(i, to),
            }
        }
    }

    /// The same, apart from the loops that send short frames, so that those stay in registers.
    ///
    /// # Safety
    /// As [`Burst::write_to`].
    #[inline(never)]
    unsafe fn write_long<K: Kernel>(&self, i: usize, to: VolatileSlice) {
        // SAFETY: by contract.
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

    /// Fills the burst with a frame of our own, of at most [`HEAD`] bytes.
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
        // Nothing lies elsewhere, so heads are not loaded again.
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

    /// Piece number `k` of the rest, counted with empty ones; `None` behind the last.
    pub(crate) fn piece(&self, k: usize) -> Option<VolatileSlice> {
        if k == 0 { Some(self.rest) } else { self.more.get(k - 1).copied() }
    }

    /// The rest behind the head, in order: pieces of the source's memory, none of them empty.
    pub fn rest(&self) -> impl Iterator<Item = VolatileSlice> {
        std::iter::once(self.rest).chain(self.more.iter().copied()).filter(|seg| !seg.is_empty())
    }

    /// Copies the frame into private memory, as far as it fits. How many bytes there are now.
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

    /// Copies the frame into empty buffers, which have room for it.
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

    /// Copies the frame's last `N` bytes into private memory, and reads nothing else; `None` where it is shorter.
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

    /// The same for a frame whose last bytes lie in several pieces: `false` where it is shorter than `tail`.
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
            // the pieces behind `skip` fill what the head left of `tail` exactly.
            unsafe { piece.copy_out::<K>(&mut tail[at..at + piece.len()]) };
            at += piece.len();
        }
        true
    }

    /// Writes the frame to the front of `to`, which has room for all of it.
    ///
    /// # Safety
    /// The map that made `to` is alive and `to.len()` is at least the frame's length.
    #[inline(always)]
    pub unsafe fn write_to<K: Kernel>(&self, to: VolatileSlice) {
        let (first, mut after) = to.split_at(self.head.len());
        // SAFETY: the destination by contract; our own rest segments are pinned by the burst that lent this frame.
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

    /// Writes the frame over the segments `to`, in order.
    ///
    /// # Safety
    /// The map that made the segments is alive and their lengths add up to at least the frame's.
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
            // SAFETY: the destination by contract; `n` is at most both lengths.
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
                // SAFETY: the destination by contract, the source is pinned; `n` is at most both lengths.
                unsafe { room.copy_from::<K>(from, n) };
                (room, from) = (room.split_at(n).1, from.split_at(n).1);
            }
        }
    }
}
