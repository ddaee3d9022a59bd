//! Selection of addresses and ports for translated connections.
//!
//! The reply direction of a new connection gets the translated address and a port with which no other connection is
//! found. The number of ports that are tried is bounded; if none is free, the connection is refused.

use crate::config::PORT_ATTEMPTS;
use crate::tuple::Tuple;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// Which addresses of a connection are translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// The source of the original direction.
    Source,
    /// The destination of the original direction.
    Destination,
}

/// Translation of a packet, and of the connection that it begins (ovs-actions(7), `ct(nat(...))`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Nat {
    /// Translation in a new connection; `None` for none.
    pub direction: Option<Direction>,
    /// First and last address; `None`, or the unspecified address, keeps the address.
    pub addresses: Option<(IpAddr, IpAddr)>,
    /// First and last port; `None` keeps the port, unless it is in use.
    pub ports: Option<(u16, u16)>,
    /// Whether ports are selected at random. By default, they are selected by a hash of the connection.
    pub is_random: bool,
    /// Whether all connections of a client get the same address.
    pub is_persistent: bool,
}

/// Numbers by which addresses and ports are selected.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbers {
    pub(crate) address: u64,
    pub(crate) port: u64,
    pub(crate) random: u64,
}

/// Reply directions for a new connection, in the order in which they are tried. None if the addresses are of another IP
/// version.
pub(crate) fn candidates(
    tuple: &Tuple,
    nat: &Nat,
    direction: Direction,
    numbers: Numbers,
) -> impl Iterator<Item = Tuple> {
    let reply = translated(tuple, nat, direction, numbers.address);
    let pairs = ports(tuple, nat, direction, numbers);
    reply.into_iter().flat_map(move |reply| pairs.clone().map(move |(from, to)| reply.with_ports(from, to)))
}

fn translated(tuple: &Tuple, nat: &Nat, direction: Direction, number: u64) -> Option<Tuple> {
    let reply = tuple.reversed();
    let addresses = nat.addresses.filter(|(first, _)| !first.is_unspecified());
    let Some((first, last)) = addresses else { return Some(reply) };
    let address = select(first, last, number).filter(|address| address.is_ipv6() == tuple.is_v6())?;
    Some(match direction {
        Direction::Source => reply.with_addresses(reply.source(), address),
        Direction::Destination => reply.with_addresses(address, reply.destination()),
    })
}

/// An address of a range.
fn select(first: IpAddr, last: IpAddr, number: u64) -> Option<IpAddr> {
    match (first, last) {
        (IpAddr::V4(first), IpAddr::V4(last)) => {
            let (first, last) = (first.to_bits(), last.to_bits());
            let n = u64::from(last.checked_sub(first)?) + 1;
            Some(std::net::Ipv4Addr::from_bits(first + (number % n) as u32).into())
        }
        (IpAddr::V6(first), IpAddr::V6(last)) => {
            let (first, last) = (first.to_bits(), last.to_bits());
            let n = last.checked_sub(first)?.saturating_add(1);
            Some(std::net::Ipv6Addr::from_bits(first + u128::from(number) % n).into())
        }
        _ => None,
    }
}

/// Source and destination ports of the reply direction.
fn ports(
    tuple: &Tuple,
    nat: &Nat,
    direction: Direction,
    numbers: Numbers,
) -> impl Iterator<Item = (u16, u16)> + Clone {
    let (source, destination) = tuple.ports();
    let (has_ports, is_icmp) = (tuple.has_ports(), tuple.message().is_some());
    let range = nat.ports.map(|(first, last)| (first.max(1), last));
    let range = range.filter(|(first, last)| has_ports && first <= last);
    let number = if nat.is_random { numbers.random } else { numbers.port };
    let servers = range.filter(|_| direction == Direction::Destination && !is_icmp);
    let server = servers.map_or(destination, |range| pick(range, number));
    let clients = range.filter(|_| direction == Direction::Source);
    let client = clients.map_or(source, |range| pick(range, number));
    let clients = sequence(client, clients.unwrap_or_else(|| class(source)), numbers.random);
    let servers = servers.into_iter().flat_map(move |range| sequence(server, range, numbers.random));
    let pairs =
        servers.map(move |server| (server, source)).chain(clients.map(move |client| (server, client)));
    let pairs = pairs.map(move |(server, client)| if is_icmp { (client, client) } else { (server, client) });
    pairs.take(if has_ports { usize::MAX } else { 1 })
}

