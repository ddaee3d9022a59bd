//! Removal of connections: by time, by eviction, and by request.
//!
//! A connection whose time has passed is found no more. The sweep frees its memory later. At the limit of all zones, a
//! new connection replaces one of up to [`CHUNK`](crate::config::CHUNK) connections of its shard: one whose time has
//! passed, or else the one without packets of both sides that would end first. If there is none, it is not added.

use crate::config::SHARDS;
use crate::connection::Connection;
use crate::table::Shard;
use crate::tracker::Tracker;
use crate::tuple::Tuple;
use mem::line::Padded;
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

impl Tracker {
    /// Visits up to `visits` places of the table, and removes connections whose time has passed. Must be called
    /// regularly. A visit that would have to wait is skipped.
    pub fn sweep(&self, now: u64, visits: usize) {
        for _ in 0..visits {
            // Relaxed: workers share the visits, and a visit needs no other data.
            let at = self.swept.fetch_add(1, Ordering::Relaxed);
            if let Some(shard) = self.shards[at % SHARDS].try_lock() {
                self.expire(shard, now);
            }
        }
    }

    fn expire(&self, mut shard: MutexGuard<'_, Shard>, now: u64) {
        let chunk = shard.next_chunk();
        self.remove_of(shard, chunk, |connection| connection.expires <= now);
    }

    /// Removes connections of a chunk. Returns their number.
    fn remove_of(
        &self,
        mut shard: MutexGuard<'_, Shard>,
        chunk: usize,
        is_over: impl Fn(&Connection) -> bool,
    ) -> usize {
        let slots = shard.chunk(chunk).into_iter().flatten();
        let slots: Vec<_> = slots.filter(|(_, found)| is_over(found)).map(|(slot, _)| slot).collect();
        let gone: Vec<_> = slots.into_iter().filter_map(|slot| shard.remove(slot)).collect();
        drop(shard);
        for connection in &gone {
            self.forget(connection);
        }
        gone.len()
    }

    /// Makes room in the shard of a hash. Returns `false` if no connection may be removed.
    pub(crate) fn evict(&self, hash: u64, now: u64) -> bool {
        let mut shard = self.shard(hash);
        let chunk = shard.next_chunk();
        let order = |connection: &Connection| match connection.expires {
            expires if expires <= now => Some(0),
            expires => (!connection.is_assured()).then_some(expires),
        };
        let victim = shard
            .chunk(chunk)
            .and_then(|slots| slots.filter_map(|(slot, connection)| Some((order(connection)?, slot))).min());
        let gone = victim.and_then(|(_, slot)| shard.remove(slot));
        drop(shard);
        if let Some(connection) = &gone {
            if connection.expires > now {
                self.limits.replace();
            }
            self.forget(connection);
        }
        gone.is_some()
    }

    /// Completes the removal of a connection. No shard may be locked.
    pub(crate) fn forget(&self, gone: &Connection) {
        self.listener.tell(gone);
        self.limits.release(gone.original.zone(), gone.port);
        if let Some(nat) = &gone.nat {
            let hash = self.hasher.hash(&nat.reply);
            self.shard(hash).release(hash, &nat.reply);
        }
    }

    /// Removes all connections, or those of a zone. Returns their number.
    pub fn flush(&self, zone: Option<u16>) -> usize {
        self.remove_all(|connection| zone.is_none_or(|zone| connection.original.zone() == zone))
    }

    /// Removes the connections with a direction of these addresses, ports, protocol and zone. Returns their number.
    pub fn flush_tuple(&self, tuple: &Tuple) -> usize {
        self.remove_all(|connection| connection.original == *tuple || connection.is_reply(tuple))
    }

    fn remove_all(&self, is_selected: impl Fn(&Connection) -> bool) -> usize {
        let mut removed = 0;
        for Padded(shard) in &*self.shards {
            let chunks = shard.lock().chunks();
            for chunk in 0..chunks {
                removed += self.remove_of(shard.lock(), chunk, &is_selected);
            }
        }
        removed
    }
}
