//! From a packet's key to the operations on the packet: the OpenFlow 1.3 pipeline, executed once for many packets.
//!
//! [`translate`] walks the tables as OpenFlow 1.3.5, chapter 5, and ovs-actions(7) specify, and returns [`Operation`]s
//! with a mask: the same operations are right for every packet that agrees with the key in the bits of the mask.
//! Changes of fields happen on the key, and become operations before the packet leaves, where they may differ from what
//! the packet has. A result that depends on the execution (a bucket by hash, an expired time to live, the rate of a
//! meter) is an operation, so that it does not narrow the mask.
//!
//! After `ct`, or where a removed header uncovers fields that the key lacks and that are then needed, the rest of the
//! translation becomes a [`Resume`] in [`Operation::Recirculate`]; [`resume`] continues with the new key.

mod act;
mod connection;
mod ct;
mod flow_hash;
mod group;
mod header;
mod learn;
mod operation;
mod pipeline;
mod plain;
mod record;
mod seen;
mod set;
mod state;
#[cfg(test)]
#[expect(clippy::large_types_passed_by_value, reason = "short tests")]
mod tests;
mod tunnel;

#[cfg(test)]
pub(crate) use tests::matching as random_match;

pub(crate) use connection::{request, set_state};
pub use flow_hash::{flow_hash, simple_flow};
pub use operation::{
    ControllerOperation, CtOperation, Encapsulation, Operation, Resume, SelectedBucket, Selection, reason,
    select_slot,
};
pub(crate) use plain::{enter, plain};
pub(crate) use record::Record;
pub use record::{Event, Step};
pub use seen::Seen;

use crate::action::Action;
use crate::key::Key;
use crate::modify::{PortNo, TableId};
use crate::tables::{Entry, GroupCounter, LearnedFlow, Reduction, Tables};
use ::tunnel::{Interface, Path, Paths, Tunnel, Tunnels, Unreachable};
use pipeline::Translator;
use port::PortId;
use std::net::IpAddr;
use std::sync::Arc;

/// Bounds of the work of one translation.
pub mod limits {
    /// Depth of `resubmit`, `clone` and groups in each other.
    pub const DEPTH: usize = 64;
    /// Lookups.
    pub const LOOKUPS: usize = 4096;
    /// Operations.
    pub const OPERATIONS: usize = 4096;
    /// Learned flows, and flows whose timeouts become lower.
    pub const LEARNED: usize = 64;
    /// Values on the stack.
    pub const STACK: usize = 1024;
}

/// State outside of the tables that translations depend on. Results must be discarded when it changes.
pub trait Environment {
    /// Whether a port can send.
    fn is_live(&self, port: PortNo) -> bool;

    /// The tunnel that a port is, if any.
    fn tunnel(&self, port: PortNo) -> Option<&Tunnel> {
        let _ = port;
        None
    }

    /// Ports that are tunnels, or those of them that get flooded packets.
    fn tunnels(&self, flooded: bool) -> Vec<PortNo> {
        let _ = flooded;
        Vec::new()
    }

    /// The addresses of the bridge itself, if any, and the tunnels that end there.
    fn local(&self) -> Option<Local<'_>> {
        None
    }

    /// The path to the remote end of a tunnel.
    ///
    /// # Errors
    /// If there is none.
    fn path(&self, source: Option<IpAddr>, destination: IpAddr) -> Result<Path, Unreachable> {
        let _ = (source, destination);
        Err(Unreachable::NoRoute)
    }

    /// Translates a packet of the bridge itself on another bridge; `None` if that must be done when it gets there.
    fn underlay(&self, bridge: u16, key: &Key) -> Option<Translation> {
        let _ = (bridge, key);
        None
    }
}

/// The addresses of a bridge.
#[derive(Clone, Copy, Debug)]
pub struct Local<'a> {
    /// Number of the bridge.
    pub bridge: u16,
    /// Addresses.
    pub interface: &'a Interface,
    /// Neighbours.
    pub paths: &'a Paths,
    /// Tunnels that end at the addresses.
    pub tunnels: &'a Tunnels<PortId>,
}

/// Why a packet is dropped instead of executing its actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TranslateError {
    /// [`limits::DEPTH`].
    #[error("resubmits, clones or groups are nested too deeply")]
    TooDeep,
    /// [`limits::LOOKUPS`].
    #[error("too many lookups")]
    TooManyLookups,
    /// [`limits::OPERATIONS`].
    #[error("too many operations")]
    TooManyOperations,
    /// [`limits::STACK`].
    #[error("too many values on the stack")]
    StackTooDeep,
}

/// Result of a translation.
#[derive(Clone, Debug)]
pub struct Translation {
    /// Operations on each packet, in order. Without an output, the packet is dropped.
    pub operations: Vec<Operation>,
    /// Bits of the key that the result depends on.
    pub mask: Key,
    /// Record of the lookups.
    pub seen: Vec<Seen>,
    /// The last table that was looked up.
    pub last: TableId,
    /// Flows that were executed.
    pub flows: Vec<Arc<Entry>>,
    /// Groups that were executed.
    pub groups: Vec<u32>,
    /// Counters of these groups, and of their buckets as far as all packets get to the same ones.
    pub counters: Vec<Arc<GroupCounter>>,
    /// Meters that were applied.
    pub meters: Vec<u32>,
    /// Whether it depends on the [`Environment`].
    pub live: bool,
    /// Flows to add, for `learn`.
    pub learned: Vec<LearnedFlow>,
    /// Flows whose timeouts become lower, for `fin_timeout`.
    pub reduced: Vec<Reduction>,
    /// Why the packet is dropped.
    pub error: Option<TranslateError>,
    /// Whether the packet is a fragment that is dropped before the first table.
    pub is_refused: bool,
}

impl Translation {
    /// Whether `table` was looked up.
    pub fn visited(&self, table: TableId) -> bool {
        self.seen.iter().any(|seen| seen.visited(table))
    }
}

/// Translates a packet that was received on `in_port`.
pub fn translate(tables: &Tables, key: &Key, in_port: PortNo, environment: &impl Environment) -> Translation {
    Translator::new(tables, (environment, ()), key, Some(in_port)).run_table(TableId(0))
}

/// Translates the actions of a packet-out; `in_port` is that of the message.
pub fn translate_actions(
    tables: &Tables,
    key: &Key,
    in_port: PortNo,
    actions: &[Action],
    environment: &impl Environment,
) -> Translation {
    Translator::new(tables, (environment, ()), key, Some(in_port)).run_actions(actions)
}

/// Continues after a recirculation. `key` has the fields of the packet as it is now, and the metadata of the packet as
/// it was received.
pub fn resume(tables: &Tables, key: &Key, resume: &Resume, environment: &impl Environment) -> Translation {
    Translator::new(tables, (environment, ()), key, None).run_resume(resume)
}

/// As [`translate`], or as [`resume`] with a rest, of a packet whose key has its ingress port; fills a record.
pub(crate) fn translate_recorded(
    tables: &Tables,
    key: &Key,
    rest: Option<&Resume>,
    environment: &impl Environment,
    record: &mut Record,
) -> Translation {
    let translator = Translator::new(tables, (environment, record), key, None);
    match rest {
        None => translator.run_table(TableId(0)),
        Some(rest) => translator.run_resume(rest),
    }
}
