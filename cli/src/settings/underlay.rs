//! `[[underlay]]`: addresses of an OpenFlow bridge itself, for tunnels.

use super::reader::fields::Fields;
use super::reader::node::Node;
use super::reader::notes::{Findings, Section};
use serde::Serialize;
use stack::Cidr;
use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;
use tunnel::{Interface, Route};
use wire::MacAddress;

/// RFC 8200 requires at least 1280.
const MTU: RangeInclusive<i128> = 1280..=65_535;
const DEFAULT_MTU: u16 = 1500;

/// `[[underlay]]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct UnderlaySettings {
    pub(crate) bridge: String,
    /// With the prefix lengths of their networks.
    pub(crate) addresses: Vec<String>,
    /// As `network via router`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) routes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mac: Option<MacAddress>,
    pub(crate) mtu: u16,
}

impl UnderlaySettings {
    pub(crate) fn read(node: &Node, index: usize, notes: &mut Findings) -> Self {
        let section = Section::Underlay(index);
        notes.call(section, format!("underlay {index}"));
        let mut fields = Fields::open(node, section, notes);
        let bridge = fields.text("bridge").unwrap_or_default().to_owned();
        let addresses = fields.list("addresses", |text| checked(text, text.parse::<Cidr>()), ADDRESSES);
        if addresses.is_empty() && !fields.is_spoiled("addresses") {
            let remedy = fields.notes.example("addresses", ADDRESSES);
            fields.wrong::<()>("addresses", "`addresses` is missing", remedy);
        }
        let routes = fields.list("routes", |text| checked(text, route(text)), ROUTES);
        let mac = fields.text("mac").and_then(|text| match text.parse::<MacAddress>() {
            Ok(mac) if !mac.is_group() && !mac.is_zero() => Some(mac),
            _ => {
                let remedy = "write an address such as 02:00:00:00:00:01, or remove it".to_owned();
                fields.invalid("mac", format!("\"{text}\""), "the Ethernet address of one station", remedy)
            }
        });
        let mtu = fields.number("mtu", MTU, "bytes").unwrap_or(DEFAULT_MTU);
        fields.finish();
        Self { bridge, addresses, routes, mac, mtu }
    }

    /// Settings of the data plane. Without a configured Ethernet address, the bridge has one that is derived from `id`,
    /// its datapath identifier.
    pub(crate) fn interface(&self, id: u64) -> Interface {
        // Locally administered, and different from those of the bridge's ports.
        let own = MacAddress::from_u64(id & 0x00ff_ffff_ffff | 0x0600_0000_0000);
        let addresses = self.addresses.iter().filter_map(|text| text.parse().ok()).collect();
        let routes = self.routes.iter().filter_map(|text| route(text).ok()).collect();
        let mac = self.mac.unwrap_or(MacAddress::from_u64(own.to_u64() & !0x0100_0000_0000));
        Interface { network: 0, mac, mtu: self.mtu, addresses, routes }
    }

    /// Whether it has this address.
    pub(crate) fn has(&self, address: IpAddr) -> bool {
        let own = self.addresses.iter().filter_map(|text| text.parse::<Cidr>().ok());
        own.into_iter().any(|own| own.address.ip() == address)
    }
}

const ADDRESSES: &str = "[\"192.0.2.1/24\"]";
const ROUTES: &str = "[\"0.0.0.0/0 via 192.0.2.254\"]";

fn checked<T, E: fmt::Display>(text: &str, parsed: Result<T, E>) -> Result<String, String> {
    parsed.map(|_| text.to_owned()).map_err(|e| format!("invalid value \"{text}\": {e}"))
}

/// Parses `network via router`.
fn route(text: &str) -> Result<Route, String> {
    let expected = || "expected a network and a router, such as \"0.0.0.0/0 via 192.0.2.254\"".to_owned();
    let (network, via) = text.split_once(" via ").ok_or_else(expected)?;
    let network = Cidr::from_str(network.trim()).map_err(|_| expected())?;
    let via: IpAddr = via.trim().parse().map_err(|_| expected())?;
    if network.address.is_v4() == via.is_ipv4() { Ok(Route { network, via }) } else { Err(expected()) }
}

impl fmt::Display for UnderlaySettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "underlay {}, MTU {}", self.addresses.join(", "), self.mtu)?;
        self.routes.iter().try_for_each(|route| write!(f, ", {route}"))
    }
}
