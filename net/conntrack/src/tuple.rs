//! Tuples: addresses, ports, protocol and zone of one direction of a connection.

use serde::{Deserialize, Serialize};
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::checksum::protocol;

/// Bit of [`Tuple::kind`] for IPv6.
const V6: u8 = 0x80;

/// One direction of a connection. IPv4 addresses are kept as mapped IPv6 addresses.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "Parts", try_from = "Parts")]
pub struct Tuple {
    source: Address,
    destination: Address,
    source_port: u16,
    destination_port: u16,
    zone: u16,
    protocol: u8,
    /// Type of an ICMP message, and [`V6`]. Types of ICMPv6 have this bit themselves.
    kind: u8,
}

/// An IPv6 address in two words: it is written and compared without bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Address {
    high: u64,
    low: u64,
}

/// A tuple in messages.
#[derive(Serialize, Deserialize)]
struct Parts {
    source: IpAddr,
    destination: IpAddr,
    ports: (u16, u16),
    zone: u16,
    protocol: u8,
    kind: u8,
}

impl From<Tuple> for Parts {
    fn from(tuple: Tuple) -> Self {
        Self {
            source: tuple.source(),
            destination: tuple.destination(),
            ports: tuple.ports(),
            zone: tuple.zone,
            protocol: tuple.protocol,
            kind: tuple.kind,
        }
    }
}

impl TryFrom<Parts> for Tuple {
    type Error = &'static str;

    fn try_from(parts: Parts) -> Result<Self, Self::Error> {
        let Parts { source, destination, ports: (from, to), zone, protocol, kind } = parts;
        let is_v6 = kind & V6 != 0;
        if source.is_ipv6() != is_v6 || destination.is_ipv6() != is_v6 {
            return Err("the addresses of a direction have different versions");
        }
        let tuple = Self::new((source, destination), protocol, zone).with_ports(from, to);
        Ok(Self { kind, ..tuple })
    }
}

/// A tuple is a third of the memory of a connection (see `connection.rs`).
const _: () = assert!(size_of::<Tuple>() == 40);

impl Tuple {
    /// A tuple without ports. Both addresses must have the same version.
    pub fn new((source, destination): (IpAddr, IpAddr), protocol: u8, zone: u16) -> Self {
        let kind = if source.is_ipv6() { V6 } else { 0 };
        let (source, destination) = (mapped(source), mapped(destination));
        Self { source, destination, source_port: 0, destination_port: 0, zone, protocol, kind }
    }

    /// The same with ports.
    #[must_use]
    pub fn with_ports(self, source_port: u16, destination_port: u16) -> Self {
        Self { source_port, destination_port, ..self }
    }

    /// The same for an ICMP request or reply with an identifier, which stands for both ports.
    #[must_use]
    pub fn with_message(self, kind: u8, id: u16) -> Self {
        Self { kind: self.kind | kind, ..self.with_ports(id, id) }
    }

    /// The same with other addresses.
    #[must_use]
    pub(crate) fn with_addresses(self, source: IpAddr, destination: IpAddr) -> Self {
        Self { source: mapped(source), destination: mapped(destination), ..self }
    }

    /// The opposite direction.
    #[must_use]
    pub fn reversed(&self) -> Self {
        Self {
            source: self.destination,
            destination: self.source,
            source_port: self.destination_port,
            destination_port: self.source_port,
            kind: self.reversed_kind(),
            ..*self
        }
    }

    /// A request for a reply, and a reply for a request.
    fn reversed_kind(&self) -> u8 {
        match (self.protocol, self.kind) {
            (protocol::ICMP, 0) => 8,
            (protocol::ICMP, 8) => 0,
            (protocol::ICMP, 13 | 15) => self.kind + 1,
            (protocol::ICMP, 14 | 16) => self.kind - 1,
            (protocol::ICMPV6, 128 | 129) => self.kind ^ 1,
            _ => self.kind,
        }
    }

    /// Whether the packets are those of IPv6.
    pub fn is_v6(&self) -> bool {
        self.kind & V6 != 0
    }

    /// Whether the other one is the opposite direction.
    #[inline]
    pub(crate) fn is_reverse_of(&self, other: &Self) -> bool {
        *self == other.reversed()
    }

    fn address(&self, Address { high, low }: Address) -> IpAddr {
        if self.is_v6() {
            Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low)).into()
        } else {
            Ipv4Addr::from_bits(low as u32).into()
        }
    }

    /// Source address.
    pub fn source(&self) -> IpAddr {
        self.address(self.source)
    }

    /// Destination address.
    pub fn destination(&self) -> IpAddr {
        self.address(self.destination)
    }

    /// Source and destination port; the identifier of ICMP for both; 0 for protocols without ports.
    pub fn ports(&self) -> (u16, u16) {
        (self.source_port, self.destination_port)
    }

    /// Zone.
    pub fn zone(&self) -> u16 {
        self.zone
    }

    /// Protocol number (IANA).
    pub fn protocol(&self) -> u8 {
        self.protocol
    }

    /// Type of the ICMP request or reply; `None` for other protocols.
    pub fn message(&self) -> Option<u8> {
        let icmp = if self.is_v6() { protocol::ICMPV6 } else { protocol::ICMP };
        (self.protocol == icmp).then_some(self.kind)
    }

    /// Whether the protocol has ports, or an identifier that can be translated as one.
    pub(crate) fn has_ports(&self) -> bool {
        matches!(self.protocol, protocol::TCP | protocol::UDP | protocol::SCTP) || self.message().is_some()
    }
}

