//! Frames for tests, built field by field.

use proptest::prelude::*;
use wire::checksum::{Sum, protocol};

pub(crate) const ADDRESSES: [u8; 12] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
const V4: [u8; 8] = [10, 0, 0, 1, 10, 0, 0, 2];
const V6: [u8; 32] = {
    let mut addresses = [0; 32];
    (addresses[0], addresses[1], addresses[15]) = (0xfe, 0x80, 1);
    (addresses[16], addresses[17], addresses[31]) = (0xfe, 0x80, 2);
    addresses
};

/// An Ethernet header, with these TPIDs and TCIs, and a payload.
pub(crate) fn ethernet(tags: &[(u16, u16)], ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = ADDRESSES.to_vec();
    for (tpid, tci) in tags {
        frame.extend(tpid.to_be_bytes());
        frame.extend(tci.to_be_bytes());
    }
    frame.extend(ethertype.to_be_bytes());
    frame.extend(payload);
    frame
}

/// An IPv4 packet. `flags` are flags and fragment offset.
pub(crate) fn ipv4(protocol: u8, options: &[u8], flags: u16, payload: &[u8]) -> Vec<u8> {
    let header = 20 + options.len();
    let mut packet = vec![0x40 | (header / 4) as u8, 0xb9];
    packet.extend(((header + payload.len()) as u16).to_be_bytes());
    packet.extend([0x12, 0x34]);
    packet.extend(flags.to_be_bytes());
    packet.extend([64, protocol, 0, 0]);
    packet.extend(V4);
    packet.extend(options);
    let sum = Sum::of(&packet).finish();
    packet[10..12].copy_from_slice(&sum);
    packet.extend(seal(protocol, &V4, payload));
    packet
}

/// An IPv6 packet with extension headers, each a protocol number and its bytes from the second on.
pub(crate) fn ipv6(extensions: &[(u8, Vec<u8>)], protocol: u8, payload: &[u8]) -> Vec<u8> {
    let len: usize = extensions.iter().map(|(_, bytes)| bytes.len() + 1).sum();
    let mut next = extensions.iter().map(|(number, _)| *number).chain([protocol]);
    let mut packet = vec![0x6b, 0x91, 0x23, 0x45];
    packet.extend(((len + payload.len()) as u16).to_be_bytes());
    packet.extend([next.next().unwrap(), 64]);
    packet.extend(V6);
    for ((_, bytes), next) in extensions.iter().zip(next) {
        packet.push(next);
        packet.extend(bytes);
    }
    packet.extend(seal(protocol, &V6, payload));
    packet
}

/// A transport header of this protocol, without checksum, and a payload.
pub(crate) fn transport(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = match protocol {
        protocol::TCP => [&[0x12, 0x34, 0, 80][..], &[7; 8], &[0x61, 0x12, 1, 1, 0, 0], &[1; 6]].concat(),
        protocol::UDP => {
            [&[0x12, 0x34, 0, 53][..], &((8 + payload.len()) as u16).to_be_bytes(), &[0; 2]].concat()
        }
        protocol::SCTP => [&[0x12, 0x34, 0, 99, 1, 2, 3, 4][..], &[0; 4]].concat(),
        protocol::ICMP => vec![8, 3, 0, 0, 5, 6, 7, 8],
        protocol::ICMPV6 => vec![128, 3, 0, 0, 5, 6, 7, 8],
        _ => Vec::new(),
    };
    bytes.extend(payload);
    bytes
}

/// A neighbor solicitation or advertisement, without checksum.
pub(crate) fn neighbor(kind: u8, options: &[u8]) -> Vec<u8> {
    [&[kind, 0, 0, 0, 0, 0, 0, 0, 0xfe, 0x80, 0, 0, 0, 0, 0, 0][..], &[0; 7], &[9], options].concat()
}

/// The payload of an IP packet with its checksum.
fn seal(protocol: u8, addresses: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut bytes = payload.to_vec();
    if protocol == protocol::SCTP && bytes.len() >= 12 {
        let crc = crc32c::crc32c(&bytes);
        bytes[8..12].copy_from_slice(&crc.to_le_bytes());
        return bytes;
    }
    let (at, mut sum) = match protocol {
        protocol::TCP => (16, Sum::pseudo(addresses, protocol, bytes.len() as u32)),
        protocol::UDP => (6, Sum::pseudo(addresses, protocol, bytes.len() as u32)),
        protocol::ICMPV6 => (2, Sum::pseudo(addresses, protocol, bytes.len() as u32)),
        protocol::ICMP => (2, Sum::default()),
        _ => return bytes,
    };
    sum.add(&bytes);
    if let Some(field) = bytes.get_mut(at..at + 2) {
        field.copy_from_slice(&if protocol == protocol::UDP { sum.finish_nonzero() } else { sum.finish() });
    }
    bytes
}

