use super::*;
use crate::ip::InterfaceId;
use proptest::prelude::*;
use std::prelude::v1::*;
use std::vec;
use wire::checksum::Sum;
use wire::{Ipv4, ipv6_fragment_header, rewrite_ipv4};

const UDP: u8 = 17;
const PORT: InterfaceId = InterfaceId(0);
const LINK: &[u8] = b"Ethernet here.";

fn v4_header(options: usize) -> Vec<u8> {
    let mut header = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, UDP, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    header[0] += options as u8 / 4;
    header.resize(20 + options, 1);
    header
}

/// A packet without fragment header.
fn whole(is_v4: bool, extension: bool, payload: &[u8]) -> Vec<u8> {
    if is_v4 {
        let mut packet = [&v4_header(if extension { 8 } else { 0 }), payload].concat();
        let len = packet.len() as u16;
        rewrite_ipv4(&mut packet, len, 7);
        return packet;
    }
    let more: &[u8] = if extension { &[UDP, 0, 1, 4, 0, 0, 0, 0] } else { &[] };
    let mut packet = vec![0x60, 0, 0, 0, 0, 0, if extension { 60 } else { UDP }, 64];
    packet.extend([[0xfd; 16], [0xfe; 16]].concat());
    packet[4..6].copy_from_slice(&((more.len() + payload.len()) as u16).to_be_bytes());
    [&packet, more, payload].concat()
}

/// A fragment of [`whole`]: bytes `range` of its payload, with these low bits of the identification.
fn part(whole: &[u8], range: core::ops::Range<usize>, more: bool, id: u16) -> Vec<u8> {
    let is_v4 = whole[0] >> 4 == 4;
    let extension = if is_v4 { whole[0] != 0x45 } else { whole[6] == 60 };
    let headers = if is_v4 { 20 } else { 40 } + if extension { 8 } else { 0 };
    let payload = &whole[headers..][range.clone()];
    let mut fragment = whole[..headers].to_vec();
    if is_v4 {
        let field = (range.start / 8) as u16 | u16::from(more) << 13;
        fragment[6..8].copy_from_slice(&field.to_be_bytes());
        fragment.extend(payload);
        let len = fragment.len() as u16;
        rewrite_ipv4(&mut fragment, len, id);
        return fragment;
    }
    let at = if extension { 40 } else { 6 };
    let header = ipv6_fragment_header(fragment[at], range.start as u16, more, id.into());
    fragment[at] = 44;
    fragment.extend([&header, payload].concat());
    let len = fragment.len() as u16 - 40;
    fragment[4..6].copy_from_slice(&len.to_be_bytes());
    fragment
}

struct Host {
    held: Reassembly,
    counters: Counters,
    now: Time,
}

impl Host {
    fn new(change: impl FnOnce(&mut Limits)) -> Self {
        let mut limits = Limits::default();
        change(&mut limits);
        Self { held: Reassembly::new(&limits), counters: Counters::default(), now: Time(0) }
    }

    fn receive(&mut self, packet: &[u8]) -> Reassembled {
        let frame = [LINK, packet].concat();
        let fragment = Fragment::new(PORT, &frame[..frame.len().min(128)], LINK.len());
        let Some(fragment) = fragment else { return Reassembled::Discarded };
        let copy = |to: &mut [u8]| to.copy_from_slice(&frame[fragment.payload()]);
        let result = self.held.receive(&fragment, copy, self.now, &mut self.counters);
        self.check();
        if let Reassembled::Complete(frame) = result {
            assert_eq!(&frame[..LINK.len()], LINK);
            return Reassembled::Complete(frame[LINK.len()..].to_vec());
        }
        result
    }

    fn check(&self) {
        let costs = self.held.entries.iter().filter_map(|entry| entry.packet.as_ref()).map(Packet::cost);
        assert_eq!(self.held.bytes, costs.sum::<usize>());
        assert!(self.held.bytes <= self.held.limits.reassembly_bytes as usize);
        assert!(self.held.entries.len() <= self.held.limits.reassemblies as usize);
    }

    fn expire(&mut self, seconds: u64) -> Option<Vec<u8>> {
        self.held.expire(Time(seconds * 1_000_000_000), &mut self.counters)
    }
}

fn payload(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 256) as u8).collect()
}

#[test]
fn overlapping_fragments_discard_the_packet_and_later_fragments() {
    for is_v4 in [true, false] {
        let mut host = Host::new(|_| ());
        let whole = whole(is_v4, false, &payload(100));
        assert_eq!(host.receive(&part(&whole, 0..32, true, 1)), Reassembled::Pending);
        assert_eq!(host.receive(&part(&whole, 24..48, true, 1)), Reassembled::Discarded);
        assert_eq!((host.held.bytes, host.counters.reassembly_failed), (0, 1));
        for range in [0..32, 32..48] {
            assert_eq!(host.receive(&part(&whole, range, true, 1)), Reassembled::Discarded);
        }
        assert_eq!(host.receive(&part(&whole, 48..100, false, 1)), Reassembled::Discarded);
        assert_eq!(host.receive(&part(&whole, 0..48, true, 7)), Reassembled::Pending);
        assert_eq!(host.receive(&part(&whole, 48..100, false, 7)), Reassembled::Complete(whole.clone()));
        assert_eq!((host.expire(29), host.held.entries.len()), (None, 1));
        assert_eq!((host.expire(30), host.held.entries.len()), (None, 0));
        assert_eq!((host.counters.reassembled, host.counters.reassembly_failed), (1, 1));
    }
}

