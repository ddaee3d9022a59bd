//! Actions against bytes of Open vSwitch's own tests (`tests/ofp-actions.at`) and of the specifications.

use crate::common::{hex, read_actions, write_actions};
use flow::{
    Action, ConnectionTracking, ControllerOutput, Field, Learn, LearnSpec, LearnValue, Nat, NatRange, PortNo,
    Resubmit, Subfield, TableId,
};
use openflow::{ErrorCode, Version};

/// Header of an action of Nicira with this length and subtype.
macro_rules! nx {
    ($len:literal, $subtype:literal, $rest:literal) => {
        concat!("ffff 00", $len, " 00002320 00", $subtype, " ", $rest)
    };
}

fn part(field: Field, offset: u8, bits: u8) -> Subfield {
    Subfield::new(field, offset, bits).unwrap()
}

fn set(field: Field, value: u128) -> Action {
    Action::SetField { field, value, mask: field.full() }
}

fn set_part(field: Field, value: u128, mask: u128) -> Action {
    Action::SetField { field, value, mask }
}

fn output(port: u32) -> Action {
    Action::Output { port: PortNo(port), max_len: 0 }
}

/// Bytes that are read as these actions, and written from them.
#[track_caller]
fn same(version: Version, text: &str, expected: &[Action]) {
    let bytes = hex(text);
    assert_eq!(read_actions(&bytes, version).as_deref(), Ok(expected), "{text}");
    assert_eq!(write_actions(expected, version), bytes, "{text}");
}

/// Bytes that are read as these actions, for which there is a shorter or more general form.
#[track_caller]
fn reads(version: Version, text: &str, expected: &[Action]) {
    assert_eq!(read_actions(&hex(text), version).as_deref(), Ok(expected), "{text}");
    let written = write_actions(expected, version);
    assert_eq!(read_actions(&written, version).as_deref(), Ok(expected), "{text}");
}

#[track_caller]
fn fails(version: Version, text: &str, code: ErrorCode) {
    assert_eq!(read_actions(&hex(text), version), Err(code), "{text}");
}

#[test]
fn standard_actions_of_version_1_0() {
    let v10 = |text: &str, expected: &[Action]| same(Version::V10, text, expected);
    v10("0000 0008 fffe 04d2", &[Action::Output { port: PortNo::LOCAL, max_len: 1234 }]);
    v10("0000 0008 fffd 04d2", &[Action::Output { port: PortNo::CONTROLLER, max_len: 1234 }]);
    v10("0001 0008 0009 0000", &[set_part(Field::VlanTci, 0x1009, 0x1fff)]);
    v10("0002 0008 06 000000", &[set_part(Field::VlanTci, 0xd000, 0xf000)]);
    v10("0003 0008 00000000", &[Action::PopVlan]);
    v10("0004 0010 001122334455 000000000000", &[set(Field::EthSrc, 0x0011_2233_4455)]);
    v10("0005 0010 102030405060 000000000000", &[set(Field::EthDst, 0x1020_3040_5060)]);
    v10("0006 0008 01020304", &[set(Field::Ipv4Src, 0x0102_0304)]);
    v10("0007 0008 c0a80001", &[set(Field::Ipv4Dst, 0xc0a8_0001)]);
    v10("0008 0008 30 000000", &[set(Field::IpDscp, 12)]);
    v10("0009 0008 0050 0000", &[set(Field::TcpSrc, 80)]);
    v10("000a 0008 01bb 0000", &[set(Field::TcpDst, 443)]);
    let queue = [Action::SetQueue(Some(55)), output(10), Action::SetQueue(None)];
    reads(Version::V10, "000b 0010 000a 000000000000 00000037", &queue);
}

