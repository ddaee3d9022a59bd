//! Protocols between neighbours: keys of the spanning tree of a `[[bridge]]`, and keys of a `[[port]]` or
//! `[[bond]]` for it.
//!
//! Reading, defaults and display; `config` validates them against other sections, and `dataplane::links` runs them.

use super::multicast::PortMulticast;
use super::openflow::DatapathId;
use super::reader::fields::Fields;
use crate::host;
use console::Span;
use rstp::{BridgeConfig, ConfigError, Edge, PortConfig, Protocol};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;
use wire::MacAddress;

/// Address of a switch, or of a bridge of it, if none is configured: the same after each start.
pub(crate) fn address_of(switch: &str, bridge: &str) -> MacAddress {
    MacAddress::from_u64(DatapathId::of(&host::id(), &format!("{switch}/{bridge}")).0)
}

/// Version of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum StpVersion {
    /// Spanning Tree Protocol.
    Stp,
    /// Rapid Spanning Tree Protocol.
    Rstp,
}

/// Spanning tree of a bridge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct StpSettings {
    #[serde(rename = "stp")]
    pub(crate) version: StpVersion,
    #[serde(rename = "stp_priority")]
    pub(crate) priority: u16,
    #[serde(rename = "stp_hello")]
    pub(crate) hello: Span,
    #[serde(rename = "stp_max_age")]
    pub(crate) max_age: Span,
    #[serde(rename = "stp_forward_delay")]
    pub(crate) forward_delay: Span,
    /// Address of the bridge; `None`: derived.
    #[serde(rename = "stp_address", skip_serializing_if = "Option::is_none")]
    pub(crate) address: Option<MacAddress>,
}

impl StpSettings {
    /// Keys that need a spanning tree.
    const KEYS: [&str; 5] = ["stp_priority", "stp_hello", "stp_max_age", "stp_forward_delay", "stp_address"];

    /// Reads the keys of a bridge; `None` without a spanning tree.
    pub(crate) fn read(fields: &mut Fields<'_, '_>, has_flow_tables: bool) -> Option<Self> {
        let versions = [("off", None), ("stp", Some(StpVersion::Stp)), ("rstp", Some(StpVersion::Rstp))];
        let version = fields.choice("stp", &versions).flatten();
        let settings = Self::read_all(fields, version.unwrap_or(StpVersion::Rstp));
        if version.is_none() && !fields.is_spoiled("stp") {
            for key in Self::KEYS {
                fields.foreign(
                    key,
                    format!("`{key}` has no effect: `stp` is off"),
                    "write stp = \"rstp\", or remove it",
                );
            }
        }
        if version.is_some() && has_flow_tables {
            let remedy = "write pipeline = \"learning\", or remove it".to_owned();
            return fields.wrong("stp", "`stp` is not supported: the bridge has flow tables", remedy);
        }
        version.map(|_| settings)
    }

    fn read_all(fields: &mut Fields<'_, '_>, version: StpVersion) -> Self {
        let default = BridgeConfig::default();
        let priority = priority(fields, 0..=61_440, 4096).unwrap_or(default.priority);
        let hello = seconds(fields, "stp_hello", &BridgeConfig::HELLO, default.hello);
        let max_age = seconds(fields, "stp_max_age", &BridgeConfig::MAX_AGE, default.max_age);
        let delays = &BridgeConfig::FORWARD_DELAY;
        let forward_delay = seconds(fields, "stp_forward_delay", delays, default.forward_delay);
        let settings = Self { version, priority, hello, max_age, forward_delay, address: address(fields) };
        if settings.config().validate() == Err(ConfigError::Times) {
            let remedy = "raise `stp_forward_delay`, or lower `stp_max_age` or `stp_hello`".to_owned();
            fields.wrong::<()>("stp_max_age", ConfigError::Times, remedy);
        }
        settings
    }

    /// Settings of the protocol.
    pub(crate) fn config(&self) -> BridgeConfig {
        let seconds = |span: Span| span.0.as_secs() as u8;
        BridgeConfig {
            protocol: match self.version {
                StpVersion::Stp => Protocol::Stp,
                StpVersion::Rstp => Protocol::Rstp,
            },
            priority: self.priority,
            hello: seconds(self.hello),
            max_age: seconds(self.max_age),
            forward_delay: seconds(self.forward_delay),
        }
    }
}

/// Reads `stp_priority`, a multiple of `step`.
fn priority<T: TryFrom<i128> + Copy + Into<i128>>(
    fields: &mut Fields<'_, '_>,
    range: RangeInclusive<i128>,
    step: i128,
) -> Option<T> {
    let priority: T = fields.number("stp_priority", range, &format!("in steps of {step}"))?;
    let number: i128 = priority.into();
    if number % step == 0 {
        return Some(priority);
    }
    let (below, expected) = (number / step * step, format!("a multiple of {step}"));
    fields.invalid("stp_priority", number, expected, format!("give {below} or {}", below + step))
}

