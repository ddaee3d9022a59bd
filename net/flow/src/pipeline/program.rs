//! Programs: what a worker does with each packet of a megaflow.

use super::directory::{Bridge, PortChanges, View};
use super::exchange::Effects;
use crate::cache::Megaflow;
use crate::modify::{PortNo, TableId};
use crate::tables::{Change, Entry, GroupCounter};
use crate::translate::{CtOperation, Operation, Resume, Seen, Translation};
use crate::{Field, Key};
use conntrack::State;
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

/// Result of a translation and its dependencies. The fields that each packet needs come first ([`Megaflow`]).
#[repr(C)]
pub(super) struct Program {
    pub(super) form: Form,
    /// The latest change of the ports for which it was known to be right.
    pub(super) ports: u64,
    pub(super) reads: Reads,
    /// Whether it depends on which ports can send.
    is_live: bool,
    /// With what else packets need after connection tracking, in the second line.
    state: StateMatch,
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

/// Fields of the connection state that packets of a result have, each with the bits that count.
struct StateMatch {
    bits: (u32, u32),
    mark: (u32, u32),
    /// In words, because the alignment of 16 bytes would push other fields out of their cache line.
    label: ([u64; 2], [u64; 2]),
}

impl StateMatch {
    fn new(key: &Key, mask: &Key) -> Self {
        let field = |field| (key.get(field) & mask.get(field), mask.get(field));
        let short = |name| {
            let (value, mask) = field(name);
            (value as u32, mask as u32)
        };
        let label = field(Field::CtLabel);
        let label = (halves(label.0), halves(label.1));
        Self { bits: short(Field::CtState), mark: short(Field::CtMark), label }
    }
}

const _: () = assert!(size_of::<Form>() == 16);
const _: () = assert!(size_of::<Megaflow<Program>>() == 5 * LINE);
const _: () = assert!(offset_of!(Megaflow<Program>, value) + offset_of!(Program, reads) <= LINE);

fn halves(value: u128) -> [u64; 2] {
    [(value >> 64) as u64, value as u64]
}

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
    /// Result for packets with `key` in the bits of the translation's mask.
    pub(super) fn new(translation: Translation, key: &Key, (view, ports): (&View, u64)) -> Self {
        let Translation {
            operations,
            mask,
            last,
            seen,
            flows,
            groups,
            counters,
            live,
            learned,
            reduced,
            is_refused,
            ..
        } = translation;
        let form = match operations.as_slice() {
            [] if flows.is_empty() && !is_refused => Form::NoFlow,
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
            state: StateMatch::new(key, &mask),
        }
    }

    /// Whether packets of the result may have this connection state, if they have the same connection.
    pub(super) fn accepts(&self, state: &State) -> bool {
        let StateMatch { bits, mark, label: (value, mask) } = &self.state;
        let [high, low] = halves(state.label);
        state.bits & bits.1 == bits.0
            && state.mark & mark.1 == mark.0
            && [high & mask[0], low & mask[1]] == *value
    }

    /// Whether a change of the tables may make the result wrong for packets that agree with `key` in the bits of
    /// `mask`.
    pub(super) fn is_affected(&self, change: &Change, (key, mask): &(Key, Key)) -> bool {
        match change {
            Change::Flow(entry) => self.seen.iter().any(|seen| seen.may_find(entry, key, mask)),
            Change::Group(id) => self.groups.contains(id),
            Change::All => true,
        }
    }

    /// The connection tracking of packets that do nothing else before they continue.
    pub(super) fn tracking(&self) -> Option<&CtOperation> {
        let Form::Operations(operations) = &self.form else { return None };
        tracking(operations).map(|(operation, _)| operation)
    }

    /// The connection that unchanged packets add before they are sent to a port, if they do nothing else.
    pub(super) fn addition(&self) -> Option<(&CtOperation, PortNo)> {
        let Form::Operations(operations) = &self.form else { return None };
        match operations.as_slice() {
            [Operation::Ct(operation), Operation::Output(port)] if operation.nat.is_none() => {
                Some((operation, *port))
            }
            _ => None,
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

/// See [`Program::tracking`]; with the rest of the translation, in which the packets continue.
pub(super) fn tracking(operations: &[Operation]) -> Option<(&CtOperation, &Arc<Resume>)> {
    let [Operation::Clone(copy)] = operations else { return None };
    match &**copy {
        [Operation::Ct(operation), Operation::Recirculate(rest)] if operation.resumes => {
            Some((operation, rest))
        }
        _ => None,
    }
}

fn forward(view: &View, port: PortNo) -> Option<Form> {
    view.output(port).ok().map(|place| Form::Forward(place.port))
}
