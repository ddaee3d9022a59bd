//! Headers that are refused, and properties of those that are built.

use crate::vectors::vectors;
use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use tunnel::{Inner, Kind, Malformed, Outer, Template, geneve_options, open};
use wire::MacAddress;

/// A packet of a kind over IPv4 from the IP header on, with changed bytes after that header, and the result of opening
/// it.
fn changed(kind: Kind, key: Option<u32>, changes: &[(usize, u8)]) -> Result<tunnel::Opened, Malformed> {
    let is_it = |vector: &crate::vectors::Vector| {
        vector.kind == kind && vector.addresses.0.is_ipv4() && (key.is_none() || vector.key == key)
    };
    let mut packet = vectors().find(is_it).unwrap().outer[14..].to_vec();
    for (at, byte) in changes {
        packet[20 + at] = *byte;
    }
    open(kind, &packet, packet.len())
}

#[test]
fn unsupported_headers_are_refused() {
    for (kind, changes, error) in [
        (Kind::Vxlan, &[(8, 0)][..], Malformed::Flags),
        (Kind::Vxlan, &[(5, 200)], Malformed::Truncated),
        (Kind::Geneve, &[(8, 0x40)], Malformed::Flags),
        (Kind::Geneve, &[(8, 0x3f)], Malformed::Truncated),
        (Kind::Geneve, &[(11, 0)], Malformed::Payload),
        // An option of five words in a header with one.
        (Kind::Geneve, &[(8, 1), (19, 5)], Malformed::Options),
        (Kind::Gre, &[(1, 1)], Malformed::Flags),
        (Kind::Gre, &[(0, 0x40)], Malformed::Flags),
        (Kind::Gre, &[(2, 8), (3, 0)], Malformed::Payload),
        (Kind::Nvgre, &[(0, 0)], Malformed::Flags),
        (Kind::Erspan, &[(0, 0)], Malformed::Flags),
        // Type III.
        (Kind::Erspan, &[(8, 0x20)], Malformed::Flags),
        (Kind::Erspan, &[(3, 0xbf)], Malformed::Payload),
        (Kind::Ipip, &[(0, 0x65)], Malformed::Payload),
        (Kind::Gtpu, &[(8, 0x50)], Malformed::Flags),
        (Kind::Gtpu, &[(9, 1)], Malformed::Payload),
        (Kind::Gtpu, &[(10, 255)], Malformed::Truncated),
        (Kind::Gtpu, &[(16, 0x15)], Malformed::Payload),
    ] {
        assert_eq!(changed(kind, None, changes), Err(error), "{kind} {changes:?}");
    }
    for kind in [0x01, 0x80] {
        assert!(changed(Kind::Geneve, None, &[(8, 1), (18, kind), (19, 0)]).is_ok(), "an option");
    }
}

#[test]
fn outer_header_must_be_complete_and_valid() {
    let packet = vectors().next().unwrap().outer[14..].to_vec();
    let with = |at: usize, byte: u8| {
        let mut packet = packet.clone();
        packet[at] = byte;
        open(Kind::Vxlan, &packet, packet.len())
    };
    assert_eq!(with(8, 99), Err(Malformed::Network), "the checksum is wrong");
    assert_eq!(open(Kind::Vxlan, &packet, packet.len() - 1), Err(Malformed::Truncated));
    assert_eq!(open(Kind::Gre, &packet, packet.len()), Err(Malformed::Protocol));
    assert_eq!(open(Kind::Vxlan, &packet[..30], packet.len()), Err(Malformed::Truncated), "a short head");
    assert!(open(Kind::Vxlan, &packet, packet.len() + 9).is_ok(), "padding follows the packet");
}

#[test]
fn optional_fields_of_gtpu_are_skipped() {
    let mut packet = vectors().find(|vector| vector.kind == Kind::Gtpu).unwrap().outer[14..].to_vec();
    // A PDU session container of one word (3GPP TS 29.281 section 5.2.2.7).
    let extensions = [0, 0, 0, 0x85, 1, 0x10, 9, 0];
    packet[28] |= 0x04;
    packet.splice(36..36, extensions);
    for (at, grown) in [(2, 8), (24, 8), (30, 8)] {
        let len = u16::from_be_bytes([packet[at], packet[at + 1]]) + grown;
        packet[at..at + 2].copy_from_slice(&len.to_be_bytes());
    }
    let total = u16::from_be_bytes([packet[2], packet[3]]);
    wire::rewrite_ipv4(&mut packet, total, 1);
    packet[26..28].fill(0);
    assert_eq!(open(Kind::Gtpu, &packet, packet.len()).map(|opened| opened.inner), Ok(44));
    packet[39] = 0xc5;
    assert_eq!(open(Kind::Gtpu, &packet, packet.len()), Err(Malformed::Options), "must be understood");
    (packet[39], packet[40]) = (0x85, 0);
    assert_eq!(open(Kind::Gtpu, &packet, packet.len()), Err(Malformed::Options), "without a length");
}

