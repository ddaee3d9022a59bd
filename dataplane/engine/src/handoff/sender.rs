//! Sender of a handoff queue.
//!
//! If the ring has room for all packets of a burst and each fits in one buffer, they go directly into the ring and
//! are published together. All other packets are first staged in private memory and then published: one unit at a
//! time, and whole packets only, because a receiver that sees the first entry of a packet expects the others. With
//! backpressure, packets are also staged when the ring is full and published when there is room; nothing else is
//! received until all of them are published.

use super::backlog::Backlog;
use super::doorbell::Doorbell;
use super::entry::HandoffEntry;
use super::sizes::HEADROOM;
use super::{DATA, store};
use mem::copy::{Choice, Kernel};
use mem::pool::{Buffer, Cache};
use port::{Burst, BurstStats, DropReason, Route};
use ring::spsc::Producer;
use std::collections::VecDeque;
use std::iter::from_fn;
use std::sync::Arc;

/// Maximum number of entries of one packet: the longest frame of any port has 65,550 bytes.
const MAX_ENTRIES: usize = 65_550_usize.div_ceil(DATA);

/// Sends packets to the next stage.
pub(crate) struct Sender {
    ring: Producer<HandoffEntry>,
    /// Entries not published yet.
    staged: VecDeque<HandoffEntry>,
    /// Buffers of a long packet while it is being copied; empty otherwise.
    fresh: Vec<Buffer>,
    /// Number of staged entries that are published at once; 0 publishes after all packets of a burst.
    unit: usize,
    /// Whether more entries may be staged than the ring has room for.
    holds: bool,
    backlog: Backlog,
    doorbell: Arc<Doorbell>,
    /// Whether anything was published since the receiver was last notified.
    rings: bool,
}

impl Sender {
    pub(super) fn new(
        ring: Producer<HandoffEntry>,
        doorbell: Arc<Doorbell>,
        unit: usize,
        holds: bool,
    ) -> Self {
        let staged = VecDeque::with_capacity(ring.capacity());
        let (fresh, backlog) = (Vec::with_capacity(MAX_ENTRIES), Backlog::new());
        Self { ring, staged, fresh, unit, holds, backlog, doorbell, rings: false }
    }

    /// Free entries beyond the staged ones. If fewer than `wanted` are known to be free, the consumer's position is
    /// read again.
    #[inline]
    pub(super) fn room(&mut self, wanted: usize) -> usize {
        self.ring.room(wanted.saturating_add(self.staged.len())).saturating_sub(self.staged.len())
    }

    /// Whether that many entries fit, and the backlog of work in front of them is short.
    #[inline]
    pub(super) fn is_open(&mut self, entries: usize) -> bool {
        self.room(entries) >= entries && !(self.backlog.is_long() && self.is_busy())
    }

    /// Whether the backlog is long after reading the receiver's position.
    #[cold]
    fn is_busy(&mut self) -> bool {
        let waiting = self.ring.capacity() - self.ring.room(usize::MAX);
        self.backlog.take(self.ring.appended().wrapping_sub(waiting));
        self.backlog.is_long()
    }

    /// Records that the packets sent last cost `work` units behind the handoff queue, beyond forwarding.
    #[cold]
    pub(super) fn add_debt(&mut self, work: u64) {
        self.backlog.add(self.ring.appended().wrapping_add(self.staged.len()), work);
    }

    /// Whether entries are staged but not published.
    pub(super) fn has_staged(&self) -> bool {
        !self.staged.is_empty()
    }

    /// Number of entries not published yet.
    #[cfg(all(test, not(loom)))]
    pub(super) fn staged(&self) -> usize {
        self.staged.len()
    }

    /// Ring capacity.
    #[cfg(all(test, not(loom)))]
    pub(super) fn capacity(&self) -> usize {
        self.ring.capacity()
    }

    /// Sends packets. With `alone`, there is no other destination, so the buffers may be handed over. Packets without
    /// room are counted as dropped. Sent packets are not counted, because they have not left the switch.
    pub(super) fn send(
        &mut self,
        kernel: Choice,
        (burst, indices): (&Burst, &[u8]),
        (route, alone): (Route, bool),
        stats: &mut BurstStats,
    ) {
        let sent =
            store::with(|cache| self.send_from(cache, kernel, (burst, indices), (route, alone), stats));
        if sent.is_none() {
            stats.drop(DropReason::HandoffFull, indices.len() as u64);
        }
    }