impl std::fmt::Debug for Tuple {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { source_port, destination_port, zone, protocol, kind, .. } = self;
        let (source, destination) = (self.source(), self.destination());
        write!(f, "{source} {source_port} > {destination} {destination_port} ")?;
        write!(f, "protocol {protocol} type {kind} zone {zone}")
    }
}

#[inline]
fn mapped(address: IpAddr) -> Address {
    match address {
        IpAddr::V4(address) => Address { high: 0, low: 0xffff << 32 | u64::from(address.to_bits()) },
        IpAddr::V6(address) => {
            let bits = address.to_bits();
            Address { high: (bits >> 64) as u64, low: bits as u64 }
        }
    }
}

/// Keyed hash of tuples, so that senders cannot choose places.
pub(crate) struct Hasher([u64; 4]);

impl Hasher {
    pub(crate) fn random() -> Self {
        let random = RandomState::new();
        Self([1, 2, 3, 4].map(|i| random.hash_one(i)))
    }

    /// The same for both directions of a connection that is not translated.
    #[inline]
    pub(crate) fn hash(&self, tuple: &Tuple) -> u64 {
        // A sum: the exclusive or of equal endpoints would be 0 for all of them.
        let ends = self.end(tuple.source, tuple.source_port);
        let ends = ends.wrapping_add(self.end(tuple.destination, tuple.destination_port));
        let rest = u64::from(tuple.zone) << 16 | u64::from(tuple.protocol) << 8 | u64::from(tuple.kind & V6);
        fold(ends ^ self.0[2], rest ^ self.0[3])
    }

    #[inline]
    fn end(&self, Address { high, low }: Address, port: u16) -> u64 {
        let address = fold(high ^ self.0[0], low ^ self.0[1]);
        fold(address ^ self.0[2], u64::from(port) ^ self.0[3])
    }

    /// Another number for each `n`.
    pub(crate) fn number(&self, n: u64) -> u64 {
        fold(n ^ self.0[1], self.0[2] | 1)
    }

    /// Hash of an address.
    pub(crate) fn address(&self, tuple: &Tuple) -> u64 {
        self.end(tuple.source, 0)
    }
}

#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product >> 64) as u64 ^ product as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_tuple() -> impl Strategy<Value = Tuple> {
        let ends = prop_oneof![
            any::<(Ipv4Addr, Ipv4Addr)>().prop_map(|(a, b)| (IpAddr::V4(a), IpAddr::V4(b))),
            any::<(Ipv6Addr, Ipv6Addr)>().prop_map(|(a, b)| (IpAddr::V6(a), IpAddr::V6(b))),
        ];
        (ends, any::<(u16, u16, u16)>(), prop_oneof![Just(6_u8), Just(17), any::<u8>()])
            .prop_map(|(ends, (s, d, zone), protocol)| Tuple::new(ends, protocol, zone).with_ports(s, d))
    }

    proptest! {
        #[test]
        fn both_directions_have_one_hash(tuple in any_tuple()) {
            let hasher = Hasher::random();
            prop_assert_eq!(tuple.reversed().reversed(), tuple);
            prop_assert_eq!(hasher.hash(&tuple), hasher.hash(&tuple.reversed()));
            prop_assert_eq!(tuple.source(), tuple.reversed().destination());
        }
    }

    #[test]
    fn a_request_reverses_to_its_reply() {
        let v4 = Tuple::new((IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2])), 1, 0);
        for (request, reply) in [(8, 0), (13, 14), (15, 16)] {
            let tuple = v4.with_message(request, 7);
            assert_eq!(tuple.reversed().message(), Some(reply));
            assert_eq!(tuple.reversed().reversed(), tuple);
        }
        let v6 = Tuple::new((Ipv6Addr::LOCALHOST.into(), Ipv6Addr::UNSPECIFIED.into()), 58, 0);
        assert_eq!(v6.with_message(128, 7).reversed().message(), Some(129));
    }

    #[test]
    fn equal_endpoints_have_different_hashes() {
        let hasher = Hasher::random();
        let land = |n: u8| {
            let address = IpAddr::from([10, 0, 0, n]);
            hasher.hash(&Tuple::new((address, address), 17, 0).with_ports(9, 9))
        };
        assert_ne!(land(1), land(2));
    }
}
