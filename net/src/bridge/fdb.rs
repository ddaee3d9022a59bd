//! The filtering database: what a bridge knows about stations, and what it lets a port teach it.
//!
//! Reading is lock-free. Everything that changes which port a station is at happens under one lock. A worker only
//! ever tries that lock; the control side waits for it, and holds it for some microseconds at a time.
//!
//! `changes` counts every change that can make a remembered answer wrong (a move, a removal, a static entry).
//! It is bumped after the change with Release and read with Acquire before a look-up, so an answer remembered
//! together with an older count is thrown away. A new station makes no answer wrong, because only what is
//! known is remembered.
//!
//! One port's stations never push out another's: each port has a limit, and at its limit, or when the whole table
//! is full, nothing is learned. Beyond the capacity there is a reserve for the first few stations of every port,
//! so that ports which fill the table together keep nobody from being learned at all.

use super::bucket::Entry;
use super::config::BridgeConfig;
use super::hash::Places;
use super::key::Key;
use super::table::{Hit, Search, Table};
use mem::line::Padded;
use port::PortId;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// How often a worker tries the lock before it leaves learning to a later packet.
const LOCK_TRIES: usize = 32;
/// Buckets that a worker looks through for aged stations in one burst.
const SWEEP_SLICE: u32 = 64;
/// Stations of a port that may use the reserve.
const FIRST_STATIONS: u32 = 16;
/// Buckets that the control side clears under one hold of the lock.
const PURGE_SLICE: u32 = 1024;

/// What is known about the source of a packet, now that it has been seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// It is at this port.
    Known,
    /// It is new, and is now known to be at this port.
    Learned,
    /// It was at another port, and is now at this one.
    Moved,
    /// It is not known: the port or the table is at its limit.
    Refused,
    /// It is not known yet: the table was being changed.
    Deferred,
    /// It is pinned to another port.
    Elsewhere,
}

/// A port's share of the table. Written under the lock only, so that plain stores do.
#[derive(Default)]
struct Share {
    limit: AtomicU32,
    learned: AtomicU32,
    pinned: AtomicU32,
}

/// A port's share, for people.
pub(super) struct ShareCount {
    pub(super) limit: u32,
    pub(super) learned: u32,
    pub(super) pinned: u32,
}

struct Writer {
    search: Search,
    stations: usize,
    pinned: usize,
    /// The bucket that is swept next, how many are due, and the second in which that was found out.
    sweep: (u32, u32, u32),
}

pub(super) struct Fdb {
    table: Table,
    changes: Padded<AtomicU64>,
    writer: Padded<Mutex<Writer>>,
    shares: Box<[Share]>,
    capacity: usize,
    ageing: u32,
}

impl Fdb {
    /// An empty database for ports `0..ports`, none of which may teach it anything yet.
    pub(super) fn new(config: &BridgeConfig, ports: usize) -> Self {
        let writer = Writer { search: Search::new(), stations: 0, pinned: 0, sweep: (0, 0, 0) };
        Self {
            table: Table::new(config.capacity + reserve(config.capacity)),
            changes: Padded(AtomicU64::new(0)),
            writer: Padded(Mutex::new(writer)),
            shares: (0..ports).map(|_| Share::default()).collect(),
            capacity: config.capacity,
            ageing: config.ageing_seconds,
        }
    }

    /// The number to remember answers with. Read it before the look-up.
    #[inline(always)]
    pub(super) fn changes(&self) -> u64 {
        // Pairs with the Release in `changed`.
        self.changes.load(Ordering::Acquire)
    }

    /// Where `key` can be.
    #[inline(always)]
    pub(super) fn places(&self, key: Key) -> Places {
        self.table.places(key)
    }

    /// Asks for what a look-up will read.
    #[inline(always)]
    pub(super) fn prefetch(&self, places: Places) {
        self.table.prefetch(places);
    }

    /// The port of a destination, unless it is unknown or too old.
    #[inline(always)]
    pub(super) fn destination(&self, key: Key, places: Places, second: u32) -> Option<PortId> {
        let entry = self.table.look_up(key, places)?.entry;
        (!self.aged(&entry, second)).then_some(entry.port)
    }

