use super::*;
use crate::{BufId, Capabilities, Offload, Segmentation};
use mem::{GuestMemory, Region};
use proptest::prelude::*;
use std::sync::Arc;
use wire::checksum::{Sum, protocol};
use wire::{Ipv4, Layers, Version};

/// A burst with one packet in segments of the given lengths, repeated cyclically.
fn burst_of(packet: &[u8], lens: &[usize], offload: Offload) -> Burst {
    let region = Arc::new(Region::heap(0, 0, 1 << 17));
    let whole = region.seg(0, packet.len() as u32).unwrap();
    // SAFETY: the region is alive and has the packet's length.
    unsafe { whole.copy_in::<Portable>(packet) };
    let (mut pieces, mut left, mut lens) = (vec![], whole, lens.iter().copied().cycle());
    while !left.is_empty() {
        let (piece, rest) = left.split_at(lens.next().unwrap().max(1));
        pieces.push(piece);
        left = rest;
    }
    let mut burst = Burst::new();
    burst.begin(0);
    burst.pin(&Arc::new(GuestMemory::new(vec![region]).unwrap()));
    burst.push_chain(BufId::default(), &pieces);
    burst.set_offload(0, offload);
    burst.load_heads::<Portable>();
    burst
}

fn bytes(burst: &Burst, i: usize) -> Vec<u8> {
    let mut to = vec![0; burst.frame_len(i)];
    assert_eq!(burst.frame(i).copy_to::<Portable>(&mut to), to.len());
    to
}

/// All output packets.
fn finish(burst: &Burst) -> Result<Vec<Vec<u8>>, BadOffload> {
    let mut gso = SoftGso::start(burst, 0)?;
    let (mut made, mut all) = (Burst::new(), vec![]);
    while gso.fill(burst, 0, &mut made) {
        assert!(!made.has_offloads());
        all.extend((0..made.len()).map(|i| bytes(&made, i)));
    }
    assert_eq!(all.len(), gso.packets());
    Ok(all)
}

