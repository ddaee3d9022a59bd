//! Flows that packets add (ovs-actions(7), `learn`).
//!
//! `delete_learned`: flows with such an action are counted by table and cookie of the flows that it adds; the removal
//! of the last one removes these. `limit`: the flows of its table and cookie are counted as long as a flow has the
//! action, so that a worker need not count them.

use super::apply::{Changes, RemovedReason};
use super::flow::{Entry, Flow, visit};
use super::log::Change;
use super::snapshot::Tables;
use super::{ActionError, limits};
use crate::action::{Action, Instructions, Learn};
use crate::lookup::fold;
use crate::modify::{FlowMod, TableId};
use port::Now;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Flags of `NXT_LEARN` (nicira-ext.h).
const DELETE_LEARNED: u16 = 2;
pub(crate) const WRITE_RESULT: u16 = 4;

/// The flow whose `learn` action makes another flow.
#[derive(Clone, Debug)]
pub struct Parent(Flow);

impl Parent {
    pub(crate) fn new(flow: &Flow) -> Self {
        Self(flow.clone())
    }

    pub(crate) fn entry(&self) -> &Arc<Entry> {
        self.0.entry()
    }

    /// Whether the tables have the flow with the same instructions.
    fn is_in(&self, tables: &Tables) -> bool {
        let entry = self.0.entry();
        let found = tables.exact(entry.table(), &entry.matching(), entry.priority());
        found.is_some_and(|found| Self(found.clone()) == *self)
    }
}

impl PartialEq for Parent {
    fn eq(&self, other: &Self) -> bool {
        self.0.is(other.0.entry()) && Arc::ptr_eq(self.0.instructions(), other.0.instructions())
    }
}

impl Eq for Parent {}

/// A flow that a packet has learned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LearnedFlow {
    /// The flow.
    pub flow: FlowMod,
    /// Maximum number of flows with its table and cookie; 0 for no limit.
    pub limit: u32,
    /// Flow that learns it. It is not added once the tables have this flow no longer. `None` for a packet-out.
    pub parent: Option<Parent>,
}

/// Timeouts that a packet with FIN or RST gives a flow (ovs-actions(7), `fin_timeout`).
#[derive(Clone, Debug)]
pub struct Reduction {
    /// The flow.
    pub entry: Arc<Entry>,
    /// Idle and hard timeout in seconds; 0 for no change.
    pub to: (u16, u16),
}

impl Reduction {
    /// The new timeouts; `None` if they are as low already.
    pub(crate) fn lower(&self) -> Option<(u16, u16)> {
        let before = self.entry.timeouts();
        Some(lower(before, self.to)).filter(|after| *after != before)
    }
}

fn lower(before: (u16, u16), to: (u16, u16)) -> (u16, u16) {
    let one = |before, to| match (before, to) {
        (before, 0) => before,
        (0, to) => to,
        (before, to) => std::cmp::min(before, to),
    };
    (one(before.0, to.0), one(before.1, to.1))
}

/// State of a learned flow in the tables.
pub(crate) enum Learning<'a> {
    /// The flow.
    Known(&'a Flow),
    /// Another flow with this match and priority, which is newer than the packet.
    Superseded,
    /// Not the flow, and the limit is reached.
    Full,
    /// Not the flow.
    Unknown,
}

/// Flows with a limit, by table, cookie and limit.
pub(super) type Limits = BTreeMap<(TableId, u64, u32), Limited>;

#[derive(Clone)]
pub(super) struct Limited {
    /// Flows of the table and cookie.
    pub(super) flows: usize,
    /// `learn` actions with this limit.
    pub(super) users: usize,
    /// Whether one of them writes its result, so that translations depend on whether the limit is reached.
    is_read: bool,
}

/// The `learn` actions of a flow.
fn learns(instructions: &Instructions) -> Vec<&Learn> {
    let mut found = Vec::new();
    visit(&instructions.apply, &mut |action| {
        if let Action::Learn(learn) = action {
            found.push(&**learn);
        }
    });
    found
}

impl Tables {
    /// Whether the flow that has learned another one was removed or modified since.
    pub(super) fn is_orphan(&self, learned: &LearnedFlow) -> bool {
        learned.parent.as_ref().is_some_and(|parent| !parent.is_in(self))
    }

