//! A version of all tables, groups and meters.

use super::apply::{Changes, RemovedReason};
use super::error::ActionError;
use super::flow::{Flow, visit};
use super::group::Group;
use super::learn::Limits;
use super::log::{Change, Log};
use super::meter::Meter;
use super::radix::{Counts, Radix};
use super::table::{Table, TableConfig};
use super::{limits, validate};
use crate::action::{Action, Instructions};
use crate::key::Key;
use crate::lookup::fold;
use crate::matching::Match;
use crate::modify::TableId;
use crate::options::OptionMap;
use std::sync::Arc;

/// Flow tables, groups and meters. The cost of a clone is small and independent of their size.
#[derive(Clone)]
pub struct Tables {
    pub(super) seed: u64,
    version: u64,
    /// Tables; one without flows and settings may be absent.
    by_number: Vec<Option<Arc<Table>>>,
    pub(super) groups: Radix<Arc<Group>>,
    pub(super) meters: Radix<Arc<Meter>>,
    pub(super) options: OptionMap,
    /// Groups, meters, options and learned flows that flows use.
    pub(super) uses: Counts,
    /// Flows that `learn` actions with a limit count.
    pub(super) limits: Arc<Limits>,
    /// Tables and cookies of learned flows that may have to be removed.
    pub(super) orphans: Vec<(TableId, u64)>,
    /// Memory of `groups` in bytes.
    pub(super) group_bytes: usize,
    /// Maximum number of flows of a table without another limit.
    limit: usize,
    /// Whether fragments are dropped before the first table (`OFPC_FRAG_DROP`).
    drops_fragments: bool,
    /// Flows, groups and buckets that the changes of the current bundle have looked at.
    pub(super) work: usize,
    pub(super) log: Log,
}

