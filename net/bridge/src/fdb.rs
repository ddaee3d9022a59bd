//! Filtering database: the stations of a bridge, and the learning rules of its ports.
//!
//! Look-ups are lock-free. Every change of a station's port is made under one lock. A worker only uses `try_lock`; the
//! control thread blocks on the lock and holds it for some microseconds at a time.
//!
//! Each port has a counter of changes that invalidate cached answers: a station left the port, by a move, a removal or
//! a static entry. It is incremented after the change with Release and read before a look-up with Acquire, so an answer
//! cached with an older count is discarded. A new station invalidates no answer, because only known stations are
//! cached: learning on one port does not invalidate the answers of others.
//!
//! A known station moves to another port only under the rules of [`MacMoves`]. A refused move does not take the lock.
//!
//! Stations of one port never evict those of another: each port has a limit, and at its limit, or if the whole table is
//! full, nothing is learned. Beyond the capacity there is a reserve for the first stations of each port, so that ports
//! which together fill the table cannot prevent learning on others.

mod control;

use super::bucket::Entry;
use super::config::{BridgeConfig, MacMoves};
use super::hash::Buckets;
use super::key::Key;
use super::pair_listener::PairListener;
use super::share::Share;
use super::table::{Hit, Search, Table};
use mem::line::Padded;
use port::PortId;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use wire::MacAddress;

/// Attempts to take the lock before a worker defers learning to a later packet.
const LOCK_TRIES: usize = 32;
/// Buckets that a worker checks for aged stations per burst.
const SWEEP_SLICE: u32 = 64;
/// Number of stations per port that may use the reserve.
const FIRST_STATIONS: u32 = 16;

/// Learning result for the source of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// It was already known at this port.
    Known,
    /// It was learned at this port.
    Learned,
    /// It moved from another port to this one.
    Moved,
    /// Not learned: the port or the table is at its limit.
    Refused,
    /// Not learned yet: the lock was busy, or the budget of the burst was used up.
    Deferred,
    /// It is a static entry of another port.
    Elsewhere,
    /// It is in use at this other port and may not move.
    Contested(PortId),
}

struct Writer {
    search: Search,
    stations: usize,
    pinned: usize,
    /// Ageing sweep: next bucket, number of due buckets, second in which that number was computed.
    sweep: (u32, u32, u32),
    /// Addresses reserved for one port, in all VLANs.
    reserved: HashMap<MacAddress, PortId>,
}

pub(super) struct Fdb {
    table: Table,
    writer: Padded<Mutex<Writer>>,
    shares: Box<[Share]>,
    capacity: usize,
    /// Seconds.
    ageing: AtomicU32,
    guarded: AtomicBool,
    pair_listener: PairListener,
}

impl Fdb {
    /// An empty database for ports `0..ports`; learning is disabled on all of them.
    pub(super) fn new(config: &BridgeConfig, ports: usize) -> Self {
        let (search, reserved) = (Search::new(), HashMap::new());
        let writer = Writer { search, stations: 0, pinned: 0, sweep: (0, 0, 0), reserved };
        Self {
            table: Table::new(config.capacity + reserve(config.capacity)),
            writer: Padded(Mutex::new(writer)),
            shares: (0..ports).map(|_| Share::default()).collect(),
            capacity: config.capacity,
            ageing: AtomicU32::new(config.ageing_seconds),
            guarded: AtomicBool::new(config.mac_moves == MacMoves::Guarded),
            pair_listener: PairListener::default(),
        }
    }

    /// Tells `pair_listener` which ports stations leave.
    pub(super) fn telling(self, pair_listener: PairListener) -> Self {
        Self { pair_listener, ..self }
    }

    /// Change count of `port`, for caching answers. Must be read before the look-up.
    #[inline(always)]
    pub(super) fn changes(&self, port: PortId) -> u64 {
        self.shares.get(port.0 as usize).map_or(0, Share::changes)
    }

    /// The candidate buckets of `key`.
    #[inline(always)]
    pub(super) fn places(&self, key: Key) -> Buckets {
        self.table.places(key)
    }

    /// Prefetches the lines that a look-up reads.
    #[inline(always)]
    pub(super) fn prefetch(&self, places: Buckets) {
        self.table.prefetch(places);
    }

    /// Port of a destination. Returns `None` if it is unknown or has aged.
    #[inline(always)]
    pub(super) fn destination(&self, key: Key, places: Buckets, second: u32) -> Option<PortId> {
        let entry = self.table.look_up(key, places)?.entry;
        (!self.aged(&entry, second)).then_some(entry.port)
    }

    /// Whether `key`, the source of a packet received on `port` in this second, is known at that port.
    #[inline(always)]
    pub(super) fn confirm(&self, key: Key, places: Buckets, port: PortId, second: u32) -> bool {
        let Some(Hit { spot, entry }) = self.table.look_up(key, places) else { return false };
        if entry.port != port {
            return false;
        }
        if entry.stamp != second && !entry.pinned {
            self.table.refresh(spot, second);
        }
        true
    }

    /// Learns `key`, which is not known at `port`, there. Takes the lock at most `budget` times, and reduces `budget`
    /// accordingly.
    #[cold]
    pub(super) fn learn(
        &self,
        key: Key,
        places: Buckets,
        port: PortId,
        second: u32,
        budget: &mut u32,
    ) -> Source {
        let entry = Entry { key, port, stamp: second, pinned: false };
        // Checked without the lock, so that forged addresses and ports at their limit do not contend for it.
        match self.table.look_up(key, places) {
            Some(Hit { entry: old, .. }) if old.port == port => return Source::Known,
            Some(Hit { entry: old, .. }) if old.pinned => return Source::Elsewhere,
            Some(Hit { entry: old, .. }) if !self.may_move(&old, &entry) => {
                return Source::Contested(old.port);
            }
            _ => {}
        }
        self.write(entry, budget, false)
    }