#[test]
fn options_of_geneve_are_written_and_read() {
    let options = [1, 2, 3, 1, 9, 9, 9, 9, 0, 4, 0x85, 0];
    let outer = outer(Kind::Geneve, (Ipv4Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into()), Some(1));
    let template = Template::new(&Outer { options: &options, is_oam: true, ..outer }).unwrap();
    let header = template.header(&Inner::default());
    assert_eq!(&header.bytes()[50..], options);
    let read: Vec<_> = geneve_options(&options).map(|option| option.unwrap()).collect();
    assert_eq!((read[0].class, read[0].kind, read[0].data), (0x0102, 3, &[9; 4][..]));
    assert_eq!((read.len(), read[0].is_critical(), read[1].is_critical()), (2, false, true));
    assert_eq!(read[0].to_string(), "{class=0x102,type=0x3,len=4,0x09090909}");
    let packet = &header.bytes()[14..];
    let opened = open(Kind::Geneve, packet, packet.len()).unwrap();
    assert_eq!((opened.options.clone(), opened.inner), (36..48, 48));
    assert!(template.to_string().ends_with(",option={class=0x4,type=0x85,len=0,0x}"), "{template}");
}

#[test]
fn flags_say_that_an_option_is_critical() {
    let v4: (IpAddr, IpAddr) = (Ipv4Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into());
    let flags = |is_oam, options: &[u8]| {
        let outer = Outer { options, is_oam, ..outer(Kind::Geneve, v4, Some(1)) };
        Template::new(&outer).unwrap().prefix()[43]
    };
    let (plain, critical) = ([1, 2, 3, 0], [1, 2, 0x83, 0]);
    assert_eq!((flags(false, &[]), flags(false, &plain), flags(true, &plain)), (0, 0, 0x80));
    assert_eq!((flags(false, &critical), flags(true, &critical)), (0x40, 0xc0));
    assert_eq!(flags(false, &[plain, critical].concat()), 0x40);
}

#[test]
fn options_are_limited_by_the_longest_header() {
    let v4: (IpAddr, IpAddr) = (Ipv4Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into());
    let v6: (IpAddr, IpAddr) = (Ipv6Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into());
    for (ends, longest) in [(v4, 76), (v6, 56)] {
        let fits = |len: usize| {
            let options = [1, 2, 3, 0].repeat(len / 4);
            Template::new(&Outer { options: &options, ..outer(Kind::Geneve, ends, Some(1)) }).is_ok()
        };
        assert!(fits(longest) && !fits(longest + 4));
    }
}

fn outer(kind: Kind, addresses: (IpAddr, IpAddr), key: Option<u32>) -> Outer<'static> {
    Outer {
        kind,
        macs: (MacAddress::ZERO, MacAddress::BROADCAST),
        addresses,
        key,
        port: kind.port().unwrap_or(0),
        ttl: 64,
        dont_fragment: true,
        checksum: false,
        is_oam: false,
        options: &[],
    }
}

proptest! {
    #[test]
    fn opened_packets_are_those_that_were_sent(number in 0..6_usize, key: u32, ends: [u32; 2], wide: Option<[u128; 2]>, len in 20..2000_usize, hash: u32, tos: u8, ttl in 1..=255_u8, words in prop::collection::vec(any::<[u8; 4]>(), 0..7)) {
        let kind = Kind::ALL[number];
        // Each option has one word of data.
        let options: Vec<u8> = words.iter().flat_map(|word| [word[0], word[1], word[2], 1, 9, 8, 7, word[3]]).collect();
        let options = if kind == Kind::Geneve { &options[..] } else { &[] };
        let key = (kind.key_bits() > 0).then(|| key >> (32 - kind.key_bits()));
        let addresses: (IpAddr, IpAddr) = match wide {
            None => (Ipv4Addr::from(ends[0]).into(), Ipv4Addr::from(ends[1]).into()),
            Some([a, b]) => (Ipv6Addr::from(a).into(), Ipv6Addr::from(b).into()),
        };
        let template = Template::new(&Outer { options, ..outer(kind, addresses, key) }).unwrap();
        let header = template.header(&Inner { len, hash, tos, ttl: Some(ttl), ..Inner::default() });
        let packet = [&header.bytes()[14..], &[0x45], &vec![7; len - 1]].concat();
        let opened = open(kind, &packet, packet.len()).unwrap();
        prop_assert_eq!((opened.source, opened.destination), addresses);
        prop_assert_eq!((opened.key, opened.tos, opened.ttl), (key, tos, ttl));
        prop_assert_eq!(opened.inner, packet.len() - len);
        prop_assert_eq!(&packet[opened.options], options);
        prop_assert_eq!(template.packet_len(len), packet.len());
    }
}
