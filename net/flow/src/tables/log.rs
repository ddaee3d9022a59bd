//! The latest changes, by version: a cache keeps a result of an older version unless a change may affect it.

use super::flow::Entry;
use super::limits;
use std::collections::VecDeque;
use std::sync::Arc;

/// A change of the tables.
#[derive(Clone, Debug)]
pub enum Change {
    /// A flow was added, modified or removed. Affects the packets that visit its table and that it may select.
    Flow(Arc<Entry>),
    /// A group was modified. Affects the packets that execute it.
    Group(u32),
    /// A table's number of packets or behaviour without a match changed, or there are too many changes to list.
    All,
}

/// Changes of the latest versions.
#[derive(Clone, Default)]
pub(super) struct Log {
    /// Changes of each version, the newest last.
    versions: VecDeque<Arc<[Change]>>,
    changes: usize,
    /// Not yet in a version.
    pending: Vec<Change>,
}

impl Log {
    pub(super) fn add(&mut self, change: Change) {
        let all = matches!(self.pending.first(), Some(Change::All));
        if matches!(change, Change::All) || self.pending.len() >= limits::LOGGED_CHANGES {
            self.pending = vec![Change::All];
        } else if !all {
            self.pending.push(change);
        }
    }

    /// Ends a version.
    pub(super) fn seal(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        self.changes += pending.len();
        self.versions.push_back(pending.into());
        while self.versions.len() > limits::LOGGED_VERSIONS || self.changes > limits::LOGGED_CHANGES {
            let Some(oldest) = self.versions.pop_front() else { return };
            self.changes -= oldest.len();
        }
    }

    /// Changes of the last `versions` versions; `None` if they are no longer known.
    pub(super) fn last(&self, versions: u64) -> Option<impl Iterator<Item = &Change>> {
        let known = usize::try_from(versions).ok().filter(|versions| *versions <= self.versions.len())?;
        Some(self.versions.iter().rev().take(known).flat_map(|changes| changes.iter()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_versions_are_forgotten() {
        let mut log = Log::default();
        for id in 0..100 {
            log.add(Change::Group(id));
            log.seal();
        }
        assert!(log.last(65).is_none());
        let groups: Vec<_> =
            log.last(2).unwrap().map(|change| if let Change::Group(id) = change { *id } else { 0 }).collect();
        assert_eq!(groups, [99, 98]);
        assert_eq!(log.last(0).unwrap().count(), 0);
    }

    #[test]
    fn a_version_with_many_changes_is_one_change_of_all() {
        let mut log = Log::default();
        (0..2000).for_each(|id| log.add(Change::Group(id)));
        log.seal();
        let changes: Vec<_> = log.last(1).unwrap().collect();
        assert!(matches!(changes[..], [Change::All]));
    }
}
