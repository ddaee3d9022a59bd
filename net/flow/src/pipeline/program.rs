//! Programs: what a worker does with each packet of a megaflow.

use super::directory::{Bridge, PortChanges, View};
use super::exchange::Effects;
use crate::cache::Megaflow;
use crate::modify::{PortNo, TableId};
use crate::tables::{Change, Entry, GroupCounter};
use crate::translate::{Operation, Seen, Translation};
use crate::{Field, Key};
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
    pub(super) reads: Reads,
    /// Whether it depends on which ports can send.
    is_live: bool,
    /// Record of its lookups.
    seen: Vec<Seen>,
    flows: Vec<Arc<Entry>>,
    /// The bridge and the last table, if all packets are dropped.
    drops: Option<(Arc<Bridge>, TableId)>,
    groups: Vec<u32>,
    counters: Vec<Arc<GroupCounter>>,
    /// Flows that its packets learn or end.
    pub(super) effects: Effects,
    /// Whether control had no room for some of them.
    pub(super) is_unlearned: bool,
}

const _: () = assert!(size_of::<Form>() == 16);
const _: () = assert!(offset_of!(Megaflow<Program>, value) + offset_of!(Program, reads) <= LINE);

/// Dependencies of a result that the head cache must know.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reads {
    /// The ingress port, and nothing else.
    Port,
    /// Bytes that heads have.
    Head,
    /// The time to live too.
    Ttl,
    /// Dependencies that heads do not contain.
    Other,
}

impl Reads {
    fn new(mask: &Key) -> Self {
        let is_tunnel = mask.words()[Key::TUNNEL].iter().any(|word| *word != 0);
        if is_tunnel || mask.get(Field::TcpFlags) != 0 {
            Self::Other
        } else if mask.get(Field::IpTtl) != 0 {
            Self::Ttl
        } else if *mask == ingress() {
            Self::Port
        } else {
            Self::Head
        }
    }
}

/// Dependencies of every result: one ingress port and one place in the pipeline.
pub(super) fn ingress() -> Key {
    let mut mask = Key::ZERO;
    mask.set(Field::InPort, u128::MAX);
    mask.set(Field::RecircId, u128::MAX);
    mask
}

impl Program {
    pub(super) fn new(translation: Translation, (view, ports): (&View, u64)) -> Self {
        let Translation {
            operations, mask, last, seen, flows, groups, counters, live, learned, reduced, ..
        } = translation;
        let form = match operations.as_slice() {
            [] if flows.is_empty() => Form::NoFlow,
            [] => Form::Drop,
            [Operation::Output(port)] => {
                forward(view, *port).unwrap_or_else(|| Form::Operations(Arc::new(operations)))
            }
            _ => Form::Operations(Arc::new(operations)),
        };
        let effects = Effects::new(learned, reduced);
        let drops = matches!(form, Form::NoFlow | Form::Drop).then(|| (view.bridge.clone(), last));
        let is_unlearned = false;
        Self {
            form,
            ports,
            reads: Reads::new(&mask),
            is_live: live,
            seen,
            flows,
            drops,
            groups,
            counters,
            effects,
            is_unlearned,
        }
    }

    /// Whether a change of the tables may make the result wrong for packets that agree with `key` in the bits of `mask`.
    pub(super) fn is_affected(&self, change: &Change, (key, mask): &(Key, Key)) -> bool {
        match change {
            Change::Flow(entry) => self.seen.iter().any(|seen| seen.may_find(entry, key, mask)),
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
