//! Actions on given frames.

use super::edits::{begin, finish};
use super::frames::{ADDRESSES, ethernet, ipv4, ipv6, neighbor, transport};
use super::verify::assert_sums;
use flow::packet::{ActionError, Rewriter, parse};
use flow::{Action, Field, Key};
use port::{Offload, Segmentation};
use wire::checksum::{Sum, protocol};

fn set(field: Field, value: u128) -> Action {
    Action::SetField { field, value, mask: field.full() }
}

/// The frame after actions, by its edit.
fn after(frame: &[u8], actions: &[Action]) -> Result<Vec<u8>, ActionError> {
    let mut rewriter = begin(frame, Offload::NONE);
    for action in actions {
        rewriter.apply(action)?;
    }
    Ok(finish(frame, Offload::NONE, &rewriter).0)
}

fn udp4() -> Vec<u8> {
    ipv4(17, &[], 0, &transport(17, &[1, 2, 3]))
}

#[test]
fn pushed_tag_copies_vlan_and_priority_of_the_outer_one() {
    let frame = ethernet(&[], 0x0800, &udp4());
    assert_eq!(
        after(&frame, &[Action::PushVlan(0x8100)]).unwrap(),
        ethernet(&[(0x8100, 0)], 0x0800, &udp4())
    );
    let tagged = ethernet(&[(0x8100, 0xb00a)], 0x0800, &udp4());
    let twice = ethernet(&[(0x88a8, 0xb00a), (0x8100, 0xb00a)], 0x0800, &udp4());
    assert_eq!(after(&tagged, &[Action::PushVlan(0x88a8)]).unwrap(), twice);
    assert_eq!(after(&frame, &[Action::PushVlan(0x0800)]), Err(ActionError::EtherType(0x0800)));
    let named = [Action::PushVlan(0x88a8), set(Field::VlanVid, 0x1123), set(Field::VlanPcp, 2)];
    let wanted = ethernet(&[(0x88a8, 0x5123), (0x8100, 0xb00a)], 0x0800, &udp4());
    assert_eq!(after(&tagged, &named).unwrap(), wanted, "the drop eligible indicator stays");
}

#[test]
fn third_tag_is_pushed_and_hides_the_packet_until_it_is_popped() {
    let frame = ethernet(&[(0x8100, 1), (0x8100, 2)], 0x0800, &udp4());
    let mut rewriter = begin(&frame, Offload::NONE);
    rewriter.push_vlan(0x88a8).unwrap();
    assert_eq!((rewriter.key().get(Field::EthType), rewriter.layout().network), (0x8100, 0));
    assert_eq!(rewriter.set(Field::UdpDst, 1, 0xffff), Err(ActionError::Absent("udp_dst")));
    rewriter.pop_vlan().unwrap();
    rewriter.set(Field::UdpDst, 1, 0xffff).unwrap();
    assert_eq!((rewriter.key().get(Field::UdpDst), rewriter.layout().network), (1, 22));
    finish(&frame, Offload::NONE, &rewriter);
}

#[test]
fn vlan_tci_adds_and_removes_tags() {
    let (plain, tagged) = (ethernet(&[], 0x0800, &udp4()), ethernet(&[(0x8100, 0x200a)], 0x0800, &udp4()));
    assert_eq!(after(&plain, &[set(Field::VlanTci, 0x300a)]).unwrap(), tagged);
    assert_eq!(after(&tagged, &[set(Field::VlanTci, 0)]).unwrap(), plain);
    assert_eq!(after(&plain, &[set(Field::VlanTci, 0)]).unwrap(), plain);
    assert_eq!(after(&plain, &[set(Field::VlanVid, 0x100a)]), Err(ActionError::Absent("vlan_vid")));
    assert_eq!(after(&plain, &[Action::PopVlan]), Err(ActionError::NoHeader("VLAN tag")));
    assert_eq!(
        after(&tagged[..17], &[Action::PopVlan]),
        Err(ActionError::NoHeader("VLAN tag")),
        "cut in the tag"
    );
}

