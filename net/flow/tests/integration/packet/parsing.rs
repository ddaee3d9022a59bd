//! Fields and layouts of given frames.

use super::frames::{ADDRESSES, ethernet, ipv4, ipv6, neighbor, transport};
use flow::packet::{Layout, parse};
use flow::{Field, Key};
use wire::checksum::protocol;

fn parsed(frame: &[u8]) -> (Key, Layout) {
    cut(frame, frame.len())
}

/// The fields of a frame of `len` bytes that starts with `head`.
fn cut(head: &[u8], len: usize) -> (Key, Layout) {
    let mut key = Key::ZERO;
    let layout = parse(head, len, &mut key);
    (key, layout)
}

fn fields(key: &Key, fields: &[Field]) -> Vec<u128> {
    fields.iter().map(|field| key.get(*field)).collect()
}

const PORTS: [Field; 2] = [Field::TcpSrc, Field::TcpDst];

#[test]
fn tags_and_ports_are_found() {
    let packet = ipv4(protocol::TCP, &[1; 8], 0x4000, &transport(protocol::TCP, &[]));
    let frame = ethernet(&[(0x88a8, 0xb00a), (0x8100, 5)], 0x0800, &packet);
    let (key, layout) = parsed(&frame);
    let wanted = Layout {
        tags: 2,
        ethertype: 20,
        network: 22,
        transport: 50,
        end: frame.len() as u32,
        ..Layout::default()
    };
    assert_eq!(layout, wanted);
    let link = [Field::EthDst, Field::EthSrc, Field::EthType, Field::VlanTci, Field::VlanVid, Field::VlanPcp];
    assert_eq!(
        fields(&key, &link),
        [0x0200_0000_0001, 0x0200_0000_0002, 0x0800, 0xb00a, 0x100a, 5],
        "bit 12 is set in any tag"
    );
    let network = [Field::Ipv4Src, Field::Ipv4Dst, Field::IpProto, Field::IpDscp, Field::IpEcn, Field::IpTtl];
    assert_eq!(fields(&key, &network), [0x0a00_0001, 0x0a00_0002, 6, 46, 1, 64]);
    assert_eq!(fields(&key, &PORTS), [0x1234, 80]);
    assert_eq!(key.get(Field::TcpFlags), 0x112);
}

#[test]
fn fields_beside_the_packet_are_kept() {
    let mut key = Key::ZERO;
    for (field, value) in [(Field::InPort, 7), (Field::Reg3, 9), (Field::CtTpDst, 5), (Field::EthSrc, 1)] {
        key.set(field, value);
    }
    parse(&[], 0, &mut key);
    assert_eq!(fields(&key, &[Field::InPort, Field::Reg3, Field::CtTpDst, Field::EthSrc]), [7, 9, 5, 0]);
}

#[test]
fn third_tag_is_the_payload_of_the_second() {
    let frame = ethernet(&[(0x8100, 1), (0x8100, 2), (0x88a8, 3)], 0x0800, &ipv4(17, &[], 0, &[]));
    let (key, layout) = parsed(&frame);
    assert_eq!((key.get(Field::EthType), key.get(Field::VlanVid)), (0x88a8, 0x1001));
    assert_eq!((layout.tags, layout.network), (2, 0));
    let cut = &frame[..17];
    assert_eq!((parsed(cut).0.get(Field::EthType), parsed(cut).0.get(Field::VlanTci)), (0x8100, 0));
}

#[test]
fn label_and_service_tag_end_the_fields() {
    let packet = ipv4(17, &[], 0, &transport(17, &[]));
    let frame = ethernet(&[(0x8100, 1)], 0x8848, &[&[0x12, 0x34, 0x5b, 64][..], &packet].concat());
    let (key, layout) = parsed(&frame);
    let labels = [Field::MplsLabel, Field::MplsTc, Field::MplsBos, Field::MplsTtl, Field::IpProto];
    assert_eq!(fields(&key, &labels), [0x12345, 5, 1, 64, 0]);
    assert_eq!((layout.mpls, layout.network), (18, 0));

    let inner = [&[0x28, 0x12, 0x34, 0x56][..], &ethernet(&[], 0x0800, &packet)].concat();
    let (key, layout) = parsed(&ethernet(&[(0x88a8, 1)], 0x88e7, &inner));
    assert_eq!(fields(&key, &[Field::PbbIsid, Field::PbbUca, Field::EthType]), [0x12_3456, 1, 0x88e7]);
    assert_eq!((layout.pbb, layout.network, key.get(Field::VlanVid)), (18, 0, 0x1001));
    assert_eq!(parsed(&ethernet(&[], 0x88e7, &inner[..15])).1.pbb, 0);
}