#[test]
fn nicira_forms_of_later_actions_in_version_1_0() {
    let v10 = |text: &str, expected: &[Action]| same(Version::V10, text, expected);
    v10(nx!("10", "02", "0000 12345678"), &[set(Field::TunnelId, 0x1234_5678)]);
    v10(nx!("18", "09", "000000000000 c426384d49c53d60"), &[set(Field::TunnelId, 0xc426_384d_49c5_3d60)]);
    v10(nx!("10", "04", "0000 89abcd01"), &[Action::SetQueue(Some(0x89ab_cd01))]);
    v10(nx!("10", "12", "000000000000"), &[Action::DecNwTtl([0].into())]);
    v10(nx!("10", "28", "0000 00000005"), &[Action::Group(5)]);
    v10(nx!("10", "17", "8847 00000000"), &[Action::PushMpls(0x8847)]);
    v10(nx!("10", "18", "0800 00000000"), &[Action::PopMpls(0x800)]);
    v10(nx!("10", "19", "0a 0000000000"), &[Action::SetMplsTtl(10)]);
    v10(nx!("10", "1a", "000000000000"), &[Action::DecMplsTtl]);
    reads(Version::V10, nx!("10", "1e", "0000 00000005"), &[set(Field::MplsLabel, 5)]);
    reads(Version::V10, nx!("10", "1f", "03 0000000000"), &[set(Field::MplsTc, 3)]);
    reads(
        Version::V10,
        nx!("20", "16", "000000000000 00dc00000000 3210 ffff0000ffff0000"),
        &[set_part(Field::Metadata, 0x00dc_0000_0000_0000, 0xffff_0000_ffff_0000)],
    );
    reads(
        Version::V10,
        nx!("18", "09", "000000000000 00000000885f3298"),
        &[set(Field::TunnelId, 0x885f_3298)],
    );
}

#[test]
fn nicira_actions_in_every_version() {
    for version in Version::ALL {
        let all = |text: &str, expected: &[Action]| same(version, text, expected);
        let resubmit = |in_port: u32, table, ct| {
            [Action::Resubmit(Resubmit { in_port: Some(PortNo(in_port)), table, ct })]
        };
        all(nx!("10", "01", "0005 00000000"), &resubmit(5, None, false));
        all(nx!("10", "0e", "000a 05 000000"), &resubmit(10, Some(TableId(5)), false));
        all(nx!("10", "2c", "000a 05 000000"), &resubmit(10, Some(TableId(5)), true));
        let here = Resubmit { in_port: None, table: Some(TableId(1)), ct: false };
        all(nx!("10", "0e", "fff8 01 000000"), &[Action::Resubmit(here)]);
        all(nx!("10", "05", "000000000000"), &[Action::SetQueue(None)]);
        all(nx!("10", "08", "11e99aad67f3"), &[Action::Note([0x11, 0xe9, 0x9a, 0xad, 0x67, 0xf3].into())]);
        let from = part(Field::Reg1, 5, 6);
        let register = Action::OutputField { from, max_len: 0xffff };
        all(nx!("18", "0f", "0145 00010204 ffff 000000000000"), std::slice::from_ref(&register));
        reads(version, nx!("18", "20", "0145 ffff 00010204 000000000000"), &[register]);
        all(nx!("10", "11", "000000000000"), &[Action::Exit]);
        all(nx!("10", "13", "000a 0014 0000"), &[Action::FinTimeout { idle: 10, hard: 20 }]);
        let few = [32768, 12345, 90, 765, 1024].into();
        all(nx!("20", "15", "000500000000 80003039005A02fd 0400000000000000"), &[Action::DecNwTtl(few)]);
        all(nx!("10", "2b", "000000000000"), &[Action::CtClear]);
        all(nx!("18", "1b", "0005 00010204 0006 000000000000"), &[Action::StackPush(from)]);
        all(nx!("18", "1c", "0005 00010204 0006 000000000000"), &[Action::StackPop(from)]);
        all(
            nx!("10", "22", "00 02 12345678"),
            &[Action::Conjunction { id: 0x1234_5678, clause: 0, clauses: 2 }],
        );
    }
}