impl Tables {
    /// Empty tables. `seed` keys their hashes and must be unknown to the senders of packets.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            version: 0,
            by_number: Vec::new(),
            groups: Radix::default(),
            meters: Radix::default(),
            options: OptionMap::default(),
            uses: Counts::default(),
            limits: Arc::default(),
            orphans: Vec::new(),
            group_bytes: 0,
            limit: limits::FLOWS,
            drops_fragments: false,
            work: 0,
            log: Log::default(),
        }
    }

    /// Version; increases with each snapshot.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Ends a version and returns it as a snapshot.
    pub fn seal(&mut self) -> Arc<Self> {
        self.version += 1;
        self.log.seal();
        Arc::new(self.clone())
    }

    /// Changes since version `than`; `None` if they are no longer known, so that anything may have changed.
    pub fn changes_since(&self, than: u64) -> Option<impl Iterator<Item = &Change>> {
        self.log.last(self.version.checked_sub(than)?)
    }

    /// The best flow of a table for `key`. Adds the bits of `key` that the answer depends on to `bits`: every key that
    /// agrees in them has the same answer.
    pub fn find(&self, table: TableId, key: &Key, bits: &mut Key) -> Option<&Flow> {
        self.table(table)?.classifier().find(key, bits)
    }

    /// Loads what lookups of at most [`radix::WARMED`] keys in a table read into the cache, if the table is large.
    pub(crate) fn warm(&self, table: TableId, keys: &[Key]) {
        self.table(table).into_iter().for_each(|table| table.classifier().warm(keys));
    }

    /// Flows of a table, in no order.
    pub fn flows(&self, table: TableId) -> impl Iterator<Item = &Flow> {
        self.table(table).into_iter().flat_map(|table| table.classifier().iter())
    }

    /// Number of flows of a table.
    pub fn len(&self, table: TableId) -> usize {
        self.table(table).map_or(0, |table| table.classifier().len())
    }

    /// Whether a table has no flows.
    pub fn is_empty(&self, table: TableId) -> bool {
        self.len(table) == 0
    }

    /// Number of different masks of a table.
    pub fn masks(&self, table: TableId) -> usize {
        self.table(table).map_or(0, |table| table.classifier().masks())
    }

    /// Checks the actions of a packet-out.
    ///
    /// # Errors
    /// If an action is not valid.
    pub fn check_packet_out(&self, actions: &[Action]) -> Result<(), ActionError> {
        validate::packet_out(self, actions)
    }

    /// Number of hash tables that a lookup in a table searches at most.
    pub fn subtables(&self, table: TableId) -> usize {
        self.table(table).map_or(0, |table| table.classifier().subtables())
    }

    /// A group.
    pub fn group(&self, id: u32) -> Option<&Arc<Group>> {
        self.groups.get(self.number_key(id)).find(|group| group.id() == id)
    }

    /// All groups, in no order.
    pub fn groups(&self) -> impl Iterator<Item = &Arc<Group>> {
        self.groups.iter()
    }

    /// A meter.
    pub fn meter(&self, id: u32) -> Option<&Arc<Meter>> {
        self.meters.get(self.number_key(id)).find(|meter| meter.id == id)
    }

    /// All meters, in no order.
    pub fn meters(&self) -> impl Iterator<Item = &Arc<Meter>> {
        self.meters.iter()
    }

    /// The map of options.
    pub fn options(&self) -> &OptionMap {
        &self.options
    }

    /// Settings of a table.
    pub fn config(&self, table: TableId) -> TableConfig {
        self.table(table).map_or_else(|| self.default_config(), Table::config)
    }

    /// Sets the maximum number of flows of all tables. Flows above it stay. Must be called before other settings.
    pub fn limit_flows(&mut self, limit: usize) {
        self.limit = limit;
        for table in self.by_number.iter_mut().flatten() {
            let config = TableConfig { limit, ..table.config() };
            Arc::make_mut(table).configure(config);
        }
    }

    fn default_config(&self) -> TableConfig {
        TableConfig { limit: self.limit, eviction: false }
    }

    /// Changes the settings of a table. Flows above a new limit stay.
    pub fn configure(&mut self, table: TableId, config: TableConfig) {
        self.table_mut(table).configure(config);
    }

    /// Whether fragments are dropped before the first table.
    pub fn drops_fragments(&self) -> bool {
        self.drops_fragments
    }

    /// Drops fragments before the first table, or no more.
    pub fn drop_fragments(&mut self, drops: bool) {
        if self.drops_fragments != drops {
            self.drops_fragments = drops;
            self.log.add(super::Change::All);
        }
    }

    /// Adds lookups of a table, and how many of them found a flow. Called by workers, once for many packets.
    pub fn count(&self, table: TableId, lookups: u64, matched: u64) {
        self.table(table).into_iter().for_each(|table| table.count(lookups, matched));
    }

    /// Lookups of a table, and how many of them found a flow.
    pub fn counts(&self, table: TableId) -> (u64, u64) {
        self.table(table).map_or((0, 0), Table::counts)
    }

    pub(super) fn table(&self, table: TableId) -> Option<&Table> {
        self.by_number.get(usize::from(table.0))?.as_deref()
    }

    /// The flow of a table with exactly this match and priority.
    pub fn exact(&self, table: TableId, matching: &Match, priority: u16) -> Option<&Flow> {
        self.table(table)?.classifier().exact(matching, priority)
    }

    /// The flows of a table that `matching` covers, in no order.
    pub fn covered(&self, table: TableId, matching: &Match) -> Vec<Flow> {
        self.table(table).map_or_else(Vec::new, |table| table.classifier().covered(matching))
    }

    /// Number of actions of flows that execute a group.
    pub(super) fn group_users(&self, id: u32) -> u32 {
        self.uses.count(self.number_key(id))
    }

    /// Number of actions of flows and buckets that execute a group.
    pub fn group_references(&self, id: u32) -> u32 {
        self.group_users(id) + self.uses.count(self.chained_key(id))
    }

    /// Number of actions and instructions of flows that apply a meter.
    pub fn meter_users(&self, id: u32) -> u32 {
        self.uses.count(!self.number_key(id))
    }

    /// The numbers of the tables that have flows.
    pub fn used_tables(&self) -> Vec<TableId> {
        let used = (0..self.by_number.len()).map(|i| TableId(i as u8));
        used.filter(|table| !self.is_empty(*table)).collect()
    }

    fn table_mut(&mut self, table: TableId) -> &mut Table {
        let i = usize::from(table.0);
        if self.by_number.len() <= i {
            self.by_number.resize(i + 1, None);
        }
        let config = self.default_config();
        Arc::make_mut(self.by_number[i].get_or_insert_with(|| Arc::new(Table::new(config))))
    }

    pub(super) fn insert(&mut self, flow: &Flow) {
        self.change_uses(flow.instructions(), Counts::add);
        self.count_matched_options(flow.entry(), Counts::add);
        self.log.add(Change::Flow(flow.entry().clone()));
        let seed = self.seed;
        self.table_mut(flow.entry().table()).insert(flow.clone(), seed);
        self.count_for_limits(flow.entry(), true);
        self.start_learning(flow.instructions());
    }

    pub(super) fn remove(&mut self, flow: &Flow) -> bool {
        if !self.table_mut(flow.entry().table()).remove(flow) {
            return false;
        }
        self.change_uses(flow.instructions(), Counts::remove);
        self.count_matched_options(flow.entry(), Counts::remove);
        self.count_for_limits(flow.entry(), false);
        self.stop_learning(flow.instructions());
        self.log.add(Change::Flow(flow.entry().clone()));
        true
    }

    pub(super) fn set_instructions(&mut self, flow: &Flow, instructions: &Arc<Instructions>) -> Option<Flow> {
        let stored = self.table_mut(flow.entry().table()).classifier.get_mut(flow)?;
        stored.set_instructions(instructions.clone());
        let stored = stored.clone();
        self.change_uses(flow.instructions(), Counts::remove);
        self.change_uses(instructions, Counts::add);
        self.stop_learning(flow.instructions());
        self.start_learning(instructions);
        self.log.add(Change::Flow(flow.entry().clone()));
        Some(stored)
    }

    fn change_uses(&mut self, instructions: &Instructions, change: fn(&mut Counts, u64)) {
        let (seed, uses) = (self.seed, &mut self.uses);
        let mut each = |action: &Action| match action {
            Action::Group(id) => change(uses, key(seed, *id)),
            Action::Meter(id) => change(uses, !key(seed, *id)),
            _ => {}
        };
        visit(&instructions.apply, &mut each);
        visit(&instructions.write, &mut each);
        if let Some(id) = instructions.meter {
            change(uses, !key(seed, id));
        }
        self.count_set_options(&instructions.apply, change);
        self.count_set_options(&instructions.write, change);
    }

    /// Removes the flows that use a group or a meter. Looks at all flows.
    pub(super) fn remove_users(
        &mut self,
        uses: impl Fn(&Flow) -> bool,
        reason: RemovedReason,
        changes: &mut Changes,
    ) {
        let uses = |flow: &&Flow| uses(flow);
        let tables = self.used_tables();
        let flows: Vec<_> =
            tables.iter().flat_map(|table| self.flows(*table).filter(uses).cloned()).collect();
        self.work += tables.iter().map(|table| self.len(*table)).sum::<usize>();
        self.remove_all(flows, reason, changes);
    }

    /// Key of a number in the maps of groups and meters.
    pub(super) fn number_key(&self, id: u32) -> u64 {
        key(self.seed, id)
    }

    /// Key of a group that buckets execute in the map of uses.
    pub(super) fn chained_key(&self, id: u32) -> u64 {
        fold(key(self.seed, id), 2 << 32)
    }
}

fn key(seed: u64, id: u32) -> u64 {
    fold(seed, id.into())
}

impl std::fmt::Debug for Tables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let flows = self.used_tables().into_iter().flat_map(|table| self.flows(table).collect::<Vec<_>>());
        let flows = flows.map(|flow| {
            let entry = flow.entry();
            (entry.table().0, entry.priority(), entry.matching(), flow.instructions())
        });
        f.debug_list().entries(flows).entries(self.groups()).entries(self.meters()).finish()
    }
}
