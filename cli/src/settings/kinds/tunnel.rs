//! `kind = "tunnel"`: a port whose packets travel in those of an underlay.

use super::kind::{Kind, Loaded, OpenError};
use crate::settings::reader::fields::Fields;
use crate::settings::reader::key::{Key, key, optional, required};
use crate::settings::reader::node::Value;
use crate::settings::reader::shape::Shape;
use crate::settings::reader::validation::PortCommon;
use crate::settings::reader::validation::Validation;
use ::port::PortControl;
use ::tunnel::{Kind as Protocol, Tunnel as Settings};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::time::Instant;

const PORTS: RangeInclusive<i128> = 1..=65_535;
const KEYS: RangeInclusive<i128> = 0..=u32::MAX as i128;
const TTLS: RangeInclusive<i128> = 1..=255;
const CLASSES: RangeInclusive<i128> = 0..=255;
/// Default time to live.
const TTL: u32 = ::tunnel::TTL as u32;

/// Source of a value that the configuration does not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Source {
    /// Flows.
    Flow,
    /// The packet.
    Inherit,
}

/// A configured value, or what decides in place of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Setting<T> {
    Value(T),
    By(Source),
}

impl<T: Copy> Setting<T> {
    fn value(self) -> Option<T> {
        match self {
            Self::Value(value) => Some(value),
            Self::By(_) => None,
        }
    }
}

impl<T: fmt::Display> fmt::Display for Setting<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(value) => value.fmt(f),
            Self::By(Source::Flow) => f.write_str("flow"),
            Self::By(Source::Inherit) => f.write_str("inherit"),
        }
    }
}

/// Settings of a tunnel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tunnel {
    pub(crate) protocol: String,
    pub(crate) remote: Setting<IpAddr>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) local: Option<IpAddr>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<Setting<u32>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) destination_port: Option<u16>,
    pub(crate) ttl: Setting<u32>,
    pub(crate) tos: Setting<u32>,
    pub(crate) df: bool,
    pub(crate) checksum: bool,
}

impl Kind for Tunnel {
    const NAME: &'static str = "tunnel";
    const ABOUT: &'static str = "VXLAN, Geneve, GRE, NVGRE, ERSPAN, IP-in-IP or GTP-U, of OpenFlow bridges";
    const KEYS: &'static [Key] = &[
        required("protocol", "Protocol of the tunnel."),
        required("remote", "Address of the other end; `\"flow\"`: flows set `tun_dst`."),
        optional("local", "that of the route", "Own address, one of an `[[underlay]]` section."),
        optional(
            "key",
            "none",
            "VNI, VSID, GRE key, session of ERSPAN or TEID; `\"flow\"`: flows set and match `tun_id`.",
        ),
        optional(
            "destination_port",
            "that of the protocol (4789, 6081 or 2152)",
            "UDP destination port, also of received packets.",
        ),
        key("ttl", "64", "Time to live of the outer header; `\"inherit\"`: that of the packet."),
        key(
            "tos",
            "0",
            "Traffic class of the outer header, whose congestion bits are always those of the packet; `\"inherit\"`: \
             that of the packet.",
        ),
        key("df", "true", "Whether routers must not fragment the outer packet (IPv4)."),
        key("checksum", "false", "Whether UDP over IPv4 has a checksum; over IPv6 it always has one."),
    ];
    #[cfg(test)]
    const EXAMPLES: &'static [&'static str] = &[
        "protocol = \"vxlan\"\nremote = \"192.0.2.2\"\nkey = 7",
        "protocol = \"geneve\"\nremote = \"flow\"\nlocal = \"2001:db8::1\"\nkey = \"flow\"\nttl = \"inherit\"\n\
         tos = \"inherit\"\ndf = false\nchecksum = true\ndestination_port = 6082",
    ];

    fn read(fields: &mut Fields<'_, '_>) -> Self {
        let words: Vec<_> = Protocol::ALL.into_iter().map(|kind| (kind.name(), kind.name())).collect();
        let protocol = fields.choice("protocol", &words);
        if protocol.is_none() {
            let remedy = fields.notes.example("protocol", "\"vxlan\"");
            fields.wrong::<()>("protocol", "`protocol` is missing", remedy);
        }
        let text = fields.required("remote", "192.0.2.2");
        let remote = match text {
            "flow" => Some(Setting::By(Source::Flow)),
            text => address(fields, "remote", text).map(Setting::Value),
        };
        let local = fields.text("local").and_then(|text| address(fields, "local", text));
        let unspecified = Setting::Value(IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED));
        Self {
            protocol: protocol.unwrap_or(Protocol::Vxlan.name()).to_owned(),
            remote: remote.unwrap_or(unspecified),
            local,
            key: number(fields, "key", &KEYS, ("flow", Source::Flow)),
            destination_port: fields.number("destination_port", PORTS, "as a UDP port"),
            ttl: number(fields, "ttl", &TTLS, INHERIT).unwrap_or(Setting::Value(TTL)),
            tos: number(fields, "tos", &CLASSES, INHERIT).unwrap_or(Setting::Value(0)),
            df: fields.flag("df").unwrap_or(true),
            checksum: fields.flag("checksum").unwrap_or(false),
        }
    }

    fn validate(&self, validation: &mut Validation<'_>) {
        validation.one_queue_pair();
        validation.no_mtu();
        let kind = self.kind();
        if let Some(Setting::Value(key)) = self.key
            && key.checked_shr(kind.key_bits()).unwrap_or(0) != 0
        {
            let most = u32::MAX.checked_shr(32 - kind.key_bits()).unwrap_or(0);
            let reason = format!("invalid value {key} for `key`: expected 0 to {most} for {kind}");
            validation.wrong("key", reason, "choose another key");
        }
        if self.key.is_some() && kind.key_bits() == 0 {
            validation.wrong("key", format!("`key` is not a key of {kind}"), "remove it");
        }
        if self.destination_port.is_some() && kind.port().is_none() {
            let reason = format!("{kind} has no UDP header");
            validation.wrong("destination_port", reason, "remove it");
        }
        let remote = self.remote.value();
        if let (Some(remote), Some(local)) = (remote, self.local)
            && remote.is_ipv4() != local.is_ipv4()
        {
            let reason = "`local` and `remote` have different IP versions";
            validation.wrong("local", reason, "give addresses of the same version");
        }
        if remote.is_some_and(|remote| remote.is_unspecified() || remote.is_multicast())
            && !validation.is_spoiled("remote")
        {
            validation.wrong("remote", "`remote` is not the address of a host", "give a unicast address");
        }
    }

    fn place(&self) -> String {
        self.remote.to_string()
    }

    /// The packets of a tunnel are sent and received by the ports of its underlay; in the engine, it is a port without
    /// queues of its own.
    fn open(&self, _port: PortCommon<'_>, _: Loaded) -> Result<Box<dyn PortControl>, OpenError> {
        Ok(Box::new(::port::null::Null::named("tunnel", Instant::now())))
    }
}