    /// Moves a station to the port where it announced itself, or learns it there.
    #[cold]
    pub(super) fn announce(&self, key: Key, port: PortId, second: u32, budget: &mut u32) -> Source {
        self.write(Entry { key, port, stamp: second, pinned: false }, budget, true)
    }

    fn write(&self, entry: Entry, budget: &mut u32, announced: bool) -> Source {
        if self.at_limit(entry.port) {
            return Source::Refused;
        }
        let Some(left) = budget.checked_sub(1) else { return Source::Deferred };
        *budget = left;
        let Some(mut writer) = self.try_lock() else { return Source::Deferred };
        let found = self.table.look_up(entry.key, self.table.places(entry.key));
        let reserved = writer.reserved.get(&entry.key.mac()).is_some_and(|owner| *owner != entry.port);
        match found {
            Some(hit) if hit.entry.port == entry.port => Source::Known,
            Some(hit) if hit.entry.pinned => Source::Elsewhere,
            _ if reserved => Source::Elsewhere,
            Some(hit) if !announced && !self.may_move(&hit.entry, &entry) => {
                Source::Contested(hit.entry.port)
            }
            _ if self.at_limit(entry.port) => Source::Refused,
            Some(hit) => {
                self.overwrite(&mut writer, hit, entry);
                Source::Moved
            }
            None if self.add(&mut writer, entry) => Source::Learned,
            None => Source::Refused,
        }
    }

    /// Whether the learned station `old` may move to the port of `new`.
    fn may_move(&self, old: &Entry, new: &Entry) -> bool {
        let (from, to) = (&self.shares[old.port.0 as usize], &self.shares[new.port.0 as usize]);
        !self.guarded.load(Ordering::Relaxed)
            || self.aged(old, new.stamp)
            || from.has_released(old)
            || from.is_trusted() && to.is_trusted()
    }

    fn aged(&self, entry: &Entry, second: u32) -> bool {
        // Another worker may have stamped the station with a slightly later clock reading.
        !entry.pinned && second.saturating_sub(entry.stamp) >= self.ageing()
    }

    /// Ageing time, in seconds.
    #[inline(always)]
    fn ageing(&self) -> u32 {
        self.ageing.load(Ordering::Relaxed)
    }

    fn at_limit(&self, port: PortId) -> bool {
        self.shares.get(port.0 as usize).is_none_or(Share::at_limit)
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, Writer>> {
        for _ in 0..LOCK_TRIES {
            match self.writer.try_lock() {
                Ok(writer) => return Some(writer),
                Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
            }
        }
        None
    }

    fn lock(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, writer: &mut Writer, entry: Entry) -> bool {
        let added = self.has_room(writer, &entry) && self.table.insert(&mut writer.search, entry);
        if added {
            self.count(writer, &entry, 1);
        }
        added
    }

    fn has_room(&self, writer: &Writer, entry: &Entry) -> bool {
        let first = || self.shares[entry.port.0 as usize].learned() < FIRST_STATIONS;
        let reserved = || entry.pinned || first();
        writer.stations < self.capacity
            || writer.stations < self.capacity + reserve(self.capacity) && reserved()
    }

    fn overwrite(&self, writer: &mut Writer, old: Hit, new: Entry) {
        self.table.replace(old.spot, new);
        self.count(writer, &old.entry, -1);
        self.count(writer, &new, 1);
        self.left(old.entry.port);
    }

    fn remove(&self, writer: &mut Writer, old: Hit) {
        self.table.remove(old.spot);
        self.count(writer, &old.entry, -1);
        self.left(old.entry.port);
    }

    /// Invalidates what is cached for a port that a station has left.
    fn left(&self, port: PortId) {
        self.shares[port.0 as usize].changed();
        self.pair_listener.changed(Some(port));
    }

    fn count(&self, writer: &mut Writer, entry: &Entry, by: i32) {
        writer.stations = writer.stations.wrapping_add_signed(by as isize);
        if entry.pinned {
            writer.pinned = writer.pinned.wrapping_add_signed(by as isize);
        }
        self.shares[entry.port.0 as usize].count(entry, by);
    }
}

/// Number of stations beyond the capacity.
fn reserve(capacity: usize) -> usize {
    capacity.div_ceil(8)
}

/// Ageing, in small slices by the workers.
impl Fdb {
    /// Checks a few more buckets for aged stations. Returns `false` if no more are due in this second.
    pub(super) fn sweep(&self, second: u32) -> bool {
        let Some(mut writer) = self.try_lock() else { return true };
        let (mut at, mut due, since) = writer.sweep;
        if second > since {
            due = (second - since).saturating_mul(self.sweep_per_second()).min(self.table.buckets());
        }
        let slice = due.min(SWEEP_SLICE);
        for _ in 0..slice {
            at = (at + 1) % self.table.buckets();
            self.remove_if(&mut writer, at, |entry| self.aged(entry, second));
        }
        writer.sweep = (at, due - slice, since.max(second));
        due > slice
    }

    /// Rate that sweeps the whole table four times per ageing time.
    fn sweep_per_second(&self) -> u32 {
        self.table.buckets().div_ceil((self.ageing() / 4).max(1))
    }

    fn remove_if(&self, writer: &mut Writer, bucket: u32, doomed: impl Fn(&Entry) -> bool) -> usize {
        let mut removed = 0;
        for hit in self.table.entries(bucket).filter(|hit| doomed(&hit.entry)) {
            self.remove(writer, hit);
            removed += 1;
        }
        removed
    }
}

#[cfg(all(test, not(loom)))]
#[path = "fdb_tests.rs"]
mod tests;
