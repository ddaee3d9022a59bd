//! The fields of a packet and of its way through the tables: one table of names, numbers, positions and rules.
//!
//! Names and numbers are those of OpenFlow 1.3.5, section 7.2.3.7, and of Open vSwitch's ovs-fields(7). Every other
//! module looks fields up here; none repeats a property.

/// Number spaces of OXM headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// `OFPXMC_NXM_0` (0x0000).
    Nxm0,
    /// `OFPXMC_NXM_1` (0x0001).
    Nxm1,
    /// `OFPXMC_OPENFLOW_BASIC` (0x8000).
    Basic,
    /// `OFPXMC_PACKET_REGS` (0x8001), of OpenFlow 1.5.
    PacketRegs,
    /// `OFPXMC_EXPERIMENTER` (0xffff) with the identifier of the ONF (0x4f4e4600).
    Onf,
}

/// Number of a field in a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Oxm {
    /// Number space.
    pub class: Class,
    /// Number in the class.
    pub number: u8,
}

/// How a field can be matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Masking {
    /// Completely or not at all.
    Exact,
    /// Any subset of its bits.
    Bits,
}

/// Whether actions can write a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Match only.
    Read,
    /// Match, set, move and load.
    Write,
}

/// Prerequisite of a field: fields that a match must contain before it (OpenFlow 1.3.5, 7.2.3.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prerequisite {
    /// Nothing.
    Any,
    /// An ingress port.
    InPort,
    /// A VLAN tag.
    Vlan,
    /// EtherType 0x8847 or 0x8848.
    Mpls,
    /// EtherType 0x88e7.
    Pbb,
    /// EtherType 0x0800.
    Ipv4,
    /// EtherType 0x86dd.
    Ipv6,
    /// EtherType 0x0800 or 0x86dd.
    Ip,
    /// EtherType 0x0806 or 0x8035.
    Arp,
    /// IP protocol 6.
    Tcp,
    /// IP protocol 17.
    Udp,
    /// IP protocol 132.
    Sctp,
    /// IPv4 protocol 1.
    Icmp,
    /// IPv6 next header 58.
    Icmpv6,
    /// ICMPv6 type 135 or 136, code 0.
    Nd,
    /// ICMPv6 type 135, code 0.
    NdSolicit,
    /// ICMPv6 type 136, code 0.
    NdAdvert,
    /// An IP packet with a connection state.
    Ct,
    /// An IPv4 packet with a connection state.
    CtIpv4,
    /// An IPv6 packet with a connection state.
    CtIpv6,
}

/// Properties of a field.
#[derive(Clone, Copy, Debug)]
pub struct FieldInfo {
    /// Name in text, as in ovs-fields(7).
    pub name: &'static str,
    /// Word of the key. A field of 128 bits has its high half there and its low half in the next word.
    pub word: u8,
    /// Position of the lowest bit in its word.
    pub shift: u8,
    /// Width.
    pub bits: u8,
    /// Number in OXM; `None` if the field exists in NXM only.
    pub oxm: Option<Oxm>,
    /// Number in NXM.
    pub nxm: Option<Oxm>,
    /// How it can be matched.
    pub masking: Masking,
    /// Prerequisite of a match on it.
    pub requires: Prerequisite,
    /// Whether actions can write it.
    pub access: Access,
}

const fn basic(number: u8) -> Oxm {
    Oxm { class: Class::Basic, number }
}

const fn regs(number: u8) -> Oxm {
    Oxm { class: Class::PacketRegs, number }
}

const fn onf(number: u8) -> Oxm {
    Oxm { class: Class::Onf, number }
}

const fn nxm0(number: u8) -> Oxm {
    Oxm { class: Class::Nxm0, number }
}

const fn nxm1(number: u8) -> Oxm {
    Oxm { class: Class::Nxm1, number }
}

macro_rules! fields {
    ($($variant:ident, $name:literal, $word:literal: $shift:literal, $bits:literal, $oxm:expr, $nxm:expr,
       $masking:ident, $requires:ident, $access:ident, $doc:literal;)*) => {
        /// A field of a [`crate::Key`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Field {
            $(#[doc = $doc] $variant,)*
        }

        impl Field {
            /// All fields.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];
            const TABLE: &[FieldInfo] = &[$(FieldInfo {
                name: $name,
                word: $word,
                shift: $shift,
                bits: $bits,
                oxm: $oxm,
                nxm: $nxm,
                masking: Masking::$masking,
                requires: Prerequisite::$requires,
                access: Access::$access,
            },)*];
        }
    };
}

