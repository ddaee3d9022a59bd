//! The packet of a trace: a key that was made up, or a frame.

use crate::field::Field;
use crate::key::Key;
use crate::matching::Match;
use crate::modify::PortNo;
use crate::packet::parse;
use conntrack::{Examined, State, Tuple};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::checksum::protocol;

/// Time to live of a made-up IP packet that states none.
const TTL: u128 = 64;

/// A synthetic packet without an ingress port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`in_port` is missing")]
pub struct MissingPort;

/// A packet to trace.
#[derive(Clone, Debug)]
pub struct TracedPacket {
    pub(super) key: Key,
    /// The head and the length of the frame, if there is one.
    pub(super) frame: Option<(Vec<u8>, usize)>,
    /// Its last connection state.
    pub(super) state: State,
}

impl TracedPacket {
    /// A packet with the values of a match. Fields that it does not have are 0, except that the time to live of an IP
    /// packet is 64. Fields that removed headers uncover are 0 as well.
    ///
    /// # Errors
    /// If the match does not have the ingress port.
    pub fn from_match(found: &Match) -> Result<Self, MissingPort> {
        let in_port = found.exact(Field::InPort).ok_or(MissingPort)?;
        let mut key = *found.key();
        key.set(Field::InPhyPort, in_port);
        if crate::Prerequisite::Ip.holds(found) && found.mask().get(Field::IpTtl) == 0 {
            key.set(Field::IpTtl, TTL);
        }
        Ok(Self { key, frame: None, state: State::default() })
    }

    /// A frame of `len` bytes that begins with `head`, received on `in_port`.
    pub fn from_frame(head: &[u8], len: usize, in_port: PortNo) -> Self {
        let mut key = Key::ZERO;
        key.set(Field::InPort, in_port.0.into());
        key.set(Field::InPhyPort, in_port.0.into());
        parse(head, len, &mut key);
        Self { key, frame: Some((head.to_vec(), len)), state: State::default() }
    }
}

/// What connection tracking examines of a synthetic packet. ICMP messages have the identifier 0.
pub(super) fn examined(key: &Key, zone: u16) -> Examined<'static> {
    let ends: (IpAddr, IpAddr) = match key.get(Field::EthType) {
        0x0800 => {
            let address = |field| Ipv4Addr::from_bits(key.get(field) as u32).into();
            (address(Field::Ipv4Src), address(Field::Ipv4Dst))
        }
        0x86dd => {
            let address = |field| Ipv6Addr::from_bits(key.get(field)).into();
            (address(Field::Ipv6Src), address(Field::Ipv6Dst))
        }
        _ => return Examined::Head(&[]),
    };
    let tuple = Tuple::new(ends, key.get(Field::IpProto) as u8, zone);
    let kind = if tuple.is_v6() { Field::Icmpv6Type } else { Field::IcmpType };
    Examined::Tuple(match ports(&tuple) {
        Some([source, destination]) => tuple.with_ports(key.get(source) as u16, key.get(destination) as u16),
        None if tuple.message().is_some() => tuple.with_message(key.get(kind) as u8, 0),
        None => tuple,
    })
}

/// Gives a synthetic packet translated addresses and ports.
pub(super) fn translate(key: &mut Key, tuple: &Tuple) {
    match (tuple.source(), tuple.destination()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            key.set(Field::Ipv4Src, source.to_bits().into());
            key.set(Field::Ipv4Dst, destination.to_bits().into());
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            key.set(Field::Ipv6Src, source.to_bits());
            key.set(Field::Ipv6Dst, destination.to_bits());
        }
        _ => {}
    }
    if let Some([source, destination]) = ports(tuple) {
        key.set(source, tuple.ports().0.into());
        key.set(destination, tuple.ports().1.into());
    }
}

/// The fields of its ports, if its protocol has them.
fn ports(tuple: &Tuple) -> Option<[Field; 2]> {
    match tuple.protocol() {
        protocol::TCP => Some([Field::TcpSrc, Field::TcpDst]),
        protocol::UDP => Some([Field::UdpSrc, Field::UdpDst]),
        protocol::SCTP => Some([Field::SctpSrc, Field::SctpDst]),
        _ => None,
    }
}
