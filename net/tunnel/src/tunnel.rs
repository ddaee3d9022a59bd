//! Settings of tunnels, and the search for the tunnel of a received packet.

use crate::kind::{GRE, IPV4, IPV6, UDP};
use crate::{Kind, Opened, Path};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Default time to live.
pub const TTL: u8 = 64;

/// Key of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// Packets have no key, or 0 if the header needs one.
    None,
    /// All packets have this key.
    Fixed(u32),
    /// Packets of any key are received, and flows set the key of packets to send (`tun_id`).
    Flow,
}

/// A tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tunnel {
    /// Kind.
    pub kind: Kind,
    /// Remote end; `None` if flows set it (`tun_dst`), and packets of any sender are received.
    pub remote: Option<IpAddr>,
    /// Own address; `None` for that of the route. Flows may set it if they set the remote end (`tun_src`).
    pub local: Option<IpAddr>,
    /// Key.
    pub key: Key,
    /// UDP destination port, also of received packets.
    pub port: u16,
    /// Time to live; `None` for that of the payload.
    pub ttl: Option<u8>,
    /// Traffic class without congestion bits, which are always those of the payload (RFC 6040); `None` for that of the
    /// payload.
    pub tos: Option<u8>,
    /// Whether IPv4 routers must not fragment the packets.
    pub dont_fragment: bool,
    /// Whether UDP over IPv4 has a checksum. Over IPv6 it always has one.
    pub checksum: bool,
}

impl Tunnel {
    /// A tunnel with default settings.
    pub fn new(kind: Kind, remote: Option<IpAddr>) -> Self {
        Self {
            kind,
            remote,
            local: None,
            key: Key::None,
            port: kind.port().unwrap_or(0),
            ttl: Some(TTL),
            tos: Some(0),
            dont_fragment: true,
            checksum: false,
        }
    }

    /// Maximum length in bytes of outer IP packets on a path.
    pub fn outer_mtu(&self, path: &Path) -> u16 {
        let may_fragment = path.source.is_ipv4() && !self.dont_fragment;
        if may_fragment { path.mtu } else { path.path_mtu }
    }

    /// Maximum length in bytes of the IP packets that fit on a path, without VLAN tags.
    pub fn payload_mtu(&self, path: &Path) -> u16 {
        let mtu = self.outer_mtu(path);
        let network = if path.source.is_ipv6() { wire::IPV6_HEADER } else { wire::IPV4_HEADER };
        let ethernet = if self.kind.is_ethernet() { wire::HEADER_LEN } else { 0 };
        let has_key = self.key != Key::None || !self.kind.may_lack_key();
        mtu.saturating_sub((network + self.kind.header_len(has_key) + ethernet) as u16)
    }

    /// Which packets it receives.
    fn selector(&self) -> Selector {
        let key = match self.key {
            Key::None => Some(0),
            Key::Fixed(key) => Some(key),
            Key::Flow => None,
        };
        Selector { kind: self.kind, port: self.port, remote: self.remote, local: self.local, key }
    }
}

/// Properties of received packets; `None` for any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Selector {
    kind: Kind,
    port: u16,
    remote: Option<IpAddr>,
    local: Option<IpAddr>,
    key: Option<u32>,
}

/// Which properties a class of tunnels compares: remote end, own address, key. More of them come first, then the remote
/// end, then the own address.
type Class = [bool; 3];

impl Selector {
    /// IP protocol and UDP port.
    fn protocol(&self) -> (u8, u16) {
        match self.kind {
            Kind::Vxlan | Kind::Geneve | Kind::Gtpu => (UDP, self.port),
            Kind::Gre | Kind::Nvgre | Kind::Erspan => (GRE, 0),
            Kind::Ipip => (IPV4, 0),
        }
    }

    fn class(&self) -> Class {
        [self.remote.is_some(), self.local.is_some(), self.key.is_some()]
    }
}

/// Two tunnels would receive the same packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "another tunnel has the same kind, addresses, key and port, or another kind with the same protocol and port"
)]
pub struct Ambiguous;

/// All tunnels, with a value for each.
#[derive(Clone, Debug)]
pub struct Tunnels<T> {
    by_selector: BTreeMap<Selector, T>,
    /// Those that exist, in the order of the search.
    classes: Vec<Class>,
}

impl<T> Default for Tunnels<T> {
    fn default() -> Self {
        Self { by_selector: BTreeMap::new(), classes: Vec::new() }
    }
}

