//! Up to 64 packets processed together on one core: the only packet container of the fast path.
//!
//! For each packet a burst holds a private copy of its head (the first [`HEAD`] bytes) and the validated segments of
//! the rest, which stay in the source's memory. Pipelines read only heads and describe changes as edits. A burst is
//! reused and does not allocate. It must not outlive the maps of its segments, so it pins them: one map per source,
//! replaced only when that source fills the burst again.

mod frame;
mod generated;
mod heads;
pub(crate) mod layout;
mod meta;
mod offloads;
mod pins;
mod pool_bufs;
mod push;

pub use frame::Frame;
pub(crate) use frame::sum_of;
pub use generated::GeneratedBurst;
pub use meta::{ConnectionState, Notes};
pub use pool_bufs::{Route, TakeRun};
pub(crate) use push::FreeSlots;

use crate::Offload;
use crate::work::RECEIVE_PIECES;
use mem::VolatileSlice;
use meta::Meta;
use pins::Pin;
use pool_bufs::PoolBufs;
use ring::BufId;

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
    is_derived: bool,
    pins: Vec<Option<Pin>>,
    pool_bufs: PoolBufs,
    route: Route,
    meta: Meta,
}

impl std::fmt::Debug for Burst {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Burst")
            .field("packets", &self.n)
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
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
            is_derived: false,
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
        (self.heads, self.offloads, self.shape, self.is_derived) = (Heads::Absent, false, Shape::Wide, false);
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

    /// Whether a packet with any legal number of segments can be added.
    pub fn has_chain_room(&self) -> bool {
        self.room() > 0 && self.spill.len() <= RECEIVE_PIECES
    }

    /// Length of packet `i`, head and rest.
    #[inline(always)]
    pub fn frame_len(&self, i: usize) -> usize {
        self.len[i] as usize
    }
}
