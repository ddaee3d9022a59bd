//! Rules for frames passed to the kernel: parsed from text such as `arp` or `tcp 22`.

use crate::Remedy;
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// Matches frames that the port passes to the kernel, and thereby to other programs on the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// Frames of this EtherType, after up to two VLAN tags.
    EtherType(u16),
    /// IPv4 with this protocol, or IPv6 with this next header.
    Protocol(u8),
    /// TCP or UDP to this destination port. IPv4: unfragmented packets and first fragments. IPv6: without extension
    /// headers.
    Port {
        /// IP protocol: 6 (TCP) or 17 (UDP).
        protocol: u8,
        /// Destination port.
        port: u16,
    },
}

/// Text that is not a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a valid rule")]
pub struct BadRule(pub String);

impl Remedy for BadRule {
    fn remedy(&self) -> Option<Cow<'static, str>> {
        let remedy = "write arp, lldp, icmp, icmpv6, \"ethertype 0x88cc\", \"tcp 22\" or \"udp 67\" (a destination port)";
        Some(remedy.into())
    }
}

pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
const ARP: u16 = 0x0806;
const LLDP: u16 = 0x88cc;
/// Lowest EtherType; smaller values are lengths (IEEE 802.3 clause 3.2.6).
const FIRST_TYPE: u16 = 0x0600;

impl FromStr for Rule {
    type Err = BadRule;

    fn from_str(text: &str) -> Result<Self, BadRule> {
        let bad = || BadRule(text.to_owned());
        let words: Vec<_> = text.split_whitespace().collect();
        let rule = match words[..] {
            ["arp"] => Self::EtherType(ARP),
            ["lldp"] => Self::EtherType(LLDP),
            ["icmp"] => Self::Protocol(ICMP),
            ["icmpv6"] => Self::Protocol(ICMPV6),
            ["ethertype", number] => Self::EtherType(ethertype(number).ok_or_else(bad)?),
            ["tcp", port] => Self::Port { protocol: TCP, port: number(port).ok_or_else(bad)? },
            ["udp", port] => Self::Port { protocol: UDP, port: number(port).ok_or_else(bad)? },
            _ => return Err(bad()),
        };
        Ok(rule)
    }
}

fn number(text: &str) -> Option<u16> {
    text.parse().ok().filter(|&port| port > 0)
}

fn ethertype(text: &str) -> Option<u16> {
    let number = match text.strip_prefix("0x") {
        Some(hexadecimal) => u16::from_str_radix(hexadecimal, 16).ok(),
        None => text.parse().ok(),
    };
    number.filter(|&number| number >= FIRST_TYPE)
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::EtherType(ARP) => f.write_str("arp"),
            Self::EtherType(LLDP) => f.write_str("lldp"),
            Self::EtherType(number) => write!(f, "ethertype {number:#06x}"),
            Self::Protocol(ICMPV6) => f.write_str("icmpv6"),
            Self::Protocol(_) => f.write_str("icmp"),
            Self::Port { protocol: TCP, port } => write!(f, "tcp {port}"),
            Self::Port { port, .. } => write!(f, "udp {port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_round_trip_as_text() {
        for text in ["arp", "lldp", "icmp", "icmpv6", "ethertype 0x88f7", "tcp 22", "udp 67"] {
            let rule: Rule = text.parse().unwrap();
            assert_eq!(rule.to_string(), text);
        }
        assert_eq!("ethertype 0x88cc".parse(), Ok(Rule::EtherType(LLDP)));
        assert_eq!("ethertype 2054".parse(), Ok(Rule::EtherType(ARP)));
    }

    #[test]
    fn invalid_rule_is_rejected_with_its_text() {
        for bad in
            ["", "arpa", "tcp", "tcp 0", "tcp 65536", "tcp ssh", "udp -1", "ethertype 0x05ff", "ethertype x"]
        {
            assert_eq!(bad.parse::<Rule>(), Err(BadRule(bad.to_owned())));
        }
    }
}