#[test]
fn ieee_802_3_frames_have_the_type_of_snap_or_none() {
    let packet = ipv4(17, &[], 0, &transport(17, &[]));
    let snap = |oui: u8| [&[0xaa, 0xaa, 3, 0, 0, oui, 8, 0][..], &packet].concat();
    let (key, layout) = parsed(&ethernet(&[(0x8100, 1)], 44, &snap(0)));
    assert_eq!((key.get(Field::EthType), key.get(Field::UdpDst)), (0x0800, 53));
    assert_eq!((layout.ethertype, layout.network), (24, 26));
    for payload in [&snap(1)[..], &[0x42, 0x42, 3], &[]] {
        let (key, layout) = parsed(&ethernet(&[], 44, payload));
        assert_eq!((key.get(Field::EthType), layout.network), (0x05ff, 0));
    }
}

#[test]
fn only_arp_for_ethernet_and_ipv4_has_fields() {
    let mut packet = [0, 1, 8, 0, 6, 4, 0, 2].to_vec();
    packet.extend([2, 0, 0, 0, 0, 5, 10, 0, 0, 5, 2, 0, 0, 0, 0, 6, 10, 0, 0, 6]);
    let names = [Field::ArpOp, Field::ArpSpa, Field::ArpTpa, Field::ArpSha, Field::ArpTha];
    for ethertype in [0x0806, 0x8035] {
        let (key, layout) = parsed(&ethernet(&[], ethertype, &packet));
        let wanted = [2, 0x0a00_0005, 0x0a00_0006, 0x0200_0000_0005, 0x0200_0000_0006];
        assert_eq!((fields(&key, &names), layout.network), (wanted.to_vec(), 14));
    }
    packet[4] = 8;
    assert_eq!(parsed(&ethernet(&[], 0x0806, &packet)).1.network, 0);
}

#[test]
fn later_fragments_have_no_transport() {
    for (flags, frag, is_first) in [(0x2000, 1, true), (0x2001, 3, false), (0x00ff, 3, false)] {
        let frame = ethernet(&[], 0x0800, &ipv4(17, &[], flags, &transport(17, &[])));
        let (key, layout) = parsed(&frame);
        assert_eq!((key.get(Field::IpFrag), layout.is_fragment), (frag, true));
        assert_eq!((layout.transport != 0, key.get(Field::UdpDst) == 53), (is_first, is_first));
    }
    for (low, frag, next) in [(1, 1, 17), (8, 3, 44), (0, 0, 17)] {
        let fragment = (44, vec![0, 0, low, 1, 2, 3, 4]);
        let (key, layout) = parsed(&ethernet(&[], 0x86dd, &ipv6(&[fragment], 17, &transport(17, &[]))));
        assert_eq!((key.get(Field::IpFrag), key.get(Field::IpProto)), (frag, next));
        assert_eq!((layout.transport != 0, key.get(Field::Ipv6Exthdr)), (next == 17, 0x10));
    }
}

#[test]
fn extension_headers_set_their_bits() {
    let header = |number: u8| match number {
        51 => (51, vec![1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2]),
        _ => (number, vec![0; 7]),
    };
    for (numbers, last, bits) in [
        (&[][..], 17, 0),
        (&[0, 60, 43, 44, 51, 60], 17, 0x7c),
        (&[43, 60], 17, 0x28),
        (&[60, 60], 17, 0x08),
        (&[60, 60, 60], 17, 0x88),
        (&[43, 0], 17, 0x120),
        (&[0, 0], 17, 0x1c0),
        (&[51, 43], 17, 0x124),
        (&[44, 44], 17, 0x90),
        (&[51], 50, 0x06),
        (&[0], 59, 0x41),
        (&[], 59, 0x01),
    ] {
        let extensions: Vec<_> = numbers.iter().map(|number| header(*number)).collect();
        let (key, layout) = parsed(&ethernet(&[], 0x86dd, &ipv6(&extensions, last, &transport(last, &[]))));
        assert_eq!(key.get(Field::Ipv6Exthdr), bits, "{numbers:?} {last}");
        assert_eq!((key.get(Field::IpProto), layout.transport != 0), (last.into(), true), "{numbers:?}");
        let network = [Field::IpDscp, Field::IpEcn, Field::IpTtl, Field::Ipv6Flabel];
        assert_eq!(fields(&key, &network), [46, 1, 64, 0x12345]);
        assert_eq!(key.get(Field::Ipv6Dst), 0xfe80 << 112 | 2);
    }
}

