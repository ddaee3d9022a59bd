//! One cache line of the station table: four stations under one version.
//!
//! Protocol (a seqlock per line). The table lock admits one writer at a time. The writer makes the version odd, changes
//! the line, and makes the version even again. A reader loads an even version, reads the line, and discards the result
//! if the version has changed. All fields are atomics, so a torn read is a stale value and not undefined behaviour.
//!
//! The time stamp is outside this protocol: any worker stores it without the lock when it receives from the station.
//! Such a store may hit a slot that was just reassigned; the new station then appears slightly younger. Only ageing,
//! which is coarse, reads stamps.

use super::key::Key;
use mem::shim::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering, fence};
use port::PortId;

/// Stations per bucket.
pub(super) const WAYS: usize = 4;

const OCCUPIED: u64 = 1 << 60;
const PINNED: u64 = 1 << 61;

/// Table entry of one station.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) key: Key,
    pub(super) port: PortId,
    /// Second in which it was last seen.
    pub(super) stamp: u32,
    /// Static entry: it neither moves nor ages.
    pub(super) pinned: bool,
}

#[repr(C, align(64))]
pub(super) struct Bucket {
    keys: [AtomicU64; WAYS],
    stamps: [AtomicU32; WAYS],
    ports: [AtomicU16; WAYS],
    version: AtomicU32,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Bucket>() == mem::line::LINE);

/// An even version at the start of a read, to be compared at the end.
#[derive(Clone, Copy)]
pub(super) struct Version(u32);

impl Bucket {
    pub(super) fn new() -> Self {
        Self {
            keys: std::array::from_fn(|_| AtomicU64::new(0)),
            stamps: std::array::from_fn(|_| AtomicU32::new(0)),
            ports: std::array::from_fn(|_| AtomicU16::new(0)),
            version: AtomicU32::new(0),
        }
    }

    /// Starts a read. Returns `None` if a writer is changing the line.
    #[inline(always)]
    pub(super) fn begin(&self) -> Option<Version> {
        // Pairs with the Release store at the end of `change`.
        let version = self.version.load(Ordering::Acquire);
        (version & 1 == 0).then_some(Version(version))
    }

    /// Whether the line has not changed since `begin`.
    #[inline(always)]
    pub(super) fn unchanged(&self, since: Version) -> bool {
        // Pairs with the Release fence at the start of `change`: a reader that sees any of its stores also sees its odd
        // version.
        fence(Ordering::Acquire);
        self.version.load(Ordering::Relaxed) == since.0
    }

    /// The slot of `key`. Must be called between `begin` and `unchanged`, or under the lock.
    #[inline(always)]
    pub(super) fn find(&self, key: Key) -> Option<usize> {
        let wanted = key.bits() | OCCUPIED;
        self.keys.iter().position(|word| word.load(Ordering::Relaxed) & !PINNED == wanted)
    }

    /// An empty slot.
    pub(super) fn vacant(&self) -> Option<usize> {
        self.keys.iter().position(|word| word.load(Ordering::Relaxed) == 0)
    }

    /// The entry in slot `way`.
    #[inline(always)]
    pub(super) fn entry(&self, way: usize) -> Option<Entry> {
        let word = self.keys[way].load(Ordering::Relaxed);
        (word & OCCUPIED != 0).then(|| Entry {
            key: Key::from_bits(word),
            port: PortId(self.ports[way].load(Ordering::Relaxed)),
            stamp: self.stamps[way].load(Ordering::Relaxed),
            pinned: word & PINNED != 0,
        })
    }

    /// Sets the time stamp of slot `way`. Needs no lock.
    #[inline(always)]
    pub(super) fn refresh(&self, way: usize, stamp: u32) {
        self.stamps[way].store(stamp, Ordering::Relaxed);
    }

    /// Overwrites slot `way`. The caller must hold the table lock.
    pub(super) fn put(&self, way: usize, entry: Entry) {
        let pinned = if entry.pinned { PINNED } else { 0 };
        self.change(|| {
            self.ports[way].store(entry.port.0, Ordering::Relaxed);
            self.stamps[way].store(entry.stamp, Ordering::Relaxed);
            self.keys[way].store(entry.key.bits() | OCCUPIED | pinned, Ordering::Relaxed);
        });
    }

    /// Clears slot `way`. The caller must hold the table lock.
    pub(super) fn clear(&self, way: usize) {
        self.change(|| self.keys[way].store(0, Ordering::Relaxed));
    }

    fn change(&self, write: impl FnOnce()) {
        let version = self.version.load(Ordering::Relaxed);
        self.version.store(version.wrapping_add(1), Ordering::Relaxed);
        // Pairs with the Acquire fence in `unchanged`.
        fence(Ordering::Release);
        write();
        // Pairs with the Acquire load in `begin`.
        self.version.store(version.wrapping_add(2), Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use wire::MacAddress;

    fn entry(mac: u64, vlan: u16, port: u16) -> Entry {
        let key = Key::new(MacAddress::from_u64(mac), vlan);
        Entry { key, port: PortId(port), stamp: 7, pinned: mac.is_multiple_of(2) }
    }

    #[test]
    fn entry_is_found_until_cleared() {
        let bucket = Bucket::new();
        for way in 0..WAYS {
            assert_eq!(bucket.vacant(), Some(way));
            bucket.put(way, entry(way as u64, 9, 30));
        }
        assert_eq!(bucket.vacant(), None);
        for way in 0..WAYS {
            let expected = entry(way as u64, 9, 30);
            assert_eq!(bucket.find(expected.key), Some(way));
            assert_eq!(bucket.entry(way), Some(expected));
        }
        bucket.clear(2);
        assert_eq!((bucket.find(entry(2, 9, 30).key), bucket.vacant()), (None, Some(2)));
    }

    #[test]
    fn zero_address_differs_from_an_empty_slot() {
        let bucket = Bucket::new();
        assert_eq!(bucket.find(Key::default()), None);
        bucket.put(1, entry(0, 0, 3));
        assert_eq!(bucket.find(Key::default()), Some(1));
    }

    #[test]
    fn version_detects_a_concurrent_change() {
        let bucket = Bucket::new();
        let before = bucket.begin().unwrap();
        bucket.refresh(0, 4);
        assert!(bucket.unchanged(before), "a refresh disturbs no reader");
        bucket.put(0, entry(1, 0, 3));
        assert!(!bucket.unchanged(before));
        assert!(bucket.unchanged(bucket.begin().unwrap()));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use wire::MacAddress;

    /// Station `mac` is always at port `mac`, so any other result mixes two changes.
    fn entry(mac: u64) -> Entry {
        let key = Key::new(MacAddress::from_u64(mac), 0);
        Entry { key, port: PortId(mac as u16), stamp: mac as u32, pinned: false }
    }

    #[test]
    fn lookup_never_mixes_two_entries() {
        loom::model(|| {
            let bucket = Arc::new(Bucket::new());
            bucket.put(0, entry(1));
            let writer = bucket.clone();
            let thread = loom::thread::spawn(move || {
                writer.clear(0);
                writer.put(0, entry(2));
            });
            if let Some(version) = bucket.begin() {
                let seen = bucket.entry(0);
                if bucket.unchanged(version) {
                    assert!(seen.is_none_or(|e| e == entry(1) || e == entry(2)), "{seen:?}");
                }
            }
            thread.join().unwrap();
        });
    }
}
