//! Errors of the tables as errors of OpenFlow (OpenFlow 1.3.5, 7.4.4).

use flow::tables::{
    ActionError, FlowModError, GroupModError, InstructionError, MeterModError, ModificationError,
};
use flow::{ChangeError, OptionError, OptionMapError, PacketOutError};
use openflow::ErrorCode;

/// The code of an action that is not valid.
pub fn action_code(error: &ActionError) -> ErrorCode {
    match error {
        ActionError::Type(_) => ErrorCode::ActionBadType,
        ActionError::OutPort(_) => ErrorCode::ActionBadOutPort,
        ActionError::Argument(_) => ErrorCode::ActionBadArgument,
        ActionError::TooMany => ErrorCode::ActionTooMany,
        ActionError::OutGroup(_) => ErrorCode::ActionBadOutGroup,
        ActionError::Inconsistent(..) => ErrorCode::ActionMatchInconsistent,
        ActionError::SetType(_) => ErrorCode::ActionBadSetType,
        ActionError::SetArgument(_) => ErrorCode::ActionBadSetArgument,
        ActionError::Meter(_) => ErrorCode::MeterInvalid,
        ActionError::Option(OptionError::Unbound(_)) => ErrorCode::InvalidTlvField,
        ActionError::Option(OptionError::Len(_)) => ErrorCode::ActionBadSetLen,
    }
}

/// The code of a match with options that is not valid.
pub(crate) fn match_code(error: OptionError) -> ErrorCode {
    match error {
        OptionError::Unbound(_) => ErrorCode::InvalidTlvField,
        OptionError::Len(_) => ErrorCode::MatchBadLen,
    }
}

/// The code of a refused change.
pub fn change_code(error: &ChangeError) -> ErrorCode {
    match error {
        ChangeError::Bridge(_) => ErrorCode::FlowModUnknown,
        ChangeError::Invalid(_, ModificationError::Flow(error)) => flow_code(error),
        ChangeError::Invalid(_, ModificationError::Group(error)) => group_code(error),
        ChangeError::Invalid(_, ModificationError::Meter(error)) => meter_code(*error),
        ChangeError::Invalid(_, ModificationError::Options(error)) => option_map_code(*error),
        ChangeError::Invalid(_, ModificationError::Packet(error)) => action_code(error),
        ChangeError::Invalid(_, ModificationError::Work) => ErrorCode::BundleMessageTooMany,
    }
}

/// The position of a refused change.
pub(crate) fn position(error: &ChangeError) -> usize {
    match error {
        ChangeError::Bridge(_) => 0,
        ChangeError::Invalid(i, _) => *i,
    }
}

/// The code of a refused packet-out; `None` if the packet is lost as on a full queue, which is no error.
pub(crate) fn packet_out_code(error: &PacketOutError) -> Option<ErrorCode> {
    match error {
        PacketOutError::Bridge(_) | PacketOutError::NoPort(_) | PacketOutError::Busy => None,
        PacketOutError::InPort(_) => Some(ErrorCode::RequestBadPort),
        PacketOutError::Length(_) => Some(ErrorCode::RequestBadPacket),
        PacketOutError::Action(error) => Some(action_code(error)),
    }
}

fn flow_code(error: &FlowModError) -> ErrorCode {
    match error {
        FlowModError::TableFull(_) | FlowModError::TooManyMasks(_) => ErrorCode::FlowModTableFull,
        FlowModError::BadTable(_) => ErrorCode::FlowModBadTableId,
        FlowModError::Overlap => ErrorCode::FlowModOverlap,
        FlowModError::Instruction(InstructionError::Goto { .. }) => ErrorCode::InstructionBadTableId,
        FlowModError::Instruction(InstructionError::Conjunction) => ErrorCode::InstructionUnsupported,
        FlowModError::Action(error) => action_code(error),
        FlowModError::Option(error) => match_code(*error),
    }
}

fn option_map_code(error: OptionMapError) -> ErrorCode {
    match error {
        OptionMapError::Len(_) => ErrorCode::TlvBadLen,
        OptionMapError::Index(_) => ErrorCode::TlvBadIndex,
        OptionMapError::Full(..) => ErrorCode::TlvTableFull,
        OptionMapError::Bound(_) => ErrorCode::TlvAlreadyMapped,
        OptionMapError::Duplicate(..) => ErrorCode::TlvDuplicate,
        OptionMapError::Used(_) => ErrorCode::TlvInvalidDelete,
    }
}

fn group_code(error: &GroupModError) -> ErrorCode {
    match error {
        GroupModError::Exists(_) => ErrorCode::GroupModExists,
        GroupModError::Invalid(..) => ErrorCode::GroupModInvalid,
        GroupModError::OutOfGroups => ErrorCode::GroupModOutOfGroups,
        GroupModError::OutOfBuckets(_) => ErrorCode::GroupModOutOfBuckets,
        GroupModError::Loop(_) => ErrorCode::GroupModLoop,
        GroupModError::Unknown(_) => ErrorCode::GroupModUnknownId,
        GroupModError::Chained(_) => ErrorCode::GroupModChainedGroup,
        GroupModError::BucketExists(_) => ErrorCode::GroupModBucketExists,
        GroupModError::UnknownBucket(..) => ErrorCode::GroupModUnknownBucket,
        GroupModError::Action(error) => action_code(error),
    }
}

fn meter_code(error: MeterModError) -> ErrorCode {
    match error {
        MeterModError::Exists(_) => ErrorCode::MeterExists,
        MeterModError::Invalid(_) => ErrorCode::MeterInvalid,
        MeterModError::Unknown(_) => ErrorCode::MeterUnknownId,
        MeterModError::Rate(_) => ErrorCode::MeterBadRate,
        MeterModError::OutOfMeters => ErrorCode::MeterOutOfMeters,
        MeterModError::OutOfBands(_) => ErrorCode::MeterOutOfBands,
    }
}