/// Reads whole seconds in a range.
fn seconds(fields: &mut Fields<'_, '_>, key: &'static str, range: &RangeInclusive<u8>, default: u8) -> Span {
    let of = |seconds: u8| Duration::from_secs(seconds.into());
    let span = fields.span_within(key, &(of(*range.start())..=of(*range.end())));
    if let Some(span) = span.filter(|span| span.0.subsec_nanos() != 0) {
        let whole = Span(Duration::from_secs(span.0.as_secs()));
        fields.invalid::<()>(key, span, "whole seconds", format!("write \"{whole}\""));
        return whole;
    }
    span.unwrap_or(Span(of(default)))
}

fn address(fields: &mut Fields<'_, '_>) -> Option<MacAddress> {
    let text = fields.text("stp_address")?;
    let mac: Option<MacAddress> = text.parse().ok();
    let mac = mac.filter(|mac| !mac.is_group() && !mac.is_zero());
    mac.or_else(|| {
        let remedy = "write such as \"02:00:00:00:00:01\"".to_owned();
        fields.invalid("stp_address", format_args!("\"{text}\""), "a unicast address", remedy)
    })
}

impl fmt::Display for StpSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.version == StpVersion::Stp { "STP" } else { "RSTP" };
        write!(f, ", {name} with priority {}", self.priority)
    }
}

/// Whether a port leads to a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum EdgeSetting {
    /// If no BPDU is received.
    #[default]
    Auto,
    /// From the start.
    Yes,
    /// Never.
    No,
}

impl EdgeSetting {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the shape that serde calls")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Keys of a port or bond for protocols between neighbours.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LinkSettings {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stp_priority: Option<u8>,
    /// Path cost; `None`: by the speed of the interface.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stp_cost: Option<u32>,
    #[serde(default, skip_serializing_if = "EdgeSetting::is_default")]
    pub(crate) stp_edge: EdgeSetting,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stp_point_to_point: Option<bool>,
    /// Whether a BPDU stops the port.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) bpdu_guard: bool,
    /// Whether the port sends and receives LLDP.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) lldp: bool,
    #[serde(flatten)]
    pub(crate) multicast: PortMulticast,
}

impl LinkSettings {
    /// Reads the keys of a port.
    pub(crate) fn read(fields: &mut Fields<'_, '_>) -> Self {
        let tree = Self::read_tree(fields);
        Self { lldp: fields.flag("lldp").unwrap_or(false), ..tree }
    }

    /// Reads the keys of a port in a spanning tree.
    pub(crate) fn read_tree(fields: &mut Fields<'_, '_>) -> Self {
        let edges = [("auto", EdgeSetting::Auto), ("yes", EdgeSetting::Yes), ("no", EdgeSetting::No)];
        let costs = i128::from(*PortConfig::COST.start())..=i128::from(*PortConfig::COST.end());
        Self {
            stp_priority: priority(fields, 0..=240, 16),
            stp_cost: fields.number("stp_cost", costs, "as a path cost"),
            stp_edge: fields.choice("stp_edge", &edges).unwrap_or_default(),
            stp_point_to_point: fields.flag("stp_point_to_point"),
            bpdu_guard: fields.flag("bpdu_guard").unwrap_or(false),
            lldp: false,
            multicast: PortMulticast::read(fields),
        }
    }

    /// The first key that is set and needs a spanning tree.
    pub(crate) fn first_key(&self) -> Option<&'static str> {
        let keys = [
            (self.stp_priority.is_some(), "stp_priority"),
            (self.stp_cost.is_some(), "stp_cost"),
            (!self.stp_edge.is_default(), "stp_edge"),
            (self.stp_point_to_point.is_some(), "stp_point_to_point"),
            (self.bpdu_guard, "bpdu_guard"),
        ];
        keys.into_iter().find_map(|(is_set, key)| is_set.then_some(key))
    }

    /// Settings of the protocol, for a link of this speed in bits per second.
    pub(crate) fn config(&self, speed: Option<u64>) -> PortConfig {
        let default = PortConfig::default();
        PortConfig {
            priority: self.stp_priority.unwrap_or(default.priority),
            cost: self.stp_cost.unwrap_or_else(|| speed.map_or(default.cost, rstp::path_cost)),
            edge: match self.stp_edge {
                EdgeSetting::Auto => Edge::Auto,
                EdgeSetting::Yes => Edge::Yes,
                EdgeSetting::No => Edge::No,
            },
            point_to_point: self.stp_point_to_point.unwrap_or(default.point_to_point),
            bpdu_guard: self.bpdu_guard,
        }
    }
}

impl fmt::Display for LinkSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(priority) = self.stp_priority {
            write!(f, ", STP priority {priority}")?;
        }
        if let Some(cost) = self.stp_cost {
            write!(f, ", STP cost {cost}")?;
        }
        f.write_str(match self.stp_edge {
            EdgeSetting::Auto => "",
            EdgeSetting::Yes => ", STP edge",
            EdgeSetting::No => ", no STP edge",
        })?;
        f.write_str(if self.bpdu_guard { ", BPDU guard" } else { "" })?;
        f.write_str(if self.lldp { ", LLDP" } else { "" })?;
        self.multicast.fmt(f)
    }
}
