//! Addresses: both IP versions in one representation.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// An IPv4 or IPv6 address. IPv4 addresses are stored as IPv4-mapped IPv6 addresses (RFC 4291 section 2.5.5.2), so that
/// tables have one key type.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Address([u8; 16]);

impl Address {
    /// The unspecified address.
    pub const UNSPECIFIED: Self = Self([0; 16]);

    /// From octets in network byte order.
    #[inline]
    pub const fn v4(o: [u8; 4]) -> Self {
        Self([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, o[0], o[1], o[2], o[3]])
    }

    /// From octets in network byte order.
    #[inline]
    pub const fn v6(octets: [u8; 16]) -> Self {
        Self(octets)
    }

    /// Whether it is an IPv4 address.
    #[inline]
    pub const fn is_v4(&self) -> bool {
        u128::from_be_bytes(self.0) >> 32 == 0xffff
    }

    /// The octets as in the IPv6 header.
    #[inline]
    pub const fn octets(&self) -> &[u8; 16] {
        &self.0
    }

    /// The octets as in the header of its version: 4 or 16.
    #[inline]
    pub fn wire(&self) -> &[u8] {
        if self.is_v4() { &self.0[12..] } else { &self.0 }
    }

    /// The last four octets, which are the IPv4 address if [`Address::is_v4`].
    #[inline]
    pub const fn last4(&self) -> [u8; 4] {
        let [.., a, b, c, d] = self.0;
        [a, b, c, d]
    }

    /// As an address of the standard library.
    pub fn ip(&self) -> IpAddr {
        if self.is_v4() { Ipv4Addr::from(self.last4()).into() } else { Ipv6Addr::from(self.0).into() }
    }

    /// Whether it is 0.0.0.0 or ::.
    pub fn is_unspecified(&self) -> bool {
        self.ip().is_unspecified()
    }

    /// Whether it is a multicast address.
    pub fn is_multicast(&self) -> bool {
        self.ip().is_multicast()
    }

    /// Whether it is 255.255.255.255.
    pub fn is_broadcast(&self) -> bool {
        self.is_v4() && self.last4() == [255; 4]
    }

    /// Whether it is a loopback address.
    pub fn is_loopback(&self) -> bool {
        self.ip().is_loopback()
    }
}

impl From<IpAddr> for Address {
    fn from(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(v4) => Self::v4(v4.octets()),
            IpAddr::V6(v6) => Self::v6(v6.octets()),
        }
    }
}

impl From<Ipv4Addr> for Address {
    fn from(address: Ipv4Addr) -> Self {
        Self::v4(address.octets())
    }
}

impl From<Ipv6Addr> for Address {
    fn from(address: Ipv6Addr) -> Self {
        Self::v6(address.octets())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.ip(), f)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// An address with a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Endpoint {
    /// Address.
    pub address: Address,
    /// Port.
    pub port: u16,
}

impl Endpoint {
    /// An address with a port.
    pub const fn new(address: Address, port: u16) -> Self {
        Self { address, port }
    }
}

impl From<SocketAddr> for Endpoint {
    fn from(socket: SocketAddr) -> Self {
        Self::new(socket.ip().into(), socket.port())
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        SocketAddr::new(self.address.ip(), self.port).fmt(f)
    }
}

/// An address with the length of its network's prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cidr {
    /// Address.
    pub address: Address,
    /// Prefix length in bits: 0 to 32 for IPv4, 0 to 128 for IPv6.
    pub prefix: u8,
}

impl Cidr {
    /// Returns `None` if the prefix is longer than the address.
    pub fn new(address: Address, prefix: u8) -> Option<Self> {
        (prefix <= if address.is_v4() { 32 } else { 128 }).then_some(Self { address, prefix })
    }

    /// Whether the network contains `address`, which must be of the same version.
    pub fn contains(&self, address: Address) -> bool {
        let bits = u32::from(self.prefix) + if self.address.is_v4() { 96 } else { 0 };
        let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
        let word = |address: &Address| u128::from_be_bytes(*address.octets());
        self.address.is_v4() == address.is_v4() && (word(&self.address) ^ word(&address)) & mask == 0
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

/// Text is not an address with a prefix length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected an address with a prefix length, such as 10.9.0.2/24 or fd00::2/64")]
pub struct ParseCidrError;

impl core::str::FromStr for Cidr {
    type Err = ParseCidrError;

    fn from_str(text: &str) -> Result<Self, ParseCidrError> {
        let (address, prefix) = text.split_once('/').ok_or(ParseCidrError)?;
        let address: IpAddr = address.parse().map_err(|_| ParseCidrError)?;
        let prefix = prefix.parse().map_err(|_| ParseCidrError)?;
        Self::new(address.into(), prefix).ok_or(ParseCidrError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn networks_contain_addresses_of_their_version() {
        let net: Cidr = "10.9.0.2/24".parse().unwrap();
        let has = |text: &str| net.contains(text.parse::<IpAddr>().unwrap().into());
        assert!(has("10.9.0.255") && !has("10.9.1.2") && !has("::ffff:0:10.9.0.2"));
        let all: Cidr = "::/0".parse().unwrap();
        assert!(all.contains("fe80::1".parse::<IpAddr>().unwrap().into()) && !all.contains(net.address));
        assert_eq!(net.to_string(), "10.9.0.2/24");
        assert!("10.9.0.2/33".parse::<Cidr>().is_err() && "10.9.0.2".parse::<Cidr>().is_err());
    }
}
