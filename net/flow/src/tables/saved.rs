//! Hand-over of tables to another process, which has the same clock.

use super::apply::Changes;
use super::control::{Control, Modification};
use super::error::{FlowModError, GroupModError, MeterModError};
use super::flow::{Entry, Flow};
use super::snapshot::Tables;
use super::table::TableConfig;
use super::validate;
use crate::action::Instructions;
use crate::matching::Match;
use crate::modify::{
    FlowCommand, FlowMod, GroupCommand, GroupKind, GroupMod, MeterCommand, MeterFlags, MeterMod, TableId,
};
use crate::options::{Mapping, OptionChange, OptionMapError};
use port::Now;
use std::sync::Arc;

/// All groups, and all meters; in deletions only.
const ALL_GROUPS: u32 = 0xffff_fffc;
const ALL_METERS: u32 = 0xffff_ffff;

/// Tables of another process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SavedTables {
    /// Bindings of options to fields.
    pub options: Vec<(u8, Mapping)>,
    /// Meters, each with the time at which it was added.
    pub meters: Vec<(MeterMod, Now)>,
    /// Groups, each with the time at which it was added.
    pub groups: Vec<(GroupMod, Now)>,
    /// Flows.
    pub flows: Vec<SavedFlow>,
    /// Tables that remove their least important flow for a new one.
    pub evicting: Vec<TableId>,
    /// Whether fragments are dropped before the first table.
    pub drops_fragments: bool,
}

/// A flow with its history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedFlow {
    /// The flow as an addition.
    pub flow: FlowMod,
    /// See [`Entry::created`].
    pub created: Now,
    /// See [`Entry::used`].
    pub used: Now,
    /// See [`Entry::refreshed`].
    pub refreshed: Now,
    /// Packets and bytes.
    pub counts: (u64, u64),
}

/// Why tables of another process are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// Of the flow at this position.
    #[error("{1}")]
    Flow(usize, FlowModError),
    /// Of a group.
    #[error(transparent)]
    Group(#[from] GroupModError),
    /// Of a meter.
    #[error(transparent)]
    Meter(#[from] MeterModError),
    /// Of bindings of options.
    #[error(transparent)]
    Options(#[from] OptionMapError),
}

impl SavedFlow {
    fn of(flow: &Flow) -> Self {
        let entry = flow.entry();
        let (idle_timeout, hard_timeout) = entry.timeouts();
        let change = FlowMod {
            table: entry.table(),
            cookie: entry.cookie(),
            idle_timeout,
            hard_timeout,
            flags: entry.flags(),
            importance: entry.importance(),
            instructions: Instructions::clone(flow.instructions()),
            ..FlowMod::new(FlowCommand::Add, &entry.matching(), entry.priority())
        };
        Self {
            flow: change,
            created: entry.created(),
            used: entry.used(),
            refreshed: entry.refreshed(),
            counts: entry.counts(),
        }
    }
}

impl Tables {
    /// Everything of the tables. Flows are in the order of [`Tables::all_flows`].
    pub fn save(&self) -> SavedTables {
        let group = |group: &Arc<super::Group>| {
            let (kind, id, buckets) = (group.kind(), group.id(), group.buckets().to_vec());
            (GroupMod { command: GroupCommand::Add, kind, id, buckets }, group.created())
        };
        let meter = |meter: &Arc<super::Meter>| {
            let (flags, id, bands) = (meter.flags, meter.id, meter.bands.clone());
            (MeterMod { command: MeterCommand::Add, flags, id, bands }, meter.created())
        };
        SavedTables {
            options: self.options().iter().collect(),
            meters: self.meters().map(meter).collect(),
            groups: self.groups().map(group).collect(),
            flows: self.all_flows().map(SavedFlow::of).collect(),
            evicting: TableId::each().filter(|table| self.config(*table).eviction).collect(),
            drops_fragments: self.drops_fragments(),
        }
    }

    /// The flows of all tables. The order is the same for each call.
    pub fn all_flows(&self) -> impl Iterator<Item = &Flow> {
        TableId::each().flat_map(|table| self.flows(table))
    }
}

impl Control {
    /// Replaces everything by the tables of another process. Returns the flows in their order. After an error, the
    /// tables are not usable.
    ///
    /// # Errors
    /// If something is not valid.
    pub fn restore(&mut self, saved: &SavedTables, now: Now) -> Result<Vec<Flow>, RestoreError> {
        self.clear(now);
        self.tables_mut().apply_options(&OptionChange::Add(saved.options.clone()))?;
        for (meter, created) in &saved.meters {
            self.tables_mut().apply_meter(meter, *created)?;
        }
        self.restore_groups(&saved.groups)?;
        self.tables_mut().drop_fragments(saved.drops_fragments);
        for table in TableId::each() {
            let (config, eviction) = (self.tables().config(table), saved.evicting.contains(&table));
            if config.eviction != eviction {
                self.tables_mut().configure(table, TableConfig { eviction, ..config });
            }
        }
        let flows = saved.flows.iter().enumerate();
        flows.map(|(i, flow)| self.restore_flow(flow).map_err(|e| RestoreError::Flow(i, e))).collect()
    }

    /// Removes flows, groups, meters and bindings of options.
    fn clear(&mut self, now: Now) {
        let flows = FlowMod { table: TableId::ALL, ..FlowMod::new(FlowCommand::Delete, &Match::any(), 0) };
        let (command, bands) = (MeterCommand::Delete, Vec::new());
        let meters = MeterMod { command, flags: MeterFlags::default(), id: ALL_METERS, bands };
        let (command, kind, buckets) = (GroupCommand::Delete, GroupKind::All, Vec::new());
        let groups = GroupMod { command, kind, id: ALL_GROUPS, buckets };
        for change in [
            Modification::Flow(Box::new(flows)),
            Modification::Group(groups),
            Modification::Meter(meters),
            Modification::Options(OptionChange::Clear),
        ] {
            // Nothing that is removed is used any more.
            let _: Result<Changes, _> = self.apply(&change, now);
        }
    }

    /// Adds groups, those that others execute first.
    fn restore_groups(&mut self, groups: &[(GroupMod, Now)]) -> Result<(), GroupModError> {
        let mut left: Vec<_> = groups.iter().collect();
        while !left.is_empty() {
            let (before, mut first) = (left.len(), None);
            left.retain(|(group, created)| match self.tables_mut().apply_group_at(group, *created) {
                Ok(_) => false,
                Err(error) => {
                    first.get_or_insert(error);
                    true
                }
            });
            if let Some(error) = first.filter(|_| left.len() == before) {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Adds a flow regardless of the limit of its table, and of overlaps, which were checked when it was added first.
    fn restore_flow(&mut self, saved: &SavedFlow) -> Result<Flow, FlowModError> {
        let mut change = saved.flow.clone();
        if change.table == TableId::ALL {
            return Err(FlowModError::BadTable(change.table));
        }
        if change.matching.has_options() {
            change.matching = self.tables().options().normal(&change.matching)?;
        }
        validate::flow(self.tables(), &change)?;
        let mask = self.tables().mask_of(&change)?;
        let flow = Flow::new(Entry::restored(&change, mask, saved), self.share(&change.instructions));
        let same = self.tables().exact(change.table, &change.matching, change.priority).cloned();
        if let Some(same) = &same {
            self.tables_mut().remove(same);
        }
        self.tables_mut().insert(&flow);
        self.watch(std::slice::from_ref(&flow));
        Ok(flow)
    }
}
