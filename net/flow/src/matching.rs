//! Matches: a key and a mask. Only bits of the mask are compared.

use crate::field::{Field, Masking, Prerequisite};
use crate::key::Key;
use std::ops::RangeInclusive;

/// Selects the packets whose key equals `key` in all bits of `mask`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Match {
    key: Key,
    mask: Key,
}

/// Why a match is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadMatch {
    /// `OFPBMC_BAD_PREREQ`.
    #[error("field `{0}` requires another one: {1}")]
    Prerequisite(&'static str, &'static str),
    /// `OFPBMC_DUP_FIELD`.
    #[error("field `{0}` occurs twice")]
    Duplicate(&'static str),
    /// `OFPBMC_BAD_MASK`.
    #[error("field `{0}` cannot be matched in part")]
    Mask(&'static str),
    /// `OFPBMC_BAD_WILDCARDS`.
    #[error("the value of field `{0}` has bits outside of its mask")]
    Wildcards(&'static str),
    /// `OFPBMC_BAD_VALUE`.
    #[error("the value of field `{0}` is out of range")]
    Value(&'static str),
}

impl Match {
    /// Selects every packet.
    pub fn any() -> Self {
        Self::default()
    }

    /// Selects the packets that equal `key` in the bits of `mask`. Bits of `key` outside of the mask are cleared.
    pub fn new(key: &Key, mask: &Key) -> Self {
        Self { key: key.and(mask), mask: *mask }
    }

    /// Requires `field` to be `value`, without checks.
    #[must_use]
    pub fn with(self, field: Field, value: u128) -> Self {
        self.with_masked(field, value, field.full())
    }

    /// Requires the bits `mask` of `field` to be those of `value`, without checks. The option of a tunnel must be
    /// present as well, also if `mask` is 0.
    #[must_use]
    pub fn with_masked(mut self, field: Field, value: u128, mask: u128) -> Self {
        if let Some(n) = field.option() {
            self.require(Field::TunOptions, 1 << n, 1 << n);
        }
        self.require(field, value, mask);
        self
    }

    fn require(&mut self, field: Field, value: u128, mask: u128) {
        self.key.set_masked(field, value, mask);
        self.mask.set(field, self.mask.get(field) | mask);
    }

    /// Whether bits of `field` are matched, or the presence of an option of a tunnel. An option that must be absent is
    /// not.
    pub fn has(&self, field: Field) -> bool {
        match field.option() {
            Some(n) if self.mask.get(Field::TunOptions) >> n & 1 != 0 => {
                self.key.get(Field::TunOptions) >> n & 1 != 0
            }
            _ => self.mask.get(field) != 0,
        }
    }

    /// Whether it requires options of a tunnel.
    pub fn has_options(&self) -> bool {
        self.mask.get(Field::TunOptions) != 0
    }

    /// Adds a field as a message names it: after its prerequisites, once.
    ///
    /// # Errors
    /// If the field, its value or its mask is not allowed here. Nothing is added.
    pub fn add(&mut self, field: Field, value: u128, mask: Option<u128>) -> Result<(), BadMatch> {
        let (info, full) = (field.info(), field.full());
        let bits = mask.unwrap_or(full);
        if self.has(field) {
            return Err(BadMatch::Duplicate(info.name));
        }
        if value & !full != 0 || bits & !full != 0 {
            return Err(BadMatch::Value(info.name));
        }
        if bits != full && bits != 0 && info.masking == Masking::Exact {
            return Err(BadMatch::Mask(info.name));
        }
        if value & !bits != 0 {
            return Err(BadMatch::Wildcards(info.name));
        }
        if !info.requires.holds(self) {
            return Err(BadMatch::Prerequisite(info.name, info.requires.describe()));
        }
        *self = self.with_masked(field, value, bits);
        Ok(())
    }

    /// Value under the mask.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Mask.
    pub fn mask(&self) -> &Key {
        &self.mask
    }

    /// Value of `field` if all its bits are matched.
    pub fn exact(&self, field: Field) -> Option<u128> {
        (self.mask.get(field) == field.full()).then(|| self.key.get(field))
    }

    /// Whether it selects `key`.
    #[inline]
    pub fn selects(&self, key: &Key) -> bool {
        let words = key.0.iter().zip(&self.key.0).zip(&self.mask.0);
        words.fold(0, |differs, ((have, want), mask)| differs | (have ^ want) & mask) == 0
    }

    /// Whether a packet exists that both select.
    pub fn overlaps(&self, other: &Self) -> bool {
        let common = self.mask.and(&other.mask);
        self.key.and(&common) == other.key.and(&common)
    }

    /// Whether it selects every packet that `other` selects.
    pub fn covers(&self, other: &Self) -> bool {
        self.mask.and(&other.mask) == self.mask && other.key.and(&self.mask) == self.key
    }
}

impl Prerequisite {
    /// Whether `found` requires what this field needs.
    pub fn holds(self, found: &Match) -> bool {
        let is = |field, value| found.exact(field) == Some(value);
        let ethertype = |values: &[u128]| values.iter().any(|value| is(Field::EthType, *value));
        let ip = || ethertype(&[0x0800, 0x86dd]);
        let later = found.mask.get(Field::IpFrag) & found.key.get(Field::IpFrag) & 2 != 0;
        let protocol = |number| ip() && is(Field::IpProto, number) && !later;
        let icmpv6 = || ethertype(&[0x86dd]) && protocol(58);
        let nd = |kind| icmpv6() && is(Field::Icmpv6Type, kind) && is(Field::Icmpv6Code, 0);
        match self {
            Self::Any => true,
            Self::InPort => found.exact(Field::InPort).is_some(),
            Self::Vlan => found.mask.get(Field::VlanVid) & found.key.get(Field::VlanVid) & 0x1000 != 0,
            Self::Mpls => ethertype(&[0x8847, 0x8848]),
            Self::Pbb => ethertype(&[0x88e7]),
            Self::Ipv4 => ethertype(&[0x0800]),
            Self::Ipv6 => ethertype(&[0x86dd]),
            Self::Ip => ip(),
            Self::Arp => ethertype(&[0x0806, 0x8035]),
            Self::Tcp => protocol(6),
            Self::Udp => protocol(17),
            Self::Sctp => protocol(132),
            Self::Icmp => ethertype(&[0x0800]) && protocol(1),
            Self::Icmpv6 => icmpv6(),
            Self::Nd => nd(135) || nd(136),
            Self::NdSolicit => nd(135),
            Self::NdAdvert => nd(136),
            Self::Ct => ip() && found.mask.get(Field::CtState) != 0,
            Self::CtIpv4 => ethertype(&[0x0800]) && found.mask.get(Field::CtState) != 0,
            Self::CtIpv6 => ethertype(&[0x86dd]) && found.mask.get(Field::CtState) != 0,
        }
    }

    /// Position in a sequence in which every field follows its prerequisites.
    pub fn order(self) -> u8 {
        match self {
            Self::Any => 0,
            Self::Tcp | Self::Udp | Self::Sctp | Self::Icmp | Self::Icmpv6 => 2,
            Self::Nd | Self::NdSolicit | Self::NdAdvert => 3,
            _ => 1,
        }
    }

    /// In text.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Any => "nothing",
            Self::InPort => "in_port",
            Self::Vlan => "a VLAN tag (vlan_vid)",
            Self::Mpls => "eth_type 0x8847 or 0x8848",
            Self::Pbb => "eth_type 0x88e7",
            Self::Ipv4 => "eth_type 0x0800",
            Self::Ipv6 => "eth_type 0x86dd",
            Self::Ip => "eth_type 0x0800 or 0x86dd",
            Self::Arp => "eth_type 0x0806 or 0x8035",
            Self::Tcp => "nw_proto 6, and not a later fragment",
            Self::Udp => "nw_proto 17, and not a later fragment",
            Self::Sctp => "nw_proto 132, and not a later fragment",
            Self::Icmp => "eth_type 0x0800 and nw_proto 1",
            Self::Icmpv6 => "eth_type 0x86dd and nw_proto 58",
            Self::Nd => "icmpv6_type 135 or 136 and icmpv6_code 0",
            Self::NdSolicit => "icmpv6_type 135 and icmpv6_code 0",
            Self::NdAdvert => "icmpv6_type 136 and icmpv6_code 0",
            Self::Ct => "ct_state, and eth_type 0x0800 or 0x86dd",
            Self::CtIpv4 => "ct_state and eth_type 0x0800",
            Self::CtIpv6 => "ct_state and eth_type 0x86dd",
        }
    }
}

/// Values and masks that together select the ports of a range, each once.
pub fn port_masks(range: &RangeInclusive<u16>) -> Vec<(u16, u16)> {
    let (mut next, last, mut found) = (u32::from(*range.start()), u32::from(*range.end()), Vec::new());
    while next <= last {
        let bits = (last - next + 1).ilog2().min(next.trailing_zeros());
        found.push((next as u16, (u32::MAX << bits) as u16));
        next += 1 << bits;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_ports_are_split_into_prefixes() {
        assert_eq!(port_masks(&(0..=u16::MAX)), [(0, 0)]);
        assert_eq!(port_masks(&(80..=80)), [(80, 0xffff)]);
        assert_eq!(port_masks(&(1024..=u16::MAX)).len(), 6);
        assert_eq!(port_masks(&(20..=23)), [(20, 0xfffc)]);
        assert_eq!(port_masks(&(u16::MAX..=u16::MAX)), [(u16::MAX, u16::MAX)]);
        for (first, last) in [(1300, 1349), (5001, 65535), (33434, 33600)] {
            let covers =
                |port: u16| port_masks(&(first..=last)).iter().filter(|(v, mask)| port & mask == *v).count();
            for port in [first - 1, first, (first + last / 2).min(last), last] {
                assert_eq!(covers(port), usize::from(port >= first), "{port}");
            }
        }
    }

    #[test]
    fn fields_need_their_prerequisites_first() {
        let mut tcp = Match::any();
        assert!(matches!(tcp.add(Field::TcpDst, 80, None), Err(BadMatch::Prerequisite("tcp_dst", _))));
        for (field, value) in [(Field::EthType, 0x86dd), (Field::IpProto, 6), (Field::TcpDst, 80)] {
            tcp.add(field, value, None).unwrap();
        }
        assert_eq!(tcp.add(Field::IpProto, 6, None), Err(BadMatch::Duplicate("nw_proto")));
        assert!(matches!(tcp.add(Field::Ipv4Src, 1, None), Err(BadMatch::Prerequisite(..))));
        assert!(matches!(tcp.add(Field::VlanPcp, 1, None), Err(BadMatch::Prerequisite(..))));
        tcp.add(Field::VlanVid, 0x1000, Some(0x1000)).unwrap();
        tcp.add(Field::VlanPcp, 1, None).unwrap();
    }

    #[test]
    fn an_option_of_a_tunnel_must_be_present() {
        let mut present = Match::any();
        present.add(Field::TunMetadata3, 0, Some(0)).unwrap();
        assert_eq!((present.mask().get(Field::TunOptions), present.key().get(Field::TunOptions)), (8, 8));
        assert!(present.has(Field::TunMetadata3) && !present.has(Field::TunMetadata2));
        let duplicate = BadMatch::Duplicate("tun_metadata3");
        assert_eq!(present.add(Field::TunMetadata3, 5, None), Err(duplicate));
        let zero = Match::any().with(Field::TunMetadata3, 0);
        assert!(present.covers(&zero) && !zero.covers(&present) && present.overlaps(&zero));
        assert!(!present.selects(&Key::ZERO) && !zero.selects(&Key::ZERO));
        assert!(present.selects(zero.key()) && zero.selects(zero.key()));
    }

    #[test]
    fn values_and_masks_are_checked() {
        let mut any = Match::any();
        assert_eq!(any.add(Field::EthType, 0x800, Some(0xf00)), Err(BadMatch::Mask("eth_type")));
        assert_eq!(any.add(Field::Metadata, 3, Some(1)), Err(BadMatch::Wildcards("metadata")));
        assert_eq!(any.add(Field::VlanVid, 0x2000, None), Err(BadMatch::Value("vlan_vid")));
        assert_eq!(any, Match::any());
    }

    #[test]
    fn overlap_and_cover_follow_the_bits() {
        let net =
            Match::any().with(Field::EthType, 0x800).with_masked(Field::Ipv4Dst, 0x0a00_0000, 0xff00_0000);
        let host = Match::any().with(Field::EthType, 0x800).with(Field::Ipv4Dst, 0x0a00_0001);
        let port = Match::any().with(Field::InPort, 1);
        assert!(net.covers(&host) && !host.covers(&net) && net.overlaps(&host));
        assert!(port.overlaps(&host) && !port.covers(&host) && Match::any().covers(&port));
        assert!(!host.overlaps(&host.with(Field::Ipv4Dst, 0x0a00_0002)));
        let mut key = *host.key();
        key.set(Field::EthSrc, 5);
        assert!(net.selects(&key) && host.selects(&key) && !port.selects(&key));
    }
}
