//! Snapshots of tables that control publishes to workers.
//!
//! A snapshot is immutable. Control publishes a new one and then increments the generation. Each worker compares
//! generations at burst boundaries and takes the new snapshot with `try_lock`, or else at its next burst. Neither side
//! waits for the other. Replaced snapshots are dropped by control, because the tables of a worker's last reference
//! could take long to drop.

use mem::line::Padded;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A snapshot that control replaces and workers read.
#[derive(Debug, Default)]
pub struct Published<T> {
    generation: Padded<AtomicU64>,
    current: Mutex<Arc<T>>,
    /// Replaced snapshots that a worker may still use.
    retired: Mutex<Vec<Arc<T>>>,
}

impl<T> Published<T> {
    /// Publishes a first snapshot.
    pub fn new(snapshot: Arc<T>) -> Self {
        Self { generation: Padded::default(), current: Mutex::new(snapshot), retired: Mutex::default() }
    }

    /// The current snapshot. Blocks on the lock; for the control thread.
    pub fn current(&self) -> Arc<T> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Publishes a new snapshot.
    pub fn publish(&self, snapshot: Arc<T>) {
        let old = {
            let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *current, snapshot)
        };
        // Pairs with the Acquire in `newer` and `latest`: a reader of the new generation gets this snapshot or a
        // later one.
        self.generation.fetch_add(1, Ordering::Release);
        self.retired.lock().unwrap_or_else(PoisonError::into_inner).push(old);
        self.collect();
    }

    /// Drops the replaced snapshots that no worker uses any more. Called by control, also some time after a change.
    pub fn collect(&self) {
        let mut retired = self.retired.lock().unwrap_or_else(PoisonError::into_inner);
        // The list has the only reference, and the snapshot cannot be taken from `current` any more.
        retired.retain(|snapshot| Arc::strong_count(snapshot) > 1);
    }

    /// The snapshot and its generation, if it differs from `than` and the lock is free. Does not block.
    #[inline(always)]
    pub fn newer(&self, than: u64) -> Option<(u64, Arc<T>)> {
        // Pairs with the Release in `publish`.
        let generation = self.generation.load(Ordering::Acquire);
        if generation == than { None } else { self.take(generation) }
    }

    /// The snapshot, and a generation not newer than it. Blocks on the lock.
    pub fn latest(&self) -> (u64, Arc<T>) {
        // Pairs with the Release in `publish`. Read first, so that the snapshot is at least as new.
        let generation = self.generation.load(Ordering::Acquire);
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        (generation, current.clone())
    }

    #[cold]
    fn take(&self, generation: u64) -> Option<(u64, Arc<T>)> {
        self.current.try_lock().ok().map(|current| (generation, current.clone()))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn replaced_snapshots_are_dropped_by_control() {
        let published = Published::<u8>::default();
        let (generation, first) = published.latest();
        assert!(published.newer(generation).is_none());
        published.publish(Arc::new(1));
        let (generation, second) = published.newer(generation).expect("a newer snapshot");
        assert_eq!((*first, *second), (0, 1));
        let weak = Arc::downgrade(&first);
        drop(first);
        assert!(weak.upgrade().is_some(), "a worker never drops a snapshot");
        published.collect();
        assert!(weak.upgrade().is_none());
        assert!(published.newer(generation).is_none());
    }
}
