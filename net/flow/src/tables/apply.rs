//! Changes of flows (OpenFlow 1.3.5, 6.4 and 7.3.4.2).

use super::error::FlowModError;
use super::flow::{Entry, Flow};
use super::snapshot::Tables;
use super::validate;
use crate::action::Instructions;
use crate::lookup::{Classifier, Mask};
use crate::modify::{FlowCommand, FlowMod, TableId};
use port::Now;
use std::sync::Arc;

/// Why a flow was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemovedReason {
    /// No packets for the idle timeout.
    IdleTimeout,
    /// The hard timeout has passed.
    HardTimeout,
    /// By a deletion of flows.
    Delete,
    /// By a deletion of a group that it uses.
    GroupDelete,
    /// By a deletion of a meter that it uses.
    MeterDelete,
    /// A full table needed room.
    Eviction,
    /// By an added flow with the same match and priority. Not reported to controllers.
    Replaced,
}

/// A flow that was removed. Workers may count packets on it until they have taken the next snapshot.
#[derive(Clone, Debug)]
pub struct Removed {
    /// Flow.
    pub flow: Flow,
    /// Why.
    pub reason: RemovedReason,
}

/// Result of a change.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// Flows that were added.
    pub added: Vec<Flow>,
    /// Flows with other instructions, as they are now.
    pub modified: Vec<Flow>,
    /// Flows that were removed.
    pub removed: Vec<Removed>,
}

impl Removed {
    /// Whether controllers get a flow-removed message.
    pub fn is_reported(&self) -> bool {
        self.flow.entry().flags().send_removed && self.reason != RemovedReason::Replaced
    }
}

impl Changes {
    /// Whether nothing was changed.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.modified.is_empty() && self.removed.is_empty()
    }

    /// Adds later changes.
    pub fn extend(&mut self, other: Self) {
        self.added.extend(other.added);
        self.modified.extend(other.modified);
        self.removed.extend(other.removed);
    }
}

impl Tables {
    /// Changes flows.
    ///
    /// # Errors
    /// If the change is not valid. Nothing is changed then.
    pub fn apply(&mut self, change: &FlowMod, now: Now) -> Result<Changes, FlowModError> {
        self.apply_shared(change, &Arc::new(change.instructions.clone()), now)
    }

    /// As [`Tables::apply`], with the instructions of `change` as a shared copy.
    pub(super) fn apply_shared(
        &mut self,
        change: &FlowMod,
        instructions: &Arc<Instructions>,
        now: Now,
    ) -> Result<Changes, FlowModError> {
        if change.matching.has_options() {
            let change = FlowMod { matching: self.options.normal(&change.matching)?, ..change.clone() };
            return self.apply_normal(&change, instructions, now);
        }
        self.apply_normal(change, instructions, now)
    }

    /// As above, with a match in the form in which tables have it.
    fn apply_normal(
        &mut self,
        change: &FlowMod,
        instructions: &Arc<Instructions>,
        now: Now,
    ) -> Result<Changes, FlowModError> {
        let deletes = matches!(change.command, FlowCommand::Delete | FlowCommand::DeleteStrict);
        if change.table == TableId::ALL && !deletes {
            return Err(FlowModError::BadTable(change.table));
        }
        if !deletes {
            validate::flow(self, change)?;
        }
        self.work += self.effort(change);
        match change.command {
            FlowCommand::Add => self.add(change, instructions, now),
            FlowCommand::Modify | FlowCommand::ModifyStrict => Ok(self.modify(change, instructions)),
            FlowCommand::Delete | FlowCommand::DeleteStrict => Ok(self.delete(change)),
        }
    }

    fn add(
        &mut self,
        change: &FlowMod,
        instructions: &Arc<Instructions>,
        now: Now,
    ) -> Result<Changes, FlowModError> {
        let table = self.table(change.table);
        let classifier = table.map(|table| &table.classifier);
        let overlaps = |found: &Classifier| found.overlaps(&change.matching, change.priority);
        if change.flags.check_overlap && classifier.is_some_and(overlaps) {
            return Err(FlowModError::Overlap);
        }
        let replaced = classifier.and_then(|found| found.exact(&change.matching, change.priority)).cloned();
        let victim = match table.filter(|table| replaced.is_none() && table.is_full()) {
            Some(table) => {
                Some(table.victim(change.importance).ok_or(FlowModError::TableFull(change.table))?)
            }
            None => None,
        };
        let mask = self.mask_of(change)?;
        let flow = Flow::new(Entry::new(change, mask, now), instructions.clone());
        if let Some(replaced) = replaced.as_ref().filter(|_| !change.flags.reset_counts) {
            flow.entry().set_counts(replaced.entry().counts());
        }
        let mut changes = Changes::default();
        self.remove_all(replaced, RemovedReason::Replaced, &mut changes);
        self.remove_all(victim, RemovedReason::Eviction, &mut changes);
        self.insert(&flow);
        changes.added.push(flow);
        Ok(changes)
    }

    /// The shared mask of an added flow.
    pub(super) fn mask_of(&self, change: &FlowMod) -> Result<Arc<Mask>, FlowModError> {
        let mask = change.matching.mask();
        let mask = match self.table(change.table) {
            Some(table) => table.classifier.mask(mask),
            None => Classifier::default().mask(mask),
        };
        mask.ok_or(FlowModError::TooManyMasks(change.table))
    }

    fn modify(&mut self, change: &FlowMod, instructions: &Arc<Instructions>) -> Changes {
        let mut changes = Changes::default();
        for flow in self.selected(change, change.table) {
            if change.flags.reset_counts {
                flow.entry().set_counts((0, 0));
            }
            changes.modified.extend(self.set_instructions(&flow, instructions));
        }
        changes
    }

    fn delete(&mut self, change: &FlowMod) -> Changes {
        let tables = if change.table == TableId::ALL { self.used_tables() } else { vec![change.table] };
        let mut changes = Changes::default();
        for table in tables {
            let mut flows = self.selected(change, table);
            flows.retain(|flow| {
                change.out_port.is_none_or(|port| flow.outputs_to(port))
                    && change.out_group.is_none_or(|group| flow.has_group(group))
            });
            self.remove_all(flows, RemovedReason::Delete, &mut changes);
        }
        changes
    }

    /// The flows of `table` that a modification or deletion selects by match, priority and cookie.
    fn selected(&self, change: &FlowMod, table: TableId) -> Vec<Flow> {
        let Some(table) = self.table(table) else { return Vec::new() };
        let strict = matches!(change.command, FlowCommand::ModifyStrict | FlowCommand::DeleteStrict);
        let mut flows: Vec<Flow> = if strict {
            table.classifier.exact(&change.matching, change.priority).cloned().into_iter().collect()
        } else {
            table.classifier.covered(&change.matching)
        };
        flows.retain(|flow| (flow.entry().cookie() ^ change.cookie) & change.cookie_mask == 0);
        flows
    }

    pub(super) fn remove_all(
        &mut self,
        flows: impl IntoIterator<Item = Flow>,
        reason: RemovedReason,
        changes: &mut Changes,
    ) {
        for flow in flows {
            if self.remove(&flow) {
                changes.removed.push(Removed { flow, reason });
            }
        }
    }
}
