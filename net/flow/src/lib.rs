//! Flow tables: matches on packet fields, actions, and the tables that lead from one to the other.
//!
//! A packet's fields are a [`Key`]. A [`Match`] selects keys, and [`Instructions`] state what happens to the packets
//! that it selects. This crate knows meaning only: the bytes of OpenFlow messages belong to the crate `openflow`. It
//! starts no threads and reads no clock; time is passed in.

#![forbid(unsafe_code)]

mod action;
#[cfg(any(test, feature = "arbitrary"))]
pub mod arbitrary;
mod cache;
#[cfg(any(test, feature = "arbitrary"))]
pub mod classbench;
mod field;
mod key;
mod lookup;
mod matching;
mod modify;
mod options;
pub mod packet;
mod pipeline;
pub mod tables;
pub mod text;
pub mod trace;
pub mod translate;

pub use action::{
    Action, BadSubfield, Bucket, ConnectionTracking, ControllerOutput, Instructions, Learn, LearnSpec,
    LearnValue, Nat, NatRange, Resubmit, Subfield,
};
pub use field::{Access, Class, Field, FieldInfo, Masking, Oxm, Prerequisite, ct_state, frag};
pub use key::{Key, WORDS};
pub use matching::{BadMatch, Match, port_masks};
pub use modify::{
    Band, BucketPlace, FlowCommand, FlowFlags, FlowMod, GroupCommand, GroupKind, GroupMod, MeterCommand,
    MeterFlags, MeterMod, PortNo, TableId,
};
pub use options::{Mapping, OptionChange, OptionError, OptionMap, OptionMapError};
#[cfg(feature = "fuzz")]
pub use pipeline::fuzz_script;
pub use pipeline::{
    AddBridgeError, AddPortError, CacheCounts, ChangeError, FastRequest, FastResult, FlowSwitch, LearnCounts,
    PacketOutError, PortConfig, PortEvent, RestoreTablesError, TableDrops, TunnelCounts, TunnelReport,
    UnknownBridge, check_changes,
};