#[test]
fn controllers_get_data_and_reasons() {
    let to = |max_len, controller, reason, userdata: &[u8]| {
        [Action::Controller(Box::new(ControllerOutput {
            max_len,
            controller,
            reason,
            userdata: userdata.into(),
        }))]
    };
    let v13 = |text: &str, expected: &[Action]| same(Version::V13, text, expected);
    v13(nx!("10", "14", "04d2 162e 02 00"), &to(1234, 5678, 2, &[]));
    let properties = "000000000000 0000 0008 04d2 0000 0001 0008 162e 0000 0002 0005 02 000000 \
                      0003 0009 0102030405 00000000000000";
    v13(&format!("ffff 0038 00002320 0025 {properties}"), &to(1234, 5678, 2, &[1, 2, 3, 4, 5]));
    let pause = format!("ffff 0040 00002320 0025 {properties} 0004 0004 00000000");
    fails(Version::V13, &pause, ErrorCode::PropertyBadType);
    fails(Version::V10, nx!("18", "25", "0000 0005 0000 1122334455 000005"), ErrorCode::NxRequestMustBeZero);
}

#[test]
fn fields_are_loaded_and_moved() {
    let tci = Subfield::whole(Field::VlanTci);
    let port = part(Field::InPort, 0, 16);
    let text = nx!("18", "06", "0010 0000 0000 00000002 00000802");
    same(Version::V10, text, &[Action::Move { from: port, to: tci }]);
    same(Version::V13, text, &[Action::Move { from: port, to: tci }]);
    let load = nx!("18", "07", "000f 00000802 000000000000f009");
    same(Version::V10, load, &[set(Field::VlanTci, 0xf009)]);
    reads(Version::V13, load, &[set(Field::VlanTci, 0xf009)]);
    let half = nx!("18", "07", "040f 00010004 0000000000001234");
    same(Version::V13, half, &[set_part(Field::Reg0, 0x1234_0000, 0xffff_0000)]);
    let dscp = nx!("18", "07", "0007 00000a01 00000000000000b8");
    reads(Version::V10, dscp, &[set(Field::IpDscp, 0x2e)]);
    // A mask of two runs.
    let two = nx!("18", "21", "00010108 01000020 ff0000ff 00000000");
    fails(Version::V13, two, ErrorCode::ActionBadLen);
    let two = nx!("18", "21", "00010108 01000020 ff0000ff 0001");
    fails(Version::V13, two, ErrorCode::ActionBadSetArgument);
    let two = nx!("18", "21", "00010108 01000020 ff0000ff 0000");
    same(Version::V13, two, &[set_part(Field::Reg0, 0x0100_0020, 0xff00_00ff)]);
    let label = nx!("20", "21", "0001d810 0000000000000000 000000000000001d 0000");
    reads(
        Version::V10,
        nx!("18", "07", "0045 0001de10 0000000000000001"),
        &[set_part(Field::Xxreg0, 2, 0x7e)],
    );
    fails(Version::V13, label, ErrorCode::ActionBadSetArgument);
    // Copy-field of OpenFlow 1.5, and of the ONF before.
    let moved = [Action::Move { from: part(Field::Reg0, 8, 8), to: part(Field::Reg1, 0, 8) }];
    same(Version::V15, "001c 0018 0008 0008 0000 0000 00010004 00010204 00000000", &moved);
    reads(
        Version::V13,
        "ffff 0020 4f4e4600 0c80 0000 0008 0008 0000 0000 00010004 00010204 00000000",
        &moved,
    );
}

#[test]
fn standard_actions_of_version_1_3() {
    let v13 = |text: &str, expected: &[Action]| same(Version::V13, text, expected);
    v13("0000 0010 fffffffe 04d2 000000000000", &[Action::Output { port: PortNo::LOCAL, max_len: 1234 }]);
    v13("000b 0008 00000000", &[Action::CopyTtlOut]);
    v13("000c 0008 00000000", &[Action::CopyTtlIn]);
    v13("000f 0008 0a 000000", &[Action::SetMplsTtl(10)]);
    v13("0010 0008 00000000", &[Action::DecMplsTtl]);
    v13("0011 0008 8100 0000", &[Action::PushVlan(0x8100)]);
    v13("0012 0008 00000000", &[Action::PopVlan]);
    v13("0013 0008 8847 0000", &[Action::PushMpls(0x8847)]);
    v13("0014 0008 0800 0000", &[Action::PopMpls(0x800)]);
    v13("0015 0008 89abcd01", &[Action::SetQueue(Some(0x89ab_cd01))]);
    v13("0016 0008 00000005", &[Action::Group(5)]);
    v13("0017 0008 40 000000", &[Action::SetNwTtl(64)]);
    v13("0018 0008 00000000", &[Action::DecNwTtl([0].into())]);
    v13("001a 0008 88e7 0000", &[Action::PushPbb(0x88e7)]);
    v13("001b 0008 00000000", &[Action::PopPbb]);
    v13("0019 0010 80000c02 1009 000000000000", &[set(Field::VlanVid, 0x1009)]);
    v13("0019 0010 80000806 001122334455 0000", &[set(Field::EthSrc, 0x0011_2233_4455)]);
    v13("0019 0010 80004404 00012345 00000000", &[set(Field::MplsLabel, 0x12345)]);
    let address = 0xfe80_0000_0000_0000_0000_0000_0000_0001;
    v13("0019 0018 80003610 fe800000000000000000000000000001", &[set(Field::Ipv6Dst, address)]);
    let v15 = |text: &str, expected: &[Action]| same(Version::V15, text, expected);
    v15(
        "0019 0018 8000090c 001100000000 ffff00000000 00000000",
        &[set_part(Field::EthSrc, 0x0011_0000_0000, 0xffff_0000_0000)],
    );
    v15("001d 0008 00000001", &[Action::Meter(1)]);
}

