//! Hash of the flow of a packet, which selects buckets of groups and the source ports of tunnels.

use crate::field::{Field, frag};
use crate::key::Key;
use crate::lookup::fold;

/// Start of the hash of a flow.
const SEED: u64 = 0x6a09_e667_f3bc_c908;

/// Hash of the flow of a packet: the same for both directions of a connection, and for all fragments of a packet.
pub fn flow_hash(key: &Key) -> u32 {
    let get = |field| key.get(field) as u64;
    let (kind, frag, proto) = (get(Field::EthType), get(Field::IpFrag), get(Field::IpProto));
    let mut hash = fold(SEED, kind << 8 | proto);
    let wide = key.get(Field::Ipv6Src) ^ key.get(Field::Ipv6Dst);
    hash = match kind {
        0x0800 => fold(hash, get(Field::Ipv4Src) ^ get(Field::Ipv4Dst)),
        0x86dd => fold(fold(hash, wide as u64), (wide >> 64) as u64),
        _ => fold(hash, get(Field::EthSrc) ^ get(Field::EthDst)),
    };
    if [6, 17, 132].contains(&proto) && frag & u64::from(frag::ANY) == 0 {
        hash = fold(hash, get(Field::TcpSrc) ^ get(Field::TcpDst));
    }
    (hash >> 32) as u32
}

/// [`flow_hash`] and the traffic class of a frame of `len` bytes that begins with `head`, without its key. `None` for
/// other frames than whole TCP and UDP packets without tags, options and extension headers.
pub fn simple_flow(head: &[u8], len: usize) -> Option<(u32, u8)> {
    let word = |at: usize| Some(u32::from_be_bytes(*head.get(at..)?.first_chunk()?));
    let half = |at: usize| Some(u16::from_be_bytes(*head.get(at..)?.first_chunk()?));
    let (kind, version) = (half(12)?, *head.get(14)?);
    let (proto, tos, transport, end) = match (kind, version) {
        (0x0800, 0x45) if half(20)? & 0x3fff == 0 => {
            (*head.get(23)?, *head.get(15)?, 34, half(16)?.checked_add(14)?)
        }
        (0x86dd, 0x60..=0x6f) => (*head.get(20)?, (half(14)? >> 4) as u8, 54, half(18)?.checked_add(54)?),
        _ => return None,
    };
    let header = match proto {
        6 => usize::from(*head.get(transport + 12)? >> 4) * 4,
        17 => 8,
        _ => return None,
    };
    let end = usize::from(end);
    let is_whole = transport + header.max(20) <= head.len() && transport + header <= end && end <= len;
    if !is_whole || proto == 6 && header < 20 {
        return None;
    }
    let hash = fold(SEED, u64::from(kind) << 8 | u64::from(proto));
    let hash = if transport == 34 {
        fold(hash, u64::from(word(26)? ^ word(30)?))
    } else {
        let double = |at: usize| Some(u64::from(word(at)?) << 32 | u64::from(word(at + 4)?));
        fold(fold(hash, double(30)? ^ double(46)?), double(22)? ^ double(38)?)
    };
    let hash = fold(hash, u64::from(half(transport)? ^ half(transport + 2)?));
    Some(((hash >> 32) as u32, tos))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::parse;
    use proptest::prelude::*;

    /// Bytes with an Ethernet header and the first fields of an IP header; lengths are mostly right.
    fn frame() -> impl Strategy<Value = Vec<u8>> {
        let kind =
            prop_oneof![4 => Just(0x0800_u16), 4 => Just(0x86dd), 1 => Just(0x8100), 1 => any::<u16>()];
        let proto = prop_oneof![3 => Just(6_u8), 3 => Just(17), 1 => any::<u8>()];
        let fragment = prop_oneof![6 => Just(0_u16), 1 => Just(0x4000), 1 => any::<u16>()];
        let off = prop_oneof![4 => Just(0_i16), 1 => -40..40_i16];
        let bytes = proptest::collection::vec(any::<u8>(), 14..130);
        (bytes, kind, any::<u8>(), proto, fragment, off).prop_map(
            |(mut bytes, kind, low, proto, fragment, off)| {
                bytes.resize(bytes.len().max(60), 0);
                let length =
                    |header: usize| ((bytes.len() - header) as u16).wrapping_add_signed(off).to_be_bytes();
                let (v4, v6) = (length(14), length(54));
                bytes[12..14].copy_from_slice(&kind.to_be_bytes());
                if kind == 0x86dd {
                    bytes[14] = 0x60 | low & 0xf;
                    bytes[18..20].copy_from_slice(&v6);
                    bytes[20] = proto;
                } else {
                    bytes[14] = if low < 230 { 0x45 } else { low };
                    bytes[16..18].copy_from_slice(&v4);
                    bytes[20..22].copy_from_slice(&fragment.to_be_bytes());
                    bytes[23] = proto;
                }
                bytes
            },
        )
    }

    proptest! {
        #[test]
        fn simple_flows_are_those_of_keys(frame in frame(), more in 0..2000_usize) {
            let (mut key, len) = (Key::ZERO, frame.len() + more);
            parse(&frame, len, &mut key);
            let tos = (key.get(Field::IpDscp) << 2 | key.get(Field::IpEcn)) as u8;
            if let Some(found) = simple_flow(&frame, len) {
                prop_assert_eq!(found, (flow_hash(&key), tos));
            }
        }
    }

    #[test]
    fn whole_packets_of_tcp_and_udp_are_simple() {
        let mut v4 = [[2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1]].concat();
        v4.extend([8, 0, 0x45, 0x28, 0, 46, 0, 1, 0x40, 0, 9, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        v4.extend([1; 26]);
        assert_eq!(simple_flow(&v4, v4.len()).unwrap().1, 0x28);
        for (at, value) in [(14, 0x46), (20, 0x20), (23, 1), (12, 0x81), (17, 60), (17, 20)] {
            let mut other = v4.clone();
            other[at] = value;
            assert_eq!(simple_flow(&other, other.len()), None, "{at}");
        }
        let mut v6 = v4[..12].to_vec();
        v6.extend([0x86, 0xdd, 0x62, 0x80, 0, 0, 0, 20, 6, 64]);
        v6.extend([3; 52]);
        assert_eq!(simple_flow(&v6, v6.len()), None, "the TCP header has 0 words");
        v6[66] = 0x50;
        assert_eq!(simple_flow(&v6, v6.len()).unwrap().1, 0x28);
        v6[20] = 0;
        assert_eq!(simple_flow(&v6, v6.len()), None);
    }
}