    /// Learns from a packet that `key` sent to `port` in this second.
    #[inline(always)]
    pub(super) fn confirm(&self, key: Key, places: Places, port: PortId, second: u32) -> Source {
        match self.table.look_up(key, places) {
            Some(Hit { spot, entry }) if entry.port == port => {
                if entry.stamp != second && !entry.pinned {
                    self.table.refresh(spot, second);
                }
                Source::Known
            }
            Some(Hit { entry, .. }) if entry.pinned => Source::Elsewhere,
            _ => self.learn(key, places, port, second),
        }
    }

    #[cold]
    #[inline(never)]
    fn learn(&self, key: Key, places: Places, port: PortId, second: u32) -> Source {
        // Before the lock, so that a port at its limit costs the others nothing.
        if self.at_limit(port) {
            return Source::Refused;
        }
        let Some(mut writer) = self.try_lock() else { return Source::Deferred };
        let entry = Entry { key, port, stamp: second, pinned: false };
        match self.table.look_up(key, places) {
            Some(hit) if hit.entry.port == port => Source::Known,
            Some(hit) if hit.entry.pinned => Source::Elsewhere,
            _ if self.at_limit(port) => Source::Refused,
            Some(hit) => {
                self.overwrite(&mut writer, hit, entry);
                Source::Moved
            }
            None if self.add(&mut writer, entry) => Source::Learned,
            None => Source::Refused,
        }
    }

    fn aged(&self, entry: &Entry, second: u32) -> bool {
        // A station may have been seen by a worker whose clock reading is a little later than ours.
        !entry.pinned && second.saturating_sub(entry.stamp) >= self.ageing
    }

    fn at_limit(&self, port: PortId) -> bool {
        let Some(share) = self.shares.get(port.0 as usize) else { return true };
        share.learned.load(Ordering::Relaxed) >= share.limit.load(Ordering::Relaxed)
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

    /// Makes every remembered answer be asked for again.
    fn changed(&self) {
        // Pairs with the Acquire in `changes`.
        self.changes.fetch_add(1, Ordering::Release);
    }

    fn add(&self, writer: &mut Writer, entry: Entry) -> bool {
        let added = self.has_room(writer, &entry) && self.table.insert(&mut writer.search, entry);
        if added {
            self.count(writer, &entry, 1);
        }
        added
    }

    fn has_room(&self, writer: &Writer, entry: &Entry) -> bool {
        let first = || self.shares[entry.port.0 as usize].learned.load(Ordering::Relaxed) < FIRST_STATIONS;
        let reserved = || entry.pinned || first();
        writer.stations < self.capacity
            || writer.stations < self.capacity + reserve(self.capacity) && reserved()
    }

    fn overwrite(&self, writer: &mut Writer, old: Hit, new: Entry) {
        self.table.replace(old.spot, new);
        self.count(writer, &old.entry, -1);
        self.count(writer, &new, 1);
        self.changed();
    }

    /// The caller calls `changed` when it is done removing.
    fn remove(&self, writer: &mut Writer, old: Hit) {
        self.table.remove(old.spot);
        self.count(writer, &old.entry, -1);
    }

    fn count(&self, writer: &mut Writer, entry: &Entry, by: i32) {
        writer.stations = writer.stations.wrapping_add_signed(by as isize);
        let share = &self.shares[entry.port.0 as usize];
        let counter = if entry.pinned {
            writer.pinned = writer.pinned.wrapping_add_signed(by as isize);
            &share.pinned
        } else {
            &share.learned
        };
        counter.store(counter.load(Ordering::Relaxed).wrapping_add_signed(by), Ordering::Relaxed);
    }
}

/// Stations that fit beyond the capacity.
fn reserve(capacity: usize) -> usize {
    capacity.div_ceil(8)
}

/// Ageing, done by the workers in small slices.
impl Fdb {
    /// Looks through a few more buckets for aged stations. `false` when nothing more is due in this second.
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

    /// The whole table is looked through four times in one ageing time.
    fn sweep_per_second(&self) -> u32 {
        self.table.buckets().div_ceil((self.ageing / 4).max(1))
    }

    fn remove_if(&self, writer: &mut Writer, bucket: u32, doomed: impl Fn(&Entry) -> bool) -> usize {
        let mut removed = 0;
        for hit in self.table.entries(bucket).filter(|hit| doomed(&hit.entry)) {
            self.remove(writer, hit);
            removed += 1;
        }
        if removed > 0 {
            self.changed();
        }
        removed
    }
}

/// What the control side does.
impl Fdb {
    /// Lets `port` teach the database up to `limit` stations.
    pub(super) fn open(&self, port: PortId, limit: u32) {
        let _writer = self.lock();
        self.shares[port.0 as usize].limit.store(limit, Ordering::Relaxed);
    }