fields! {
InPort, "in_port", 0:32, 32, Some(basic(0)), Some(nxm0(0)), Exact, Any, Write, "Ingress port.";
InPhyPort, "in_phy_port", 0:0, 32, Some(basic(1)), None, Exact, InPort, Read, "Physical port below the ingress port.";
Metadata, "metadata", 1:0, 64, Some(basic(2)), None, Bits, Any, Write, "Value passed between tables.";
TunnelId, "tun_id", 2:0, 64, Some(basic(38)), Some(nxm1(16)), Bits, Any, Write, "VNI, VSID or key of the tunnel.";
TunSrc, "tun_src", 3:32, 32, None, Some(nxm1(31)), Bits, Any, Write, "IPv4 source of the tunnel.";
TunDst, "tun_dst", 3:0, 32, None, Some(nxm1(32)), Bits, Any, Write, "IPv4 destination of the tunnel.";
TunIpv6Src, "tun_ipv6_src", 4:0, 128, None, Some(nxm1(109)), Bits, Any, Write, "IPv6 source of the tunnel.";
TunIpv6Dst, "tun_ipv6_dst", 6:0, 128, None, Some(nxm1(110)), Bits, Any, Write, "IPv6 destination of the tunnel.";
TunFlags, "tun_flags", 8:48, 16, None, Some(nxm1(104)), Bits, Any, Write, "Flags of the tunnel header; bit 0: OAM.";
TunGbpId, "tun_gbp_id", 8:32, 16, None, Some(nxm1(38)), Bits, Any, Write, "Group policy identifier of VXLAN.";
TunGbpFlags, "tun_gbp_flags", 8:24, 8, None, Some(nxm1(39)), Bits, Any, Write, "Group policy flags of VXLAN.";
TunTos, "tun_tos", 8:16, 8, None, None, Exact, Any, Write, "Traffic class of the outer header.";
TunTtl, "tun_ttl", 8:8, 8, None, None, Exact, Any, Write, "Time to live of the outer header.";
TunMetadata0, "tun_metadata0", 9:0, 64, None, Some(nxm1(40)), Bits, Any, Write, "Option 0 of a Geneve tunnel, as the map of the tables binds it.";
TunMetadata1, "tun_metadata1", 10:0, 64, None, Some(nxm1(41)), Bits, Any, Write, "Option 1 of a Geneve tunnel, as the map of the tables binds it.";
TunMetadata2, "tun_metadata2", 11:32, 32, None, Some(nxm1(42)), Bits, Any, Write, "Option 2 of a Geneve tunnel, as the map of the tables binds it.";
TunMetadata3, "tun_metadata3", 11:0, 32, None, Some(nxm1(43)), Bits, Any, Write, "Option 3 of a Geneve tunnel, as the map of the tables binds it.";
TunMetadata4, "tun_metadata4", 12:32, 32, None, Some(nxm1(44)), Bits, Any, Write, "Option 4 of a Geneve tunnel, as the map of the tables binds it.";
TunMetadata5, "tun_metadata5", 12:0, 32, None, Some(nxm1(45)), Bits, Any, Write, "Option 5 of a Geneve tunnel, as the map of the tables binds it.";
TunMetadata6, "tun_metadata6", 13:32, 32, None, Some(nxm1(46)), Bits, Any, Write, "Option 6 of a Geneve tunnel, as the map of the tables binds it.";
TunMetadata7, "tun_metadata7", 13:0, 32, None, Some(nxm1(47)), Bits, Any, Write, "Option 7 of a Geneve tunnel, as the map of the tables binds it.";
TunOptions, "tun_options", 8:0, 8, None, None, Bits, Any, Write, "Which options are present: bit `n` for `tun_metadata<n>`. Actions and matches set it with the option.";
Reg0, "reg0", 14:32, 32, None, Some(nxm1(0)), Bits, Any, Write, "Register 0.";
Reg1, "reg1", 14:0, 32, None, Some(nxm1(1)), Bits, Any, Write, "Register 1.";
Reg2, "reg2", 15:32, 32, None, Some(nxm1(2)), Bits, Any, Write, "Register 2.";
Reg3, "reg3", 15:0, 32, None, Some(nxm1(3)), Bits, Any, Write, "Register 3.";
Reg4, "reg4", 16:32, 32, None, Some(nxm1(4)), Bits, Any, Write, "Register 4.";
Reg5, "reg5", 16:0, 32, None, Some(nxm1(5)), Bits, Any, Write, "Register 5.";
Reg6, "reg6", 17:32, 32, None, Some(nxm1(6)), Bits, Any, Write, "Register 6.";
Reg7, "reg7", 17:0, 32, None, Some(nxm1(7)), Bits, Any, Write, "Register 7.";
Reg8, "reg8", 18:32, 32, None, Some(nxm1(8)), Bits, Any, Write, "Register 8.";
Reg9, "reg9", 18:0, 32, None, Some(nxm1(9)), Bits, Any, Write, "Register 9.";
Reg10, "reg10", 19:32, 32, None, Some(nxm1(10)), Bits, Any, Write, "Register 10.";
Reg11, "reg11", 19:0, 32, None, Some(nxm1(11)), Bits, Any, Write, "Register 11.";
Reg12, "reg12", 20:32, 32, None, Some(nxm1(12)), Bits, Any, Write, "Register 12.";
Reg13, "reg13", 20:0, 32, None, Some(nxm1(13)), Bits, Any, Write, "Register 13.";
Reg14, "reg14", 21:32, 32, None, Some(nxm1(14)), Bits, Any, Write, "Register 14.";
Reg15, "reg15", 21:0, 32, None, Some(nxm1(15)), Bits, Any, Write, "Register 15.";
Xreg0, "xreg0", 14:0, 64, Some(regs(0)), None, Bits, Any, Write, "Registers 0 and 1.";
Xreg1, "xreg1", 15:0, 64, Some(regs(1)), None, Bits, Any, Write, "Registers 2 and 3.";
Xreg2, "xreg2", 16:0, 64, Some(regs(2)), None, Bits, Any, Write, "Registers 4 and 5.";
Xreg3, "xreg3", 17:0, 64, Some(regs(3)), None, Bits, Any, Write, "Registers 6 and 7.";
Xreg4, "xreg4", 18:0, 64, Some(regs(4)), None, Bits, Any, Write, "Registers 8 and 9.";
Xreg5, "xreg5", 19:0, 64, Some(regs(5)), None, Bits, Any, Write, "Registers 10 and 11.";
Xreg6, "xreg6", 20:0, 64, Some(regs(6)), None, Bits, Any, Write, "Registers 12 and 13.";
Xreg7, "xreg7", 21:0, 64, Some(regs(7)), None, Bits, Any, Write, "Registers 14 and 15.";
Xxreg0, "xxreg0", 14:0, 128, None, Some(nxm1(111)), Bits, Any, Write, "Registers 0 to 3.";
Xxreg1, "xxreg1", 16:0, 128, None, Some(nxm1(112)), Bits, Any, Write, "Registers 4 to 7.";
Xxreg2, "xxreg2", 18:0, 128, None, Some(nxm1(113)), Bits, Any, Write, "Registers 8 to 11.";
Xxreg3, "xxreg3", 20:0, 128, None, Some(nxm1(114)), Bits, Any, Write, "Registers 12 to 15.";
PktMark, "pkt_mark", 22:32, 32, None, Some(nxm1(33)), Bits, Any, Write, "Mark of the packet.";
CtState, "ct_state", 22:0, 32, None, Some(nxm1(105)), Bits, Any, Read, "Connection state bits ([`ct_state`]).";
CtMark, "ct_mark", 23:32, 32, None, Some(nxm1(107)), Bits, Any, Write, "Mark of the connection.";
CtZone, "ct_zone", 23:16, 16, None, Some(nxm1(106)), Exact, Any, Read, "Zone of the connection.";
CtNwProto, "ct_nw_proto", 23:8, 8, None, Some(nxm1(119)), Exact, Ct, Read, "Protocol of the original direction.";
CtLabel, "ct_label", 24:0, 128, None, Some(nxm1(108)), Bits, Any, Write, "Label of the connection.";
ActsetOutput, "actset_output", 26:32, 32, Some(onf(43)), None, Exact, Any, Read, "Output port in the action set.";
ConjId, "conj_id", 26:0, 32, None, Some(nxm1(37)), Exact, Any, Read, "Conjunction that matched.";
DpHash, "dp_hash", 27:32, 32, None, Some(nxm1(35)), Bits, Any, Read, "Hash computed by a select group.";
RecircId, "recirc_id", 27:0, 32, None, Some(nxm1(36)), Exact, Any, Read, "Where the pipeline continues.";
EthDst, "eth_dst", 28:16, 48, Some(basic(3)), Some(nxm0(1)), Bits, Any, Write, "Destination address.";
EthType, "eth_type", 28:0, 16, Some(basic(5)), Some(nxm0(3)), Exact, Any, Read, "EtherType after the VLAN tags.";
EthSrc, "eth_src", 29:16, 48, Some(basic(4)), Some(nxm0(2)), Bits, Any, Write, "Source address.";
VlanTci, "vlan_tci", 29:0, 16, None, Some(nxm0(4)), Bits, Any, Write, "Tag control information of the outer tag; bit 12: a tag is present.";
VlanVid, "vlan_vid", 29:0, 13, Some(basic(6)), None, Bits, Any, Write, "VLAN of the outer tag; bit 12: a tag is present.";
VlanPcp, "vlan_pcp", 29:13, 3, Some(basic(7)), None, Exact, Vlan, Write, "Priority of the outer tag.";
PbbIsid, "pbb_isid", 30:40, 24, Some(basic(37)), None, Bits, Pbb, Write, "I-SID of the backbone tag.";
PbbUca, "pbb_uca", 30:39, 1, Some(basic(41)), None, Exact, Pbb, Write, "Use customer address bit of the backbone tag.";
MplsLabel, "mpls_label", 30:12, 20, Some(basic(34)), None, Exact, Mpls, Write, "Label of the outermost entry.";
MplsTc, "mpls_tc", 30:9, 3, Some(basic(35)), None, Exact, Mpls, Write, "Traffic class of the outermost entry.";
MplsBos, "mpls_bos", 30:8, 1, Some(basic(36)), None, Exact, Mpls, Read, "Bottom of stack bit of the outermost entry.";
MplsTtl, "mpls_ttl", 30:0, 8, None, Some(nxm1(30)), Exact, Mpls, Write, "Time to live of the outermost entry.";
Ipv4Src, "nw_src", 31:32, 32, Some(basic(11)), Some(nxm0(7)), Bits, Ipv4, Write, "Source address.";
Ipv4Dst, "nw_dst", 31:0, 32, Some(basic(12)), Some(nxm0(8)), Bits, Ipv4, Write, "Destination address.";
ArpSpa, "arp_spa", 31:32, 32, Some(basic(22)), Some(nxm0(16)), Bits, Arp, Write, "Sender protocol address.";
ArpTpa, "arp_tpa", 31:0, 32, Some(basic(23)), Some(nxm0(17)), Bits, Arp, Write, "Target protocol address.";
Ipv6Src, "ipv6_src", 32:0, 128, Some(basic(26)), Some(nxm1(19)), Bits, Ipv6, Write, "Source address.";
Ipv6Dst, "ipv6_dst", 34:0, 128, Some(basic(27)), Some(nxm1(20)), Bits, Ipv6, Write, "Destination address.";
IpProto, "nw_proto", 36:56, 8, Some(basic(10)), Some(nxm0(6)), Exact, Ip, Read, "Protocol, of IPv6 after the extension headers.";
IpDscp, "ip_dscp", 36:50, 6, Some(basic(8)), None, Exact, Ip, Write, "Differentiated services code point.";
IpEcn, "nw_ecn", 36:48, 2, Some(basic(9)), Some(nxm1(28)), Exact, Ip, Write, "Congestion notification bits.";
IpTtl, "nw_ttl", 36:40, 8, None, Some(nxm1(29)), Exact, Ip, Write, "Time to live or hop limit.";
IpFrag, "ip_frag", 36:32, 2, None, Some(nxm1(26)), Bits, Ip, Read, "Fragment bits ([`frag`]).";
Ipv6Flabel, "ipv6_label", 36:12, 20, Some(basic(28)), Some(nxm1(27)), Bits, Ipv6, Write, "Flow label.";
Ipv6Exthdr, "ipv6_exthdr", 36:0, 9, Some(basic(39)), None, Bits, Ipv6, Read, "Extension header bits (OpenFlow 1.3.5, 7.2.3.8).";
NdTarget, "nd_target", 37:0, 128, Some(basic(31)), Some(nxm1(23)), Bits, Nd, Write, "Target address of neighbour discovery.";
ArpSha, "arp_sha", 39:16, 48, Some(basic(24)), Some(nxm1(17)), Bits, Arp, Write, "Sender hardware address.";
NdSll, "nd_sll", 39:16, 48, Some(basic(32)), Some(nxm1(24)), Bits, NdSolicit, Write, "Source link-layer address option.";
ArpOp, "arp_op", 39:0, 16, Some(basic(21)), Some(nxm0(15)), Exact, Arp, Write, "Operation.";
ArpTha, "arp_tha", 40:16, 48, Some(basic(25)), Some(nxm1(18)), Bits, Arp, Write, "Target hardware address.";
NdTll, "nd_tll", 40:16, 48, Some(basic(33)), Some(nxm1(25)), Bits, NdAdvert, Write, "Target link-layer address option.";
TcpSrc, "tcp_src", 41:48, 16, Some(basic(13)), Some(nxm0(9)), Bits, Tcp, Write, "Source port.";
TcpDst, "tcp_dst", 41:32, 16, Some(basic(14)), Some(nxm0(10)), Bits, Tcp, Write, "Destination port.";
UdpSrc, "udp_src", 41:48, 16, Some(basic(15)), Some(nxm0(11)), Bits, Udp, Write, "Source port.";
UdpDst, "udp_dst", 41:32, 16, Some(basic(16)), Some(nxm0(12)), Bits, Udp, Write, "Destination port.";
SctpSrc, "sctp_src", 41:48, 16, Some(basic(17)), None, Bits, Sctp, Write, "Source port.";
SctpDst, "sctp_dst", 41:32, 16, Some(basic(18)), None, Bits, Sctp, Write, "Destination port.";
IcmpType, "icmp_type", 41:48, 8, Some(basic(19)), Some(nxm0(13)), Exact, Icmp, Write, "ICMP type.";
IcmpCode, "icmp_code", 41:32, 8, Some(basic(20)), Some(nxm0(14)), Exact, Icmp, Write, "ICMP code.";
Icmpv6Type, "icmpv6_type", 41:48, 8, Some(basic(29)), Some(nxm1(21)), Exact, Icmpv6, Write, "ICMPv6 type.";
Icmpv6Code, "icmpv6_code", 41:32, 8, Some(basic(30)), Some(nxm1(22)), Exact, Icmpv6, Write, "ICMPv6 code.";
TcpFlags, "tcp_flags", 41:16, 12, Some(onf(42)), Some(nxm1(34)), Bits, Tcp, Read, "Control bits.";
CtNwSrc, "ct_nw_src", 42:32, 32, None, Some(nxm1(120)), Bits, CtIpv4, Read, "IPv4 source of the original direction.";
CtNwDst, "ct_nw_dst", 42:0, 32, None, Some(nxm1(121)), Bits, CtIpv4, Read, "IPv4 destination of the original direction.";
CtIpv6Src, "ct_ipv6_src", 43:0, 128, None, Some(nxm1(122)), Bits, CtIpv6, Read, "IPv6 source of the original direction.";
CtIpv6Dst, "ct_ipv6_dst", 45:0, 128, None, Some(nxm1(123)), Bits, CtIpv6, Read, "IPv6 destination of the original direction.";
CtTpSrc, "ct_tp_src", 47:48, 16, None, Some(nxm1(124)), Bits, Ct, Read, "Source port of the original direction.";
CtTpDst, "ct_tp_dst", 47:32, 16, None, Some(nxm1(125)), Bits, Ct, Read, "Destination port of the original direction.";}