#[test]
fn pushed_label_copies_the_outer_one_or_the_time_to_live() {
    let labels =
        |entries: &[u32]| -> Vec<u8> { entries.iter().flat_map(|entry| entry.to_be_bytes()).collect() };
    let frame = ethernet(&[(0x8100, 7)], 0x0800, &udp4());
    let one = ethernet(&[(0x8100, 7)], 0x8847, &[labels(&[0x0000_0140]), udp4()].concat());
    assert_eq!(after(&frame, &[Action::PushMpls(0x8847)]).unwrap(), one, "after the VLAN tag");
    let two = ethernet(&[(0x8100, 7)], 0x8848, &[labels(&[0x0000_5a40, 0x0000_5b40]), udp4()].concat());
    let actions = [set(Field::MplsLabel, 5), set(Field::MplsTc, 5), Action::PushMpls(0x8848)];
    assert_eq!(after(&one, &actions).unwrap(), two);
    assert_eq!(after(&two, &[Action::PopMpls(0x8847), Action::PopMpls(0x0800)]).unwrap(), frame);
    assert_eq!(after(&frame, &[Action::PopMpls(0x0800)]), Err(ActionError::NoHeader("MPLS label")));
    assert_eq!(after(&frame, &[Action::PushMpls(0x0800)]), Err(ActionError::EtherType(0x0800)));
    let arp = ethernet(&[], 0x0806, &[9; 28]);
    assert_eq!(after(&arp, &[Action::PushMpls(0x8847)]).unwrap()[12..18], [0x88, 0x47, 0, 0, 1, 0]);
    let length = ethernet(&[], 40, &[0x42, 0x42, 3, 0]);
    assert_eq!(after(&length, &[Action::PushMpls(0x8847)]), Err(ActionError::HasLength));
}

#[test]
fn service_tag_holds_the_customer_frame() {
    let frame = ethernet(&[(0x8100, 0xa00a)], 0x0800, &udp4());
    let pushed = after(&frame, &[Action::PushPbb(0x88e7)]).unwrap();
    assert_eq!(
        pushed,
        [&ADDRESSES[..], &[0x88, 0xe7, 0xa0, 0, 0, 0], &frame].concat(),
        "priority of the tag"
    );
    let outer = [
        set(Field::PbbIsid, 0x12_3456),
        set(Field::PbbUca, 1),
        set(Field::EthDst, 0xabcd),
        Action::PushVlan(0x88a8),
        set(Field::VlanVid, 0x1009),
    ];
    let tagged = after(&pushed, &outer).unwrap();
    let wanted = [&[0, 0, 0, 0, 0xab, 0xcd], &ADDRESSES[6..], &[0x88, 0xa8, 0, 9], &[0x88, 0xe7]].concat();
    assert_eq!(tagged, [&wanted[..], &[0xa8, 0x12, 0x34, 0x56], &frame].concat());
    assert_eq!(after(&tagged, &[Action::PopVlan, Action::PopPbb]).unwrap(), frame);
    let kept = ethernet(&[(0x88a8, 9), (0x8100, 0xa00a)], 0x0800, &udp4());
    assert_eq!(after(&tagged, &[Action::PopPbb]).unwrap(), kept, "the backbone VLAN is popped separately");
    let nested = after(&tagged, &[Action::PopVlan, Action::PushPbb(0x88e7)]).unwrap();
    assert_eq!(nested[14..18], [0, 0x12, 0x34, 0x56], "the I-SID of the present tag");
    assert_eq!(after(&frame, &[Action::PopPbb]), Err(ActionError::NoHeader("backbone service tag")));
    assert_eq!(after(&pushed[..31], &[Action::PopPbb]), Err(ActionError::NoHeader("backbone service tag")));
}

