//! Files in memory and open files, least recently used first to go.
//!
//! The number of bytes includes those that are being read, and those that packets or responses still refer to after the
//! cache has dropped them. A file is compared with its directory entry again after [`FRESH`].

use super::entry::{Body, Entry, Identity};
use super::limits::FileLimits;
use host::Buffer;
use lru::LruCache;
use stack::{Slice, Time};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Time for which a file is sent without looking whether it has changed.
const FRESH: Duration = Duration::from_secs(1);
/// Maximum number of open files that are kept.
const OPEN_FILES: usize = 256;

#[derive(Debug)]
struct Slot {
    entry: Arc<Entry>,
    /// Time of the last comparison.
    checked: Time,
    /// Head of a response with the whole file, for the second of its date.
    head: Option<(SystemTime, Slice<Buffer>)>,
}

/// The cache.
#[derive(Debug)]
pub(super) struct Cache {
    slots: LruCache<Box<[u8]>, Slot>,
    /// Bytes of `slots`, and of reads on their way.
    bytes: u64,
    limit: u64,
    /// Memory of dropped files that is still in use.
    retired: Vec<Arc<[u8]>>,
    open_files: usize,
    pub(super) hits: u64,
    pub(super) misses: u64,
}

impl Cache {
    pub(super) fn new(limits: &FileLimits) -> Self {
        let entries = NonZeroUsize::new(limits.entries).unwrap_or(NonZeroUsize::MIN);
        let (slots, limit) = (LruCache::new(entries), limits.cache);
        Self { slots, bytes: 0, limit, retired: Vec::new(), open_files: 0, hits: 0, misses: 0 }
    }

    /// A file that was compared recently, and the head of the response if it has this date.
    #[inline]
    pub(super) fn find(
        &mut self,
        path: &[u8],
        now: Time,
        today: SystemTime,
    ) -> Option<(Arc<Entry>, Option<Slice<Buffer>>)> {
        let slot = self.slots.get(path).filter(|slot| now < slot.checked.after(FRESH));
        let Some(slot) = slot else {
            self.misses += 1;
            return None;
        };
        self.hits += 1;
        let head = slot.head.as_ref().filter(|(date, _)| *date == today).map(|(_, head)| head.clone());
        Some((slot.entry.clone(), head))
    }

    /// Keeps the head of a response.
    pub(super) fn keep_head(&mut self, path: &[u8], today: SystemTime, head: &Slice<Buffer>) {
        if let Some(slot) = self.slots.peek_mut(path) {
            slot.head = Some((today, head.clone().summed()));
        }
    }

    /// The file, if it is unchanged.
    pub(super) fn unchanged(&mut self, path: &[u8], identity: Identity, now: Time) -> Option<Arc<Entry>> {
        let slot = self.slots.get_mut(path).filter(|slot| slot.entry.identity == identity)?;
        slot.checked = now;
        Some(slot.entry.clone())
    }

    /// Makes room for `len` bytes. Returns `false` if the cache is too small, or too much of its memory is in use.
    pub(super) fn reserve(&mut self, len: u64) -> bool {
        self.retired.retain(|memory| Arc::strong_count(memory) > 1);
        let retired: u64 = self.retired.iter().map(|memory| memory.len() as u64).sum();
        let mut room = self.limit.saturating_sub(retired);
        if len > room {
            return false;
        }
        while self.bytes + len > room
            && let Some((_, slot)) = self.slots.pop_lru()
        {
            room = room.saturating_sub(self.retire(slot));
        }
        let has_room = self.bytes + len <= room;
        self.bytes += if has_room { len } else { 0 };
        has_room
    }

    /// Gives up reserved room.
    pub(super) fn release(&mut self, len: u64) {
        self.bytes = self.bytes.saturating_sub(len);
    }

    /// Adds a file, for whose body room was reserved if it is in memory.
    pub(super) fn insert(&mut self, path: Box<[u8]>, entry: &Arc<Entry>, now: Time) {
        if matches!(entry.body, Body::Blocks(_)) {
            if self.open_files == OPEN_FILES {
                return;
            }
            self.open_files += 1;
        }
        let slot = Slot { entry: entry.clone(), checked: now, head: None };
        if let Some((_, old)) = self.slots.push(path, slot) {
            self.retire(old);
        }
    }

    /// Drops a file. Returns the number of bytes that are still in use.
    fn retire(&mut self, slot: Slot) -> u64 {
        match &slot.entry.body {
            Body::Blocks(_) => self.open_files -= 1,
            Body::Memory { owner, .. } => {
                self.release(slot.entry.facts.len);
                let owner = owner.clone();
                drop(slot);
                if Arc::strong_count(&owner) > 1 {
                    let len = owner.len() as u64;
                    self.retired.push(owner);
                    return len;
                }
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::super::limits::Bodies;
    use super::*;
    use files::Block;

    fn file(len: usize) -> Arc<Entry> {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        let mut stat = rustix::fs::stat(path).unwrap();
        stat.st_size = len.try_into().unwrap();
        Arc::new(Entry::new(b"a", &stat, Body::memory(&Block::new(len), len, Bodies::Summed)))
    }

    fn add(cache: &mut Cache, name: &[u8], len: usize) -> bool {
        let fits = cache.reserve(len as u64);
        if fits {
            cache.insert(name.into(), &file(len), Time(0));
        }
        fits
    }

    fn has(cache: &mut Cache, name: &[u8]) -> bool {
        cache.find(name, Time(1), SystemTime::UNIX_EPOCH).is_some()
    }

    #[test]
    fn bytes_are_bounded_with_those_in_use() {
        let mut cache = Cache::new(&FileLimits { cache: 30_000, entries: 100, ..FileLimits::default() });
        assert!(add(&mut cache, b"a", 10_000) && add(&mut cache, b"b", 10_000) && has(&mut cache, b"a"));
        assert!(add(&mut cache, b"c", 10_000) && add(&mut cache, b"d", 10_000));
        assert!(has(&mut cache, b"a") && !has(&mut cache, b"b"), "the least recently used one goes");
        let (in_use, _) = cache.find(b"a", Time(1), SystemTime::UNIX_EPOCH).unwrap();
        assert!(!add(&mut cache, b"e", 29_000), "the memory of a response counts");
        drop(in_use);
        assert!(add(&mut cache, b"e", 29_000) && !has(&mut cache, b"a"));
        assert!(!add(&mut cache, b"f", 31_000) && has(&mut cache, b"e"));
    }

    #[test]
    fn number_is_bounded_and_files_are_compared_again() {
        let mut cache = Cache::new(&FileLimits { entries: 2, ..FileLimits::default() });
        assert!(add(&mut cache, b"a", 0) && add(&mut cache, b"b", 0) && add(&mut cache, b"c", 0));
        assert!(!has(&mut cache, b"a") && has(&mut cache, b"b"));
        let later = Time(0).after(FRESH);
        assert!(cache.find(b"b", later, SystemTime::UNIX_EPOCH).is_none());
        let identity = file(0).identity;
        assert!(cache.unchanged(b"b", identity, later).is_some());
        assert!(cache.find(b"b", later, SystemTime::UNIX_EPOCH).is_some());
        assert!(cache.unchanged(b"b", file(1).identity, later).is_none());
    }
}
