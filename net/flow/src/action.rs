//! Actions and instructions (OpenFlow 1.3.5, 5.9 and 5.12; ovs-actions(7)).

use crate::field::Field;
use crate::matching::Match;
use crate::modify::{PortNo, TableId};

/// Part of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Subfield {
    /// Field.
    pub field: Field,
    /// Lowest bit.
    pub offset: u8,
    /// Number of bits.
    pub bits: u8,
}

/// A part that exceeds its field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bits {offset} to {end} are not within field `{field}`")]
pub struct BadSubfield {
    field: &'static str,
    offset: u8,
    end: u16,
}

impl Subfield {
    /// The whole field.
    pub fn whole(field: Field) -> Self {
        Self { field, offset: 0, bits: field.info().bits }
    }

    /// `bits` bits from `offset`.
    ///
    /// # Errors
    /// If they are not within the field, or none.
    pub fn new(field: Field, offset: u8, bits: u8) -> Result<Self, BadSubfield> {
        let (name, end) = (field.info().name, u16::from(offset) + u16::from(bits));
        if bits == 0 || end > u16::from(field.info().bits) {
            return Err(BadSubfield { field: name, offset, end });
        }
        Ok(Self { field, offset, bits })
    }

    /// The bits of the part in its field.
    pub fn mask(self) -> u128 {
        u128::MAX >> (128 - self.bits) << self.offset
    }
}

/// Action on a packet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Sends to a port. A controller gets at most `max_len` bytes.
    Output {
        /// Port, possibly a reserved one.
        port: PortNo,
        /// Bytes for a controller; 0xffff for all.
        max_len: u16,
    },
    /// Sends to the port that a field names.
    OutputField {
        /// Number of the port.
        from: Subfield,
        /// Bytes for a controller.
        max_len: u16,
    },
    /// Sends to controllers, with a reason.
    Controller(Box<ControllerOutput>),
    /// Executes a group.
    Group(u32),
    /// Selects the queue of later outputs; `None` for the default (`pop_queue`).
    SetQueue(Option<u32>),
    /// Sets bits of a field (`set_field`, `load`).
    SetField {
        /// Field.
        field: Field,
        /// Value.
        value: u128,
        /// Bits to set.
        mask: u128,
    },
    /// Copies a part of a field to one of another, of the same width.
    Move {
        /// Source.
        from: Subfield,
        /// Destination.
        to: Subfield,
    },
    /// Removes an option of a tunnel: its field is 0 and not present.
    DeleteField(Field),
    /// Pushes a part of a field on the stack.
    StackPush(Subfield),
    /// Pops into a part of a field.
    StackPop(Subfield),
    /// Adds a VLAN tag with this TPID, 0x8100 or 0x88a8.
    PushVlan(u16),
    /// Removes the outer VLAN tag.
    PopVlan,
    /// Adds a label stack entry with this EtherType, 0x8847 or 0x8848.
    PushMpls(u16),
    /// Removes the outer label stack entry; the EtherType of what follows.
    PopMpls(u16),
    /// Adds a backbone service tag with this EtherType, 0x88e7.
    PushPbb(u16),
    /// Removes the backbone service tag.
    PopPbb,
    /// Sets the time to live of the outer label stack entry.
    SetMplsTtl(u8),
    /// Decrements it; a packet at 0 or 1 is invalid.
    DecMplsTtl,
    /// Sets the time to live or hop limit of the IP header.
    SetNwTtl(u8),
    /// Decrements it; a packet at 0 or 1 is invalid and goes to the controllers of these identifiers.
    DecNwTtl(Box<[u16]>),
    /// Copies the time to live from the next to outer header to the outer one.
    CopyTtlOut,
    /// Copies the time to live from the outer to the next to outer header.
    CopyTtlIn,
    /// Applies a meter (an action in OpenFlow 1.5, an instruction before).
    Meter(u32),
    /// Looks up a table and executes what it finds, then continues.
    Resubmit(Resubmit),
    /// Adds a flow made from the packet.
    Learn(Box<Learn>),
    /// Passes the packet through connection tracking.
    Ct(Box<ConnectionTracking>),
    /// Forgets the connection state of the packet.
    CtClear,
    /// This flow is clause `clause` of `clauses` of conjunction `id`.
    Conjunction {
        /// Value of `conj_id` when all clauses match.
        id: u32,
        /// Number of this clause, from 0.
        clause: u8,
        /// Number of clauses, 2 to 64.
        clauses: u8,
    },
    /// Executes actions on a copy; changes do not affect later actions.
    Clone(Box<[Action]>),
    /// Lowers the timeouts of the flow when a TCP packet with FIN or RST passes; 0 for no change.
    FinTimeout {
        /// Seconds without packets.
        idle: u16,
        /// Seconds after creation.
        hard: u16,
    },
    /// Annotation without effect.
    Note(Box<[u8]>),
    /// Ends the list of actions, and of all lists that led here.
    Exit,
}

