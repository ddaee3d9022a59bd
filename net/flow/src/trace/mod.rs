//! Traces: the way of one packet through the tables, step by step, as `ofproto/trace` of Open vSwitch shows it.
//!
//! [`trace`] translates a packet as a worker does, with a record, and follows its recirculations. Nothing is counted,
//! sent or cached, and meters are not charged. After `ct`, a packet has the state that was given, or that of its
//! connection as it is now, which does not change.

mod connections;
mod fields;
mod follow;
mod packet;
#[cfg(test)]
mod tests;

pub use connections::Connections;
pub use fields::{FieldChange, Fields, exact};
pub use packet::{MissingPort, TracedPacket};

use crate::key::Key;
use crate::modify::TableId;
use crate::packet::ActionError;
use crate::tables::Tables;
use crate::translate::{Environment, Event, Record, Step, TranslateError, Translation, translate_recorded};
use crate::{Field, PortNo};
use ::tunnel::Unreachable;
use follow::Follower;
use std::collections::VecDeque;

/// Passes of one trace; later ones are left out.
const PASSES: usize = 32;

/// The way of a packet.
#[derive(Clone, Debug)]
pub struct Trace {
    /// The pass of the received packet, and one for each recirculation.
    pub passes: Vec<Pass>,
    /// Recirculations beyond the maximum of 32 passes.
    pub omitted: usize,
}

/// One pass through the tables.
#[derive(Clone, Debug)]
pub struct Pass {
    /// The packet as the pass begins.
    pub packet: Key,
    /// Tables that were looked up and actions that were executed.
    pub steps: Vec<Step>,
    /// Steps beyond the maximum of 1000.
    pub omitted: usize,
    /// The packet after all steps.
    pub last: Key,
    /// Operations and mask of the megaflow that a worker installs.
    pub translation: Translation,
    /// Outcome of the packet.
    pub verdict: Verdict,
}

/// Outcome of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// At least one output, unless a meter drops it.
    Sent,
    /// The time to live expires: the rest of the operations is not executed, and controllers get the packet.
    Expired,
    /// It is dropped.
    Dropped(DropCause),
}

/// Why a packet is dropped. Each reads as the drop reason that counts it, and the cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DropCause {
    /// No flow was executed.
    #[error("no-flow: no flow of table {} matches", .0.0)]
    NoFlow(TableId),
    /// The last table has no flow for it, and the flows before have no output.
    #[error("flow-drop: no flow of table {} matches, and earlier ones have no output", .0.0)]
    Miss(TableId),
    /// The flows have no output.
    #[error("flow-drop: the flows have no output")]
    NoOutput,
    /// The translation failed.
    #[error("flow-drop: {0}")]
    Failed(TranslateError),
    /// The remote end of a tunnel cannot be reached.
    #[error("tunnel: {0}")]
    Tunnel(Unreachable),
    /// An action does not fit the packet.
    #[error("action-failed: {0}")]
    Action(ActionError),
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Sent => f.write_str("sent"),
            Self::Expired => f.write_str("sent to controllers: the time to live expires"),
            Self::Dropped(cause) => write!(f, "dropped, {cause}"),
        }
    }
}

/// Traces a packet.
pub fn trace(
    tables: &Tables,
    packet: &TracedPacket,
    environment: &impl Environment,
    connections: &mut Connections<'_>,
) -> Trace {
    let (mut passes, mut waiting) = (Vec::new(), VecDeque::from([(None, packet.clone())]));
    while passes.len() < PASSES {
        let Some((rest, mut packet)) = waiting.pop_front() else { break };
        packet.key.set(Field::RecircId, passes.len() as u128);
        let mut record = Record::new(&packet.key);
        let rest = rest.as_deref();
        let mut translation = translate_recorded(tables, &packet.key, rest, environment, &mut record);
        // As a worker does: a result is for one ingress port and one place in the pipeline.
        translation.mask.set(Field::InPort, Field::InPort.full());
        translation.mask.set(Field::RecircId, Field::RecircId.full());
        let mut follower = Follower::new(&packet, &record, connections);
        follower.run(&translation.operations);
        waiting.extend(std::mem::take(&mut follower.rests));
        let verdict = follower.verdict.unwrap_or_else(|| Verdict::Dropped(cause(&translation, &record)));
        let Record { steps, omitted, last, .. } = record;
        passes.push(Pass { packet: packet.key, steps, omitted, last, translation, verdict });
    }
    Trace { passes, omitted: waiting.len() }
}

/// Why operations without an output have none.
fn cause(translation: &Translation, record: &Record) -> DropCause {
    match (translation.error, record.steps.last().map(|step| &step.event)) {
        (Some(error), _) => DropCause::Failed(error),
        (None, Some(Event::Miss(table))) if translation.flows.is_empty() => DropCause::NoFlow(*table),
        (None, Some(Event::Miss(table))) => DropCause::Miss(*table),
        _ => DropCause::NoOutput,
    }
}

impl Pass {
    /// The packet as the pass begins, with all fields that it has.
    pub fn flow(&self) -> Fields {
        Fields::all(&self.packet)
    }

    /// The packet after all steps; `None` if no step changed it.
    pub fn final_flow(&self) -> Option<Fields> {
        let last = Fields::all(&self.last);
        (last != self.flow()).then_some(last)
    }

    /// The fields that the result depends on.
    pub fn megaflow(&self) -> Fields {
        Fields { packet: self.packet, mask: self.translation.mask }
    }

    /// Ingress port.
    pub fn in_port(&self) -> PortNo {
        PortNo(self.packet.get(Field::InPort) as u32)
    }
}
