//! Messages against bytes of Open vSwitch's own tests, and invalid ones.

use crate::common::{bytes_of, hex};
use flow::{Action, Field, FlowCommand, Instructions, Match, PortNo, TableId};
use openflow::{
    Dialect, ErrorCode, Header, Message, MultipartReply, MultipartRequest, PacketInFormat, Role, Version,
    WireError, decode,
};
use std::time::Duration;

fn read(text: &str) -> Message {
    let bytes = hex(text);
    let header = Header::read(&bytes).unwrap();
    decode(&bytes, Version::from_number(header.version).unwrap()).unwrap()
}

/// Code of the error of bytes whose version is in the first byte.
fn fails(text: &str) -> ErrorCode {
    let bytes = hex(text);
    let error = decode(&bytes, Version::from_number(bytes[0]).unwrap()).unwrap_err();
    assert_eq!(error.data, bytes[..bytes.len().min(64)]);
    error.code
}

#[test]
fn foreign_messages_are_written_as_they_were_read() {
    for (name, text) in crate::vectors::SAME {
        let bytes = hex(text);
        let header = Header::read(&bytes).unwrap();
        let version = Version::from_number(header.version).unwrap();
        let message = decode(&bytes, version).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(bytes_of(&message, version, header.xid), bytes, "{name}: {message:?}");
    }
}

#[test]
fn foreign_messages_in_other_forms_keep_their_meaning() {
    for (name, text) in crate::vectors::EQUAL {
        let bytes = hex(text);
        let header = Header::read(&bytes).unwrap();
        let version = Version::from_number(header.version).unwrap();
        let message = decode(&bytes, version).unwrap_or_else(|error| panic!("{name}: {error}"));
        let written = bytes_of(&message, version, header.xid);
        assert_eq!(decode(&written, version).as_ref(), Ok(&message), "{name}");
    }
}

#[test]
fn flow_changes_have_their_meaning() {
    let text = "040e0040cffe6b86 0000000000000000 0000000000000000 00 00 0000 0000 03e8 ffffffff ffffffff \
                ffffffff 0000 0000 0001000400000000 0006000800000001";
    let Message::FlowMod(change) = read(text) else { panic!() };
    assert_eq!(change.flow.instructions, Instructions { meter: Some(1), ..Instructions::default() });
    assert_eq!((change.flow.command, change.flow.priority, change.buffer), (FlowCommand::Add, 1000, None));
    let text = "0104006000000002 00002320 0000000d 0000000000000000 0000 0000 0000 8000 ffffffff 0010 0000 0014 \
                000000000000 00012008 00000000000001c8 00010004 0000007b 00000000 \
                ffff0018000023200007001f000100040000000000000005";
    let Message::FlowMod(change) = read(text) else { panic!() };
    assert_eq!(change.flow.matching, Match::any().with(Field::TunnelId, 0x1c8).with(Field::Reg0, 0x7b));
    let set = Action::SetField { field: Field::Reg0, value: 5, mask: 0xffff_ffff };
    assert_eq!(change.flow.instructions.apply, [set]);
    assert_eq!(change.flow.table, TableId(0));
}

#[test]
fn tables_are_part_of_commands_if_the_connection_says_so() {
    let text = |table: &str, command: &str| {
        format!(
            "0104003000000002 00002320 0000000d 0000000000000000 {table}{command} 0000 0000 8000 ffffffff ffff 0000 \
                 0000 000000000000"
        )
    };
    let read = |table, command, table_ids| {
        let dialect = Dialect { version: Version::V10, table_ids };
        decode(&hex(&text(table, command)), dialect).map(|message| match message {
            Message::FlowMod(change) => change.flow.table,
            other => panic!("{other:?}"),
        })
    };
    assert_eq!(read("00", "03", false), Ok(TableId::ALL));
    assert_eq!(read("00", "03", true), Ok(TableId(0)));
    assert_eq!(read("07", "00", true), Ok(TableId(7)));
    assert_eq!(read("07", "00", false).unwrap_err().code, ErrorCode::FlowModBadCommand);
}

