//! Names of fields in text and the form of their values: ovs-fields(7).

use super::error::{Reason, TextError, nearest};
use super::piece::Piece;
use crate::field::Field;
use crate::matching::Match;

/// Form of a value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form {
    /// Decimal number.
    Decimal,
    /// Hexadecimal number.
    Hex,
    /// Ethernet address.
    Mac,
    /// IPv4 address.
    Ipv4,
    /// IPv6 address.
    Ipv6,
    /// Port.
    Port,
    /// Word for fragments.
    Frag,
    /// Names of bits.
    Flags(&'static Flags),
}

/// Names of bits.
#[derive(Debug)]
pub(super) struct Flags {
    /// Names from bit 0.
    pub names: &'static [&'static str],
    /// The mask of all bits that have a meaning.
    pub all: u128,
    /// Whether a match on all bits is printed as names with `|`, and not with signs.
    pub is_joined: bool,
}

const CT_STATE: &Flags =
    &Flags { names: &["new", "est", "rel", "rpl", "inv", "trk", "snat", "dnat"], all: 0xff, is_joined: true };
const TUN_FLAGS: &Flags = &Flags { names: &["oam"], all: 1, is_joined: false };
const TCP_FLAGS: &Flags = &Flags {
    names: &["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr", "ns", "[200]", "[400]", "[800]"],
    all: 0xfff,
    is_joined: true,
};

/// A field as it is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Named {
    /// Field.
    pub field: Field,
    /// Form of its values.
    pub form: Form,
    /// Name with brackets, then further names, separated by spaces.
    names: &'static str,
}

impl Named {
    /// Name of parts of the field; NXM if it has one.
    pub(super) fn part_name(self) -> &'static str {
        self.names.split(' ').next().filter(|name| !name.is_empty()).unwrap_or(self.field.info().name)
    }

    /// Name in actions.
    pub(super) fn action_name(self) -> &'static str {
        match self.field {
            Field::Ipv4Src => "ip_src",
            Field::Ipv4Dst => "ip_dst",
            _ => self.field.info().name,
        }
    }
}

/// Form and names of a field.
pub(super) fn named(field: Field) -> Named {
    let (form, names) = TABLE[field as usize];
    Named { field, form, names }
}

/// Fields that text can name. The presence of options is set and matched with the options.
fn visible() -> impl Iterator<Item = Field> {
    Field::ALL.iter().copied().filter(|field| *field != Field::TunOptions)
}

/// All names of fields.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    let others = TABLE.iter().flat_map(|(_, names)| names.split(' '));
    visible().map(|field| field.info().name).chain(others)
}

/// Bits by which values of the name of OpenFlow 1.0 for the DSCP are shifted.
const TOS_SHIFT: u8 = 2;
const TOS_NAMES: &[&str] = &["nw_tos", "NXM_OF_IP_TOS"];

/// The field of a name, and the bits by which values are shifted.
pub(super) fn find(name: Piece) -> Result<(Named, u8), TextError> {
    if TOS_NAMES.contains(&name.text) {
        return Ok((named(Field::IpDscp), TOS_SHIFT));
    }
    let is = |field: &Field| {
        field.info().name == name.text || TABLE[*field as usize].1.split(' ').any(|other| other == name.text)
    };
    let found = visible().find(|field| !name.text.is_empty() && is(field));
    let near = || nearest(name.text, names().filter(|name| !name.is_empty()));
    found.map(|field| (named(field), 0)).ok_or_else(|| name.error(Reason::UnknownField(near())))
}

/// Fields of one name: the first one whose prerequisites `found` fulfils is meant.
const SHARED: &[(&[&str], &[Field])] = &[
    (&["nw_src", "ip_src"], &[Field::Ipv4Src, Field::ArpSpa]),
    (&["nw_dst", "ip_dst"], &[Field::Ipv4Dst, Field::ArpTpa]),
    (&["nw_proto", "ip_proto"], &[Field::IpProto, Field::ArpOp]),
    (&["icmp_type"], &[Field::IcmpType, Field::Icmpv6Type]),
    (&["icmp_code"], &[Field::IcmpCode, Field::Icmpv6Code]),
    (&["tp_src"], &[Field::TcpSrc, Field::UdpSrc, Field::SctpSrc, Field::IcmpType, Field::Icmpv6Type]),
    (&["tp_dst"], &[Field::TcpDst, Field::UdpDst, Field::SctpDst, Field::IcmpCode, Field::Icmpv6Code]),
];

/// The field that `name` means in a match that contains `found`.
pub(super) fn meant(name: &str, field: Field, found: &Match) -> Field {
    let shared = SHARED.iter().find(|(names, _)| names.contains(&name)).map_or(&[][..], |(_, fields)| fields);
    shared.iter().copied().find(|field| field.info().requires.holds(found)).unwrap_or(field)
}