#[test]
fn connections_are_tracked() {
    let ct = |commit, force, zone, table: Option<u8>, helper| ConnectionTracking {
        commit,
        force,
        zone,
        table: table.map(TableId),
        helper,
        nat: None,
        actions: Vec::new(),
    };
    let zero = LearnValue::Constant(0, 16);
    let plain =
        |text, tracking: ConnectionTracking| same(Version::V10, text, &[Action::Ct(Box::new(tracking))]);
    plain(nx!("18", "23", "0000 00000000 0000 FF 000000 0000"), ct(false, false, zero, None, 0));
    plain(nx!("18", "23", "0003 00000000 0000 FF 000000 0000"), ct(true, true, zero, None, 0));
    plain(nx!("18", "23", "0000 00000000 0000 0A 000000 0000"), ct(false, false, zero, Some(10), 0));
    plain(
        nx!("18", "23", "0000 00000000 000A FF 000000 0000"),
        ct(false, false, LearnValue::Constant(10, 16), None, 0),
    );
    plain(nx!("18", "23", "0000 00000000 0000 FF 000000 0015"), ct(false, false, zero, None, 21));
    let zone = LearnValue::Field(part(Field::Reg0, 0, 16));
    plain(nx!("18", "23", "0000 00010004 000F FF 000000 0000"), ct(false, false, zone, None, 0));
    let mark =
        ConnectionTracking { actions: vec![set(Field::CtMark, 0xf009)], ..ct(true, false, zero, None, 0) };
    let text = concat!(
        "ffff 0030 00002320 0023 0001 00000000 0000 FF 000000 0000",
        "ffff 0018 00002320 0007 001f 0001d604 000000000000f009"
    );
    plain(text, mark);
    let label = |value, mask| set_part(Field::CtLabel, value, mask);
    let high = u128::from(u64::MAX) << 64;
    let labels = vec![label(0, high), label(0x1d, u128::from(u64::MAX))];
    let text = concat!(
        "ffff 0048 00002320 0023 0001 00000000 0000 FF 000000 0000",
        "ffff 0018 00002320 0007 103f 0001d810 0000000000000000",
        "ffff 0018 00002320 0007 003f 0001d810 000000000000001d"
    );
    plain(text, ConnectionTracking { actions: labels, ..ct(true, false, zero, None, 0) });
}

