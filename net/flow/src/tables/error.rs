//! Why a change is refused. Each error names the type and code of OpenFlow 1.3.5, 7.4.4.

use crate::modify::{PortNo, TableId};
use crate::options::OptionError;

/// `OFPET_BAD_ACTION`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ActionError {
    /// `OFPBAC_BAD_TYPE`.
    #[error("action `{0}` is not allowed here")]
    Type(&'static str),
    /// `OFPBAC_BAD_OUT_PORT`.
    #[error("port {0:?} is not valid for an output")]
    OutPort(PortNo),
    /// `OFPBAC_BAD_ARGUMENT`.
    #[error("an argument of action `{0}` is not valid")]
    Argument(&'static str),
    /// `OFPBAC_TOO_MANY`.
    #[error("actions are nested too deeply")]
    TooMany,
    /// `OFPBAC_BAD_OUT_GROUP`.
    #[error("group {0} does not exist")]
    OutGroup(u32),
    /// `OFPBAC_MATCH_INCONSISTENT`.
    #[error("field `{0}` requires that the flow matches {1}")]
    Inconsistent(&'static str, &'static str),
    /// `OFPBAC_BAD_SET_TYPE`.
    #[error("field `{0}` cannot be set")]
    SetType(&'static str),
    /// `OFPBAC_BAD_SET_ARGUMENT`.
    #[error("the value for field `{0}` is out of range")]
    SetArgument(&'static str),
    /// `OFPMMFC_UNKNOWN_METER` of `OFPET_METER_MOD_FAILED`.
    #[error("meter {0} does not exist")]
    Meter(u32),
    /// See [`OptionError`].
    #[error(transparent)]
    Option(#[from] OptionError),
}

/// `OFPET_BAD_INSTRUCTION`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InstructionError {
    /// `OFPBIC_BAD_TABLE_ID`.
    #[error("a flow of table {from:?} cannot go to table {to:?}: the next table must be a later one")]
    Goto {
        /// Table of the flow.
        from: TableId,
        /// Next table.
        to: TableId,
    },
    /// `OFPBIC_UNSUP_INST`: a flow with conjunctions has other instructions.
    #[error("a flow with conjunctions cannot have other instructions")]
    Conjunction,
}

/// Why a [`crate::FlowMod`] is refused. Nothing is changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FlowModError {
    /// `OFPFMFC_TABLE_FULL` of `OFPET_FLOW_MOD_FAILED`.
    #[error("table {0:?} is full")]
    TableFull(TableId),
    /// `OFPFMFC_TABLE_FULL`: too many different masks.
    #[error("table {0:?} has too many different masks")]
    TooManyMasks(TableId),
    /// `OFPFMFC_BAD_TABLE_ID`.
    #[error("table {0:?} does not exist")]
    BadTable(TableId),
    /// `OFPFMFC_OVERLAP`.
    #[error("the flow overlaps another one of the same priority")]
    Overlap,
    /// The match has an option that is not bound, or a value that is too long for it.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// See [`InstructionError`].
    #[error(transparent)]
    Instruction(#[from] InstructionError),
    /// See [`ActionError`].
    #[error(transparent)]
    Action(#[from] ActionError),
}

/// `OFPET_GROUP_MOD_FAILED`. Nothing is changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GroupModError {
    /// `OFPGMFC_GROUP_EXISTS`.
    #[error("group {0} exists")]
    Exists(u32),
    /// `OFPGMFC_INVALID_GROUP`.
    #[error("group {0} is not valid: {1}")]
    Invalid(u32, &'static str),
    /// `OFPGMFC_OUT_OF_GROUPS`.
    #[error("there are too many groups")]
    OutOfGroups,
    /// `OFPGMFC_OUT_OF_BUCKETS`.
    #[error("group {0} has too many buckets")]
    OutOfBuckets(u32),
    /// `OFPGMFC_LOOP`.
    #[error("group {0} would execute itself, or the chain of groups would be too long")]
    Loop(u32),
    /// `OFPGMFC_UNKNOWN_GROUP`.
    #[error("group {0} does not exist")]
    Unknown(u32),
    /// `OFPGMFC_CHAINED_GROUP`.
    #[error("group {0} is executed by another group")]
    Chained(u32),
    /// `OFPGMFC_BUCKET_EXISTS`.
    #[error("group {0} would have two buckets with the same identifier")]
    BucketExists(u32),
    /// `OFPGMFC_UNKNOWN_BUCKET`.
    #[error("group {0} has no bucket {1}")]
    UnknownBucket(u32, u32),
    /// See [`ActionError`].
    #[error(transparent)]
    Action(#[from] ActionError),
}

/// `OFPET_METER_MOD_FAILED`. Nothing is changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MeterModError {
    /// `OFPMMFC_METER_EXISTS`.
    #[error("meter {0} exists")]
    Exists(u32),
    /// `OFPMMFC_INVALID_METER`.
    #[error("meter number {0} is not valid")]
    Invalid(u32),
    /// `OFPMMFC_UNKNOWN_METER`.
    #[error("meter {0} does not exist")]
    Unknown(u32),
    /// `OFPMMFC_BAD_RATE`.
    #[error("a band of meter {0} has no rate")]
    Rate(u32),
    /// `OFPMMFC_OUT_OF_METERS`.
    #[error("there are too many meters")]
    OutOfMeters,
    /// `OFPMMFC_OUT_OF_BANDS`.
    #[error("meter {0} has too many bands")]
    OutOfBands(u32),
}