    /// State in the tables of a flow that a packet at `used` has learned.
    pub(crate) fn learning(&self, learned: &LearnedFlow, used: Now) -> Learning<'_> {
        let flow = &learned.flow;
        let table = self.table(flow.table);
        match table.and_then(|table| table.classifier.exact(&flow.matching, flow.priority)) {
            Some(found) if found.is_made_by(flow) => Learning::Known(found),
            Some(found) if found.entry().refreshed() > used => Learning::Superseded,
            _ if self.is_limit_reached(learned) => Learning::Full,
            _ => Learning::Unknown,
        }
    }

    /// The limits of the actions of flows are known; a packet-out has none.
    fn is_limit_reached(&self, learned: &LearnedFlow) -> bool {
        let limited = self.limits.get(&(learned.flow.table, learned.flow.cookie, learned.limit));
        limited.is_some_and(|limited| limited.flows >= learned.limit as usize)
    }

    /// Checks that a further limit can be counted.
    pub(super) fn check_limit(&self, learn: &Learn) -> Result<(), ActionError> {
        let is_counted =
            learn.limit == 0 || self.limits.contains_key(&(learn.table, learn.cookie, learn.limit));
        if is_counted || self.limits.len() < limits::LEARN_LIMITS {
            Ok(())
        } else {
            Err(ActionError::TooMany)
        }
    }

    /// Flows that must be counted for the limits of `learn` actions that no flow has yet.
    pub(super) fn to_count(&self, instructions: &Instructions) -> usize {
        let is_new = |learn: &&&Learn| {
            learn.limit != 0 && !self.limits.contains_key(&(learn.table, learn.cookie, learn.limit))
        };
        learns(instructions).iter().filter(is_new).map(|learn| self.len(learn.table)).sum()
    }

    /// Counts the `learn` actions of an added flow.
    pub(super) fn start_learning(&mut self, instructions: &Instructions) {
        for learn in learns(instructions) {
            if learn.flags & DELETE_LEARNED != 0 {
                self.uses.add(self.learn_key(learn.table, learn.cookie));
            }
            if learn.limit != 0 {
                self.start_limit(learn);
            }
        }
    }

    fn start_limit(&mut self, learn: &Learn) {
        let flows = self.flows(learn.table).filter(|flow| flow.entry().cookie() == learn.cookie);
        let new = || Limited { flows: flows.count(), users: 0, is_read: false };
        let key = (learn.table, learn.cookie, learn.limit);
        let mut limited = self.limits.get(&key).cloned().unwrap_or_else(new);
        limited.users += 1;
        limited.is_read |= learn.flags & WRITE_RESULT != 0;
        Arc::make_mut(&mut self.limits).insert(key, limited);
    }

    /// Takes back [`Tables::start_learning`] for a removed flow.
    pub(super) fn stop_learning(&mut self, instructions: &Instructions) {
        for learn in learns(instructions) {
            if learn.flags & DELETE_LEARNED != 0 {
                self.uses.remove(self.learn_key(learn.table, learn.cookie));
                self.orphans.push((learn.table, learn.cookie));
            }
            if learn.limit != 0 {
                self.stop_limit(learn);
            }
        }
    }

    fn stop_limit(&mut self, learn: &Learn) {
        let key = (learn.table, learn.cookie, learn.limit);
        let limits = Arc::make_mut(&mut self.limits);
        let Some(limited) = limits.get_mut(&key) else { return };
        limited.users -= 1;
        if limited.users == 0 {
            limits.remove(&key);
        }
    }

    /// Counts an added or removed flow for the limits of its table and cookie.
    pub(super) fn count_for_limits(&mut self, entry: &Entry, is_added: bool) {
        if self.limits.is_empty() {
            return;
        }
        let (table, cookie) = (entry.table(), entry.cookie());
        let limits = Arc::make_mut(&mut self.limits);
        for ((_, _, limit), limited) in limits.range_mut((table, cookie, 0)..=(table, cookie, u32::MAX)) {
            let is_reached = |flows: usize| flows >= *limit as usize;
            let before = is_reached(limited.flows);
            limited.flows = if is_added { limited.flows + 1 } else { limited.flows.saturating_sub(1) };
            if limited.is_read && is_reached(limited.flows) != before {
                self.log.add(Change::All);
            }
        }
    }

    /// Removes the flows whose last `learn` action with `delete_learned` was removed.
    pub(super) fn remove_orphans(&mut self, changes: &mut Changes) {
        while let Some((table, _)) = self.orphans.last().copied() {
            // One pass finds the flows of all cookies of a table.
            let of_table: BTreeSet<_> = self.orphans.extract_if(.., |(other, _)| *other == table).collect();
            let is_orphan = |cookie: u64| {
                of_table.contains(&(table, cookie)) && !self.uses.contains(self.learn_key(table, cookie))
            };
            let flows = self.flows(table).filter(|flow| is_orphan(flow.entry().cookie()));
            let flows: Vec<_> = flows.cloned().collect();
            self.work += self.len(table);
            self.remove_all(flows, RemovedReason::Delete, changes);
        }
    }

    /// Key of a table and cookie in the map of uses.
    fn learn_key(&self, table: TableId, cookie: u64) -> u64 {
        fold(fold(self.seed, cookie), 1 << 32 | u64::from(table.0))
    }
}

impl Flow {
    /// Whether an addition of `change` has made the flow, possibly before its connection ended, or would change
    /// nothing.
    fn is_made_by(&self, change: &FlowMod) -> bool {
        let (entry, timeouts) = (self.entry(), (change.idle_timeout, change.hard_timeout));
        let ended = change.instructions.apply.iter().find_map(|action| match action {
            Action::FinTimeout { idle, hard } => Some(lower(timeouts, (*idle, *hard))),
            _ => None,
        });
        entry.cookie() == change.cookie
            && (entry.timeouts() == timeouts || Some(entry.timeouts()) == ended)
            && entry.flags() == change.flags
            && **self.instructions() == change.instructions
    }
}
