//! Hand-over of connections to another process, which has the same clock.
//!
//! [`Tracker::record_changes`] counts all connections as changed, and each [`Tracker::take_changes`] reads those that
//! have changed since the call before. So all connections are read while packets pass, and after the last packet only
//! those that had packets since. A connection has a flag that it was read, which its next update clears; an update then
//! sets a bit of its shard. Connections are not compared, and workers do nothing for one that was not read.

use crate::connection::{Connection, Protocol, Translation};
use crate::helper::{Expected, Helper, Parent};
use crate::tracker::{Tracker, shard_of};
use crate::tuple::Tuple;
use mem::line::Padded;
use serde::{Deserialize, Serialize};
use std::sync::atomic::Ordering;

/// A connection of another process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedConnection {
    original: Tuple,
    protocol: Protocol,
    mark: u32,
    label: u128,
    /// In nanoseconds of the clock of both processes.
    expires: u64,
    parent: Option<Parent>,
    nat: Option<Translation>,
    helper: Helper,
    /// Port whose packet has begun it. The other process may have another number for it.
    pub port: u16,
    has_gaps: bool,
}

/// Changes of connections in the order in which they must be restored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedChanges {
    /// Original directions of connections that were removed.
    pub removed: Vec<Tuple>,
    /// Connections that were added or have changed.
    pub changed: Vec<SavedConnection>,
}

/// A connection that helpers expect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedExpectation {
    key: Tuple,
    expires: u64,
    expected: Expected,
}

impl SavedConnection {
    fn of(connection: &Connection) -> Self {
        Self {
            original: connection.original,
            protocol: connection.protocol,
            mark: connection.mark,
            label: connection.label,
            expires: connection.expires,
            parent: connection.parent.as_deref().copied(),
            nat: connection.nat.as_deref().cloned(),
            helper: connection.helper,
            port: connection.port,
            has_gaps: connection.has_gaps,
        }
    }

    fn connection(&self, hash: u64) -> Connection {
        Connection {
            original: self.original,
            protocol: self.protocol,
            mark: self.mark,
            label: self.label,
            expires: self.expires,
            hash,
            parent: self.parent.map(Box::new),
            nat: self.nat.clone().map(Box::new),
            helper: self.helper,
            port: self.port,
            watch: 0,
            has_gaps: self.has_gaps,
            is_saved: false,
        }
    }
}

impl SavedChanges {
    /// Number of changes.
    pub fn len(&self) -> usize {
        self.removed.len() + self.changed.len()
    }

    /// Whether there are no changes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Tracker {
    /// Begins to note changes for another process, which has no connection yet.
    pub fn record_changes(&self) {
        self.shards.iter().for_each(|Padded(shard)| shard.lock().record());
    }

    /// Ends what [`Tracker::record_changes`] began.
    pub fn stop_recording(&self) {
        self.shards.iter().for_each(|Padded(shard)| shard.lock().stop_recording());
    }

    /// Changes since the last call, of one shard at a time. Each shard is locked while it is read.
    pub fn take_changes(&self) -> impl Iterator<Item = SavedChanges> {
        let shards = self.shards.iter().map(|Padded(shard)| {
            let mut shard = shard.lock();
            let (removed, changed) = shard.take_changes();
            let changed = changed.map(SavedConnection::of).collect();
            SavedChanges { removed, changed }
        });
        shards.filter(|changes| !changes.is_empty())
    }

    /// Connections that helpers expect.
    pub fn expectations(&self, now: u64) -> Vec<SavedExpectation> {
        let facts = self.expected.facts(now);
        facts.map(|(key, expires, expected)| SavedExpectation { key, expires, expected }).collect()
    }

    /// Expects connections as another process did.
    pub fn restore_expectations(&self, saved: &[SavedExpectation]) {
        for SavedExpectation { key, expires, expected } in saved {
            self.expected.insert(self.hasher.hash(key), *key, *expires, *expected);
            // Relaxed: no packet passes before the ports are taken over.
            self.has_expected.store(true, Ordering::Relaxed);
        }
    }

    /// Adds a connection of another process, regardless of limits. Returns `false` if a direction is taken.
    fn restore(&self, saved: &SavedConnection) -> bool {
        let hash = self.hasher.hash(&saved.original);
        let connection = saved.connection(hash);
        if let Some(nat) = &saved.nat {
            let reply = self.hasher.hash(&nat.reply);
            if !self.shard(reply).reserve(reply, &nat.reply, hash) {
                return false;
            }
        }
        self.limits.count(saved.original.zone(), saved.port);
        let mut shard = self.shard(hash);
        if shard.is_taken(hash, &saved.original) {
            drop(shard);
            self.forget(&connection);
            return false;
        }
        shard.insert(connection, &self.arena);
        self.shards[shard_of(hash)].note(&shard);
        true
    }