/// Output to controllers of one identifier.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ControllerOutput {
    /// Bytes; 0xffff for all.
    pub max_len: u16,
    /// Identifier of the controllers.
    pub controller: u16,
    /// Reason, as in a packet-in.
    pub reason: u8,
    /// Data for the controller.
    pub userdata: Box<[u8]>,
}

/// A further lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Resubmit {
    /// Ingress port of the lookup; `None` for the packet's.
    pub in_port: Option<PortNo>,
    /// Table; `None` for the current one.
    pub table: Option<TableId>,
    /// Whether to look up the original direction of the connection.
    pub ct: bool,
}

/// A flow made from a packet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Learn {
    /// Table of the flow.
    pub table: TableId,
    /// Priority.
    pub priority: u16,
    /// Cookie.
    pub cookie: u64,
    /// Seconds without packets; 0 for no timeout.
    pub idle_timeout: u16,
    /// Seconds after creation; 0 for no timeout.
    pub hard_timeout: u16,
    /// Idle timeout after a FIN or RST; 0 for no change.
    pub fin_idle_timeout: u16,
    /// Hard timeout after a FIN or RST; 0 for no change.
    pub fin_hard_timeout: u16,
    /// Flags of `NXT_LEARN` (nicira-ext.h): 1 send flow-removed, 2 delete learned flows, 4 write result.
    pub flags: u16,
    /// Maximum number of flows; 0 for no limit.
    pub limit: u32,
    /// Destination of the result if `flags` contains 4.
    pub result: Option<(Field, u8)>,
    /// Parts of the match and of the actions.
    pub specs: Vec<LearnSpec>,
}

/// Source of a part of a learned flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LearnValue {
    /// Part of a field of the packet.
    Field(Subfield),
    /// Constant, and its width in bits.
    Constant(u128, u8),
}

/// A part of a learned flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LearnSpec {
    /// Matches a part of a field.
    Match(LearnValue, Subfield),
    /// Sets a part of a field.
    Load(LearnValue, Subfield),
    /// Sends to the port that a field of the packet names.
    Output(Subfield),
}

/// Passage through connection tracking (ovs-actions(7), `ct`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConnectionTracking {
    /// Whether the connection is added.
    pub commit: bool,
    /// Whether an existing connection of the opposite direction is removed first.
    pub force: bool,
    /// Zone: a constant, or a part of a field.
    pub zone: LearnValue,
    /// Table at which the packet continues; `None` if it does not.
    pub table: Option<TableId>,
    /// IP protocol port of the helper: 21 for FTP, 69 for TFTP; 0 for none.
    pub helper: u16,
    /// Translation of addresses; `None` for none.
    pub nat: Option<Nat>,
    /// Actions on mark and label of the connection.
    pub actions: Vec<Action>,
}

/// Translation of addresses and ports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Nat {
    /// Whether the source is translated; destination otherwise. `None`: as the connection says.
    pub source: Option<bool>,
    /// Whether a mapping is selected by hash, and whether randomly.
    pub hash: bool,
    /// See `hash`.
    pub random: bool,
    /// Whether the same address is selected for a client.
    pub persistent: bool,
    /// Addresses and ports to select from.
    pub range: NatRange,
}

/// Addresses and ports for translation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct NatRange {
    /// First and last address.
    pub addresses: Option<(std::net::IpAddr, std::net::IpAddr)>,
    /// First and last port.
    pub ports: Option<(u16, u16)>,
}

/// A bucket of a group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Bucket {
    /// Identifier; assigned by the switch before OpenFlow 1.5.
    pub id: u32,
    /// Weight in a select group.
    pub weight: u16,
    /// Port whose liveness decides.
    pub watch_port: Option<PortNo>,
    /// Group whose liveness decides.
    pub watch_group: Option<u32>,
    /// Action set.
    pub actions: Vec<Action>,
}

/// Instructions of a flow, executed in the order of the fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Instructions {
    /// Meter to pass first.
    pub meter: Option<u32>,
    /// Actions executed at once.
    pub apply: Vec<Action>,
    /// Whether the action set is cleared.
    pub clear: bool,
    /// Actions merged into the action set.
    pub write: Vec<Action>,
    /// Value and mask for the metadata.
    pub metadata: Option<(u64, u64)>,
    /// Next table.
    pub goto: Option<TableId>,
}

impl Learn {
    /// The match of the flow, without the parts that come from the packet.
    pub fn constant_match(&self) -> Match {
        self.specs.iter().fold(Match::any(), |found, spec| match spec {
            LearnSpec::Match(LearnValue::Constant(value, _), to) => {
                found.with_masked(to.field, value << to.offset, to.mask())
            }
            _ => found,
        })
    }
}