#[test]
fn times_to_live_are_set_decremented_and_copied() {
    let six = ipv6(&[], 17, &transport(17, &[]));
    for (ethertype, packet, at) in [(0x0800, udp4(), 22), (0x86dd, six, 21)] {
        let frame = ethernet(&[], ethertype, &packet);
        let less = after(&frame, &[Action::DecNwTtl(Box::from([0]))]).unwrap();
        assert_eq!((frame[at], less[at]), (64, 63));
        assert_sums_of(&less);
        let last = after(&frame, &[Action::SetNwTtl(1)]).unwrap();
        assert_eq!(after(&last, &[Action::DecNwTtl(Box::from([0]))]), Err(ActionError::Expired));
        let labelled = [Action::PushMpls(0x8847), Action::SetMplsTtl(9), Action::PushMpls(0x8847)];
        let mut labelled = after(&frame, &labelled).unwrap();
        labelled[17] = 77;
        let copied = after(&labelled, &[Action::CopyTtlIn]).unwrap();
        assert_eq!((copied[17], copied[21], copied[at + 8]), (77, 77, 64));
        let inner =
            after(&copied, &[Action::DecMplsTtl, Action::PopMpls(0x8847), Action::CopyTtlIn]).unwrap();
        assert_eq!((inner[17], inner[at + 4]), (77, 77));
        assert_sums_of(&after(&inner, &[Action::PopMpls(ethertype)]).unwrap());
        let out = after(&labelled, &[Action::CopyTtlOut]).unwrap();
        assert_eq!((out[17], out[21]), (9, 9));
        let both = [Action::PopMpls(0x8847), Action::CopyTtlOut];
        assert_eq!(after(&labelled, &both).unwrap()[17], 64);
        assert_eq!(
            after(&frame, &[Action::CopyTtlOut]),
            Err(ActionError::NoHeader("two headers with a time to live"))
        );
        assert_eq!(after(&frame, &[Action::DecMplsTtl]), Err(ActionError::Absent("mpls_ttl")));
    }
}

#[test]
fn time_to_live_is_copied_between_ip_headers() {
    let frame = ethernet(&[], 0x0800, &ipv4(4, &[], 0, &udp4()));
    let outer = after(&frame, &[Action::SetNwTtl(7), Action::CopyTtlIn]).unwrap();
    assert_eq!((outer[22], outer[42]), (7, 7));
    assert_eq!(Sum::of(&outer[34..54]).finish(), [0, 0]);
    assert_eq!(after(&outer, &[Action::SetNwTtl(9), Action::CopyTtlOut]).unwrap()[22], 7);
}

fn assert_sums_of(frame: &[u8]) {
    let mut key = Key::ZERO;
    let layout = parse(frame, frame.len(), &mut key);
    assert_sums(frame, &key, &layout);
}

#[test]
fn a_changed_address_changes_all_sums() {
    for protocol in [protocol::TCP, protocol::UDP, protocol::ICMP, protocol::SCTP] {
        let frame = ethernet(&[], 0x0800, &ipv4(protocol, &[1; 4], 0, &transport(protocol, &[5; 9])));
        let new = after(&frame, &[set(Field::Ipv4Dst, 0xc0a8_0109), set(Field::IpDscp, 3)]).unwrap();
        assert_eq!(new[30..34], [192, 168, 1, 9]);
        assert_sums_of(&new);
    }
    for protocol in [protocol::TCP, protocol::UDP, protocol::ICMPV6, protocol::SCTP] {
        let frame = ethernet(&[], 0x86dd, &ipv6(&[], protocol, &transport(protocol, &[5; 9])));
        let new = after(&frame, &[set(Field::Ipv6Src, 0xabcd), set(Field::Ipv6Flabel, 9)]).unwrap();
        assert_eq!((new[36], new[37]), (0xab, 0xcd));
        assert_sums_of(&new);
    }
}

#[test]
fn masks_limit_the_bits() {
    let frame = ethernet(&[], 0x0800, &udp4());
    let action = Action::SetField { field: Field::Ipv4Src, value: 0xff00_00ff, mask: 0xff00_000f };
    assert_eq!(after(&frame, &[action]).unwrap()[26..30], [255, 0, 0, 15]);
}