    /// Lets `port` teach it nothing more, and forgets everything about that port, static entries too.
    pub(super) fn close(&self, port: PortId) {
        self.open(port, 0);
        let share = &self.shares[port.0 as usize];
        let left = || share.learned.load(Ordering::Relaxed) + share.pinned.load(Ordering::Relaxed);
        // A station that is moved to make room for another can slip past one pass.
        while left() > 0 {
            self.purge(|entry| entry.port == port);
        }
    }

    /// Forgets every learned station that `doomed` names, and returns how many. One that is learned anew meanwhile
    /// may stay.
    pub(super) fn flush(&self, doomed: impl Fn(&Entry) -> bool) -> usize {
        let mut flushed = 0;
        for _ in 0..4 {
            let displaced = self.table.displaced();
            flushed += self.purge(|entry| !entry.pinned && doomed(entry));
            if self.table.displaced() == displaced {
                break;
            }
        }
        flushed
    }

    /// One pass over the table. Returns how many it removed.
    fn purge(&self, doomed: impl Fn(&Entry) -> bool) -> usize {
        let (buckets, mut purged) = (self.table.buckets(), 0);
        for start in (0..buckets).step_by(PURGE_SLICE as usize) {
            let mut writer = self.lock();
            for bucket in start..buckets.min(start.saturating_add(PURGE_SLICE)) {
                purged += self.remove_if(&mut writer, bucket, &doomed);
            }
        }
        purged
    }

    /// Pins `key` to `port`, wherever it was. `false` when the table is full.
    pub(super) fn pin(&self, key: Key, port: PortId) -> bool {
        let mut writer = self.lock();
        let entry = Entry { key, port, stamp: 0, pinned: true };
        match self.table.look_up(key, self.table.places(key)) {
            Some(old) => {
                self.overwrite(&mut writer, old, entry);
                true
            }
            None => self.add(&mut writer, entry),
        }
    }

    /// Forgets a static entry. `false` when there is none.
    pub(super) fn unpin(&self, key: Key) -> bool {
        self.forget(key, |entry| entry.pinned)
    }

    /// Forgets a station, learned or static, that `doomed` agrees to. `false` when there is none.
    pub(super) fn forget(&self, key: Key, doomed: impl Fn(&Entry) -> bool) -> bool {
        let mut writer = self.lock();
        let found = self.table.look_up(key, self.table.places(key));
        let Some(old) = found.filter(|hit| doomed(&hit.entry)) else { return false };
        self.remove(&mut writer, old);
        self.changed();
        true
    }

    /// Every station that has not aged, by address. Exact when nothing is moved to make room meanwhile; after
    /// three tries of that it holds the lock, and learning waits.
    pub(super) fn stations(&self, second: u32) -> Vec<Entry> {
        for _ in 0..3 {
            let displaced = self.table.displaced();
            let found = self.collect(second);
            if self.table.displaced() == displaced {
                return found;
            }
        }
        let _writer = self.lock();
        self.collect(second)
    }

    fn collect(&self, second: u32) -> Vec<Entry> {
        let all = (0..self.table.buckets()).flat_map(|bucket| self.table.snapshot(bucket));
        let mut found: Vec<Entry> = all.flatten().filter(|entry| !self.aged(entry, second)).collect();
        found.sort_unstable_by_key(|entry| (entry.key.mac(), entry.key.vlan()));
        found.dedup_by_key(|entry| entry.key);
        found
    }

    /// Stations in the table, and static entries among them.
    pub(super) fn len(&self) -> (usize, usize) {
        let writer = self.lock();
        (writer.stations, writer.pinned)
    }

    /// A port's share.
    pub(super) fn share(&self, port: PortId) -> ShareCount {
        let share = &self.shares[port.0 as usize];
        let read = |counter: &AtomicU32| counter.load(Ordering::Relaxed);
        ShareCount { limit: read(&share.limit), learned: read(&share.learned), pinned: read(&share.pinned) }
    }

    /// Bytes of the table.
    pub(super) fn bytes(&self) -> usize {
        self.table.bytes()
    }
}

#[cfg(all(test, not(loom)))]
#[path = "fdb_tests.rs"]
mod tests;
