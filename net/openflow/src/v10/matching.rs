//! The match of OpenFlow 1.0 (OpenFlow 1.0.0, 5.2.3).

use crate::bytes::{Put, Reader};
use crate::error::ErrorCode;
use crate::port_no;
use flow::{Field, Match, PortNo};

/// Length of a match.
pub(crate) const LEN: usize = 40;
/// Wildcards of everything.
pub(crate) const ALL: u32 = 0x003f_ffff;
/// Wildcard bits.
const IN_PORT: u32 = 1;
const VLAN: u32 = 1 << 1;
const ETH_SRC: u32 = 1 << 2;
const ETH_DST: u32 = 1 << 3;
const ETH_TYPE: u32 = 1 << 4;
const IP_PROTO: u32 = 1 << 5;
const TP_SRC: u32 = 1 << 6;
const TP_DST: u32 = 1 << 7;
const IP_SRC_SHIFT: u32 = 8;
const IP_DST_SHIFT: u32 = 14;
const VLAN_PCP: u32 = 1 << 20;
const IP_TOS: u32 = 1 << 21;
/// No tag.
const VLAN_NONE: u16 = 0xffff;
const VLAN_PRESENT: u128 = 0x1000;

/// Reads a match. Fields whose prerequisites are not matched are ignored, as OpenFlow 1.0.1 requires.
pub(crate) fn read(from: &mut Reader<'_>) -> Result<Match, ErrorCode> {
    let wildcards = from.u32()?;
    let has = |bit: u32| wildcards & bit == 0;
    let in_port = port_no::widen(from.u16()?);
    let (source, destination) = (from.uint(6)?, from.uint(6)?);
    let (vlan, priority) = (from.u16()?, from.u8()?);
    from.skip(1)?;
    let (kind, tos, protocol) = (from.u16()?, from.u8()?, from.u8()?);
    from.skip(2)?;
    let (ip_src, ip_dst) = (from.u32()?, from.u32()?);
    let ports = (from.u16()?, from.u16()?);
    let mut found = Match::any();
    let mut set = |is_present: bool, field: Field, value: u128, mask: u128| {
        if is_present && mask != 0 && field.info().requires.holds(&found) {
            found = found.with_masked(field, value & mask, mask);
        }
    };
    let full = Field::full;
    set(has(IN_PORT), Field::InPort, u128::from(in_port.0), full(Field::InPort));
    set(has(ETH_SRC), Field::EthSrc, source, full(Field::EthSrc));
    set(has(ETH_DST), Field::EthDst, destination, full(Field::EthDst));
    let (value, mask) = vlan_bits(has(VLAN), has(VLAN_PCP), vlan, priority);
    set(true, Field::VlanTci, value, mask);
    set(has(ETH_TYPE), Field::EthType, u128::from(kind), full(Field::EthType));
    set(has(IP_TOS), Field::IpDscp, u128::from(tos >> 2), full(Field::IpDscp));
    set(has(IP_PROTO), Field::IpProto, u128::from(protocol), full(Field::IpProto));
    set(has(IP_PROTO), Field::ArpOp, u128::from(protocol), full(Field::ArpOp));
    let networks = [(IP_SRC_SHIFT, ip_src), (IP_DST_SHIFT, ip_dst)].map(|(shift, address)| {
        let ignored = (wildcards >> shift & 0x3f).min(32);
        (u128::from(address), u128::from(u32::MAX.checked_shl(ignored).unwrap_or(0)))
    });
    let pairs = [[Field::Ipv4Src, Field::ArpSpa], [Field::Ipv4Dst, Field::ArpTpa]];
    for ((value, mask), fields) in networks.into_iter().zip(pairs) {
        for field in fields {
            set(true, field, value, mask);
        }
    }
    for (src, dst) in TRANSPORT {
        set(has(TP_SRC), src, u128::from(ports.0), full(src));
        set(has(TP_DST), dst, u128::from(ports.1), full(dst));
    }
    Ok(found)
}

/// Fields that the two transport fields stand for.
const TRANSPORT: [(Field, Field); 4] = [
    (Field::TcpSrc, Field::TcpDst),
    (Field::UdpSrc, Field::UdpDst),
    (Field::SctpSrc, Field::SctpDst),
    (Field::IcmpType, Field::IcmpCode),
];

/// Bits of the tag: no tag, any tag of a VLAN, of a priority, or both.
fn vlan_bits(has_vlan: bool, has_priority: bool, vlan: u16, priority: u8) -> (u128, u128) {
    let (vlan, priority) = (u128::from(vlan), u128::from(priority & 7) << 13);
    match (has_vlan, has_priority) {
        (true, _) if vlan == u128::from(VLAN_NONE) => (0, 0x1fff),
        (true, false) => (vlan & 0xfff | VLAN_PRESENT, 0x1fff),
        (false, true) => (priority | VLAN_PRESENT, 0xf000),
        (true, true) => (vlan & 0xfff | VLAN_PRESENT | priority, 0xffff),
        (false, false) => (0, 0),
    }
}

