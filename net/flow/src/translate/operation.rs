//! Operations on packets, the result of a translation.

use super::flow_hash::flow_hash;
use super::set::ActionSet;
use crate::action::{Action, Instructions, Nat};
use crate::field::Field;
use crate::key::Key;
use crate::matching::Match;
use crate::modify::{PortNo, TableId};
use crate::tables::{GroupCounter, Parent};
use ::tunnel::{Kind, Template, Unreachable};
use std::sync::Arc;

/// Reasons of packets to controllers (OpenFlow 1.5, `ofp_packet_in_reason`).
pub mod reason {
    /// No flow matched, or the table-miss flow did.
    pub const NO_MATCH: u8 = 0;
    /// Output of an action.
    pub const ACTION: u8 = 1;
    /// The time to live has expired.
    pub const INVALID_TTL: u8 = 2;
    /// Output of an action set.
    pub const ACTION_SET: u8 = 3;
}

/// Operation on a packet.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// Sends to a port, possibly [`PortNo::LOCAL`].
    Output(PortNo),
    /// Sends to all ports but `except`.
    All {
        /// Ingress port.
        except: PortNo,
    },
    /// Sends to all ports with flooding but `except`.
    Flood {
        /// Ingress port.
        except: PortNo,
    },
    /// Forwards like a learning bridge; `in_port` is the ingress port.
    Normal {
        /// Ingress port.
        in_port: PortNo,
    },
    /// Sends to controllers.
    Controller(Box<ControllerOperation>),
    /// Sets bits of a field.
    Set {
        /// Field.
        field: Field,
        /// Value, 0 outside of the mask.
        value: u128,
        /// Bits to set.
        mask: u128,
    },
    /// Adds a VLAN tag with this TPID, and the VLAN and priority of the outer tag; 0 without one.
    PushVlan(u16),
    /// Removes the outer VLAN tag.
    PopVlan,
    /// Adds a label stack entry with this EtherType, and the fields of the outer entry (OpenFlow 1.3.5, 5.12.1).
    PushMpls(u16),
    /// Removes the outer label stack entry; the EtherType of what follows.
    PopMpls(u16),
    /// Adds a backbone service tag with this EtherType.
    PushPbb(u16),
    /// Removes the backbone service tag.
    PopPbb,
    /// Decrements the time to live of the outer label stack entry. A packet at 0 or 1 goes to the controllers as
    /// invalid, and later operations of its list do not apply.
    DecMplsTtl,
    /// Decrements the time to live or hop limit, as above, with the identifiers of the controllers.
    DecNwTtl(Box<[u16]>),
    /// Copies the time to live outwards.
    CopyTtlOut,
    /// Copies the time to live inwards.
    CopyTtlIn,
    /// Applies a meter. Later operations of the list do not apply to a packet that it drops.
    Meter(u32),
    /// Selects the queue of later outputs.
    Queue(Option<u32>),
    /// Executes one of several lists on a copy of the packet.
    Select(Box<Selection>),
    /// Executes a list on a copy of the packet.
    Clone(Box<[Self]>),
    /// Passes the packet through connection tracking.
    Ct(Box<CtOperation>),
    /// Forgets the connection state.
    CtClear,
    /// Extracts a new key and continues with [`super::resume`].
    Recirculate(Arc<Resume>),
    /// Sends a copy through a tunnel.
    Encapsulate(Box<Encapsulation>),
    /// The remote end of a tunnel cannot be reached: drops the copy for it.
    Unreachable(Unreachable),
    /// Removes the outer headers of a tunnel; the packet continues as one that was received from the tunnel.
    Decapsulate {
        /// Kind of the tunnel.
        kind: Kind,
        /// UDP destination port.
        port: u16,
    },
    /// Delivers to the addresses of the bridge itself.
    Local,
}

/// How packets enter a tunnel.
#[derive(Clone, Debug, PartialEq)]
pub struct Encapsulation {
    /// Port of the tunnel.
    pub port: PortNo,
    /// Outer headers.
    pub template: Template,
    /// Maximum length of the outer IP packet in bytes.
    pub mtu: u16,
    /// Traffic class of the outer header without congestion bits; `None` for that of the payload.
    pub tos: Option<u8>,
    /// Whether the time to live is that of the payload.
    pub inherits_ttl: bool,
    /// Bridge of the underlay, on which the packet continues from [`PortNo::LOCAL`].
    pub bridge: u16,
    /// Operations of that bridge; `None` if they are not the same for all packets, or need the state of the bridge.
    pub then: Option<Box<[Operation]>>,
}

impl Encapsulation {
    /// The output of packets that only get outer headers, if these depend on nothing but the length, the flow and the
    /// traffic class of the packet.
    pub fn plain(&self) -> Option<PortNo> {
        let kind = self.template.kind();
        let is_plain = kind.is_ethernet() && kind != Kind::Erspan && self.template.checksum_start().is_none();
        match self.then.as_deref()? {
            [Operation::Output(port)] if is_plain && !self.inherits_ttl => Some(*port),
            _ => None,
        }
    }
}

/// Output to controllers.
#[derive(Clone, Debug, PartialEq)]
pub struct ControllerOperation {
    /// Bytes; 0xffff for all.
    pub max_len: u16,
    /// Identifier of the controllers.
    pub controller: u16,
    /// See [`reason`].
    pub reason: u8,
    /// Table of the flow.
    pub table: TableId,
    /// Cookie of the flow.
    pub cookie: u64,
    /// Data for the controller.
    pub userdata: Box<[u8]>,
    /// Metadata, registers and the like that the pipeline has written. The others are those of the packet. A worker
    /// adds the ingress port of a packet-out that comes from no port of the bridge.
    pub pipeline: Match,
}

