//! One shard of the table: connections by their original direction, and entries that lead to translated ones.
//!
//! Connections never move: they are in chunks, so that growth copies only the index, which has 8 bytes for each. Many
//! chunks of all shards together are in huge pages. Beside the lock of a shard is a hint of what the next search and
//! the next addition read, so that it can be loaded for many packets together. A hint may be old: nothing is read at
//! its addresses.

use crate::config::CHUNK;
use crate::connection::Connection;
use crate::index::{Index, line_of};
use crate::tuple::Tuple;
use hashbrown::HashTable;
use mem::huge::{Arena, Placed};
use mem::line::{LINE, prefetch_write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

type Chunk = [Option<Connection>; CHUNK];

/// A shard with its lock. The state that each packet needs comes first, in one cache line.
#[derive(Default)]
#[repr(C)]
pub(crate) struct Locked {
    hint: Hint,
    shard: Mutex<Shard>,
}

/// Addresses that the next packets of a shard read.
#[derive(Default)]
struct Hint {
    /// See [`Index::hint`].
    index: AtomicUsize,
    /// Address of the slot of the next connection, if it is allocated.
    free: AtomicUsize,
}

/// Connections with related hashes. See `tracker` for the way from a packet to its shard.
#[derive(Default)]
#[repr(C)]
pub(crate) struct Shard {
    chunks: Vec<Placed<Chunk>>,
    index: Index,
    aliases: HashTable<Alias>,
    free: Vec<u32>,
    /// Chunk that the next sweep visits.
    hand: usize,
    /// What another process does not know yet; `None` if none takes over.
    changes: Option<Changes>,
}

/// Changes of a shard since they were read for another process.
#[derive(Default)]
struct Changes {
    /// Connections that were added or updated: a bit for each slot of each chunk.
    slots: Vec<u64>,
    /// Original directions of connections that were removed.
    removed: Vec<Tuple>,
}

const _: () = assert!(CHUNK == u64::BITS as usize);

impl Changes {
    fn note(&mut self, slot: u32) {
        let chunk = slot as usize / CHUNK;
        self.slots.resize(self.slots.len().max(chunk + 1), 0);
        self.slots[chunk] |= 1 << (slot as usize % CHUNK);
    }
}

/// The reply direction of a translated connection, whose hash is not that of its original direction.
struct Alias {
    reply: Tuple,
    hash: u64,
    /// Hash of the original direction.
    origin: u64,
}

impl Locked {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Shard> {
        self.shard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None` if it is locked.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, Shard>> {
        match self.shard.try_lock() {
            Ok(shard) => Some(shard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Notes what the next packets read, after an addition.
    pub(crate) fn note(&self, shard: &Shard) {
        // Relaxed, here and where hints are read: a hint orders nothing.
        self.hint.index.store(shard.index.hint(), Ordering::Relaxed);
        let free = shard.free.last().and_then(|slot| shard.slot(*slot));
        self.hint.free.store(free.map_or(0, |slot| std::ptr::from_ref(slot).addr()), Ordering::Relaxed);
    }

    /// Loads the shard into the cache.
    #[inline]
    pub(crate) fn prefetch(&self) {
        prefetch_write(std::ptr::from_ref(self).cast());
    }

    /// Loads the place of a hash in the index, and the slot of the next connection.
    #[inline]
    pub(crate) fn prefetch_hinted(&self, hash: u64) {
        let (index, free) = (self.hint.index.load(Ordering::Relaxed), self.hint.free.load(Ordering::Relaxed));
        prefetch_write(std::ptr::without_provenance(line_of(index, hash as u32)));
        prefetch_connection(free);
    }
}

/// Notes that a connection that was read is updated, if changes are recorded.
#[cold]
fn note(changes: &mut Option<Changes>, slot: u32) {
    if let Some(changes) = changes {
        changes.note(slot);
    }
}

/// Loads the lines of a connection into the cache.
#[inline]
pub(crate) fn prefetch_connection(address: usize) {
    for line in 0..size_of::<Connection>() / LINE {
        prefetch_write(std::ptr::without_provenance(address.wrapping_add(line * LINE)));
    }
}

impl Shard {
    /// The connection of a tuple whose original direction has this hash, and whether the tuple is its reply direction.
    #[inline]
    pub(crate) fn find(&self, hash: u64, tuple: &Tuple) -> Option<(u32, bool)> {
        let is_it =
            |slot| self.get(slot).is_some_and(|found| found.original == *tuple || found.is_reply(tuple));
        let slot = self.index.find(hash as u32, is_it)?;
        Some((slot, self.get(slot)?.original != *tuple))
    }

    /// Hash of the original direction of a translated connection with this reply direction.
    #[inline]
    pub(crate) fn origin(&self, hash: u64, reply: &Tuple) -> Option<u64> {
        self.aliases.find(hash, |alias| alias.reply == *reply).map(|alias| alias.origin)
    }

    /// Whether a tuple is a direction of a connection.
    pub(crate) fn is_taken(&self, hash: u64, tuple: &Tuple) -> bool {
        self.find(hash, tuple).is_some() || self.origin(hash, tuple).is_some()
    }

    /// Whether a tuple with this hash may be a direction of a connection.
    #[inline]
    pub(crate) fn has_hash(&self, hash: u64) -> bool {
        self.index.find(hash as u32, |_| true).is_some() || !self.aliases.is_empty()
    }

    /// Adds the reply direction of a translated connection. Returns `false` if it is taken.
    pub(crate) fn reserve(&mut self, hash: u64, reply: &Tuple, origin: u64) -> bool {
        let is_free = !self.is_taken(hash, reply);
        if is_free {
            self.aliases.insert_unique(hash, Alias { reply: *reply, hash, origin }, |alias| alias.hash);
        }
        is_free
    }

    /// Removes what [`Shard::reserve`] added.
    pub(crate) fn release(&mut self, hash: u64, reply: &Tuple) {
        if let Ok(found) = self.aliases.find_entry(hash, |alias| alias.reply == *reply) {
            found.remove();
        }
    }

    #[inline]
    fn slot(&self, slot: u32) -> Option<&Option<Connection>> {
        Some(&self.chunks.get(slot as usize / CHUNK)?[slot as usize % CHUNK])
    }

    #[inline]
    pub(crate) fn get(&self, slot: u32) -> Option<&Connection> {
        self.slot(slot)?.as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut Connection> {
        let connection = self.chunks.get_mut(slot as usize / CHUNK)?[slot as usize % CHUNK].as_mut()?;
        if connection.is_saved {
            connection.is_saved = false;
            note(&mut self.changes, slot);
        }
        Some(connection)
    }

    /// Adds a connection, whose directions must not be taken. `arena` is for new chunks.
    pub(crate) fn insert(&mut self, connection: Connection, arena: &Arena) {
        if self.free.is_empty() {
            let first = self.chunks.len() * CHUNK;
            self.chunks.push(arena.place(|| None));
            self.free.extend((first as u32..(first + CHUNK) as u32).rev());
        }
        let Some(slot) = self.free.pop() else { return };
        let hash = connection.hash as u32;
        self.chunks[slot as usize / CHUNK][slot as usize % CHUNK] = Some(connection);
        self.index.insert(hash, slot);
        if let Some(changes) = &mut self.changes {
            changes.note(slot);
        }
    }

    /// Removes a connection. If it is translated, its alias must be released.
    pub(crate) fn remove(&mut self, slot: u32) -> Option<Connection> {
        let place = &mut self.chunks.get_mut(slot as usize / CHUNK)?[slot as usize % CHUNK];
        let connection = place.take()?;
        self.index.remove(connection.hash as u32, slot);
        self.free.push(slot);
        if let Some(changes) = &mut self.changes {
            changes.removed.push(connection.original);
        }
        Some(connection)
    }

    /// Begins to note changes for another process, for which all connections are new.
    pub(crate) fn record(&mut self) {
        let mut changes = Changes { slots: vec![0; self.chunks.len()], ..Changes::default() };
        for (word, chunk) in changes.slots.iter_mut().zip(&self.chunks) {
            *word = (0..).zip(&**chunk).fold(0, |word, (i, slot)| word | u64::from(slot.is_some()) << i);
        }
        self.changes = Some(changes);
    }

    /// Ends what [`Shard::record`] began.
    pub(crate) fn stop_recording(&mut self) {
        self.changes = None;
    }

    /// The original directions of connections that were removed, and those that were added or updated since the last
    /// call. Another process has their present state then.
    pub(crate) fn take_changes(&mut self) -> (Vec<Tuple>, impl Iterator<Item = &Connection>) {
        let mut changes = self.changes.take().unwrap_or_default();
        let removed = std::mem::take(&mut changes.removed);
        let slots = std::mem::replace(&mut changes.slots, vec![0; self.chunks.len()]);
        self.changes = Some(changes);
        let chunks = slots.into_iter().zip(&mut self.chunks).filter(|(word, _)| *word != 0);
        let changed = chunks.flat_map(|(word, chunk)| {
            let slots = (0..).zip(chunk.iter_mut()).filter(move |(i, _)| word >> i & 1 != 0);
            slots.filter_map(|(_, slot)| slot.as_mut())
        });
        let changed = changed.map(|connection| {
            connection.is_saved = true;
            &*connection
        });
        (removed, changed)
    }

    /// The chunk that the next sweep visits.
    pub(crate) fn next_chunk(&mut self) -> usize {
        let chunk = self.hand;
        self.hand = (chunk + 1) % self.chunks.len().max(1);
        chunk
    }

    /// Whether it has no connection and no alias.
    #[cfg(any(test, feature = "fuzz"))]
    pub(crate) fn is_empty(&self) -> bool {
        self.index.len() == 0 && self.aliases.is_empty()
    }

    /// Number of chunks.
    pub(crate) fn chunks(&self) -> usize {
        self.chunks.len()
    }

    /// The connections of a chunk; `None` after the last one.
    pub(crate) fn chunk(&self, chunk: usize) -> Option<impl Iterator<Item = (u32, &Connection)>> {
        let first = (chunk * CHUNK) as u32;
        let slots = self.chunks.get(chunk)?.iter();
        Some((first..).zip(slots).filter_map(|(slot, place)| Some((slot, place.as_ref()?))))
    }
}
