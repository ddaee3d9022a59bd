//! Properties of sequences of actions.

use super::edits::{begin, finish};
use super::frames::any_frame;
use super::verify::assert_sums;
use flow::packet::{ActionError, Layout, Rewriter, parse};
use flow::{Access, Action, Field, Key, Subfield};
use port::{HEAD_SLOT, Offload};
use proptest::prelude::*;
use wire::checksum::{Sum, protocol};

fn packet_fields() -> Vec<Field> {
    let is_of_packet = |field: &&Field| Key::PACKET.contains(&field.info().word.into());
    let fields = Field::ALL.iter().filter(is_of_packet).filter(|field| field.info().access == Access::Write);
    fields.copied().collect()
}

fn any_set() -> impl Strategy<Value = Action> {
    let masks = prop_oneof![Just(u128::MAX), any::<u128>()];
    (prop::sample::select(packet_fields()), any::<u128>(), masks).prop_map(|(field, value, mask)| {
        let mask = mask & field.full();
        Action::SetField { field, value: value & mask, mask }
    })
}

fn any_action() -> impl Strategy<Value = Action> {
    let ttls = prop_oneof![
        any::<u8>().prop_map(Action::SetMplsTtl),
        any::<u8>().prop_map(Action::SetNwTtl),
        Just(Action::DecMplsTtl),
        Just(Action::DecNwTtl(Box::from([0]))),
        Just(Action::CopyTtlIn),
        Just(Action::CopyTtlOut),
    ];
    let tags = prop_oneof![
        prop::sample::select(vec![0x8100, 0x88a8, 0x0800]).prop_map(Action::PushVlan),
        Just(Action::PopVlan),
        prop::sample::select(vec![0x8847, 0x8848, 0x0800]).prop_map(Action::PushMpls),
        prop::sample::select(vec![0x8847, 0x0800, 0x86dd, 0x88e7]).prop_map(Action::PopMpls),
        prop::sample::select(vec![0x88e7, 0x0800]).prop_map(Action::PushPbb),
        Just(Action::PopPbb),
    ];
    let moves = prop::sample::select(vec![
        (Field::EthDst, Field::EthSrc),
        (Field::Ipv4Src, Field::Ipv4Dst),
        (Field::TcpDst, Field::TcpSrc),
        (Field::EthSrc, Field::NdSll),
        (Field::Ipv6Dst, Field::NdTarget),
    ])
    .prop_map(|(from, to)| Action::Move { from: Subfield::whole(from), to: Subfield::whole(to) });
    prop_oneof![6 => any_set(), 3 => tags, 2 => ttls, 1 => moves]
}

/// Executes actions. A refused one must change nothing.
fn execute(rewriter: &mut Rewriter, actions: &[Action]) {
    for action in actions {
        let (head, key, layout) = (rewriter.head().to_vec(), *rewriter.key(), *rewriter.layout());
        match rewriter.apply(action) {
            Ok(known) => assert!(known),
            Err(error) => {
                assert_eq!(rewriter.head(), head, "{action:?}: {error}");
                assert_eq!((*rewriter.key(), *rewriter.layout()), (key, layout), "{action:?}: {error}");
            }
        }
    }
}

fn reparsed(frame: &[u8], len: usize) -> (Key, Layout) {
    let mut key = Key::ZERO;
    let layout = parse(frame, len, &mut key);
    (key, layout)
}