/// Any of the transports, complete.
fn any_transport() -> impl Strategy<Value = (u8, Vec<u8>)> {
    let protocols = prop::sample::select(vec![
        protocol::TCP,
        protocol::UDP,
        protocol::SCTP,
        protocol::ICMP,
        protocol::ICMPV6,
        47,
    ]);
    let plain = (protocols, prop::collection::vec(any::<u8>(), 0..60))
        .prop_map(|(protocol, payload)| (protocol, transport(protocol, &payload)));
    let option = (1u8..4, any::<[u8; 6]>()).prop_map(|(kind, mac)| [&[kind, 1][..], &mac].concat());
    let neighbors = (prop::sample::select(vec![135u8, 136]), prop::collection::vec(option, 0..3))
        .prop_map(|(kind, options)| (protocol::ICMPV6, neighbor(kind, &options.concat())));
    let inner = any::<bool>().prop_map(|is_six| {
        let payload = transport(protocol::UDP, &[1, 2, 3]);
        if is_six {
            (41, ipv6(&[], protocol::UDP, &payload))
        } else {
            (4, ipv4(protocol::UDP, &[], 0, &payload))
        }
    });
    prop_oneof![6 => plain, 2 => neighbors, 1 => inner]
}

fn any_ipv4() -> impl Strategy<Value = Vec<u8>> {
    let flags = prop_oneof![6 => Just(0x4000u16), 1 => Just(0x2000), 1 => Just(0x2004), 1 => Just(5)];
    (any_transport(), 0usize..4, flags)
        .prop_map(|((protocol, bytes), options, flags)| ipv4(protocol, &vec![1; 4 * options], flags, &bytes))
}

fn any_ipv6() -> impl Strategy<Value = Vec<u8>> {
    let extension = prop_oneof![
        prop::sample::select(vec![0u8, 60]).prop_map(|number| (number, vec![0, 1, 4, 0, 0, 0, 0])),
        Just((43, vec![0, 0, 0, 0, 0, 0, 0])),
        prop::sample::select(vec![0u8, 1, 8]).prop_map(|low| (44, vec![0, 0, low, 1, 2, 3, 4])),
        Just((51, vec![1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2])),
    ];
    (prop::collection::vec(extension, 0..3), any_transport())
        .prop_map(|(extensions, (protocol, bytes))| ipv6(&extensions, protocol, &bytes))
}

fn any_arp() -> impl Strategy<Value = Vec<u8>> {
    any::<[u8; 22]>().prop_map(|rest| [&[0, 1, 8, 0, 6, 4][..], &rest].concat())
}

/// The payload of an Ethernet frame and its EtherType.
fn any_payload() -> impl Strategy<Value = (u16, Vec<u8>)> {
    let network = prop_oneof![
        4 => any_ipv4().prop_map(|packet| (0x0800, packet)),
        4 => any_ipv6().prop_map(|packet| (0x86dd, packet)),
        1 => any_arp().prop_map(|packet| (0x0806, packet)),
        1 => Just((40, vec![0x42, 0x42, 3, 1, 2, 3, 4, 5])),
        1 => any_ipv4().prop_map(|packet| (60, [&[0xaa, 0xaa, 3, 0, 0, 0, 8, 0][..], &packet].concat())),
    ];
    (network, prop::collection::vec(any::<u32>(), 0..4), any::<bool>(), any::<u32>()).prop_map(
        |((ethertype, packet), labels, is_backbone, service)| match labels.split_last() {
            Some((last, above)) => {
                let entries = above.iter().map(|entry| entry & !0x100).chain([last | 0x100]);
                let stack: Vec<u8> = entries.flat_map(u32::to_be_bytes).collect();
                (0x8847, [stack, packet].concat())
            }
            None if is_backbone => {
                let inner = ethernet(&[], ethertype, &packet);
                (0x88e7, [&service.to_be_bytes()[..], &inner].concat())
            }
            None => (ethertype, packet),
        },
    )
}

/// A valid frame. Half of the payloads are not behind MPLS labels or backbone tags.
pub(crate) fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    let plain = prop_oneof![
        any_ipv4().prop_map(|packet| (0x0800, packet)),
        any_ipv6().prop_map(|packet| (0x86dd, packet)),
    ];
    let tags = prop::collection::vec((prop::sample::select(vec![0x8100, 0x88a8]), any::<u16>()), 0..4);
    let payload = prop_oneof![plain, any_payload()];
    (tags, payload, any::<bool>()).prop_map(|(tags, (ethertype, packet), is_padded)| {
        let mut frame = ethernet(&tags, ethertype, &packet);
        if is_padded {
            frame.extend([0xa5; 7]);
        }
        frame
    })
}
