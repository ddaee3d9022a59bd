//! Programs: what a worker does with each packet of a megaflow.

use super::directory::{Bridge, PortChanges, View};
use crate::cache::Megaflow;
use crate::modify::{PortNo, TableId};
use crate::tables::{Change, Entry, GroupCounter, LearnedFlow};
use crate::translate::{Operation, Seen, Translation};
use crate::{Key, Match};
use mem::line::LINE;
use port::{Now, PortId};
use std::mem::offset_of;
use std::sync::Arc;

/// Form of the operations.
#[derive(Clone)]
pub(super) enum Form {
    /// No flow matched.
    NoFlow,
    /// The flows have no output.
    Drop,
    /// Unmodified to one port.
    Forward(PortId),
    /// Anything. A thin pointer, so that the form has 16 bytes.
    Operations(Arc<Vec<Operation>>),
}

/// Result of a translation, and what it depends on. What each packet needs comes first ([`Megaflow`]).
#[repr(C)]
pub(super) struct Program {
    pub(super) form: Form,
    /// The latest change of the ports for which it was known to be right.
    pub(super) ports: u64,
    /// Selects the packets to which it applies, as they were before translation.
    pub(super) matching: Match,
    /// Whether it depends on which ports can send.
    is_live: bool,
    /// What its lookups have seen.
    seen: Vec<Seen>,
    flows: Vec<Arc<Entry>>,
    /// The bridge and the last table, if all packets are dropped.
    drops: Option<(Arc<Bridge>, TableId)>,
    groups: Vec<u32>,
    counters: Vec<Arc<GroupCounter>>,
    /// Flows that its packets learn.
    pub(super) learned: Box<[Arc<LearnedFlow>]>,
    /// Whether control had no room for some of them.
    pub(super) is_unlearned: bool,
}

const _: () = assert!(size_of::<Form>() == 16);
const _: () = assert!(offset_of!(Megaflow<Program>, value) + offset_of!(Program, matching) <= LINE);

impl Program {
    pub(super) fn new(translation: Translation, key: &Key, (view, ports): (&View, u64)) -> Self {
        let Translation { operations, mask, last, seen, flows, groups, counters, live, learned, .. } =
            translation;
        let form = match operations.as_slice() {
            [] if flows.is_empty() => Form::NoFlow,
            [] => Form::Drop,
            [Operation::Output(port)] => {
                forward(view, *port).unwrap_or_else(|| Form::Operations(Arc::new(operations)))
            }
            _ => Form::Operations(Arc::new(operations)),
        };
        let (matching, learned) = (Match::new(key, &mask), learned.into_iter().map(Arc::new).collect());
        let drops = matches!(form, Form::NoFlow | Form::Drop).then(|| (view.bridge.clone(), last));
        let is_unlearned = false;
        Self {
            form,
            ports,
            matching,
            is_live: live,
            seen,
            flows,
            drops,
            groups,
            counters,
            learned,
            is_unlearned,
        }
    }

    /// Whether a change of the tables may make the result wrong.
    pub(super) fn is_affected(&self, change: &Change) -> bool {
        match change {
            Change::Flow(entry) => {
                let (key, mask) = (self.matching.key(), self.matching.mask());
                self.seen.iter().any(|seen| seen.may_find(entry, key, mask))
            }
            Change::Group(id) => self.groups.contains(id),
            Change::All => true,
        }
    }

    /// Whether no change of the ports has affected the result.
    pub(super) fn follows(&self, ports: &PortChanges) -> bool {
        self.ports >= ports.numbers && (!self.is_live || self.ports >= ports.liveness)
    }

    /// Adds packets to the flows and groups, and to the drops of the last table.
    pub(super) fn credit(&self, packets: u64, bytes: u64, now: Now) {
        self.flows.iter().for_each(|flow| flow.count(packets, bytes, now));
        self.counters.iter().for_each(|counter| counter.add(packets, bytes));
        if let Some((bridge, table)) = &self.drops {
            bridge.counts.drops.add(*table, !self.flows.is_empty(), packets);
        }
    }
}

fn forward(view: &View, port: PortNo) -> Option<Form> {
    view.ports.get(&port).map(|place| Form::Forward(place.port))
}