#[test]
fn addresses_are_translated() {
    let with = |nat: Nat| {
        [Action::Ct(Box::new(ConnectionTracking {
            commit: true,
            force: false,
            zone: LearnValue::Constant(0, 16),
            table: None,
            helper: 0,
            nat: Some(nat),
            actions: Vec::new(),
        }))]
    };
    let outer = |len: &str| format!("ffff 00{len} 00002320 0023 0001 00000000 0000 FF 000000 0000");
    let check = |len, inner, nat| same(Version::V10, &(outer(len) + inner), &with(nat));
    let source = |range: NatRange| Nat { source: Some(true), range, ..Nat::default() };
    let v4 = |first: [u8; 4], last: [u8; 4]| Some((first.into(), last.into()));
    check("28", "ffff 0010 00002320 0024 0000 0001 0000", source(NatRange::default()));
    check("28", "ffff 0010 00002320 0024 0000 0002 0000", Nat { source: Some(false), ..Nat::default() });
    check("28", "ffff 0010 00002320 0024 0000 0000 0000", Nat::default());
    let addresses = v4([10, 0, 0, 240], [10, 0, 0, 240]);
    let ports = Some((32768, 65535));
    check(
        "30",
        "ffff 0018 00002320 0024 0000 0011 0031 0a0000f0 8000ffff",
        Nat { random: true, ..source(NatRange { addresses, ports }) },
    );
    let addresses = v4([10, 0, 0, 240], [10, 0, 0, 254]);
    check(
        "38",
        "ffff 0020 00002320 0024 0000 0005 0033 0a0000f0 0a0000fe 8000ffff 00000000",
        Nat { persistent: true, ..source(NatRange { addresses, ports }) },
    );
    let v6 = |last: u16| std::net::Ipv6Addr::new(0xfe80, 0, 0, 0, 0x20c, 0x29ff, 0xfe88, last).into();
    let range = NatRange { addresses: Some((v6(1), v6(0xa18b))), ports: Some((255, 4096)) };
    check(
        "50",
        concat!(
            "ffff 0038 00002320 0024 0000 0011 003c fe80000000000000 020c29fffe880001",
            "fe80000000000000 020c29fffe88a18b 00ff1000 00000000"
        ),
        Nat { random: true, ..source(range) },
    );
    let reversed = concat!(
        "ffff 0030 00002320 0024 0000 0011 000c fe80000000000000 020c29fffe88a18b",
        "fe80000000000000 020c29fffe880001"
    );
    fails(Version::V10, &(outer("48") + reversed), ErrorCode::ActionBadArgument);
}

#[test]
fn flows_are_learned() {
    let learn = Learn {
        table: TableId(2),
        priority: 80,
        cookie: 0x1234_5678_9abc_def0,
        idle_timeout: 10,
        hard_timeout: 20,
        fin_idle_timeout: 2,
        fin_hard_timeout: 4,
        flags: 0,
        limit: 0,
        result: None,
        specs: vec![
            LearnSpec::Match(LearnValue::Field(part(Field::VlanTci, 0, 12)), part(Field::VlanTci, 0, 12)),
            LearnSpec::Match(
                LearnValue::Field(Subfield::whole(Field::EthSrc)),
                Subfield::whole(Field::EthDst),
            ),
            LearnSpec::Output(part(Field::InPort, 0, 16)),
        ],
    };
    let specs = "000c 00000802 0000 00000802 0000 0030 00000406 0000 00000206 0000 1010 00000002 0000";
    let check = |head: &str, tail: &str, learn: &Learn| {
        let text = format!("{head} {specs} {tail}");
        same(Version::V13, &text, &[Action::Learn(Box::new(learn.clone()))]);
    };
    let fixed = "000a 0014 0050 123456789abcdef0";
    check(&format!("ffff 0048 00002320 0010 {fixed} 0000 02 00 0002 0004"), "00000000", &learn);
    let limited = Learn { limit: 1, ..learn.clone() };
    let head = format!("ffff 0050 00002320 002d {fixed} 0000 02 00 0002 0004 00000001 0000 0000");
    check(&head, "00000000", &limited);
    let reported = Learn { flags: 4, result: Some((Field::Reg0, 8)), ..limited };
    let head = format!("ffff 0050 00002320 002d {fixed} 0004 02 00 0002 0004 00000001 0008 0000 00010004");
    check(&head, "", &reported);
    // Constants as source of a match and of a load (nicira-ext.h).
    let constants = Learn {
        specs: vec![
            LearnSpec::Match(LearnValue::Constant(99, 16), part(Field::InPort, 0, 16)),
            LearnSpec::Load(LearnValue::Field(part(Field::InPort, 0, 16)), part(Field::Reg1, 16, 16)),
        ],
        ..learn
    };
    let text = format!(
        "ffff 0040 00002320 0010 {fixed} 0000 02 00 0002 0004 \
         2010 0063 00000002 0000 0810 00000002 0000 00010204 0010 0000000000000000"
    );
    fails(Version::V13, &text.replace("0002 0004 2010", "0002 0004 3810"), ErrorCode::ActionBadArgument);
    let expected = [Action::Learn(Box::new(constants))];
    assert_eq!(read_actions(&hex(&text), Version::V13).as_deref(), Ok(&expected[..]));
}