#[test]
fn neighbor_discovery_has_target_and_addresses() {
    let options =
        [&[14, 1, 1, 2, 3, 4, 5, 6][..], &[1, 1, 2, 0, 0, 0, 0, 7], &[2, 1, 2, 0, 0, 0, 0, 8]].concat();
    let names = [Field::NdTarget, Field::NdSll, Field::NdTll];
    for kind in [135, 136] {
        let (key, layout) = parsed(&ethernet(&[], 0x86dd, &ipv6(&[], 58, &neighbor(kind, &options))));
        assert_eq!(fields(&key, &names), [0xfe80 << 112 | 9, 0x0200_0000_0007, 0x0200_0000_0008]);
        assert_eq!((layout.target, layout.source_address, layout.target_address), (62, 88, 96));
    }
    let twice = [&options[8..16], &options[8..16]].concat();
    for message in [neighbor(135, &twice), neighbor(134, &options[8..16])] {
        let (key, layout) = parsed(&ethernet(&[], 0x86dd, &ipv6(&[], 58, &message)));
        assert_eq!((fields(&key, &names), layout.target), (vec![0; 3], 0));
        assert_eq!(key.get(Field::Icmpv6Type), message[0].into());
    }
    let (key, _) = parsed(&ethernet(&[], 0x86dd, &ipv6(&[], 58, &neighbor(135, &[1, 0, 2, 0, 0, 0, 0, 7]))));
    assert_eq!(fields(&key, &names), [0xfe80 << 112 | 9, 0, 0], "an option of length 0 ends the options");
}

#[test]
fn each_transport_has_its_fields() {
    let key = |ethertype, packet: Vec<u8>| parsed(&ethernet(&[], ethertype, &packet)).0;
    for protocol in [protocol::TCP, protocol::UDP, protocol::SCTP] {
        for (ethertype, packet) in [
            (0x0800, ipv4(protocol, &[], 0, &transport(protocol, &[1]))),
            (0x86dd, ipv6(&[], protocol, &transport(protocol, &[1]))),
        ] {
            assert_eq!(key(ethertype, packet).get(Field::TcpSrc), 0x1234, "{protocol}");
        }
    }
    let icmp = [Field::IcmpType, Field::IcmpCode];
    assert_eq!(fields(&key(0x0800, ipv4(1, &[], 0, &transport(1, &[]))), &icmp), [8, 3]);
    assert_eq!(fields(&key(0x86dd, ipv6(&[], 58, &transport(58, &[]))), &icmp), [128, 3]);
    assert_eq!(fields(&key(0x86dd, ipv6(&[], 1, &transport(1, &[]))), &icmp), [0, 0], "no protocol of IPv6");
}

#[test]
fn contradictory_lengths_leave_fields_absent() {
    let change = |at: usize, value: u8| {
        let mut frame = ethernet(&[], 0x0800, &ipv4(6, &[], 0, &transport(6, &[])));
        frame[at] = value;
        parsed(&frame)
    };
    for (at, value) in [(14, 0x55), (14, 0x44), (14, 0x4f), (17, 255), (17, 19)] {
        let (key, layout) = change(at, value);
        assert_eq!((key.get(Field::IpProto), layout.network), (0, 0), "{at} {value}");
    }
    for (at, value) in [(46, 0x41), (46, 0xf1), (17, 39)] {
        let (key, layout) = change(at, value);
        assert_eq!((key.get(Field::IpProto), layout.transport), (6, 0), "{at} {value}");
        assert_eq!(fields(&key, &PORTS), [0, 0]);
    }
    let long = ipv6(&[(0, vec![200, 0, 0, 0, 0, 0, 0])], 17, &transport(17, &[]));
    let (key, layout) = parsed(&ethernet(&[], 0x86dd, &long));
    assert_eq!((key.get(Field::IpProto), key.get(Field::Ipv6Exthdr), layout.transport), (0, 0x40, 0));
}

#[test]
fn cut_heads_of_longer_frames_are_reported() {
    let frame = ethernet(&[], 0x0800, &ipv4(6, &[], 0, &transport(6, &[])));
    for end in 0..frame.len() {
        let (key, layout) = cut(&frame[..end], frame.len());
        assert_eq!(layout.is_truncated, end < 54, "{end}");
        assert_eq!(
            (key.get(Field::EthDst) != 0, key.get(Field::Ipv4Src) != 0),
            (end >= 14, end >= 34),
            "{end}"
        );
        assert_eq!(key.get(Field::TcpDst) != 0, end >= 54, "{end}");
        let (key, layout) = parsed(&frame[..end]);
        assert_eq!((key.get(Field::Ipv4Src), layout.is_truncated), (0, false), "the frame itself ends");
    }
    assert_eq!(parsed(&ADDRESSES).0, Key::ZERO);
}
