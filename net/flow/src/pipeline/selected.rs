//! Packets of buckets that were selected by a hash, until they are added to the counters that all workers share.

use crate::tables::GroupCounter;
use std::sync::Arc;

/// Buckets that are counted here at a time.
const MAX: usize = 32;

/// Counts of one worker.
pub(super) struct SelectedBuckets(Vec<Selected>);

struct Selected {
    counter: Arc<GroupCounter>,
    packets: u64,
    bytes: u64,
}

impl Default for SelectedBuckets {
    /// Nothing is allocated later.
    fn default() -> Self {
        Self(Vec::with_capacity(MAX))
    }
}

impl SelectedBuckets {
    /// Counts a packet of `bytes` bytes.
    pub(super) fn count(&mut self, counter: &Arc<GroupCounter>, bytes: u64) {
        if let Some(own) = self.0.iter_mut().find(|own| Arc::ptr_eq(&own.counter, counter)) {
            (own.packets, own.bytes) = (own.packets + 1, own.bytes + bytes);
            return;
        }
        if self.0.len() == MAX {
            self.add();
        }
        self.0.push(Selected { counter: counter.clone(), packets: 1, bytes });
    }

    /// Adds everything to the counters. Must be called about once a millisecond.
    pub(super) fn add(&mut self) {
        self.0.drain(..).for_each(|own| own.counter.add(own.packets, own.bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_any_number_of_buckets_are_counted() {
        let counters: Vec<Arc<GroupCounter>> = (0..2 * MAX).map(|_| Arc::default()).collect();
        let mut selected = SelectedBuckets::default();
        for _ in 0..3 {
            for counter in &counters {
                selected.count(counter, 60);
            }
            selected.count(&counters[0], 100);
        }
        selected.add();
        assert_eq!(counters[0].counts(), (6, 480));
        assert!(counters[1..].iter().all(|counter| counter.counts() == (3, 180)));
        assert!(selected.0.is_empty() && selected.0.capacity() == MAX);
    }
}
