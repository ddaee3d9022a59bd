//! Properties: what is written is read again, in one or many messages, and changed bytes never cause a panic.

use flow::{Field, Match, TableId};
use openflow::{
    Dialect, Framing, Header, Message, MultipartReply, TableStats, Version, decode, encode, fuzz, limits,
};
use proptest::prelude::*;

/// Transaction identifier of all messages, also of those in bundles.
pub(crate) const XID: u32 = 0x1234_5678;

fn bytes_of(message: &Message, version: Version) -> Vec<u8> {
    let mut out = Vec::new();
    encode(message, version, XID, &mut out).unwrap_or_else(|error| panic!("{message:?}: {error}"));
    out
}

fn round_trip(message: &Message, version: Version) -> Result<(), TestCaseError> {
    let bytes = bytes_of(message, version);
    let header = Header::read(&bytes).unwrap();
    prop_assert_eq!((usize::from(header.length), header.xid), (bytes.len(), XID));
    let read = decode(&bytes, version);
    prop_assert_eq!(read.as_ref(), Ok(message));
    prop_assert_eq!(bytes_of(message, version), bytes);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn messages_of_1_0_are_read_as_written(message in crate::arbitrary::messages(Version::V10)) {
        round_trip(&message, Version::V10)?;
    }

    #[test]
    fn messages_of_1_3_are_read_as_written(message in crate::arbitrary::messages(Version::V13)) {
        round_trip(&message, Version::V13)?;
    }

    #[test]
    fn messages_of_1_4_are_read_as_written(message in crate::arbitrary::messages(Version::V14)) {
        round_trip(&message, Version::V14)?;
    }

    #[test]
    fn messages_of_1_5_are_read_as_written(message in crate::arbitrary::messages(Version::V15)) {
        round_trip(&message, Version::V15)?;
    }

    #[test]
    fn changed_messages_cause_no_panic(
        (version, message) in prop::sample::select(Version::ALL.to_vec())
            .prop_flat_map(|version| (Just(version), crate::arbitrary::messages(version))),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = bytes_of(&message, version);
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        let option = Version::ALL.iter().position(|known| *known == version).unwrap() as u8;
        fuzz::fuzz_decode(&[&[option], &bytes[..]].concat());
    }

    #[test]
    fn lists_are_divided_into_messages(
        few in prop::collection::vec(crate::arbitrary::matches(), 4),
        count in 0..3000_usize,
    ) {
        let flow = |i: usize| openflow::FlowStats {
            table: TableId((i % 255) as u8),
            matching: few[i % few.len()],
            priority: i as u16,
            cookie: i as u64,
            idle_timeout: 0,
            hard_timeout: 0,
            flags: flow::FlowFlags::default(),
            importance: 0,
            duration: std::time::Duration::ZERO,
            idle_age: None,
            hard_age: None,
            packets: 1,
            bytes: 2,
            instructions: flow::Instructions::default(),
        };
        let flows: Vec<_> = (0..count).map(flow).collect();
        let bytes = bytes_of(&Message::MultipartReply(MultipartReply::Flow(flows.clone()), false), Version::V13);
        let (mut framing, mut rest, mut found, mut parts) = (Framing::new(), &bytes[..], Vec::new(), Vec::new());
        while !rest.is_empty() {
            rest = &rest[framing.push(rest)..];
            while let Some(part) = framing.next_message().unwrap() {
                prop_assert!(part.len() <= limits::MESSAGE);
                let Ok(Message::MultipartReply(MultipartReply::Flow(list), more)) = decode(part, Version::V13) else {
                    panic!("not a part of the reply")
                };
                found.extend(list);
                parts.push(more);
            }
        }
        prop_assert_eq!(found, flows);
        let last = parts.pop();
        prop_assert_eq!(last, Some(false));
        prop_assert!(parts.iter().all(|more| *more));
    }
}

#[test]
fn what_cannot_be_expressed_is_an_error_and_leaves_nothing() {
    let mut out = vec![1, 2, 3];
    let long = Message::EchoRequest(vec![0; 65530]);
    assert!(encode(&long, Version::V13, 1, &mut out).is_err());
    let stats = Message::MultipartReply(MultipartReply::TableDesc(Vec::new()), false);
    assert!(encode(&stats, Version::V13, 1, &mut out).is_err());
    let names = TableStats { name: "lost".to_owned(), ..TableStats::default() };
    assert_eq!(out, [1, 2, 3]);
    let reply = Message::MultipartReply(MultipartReply::Table(vec![names]), false);
    encode(&reply, Dialect::from(Version::V13), 1, &mut out).unwrap();
    assert_eq!(out.len(), 3 + 16 + 24);
}

#[test]
fn every_field_of_a_match_is_written() {
    for &field in Field::ALL.iter().filter(|field| field.info().oxm.or(field.info().nxm).is_some()) {
        let any = Match::any();
        if !field.info().requires.holds(&any) {
            continue;
        }
        let matching = any.with(field, 1);
        let packet = openflow::PacketIn {
            format: openflow::PacketInFormat::Nicira,
            buffer: None,
            total_len: 0,
            reason: 0,
            table: TableId(0),
            cookie: 0,
            metadata: matching,
            data: Vec::new(),
            userdata: Vec::new(),
        };
        for version in Version::ALL {
            let message = Message::PacketIn(Box::new(packet.clone()));
            assert_eq!(decode(&bytes_of(&message, version), version).as_ref(), Ok(&message), "{field:?}");
        }
    }
}