#[test]
fn packets_have_their_meaning() {
    let Message::PacketIn(packet) = read(
        "040a005400000000 ffffff00 002a 00 00 0102030405060708 0001000c80000004fffffffe00000000 0000 \
         ffffffffffff00232083c15f8035000108000604000300232083c15f0000000000232083c15f00000000",
    ) else {
        panic!()
    };
    assert_eq!(packet.format, PacketInFormat::Standard);
    assert_eq!(
        (packet.buffer, packet.total_len, packet.cookie),
        (Some(0xffff_ff00), 42, 0x0102_0304_0506_0708)
    );
    assert_eq!(packet.metadata, Match::any().with(Field::InPort, u128::from(PortNo::LOCAL.0)));
    assert_eq!(packet.data.len(), 42);
    let Message::PacketOut(packet) = read("010d001800000000 00000114 fffd 0008 00000008fffb0000") else {
        panic!()
    };
    assert_eq!((packet.in_port(), packet.buffer), (PortNo::CONTROLLER, Some(0x114)));
    assert_eq!(packet.actions, [Action::Output { port: PortNo::FLOOD, max_len: 0 }]);
}

#[test]
fn statistics_have_their_meaning() {
    let Message::MultipartReply(MultipartReply::Meter(meters), false) = read(
        "0413005800000002 0009 0000 00000000 00000001 0048 000000000000 00000005 0000000000001000 0000000000023000 \
         0000018a 0a6e2344 000000000000007e 0000000000003433 00000000000000e7 000000000000942e",
    ) else {
        panic!()
    };
    assert_eq!((meters[0].id, meters[0].flows, meters[0].packets, meters[0].bytes), (1, 5, 4096, 143_360));
    assert_eq!(meters[0].duration, Duration::new(394, 174_990_148));
    assert_eq!((meters[0].bands[0].packets, meters[0].bands[1].bytes), (126, 37934));
    let Message::MultipartReply(MultipartReply::Aggregate(sums), false) = read(
        "0613003800000004 0002000000000000 00000024 80020604 00000003 80020808 0000000000000079 80020a08 \
         0000000000004b4f 00000000",
    ) else {
        panic!()
    };
    assert_eq!((sums.flows, sums.packets, sums.bytes), (3, 121, 19279));
    let Message::MultipartRequest(MultipartRequest::Flow(request), true) = read(
        "0412003800000002 0001 0001 00000000 ff 000000 ffffffff ffffffff 00000000 0000000000000000 0000000000000000 \
         0001000400000000",
    ) else {
        panic!()
    };
    assert_eq!((request.table, request.out_port, request.out_group), (TableId::ALL, None, None));
}

#[test]
fn roles_have_their_meaning() {
    let Message::RoleRequest(role) = read("0104001400000002 00002320 0000000a 00000001") else { panic!() };
    assert_eq!((role.role, role.generation), (Role::Primary, 0));
    let Message::RoleReply(role) = read("0419001800000002 00000003 00000000 12345678abcdef90") else {
        panic!()
    };
    assert_eq!((role.role, role.generation), (Role::Secondary, 0x1234_5678_abcd_ef90));
    assert_eq!(fails("0418001800000002 00000004 00000000 0000000000000000"), ErrorCode::RoleBadRole);
}