/// A TCP or UDP packet with the sum of its pseudo-header in the checksum field, as a sender leaves it to an offload.
fn offloaded(frame: &[u8], key: &Key, layout: &Layout) -> Option<(Vec<u8>, Offload)> {
    let (network, transport) = (usize::from(layout.network), usize::from(layout.transport));
    let protocol = key.get(Field::IpProto) as u8;
    let offset = match protocol {
        protocol::TCP => 16,
        protocol::UDP => 6,
        _ => return None,
    };
    if transport == 0 || layout.is_fragment || layout.end as usize != frame.len() {
        return None;
    }
    let addresses = if key.get(Field::EthType) == 0x0800 { 12..20 } else { 8..40 };
    let addresses = &frame[network..][addresses];
    let sum = Sum::pseudo(addresses, protocol, (frame.len() - transport) as u32).partial();
    let mut frame = frame.to_vec();
    frame[transport + offset..transport + offset + 2].copy_from_slice(&sum);
    Some((frame, Offload::with_checksum(transport as u16, offset as u16)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn key_and_checksums_follow_every_action(
        frame in any_frame(), actions in prop::collection::vec(any_action(), 0..8),
    ) {
        let (key, layout) = reparsed(&frame, frame.len());
        let is_decapsulated = |action: &Action| matches!(action, Action::PopMpls(_) | Action::PopPbb);
        assert_sums(&frame, &key, &layout);
        let mut rewriter = begin(&frame, Offload::NONE);
        execute(&mut rewriter, &actions);
        let (bytes, _) = match rewriter.edit(&frame) {
            Err(ActionError::TooLong) => return Ok(()),
            _ => finish(&frame, Offload::NONE, &rewriter),
        };
        let (key, layout) = reparsed(rewriter.head(), bytes.len());
        prop_assert_eq!(rewriter.key(), &key);
        prop_assert_eq!(rewriter.layout(), &layout);
        // A popped header may leave bytes that its EtherType does not describe.
        if !actions.iter().any(is_decapsulated) {
            assert_sums(&bytes, &key, &layout);
        }
    }

    #[test]
    fn offloaded_checksums_are_completed_after_every_action(
        frame in any_frame(), actions in prop::collection::vec(any_action(), 0..8),
    ) {
        let is_decapsulation = |action: &Action| matches!(action, Action::PopMpls(_) | Action::PopPbb);
        let (key, layout) = reparsed(&frame, frame.len());
        prop_assume!(!actions.iter().any(is_decapsulation));
        let Some((frame, offload)) = offloaded(&frame, &key, &layout) else { return Ok(()) };
        let mut rewriter = begin(&frame, offload);
        execute(&mut rewriter, &actions);
        if rewriter.edit(&frame).is_err() {
            return Ok(());
        }
        let (mut bytes, offload) = finish(&frame, offload, &rewriter);
        let (start, offset) = offload.checksum().expect("no header with an offload is removed");
        let sum = Sum::of(&bytes[start..]).finish_nonzero();
        bytes[start + offset..start + offset + 2].copy_from_slice(&sum);
        let (key, layout) = reparsed(&bytes, bytes.len());
        assert_sums(&bytes, &key, &layout);
    }

    #[test]
    fn cut_heads_are_rewritten_like_their_frames(
        frame in any_frame(), cut in 0..80_usize, actions in prop::collection::vec(any_action(), 0..6),
    ) {
        let head = &frame[..frame.len().min(cut)];
        for len in [head.len(), frame.len()] {
            let (key, layout) = reparsed(head, len);
            let mut rewriter = Rewriter::new();
            rewriter.begin(head, len, Offload::NONE, &key, &layout);
            execute(&mut rewriter, &actions);
            let (bytes, len) = (rewriter.head().to_vec(), rewriter.frame_len());
            prop_assert_eq!((*rewriter.key(), *rewriter.layout()), reparsed(&bytes, len));
        }
    }

    #[test]
    fn arbitrary_bytes_are_parsed_within_the_head(
        ethertype in prop::sample::select(vec![0x0800u16, 0x86dd, 0x0806, 0x8100, 0x8847, 0x88e7, 40]),
        first in prop::sample::select(vec![0x45u8, 0x4f, 0x60]),
        bytes in prop::collection::vec(any::<u8>(), 0..400), len in 0..3000_usize,
    ) {
        let head = [&[2; 12][..], &ethertype.to_be_bytes(), &[first], &bytes].concat();
        let (key, layout) = reparsed(&head, len.max(head.len()));
        prop_assert_eq!((key, layout), reparsed(&head[..head.len().min(HEAD_SLOT)], len.max(head.len())));
        let places = [layout.ethertype, layout.mpls, layout.pbb, layout.network, layout.target];
        prop_assert!(places.iter().all(|at| usize::from(*at) < head.len()));
    }
}