const INHERIT: (&str, Source) = ("inherit", Source::Inherit);

/// Reads a number, or the word in place of it.
fn number(
    fields: &mut Fields<'_, '_>,
    key: &'static str,
    range: &RangeInclusive<i128>,
    (word, by): (&'static str, Source),
) -> Option<Setting<u32>> {
    fields.accepts(key, || Shape::Integer(range.clone()));
    if let Some(Value::Text(_)) = fields.peek(key) {
        let expected = format!("{} to {} or \"{word}\"", range.start(), range.end());
        return fields.choice_or(key, &[(word, by)], || &expected).map(Setting::By);
    }
    fields.accepts(key, || Shape::Word(vec![word.to_owned()]));
    fields.number(key, range.clone(), "").map(Setting::Value)
}

fn address(fields: &mut Fields<'_, '_>, key: &'static str, text: &str) -> Option<IpAddr> {
    let parsed = text.parse().ok();
    if parsed.is_none() && !text.is_empty() {
        let remedy = format!("write an address such as {key} = \"192.0.2.2\"");
        fields.invalid::<()>(key, format!("\"{text}\""), "an IPv4 or IPv6 address", remedy);
    }
    parsed
}

impl Tunnel {
    fn kind(&self) -> Protocol {
        self.protocol.parse().unwrap_or(Protocol::Vxlan)
    }

    /// Settings of the data plane.
    pub(crate) fn settings(&self) -> Settings {
        let kind = self.kind();
        Settings {
            local: self.local,
            key: match self.key {
                None => ::tunnel::Key::None,
                Some(Setting::Value(key)) => ::tunnel::Key::Fixed(key),
                Some(Setting::By(_)) => ::tunnel::Key::Flow,
            },
            port: self.destination_port.or(kind.port()).unwrap_or(0),
            ttl: self.ttl.value().map(|ttl| ttl as u8),
            tos: self.tos.value().map(|tos| tos as u8),
            dont_fragment: self.df,
            checksum: self.checksum,
            ..Settings::new(kind, self.remote.value())
        }
    }
}

impl fmt::Display for Tunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.protocol, self.remote)?;
        match &self.key {
            Some(key) => write!(f, ", key {key}"),
            None => Ok(()),
        }
    }
}