impl Field {
    /// Properties.
    #[inline]
    pub const fn info(self) -> &'static FieldInfo {
        &Self::TABLE[self as usize]
    }

    /// All bits of the field.
    #[inline]
    pub const fn full(self) -> u128 {
        u128::MAX >> (128 - self.info().bits)
    }

    /// Length of the value in messages, in bytes. Labels of 20 bits have 4 bytes.
    pub const fn bytes(self) -> usize {
        match self.info().bits {
            20 => 4,
            bits => bits.div_ceil(8) as usize,
        }
    }

    /// Options that a packet can carry as fields.
    pub const OPTIONS: u8 = 8;

    /// The field of option `n` of a tunnel; `None` from [`Field::OPTIONS`] on.
    pub fn of_option(n: u8) -> Option<Self> {
        let first = Self::TunMetadata0 as usize;
        Self::ALL.get(first + usize::from(n)).copied().filter(|_| n < Self::OPTIONS)
    }

    /// Number of the option of a tunnel that the field contains.
    #[inline]
    pub fn option(self) -> Option<u8> {
        let n = (self as u8).wrapping_sub(Self::TunMetadata0 as u8);
        (n < Self::OPTIONS).then_some(n)
    }

    /// The field of an OXM or NXM number.
    pub fn from_oxm(oxm: Oxm) -> Option<Self> {
        Self::ALL.iter().copied().find(|field| [field.info().oxm, field.info().nxm].contains(&Some(oxm)))
    }

    /// The field of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|field| field.info().name == name)
    }
}