use Form::{Decimal, Frag, Hex, Ipv4, Ipv6, Mac, Port};

/// In the order of [`Field::ALL`].
const TABLE: &[(Form, &str)] = &[
    (Port, "NXM_OF_IN_PORT OXM_OF_IN_PORT in_port_oxm"),
    (Decimal, "OXM_OF_IN_PHY_PORT"),
    (Hex, "OXM_OF_METADATA"),
    (Hex, "NXM_NX_TUN_ID OXM_OF_TUNNEL_ID tunnel_id"),
    (Ipv4, "NXM_NX_TUN_IPV4_SRC"),
    (Ipv4, "NXM_NX_TUN_IPV4_DST"),
    (Ipv6, "NXM_NX_TUN_IPV6_SRC"),
    (Ipv6, "NXM_NX_TUN_IPV6_DST"),
    (Form::Flags(TUN_FLAGS), "NXM_NX_TUN_FLAGS"),
    (Decimal, "NXM_NX_TUN_GBP_ID"),
    (Hex, "NXM_NX_TUN_GBP_FLAGS"),
    (Decimal, ""),
    (Decimal, ""),
    (Hex, "NXM_NX_TUN_METADATA0"),
    (Hex, "NXM_NX_TUN_METADATA1"),
    (Hex, "NXM_NX_TUN_METADATA2"),
    (Hex, "NXM_NX_TUN_METADATA3"),
    (Hex, "NXM_NX_TUN_METADATA4"),
    (Hex, "NXM_NX_TUN_METADATA5"),
    (Hex, "NXM_NX_TUN_METADATA6"),
    (Hex, "NXM_NX_TUN_METADATA7"),
    (Hex, ""),
    (Hex, "NXM_NX_REG0"),
    (Hex, "NXM_NX_REG1"),
    (Hex, "NXM_NX_REG2"),
    (Hex, "NXM_NX_REG3"),
    (Hex, "NXM_NX_REG4"),
    (Hex, "NXM_NX_REG5"),
    (Hex, "NXM_NX_REG6"),
    (Hex, "NXM_NX_REG7"),
    (Hex, "NXM_NX_REG8"),
    (Hex, "NXM_NX_REG9"),
    (Hex, "NXM_NX_REG10"),
    (Hex, "NXM_NX_REG11"),
    (Hex, "NXM_NX_REG12"),
    (Hex, "NXM_NX_REG13"),
    (Hex, "NXM_NX_REG14"),
    (Hex, "NXM_NX_REG15"),
    (Hex, "OXM_OF_PKT_REG0"),
    (Hex, "OXM_OF_PKT_REG1"),
    (Hex, "OXM_OF_PKT_REG2"),
    (Hex, "OXM_OF_PKT_REG3"),
    (Hex, "OXM_OF_PKT_REG4"),
    (Hex, "OXM_OF_PKT_REG5"),
    (Hex, "OXM_OF_PKT_REG6"),
    (Hex, "OXM_OF_PKT_REG7"),
    (Hex, "NXM_NX_XXREG0"),
    (Hex, "NXM_NX_XXREG1"),
    (Hex, "NXM_NX_XXREG2"),
    (Hex, "NXM_NX_XXREG3"),
    (Hex, "NXM_NX_PKT_MARK"),
    (Form::Flags(CT_STATE), "NXM_NX_CT_STATE"),
    (Hex, "NXM_NX_CT_MARK"),
    (Hex, "NXM_NX_CT_ZONE"),
    (Decimal, "NXM_NX_CT_NW_PROTO"),
    (Hex, "NXM_NX_CT_LABEL"),
    (Port, "ONFOXM_ET_ACTSET_OUTPUT OXM_OF_ACTSET_OUTPUT"),
    (Decimal, "NXM_NX_CONJ_ID"),
    (Hex, "NXM_NX_DP_HASH NXOXM_ET_DP_HASH"),
    (Decimal, "NXM_NX_RECIRC_ID"),
    (Mac, "NXM_OF_ETH_DST OXM_OF_ETH_DST dl_dst"),
    (Hex, "NXM_OF_ETH_TYPE OXM_OF_ETH_TYPE dl_type"),
    (Mac, "NXM_OF_ETH_SRC OXM_OF_ETH_SRC dl_src"),
    (Hex, "NXM_OF_VLAN_TCI"),
    (Decimal, "OXM_OF_VLAN_VID"),
    (Decimal, "OXM_OF_VLAN_PCP"),
    (Hex, "OXM_OF_PBB_ISID"),
    (Decimal, "OXM_OF_PBB_UCA"),
    (Decimal, "OXM_OF_MPLS_LABEL"),
    (Decimal, "OXM_OF_MPLS_TC"),
    (Decimal, "OXM_OF_MPLS_BOS"),
    (Decimal, "NXM_NX_MPLS_TTL"),
    (Ipv4, "NXM_OF_IP_SRC OXM_OF_IPV4_SRC ip_src"),
    (Ipv4, "NXM_OF_IP_DST OXM_OF_IPV4_DST ip_dst"),
    (Ipv4, "NXM_OF_ARP_SPA OXM_OF_ARP_SPA"),
    (Ipv4, "NXM_OF_ARP_TPA OXM_OF_ARP_TPA"),
    (Ipv6, "NXM_NX_IPV6_SRC OXM_OF_IPV6_SRC"),
    (Ipv6, "NXM_NX_IPV6_DST OXM_OF_IPV6_DST"),
    (Decimal, "NXM_OF_IP_PROTO OXM_OF_IP_PROTO ip_proto"),
    (Decimal, "OXM_OF_IP_DSCP"),
    (Decimal, "NXM_NX_IP_ECN OXM_OF_IP_ECN ip_ecn"),
    (Decimal, "NXM_NX_IP_TTL"),
    (Frag, "NXM_NX_IP_FRAG nw_frag"),
    (Hex, "NXM_NX_IPV6_LABEL OXM_OF_IPV6_FLABEL"),
    (Hex, "OXM_OF_IPV6_EXTHDR"),
    (Ipv6, "NXM_NX_ND_TARGET OXM_OF_IPV6_ND_TARGET"),
    (Mac, "NXM_NX_ARP_SHA OXM_OF_ARP_SHA"),
    (Mac, "NXM_NX_ND_SLL OXM_OF_IPV6_ND_SLL"),
    (Decimal, "NXM_OF_ARP_OP OXM_OF_ARP_OP"),
    (Mac, "NXM_NX_ARP_THA OXM_OF_ARP_THA"),
    (Mac, "NXM_NX_ND_TLL OXM_OF_IPV6_ND_TLL"),
    (Decimal, "NXM_OF_TCP_SRC OXM_OF_TCP_SRC tp_src"),
    (Decimal, "NXM_OF_TCP_DST OXM_OF_TCP_DST tp_dst"),
    (Decimal, "NXM_OF_UDP_SRC OXM_OF_UDP_SRC"),
    (Decimal, "NXM_OF_UDP_DST OXM_OF_UDP_DST"),
    (Decimal, "OXM_OF_SCTP_SRC"),
    (Decimal, "OXM_OF_SCTP_DST"),
    (Decimal, "NXM_OF_ICMP_TYPE OXM_OF_ICMPV4_TYPE"),
    (Decimal, "NXM_OF_ICMP_CODE OXM_OF_ICMPV4_CODE"),
    (Decimal, "NXM_NX_ICMPV6_TYPE OXM_OF_ICMPV6_TYPE"),
    (Decimal, "NXM_NX_ICMPV6_CODE OXM_OF_ICMPV6_CODE"),
    (Form::Flags(TCP_FLAGS), "NXM_NX_TCP_FLAGS ONFOXM_ET_TCP_FLAGS OXM_OF_TCP_FLAGS"),
    (Ipv4, "NXM_NX_CT_NW_SRC"),
    (Ipv4, "NXM_NX_CT_NW_DST"),
    (Ipv6, "NXM_NX_CT_IPV6_SRC"),
    (Ipv6, "NXM_NX_CT_IPV6_DST"),
    (Decimal, "NXM_NX_CT_TP_SRC"),
    (Decimal, "NXM_NX_CT_TP_DST"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::Class;
    use std::collections::HashSet;

    #[test]
    fn every_field_is_found_by_each_of_its_names() {
        assert_eq!(TABLE.len(), Field::ALL.len());
        let mut seen = HashSet::new();
        for field in visible() {
            for name in std::iter::once(field.info().name).chain(TABLE[field as usize].1.split(' ')) {
                if !name.is_empty() && seen.insert(name) {
                    assert_eq!(find(Piece::whole(name)).unwrap().0.field, field, "{name}");
                }
            }
        }
    }

    #[test]
    fn part_names_agree_with_the_number_spaces() {
        for &field in Field::ALL {
            let (name, info) = (named(field).part_name(), field.info());
            let prefix = match info.nxm.or(info.oxm).map(|oxm| oxm.class) {
                Some(Class::Nxm0) => "NXM_OF_",
                Some(Class::Nxm1) => "NXM_NX_",
                Some(Class::Basic) => "OXM_OF_",
                Some(Class::PacketRegs) => "OXM_OF_PKT_REG",
                Some(Class::Onf) => "ONFOXM_ET_",
                None => info.name,
            };
            assert!(name.starts_with(prefix), "{name}");
        }
    }

    #[test]
    fn the_nearest_name_is_suggested() {
        let error = find(Piece::whole("nw_scr")).unwrap_err();
        assert_eq!(error.reason, Reason::UnknownField(Some("nw_src")));
    }
}