#[test]
fn invalid_messages_have_the_specified_errors() {
    use ErrorCode as E;
    let cases = [
        ("04 63 0008 00000001", E::RequestBadType),
        ("01 16 0008 00000001", E::RequestBadType),
        ("05 16 0010 00000001 0000000100000000", E::RequestBadType),
        ("04 05 0009 00000001 00", E::RequestBadLen),
        ("04 05 0010 00000001", E::RequestBadLen),
        ("04 09 000a 00000001 0000", E::RequestBadLen),
        ("04 04 0010 00000001 00002320 000003e8", E::RequestBadExperimenterType),
        ("04 12 0010 00000001 00630000 00000000", E::RequestBadMultipart),
        ("04 12 0010 00000001 00100000 00000000", E::RequestBadMultipart),
        ("04 1d 0020 8501d738 0000 0000 00000001 00050010000000020000000200000000", E::MeterBadBand),
        ("04 1d 0010 28a62652 0008 0000 00000001", E::MeterBadCommand),
        ("04 1d 0020 82b3a1a4 0000 0003 00000001 00010010000000020000000200000000", E::MeterBadFlags),
        ("04 0f 0010 00000001 0003 00 00 00000001", E::GroupModBadCommand),
        ("04 0f 0010 00000001 0000 07 00 00000001", E::GroupModBadType),
        ("04 0f 0018 00000001 0000 00 00 00000001 0010 0000 ffffffff", E::GroupModBadBucket),
        (
            "06 0d 0040 11223344 ffffff00 0010 0000 0001002080000408000000000000000380004C080000000000000005 \
             00000000 00000010fffffffb05dc000000000000",
            E::MatchBadLen,
        ),
        (
            "06 0d 0038 11223344 ffffff00 0010 0000 0001 0014 80000004 00000001 80001604 11223344 00000000 \
             00000010fffffffb05dc000000000000",
            E::MatchBadPrereq,
        ),
        (
            "06 0d 0030 11223344 ffffff00 0010 0000 0001 000a 80000a02 0800 000000000000 00000010fffffffb05dc000000000000",
            E::RequestBadPort,
        ),
        (
            "06 0d 0038 11223344 ffffff00 0010 0000 0001 0012 80000004 00000001 80000a02 0800 000000000000 \
             00000010fffffffb05dc000000000000",
            E::RequestPipelineFieldsOnly,
        ),
        ("05 22 0020 00000000 00000001 0000 0001 05 10 0010 00000001 0000000000000000", E::RequestBadLen),
        ("05 22 0018 00000000 00000001 0000 0001 05 14 0008 00000001", E::BundleMessageUnsupported),
        ("05 22 0018 00000000 00000001 0000 0001 04 0e 0008 00000001", E::BundleBadVersion),
        ("05 22 0018 00000000 00000001 0000 0001 05 0e 0088 00000001", E::BundleMessageBadLen),
        ("05 21 0010 00000000 00000001 0009 0001", E::BundleBadType),
        ("05 21 0010 00000000 00000001 0000 0081", E::BundleBadFlags),
    ];
    for (text, code) in cases {
        assert_eq!(fails(text), code, "{text}");
    }
    let other = decode(&hex("03050008 00000001"), Version::V13).unwrap_err();
    assert_eq!(other.code, ErrorCode::RequestBadVersion);
    assert_eq!(other.message(Version::V13).error, WireError::Standard(1, 0));
    assert_eq!(decode(&[4, 0], Version::V13).unwrap_err().code, ErrorCode::RequestBadLen);
}

#[test]
fn invalid_matches_and_instructions_have_the_specified_errors() {
    use ErrorCode as E;
    let flow_mod = |rest: &str| {
        let len = 48 + hex(rest).len();
        fails(&format!(
            "040e{len:04x}00000001 0000000000000000 0000000000000000 00 00 0000 0000 03e8 ffffffff ffffffff ffffffff \
             0000 0000 {rest}"
        ))
    };
    let none = "0001 0004 00000000";
    for (rest, code) in [
        ("0000 0058", E::MatchBadType),
        ("0001 0003 00000000", E::MatchBadLen),
        ("0001 0010 80000004 0000", E::MatchBadLen),
        ("0001 000a 80000003 0000 000000000000", E::MatchBadLen),
        ("0001 000a 8000fe02 0000 000000000000", E::MatchBadField),
        ("0001 000a 80001a02 0050 000000000000", E::MatchBadPrereq),
        ("0001 0010 80000a02 0800 80000a02 0800", E::MatchDuplicate),
        ("0001 000c 80000b04 0800 ff00 00000000", E::MatchBadMask),
        ("0001 0010 80000708 00000000 0000 0000 00000000", E::MatchBadLen),
        ("0001 000c 80000d04 1001 0fff 00000000", E::MatchBadWildcards),
        ("0001 000a 80000c02 2001 000000000000", E::MatchBadValue),
        ("0001 000a 00000c02 2001 000000000000", E::MatchBadLen),
        ("0001 000a 00005c02 2001 000000000000", E::MatchBadField),
    ] {
        assert_eq!(flow_mod(rest), code, "{rest}");
    }
    for (rest, code) in [
        ("0001 0007 00 000000", E::InstructionBadLen),
        ("0001 0010 0000000000000000 00000000", E::InstructionBadLen),
        ("0001 0008 ff 000000", E::InstructionBadTableId),
        ("0001 0008 01 000000 0001 0008 02 000000", E::InstructionDuplicate),
        ("0009 0008 00000000", E::InstructionUnknown),
        ("ffff 0008 00000001", E::InstructionBadExperimenter),
        ("0004 0010 00000000 0063 0008 00000000", E::ActionBadType),
    ] {
        assert_eq!(flow_mod(&format!("{none} {rest}")), code, "{rest}");
    }
    let duplicate = ErrorCode::InstructionDuplicate.wire(Version::V13);
    assert_eq!(duplicate, WireError::Experimenter(0x4f4e_4600, 2600));
}