/// A frame with Ethernet, IP and TCP or UDP headers; the checksum field contains the pseudo-header sum.
fn packet(version: Version, proto: u8, tags: usize, payload: &[u8]) -> (Vec<u8>, usize) {
    let mut frame = vec![2; 12];
    (0..tags).for_each(|_| frame.extend([0x81, 0, 0, 5]));
    let transport: &mut [u8] = &mut match proto {
        protocol::TCP => {
            let mut tcp = vec![1, 2, 3, 4, 0xff, 0xff, 0xff, 0x10, 0, 0, 0, 1, 0x80, 0x99, 2, 0, 0, 0, 0, 0];
            tcp.extend([1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
            tcp
        }
        _ => vec![1, 2, 3, 4, 0, 0, 0, 0],
    };
    let len = transport.len() + payload.len();
    let start = match version {
        Version::V4 => {
            frame.extend([8, 0, 0x45, 0]);
            frame.extend(((20 + len) as u16).to_be_bytes());
            frame.extend([0xff, 0xfe, 0x40, 0, 64, proto, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
            frame.len()
        }
        Version::V6 => {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            frame.extend((len as u16).to_be_bytes());
            frame.extend([proto, 64]);
            frame.extend([0xfe; 32]);
            frame.len()
        }
    };
    let addresses = match version {
        Version::V4 => frame[start - 8..].to_vec(),
        Version::V6 => frame[start - 32..].to_vec(),
    };
    let field = if proto == protocol::TCP { 16 } else { 6 };
    if proto == protocol::UDP {
        transport[4..6].copy_from_slice(&(len as u16).to_be_bytes());
    }
    transport[field..field + 2].copy_from_slice(&Sum::pseudo(&addresses, proto, len as u32).partial());
    frame.extend_from_slice(transport);
    frame.extend(payload);
    (frame, start)
}

/// Whether all checksums and lengths of a frame are correct.
fn is_right(frame: &[u8]) -> bool {
    let layers = Layers::of(frame).unwrap();
    let (l3, l4) = (&frame[layers.network..], &frame[layers.transport..]);
    let network = match layers.version {
        Version::V4 => {
            let view = Ipv4::new(l3).unwrap();
            usize::from(view.total_len()) == l3.len() && Sum::of(&l3[..view.header_len()]).finish() == [0, 0]
        }
        Version::V6 => usize::from(wire::Ipv6::new(l3).unwrap().payload_len()) == l3.len() - 40,
    };
    let mut sum = Sum::pseudo(layers.addresses(frame), layers.protocol, l4.len() as u32);
    sum.add(l4);
    network && sum.finish() == [0, 0]
}

fn cut(kind: Segmentation, start: usize, segment: u16) -> Offload {
    let field = if kind == Segmentation::Udp { 6 } else { 16 };
    Offload::with_checksum(start as u16, field).with_segments(kind, segment, false)
}

#[test]
fn segments_keep_the_notes_of_their_packet() {
    let (frame, start) = packet(Version::V4, protocol::TCP, 0, &[7; 3000]);
    let mut source = burst_of(&frame, &[4096], cut(Segmentation::Tcp4, start, 1448));
    let notes = crate::Notes { tunnel: 9, ..crate::Notes::default() };
    source.set_notes(0, notes);
    let mut made = Burst::new();
    assert!(SoftGso::start(&source, 0).unwrap().fill(&source, 0, &mut made));
    assert_eq!((0..made.len()).map(|i| made.notes(i)).collect::<Vec<_>>(), [notes; 3]);
}

#[test]
fn tso_packet_becomes_its_segments() {
    let payload: Vec<u8> = (0..60_000_u32).map(|i| ((i * 7) >> 3) as u8).collect();
    let (frame, start) = packet(Version::V4, protocol::TCP, 1, &payload);
    let all = finish(&burst_of(&frame, &[1000, 4096], cut(Segmentation::Tcp4, start, 1448))).unwrap();
    assert_eq!(all.len(), 60_000_usize.div_ceil(1448));
    let mut stream: Vec<u8> = vec![];
    for (n, segment) in all.iter().enumerate() {
        assert!(is_right(segment), "segment {n}");
        let tcp = &segment[start..];
        assert_eq!(
            u32::from_be_bytes(*tcp[4..].first_chunk().unwrap()),
            0xffff_ff10_u32.wrapping_add(n as u32 * 1448)
        );
        assert_eq!(Ipv4::new(&segment[18..]).unwrap().identification(), 0xfffe_u16.wrapping_add(n as u16));
        let last = n + 1 == all.len();
        // The packet has CWR, ACK, PSH and FIN.
        assert_eq!((tcp[13] & 0x80 != 0, tcp[13] & 0x09 != 0), (n == 0, last));
        stream.extend_from_slice(&tcp[32..]);
    }
    assert_eq!(stream, payload);
}

#[test]
fn segmentation_visits_each_piece_once() {
    let payload = vec![7; 64_000];
    let (frame, start) = packet(Version::V4, protocol::TCP, 0, &payload);
    let burst = burst_of(&frame, &[256], cut(Segmentation::Tcp4, start, 64));
    let (mut gso, mut made) = (SoftGso::start(&burst, 0).unwrap(), Burst::new());
    while gso.fill(&burst, 0, &mut made) {}
    let (segments, pieces) = (gso.packets(), frame.len().div_ceil(256));
    assert_eq!((segments, pieces), (1000, 251));
    assert!(gso.pieces.steps <= segments + pieces, "{} steps", gso.pieces.steps);
}

#[test]
fn maximum_packets_yield_valid_lengths_for_ipv4_and_ipv6() {
    for (version, kind) in [(Version::V4, Segmentation::Tcp4), (Version::V6, Segmentation::Tcp6)] {
        let headers = packet(version, protocol::TCP, 0, &[]).0.len();
        let (frame, start) = packet(version, protocol::TCP, 0, &vec![7; 65_550 - headers]);
        for size in [64, 1448, 32_768, 65_000, u16::MAX] {
            let made = finish(&burst_of(&frame, &[300], cut(kind, start, size)));
            let longest = usize::from(size).min(65_550 - headers) + headers - 14;
            let fits = u16::try_from(longest - if version == Version::V6 { 40 } else { 0 }).is_ok();
            assert_eq!(made.is_ok(), fits, "{version:?}, {size}");
            assert!(made.unwrap_or_default().iter().all(|segment| is_right(segment)), "{version:?}, {size}");
        }
    }
}

#[test]
fn zero_udp_checksum_is_written_as_ffff() {
    // The last word makes the sum all ones.
    let (mut frame, start) = packet(Version::V4, protocol::UDP, 0, &[0, 0]);
    let sum = Sum::of(&frame[start..]).finish();
    let end = frame.len();
    frame[end - 2..].copy_from_slice(&sum);
    let all = finish(&burst_of(&frame, &[2000], Offload::with_checksum(start as u16, 6))).unwrap();
    assert_eq!(all[0][start + 6..start + 8], [0xff, 0xff]);
}

#[test]
fn an_sctp_packet_gets_its_crc() {
    // RFC 9260 appendix A uses the CRC of iSCSI, whose published test vector is 32 zero bytes (RFC 3720 B.4).
    let (mut frame, start) = packet(Version::V4, protocol::SCTP, 0, &[0; 24]);
    frame[start..].fill(0);
    frame[23] = protocol::SCTP;
    let all = finish(&burst_of(&frame, &[50], Offload::with_checksum(start as u16, 8))).unwrap();
    assert_eq!(all[0][start + 8..start + 12], [0xaa, 0x36, 0x91, 0x8a]);
}

#[test]
fn offload_contradicting_the_headers_is_rejected() {
    let (frame, start) = packet(Version::V4, protocol::TCP, 0, &[7; 3000]);
    let refused = |frame: &[u8], offload| finish(&burst_of(frame, &[500], offload)).is_err();
    assert!(!refused(&frame, cut(Segmentation::Tcp4, start, 1000)));
    assert!(refused(&frame, cut(Segmentation::Tcp6, start, 1000)), "the other version");
    assert!(refused(&frame, cut(Segmentation::Udp, start, 1000)), "another transport");
    assert!(refused(&frame, cut(Segmentation::Tcp4, start + 4, 1000)), "another place");
    assert!(refused(&frame, cut(Segmentation::Tcp4, start, 2)), "too many segments");
    assert!(
        refused(&frame, Offload::with_checksum(MAX_INPUT_HEAD as u16 - 2, 2)),
        "a field behind every private byte"
    );
    let mut short = frame.clone();
    short[start + 12] = 0x40;
    assert!(refused(&short, cut(Segmentation::Tcp4, start, 1000)), "a header of 16 bytes");
    let mut fragment = frame.clone();
    fragment[14 + 6] = 0x20;
    assert!(refused(&fragment, cut(Segmentation::Tcp4, start, 1000)), "a fragment");
    assert!(refused(&frame[..start + 20], cut(Segmentation::Tcp4, start, 1000)), "a header that is cut off");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 256 }))]

    #[test]
    fn segments_are_valid_for_any_scatter_list(
        v6: bool,
        udp: bool,
        tags in 0_usize..3,
        payload in prop::collection::vec(any::<u8>(), 0..5000),
        segment in 90_u16..2000,
        lens in prop::collection::vec(1_usize..700, 1..5),
    ) {
        let version = if v6 { Version::V6 } else { Version::V4 };
        let (proto, headers) = if udp { (protocol::UDP, 8) } else { (protocol::TCP, 32) };
        let (frame, start) = packet(version, proto, tags, &payload);
        let kind = match (udp, v6) {
            (true, _) => Segmentation::Udp,
            (false, true) => Segmentation::Tcp6,
            (false, false) => Segmentation::Tcp4,
        };
        let all = finish(&burst_of(&frame, &lens, cut(kind, start, segment))).unwrap();
        prop_assert!(all.iter().all(|segment| is_right(segment)));
        let parts: Vec<&[u8]> = all.iter().map(|segment| &segment[start + headers..]).collect();
        prop_assert!(parts.iter().rev().skip(1).all(|part| part.len() == usize::from(segment)));
        prop_assert_eq!(parts.concat(), payload);
    }

    #[test]
    fn checksum_is_valid_for_any_scatter_list(
        v6: bool,
        udp: bool,
        payload in prop::collection::vec(any::<u8>(), 0..3000),
        lens in prop::collection::vec(1_usize..700, 1..5),
    ) {
        let version = if v6 { Version::V6 } else { Version::V4 };
        let (proto, field) = if udp { (protocol::UDP, 6) } else { (protocol::TCP, 16) };
        let (mut frame, start) = packet(version, proto, 0, &payload);
        if !v6 {
            let len = (frame.len() - 14) as u16;
            wire::rewrite_ipv4(&mut frame[14..], len, 1);
        }
        let all = finish(&burst_of(&frame, &lens, Offload::with_checksum(start as u16, field))).unwrap();
        prop_assert!(all.len() == 1 && is_right(&all[0]));
    }

    #[test]
    fn arbitrary_packets_and_offloads_do_not_panic(
        bytes in prop::collection::vec(any::<u8>(), 14..400),
        header: [u8; crate::OFFLOAD_HEADER],
        lens in prop::collection::vec(1_usize..200, 1..4),
    ) {
        if let Ok(offload) = Offload::validate(header, bytes.len()) && offload.is_work() {
            let _ = finish(&burst_of(&bytes, &lens, offload));
        }
    }
}