impl<T: Copy> Tunnels<T> {
    /// Adds a tunnel.
    ///
    /// # Errors
    /// If another one receives the same packets.
    pub fn add(&mut self, tunnel: &Tunnel, value: T) -> Result<(), Ambiguous> {
        let selector = tunnel.selector();
        // Packets of another kind with the same protocol and port cannot be told apart.
        let is_mixed = |own: &Selector| own.kind != tunnel.kind && own.protocol() == selector.protocol();
        if self.by_selector.contains_key(&selector) || self.by_selector.keys().any(is_mixed) {
            return Err(Ambiguous);
        }
        self.by_selector.insert(selector, value);
        self.classify();
        Ok(())
    }

    /// Removes a tunnel.
    pub fn remove(&mut self, tunnel: &Tunnel) {
        self.by_selector.remove(&tunnel.selector());
        self.classify();
    }

    fn classify(&mut self) {
        self.classes = self.by_selector.keys().map(Selector::class).collect();
        let rank = |class: &Class| (class.iter().filter(|compared| **compared).count(), *class);
        self.classes.sort_unstable_by_key(|class| std::cmp::Reverse(rank(class)));
        self.classes.dedup();
    }

    /// The kind of the tunnels that receive packets of an IP protocol, for UDP at a port.
    pub fn kind(&self, protocol: u8, port: u16) -> Option<Kind> {
        let wanted = match protocol {
            UDP => (UDP, port),
            IPV6 => (IPV4, 0),
            other => (other, 0),
        };
        self.by_selector.keys().find(|own| own.protocol() == wanted).map(|own| own.kind)
    }

    /// The tunnel of a received packet: at most eight searches.
    pub fn find(&self, kind: Kind, port: u16, packet: &Opened) -> Option<T> {
        let port = if kind.port().is_some() { port } else { 0 };
        self.classes.iter().find_map(|[remote, local, key]| {
            let selector = Selector {
                kind,
                port,
                remote: remote.then_some(packet.source),
                local: local.then_some(packet.destination),
                key: key.then_some(packet.key.unwrap_or(0)),
            };
            self.by_selector.get(&selector).copied()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Payload;

    fn packet(source: &str, destination: &str, key: Option<u32>) -> Opened {
        Opened {
            source: source.parse().unwrap(),
            destination: destination.parse().unwrap(),
            tos: 0,
            ttl: 1,
            key,
            is_oam: false,
            inner: 50,
            options: 0..0,
            payload: Payload::Ethernet,
            check: None,
        }
    }

    #[test]
    fn tunnel_with_most_properties_of_the_packet_receives_it() {
        let mut tunnels = Tunnels::default();
        let any = Tunnel { key: Key::Flow, ..Tunnel::new(Kind::Vxlan, None) };
        let remote = Some("192.0.2.2".parse().unwrap());
        let fixed = Tunnel { key: Key::Fixed(7), ..Tunnel::new(Kind::Vxlan, remote) };
        let local = Tunnel { local: Some("192.0.2.1".parse().unwrap()), ..fixed };
        assert_eq!(tunnels.add(&any, 1).and(tunnels.add(&fixed, 2)).and(tunnels.add(&local, 3)), Ok(()));
        assert_eq!(tunnels.add(&fixed, 4), Err(Ambiguous));
        let find = |tunnels: &Tunnels<i32>, source, destination, key| {
            tunnels.find(Kind::Vxlan, 4789, &packet(source, destination, key))
        };
        assert_eq!(find(&tunnels, "192.0.2.2", "192.0.2.1", Some(7)), Some(3));
        assert_eq!(find(&tunnels, "192.0.2.2", "192.0.2.9", Some(7)), Some(2));
        assert_eq!(find(&tunnels, "192.0.2.2", "192.0.2.9", Some(8)), Some(1));
        tunnels.remove(&any);
        assert_eq!(find(&tunnels, "192.0.2.3", "192.0.2.9", Some(7)), None);
        assert_eq!(tunnels.find(Kind::Vxlan, 1, &packet("192.0.2.2", "192.0.2.9", Some(7))), None);
        assert_eq!((tunnels.kind(17, 4789), tunnels.kind(17, 4790)), (Some(Kind::Vxlan), None));
    }

    #[test]
    fn header_without_key_belongs_to_a_tunnel_without_one() {
        let mut tunnels = Tunnels::default();
        tunnels.add(&Tunnel::new(Kind::Gre, None), 1).unwrap();
        assert_eq!(tunnels.find(Kind::Gre, 99, &packet("192.0.2.2", "192.0.2.1", None)), Some(1));
        assert_eq!(tunnels.find(Kind::Gre, 99, &packet("192.0.2.2", "192.0.2.1", Some(1))), None);
        assert_eq!((tunnels.kind(47, 0), tunnels.kind(4, 0)), (Some(Kind::Gre), None));
    }
}
