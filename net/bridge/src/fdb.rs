//! The filtering database: what a bridge knows about stations, and what it lets a port teach it.
//!
//! Reading is lock-free. Everything that changes which port a station is at happens under one lock. A worker only
//! ever tries that lock; the control side waits for it, and holds it for some microseconds at a time.
//!
//! Each port has a counter of the changes that can make a remembered answer wrong: a station left the port, by a move,
//! a removal or a static entry. It is increased after the change with Release and read with Acquire before a look-up,
//! so an answer remembered together with an older count is discarded. A new station makes no answer wrong, because only
//! known stations are remembered: a port that learns does not invalidate the answers of others.
//!
//! A known station moves to another port only under the rules of [`MacMoves`]. A refused move takes no lock.
//!
//! One port's stations never push out another's: each port has a limit, and at its limit, or when the whole table
//! is full, nothing is learned. Beyond the capacity there is a reserve for the first few stations of every port,
//! so that ports which fill the table together cannot keep a station from being learned.

mod control;

use super::bucket::Entry;
use super::config::{BridgeConfig, MacMoves};
use super::hash::Places;
use super::key::Key;
use super::share::Share;
use super::table::{Hit, Search, Table};
use mem::line::Padded;
use port::PortId;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use wire::MacAddress;

/// How often a worker tries the lock before it leaves learning to a later packet.
const LOCK_TRIES: usize = 32;
/// Buckets that a worker looks through for aged stations in one burst.
const SWEEP_SLICE: u32 = 64;
/// Stations of a port that may use the reserve.
const FIRST_STATIONS: u32 = 16;

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
    /// It is in use at this other port, and may not move.
    Contested(PortId),
}

struct Writer {
    search: Search,
    stations: usize,
    pinned: usize,
    /// The bucket that is swept next, how many are due, and the second in which that was found out.
    sweep: (u32, u32, u32),
    /// Addresses that only one port may use, in every VLAN.
    reserved: HashMap<MacAddress, PortId>,
}

pub(super) struct Fdb {
    table: Table,
    writer: Padded<Mutex<Writer>>,
    shares: Box<[Share]>,
    capacity: usize,
    ageing: u32,
    guarded: bool,
}

impl Fdb {
    /// An empty database for ports `0..ports`, none of which may teach it anything yet.
    pub(super) fn new(config: &BridgeConfig, ports: usize) -> Self {
        let (search, reserved) = (Search::new(), HashMap::new());
        let writer = Writer { search, stations: 0, pinned: 0, sweep: (0, 0, 0), reserved };
        Self {
            table: Table::new(config.capacity + reserve(config.capacity)),
            writer: Padded(Mutex::new(writer)),
            shares: (0..ports).map(|_| Share::default()).collect(),
            capacity: config.capacity,
            ageing: config.ageing_seconds,
            guarded: config.mac_moves == MacMoves::Guarded,
        }
    }

    /// The number to remember answers with that involve `port`. Must be read before the look-up.
    #[inline(always)]
    pub(super) fn changes(&self, port: PortId) -> u64 {
        self.shares.get(port.0 as usize).map_or(0, Share::changes)
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

    /// Whether `key`, which has sent a packet to `port` in this second, is known to be there.
    #[inline(always)]
    pub(super) fn confirm(&self, key: Key, places: Places, port: PortId, second: u32) -> bool {
        let Some(Hit { spot, entry }) = self.table.look_up(key, places) else { return false };
        if entry.port != port {
            return false;
        }
        if entry.stamp != second && !entry.pinned {
            self.table.refresh(spot, second);
        }
        true
    }

    /// Learns that `key`, which is not known there, is at `port`. Takes the lock at most `budget` times, which it reduces.
    #[cold]
    pub(super) fn learn(
        &self,
        key: Key,
        places: Places,
        port: PortId,
        second: u32,
        budget: &mut u32,
    ) -> Source {
        let entry = Entry { key, port, stamp: second, pinned: false };
        // Before the lock, so that neither a forged address nor a port at its limit costs the others anything.
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

    /// Whether the learned station `old` may become `new`, at another port.
    fn may_move(&self, old: &Entry, new: &Entry) -> bool {
        let (from, to) = (&self.shares[old.port.0 as usize], &self.shares[new.port.0 as usize]);
        !self.guarded
            || self.aged(old, new.stamp)
            || from.has_released(old)
            || from.is_trusted() && to.is_trusted()
    }

    fn aged(&self, entry: &Entry, second: u32) -> bool {
        // A station may have been seen by a worker whose clock reading is a little later than ours.
        !entry.pinned && second.saturating_sub(entry.stamp) >= self.ageing
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
        self.shares[old.entry.port.0 as usize].changed();
    }

    fn remove(&self, writer: &mut Writer, old: Hit) {
        self.table.remove(old.spot);
        self.count(writer, &old.entry, -1);
        self.shares[old.entry.port.0 as usize].changed();
    }

    fn count(&self, writer: &mut Writer, entry: &Entry, by: i32) {
        writer.stations = writer.stations.wrapping_add_signed(by as isize);
        if entry.pinned {
            writer.pinned = writer.pinned.wrapping_add_signed(by as isize);
        }
        self.shares[entry.port.0 as usize].count(entry, by);
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
        removed
    }
}

#[cfg(all(test, not(loom)))]
#[path = "fdb_tests.rs"]
mod tests;