#[test]
fn absent_udp_checksum_stays_absent_and_none_becomes_zero() {
    let mut frame = ethernet(&[], 0x0800, &udp4());
    frame[40..42].fill(0);
    let new = after(&frame, &[set(Field::Ipv4Src, 5), set(Field::UdpDst, 5)]).unwrap();
    assert_eq!(new[40..42], [0, 0]);
    // The checksum is 1 for one port, so it is 0 for the next.
    let frame = ethernet(&[], 0x0800, &udp4());
    let sum = u16::from_be_bytes([frame[40], frame[41]]);
    let port = u128::from(53 + u32::from(sum));
    let new = after(&frame, &[set(Field::UdpDst, port % 0xffff)]).unwrap();
    assert_eq!(new[40..42], [0xff, 0xff]);
    assert_sums_of(&new);
}

#[test]
fn partial_checksum_follows_addresses_and_no_ports() {
    for (ethertype, transport_at, packet, field) in [
        (0x0800, 34, ipv4(6, &[], 0, &transport(6, &[1; 40])), Field::Ipv4Dst),
        (0x86dd, 54, ipv6(&[], 6, &transport(6, &[1; 40])), Field::Ipv6Dst),
    ] {
        let mut frame = ethernet(&[], ethertype, &packet);
        let pseudo = |frame: &[u8], at: usize| {
            let addresses = if ethertype == 0x0800 { at - 8..at } else { at - 32..at };
            Sum::pseudo(&frame[addresses], 6, (frame.len() - at) as u32).partial()
        };
        let partial = pseudo(&frame, transport_at);
        frame[transport_at + 16..transport_at + 18].copy_from_slice(&partial);
        let kind = if ethertype == 0x0800 { Segmentation::Tcp4 } else { Segmentation::Tcp6 };
        let offload = Offload::with_checksum(transport_at as u16, 16).with_segments(kind, 64, false);
        let mut rewriter = begin(&frame, offload);
        for action in [set(field, 0xc0a8_0109), set(Field::TcpDst, 9), Action::PushVlan(0x8100)] {
            rewriter.apply(&action).unwrap();
        }
        rewriter.set(Field::TcpSrc, 8, 0xffff).unwrap();
        let (bytes, moved) = finish(&frame, offload, &rewriter);
        let at = transport_at + 4;
        assert_eq!(bytes[at + 16..at + 18], pseudo(&bytes, at));
        assert_eq!(moved, Offload::with_checksum(at as u16, 16).with_segments(kind, 64, false));
        assert_eq!(bytes[at..at + 4], [0, 8, 0, 9]);
    }
}

#[test]
fn sctp_ports_of_long_frames_change_the_crc_without_the_payload() {
    let long = ethernet(&[], 0x0800, &ipv4(132, &[], 0, &transport(132, &[0x5a; 1400])));
    let (head, mut key, mut rewriter) = (&long[..128], Key::ZERO, Rewriter::new());
    let layout = parse(head, long.len(), &mut key);
    rewriter.begin(head, long.len(), Offload::NONE, &key, &layout);
    rewriter.set(Field::SctpDst, 0x7777, 0xffff).unwrap();
    rewriter.set(Field::SctpSrc, 0x1111, 0xffff).unwrap();
    assert_sums_of(&[rewriter.head(), &long[128..]].concat());
    let first = ethernet(&[], 0x0800, &ipv4(132, &[], 0x2000, &transport(132, &[])));
    assert_eq!(after(&first, &[set(Field::SctpDst, 1)]), Err(ActionError::Fragment));
    let mut partial = begin(&long[..100], Offload::with_checksum(34, 8));
    assert_eq!(
        partial.set(Field::SctpDst, 1, 0xffff),
        Err(ActionError::Absent("sctp_dst")),
        "the frame is cut"
    );
}

