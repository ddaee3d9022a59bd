//! Programs: what a worker does with each packet of a megaflow.

use super::directory::{Bridge, View};
use crate::modify::{PortNo, TableId};
use crate::tables::{Change, Entry, LearnedFlow};
use crate::translate::{Operation, Translation};
use crate::{Key, Match};
use port::{Now, PortId};
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
    /// Anything.
    Operations(Arc<[Operation]>),
}

/// Result of a translation, and what it depends on.
pub(super) struct Program {
    pub(super) form: Form,
    /// Selects the packets to which it applies, as they were before translation.
    pub(super) matching: Match,
    /// Generation of the ports whose numbers it has.
    pub(super) ports: u64,
    /// Whether a lookup may have seen another key than the packet's.
    changes_key: bool,
    tables: [u64; 4],
    flows: Vec<Arc<Entry>>,
    /// The bridge and the last table, if all packets are dropped.
    drops: Option<(Arc<Bridge>, TableId)>,
    groups: Vec<u32>,
    /// Flows that its packets learn.
    pub(super) learned: Box<[Arc<LearnedFlow>]>,
    /// Whether control had no room for some of them.
    pub(super) is_unlearned: bool,
}

impl Program {
    pub(super) fn new(translation: Translation, key: &Key, (view, ports): (&View, u64)) -> Self {
        let Translation { operations, mask, tables, last, lookups, flows, groups, learned, .. } = translation;
        let form = match operations.as_slice() {
            [] if flows.is_empty() => Form::NoFlow,
            [] => Form::Drop,
            [Operation::Output(port)] => forward(view, *port).unwrap_or(Form::Operations(operations.into())),
            _ => Form::Operations(operations.into()),
        };
        // Only the first lookup sees the key as received for sure, and only if it is that of the first table.
        let changes_key = lookups > 1 || tables != [1, 0, 0, 0];
        let (matching, learned) = (Match::new(key, &mask), learned.into_iter().map(Arc::new).collect());
        let drops = matches!(form, Form::NoFlow | Form::Drop).then(|| (view.bridge.clone(), last));
        let is_unlearned = false;
        Self { form, matching, ports, changes_key, tables, flows, drops, groups, learned, is_unlearned }
    }

    /// Whether a change of the tables may make the result wrong.
    pub(super) fn is_affected(&self, change: &Change) -> bool {
        match change {
            Change::Flow(entry) => {
                let (key, mask) = (self.matching.key(), self.matching.mask());
                self.visited(entry.table()) && (self.changes_key || entry.overlaps(key, mask))
            }
            Change::Group(id) => self.groups.contains(id),
            Change::All => true,
        }
    }

    fn visited(&self, table: TableId) -> bool {
        self.tables[usize::from(table.0 / 64)] >> (table.0 % 64) & 1 == 1
    }

    /// Adds packets to the flows, and to the drops of the last table.
    pub(super) fn credit(&self, packets: u64, bytes: u64, now: Now) {
        self.flows.iter().for_each(|flow| flow.count(packets, bytes, now));
        if let Some((bridge, table)) = &self.drops {
            bridge.counts.drops.add(*table, !self.flows.is_empty(), packets);
        }
    }
}

fn forward(view: &View, port: PortNo) -> Option<Form> {
    view.ports.get(&port).map(|place| Form::Forward(place.port))
}
