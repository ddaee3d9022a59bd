//! Options of tunnels: the map, matches and actions, with bytes that ovs-ofctl has written.

use crate::common::{bytes_of, hex, read_actions, write_actions};
use flow::{Action, Field, FlowCommand, FlowMod, Mapping, Match, OptionChange, Subfield};
use openflow::{ErrorCode, FlowModRequest, Message, TlvTable, Version, WireError, decode};

const MAPPING: Mapping = Mapping { class: 0x0102, kind: 0x80, len: 4 };

/// A message that is read from these bytes and written as them.
#[track_caller]
fn same(version: Version, text: &str, message: &Message) {
    let bytes = hex(text);
    assert_eq!(decode(&bytes, version).as_ref(), Ok(message), "{text}");
    assert_eq!(bytes_of(message, version, 4), bytes, "{text}");
}

#[test]
fn the_map_is_changed_and_shown() {
    let second = Mapping { class: 0xffff, kind: 1, len: 8 };
    same(
        Version::V13,
        "04040028 00000004 00002320 00000018 0000 000000000000 0102 80 04 0000 0000 ffff 01 08 0001 0000",
        &Message::TlvTableMod(OptionChange::Add(vec![(0, MAPPING), (1, second)])),
    );
    same(
        Version::V10,
        "01040018 00000004 00002320 00000018 0002 000000000000",
        &Message::TlvTableMod(OptionChange::Clear),
    );
    let delete = "04040020 00000004 00002320 00000018 0001 000000000000 0102 80 04 0003 0000";
    let deleted = Message::TlvTableMod(OptionChange::Delete(vec![3]));
    assert_eq!(decode(&hex(delete), Version::V13), Ok(deleted.clone()));
    assert_eq!(decode(&bytes_of(&deleted, Version::V13, 4), Version::V13), Ok(deleted));
    same(Version::V15, "06040010 00000004 00002320 00000019", &Message::TlvTableRequest);
    same(
        Version::V13,
        "04040028 00000004 00002320 0000001a 00000028 0008 00000000000000000000 0102 80 04 0000 0000",
        &Message::TlvTableReply(TlvTable { space: 40, fields: 8, entries: vec![(0, MAPPING)] }),
    );
}

#[test]
fn invalid_changes_of_the_map_have_the_specified_errors() {
    let fails = |rest: &str| {
        let len = 16 + hex(rest).len();
        let text = format!("0404{len:04x}00000004 00002320 00000018 {rest}");
        decode(&hex(&text), Version::V13).unwrap_err().code
    };
    for (rest, code) in [
        ("0003 000000000000", ErrorCode::TlvBadCommand),
        ("0000 000000000000 0102 80 05 0000 0000", ErrorCode::TlvBadLen),
        ("0000 000000000000 0102 80 80 0000 0000", ErrorCode::TlvBadLen),
        ("0000 000000000000 0102 80 04 0008 0000", ErrorCode::TlvBadIndex),
        ("0001 000000000000 0102 80 04 0100 0000", ErrorCode::TlvBadIndex),
        ("0000 000000000000 0102 80 04", ErrorCode::RequestBadLen),
        ("0000 0000", ErrorCode::RequestBadLen),
    ] {
        assert_eq!(fails(rest), code, "{rest}");
    }
    for (code, number, old) in [
        (ErrorCode::TlvBadCommand, 16, 527),
        (ErrorCode::TlvBadLen, 17, 528),
        (ErrorCode::TlvBadIndex, 18, 529),
        (ErrorCode::TlvTableFull, 19, 530),
        (ErrorCode::TlvAlreadyMapped, 20, 531),
        (ErrorCode::TlvDuplicate, 21, 532),
        (ErrorCode::InvalidTlvField, 37, 536),
        (ErrorCode::TlvInvalidDelete, 38, 537),
    ] {
        assert_eq!(code.wire(Version::V10), WireError::Vendor(0x2320, 1, old));
        for version in [Version::V13, Version::V14, Version::V15] {
            assert_eq!(code.wire(version), WireError::Experimenter(0x2320, number));
        }
    }
}

/// The match of a change of flows with these fields.
fn read_match(fields: &str) -> Result<Match, ErrorCode> {
    let fields = hex(fields);
    let matching = [&[0, 1], &(fields.len() as u16 + 4).to_be_bytes()[..], &fields].concat();
    let mut bytes = hex(
        "040e0000 00000001 0000000000000000 0000000000000000 00 00 0000 0000 03e8 ffffffff ffffffff ffffffff 0000 0000",
    );
    bytes.extend(&matching);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    let len = (bytes.len() as u16).to_be_bytes();
    bytes[2..4].copy_from_slice(&len);
    match decode(&bytes, Version::V13) {
        Ok(Message::FlowMod(change)) => Ok(change.flow.matching),
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(error.code),
    }
}

