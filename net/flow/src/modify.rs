//! Changes of tables, groups and meters, and the numbers that name them.

use crate::action::{Bucket, Instructions};
use crate::matching::Match;

/// Number of a port (OpenFlow 1.3.5, 7.2.1). Numbers above [`PortNo::MAX`] are reserved ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortNo(pub u32);

impl PortNo {
    /// Highest number of a port.
    pub const MAX: Self = Self(0xffff_ff00);
    /// The ingress port.
    pub const IN_PORT: Self = Self(0xffff_fff8);
    /// The first table; in packet-outs only.
    pub const TABLE: Self = Self(0xffff_fff9);
    /// The learning bridge.
    pub const NORMAL: Self = Self(0xffff_fffa);
    /// All ports but the ingress port and those without flooding.
    pub const FLOOD: Self = Self(0xffff_fffb);
    /// All ports but the ingress port.
    pub const ALL: Self = Self(0xffff_fffc);
    /// The controllers.
    pub const CONTROLLER: Self = Self(0xffff_fffd);
    /// The host's own port of the bridge.
    pub const LOCAL: Self = Self(0xffff_fffe);
    /// Any port; in requests only.
    pub const ANY: Self = Self(0xffff_ffff);
}

/// Number of a table, 0 to 254.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableId(pub u8);

impl TableId {
    /// Number of tables.
    pub const COUNT: usize = 255;
    /// All tables; in requests only.
    pub const ALL: Self = Self(255);

    /// Each table.
    pub fn each() -> impl Iterator<Item = Self> {
        (0..Self::COUNT as u8).map(Self)
    }
}

/// Command of a [`FlowMod`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowCommand {
    /// Adds a flow, or replaces one with the same match and priority.
    Add,
    /// Changes the instructions of the flows that the match covers.
    Modify,
    /// Changes the instructions of the flow with this match and priority.
    ModifyStrict,
    /// Removes the flows that the match covers.
    Delete,
    /// Removes the flow with this match and priority.
    DeleteStrict,
}

/// Flags of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "the flags of OpenFlow are independent of each other")]
pub struct FlowFlags {
    /// Send a flow-removed message.
    pub send_removed: bool,
    /// Refuse a flow that overlaps one of the same priority.
    pub check_overlap: bool,
    /// Set counters to 0 when the flow is modified.
    pub reset_counts: bool,
    /// Packets need not be counted.
    pub no_packet_counts: bool,
    /// Bytes need not be counted.
    pub no_byte_counts: bool,
}

/// A change of flows (OpenFlow 1.3.5, 7.3.4.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowMod {
    /// Command.
    pub command: FlowCommand,
    /// Table; [`TableId::ALL`] for deletion in all.
    pub table: TableId,
    /// Match.
    pub matching: Match,
    /// Priority; ignored by commands that are not strict.
    pub priority: u16,
    /// Cookie of an added flow, or of the flows to select.
    pub cookie: u64,
    /// Bits of the cookie that select flows.
    pub cookie_mask: u64,
    /// Seconds without packets; 0 for no timeout.
    pub idle_timeout: u16,
    /// Seconds after creation; 0 for no timeout.
    pub hard_timeout: u16,
    /// Selects flows with an output to this port; `None` for all.
    pub out_port: Option<PortNo>,
    /// Selects flows with this group; `None` for all.
    pub out_group: Option<u32>,
    /// Flags.
    pub flags: FlowFlags,
    /// Eviction order: flows of low importance go first.
    pub importance: u16,
    /// Instructions.
    pub instructions: Instructions,
}

impl FlowMod {
    /// A change of table 0 without cookie, timeouts, flags and instructions.
    pub fn new(command: FlowCommand, matching: &Match, priority: u16) -> Self {
        Self {
            command,
            table: TableId(0),
            matching: *matching,
            priority,
            cookie: 0,
            cookie_mask: 0,
            idle_timeout: 0,
            hard_timeout: 0,
            out_port: None,
            out_group: None,
            flags: FlowFlags::default(),
            importance: 0,
            instructions: Instructions::default(),
        }
    }
}

/// Command of a [`GroupMod`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupCommand {
    /// Adds a group.
    Add,
    /// Replaces a group.
    Modify,
    /// Removes a group, or all, and the flows that use it.
    Delete,
    /// Adds buckets to a group: before or after the others, or after one of them (OpenFlow 1.5.1, 7.3.4.3).
    InsertBuckets(BucketPlace),
    /// Removes buckets of a group.
    RemoveBuckets(BucketPlace),
}

/// A place in the list of the buckets of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BucketPlace {
    /// The first bucket.
    First,
    /// The last bucket.
    Last,
    /// Every bucket; for removals only.
    All,
    /// The bucket with this identifier.
    Bucket(u32),
}

/// How a group selects buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupKind {
    /// Every bucket gets a copy.
    All,
    /// One bucket, by weight, the same for all packets of a flow.
    Select,
    /// The only bucket.
    Indirect,
    /// The first live bucket.
    FastFailover,
}

/// A change of groups (7.3.4.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMod {
    /// Command.
    pub command: GroupCommand,
    /// Kind; changes of single buckets do not change it.
    pub kind: GroupKind,
    /// Number; `0xffff_fffc` for all in a deletion.
    pub id: u32,
    /// Buckets.
    pub buckets: Vec<Bucket>,
}

/// Command of a [`MeterMod`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeterCommand {
    /// Adds a meter.
    Add,
    /// Replaces a meter.
    Modify,
    /// Removes a meter, or all, and the flows that use it.
    Delete,
}

/// Unit and options of a meter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeterFlags {
    /// Rates are packets per second; kbit/s otherwise.
    pub packets: bool,
    /// Burst sizes are given.
    pub burst: bool,
    /// Statistics are kept.
    pub stats: bool,
}

/// A band of a meter: applies to packets above its rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Band {
    /// Rate in the meter's unit.
    pub rate: u32,
    /// Burst in kbit or packets.
    pub burst: u32,
    /// Drop precedence to add to the DSCP; `None`: drop.
    pub remark: Option<u8>,
}

/// A change of meters (7.3.4.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeterMod {
    /// Command.
    pub command: MeterCommand,
    /// Unit and options.
    pub flags: MeterFlags,
    /// Number; `0xffff_ffff` for all in a deletion.
    pub id: u32,
    /// Bands.
    pub bands: Vec<Band>,
}
