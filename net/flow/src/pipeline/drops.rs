//! Dropped packets by table.
//!
//! They are counted when a megaflow credits its flows, about twice a second, so that a dropped packet costs no more
//! than without these counters. Packets that the operations of a megaflow drop one by one (meters, a time to live,
//! actions that do not fit) belong to no table and are counted by reason only.

use crate::modify::TableId;
use std::sync::atomic::{AtomicU64, Ordering};

/// Packets that one table dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableDrops {
    /// Last table that was looked up.
    pub table: TableId,
    /// Packets for which no flow was executed (`no-flow`).
    pub no_flow: u64,
    /// Packets of flows without an output (`flow-drop`).
    pub flow_drop: u64,
}

/// Counters of all tables of a bridge. Added to by workers, once for many packets.
pub(super) struct Drops([[AtomicU64; 2]; TableId::COUNT]);

impl Default for Drops {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Default::default()))
    }
}

impl Drops {
    /// Adds packets that ended at `table`, with or without a flow.
    pub(super) fn add(&self, table: TableId, has_flow: bool, packets: u64) {
        if let Some(counters) = self.0.get(usize::from(table.0)) {
            counters[usize::from(has_flow)].fetch_add(packets, Ordering::Relaxed);
        }
    }

    /// The tables that dropped packets.
    pub(super) fn read(&self) -> Vec<TableDrops> {
        let tables = (0..=u8::MAX).map(TableId).zip(&self.0).map(|(table, counters)| {
            let [no_flow, flow_drop] = counters.each_ref().map(|n| n.load(Ordering::Relaxed));
            TableDrops { table, no_flow, flow_drop }
        });
        tables.filter(|drops| drops.no_flow + drops.flow_drop > 0).collect()
    }
}