    /// Removes the connection with this original direction.
    fn remove(&self, original: &Tuple) {
        let hash = self.hasher.hash(original);
        let mut shard = self.shard(hash);
        let found = shard.find(hash, original).filter(|(_, is_reply)| !is_reply);
        let gone = found.and_then(|(slot, _)| shard.remove(slot));
        drop(shard);
        if let Some(connection) = &gone {
            self.forget(connection);
        }
    }
}

/// Connections of another process that a tracker could not add yet.
#[derive(Debug, Default)]
pub struct Restoration {
    /// Connections with a direction that another one still had: its removal may follow.
    refused: Vec<SavedConnection>,
}

impl Restoration {
    /// Executes changes of another process. They must be in the order in which they were read.
    pub fn apply(&mut self, tracker: &Tracker, changes: SavedChanges) {
        self.refused.retain(|known| !changes.removed.contains(&known.original));
        changes.removed.iter().for_each(|original| tracker.remove(original));
        for connection in changes.changed {
            self.refused.retain(|known| known.original != connection.original);
            tracker.remove(&connection.original);
            if !tracker.restore(&connection) {
                self.refused.push(connection);
            }
        }
    }

    /// Ends after the last change. Returns the number of connections that could not be added.
    pub fn finish(&mut self, tracker: &Tracker) -> usize {
        let refused = std::mem::take(&mut self.refused);
        refused.iter().filter(|connection| !tracker.restore(connection)).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzz::{packet, request};
    use crate::{Config, State};
    use proptest::prelude::*;

    const NOW: u64 = 1 << 40;

    /// Passes packets of a few connections: what each is, its ends, and what is done with it.
    fn pass(tracker: &Tracker, packets: &[(u8, u8, u8)]) {
        for (what, ends, action) in packets {
            let _ = tracker.track(&packet(*what, *ends, 1), &State::default(), &request(*action), NOW);
        }
    }

    /// All connections with everything that is known of them.
    fn all(tracker: &Tracker) -> Vec<String> {
        tracker.record_changes();
        let changes: Vec<_> = tracker.take_changes().flat_map(|changes| changes.changed).collect();
        tracker.stop_recording();
        let mut all: Vec<_> = changes.iter().map(|connection| format!("{connection:?}")).collect();
        all.sort();
        all
    }

    fn sent(changes: &SavedChanges) -> SavedChanges {
        serde_json::from_str(&serde_json::to_string(changes).unwrap()).unwrap()
    }

    proptest! {
        /// Connections that begin, change, end and begin again between any two readings, also translated ones.
        #[test]
        fn another_tracker_has_the_same_connections(
            rounds in prop::collection::vec(prop::collection::vec(any::<(u8, u8, u8)>(), 0..60), 1..5),
        ) {
            let (one, other) = (Tracker::new(&Config::default()), Tracker::new(&Config::default()));
            let mut restoration = Restoration::default();
            one.record_changes();
            for (i, round) in rounds.iter().enumerate() {
                pass(&one, round);
                if i == 2 {
                    one.flush(Some(1));
                }
                one.take_changes().for_each(|changes| restoration.apply(&other, sent(&changes)));
            }
            prop_assert_eq!(restoration.finish(&other), 0);
            one.stop_recording();
            prop_assert_eq!(all(&one), all(&other));
            prop_assert_eq!((one.len(), one.zone_len(1)), (other.len(), other.zone_len(1)));
            other.restore_expectations(&one.expectations(NOW));
            // Places depend on the keys of hashes, so that one expectation may replace another one.
            let expected = one.expectations(NOW);
            let restored = other.expectations(NOW);
            prop_assert!(restored.iter().all(|found| expected.contains(found)));
            prop_assert_eq!(restored.is_empty(), expected.is_empty());
            other.flush(None);
            prop_assert!(other.is_clean());
        }
    }

    #[test]
    fn only_what_has_changed_is_read_again() {
        let tracker = Tracker::new(&Config::default());
        let packets: Vec<_> = (0..4).map(|port| (port << 4, 2, 1)).collect();
        pass(&tracker, &packets);
        tracker.record_changes();
        let read = || tracker.take_changes().map(|changes| changes.len()).sum::<usize>();
        assert_eq!((tracker.len(), read(), read()), (4, 4, 0));
        pass(&tracker, &packets[..1]);
        pass(&tracker, &packets[..1]);
        assert_eq!((read(), read()), (1, 0));
        tracker.flush(None);
        assert_eq!((read(), read()), (4, 0));
    }

    #[test]
    fn directions_of_two_versions_are_refused() {
        let text =
            r#"{"source":"10.0.0.1","destination":"fd00::1","ports":[1,2],"zone":0,"protocol":6,"kind":0}"#;
        assert!(serde_json::from_str::<Tuple>(text).is_err());
    }
}
