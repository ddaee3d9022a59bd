//! Kinds of tunnels.

use std::fmt;
use std::str::FromStr;

/// Ethernet frames as the payload of GRE and Geneve (IEEE 802, "Transparent Ethernet Bridging").
pub(crate) const ETHERNET: u16 = 0x6558;
/// Mirrored Ethernet frames as the payload of GRE (ERSPAN type II, draft-foschiano-erspan-03 section 4.2).
pub(crate) const ERSPAN: u16 = 0x88be;
/// IP protocol number of IPv4 packets in IP (RFC 2003).
pub(crate) const IPV4: u8 = 4;
/// IP protocol number of UDP.
pub(crate) const UDP: u8 = 17;
/// IP protocol number of IPv6 packets in IP (RFC 4213).
pub(crate) const IPV6: u8 = 41;
/// IP protocol number of GRE.
pub(crate) const GRE: u8 = 47;

/// Kind of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Ethernet frames in UDP (RFC 7348).
    Vxlan,
    /// Ethernet frames in UDP, with options (RFC 8926).
    Geneve,
    /// Ethernet frames in GRE (RFC 2784 and 2890).
    Gre,
    /// Ethernet frames in GRE with a virtual subnet (RFC 7637).
    Nvgre,
    /// Mirrored Ethernet frames in GRE (ERSPAN type II, draft-foschiano-erspan-03).
    Erspan,
    /// IP packets in IP (RFC 2003, 2473 and 4213).
    Ipip,
    /// IP packets of mobile networks in UDP (3GPP TS 29.281, G-PDU).
    Gtpu,
}

/// Not a kind of tunnel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a kind of tunnel: expected vxlan, geneve, gre, nvgre, erspan, ipip or gtpu")]
pub struct UnknownKind(pub String);

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 7] =
        [Self::Vxlan, Self::Geneve, Self::Gre, Self::Nvgre, Self::Erspan, Self::Ipip, Self::Gtpu];

    /// Name in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vxlan => "vxlan",
            Self::Geneve => "geneve",
            Self::Gre => "gre",
            Self::Nvgre => "nvgre",
            Self::Erspan => "erspan",
            Self::Ipip => "ipip",
            Self::Gtpu => "gtpu",
        }
    }

    /// UDP destination port assigned by IANA; `None` for tunnels without UDP.
    pub const fn port(self) -> Option<u16> {
        match self {
            Self::Vxlan => Some(4789),
            Self::Geneve => Some(6081),
            Self::Gtpu => Some(2152),
            Self::Gre | Self::Nvgre | Self::Erspan | Self::Ipip => None,
        }
    }

    /// Number of bits of the key: VNI, VSID, GRE key, session or TEID; 0 if the header has none.
    pub const fn key_bits(self) -> u32 {
        match self {
            Self::Vxlan | Self::Geneve | Self::Nvgre => 24,
            Self::Gre | Self::Gtpu => 32,
            Self::Erspan => 10,
            Self::Ipip => 0,
        }
    }

    /// Whether a header without a key exists.
    pub const fn may_lack_key(self) -> bool {
        matches!(self, Self::Gre | Self::Ipip)
    }

    /// Whether the payload is Ethernet frames; otherwise it is IP packets.
    pub const fn is_ethernet(self) -> bool {
        !matches!(self, Self::Ipip | Self::Gtpu)
    }

    /// Bytes of the header between the outer IP header and the payload, without options of Geneve.
    pub const fn header_len(self, has_key: bool) -> usize {
        match self {
            Self::Vxlan | Self::Geneve | Self::Erspan | Self::Gtpu => 16,
            Self::Nvgre => 8,
            Self::Gre => {
                if has_key {
                    8
                } else {
                    4
                }
            }
            Self::Ipip => 0,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(text: &str) -> Result<Self, UnknownKind> {
        Self::ALL.into_iter().find(|kind| kind.name() == text).ok_or_else(|| UnknownKind(text.to_owned()))
    }
}