/// Lists of operations of which one is executed.
#[derive(Clone, Debug, PartialEq)]
pub struct Selection {
    /// Group.
    pub group: u32,
    /// Position in `buckets` for each [`select_slot`].
    pub slots: Box<[u16]>,
    /// The live buckets.
    pub buckets: Vec<SelectedBucket>,
}

/// A bucket of a select group.
#[derive(Clone, Debug)]
pub struct SelectedBucket {
    /// Operations.
    pub operations: Box<[Operation]>,
    /// Counter of its packets.
    pub counter: Arc<GroupCounter>,
}

impl PartialEq for SelectedBucket {
    fn eq(&self, other: &Self) -> bool {
        self.operations == other.operations && Arc::ptr_eq(&self.counter, &other.counter)
    }
}

impl Selection {
    /// The bucket for the packet with `key`, its key when it was translated.
    pub fn bucket(&self, key: &Key) -> &SelectedBucket {
        &self.buckets[usize::from(self.slots[select_slot(key) % self.slots.len()])]
    }

    /// The operations of [`Selection::bucket`].
    pub fn operations(&self, key: &Key) -> &[Operation] {
        &self.bucket(key).operations
    }
}

/// Connection tracking with all values known.
#[derive(Clone, Debug, PartialEq)]
pub struct CtOperation {
    /// Whether the connection is added.
    pub commit: bool,
    /// Whether an existing connection of the opposite direction is removed first.
    pub force: bool,
    /// Zone.
    pub zone: u16,
    /// IP protocol port of the helper; 0 for none.
    pub helper: u16,
    /// Translation of addresses.
    pub nat: Option<Nat>,
    /// Value and mask for the mark of the connection.
    pub mark: (u32, u32),
    /// Value and mask for the label of the connection.
    pub label: (u128, u128),
    /// Whether the packet recirculates next, with its connection state.
    pub resumes: bool,
}

/// The rest of a translation.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(test, derive(Default))]
pub struct Resume {
    pub(super) steps: Vec<Step>,
    pub(super) set: ActionSet,
    pub(super) stack: Vec<u128>,
    /// Metadata, registers and the like that the pipeline has written.
    pub(super) pipeline: Match,
    pub(super) queue: Option<u32>,
    /// The last flow, which the action set belongs to.
    pub(super) site: Site,
}

impl Resume {
    /// A translation that only outputs to a port.
    pub(crate) fn output(port: PortNo) -> Self {
        let site = Site::NONE;
        let steps = vec![Step::Actions(vec![Action::Output { port, max_len: 0 }], site, None)];
        let (set, stack, pipeline, queue) = (ActionSet::default(), Vec::new(), Match::any(), None);
        Self { steps, set, stack, pipeline, queue, site }
    }
}

/// A part of the rest of a translation.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// Looks up a table; `resubmit`: without consequence if nothing is found.
    Table { table: TableId, resubmit: bool },
    /// Executes actions of a flow, if they are of one.
    Actions(Vec<Action>, Site, Option<Parent>),
    /// Executes the instructions after the applied actions.
    Rest(Arc<Instructions>, Site),
}

/// Flow that an action belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Site {
    pub(super) table: TableId,
    pub(super) cookie: u64,
    pub(super) reason: u8,
}

impl Site {
    /// Of actions that are not those of a flow.
    pub(super) const NONE: Self = Self { table: TableId(0), cookie: u64::MAX, reason: reason::ACTION };
}

#[cfg(test)]
impl Default for Site {
    fn default() -> Self {
        Self::NONE
    }
}

/// Number of the hash value by which a select group selects.
pub fn select_slot(key: &Key) -> usize {
    flow_hash(key) as usize % crate::tables::SLOTS
}

impl Operation {
    /// Whether it can be executed for a packet of another bridge: it needs neither tables, meters, connections,
    /// controllers nor the learning bridge.
    pub(super) fn is_portable(&self) -> bool {
        match self {
            Self::Output(port) => *port <= PortNo::MAX,
            Self::Clone(operations) => operations.iter().all(Self::is_portable),
            Self::Select(selection) => {
                selection.buckets.iter().flat_map(|bucket| &bucket.operations).all(Self::is_portable)
            }
            Self::All { .. } | Self::Flood { .. } | Self::Queue(_) => true,
            change => matches!(change, Self::Set { .. } | Self::PushVlan(_) | Self::PopVlan),
        }
    }

    /// Whether later operations see the same packet as without it.
    pub(super) fn keeps_packet(&self) -> bool {
        matches!(
            self,
            Self::Output(_)
                | Self::All { .. }
                | Self::Flood { .. }
                | Self::Normal { .. }
                | Self::Controller(_)
                | Self::Select(_)
                | Self::Clone(_)
                | Self::Encapsulate(_)
                | Self::Unreachable(_)
                | Self::Local
        )
    }

    /// The action that a rewriter executes for it, if it changes the packet.
    pub(crate) fn change(&self) -> Option<Action> {
        Some(match self {
            Self::Set { field, value, mask } => {
                Action::SetField { field: *field, value: *value, mask: *mask }
            }
            Self::PushVlan(ethertype) => Action::PushVlan(*ethertype),
            Self::PopVlan => Action::PopVlan,
            Self::PushMpls(ethertype) => Action::PushMpls(*ethertype),
            Self::PopMpls(ethertype) => Action::PopMpls(*ethertype),
            Self::PushPbb(ethertype) => Action::PushPbb(*ethertype),
            Self::PopPbb => Action::PopPbb,
            Self::DecMplsTtl => Action::DecMplsTtl,
            Self::DecNwTtl(_) => Action::DecNwTtl(Box::default()),
            Self::CopyTtlOut => Action::CopyTtlOut,
            Self::CopyTtlIn => Action::CopyTtlIn,
            _ => return None,
        })
    }
}