/// A port of a range.
fn pick((first, last): (u16, u16), number: u64) -> u16 {
    first + (number % (u64::from(last - first) + 1)) as u16
}

/// Ports among which a port is replaced, as in Linux: those of privileged programs stay privileged.
fn class(port: u16) -> (u16, u16) {
    match port {
        0..512 => (1, 511),
        512..1024 => (600, 1023),
        _ => (1024, 65535),
    }
}

/// A port, those after it in a range, and those after a random one.
fn sequence(first: u16, range: (u16, u16), random: u64) -> impl Iterator<Item = u16> + Clone {
    let (ordered, others) = PORT_ATTEMPTS;
    let n = u32::from(range.1 - range.0) + 1;
    let others = if n > ordered { others } else { 0 };
    let at = move |start: u32, i: u32| range.0 + ((start + i) % n) as u16;
    let (start, random) = (u32::from(first.saturating_sub(range.0)), (random >> 32) as u32 % n);
    let ordered = (0..n.min(ordered)).map(move |i| at(start, i));
    std::iter::once(first).chain(ordered).chain((0..others).map(move |i| at(random, i)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NUMBERS: Numbers = Numbers { address: 1, port: 2, random: 3 << 32 };

    fn tuple(protocol: u8) -> Tuple {
        Tuple::new(([10, 0, 0, 1].into(), [10, 0, 0, 2].into()), protocol, 0)
    }

    fn all(tuple: &Tuple, nat: &Nat) -> Vec<Tuple> {
        candidates(tuple, nat, nat.direction.unwrap(), NUMBERS).collect()
    }

    #[test]
    fn a_source_keeps_its_port_if_it_is_free() {
        let addresses = Some(([192, 0, 2, 1].into(), [192, 0, 2, 4].into()));
        let nat = Nat { direction: Some(Direction::Source), addresses, ..Nat::default() };
        let found = all(&tuple(6).with_ports(5000, 80), &nat);
        assert_eq!(found[0].destination(), IpAddr::from([192, 0, 2, 2]));
        assert_eq!((found[0].ports(), found[2].ports()), ((80, 5000), (80, 5001)));
        assert!(found.len() <= 1 + 128 + 64);
        assert_eq!(all(&tuple(47), &nat).len(), 1, "without ports");
    }

    #[test]
    fn a_destination_gets_ports_of_the_range_and_then_the_source_changes() {
        let nat = Nat { direction: Some(Direction::Destination), ports: Some((80, 81)), ..Nat::default() };
        let found = all(&tuple(17).with_ports(5000, 53), &nat);
        let ports: Vec<_> = found.iter().map(Tuple::ports).collect();
        assert_eq!(ports[..3], [(80, 5000), (80, 5000), (81, 5000)]);
        assert_eq!(ports[4], (80, 5000));
        assert_eq!(ports[5], (80, 5001));
    }

    #[test]
    fn addresses_of_another_version_do_not_fit() {
        let address = std::net::Ipv6Addr::LOCALHOST.into();
        let nat = Nat { addresses: Some((address, address)), ..Nat::default() };
        assert_eq!(candidates(&tuple(6), &nat, Direction::Source, NUMBERS).count(), 0);
    }

    proptest! {
        #[test]
        fn addresses_and_ports_are_in_their_ranges(
            (a, b) in any::<(u32, u32)>(),
            (p, q) in (1..=u16::MAX, 1..=u16::MAX),
            (address, port, random) in any::<(u64, u64, u64)>(),
        ) {
            let addresses = (a.min(b), a.max(b));
            let ends = [addresses.0, addresses.1].map(|bits| IpAddr::V4(bits.into()));
            let ports = (p.min(q), p.max(q));
            let nat = Nat { addresses: Some((ends[0], ends[1])), ports: Some(ports), ..Nat::default() };
            let numbers = Numbers { address, port, random };
            for found in candidates(&tuple(6).with_ports(7, 8), &nat, Direction::Source, numbers) {
                prop_assert!((ends[0]..=ends[1]).contains(&found.destination()));
                prop_assert!((ports.0..=ports.1).contains(&found.ports().1));
                prop_assert_eq!((found.source(), found.ports().0), (IpAddr::from([10, 0, 0, 2]), 8));
            }
        }
    }
}
