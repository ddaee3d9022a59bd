//! The ports of multicast groups of one bridge, as a worker follows them: a snapshot that control replaces.

use crate::ports::View;
use snooping::Table;
use std::sync::Arc;

/// A snapshot.
pub(super) struct Followed {
    generation: u64,
    table: Arc<Table>,
}

impl Followed {
    /// The snapshot of a bridge; `None` without snooping. Waits at most for the copy of one pointer.
    pub(super) fn new(view: &View) -> Option<Self> {
        let (generation, table) = view.bridge.groups.as_ref()?.latest();
        Some(Self { generation, table })
    }

    /// Takes a newer snapshot of the bridge, if there is one.
    pub(super) fn follow(&mut self, view: &View) -> &Table {
        let newer = view.bridge.groups.as_ref().and_then(|groups| groups.newer(self.generation));
        if let Some((generation, table)) = newer {
            *self = Self { generation, table };
        }
        &self.table
    }
}