#[test]
fn contradicting_ends_discard_the_packet() {
    let whole = whole(true, false, &payload(100));
    let pairs = [
        ((0..64, false), (64..72, true)),
        ((64..72, true), (0..56, false)),
        ((40..72, false), (32..40, false)),
        ((40..72, false), (0..80, true)),
    ];
    for ((first, more), (second, also)) in pairs {
        let mut host = Host::new(|_| ());
        // Not atomic: a last fragment begins after the start.
        let first = if first.start == 0 { 8..first.end } else { first };
        let second = if second.start == 0 && !also { 8..second.end } else { second };
        assert_eq!(host.receive(&part(&whole, first, more, 1)), Reassembled::Pending);
        assert_eq!(host.receive(&part(&whole, second, also, 1)), Reassembled::Discarded);
        assert_eq!(host.held.bytes, 0);
    }
}

#[test]
fn atomic_fragments_pass_beside_others_with_their_identification() {
    let mut host = Host::new(|_| ());
    let whole = whole(false, true, &payload(100));
    assert_eq!(host.receive(&part(&whole, 0..48, true, 1)), Reassembled::Pending);
    assert_eq!(host.receive(&part(&whole, 0..100, false, 1)), Reassembled::Complete(whole.clone()));
    assert_eq!(host.receive(&part(&whole, 48..100, false, 1)), Reassembled::Complete(whole));
    assert_eq!(host.held.deadline(), Time::NEVER);
}

#[test]
fn invalid_fragments_are_refused_without_a_trace() {
    let mut host = Host::new(|_| ());
    let long = whole(false, true, &payload(65_400));
    let odd = host.receive(&part(&long, 0..33, true, 1));
    assert_eq!(odd, Reassembled::Refused { code: 0, pointer: 4 });
    let mut beyond = part(&long, 65_000..65_400, false, 1);
    beyond[50..52].copy_from_slice(&0xfff8_u16.to_be_bytes());
    assert_eq!(host.receive(&beyond), Reassembled::Refused { code: 0, pointer: 50 });
    let tiny = |packet: &[u8], protocol: u8| {
        let mut tiny = part(packet, 0..16, true, 1);
        tiny[if packet[0] >> 4 == 4 { 9 } else { 40 }] = protocol;
        tiny
    };
    let plain = whole(false, false, &payload(100));
    for protocol in [6, 44, 60] {
        let result = host.receive(&tiny(&plain, protocol));
        assert_eq!(result, Reassembled::Refused { code: 3, pointer: 0 }, "{protocol}");
    }
    let v4 = whole(true, false, &payload(100));
    assert_eq!(host.receive(&tiny(&v4, 6)), Reassembled::Discarded);
    assert_eq!(host.receive(&part(&v4, 0..9, true, 1)), Reassembled::Discarded);
    assert_eq!(host.receive(&part(&v4, 8..8, false, 1)), Reassembled::Discarded);
    let mut beyond = part(&v4, 8..100, false, 1);
    beyond[6..8].copy_from_slice(&0x1ffe_u16.to_be_bytes());
    assert_eq!(host.receive(&beyond), Reassembled::Discarded);
    assert_eq!((host.held.entries.len(), host.counters.reassembly_failed), (0, 9));
    assert!(Fragment::new(PORT, &v4, 0).is_none() && Fragment::new(PORT, &plain, 0).is_none());
}

#[test]
fn the_first_fragment_is_reported_when_the_time_is_over() {
    let mut host = Host::new(|_| ());
    let (v4, v6) = (whole(true, false, &payload(100)), whole(false, false, &payload(100)));
    let first = part(&v6, 0..48, true, 1);
    host.receive(&part(&v4, 48..100, false, 1));
    host.now = Time(1_000_000_000);
    host.receive(&first);
    assert_eq!((host.held.deadline(), host.expire(29)), (Time(30_000_000_000), None));
    assert_eq!((host.expire(31), host.expire(31)), (Some(first), None));
    assert_eq!((host.counters.reassembly_failed, host.held.bytes), (2, 0));
}

