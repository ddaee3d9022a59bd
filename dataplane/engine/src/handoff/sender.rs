//! The end of a handoff queue that packets go into.
//!
//! Packets of one buffer each go straight into the ring where it has room for all of a burst, and are published together.
//! What else is sent is staged first, in private memory, and then published: a unit at a time, and whole packets only, because
//! a receiver that sees the first entry of a packet relies on the others. Where stages wait for each other, packets are
//! staged also when the ring is full, and published as there is room; nothing else is taken until all of them are.

use super::backlog::Backlog;
use super::doorbell::Doorbell;
use super::entry::HandoffEntry;
use super::{DATA, HEADROOM, store};
use mem::copy::{Choice, Kernel};
use mem::pool::{Buffer, Cache};
use port::{Burst, BurstStats, DropReason, Route};
use ring::spsc::Producer;
use std::collections::VecDeque;
use std::iter::from_fn;
use std::sync::Arc;

/// Most entries of one packet: the longest frame that any port takes has 65,550 bytes.
const LONGEST: usize = 65_550_usize.div_ceil(DATA);

/// Where a stage puts what another one is to have.
pub(crate) struct Sender {
    ring: Producer<HandoffEntry>,
    /// Entries that the receiver does not see yet.
    staged: VecDeque<HandoffEntry>,
    /// Buffers of a long packet on its way into them; empty otherwise.
    fresh: Vec<Buffer>,
    /// Published when there are so many; 0: when all packets of a burst are here.
    unit: usize,
    /// Whether more is staged than there is room for in the ring.
    holds: bool,
    backlog: Backlog,
    doorbell: Arc<Doorbell>,
    /// Whether anything was published since the receiver was last rung for.
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
        let (fresh, backlog) = (Vec::with_capacity(LONGEST), Backlog::new());
        Self { ring, staged, fresh, unit, holds, backlog, doorbell, rings: false }
    }

    /// Entries that there is room for, if at least `wanted` are; otherwise as many as there are after a fresh look.
    #[inline]
    pub(super) fn room(&mut self, wanted: usize) -> usize {
        self.ring.room(wanted.saturating_add(self.staged.len())).saturating_sub(self.staged.len())
    }

    /// Whether so many entries find room, and no long work waits in front of them.
    #[inline]
    pub(super) fn is_open(&mut self, parcels: usize) -> bool {
        self.room(parcels) >= parcels && !(self.backlog.is_long() && self.is_busy())
    }

    /// Whether there is long work after a fresh look at what the receiver has taken.
    #[cold]
    fn is_busy(&mut self) -> bool {
        let waiting = self.ring.capacity() - self.ring.room(usize::MAX);
        self.backlog.take(self.ring.appended().wrapping_sub(waiting));
        self.backlog.is_long()
    }

    /// What was sent last is `work` units to be done behind the handoff queue, beyond handing it on.
    #[cold]
    pub(super) fn owes(&mut self, work: u64) {
        self.backlog.add(self.ring.appended().wrapping_add(self.staged.len()), work);
    }

    /// Whether the receiver does not see everything yet.
    pub(super) fn has_staged(&self) -> bool {
        !self.staged.is_empty()
    }

    /// Entries that the receiver does not see yet.
    #[cfg(all(test, not(loom)))]
    pub(super) fn staged(&self) -> usize {
        self.staged.len()
    }

    /// Entries that the ring holds.
    #[cfg(all(test, not(loom)))]
    pub(super) fn capacity(&self) -> usize {
        self.ring.capacity()
    }

    /// Sends packets on. `alone`: there is no other destination, so the buffers may be handed over. What finds no room is
    /// counted; what is sent on is not, because it has not left the switch.
    pub(super) fn send(
        &mut self,
        kernel: Choice,
        (burst, indices): (&Burst, &[u8]),
        (route, alone): (Route, bool),
        stats: &mut BurstStats,
    ) {
        let sent = store::with(|cache| {
            mem::with_kernel!(kernel, K => {
                let (sent, later) = self.send_directly::<K>(cache, burst, indices, (route, alone));
                if later.is_empty() { sent } else { sent + self.send_by::<K>(cache, burst, later, route, alone) }
            })
        });
        let lost = indices.len() - sent.unwrap_or(0);
        stats.drop(DropReason::HandoffFull, lost as u64);
        if self.unit == 0 {
            self.publish();
        }
    }

    /// Sends packets straight into the ring up to the first that takes more than one buffer, if there is room for all. How
    /// many, and those that are left.
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
        let sent = if alone && burst.has_cargo() {
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

    /// How many packets found room.
    #[cold]
    fn send_by<K: Kernel>(
        &mut self,
        cache: &mut Cache,
        burst: &Burst,
        indices: &[u8],
        route: Route,
        alone: bool,
    ) -> usize {
        let mut room = if self.holds { usize::MAX } else { self.room(indices.len()) };
        let mut sent = 0;
        for &pick in indices {
            let i = usize::from(pick);
            // A pipeline that names a packet twice has it sent once: its buffer has a new owner by then.
            let Some(there) = burst.pool_bufs(i) else { continue };
            let there = if alone { there } else { 0 };
            let parcels = if there > 0 { there } else { burst.frame_len(i).div_ceil(DATA).max(1) };
            if parcels > room {
                // What was seen last may be long ago.
                room = self.room(parcels);
                if parcels > room {
                    continue;
                }
            }
            let loaded = match there {
                0 => self.load::<K>(cache, burst, i, route, parcels),
                _ => self.pass_on(burst, i, route, parcels),
            };
            if loaded {
                (room, sent) = (room - parcels, sent + 1);
            }
            if self.unit > 0 && self.staged.len() >= self.unit {
                self.publish();
            }
        }
        sent
    }

    /// Takes packet `i` out of the burst with its buffers.
    #[inline]
    fn pass_on(&mut self, burst: &Burst, i: usize, route: Route, parcels: usize) -> bool {
        let (staged, offload, mut left) = (&mut self.staged, burst.offload(i), parcels as u16);
        burst.take_cargo(i, |buffer| {
            left -= 1;
            staged.push_back(HandoffEntry::new(buffer, offload, route, left));
        });
        true
    }

    /// Copies packet `i`. `false` where the pool has no buffer.
    #[inline]
    fn load<K: Kernel>(
        &mut self,
        cache: &mut Cache,
        burst: &Burst,
        i: usize,
        route: Route,
        parcels: usize,
    ) -> bool {
        if parcels > 1 {
            return self.load_long::<K>(cache, burst, i, route, parcels);
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
        parcels: usize,
    ) -> bool {
        if parcels > LONGEST {
            return false;
        }
        if cache.alloc_bulk(&mut self.fresh, parcels) < parcels {
            cache.free_bulk(&mut self.fresh);
            return false;
        }
        let (len, mut at) = (burst.frame_len(i), 0);
        for (k, mut buffer) in self.fresh.drain(..).enumerate() {
            buffer.reset(HEADROOM);
            if let Some(to) = buffer.append(DATA.min(len - at)) {
                at += burst.frame(i).copy_behind::<K>(at, to);
            }
            let left = (parcels - 1 - k) as u16;
            self.staged.push_back(HandoffEntry::new(buffer, burst.offload(i), route, left));
        }
        true
    }

    /// Shows the receiver what is here, as far as there is room.
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

    /// How many of the first `room` entries are whole packets.
    #[cold]
    fn whole(&self, room: usize) -> usize {
        (0..room).rev().find(|&last| self.staged[last].more() == 0).map_or(0, |last| last + 1)
    }

    /// Rings the receiver if it sleeps. The caller has executed a sequentially consistent fence since `publish`.
    pub(super) fn notify(&mut self) {
        if std::mem::take(&mut self.rings) {
            self.doorbell.ring();
        }
    }
}

/// A copy of the next packet of those that are left in one buffer; none at one that does not fit. Packets for which the pool has
/// no buffer are passed over.
#[inline(always)]
fn next_copy<K: Kernel>(cache: &mut Cache, burst: &Burst, left: &mut &[u8]) -> Option<(usize, Buffer)> {
    while let Some((&pick, behind)) = left.split_first() {
        let i = usize::from(pick);
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

/// A copy of packet `i`, which fits into one buffer.
#[inline(always)]
fn copy<K: Kernel>(cache: &mut Cache, burst: &Burst, i: usize) -> Option<Buffer> {
    let mut buffer = cache.alloc()?;
    burst.copy_to_buffer::<K>(i, &mut buffer, HEADROOM as u16);
    Some(buffer)
}

impl Drop for Sender {
    /// What is here is the receiver's to forward or to give back.
    fn drop(&mut self) {
        self.publish();
    }
}