#[test]
fn clones_contain_actions() {
    let inner = [set_part(Field::VlanTci, 0x1005, 0x1fff), output(10)];
    let text = "ffff 0020 00002320 002a 000000000000 0001 0008 0005 0000 0000 0008 000a 0000";
    same(Version::V10, text, &[Action::Clone(inner.into())]);
    // More levels than allowed.
    let mut deep = Vec::new();
    for _ in 0..9 {
        let len = deep.len() as u16 + 16;
        deep.splice(
            0..0,
            [hex("ffff"), len.to_be_bytes().to_vec(), hex("00002320 002a 000000000000")].concat(),
        );
    }
    assert_eq!(read_actions(&deep, Version::V13), Err(ErrorCode::ActionTooMany));
    assert!(read_actions(&deep[16..], Version::V13).is_ok());
}

#[test]
fn invalid_actions_have_the_specified_errors() {
    use ErrorCode as E;
    let v10 = |text: &str, code| fails(Version::V10, text, code);
    v10("00 00 00 f0 00 00 00 00", E::ActionBadLen);
    v10("00 00 00 10 ff fe ff ff 00 00 00 00 00 00 00 00", E::ActionBadLen);
    v10("ffff 0011 00002320 0015 0001 00000000 0000000000000000 00000000000000", E::ActionBadLen);
    v10("0000 0008 ffff 0000", E::ActionBadOutPort);
    v10("000c 0008 0000 0000", E::ActionBadType);
    v10("0001 0008 1000 0000", E::ActionBadArgument);
    v10(nx!("18", "23", "0002 00000000 0000 FF 000000 0000"), E::ActionBadArgument);
    v10(nx!("18", "23", "0000 00010004 0007 FF 000000 0000"), E::ActionBadSetLen);
    v10(nx!("18", "23", "0000 00010004 001F FF 000000 0000"), E::ActionBadSetLen);
    v10(nx!("18", "07", "001f 0001d604 000000000000f009"), E::ActionBadSetArgument);
    let ct = |inner: &str| format!("ffff 0030 00002320 0023 0001 00000000 0000 FF 000000 0000 {inner}");
    v10(&ct(nx!("18", "07", "000f 0001d404 000000000000f009")), E::ActionBadSetLen);
    v10(&ct(nx!("18", "07", "000f 0001d402 000000000000f009")), E::ActionBadSetArgument);
    v10(&ct(nx!("18", "23", "0000 00000000 0000 FF 000000 0000")), E::ActionBadArgument);
    v10(&ct(nx!("18", "07", "001f 00010004 000000000000f009")), E::ActionBadArgument);
    v10("ffff 0010 00001234 0001 0005 00000000", E::ActionBadExperimenter);
    v10(nx!("10", "c8", "000000000000"), E::ActionBadExperimenterType);
    v10(nx!("10", "22", "02 02 00000001"), E::NxActionBadConjunction);
    let v13 = |text: &str, code| fails(Version::V13, text, code);
    v13("0001 0008 0009 0000", E::ActionBadType);
    v13("0000 0008 00000001", E::ActionBadLen);
    v13("0000 0010 ffffff01 0000 000000000000", E::ActionBadOutPort);
    v13("0011 0008 0800 0000", E::ActionBadArgument);
    v13("0019 0010 80000a02 0800 000000000000", E::ActionBadSetArgument);
    v13("0019 0010 80000c02 2009 000000000000", E::ActionBadSetArgument);
    v13("0019 0010 8000fe02 0800 000000000000", E::ActionBadSetType);
    v13("0019 0010 80000c01 0800 000000000000", E::ActionBadSetLen);
    v13("0019 0018 8000090c 000000000000 ffff00000000 00000000", E::ActionBadSetMask);
    v13("001d 0008 00000001", E::ActionBadType);
}