    /// [`Sender::send`] with buffers of this cache. Returns the number of packets sent.
    pub(super) fn send_from(
        &mut self,
        cache: &mut Cache,
        kernel: Choice,
        (burst, indices): (&Burst, &[u8]),
        (route, alone): (Route, bool),
        stats: &mut BurstStats,
    ) -> usize {
        let sent = mem::with_kernel!(kernel, K => {
            let to = (route, alone);
            let (sent, later) = self.send_directly::<K>(cache, burst, indices, to);
            if later.is_empty() { sent } else { sent + self.send_by::<K>(cache, (burst, later), to, |_, _| ()) }
        });
        stats.drop(DropReason::HandoffFull, (indices.len() - sent) as u64);
        if self.unit == 0 {
            self.publish();
        }
        sent
    }

    /// [`Sender::send`], which tells `each` packet as [`Sender::send_by`] does.
    #[cold]
    pub(super) fn send_watched(
        &mut self,
        kernel: Choice,
        packets: (&Burst, &[u8]),
        to: (Route, bool),
        stats: &mut BurstStats,
        each: impl FnMut(u8, Option<usize>),
    ) {
        let sent =
            store::with(|cache| mem::with_kernel!(kernel, K => self.send_by::<K>(cache, packets, to, each)));
        stats.drop(DropReason::HandoffFull, (packets.1.len() - sent.unwrap_or(0)) as u64);
        if self.unit == 0 {
            self.publish();
        }
    }