#[test]
fn neighbor_discovery_is_written() {
    let message = neighbor(135, &[1, 1, 2, 0, 0, 0, 0, 7]);
    let frame = ethernet(&[], 0x86dd, &ipv6(&[], 58, &message));
    let new = after(&frame, &[set(Field::NdTarget, 0xabcd), set(Field::NdSll, 0x0605_0403_0201)]).unwrap();
    assert_eq!((&new[76..78], &new[80..86]), (&[0xab, 0xcd][..], &[6, 5, 4, 3, 2, 1][..]));
    assert_sums_of(&new);
    assert_eq!(after(&frame, &[set(Field::NdTll, 1)]), Err(ActionError::Absent("nd_tll")));
    let other = [set(Field::Icmpv6Type, 128), set(Field::NdTarget, 1)];
    assert_eq!(after(&frame, &other), Err(ActionError::Absent("nd_target")));
}

#[test]
fn destination_before_the_last_of_a_route_is_not_in_the_pseudo_header() {
    let route = |left: u8| (43, [&[2, 0, left, 0, 0, 0, 0][..], &[0xfd; 16]].concat());
    for (left, is_changed) in [(1, false), (0, true)] {
        let frame = ethernet(&[], 0x86dd, &ipv6(&[route(left)], 17, &transport(17, &[])));
        let new = after(&frame, &[set(Field::Ipv6Dst, 5)]).unwrap();
        assert_eq!(new[84..86] != frame[84..86], is_changed);
        let source = after(&frame, &[set(Field::Ipv6Src, 5)]).unwrap();
        assert_ne!(source[84..86], frame[84..86]);
    }
}

#[test]
fn changes_far_apart_become_patches() {
    let extensions = vec![(0, [&[12][..], &[0; 102]].concat())];
    let frame = ethernet(&[], 0x86dd, &ipv6(&extensions, 17, &transport(17, &[])));
    let actions =
        [Action::PushVlan(0x8100), set(Field::UdpDst, 7), set(Field::EthDst, 9), set(Field::EthSrc, 1)];
    let new = after(&frame, &actions).unwrap();
    assert_eq!((new.len(), &new[..6]), (frame.len() + 4, &[0, 0, 0, 0, 0, 9][..]));
    assert_sums_of(&new);
}

#[test]
fn read_only_and_absent_fields_are_refused() {
    let frame = ethernet(&[], 0x0806, &[0; 28]);
    for (field, error) in [
        (Field::EthType, ActionError::ReadOnly("eth_type")),
        (Field::IpProto, ActionError::ReadOnly("nw_proto")),
        (Field::Ipv4Src, ActionError::Absent("nw_src")),
        (Field::ArpSpa, ActionError::Absent("arp_spa")),
        (Field::MplsLabel, ActionError::Absent("mpls_label")),
        (Field::PbbIsid, ActionError::Absent("pbb_isid")),
    ] {
        assert_eq!(after(&frame, &[set(field, 1)]), Err(error));
    }
    let mut rewriter = begin(&frame, Offload::NONE);
    rewriter.set(Field::Reg5, 9, 0xff).unwrap();
    assert_eq!(rewriter.key().get(Field::Reg5), 9);
    assert!(rewriter.edit(&frame).unwrap().is_none());
    assert_eq!(rewriter.apply(&Action::CtClear), Ok(false));
}

#[test]
fn headers_beyond_the_headroom_are_refused() {
    let frame = ethernet(&[], 0x0800, &udp4());
    let mut rewriter = begin(&frame, Offload::NONE);
    let pushed = (0..100).take_while(|_| rewriter.push_pbb(0x88e7).is_ok()).count();
    assert_eq!(pushed, port::MAX_INSERTED / 18);
    finish(&frame, Offload::NONE, &rewriter);
    let mut short = Rewriter::new();
    short.begin(&frame[..13], 13, Offload::NONE, &Key::ZERO, &flow::packet::Layout::default());
    assert_eq!(short.push_vlan(0x8100), Err(ActionError::NoHeader("Ethernet header")));
    assert_eq!(short.push_pbb(0x88e7), Err(ActionError::NoHeader("Ethernet header")));
    assert_eq!(short.push_mpls(0x8847), Err(ActionError::NoHeader("Ethernet header")));
    assert_eq!(short.set(Field::EthDst, 1, 1), Err(ActionError::Absent("eth_dst")));
}