/// Bits of [`Field::CtState`].
pub use conntrack::bits as ct_state;

/// Bits of [`Field::IpFrag`], as in ovs-fields(7).
pub mod frag {
    /// A fragment.
    pub const ANY: u8 = 1;
    /// A fragment other than the first.
    pub const LATER: u8 = 2;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_and_numbers_are_unique() {
        let mut seen = HashSet::new();
        for info in Field::ALL.iter().map(|field| field.info()) {
            assert!(seen.insert(info.name.to_owned()), "{}", info.name);
            for oxm in [info.oxm, info.nxm].into_iter().flatten() {
                assert!(seen.insert(format!("{oxm:?}")), "{}", info.name);
            }
        }
    }

    #[test]
    fn fields_fit_in_their_words() {
        for info in Field::ALL.iter().map(|field| field.info()) {
            let words = if info.bits == 128 { 2 } else { 1 };
            assert!(usize::from(info.word) + words <= crate::WORDS, "{}", info.name);
            assert!(info.bits == 128 && info.shift == 0 || info.shift + info.bits <= 64, "{}", info.name);
        }
    }

    #[test]
    fn options_have_fields_in_the_words_of_the_tunnel() {
        let fields: Vec<_> = (0..=Field::OPTIONS).map(Field::of_option).collect();
        assert_eq!((fields[0], fields[7]), (Some(Field::TunMetadata0), Some(Field::TunMetadata7)));
        assert_eq!(fields[8], None);
        assert!(
            Field::ALL
                .iter()
                .all(|field| field.option().is_none_or(|n| fields[usize::from(n)] == Some(*field)))
        );
        assert_eq!(Field::ALL.iter().filter_map(|field| field.option()).count(), 8);
        let is_in_tunnel = |field: &Field| crate::Key::TUNNEL.contains(&field.info().word.into());
        assert!(fields.iter().flatten().chain([&Field::TunOptions]).all(is_in_tunnel));
    }

    #[test]
    fn fields_are_found_by_number_and_name() {
        for &field in Field::ALL {
            assert_eq!(Field::from_name(field.info().name), Some(field));
            for oxm in [field.info().oxm, field.info().nxm].into_iter().flatten() {
                assert_eq!(Field::from_oxm(oxm), Some(field));
            }
        }
        assert_eq!((Field::VlanVid.full(), Field::VlanVid.bytes()), (0x1fff, 2));
        assert_eq!((Field::PbbIsid.bytes(), Field::MplsLabel.bytes(), Field::Ipv6Flabel.bytes()), (3, 4, 4));
    }
}