/// Writes a match. Fields that version 1.0 cannot express are omitted; [`is_complete`] returns whether none are.
pub(crate) fn write(out: &mut Vec<u8>, matching: &Match) {
    let (key, mut wildcards) = (matching.key(), ALL);
    let mut get = |field: Field, bit: u32| {
        let found = matching.exact(field).filter(|_| field.info().requires.holds(matching));
        wildcards &= if found.is_some() { !bit } else { u32::MAX };
        found.unwrap_or(0)
    };
    let in_port = matching.exact(Field::InPort).and_then(|port| port_no::narrow(PortNo(port as u32)));
    let (source, destination) = (get(Field::EthSrc, ETH_SRC), get(Field::EthDst, ETH_DST));
    let kind = get(Field::EthType, ETH_TYPE) as u16;
    let tos = (get(Field::IpDscp, IP_TOS) << 2) as u8;
    let protocol = (get(Field::IpProto, IP_PROTO) | get(Field::ArpOp, IP_PROTO)) as u8;
    let ports = TRANSPORT.iter().fold((0, 0), |ports, (src, dst)| {
        (ports.0 | get(*src, TP_SRC) as u16, ports.1 | get(*dst, TP_DST) as u16)
    });
    let networks = [(Field::Ipv4Src, Field::ArpSpa), (Field::Ipv4Dst, Field::ArpTpa)].map(|(ip, arp)| {
        let is_matched = ip.info().requires.holds(matching) || arp.info().requires.holds(matching);
        let ones = if is_matched { (matching.mask().get(ip) as u32).leading_ones() } else { 0 };
        (key.get(ip) as u32 & u32::MAX.checked_shl(32 - ones).unwrap_or(0), 32 - ones)
    });
    for ((_, ignored), shift) in networks.into_iter().zip([IP_SRC_SHIFT, IP_DST_SHIFT]) {
        wildcards = wildcards & !(0x3f << shift) | ignored << shift;
    }
    let (vlan, priority, bits) = vlan_fields(matching);
    let port_bit = if in_port.is_some() { IN_PORT } else { 0 };
    out.put_u32(wildcards & !bits & !port_bit);
    out.put_u16(in_port.unwrap_or(0));
    out.put_uint(source, 6);
    out.put_uint(destination, 6);
    out.put_u16(vlan);
    out.put_u8(priority);
    out.put_u8(0);
    out.put_u16(kind);
    out.put_u8(tos);
    out.put_u8(protocol);
    out.put_u16(0);
    for (address, _) in networks {
        out.put_u32(address);
    }
    out.put_u16(ports.0);
    out.put_u16(ports.1);
}

/// VLAN, priority, and the wildcards that they clear.
fn vlan_fields(matching: &Match) -> (u16, u8, u32) {
    let (value, mask) = (matching.key().get(Field::VlanTci), matching.mask().get(Field::VlanTci));
    let (vlan, priority) = ((value & 0xfff) as u16, (value >> 13) as u8);
    match (mask, value & VLAN_PRESENT != 0) {
        (0x1fff, false) => (VLAN_NONE, 0, VLAN),
        (0x1fff, true) => (vlan, 0, VLAN),
        (0xf000, true) => (0, priority, VLAN_PCP),
        (0xffff, true) => (vlan, priority, VLAN | VLAN_PCP),
        _ => (0, 0, 0),
    }
}

/// Whether [`write`] expresses all of a match.
pub(crate) fn is_complete(matching: &Match) -> bool {
    let mut bytes = Vec::with_capacity(LEN);
    write(&mut bytes, matching);
    read(&mut Reader::new(&bytes, ErrorCode::MatchBadLen)).is_ok_and(|found| found == *matching)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_expressed_is_found() {
        let ip = Match::any().with(Field::EthType, 0x800);
        assert!(is_complete(&ip.with(Field::IpProto, 6).with(Field::TcpDst, 80)));
        assert!(is_complete(&ip.with_masked(Field::Ipv4Dst, 0x0a00_0000, 0xff00_0000)));
        assert!(!is_complete(&ip.with_masked(Field::Ipv4Dst, 1, 1)));
        assert!(!is_complete(&ip.with(Field::Reg0, 1)));
        assert!(!is_complete(&Match::any().with(Field::InPort, 0x1_0000)));
        assert!(!is_complete(&Match::any().with(Field::VlanTci, 0)));
        assert!(is_complete(&Match::any().with(Field::VlanVid, 0)));
    }
}
