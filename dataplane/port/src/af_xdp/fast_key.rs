//! Keys of the kernel fast path, and their form in its maps.

use super::fast_program::{DESTINATION, ETHERTYPE, KEY, PROTOCOL, SOURCE, TRAFFIC_CLASS, TRANSPORT_PORTS};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::{EtherType, MacAddress};

/// A pair of stations, and the slot of the port at which frames from the first to the second arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pair {
    /// Slot of the ingress port.
    pub slot: u32,
    /// Source address.
    pub source: MacAddress,
    /// Destination address.
    pub destination: MacAddress,
}

/// A flow of TCP or UDP packets: what all of them have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Headers {
    /// Source address.
    pub source: IpAddr,
    /// Destination address, of the same version.
    pub destination: IpAddr,
    /// Protocol: 6 or 17.
    pub protocol: u8,
    /// Type of service, or traffic class.
    pub traffic_class: u8,
    /// Source and destination port.
    pub ports: (u16, u16),
}

/// Key of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FastKey {
    /// Stations.
    pub pair: Pair,
    /// A flow between them; `None` for all untagged frames.
    pub headers: Option<Headers>,
}

impl From<Pair> for FastKey {
    fn from(pair: Pair) -> Self {
        Self { pair, headers: None }
    }
}

/// The key in the map.
pub(super) fn encode(FastKey { pair, headers }: &FastKey) -> [u8; KEY] {
    let mut key = [0; KEY];
    let mut put = |at: u8, value: &[u8]| key[usize::from(at)..][..value.len()].copy_from_slice(value);
    put(0, &pair.destination.octets());
    put(6, &pair.source.octets());
    put(12, &pair.slot.to_ne_bytes());
    let Some(headers) = headers else { return key };
    for (at, address) in [(SOURCE, headers.source), (DESTINATION, headers.destination)] {
        match address {
            IpAddr::V4(address) => put(at, &address.octets()),
            IpAddr::V6(address) => put(at, &address.octets()),
        }
    }
    let ethertype = if headers.source.is_ipv4() { EtherType::IPV4 } else { EtherType::IPV6 };
    put(TRANSPORT_PORTS, &headers.ports.0.to_be_bytes());
    put(TRANSPORT_PORTS + 2, &headers.ports.1.to_be_bytes());
    put(PROTOCOL, &[headers.protocol]);
    put(TRAFFIC_CLASS, &[headers.traffic_class]);
    put(ETHERTYPE, &ethertype.0.to_be_bytes());
    key
}

/// The key of a frame. Without an EtherType, the program found no flow in it.
pub(super) fn decode(key: &[u8; KEY]) -> FastKey {
    let address = |at: u8| MacAddress::new(part(key, at));
    let slot = u32::from_ne_bytes(part(key, 12));
    let pair = Pair { slot, source: address(6), destination: address(0) };
    let number = |at: u8| u16::from_be_bytes(part(key, at));
    let ip = |at: u8| match EtherType(number(ETHERTYPE)) {
        EtherType::IPV4 => Some(Ipv4Addr::from(part::<4>(key, at)).into()),
        EtherType::IPV6 => Some(Ipv6Addr::from(part::<16>(key, at)).into()),
        _ => None,
    };
    let headers = ip(SOURCE).zip(ip(DESTINATION)).map(|(source, destination)| Headers {
        source,
        destination,
        protocol: key[usize::from(PROTOCOL)],
        traffic_class: key[usize::from(TRAFFIC_CLASS)],
        ports: (number(TRANSPORT_PORTS), number(TRANSPORT_PORTS + 2)),
    });
    FastKey { pair, headers }
}

fn part<const N: usize>(key: &[u8; KEY], at: u8) -> [u8; N] {
    std::array::from_fn(|i| key[usize::from(at) + i])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mac(last: u8) -> MacAddress {
        MacAddress::new([2, 0, 0, 0, 0, last])
    }

    #[test]
    fn keys_round_trip() {
        let pair = Pair { slot: 7, source: mac(1), destination: mac(2) };
        assert_eq!(decode(&encode(&pair.into())), pair.into());
        for (source, destination) in [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")] {
            let (source, destination) = (source.parse().unwrap(), destination.parse().unwrap());
            let headers =
                Headers { source, destination, protocol: 17, traffic_class: 0xb8, ports: (1, 0xfffe) };
            let key = FastKey { pair, headers: Some(headers) };
            assert_eq!(decode(&encode(&key)), key);
        }
    }
}
