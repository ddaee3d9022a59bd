//! One shard of the table: connections by their original direction, and entries that lead to translated ones.
//!
//! Connections never move: they are in chunks, so that growth copies only the index, which has 8 bytes for each.

use crate::config::CHUNK;
use crate::connection::Connection;
use crate::tuple::Tuple;
use hashbrown::HashTable;

type Chunk = [Option<Connection>; CHUNK];

/// Connections with related hashes. See `tracker` for the way from a packet to its shard. What each packet needs comes
/// first: with the lock it is one cache line.
#[derive(Default)]
#[repr(C)]
pub(crate) struct Shard {
    chunks: Vec<Box<Chunk>>,
    index: HashTable<Place>,
    aliases: HashTable<Alias>,
    free: Vec<u32>,
    /// Chunk that the next sweep visits.
    hand: usize,
}

/// Where a connection is.
#[derive(Clone, Copy)]
struct Place {
    /// Part of the hash of the original direction.
    hash: u32,
    slot: u32,
}

/// The reply direction of a translated connection, whose hash is not that of its original direction.
struct Alias {
    reply: Tuple,
    hash: u64,
    /// Hash of the original direction.
    origin: u64,
}

/// The hash of the index. The number of the shard is in other bits.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Shard {
    /// The connection of a tuple whose original direction has this hash, and whether the tuple is its reply direction.
    #[inline]
    pub(crate) fn find(&self, hash: u64, tuple: &Tuple) -> Option<(u32, bool)> {
        let is_it = |place: &Place| {
            place.hash == hash as u32
                && self.get(place.slot).is_some_and(|found| found.original == *tuple || found.is_reply(tuple))
        };
        let slot = self.index.find(spread(hash as u32), is_it)?.slot;
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
    pub(crate) fn get(&self, slot: u32) -> Option<&Connection> {
        self.chunks.get(slot as usize / CHUNK)?[slot as usize % CHUNK].as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut Connection> {
        self.chunks.get_mut(slot as usize / CHUNK)?[slot as usize % CHUNK].as_mut()
    }

    /// Adds a connection, whose directions must not be taken.
    pub(crate) fn insert(&mut self, connection: Connection) {
        if self.free.is_empty() {
            let first = self.chunks.len() * CHUNK;
            self.chunks.push(Box::new([const { None }; CHUNK]));
            self.free.extend((first as u32..(first + CHUNK) as u32).rev());
        }
        let Some(slot) = self.free.pop() else { return };
        let hash = connection.hash as u32;
        self.chunks[slot as usize / CHUNK][slot as usize % CHUNK] = Some(connection);
        self.index.insert_unique(spread(hash), Place { hash, slot }, |place| spread(place.hash));
    }

    /// Removes a connection. If it is translated, its alias must be released.
    pub(crate) fn remove(&mut self, slot: u32) -> Option<Connection> {
        let place = &mut self.chunks.get_mut(slot as usize / CHUNK)?[slot as usize % CHUNK];
        let connection = place.take()?;
        let found = self.index.find_entry(spread(connection.hash as u32), |place| place.slot == slot);
        if let Ok(found) = found {
            found.remove();
        }
        self.free.push(slot);
        Some(connection)
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
        self.index.is_empty() && self.aliases.is_empty()
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