#[test]
fn values_of_any_length_are_read() {
    let any = Match::any;
    let long = format!("0001507c {} 1234", "00".repeat(122));
    let masked = format!("000151f8 {}05 {}0f", "00".repeat(123), "00".repeat(123));
    for (fields, expected) in [
        ("00015002 1234", any().with(Field::TunMetadata0, 0x1234)),
        ("00015000", any().with(Field::TunMetadata0, 0)),
        ("00015100", any().with_masked(Field::TunMetadata0, 0, 0)),
        ("00015308 00000005 0000000f", any().with_masked(Field::TunMetadata1, 5, 15)),
        (
            "00015e04 0000000a 00015004 00000001",
            any().with(Field::TunMetadata7, 10).with(Field::TunMetadata0, 1),
        ),
        (&long, any().with(Field::TunMetadata0, 0x1234)),
        (&masked, any().with_masked(Field::TunMetadata0, 5, 15)),
    ] {
        assert_eq!(read_match(fields), Ok(expected), "{fields}");
    }
    for (fields, code) in [
        ("00015103 000000", ErrorCode::MatchBadLen),
        ("00015405 0100000000", ErrorCode::MatchBadLen),
        ("00015009 010000000000000000", ErrorCode::MatchBadLen),
        ("00015108 00000005 00000002", ErrorCode::MatchBadWildcards),
        ("00015004 00000005 00015100", ErrorCode::MatchDuplicate),
        ("00016004 00000005", ErrorCode::InvalidTlvField),
        ("0001ce04 00000005", ErrorCode::InvalidTlvField),
        ("0001fe04 00000005", ErrorCode::MatchBadField),
    ] {
        assert_eq!(read_match(fields), Err(code), "{fields}");
    }
}

#[test]
fn matches_are_written_with_the_bytes_that_they_need() {
    for (matching, expected) in [
        (Match::any().with(Field::TunMetadata0, 0), "00015004 00000000"),
        (Match::any().with(Field::TunMetadata0, 1 << 40), "00015008 0000010000000000"),
        (Match::any().with_masked(Field::TunMetadata0, 0, 0), "00015108 00000000 00000000"),
        (Match::any().with_masked(Field::TunMetadata7, 5, 7), "00015f08 00000005 00000007"),
    ] {
        let flow = FlowMod::new(FlowCommand::Add, &matching, 1);
        for version in Version::ALL {
            let request = FlowModRequest { flow: flow.clone(), buffer: None };
            let message = Message::FlowMod(Box::new(request));
            let bytes = bytes_of(&message, version, 4);
            let wanted = hex(expected);
            assert!(
                bytes.windows(wanted.len()).any(|part| part == wanted),
                "{version:?} {expected}: {bytes:02x?}"
            );
            assert_eq!(read_match(expected), Ok(matching));
        }
    }
}

#[test]
fn actions_name_options() {
    let set = |field, value, mask| Action::SetField { field, value, mask };
    let part = |field, offset, bits| Subfield::new(field, offset, bits).unwrap();
    let ten = set(Field::TunMetadata0, 10, Field::TunMetadata0.full());
    let low = set(Field::TunMetadata1, 5, 0xffff);
    let moved = Action::Move { from: part(Field::TunMetadata0, 0, 32), to: part(Field::Reg0, 0, 32) };
    let delete = Action::DeleteField(Field::TunMetadata3);
    for (text, action) in [
        ("0019 0010 0001 5004 0000000a 00000000", &ten),
        ("0019 0010 0001 5001 0a 000000 00000000", &ten),
        ("ffff0018 00002320 0006 0020 0000 0000 0001507c 00010004", &moved),
        ("ffff0018 00002320 0032 0001567c 0000000000000000 0000", &delete),
        ("ffff0018 00002320 0021 00015304 0005ffff 000000000000", &low),
    ] {
        assert_eq!(
            read_actions(&hex(text), Version::V13).as_deref(),
            Ok(std::slice::from_ref(action)),
            "{text}"
        );
    }
    for (version, text, action) in [
        (Version::V13, "0019 0010 0001 5004 0000000a 00000000", &ten),
        (Version::V10, "ffff0018 00002320 0021 0001 5004 0000000a 000000000000", &ten),
        (Version::V13, "ffff0018 00002320 0021 0001 5308 00000005 0000ffff 0000", &low),
        (Version::V15, "0019 0010 0001 5308 00000005 0000ffff", &low),
        (Version::V14, "ffff0018 00002320 0032 0001 5604 0000000000000000 0000", &delete),
    ] {
        assert_eq!(write_actions(std::slice::from_ref(action), version), hex(text), "{version:?} {text}");
        assert_eq!(read_actions(&hex(text), version).as_deref(), Ok(std::slice::from_ref(action)), "{text}");
    }
    for (text, code) in [
        ("0019 0010 0001 6004 0000000a 00000000", ErrorCode::InvalidTlvField),
        ("0019 0018 0001 5405 0100000000 00000000000000 00000000", ErrorCode::ActionBadSetLen),
        ("ffff0018 00002320 0006 0020 0000 0000 0001607c 00010004", ErrorCode::InvalidTlvField),
        ("ffff0018 00002320 0006 0021 0000 0000 0001547c 00010004", ErrorCode::ActionBadSetLen),
        ("ffff0018 00002320 0032 00010004 0000000000000000 0000", ErrorCode::ActionBadSetType),
        ("ffff0018 00002320 0032 0001567c 0000000000000001 0000", ErrorCode::ActionBadSetArgument),
    ] {
        assert_eq!(read_actions(&hex(text), Version::V13), Err(code), "{text}");
    }
}