    /// Sends packets directly into the ring, up to the first that needs more than one buffer, if there is room for
    /// all. Returns how many, and the packets left.
    #[inline(always)]
    fn send_directly<'a, K: Kernel>(
        &mut self,
        cache: &mut Cache,
        burst: &Burst,
        indices: &'a [u8],
        (route, alone): (Route, bool),
    ) -> (usize, &'a [u8]) {
        let waits = self.unit > 0 || !self.staged.is_empty();
        if waits || self.ring.room(indices.len()) < indices.len() {
            return (0, indices);
        }
        let mut left = indices;
        let sent = if alone && burst.has_buffers() {
            let run = burst.take_run(&mut left);
            self.ring
                .push_all(&mut run.map(|(i, buffer)| HandoffEntry::new(buffer, burst.offload(i), route, 0)))
        } else {
            let copies = from_fn(|| next_copy::<K>(cache, burst, &mut left));
            self.ring.push_all(
                &mut copies.map(|(i, buffer)| HandoffEntry::new(buffer, burst.offload(i), route, 0)),
            )
        };
        self.rings |= sent > 0;
        (sent, left)
    }

    /// Stages packets. Tells `each` the index and the first buffer before the receiver may have it; `None`: it had no
    /// room. Returns how many had room.
    #[cold]
    fn send_by<K: Kernel>(
        &mut self,
        cache: &mut Cache,
        (burst, indices): (&Burst, &[u8]),
        to: (Route, bool),
        mut each: impl FnMut(u8, Option<usize>),
    ) -> usize {
        let mut room = if self.holds { usize::MAX } else { self.room(indices.len()) };
        let mut sent = 0;
        for &index in indices {
            let at = self.staged.len();
            let is_staged = self.stage::<K>(cache, (burst, index.into()), to, &mut room);
            each(index, self.staged.get(at).map(|entry| entry.buffer.id()));
            sent += usize::from(is_staged);
            if self.unit > 0 && self.staged.len() >= self.unit {
                self.publish();
            }
        }
        sent
    }

    /// Stages packet `i` if it has `room`, which is reduced. Returns whether it was staged.
    #[inline]
    fn stage<K: Kernel>(
        &mut self,
        cache: &mut Cache,
        (burst, i): (&Burst, usize),
        (route, alone): (Route, bool),
        room: &mut usize,
    ) -> bool {
        // A packet that a pipeline lists twice is sent once: its buffer is already handed over.
        let Some(there) = burst.pool_bufs(i) else { return false };
        let there = if alone { there } else { 0 };
        let entries = if there > 0 { there } else { burst.frame_len(i).div_ceil(DATA).max(1) };
        if entries > *room {
            // The known position of the receiver may be outdated.
            *room = self.room(entries);
            if entries > *room {
                return false;
            }
        }
        let loaded = match there {
            0 => self.load::<K>(cache, burst, i, route, entries),
            _ => self.pass_on(burst, i, route, entries),
        };
        if loaded {
            *room -= entries;
        }
        loaded
    }

    /// Moves packet `i` and its buffers out of the burst.
    #[inline]
    fn pass_on(&mut self, burst: &Burst, i: usize, route: Route, entries: usize) -> bool {
        let (staged, offload, mut left) = (&mut self.staged, burst.offload(i), entries as u16);
        burst.take_buffers(i, |buffer| {
            left -= 1;
            staged.push_back(HandoffEntry::new(buffer, offload, route, left));
        });
        true
    }

    /// Copies packet `i`. Returns `false` if the pool has no buffer.
    #[inline]
    fn load<K: Kernel>(
        &mut self,
        cache: &mut Cache,
        burst: &Burst,
        i: usize,
        route: Route,
        entries: usize,
    ) -> bool {
        if entries > 1 {
            return self.load_long::<K>(cache, burst, i, route, entries);
        }
        let Some(buffer) = copy::<K>(cache, burst, i) else { return false };
        self.staged.push_back(HandoffEntry::new(buffer, burst.offload(i), route, 0));
        true
    }

    #[cold]
    fn load_long<K: Kernel>(
        &mut self,
        cache: &mut Cache,
        burst: &Burst,
        i: usize,
        route: Route,
        entries: usize,
    ) -> bool {
        if entries > MAX_ENTRIES {
            return false;
        }
        if cache.alloc_bulk(&mut self.fresh, entries) < entries {
            cache.free_bulk(&mut self.fresh);
            return false;
        }
        let (len, mut at) = (burst.frame_len(i), 0);
        for (k, mut buffer) in self.fresh.drain(..).enumerate() {
            buffer.reset(HEADROOM);
            if let Some(to) = buffer.append(DATA.min(len - at)) {
                at += burst.frame(i).copy_behind::<K>(at, to);
            }
            let left = (entries - 1 - k) as u16;
            self.staged.push_back(HandoffEntry::new(buffer, burst.offload(i), route, left));
        }
        true
    }

    /// Publishes staged entries, as many as there is room for.
    pub(super) fn publish(&mut self) {
        if self.staged.is_empty() {
            return;
        }
        let room = self.ring.room(self.staged.len());
        let fits = if room >= self.staged.len() { self.staged.len() } else { self.whole(room) };
        if fits > 0 {
            self.ring.push_all(&mut self.staged.drain(..fits));
            self.rings = true;
        }
    }

    /// Number of entries, out of the first `room`, that form whole packets.
    #[cold]
    fn whole(&self, room: usize) -> usize {
        (0..room).rev().find(|&last| self.staged[last].more() == 0).map_or(0, |last| last + 1)
    }

    /// Notifies the receiver if it sleeps. The caller must have executed a sequentially consistent fence since
    /// `publish`.
    pub(super) fn notify(&mut self) {
        if std::mem::take(&mut self.rings) {
            self.doorbell.ring();
        }
    }
}

/// Copies the next packet in `left` into one buffer. Returns `None` at the first packet that does not fit in one
/// buffer. Skips packets for which the pool has no buffer.
#[inline(always)]
fn next_copy<K: Kernel>(cache: &mut Cache, burst: &Burst, left: &mut &[u8]) -> Option<(usize, Buffer)> {
    while let Some((&index, behind)) = left.split_first() {
        let i = usize::from(index);
        if burst.frame_len(i) > DATA {
            return None;
        }
        *left = behind;
        if let Some(buffer) = copy::<K>(cache, burst, i) {
            return Some((i, buffer));
        }
    }
    None
}

/// Copies packet `i`, which must fit in one buffer.
#[inline(always)]
fn copy<K: Kernel>(cache: &mut Cache, burst: &Burst, i: usize) -> Option<Buffer> {
    let mut buffer = cache.alloc()?;
    burst.copy_to_buffer::<K>(i, &mut buffer, HEADROOM as u16);
    Some(buffer)
}

impl Drop for Sender {
    /// The receiver forwards or frees what was staged.
    fn drop(&mut self) {
        self.publish();
    }
}
