//! The tables as control changes them: shared instructions, bundles, expiry, and snapshots for workers.

use super::apply::{Changes, RemovedReason};
use super::error::{ActionError, FlowModError, GroupModError, MeterModError};
use super::flow::{Entry, Flow};
use super::learn::{LearnedFlow, Learning, Reduction};
use super::limits;
use super::snapshot::Tables;
use crate::action::{Action, Instructions};
use crate::modify::{FlowCommand, FlowMod, GroupMod, MeterMod};
use crate::options::{OptionChange, OptionMapError};
use port::Now;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

/// Instructions that are remembered in order to share them.
const SHARED: usize = 1024;

/// A change of a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Modification {
    /// Of flows.
    Flow(Box<FlowMod>),
    /// Of groups.
    Group(GroupMod),
    /// Of meters.
    Meter(MeterMod),
    /// Of the map of options.
    Options(OptionChange),
    /// No change: the actions of a packet-out must be valid at this place, or the bundle is refused.
    Packet(Box<[Action]>),
}

/// Why a change of a bundle is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModificationError {
    /// See [`FlowModError`].
    #[error(transparent)]
    Flow(#[from] FlowModError),
    /// See [`GroupModError`].
    #[error(transparent)]
    Group(#[from] GroupModError),
    /// See [`MeterModError`].
    #[error(transparent)]
    Meter(#[from] MeterModError),
    /// See [`OptionMapError`].
    #[error(transparent)]
    Options(#[from] OptionMapError),
    /// Actions of a packet are not valid.
    #[error(transparent)]
    Packet(#[from] ActionError),
    /// The changes before it have looked at [`limits::WORK`] flows.
    #[error("the bundle needs too much work: divide it")]
    Work,
}

/// A flow with a timeout, and a lower bound of the time at which it expires.
struct Deadline {
    at: Now,
    entry: Arc<Entry>,
}

/// Tables, and what is needed to change them.
pub struct Control {
    tables: Tables,
    deadlines: BinaryHeap<Reverse<Deadline>>,
    /// Flows with timeouts in `deadlines` when it was last cleaned.
    cleaned: usize,
    shared: Vec<Option<Arc<Instructions>>>,
    hasher: RandomState,
}

impl Control {
    /// Empty tables. See [`Tables::new`] for `seed`.
    pub fn new(seed: u64) -> Self {
        Self {
            tables: Tables::new(seed),
            deadlines: BinaryHeap::new(),
            cleaned: 0,
            shared: vec![None; SHARED],
            hasher: RandomState::new(),
        }
    }

    /// The tables with all changes.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// The tables, to change their settings.
    pub fn tables_mut(&mut self) -> &mut Tables {
        &mut self.tables
    }

    /// Ends a version and returns it as a snapshot for workers.
    pub fn seal(&mut self) -> Arc<Tables> {
        self.tables.seal()
    }

    /// Executes one change.
    ///
    /// # Errors
    /// If the change is not valid. Nothing is changed then.
    pub fn apply(&mut self, change: &Modification, now: Now) -> Result<Changes, ModificationError> {
        let mut changes = match change {
            Modification::Flow(change) => {
                let instructions = match change.command {
                    FlowCommand::Delete | FlowCommand::DeleteStrict => Arc::default(),
                    _ => self.share(&change.instructions),
                };
                self.tables.apply_shared(change, &instructions, now)?
            }
            Modification::Group(change) => self.tables.apply_group_at(change, now)?,
            Modification::Meter(change) => self.tables.apply_meter(change, now)?,
            Modification::Options(change) => {
                self.tables.apply_options(change)?;
                Changes::default()
            }
            Modification::Packet(actions) => {
                self.tables.check_packet_out(actions)?;
                Changes::default()
            }
        };
        self.tables.remove_orphans(&mut changes);
        self.watch(&changes.added);
        Ok(changes)
    }

    /// Adds a flow that a packet at `used` has learned, or refreshes its timeouts if it exists.
    ///
    /// # Errors
    /// If the flow is not valid, or its table is full. Nothing is changed then.
    pub fn learn(
        &mut self,
        learned: &LearnedFlow,
        used: Now,
        now: Now,
    ) -> Result<Changes, ModificationError> {
        match self.tables.learning(learned, used) {
            _ if self.tables.is_orphan(learned) => {}
            Learning::Known(flow) => flow.entry().refresh(used),
            Learning::Superseded | Learning::Full => {}
            Learning::Unknown => {
                let changes = self.apply(&Modification::Flow(Box::new(learned.flow.clone())), now)?;
                changes.added.iter().for_each(|flow| flow.entry().set_refreshed(used));
                return Ok(changes);
            }
        }
        Ok(Changes::default())
    }

    /// Lowers the timeouts of a flow, if the tables still have it.
    pub fn reduce(&mut self, reduction: &Reduction) {
        if let (Some(flow), Some(timeouts)) = (self.flow(&reduction.entry), reduction.lower()) {
            reduction.entry.set_timeouts(timeouts);
            self.watch(&[flow]);
        }
    }

    /// Executes all changes or none. The next snapshot has all of them.
    ///
    /// # Errors
    /// With the position of the first change that is not valid. Nothing is changed then.
    pub fn bundle(
        &mut self,
        changes: &[Modification],
        now: Now,
    ) -> Result<Changes, (usize, ModificationError)> {
        self.tables.work = 0;
        let before = self.tables.clone();
        let mut done = Changes::default();
        for (i, change) in changes.iter().enumerate() {
            match self.apply_within_budget(change, now) {
                Ok(more) => done.extend(more),
                Err(error) => {
                    // Deadlines of flows that are no longer there are skipped when they pass.
                    self.tables = before;
                    return Err((i, error));
                }
            }
        }
        Ok(done)
    }

    fn apply_within_budget(&mut self, change: &Modification, now: Now) -> Result<Changes, ModificationError> {
        if self.tables.work >= limits::WORK {
            return Err(ModificationError::Work);
        }
        self.apply(change, now)
    }

    /// Removes flows whose timeout has passed. Looks at no more than [`limits::EXPIRED`] flows; must be called again at
    /// [`Control::next_deadline`].
    pub fn expire(&mut self, now: Now) -> Changes {
        let mut changes = Changes::default();
        for _ in 0..limits::EXPIRED {
            let Some(Reverse(due)) = self.deadlines.pop_if_due(now) else { break };
            let Some(flow) = self.flow(&due.entry) else { continue };
            let [idle, hard] = due.entry.deadlines();
            match (hard.is_some_and(|at| at <= now), idle.is_some_and(|at| at <= now)) {
                (true, _) => self.tables.remove_all([flow], RemovedReason::HardTimeout, &mut changes),
                (_, true) => self.tables.remove_all([flow], RemovedReason::IdleTimeout, &mut changes),
                _ => self.watch(&[flow]),
            }
        }
        self.tables.remove_orphans(&mut changes);
        changes
    }

    /// Time of the next call of [`Control::expire`].
    pub fn next_deadline(&self) -> Option<Now> {
        self.deadlines.peek().map(|Reverse(deadline)| deadline.at)
    }

    #[cfg(test)]
    pub(super) fn watched(&self) -> usize {
        self.deadlines.len()
    }

    fn flow(&self, entry: &Arc<Entry>) -> Option<Flow> {
        let found = self.tables.table(entry.table())?.classifier.exact(&entry.matching(), entry.priority());
        found.filter(|flow| flow.is(entry)).cloned()
    }

    pub(super) fn watch(&mut self, flows: &[Flow]) {
        for entry in flows.iter().map(Flow::entry) {
            if let Some(at) = entry.deadlines().into_iter().flatten().min() {
                self.deadlines.push(Reverse(Deadline { at, entry: entry.clone() }));
            }
        }
        // Bounds the flows that were removed before their timeout.
        if self.deadlines.len() > 2 * self.cleaned + limits::EXPIRED {
            self.deadlines.retain(|Reverse(deadline)| Arc::strong_count(&deadline.entry) > 1);
            self.cleaned = self.deadlines.len();
        }
    }

    /// A shared copy of `instructions`.
    pub(super) fn share(&mut self, instructions: &Instructions) -> Arc<Instructions> {
        let slot = &mut self.shared[self.hasher.hash_one(instructions) as usize % SHARED];
        match slot {
            Some(shared) if **shared == *instructions => shared.clone(),
            _ => slot.insert(Arc::new(instructions.clone())).clone(),
        }
    }
}

/// Removal of the first deadline that has passed.
trait PopIfDue {
    fn pop_if_due(&mut self, now: Now) -> Option<Reverse<Deadline>>;
}

impl PopIfDue for BinaryHeap<Reverse<Deadline>> {
    fn pop_if_due(&mut self, now: Now) -> Option<Reverse<Deadline>> {
        if self.peek()?.0.at <= now { self.pop() } else { None }
    }
}

impl PartialEq for Deadline {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for Deadline {}

impl PartialOrd for Deadline {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Deadline {
    fn cmp(&self, other: &Self) -> Ordering {
        self.at.cmp(&other.at)
    }
}