/// Outer headers are repeated with their own lengths, identifications and checksums, and the rest is what segmentation
/// makes of the payload.
#[test]
fn segments_of_a_tunnel_have_outer_headers() {
    let payload: Vec<u8> = (0..5000_u32).map(|i| (i % 251) as u8).collect();
    for (outer, inner) in
        [Version::V4, Version::V6].into_iter().flat_map(|o| [(o, Version::V4), (o, Version::V6)])
    {
        let (packet_alone, start) = packet(inner, protocol::TCP, 0, &payload);
        let kind = if inner == Version::V4 { Segmentation::Tcp4 } else { Segmentation::Tcp6 };
        let offload = Offload::with_checksum(start as u16, 16).with_segments(kind, 1000, false);
        let expected = finish(&burst_of(&packet_alone, &[700], offload)).unwrap();
        let (whole, udp) = packet(outer, protocol::UDP, 0, &[&[8; 8], packet_alone.as_slice()].concat());
        let headers = udp + 16;
        let encapsulated = offload.encapsulated((0, 0, headers), whole.len(), ((headers + 14) as u16, None));
        let encapsulated = encapsulated.unwrap();
        assert_eq!(encapsulated.checksum(), Some((headers + start, 16)));
        assert!(!Capabilities::ALL.cover(encapsulated.needs()), "no port kind segments it");
        let mut burst = burst_of(&whole, &[700], encapsulated);
        // The head of a packet grows by its outer headers.
        assert!(burst.pull_head::<Portable>(0, crate::MAX_HEAD));
        let made = finish(&burst).unwrap();
        assert_eq!(made.len(), 5);
        for (i, (segment, expected)) in made.iter().zip(&expected).enumerate() {
            assert_eq!(segment[headers..], *expected);
            let layers = Layers::of(segment).unwrap();
            let len = segment.len() - layers.transport;
            assert_eq!(segment[udp + 4..udp + 6], (len as u16).to_be_bytes());
            let mut sum = Sum::pseudo(layers.addresses(segment), protocol::UDP, len as u32);
            sum.add(&segment[udp..]);
            assert_eq!(sum.finish(), [0, 0], "segment {i}");
            if let Some(view) = Ipv4::new(&segment[14..]).filter(|_| outer == Version::V4) {
                assert!(view.is_checksum_valid() && usize::from(view.total_len()) == segment.len() - 14);
                assert_eq!(view.identification(), 0xfffe_u16.wrapping_add(i as u16));
            } else {
                assert_eq!(segment[18..20], ((segment.len() - 54) as u16).to_be_bytes());
            }
        }
    }
}