#[test]
fn the_oldest_packets_make_room() {
    let mut host = Host::new(|limits| (limits.reassemblies, limits.reassembly_bytes) = (3, 300));
    let whole = whole(true, false, &payload(400));
    for id in 1..=4 {
        assert_eq!(host.receive(&part(&whole, 0..48, true, id)), Reassembled::Pending);
    }
    assert_eq!(
        host.receive(&part(&whole, 48..400, false, 1)),
        Reassembled::Discarded,
        "over the limit alone"
    );
    assert_eq!(host.held.entries.len(), 0);
    for id in 5..=6 {
        assert_eq!(host.receive(&part(&whole, 0..80, true, id)), Reassembled::Pending);
    }
    assert_eq!(host.receive(&part(&whole, 80..280, true, 6)), Reassembled::Pending);
    assert_eq!((host.held.entries.len(), host.held.bytes), (1, 300));
}

#[test]
fn congestion_marks_survive_and_contradictions_do_not() {
    for (first, second, result) in
        [(2, 3, Some(3)), (1, 1, Some(1)), (0, 0, Some(0)), (0, 3, None), (2, 0, None)]
    {
        let mut host = Host::new(|_| ());
        let whole = whole(true, false, &payload(100));
        let marked = |range, more, ecn| {
            let mut bytes = part(&whole, range, more, 1);
            bytes[1] = ecn;
            bytes
        };
        host.receive(&marked(0..48, true, first));
        let Reassembled::Complete(packet) = host.receive(&marked(48..100, false, second)) else {
            assert_eq!(result, None);
            continue;
        };
        assert_eq!(Some(packet[1]), result);
        assert_eq!(Sum::of(&packet[..Ipv4::new(&packet).unwrap().header_len()]).finish(), [0, 0]);
    }
}

#[test]
fn the_number_of_fragments_is_limited() {
    let mut host = Host::new(|limits| limits.fragments = 4);
    let whole = whole(true, false, &payload(100));
    for at in 0..4 {
        assert_eq!(host.receive(&part(&whole, at * 16..at * 16 + 8, true, 1)), Reassembled::Pending);
    }
    assert_eq!(host.receive(&part(&whole, 8..16, true, 1)), Reassembled::Discarded);
    assert_eq!(host.held.bytes, 0);
}

proptest! {
    #[test]
    fn any_order_of_any_cut_gives_the_original(
        len in 21usize..3000,
        cuts in prop::collection::btree_set(1usize..370, 1..40),
        seed in any::<u64>(),
        again in 0usize..4,
        is_v4: bool,
        extension: bool,
    ) {
        let mut host = Host::new(|_| ());
        let whole = whole(is_v4, extension, &payload(len));
        let ends: Vec<_> = cuts.iter().map(|cut| cut * 8).filter(|cut| *cut < len).chain([len]).collect();
        prop_assume!(ends.len() > 1);
        let starts = [0].into_iter().chain(ends.clone());
        let mut parts: Vec<_> = starts.zip(ends).map(|(from, to)| part(&whole, from..to, to < len, 7)).collect();
        let mut random = crate::random::Random::new(&[1; 16], "order", seed);
        for at in (1..parts.len()).rev() {
            parts.swap(at, random.below(at as u64 + 1) as usize);
        }
        let last = parts.pop().unwrap();
        for piece in parts.iter().chain(parts.iter().take(again)) {
            prop_assert_eq!(host.receive(piece), Reassembled::Pending);
        }
        prop_assert_eq!(host.receive(&last), Reassembled::Complete(whole));
        prop_assert_eq!((host.held.bytes, host.held.entries.len()), (0, 0));
    }

    #[test]
    fn arbitrary_fragments_exceed_no_limit(
        all in prop::collection::vec((any::<bool>(), 0usize..40, 0usize..40, any::<bool>(), 0u16..6, 0u64..20), 1..120),
    ) {
        let mut host = Host::new(|limits| {
            (limits.reassemblies, limits.fragments, limits.reassembly_bytes) = (3, 5, 600);
        });
        let wholes = [true, false].map(|is_v4| whole(is_v4, false, &payload(700)));
        for (is_v4, start, len, more, id, seconds) in all {
            host.now = Time(host.now.0 + seconds * 1_000_000_000);
            while host.held.expire(host.now, &mut host.counters).is_some() {
                host.check();
            }
            let whole = &wholes[usize::from(!is_v4)];
            host.receive(&part(whole, start * 8..(start + len) * 8, more, id));
            prop_assert!(host.held.deadline() > host.now);
        }
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(
        first in prop_oneof![Just(0x45u8), Just(0x47), Just(0x60)],
        next in prop_oneof![Just(44u8), Just(0), Just(60), any::<u8>()],
        mut bytes in prop::collection::vec(prop_oneof![Just(0u8), Just(44), any::<u8>()], 8..120),
    ) {
        (bytes[0], bytes[6]) = (first, next);
        let mut host = Host::new(|_| ());
        if let Some(fragment) = Fragment::new(PORT, &bytes, 0) {
            let copy = |to: &mut [u8]| assert_eq!(to.len(), fragment.payload().len());
            let _ = host.held.receive(&fragment, copy, host.now, &mut host.counters);
            host.check();
        }
    }
}
