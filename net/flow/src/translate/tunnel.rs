//! Tunnels, and packets for the addresses of a bridge itself.
//!
//! Outer headers are prepared once for all packets of a translation. They are translated on the bridge of the underlay
//! as well, as a packet of that bridge itself, so that a cached result has everything from the inner headers to the
//! port.

use super::operation::{Encapsulation, Operation};
use super::pipeline::{Progress, Translator};
use super::record::Recorder;
use super::{Environment, Local, Translation};
use crate::field::{Field, frag};
use crate::key::Key;
use crate::modify::PortNo;
use crate::packet::parse;
use ::tunnel::{Inner, Kind, MAX_HEADER, Outer, Path, TTL, Template, Tunnel, Unreachable};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::MacAddress;
use wire::checksum::protocol;

/// Length of the payload of which outer headers are translated.
const PAYLOAD: usize = 64;
/// Flag of `tun_flags`: a packet of operation and maintenance.
const OAM: u128 = 1;

/// Contents of the header of a tunnel.
struct Contents<'a> {
    tunnel: &'a Tunnel,
    key: Option<u32>,
    is_oam: bool,
    /// Options of Geneve.
    options: Vec<u8>,
}

impl<E: Environment, R: Recorder> Translator<'_, E, R> {
    /// Sends to a port.
    pub(super) fn send_to(&mut self, port: PortNo) -> Progress {
        let environment = self.environment;
        if let Some(tunnel) = environment.tunnel(port) {
            return self.encapsulate(port, tunnel);
        }
        match environment.local().filter(|_| port == PortNo::LOCAL) {
            Some(local) => self.deliver(&local),
            None => self.send(Operation::Output(port)),
        }
    }

    /// Sends to several ports by `operation`, to the tunnels among them, and to the bridge itself.
    pub(super) fn flood(&mut self, operation: Operation, in_port: PortNo) -> Progress {
        let environment = self.environment;
        let tunnels = environment.tunnels(matches!(operation, Operation::Flood { .. }));
        self.send(operation)?;
        for port in tunnels.into_iter().filter(|port| *port != in_port) {
            self.send_to(port)?;
        }
        match environment.local().filter(|_| in_port != PortNo::LOCAL) {
            Some(local) if self.concerns(&local)? => self.deliver(&local),
            _ => Ok(()),
        }
    }

    /// Forwards as a learning bridge, and to the bridge itself.
    pub(super) fn normal(&mut self, in_port: PortNo) -> Progress {
        let environment = self.environment;
        let Some(local) = environment.local() else { return self.send(Operation::Normal { in_port }) };
        let destination = self.destination()?;
        if in_port == PortNo::LOCAL {
            let known = local.paths.port(local.bridge, destination);
            let operation =
                known.map_or(Operation::Normal { in_port }, |port| Operation::Output(PortNo(port)));
            return self.send(operation);
        }
        if destination == local.interface.mac {
            return self.deliver(&local);
        }
        self.send(Operation::Normal { in_port })?;
        if self.concerns(&local)? { self.deliver(&local) } else { Ok(()) }
    }

    fn destination(&mut self) -> Progress<MacAddress> {
        let bits = self.value(Field::EthDst)? as u64;
        Ok(MacAddress::from_u64(bits))
    }

    /// Whether a flooded packet concerns the bridge itself: it is sent to the address of the bridge, or ARP or ICMPv6
    /// to a group.
    fn concerns(&mut self, local: &Local<'_>) -> Progress<bool> {
        let destination = self.destination()?;
        if !destination.is_group() {
            return Ok(destination == local.interface.mac);
        }
        let kind = self.value(Field::EthType)?;
        Ok(kind == 0x0806 || kind == 0x86dd && self.value(Field::IpProto)? == protocol::ICMPV6.into())
    }

    /// Delivers to the bridge itself: to a tunnel that ends there, or to its addresses.
    fn deliver(&mut self, local: &Local<'_>) -> Progress {
        let terminated = self.terminated(local)?;
        self.send(terminated.map_or(Operation::Local, |(kind, port)| Operation::Decapsulate { kind, port }))
    }

    /// The kind and port of the tunnels that receive the packet.
    fn terminated(&mut self, local: &Local<'_>) -> Progress<Option<(Kind, u16)>> {
        let destination: IpAddr = match self.value(Field::EthType)? {
            0x0800 => Ipv4Addr::from_bits(self.value(Field::Ipv4Dst)? as u32).into(),
            0x86dd => Ipv6Addr::from_bits(self.value(Field::Ipv6Dst)?).into(),
            _ => return Ok(None),
        };
        if !local.interface.has(destination) || self.read(Field::IpFrag, frag::ANY.into())? != 0 {
            return Ok(None);
        }
        let number = self.value(Field::IpProto)? as u8;
        let port = if number == protocol::UDP { self.value(Field::UdpDst)? as u16 } else { 0 };
        Ok(local.tunnels.kind(number, port).map(|kind| (kind, port)))
    }

    fn encapsulate(&mut self, port: PortNo, tunnel: &Tunnel) -> Progress {
        let ends = self.ends(tunnel)?;
        let key = match tunnel.key {
            ::tunnel::Key::None => (!tunnel.kind.may_lack_key()).then_some(0),
            ::tunnel::Key::Fixed(key) => Some(key),
            ::tunnel::Key::Flow => {
                let bits = u64::MAX >> (64 - tunnel.kind.key_bits().max(1));
                Some((self.value(Field::TunnelId)? as u64 & bits) as u32)
            }
        };
        let is_geneve = tunnel.kind == Kind::Geneve;
        let is_oam = is_geneve && self.read(Field::TunFlags, OAM)? != 0;
        let options = if is_geneve { self.options()? } else { Vec::new() };
        let found = ends.ok_or(Unreachable::NoRoute);
        let path = found.and_then(|(source, to)| Ok((to, self.environment.path(source, to)?)));
        let operation = match path {
            Ok((to, path)) => self.prepare(port, &Contents { tunnel, key, is_oam, options }, (to, &path)),
            Err(error) => Operation::Unreachable(error),
        };
        self.send(operation)
    }

    /// The options that the packet carries.
    fn options(&mut self) -> Progress<Vec<u8>> {
        let map = *self.tables.options();
        if map.is_empty() {
            return Ok(Vec::new());
        }
        let present = self.value(Field::TunOptions)?;
        for (n, _) in map.iter().filter(|(n, _)| present >> n & 1 != 0) {
            if let Some(field) = Field::of_option(n) {
                self.value(field)?;
            }
        }
        Ok(map.write(present, |field| self.state.key.get(field)))
    }

    /// Source, if it is given, and destination of the outer header.
    fn ends(&mut self, tunnel: &Tunnel) -> Progress<Option<(Option<IpAddr>, IpAddr)>> {
        if let Some(remote) = tunnel.remote {
            return Ok(Some((tunnel.local, remote)));
        }
        let destination = match v4(self.value(Field::TunDst)?) {
            None => v6(self.value(Field::TunIpv6Dst)?),
            found => found,
        };
        let source = match (tunnel.local, destination) {
            (None, Some(IpAddr::V4(_))) => v4(self.value(Field::TunSrc)?),
            (None, Some(IpAddr::V6(_))) => v6(self.value(Field::TunIpv6Src)?),
            (local, _) => local,
        };
        Ok(destination.map(|destination| (source, destination)))
    }

    /// Prepares the outer headers, and what the bridge of the underlay does with them.
    fn prepare(
        &mut self,
        port: PortNo,
        Contents { tunnel, key, is_oam, options }: &Contents<'_>,
        (destination, path): (IpAddr, &Path),
    ) -> Operation {
        let outer = Outer {
            kind: tunnel.kind,
            macs: path.macs,
            addresses: (path.source, destination),
            key: *key,
            port: tunnel.port,
            ttl: tunnel.ttl.unwrap_or(TTL),
            dont_fragment: tunnel.dont_fragment,
            checksum: tunnel.checksum || destination.is_ipv6(),
            is_oam: *is_oam,
            options,
        };
        let Ok(template) = Template::new(&outer) else { return Operation::Unreachable(Unreachable::TooLong) };
        let inherits_ttl = tunnel.ttl.is_none();
        let then = self.continuation(path.network, &template, inherits_ttl);
        Operation::Encapsulate(Box::new(Encapsulation {
            port,
            template,
            mtu: tunnel.outer_mtu(path),
            tos: tunnel.tos,
            inherits_ttl,
            bridge: path.network,
            then,
        }))
    }

    /// The operations of the underlay, if all packets with these outer headers have the same.
    fn continuation(
        &mut self,
        bridge: u16,
        template: &Template,
        inherits_ttl: bool,
    ) -> Option<Box<[Operation]>> {
        let header = template.header(&Inner { len: PAYLOAD, ..Inner::default() });
        let (mut frame, len) = ([0; MAX_HEADER + PAYLOAD], header.bytes().len());
        frame.get_mut(..len)?.copy_from_slice(header.bytes());
        let mut key = Key::ZERO;
        key.set(Field::InPort, PortNo::LOCAL.0.into());
        parse(frame.get(..len + PAYLOAD)?, len + PAYLOAD, &mut key);
        let found = self.environment.underlay(bridge, &key)?;
        if found.mask.and(&varying(template.kind(), inherits_ttl)) != Key::ZERO {
            return None;
        }
        let Translation { operations, flows, counters, live, learned, reduced, .. } = found;
        if !learned.is_empty() || !reduced.is_empty() || !operations.iter().all(Operation::is_portable) {
            return None;
        }
        self.result.flows.extend(flows);
        self.result.counters.extend(counters);
        self.result.live |= live;
        Some(operations.into())
    }
}

/// An address in a field, if it is set.
fn v4(bits: u128) -> Option<IpAddr> {
    (bits != 0).then(|| Ipv4Addr::from_bits(bits as u32).into())
}

/// See [`v4`].
fn v6(bits: u128) -> Option<IpAddr> {
    (bits != 0).then(|| Ipv6Addr::from_bits(bits).into())
}

/// Fields of the outer headers that differ between the packets of a tunnel.
fn varying(kind: Kind, inherits_ttl: bool) -> Key {
    let mut fields = Key::ZERO;
    let source = kind.port().map(|_| Field::UdpSrc);
    let ttl = inherits_ttl.then_some(Field::IpTtl);
    let protocol = (kind == Kind::Ipip).then_some(Field::IpProto);
    for field in [Field::IpDscp, Field::IpEcn].into_iter().chain(source).chain(ttl).chain(protocol) {
        fields.set(field, field.full());
    }
    fields
}
