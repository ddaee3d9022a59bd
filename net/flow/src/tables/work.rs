//! Cost of changes of flows, before they are executed.
//!
//! A controller's change can look at every flow. Callers bound the sum for what one party may have executed at once.

use super::snapshot::Tables;
use crate::modify::{FlowCommand, FlowMod, TableId};

impl Tables {
    /// Number of flows that a change looks at, at least 1. Those of [`FlowCommand::Add`] without a check for overlaps,
    /// and strict ones, look at one flow; others at up to all flows of their tables.
    pub fn effort(&self, change: &FlowMod) -> usize {
        let deletes = matches!(change.command, FlowCommand::Delete | FlowCommand::DeleteStrict);
        let found = match change.command {
            FlowCommand::ModifyStrict | FlowCommand::DeleteStrict => 0,
            FlowCommand::Add if !change.flags.check_overlap => 0,
            _ => self.near(change),
        };
        let counted = if deletes { 0 } else { self.to_count(&change.instructions) };
        1 + found + counted
    }

    /// Flows that the match of a change is compared with.
    fn near(&self, change: &FlowMod) -> usize {
        let of_table = |table: TableId| {
            self.table(table).map_or(0, |table| table.classifier().compared(&change.matching))
        };
        if change.table == TableId::ALL {
            self.used_tables().into_iter().map(of_table).sum()
        } else {
            of_table(change.table)
        }
    }
}
