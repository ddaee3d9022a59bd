//! Multicast snooping: the table `multicast_snooping` of a `[[bridge]]`, and keys of a `[[port]]` for it.
//!
//! Reading, defaults and display; `config` validates them against other sections, and `dataplane::links` runs it.

use super::reader::fields::Fields;
use super::reader::shape::Shape;
use console::Span;
use serde::{Deserialize, Serialize};
use snooping::{Config, Querier, RouterPort};
use std::fmt;
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use std::time::Duration;

const KEY: &str = "multicast_snooping";
/// Groups of a bridge.
const GROUPS: RangeInclusive<i128> = 1..=65_536;
const INTERVAL: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_hours(1);

/// `multicast_snooping`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct MulticastSettings {
    pub(crate) max_groups: u32,
    pub(crate) max_groups_per_port: u32,
    pub(crate) membership_interval: Span,
    pub(crate) query_interval: Span,
    pub(crate) flood_unregistered: bool,
    pub(crate) querier: bool,
    pub(crate) querier_address: Ipv4Addr,
}

impl MulticastSettings {
    /// Reads the table of a bridge; `None` without snooping.
    pub(crate) fn read(fields: &mut Fields<'_, '_>, has_flow_tables: bool) -> Option<Self> {
        fields.accepts(KEY, || Shape::Table);
        let place = fields.place(KEY);
        let node = fields.node(KEY)?;
        if !matches!(node.value, super::reader::node::Value::Table(_)) {
            return fields.not(KEY, node, "a table such as { querier = true }");
        }
        let mut inner = Fields::open_inner(node, place, fields.notes);
        let settings = Self::read_all(&mut inner);
        inner.report_unknown();
        if has_flow_tables {
            let remedy = "write pipeline = \"learning\", or remove it".to_owned();
            let reason = "`multicast_snooping` is not supported: the bridge has flow tables";
            return fields.wrong(KEY, reason, remedy);
        }
        Some(settings)
    }

    fn read_all(fields: &mut Fields<'_, '_>) -> Self {
        let default = Config::default();
        let max_groups = fields.number("max_groups", GROUPS, "groups").unwrap_or(default.max_groups as u32);
        let per_port = 1..=i128::from(max_groups);
        let per_port = fields.number("max_groups_per_port", per_port, "groups, at most `max_groups`");
        let query_interval = fields.span_within("query_interval", &INTERVAL);
        let query_interval = query_interval.unwrap_or(Span(default.query_interval));
        let membership = fields.span_within("membership_interval", &INTERVAL);
        Self {
            max_groups,
            max_groups_per_port: per_port.unwrap_or_else(|| max_groups.div_ceil(4)),
            // RFC 3376, section 8.4.
            membership_interval: membership.unwrap_or(Span(2 * query_interval.0 + Duration::from_secs(10))),
            query_interval,
            flood_unregistered: fields.flag("flood_unregistered").unwrap_or(default.flood_unregistered),
            querier: fields.flag("querier").unwrap_or(false),
            querier_address: address(fields),
        }
    }

    /// Settings of the protocol.
    pub(crate) fn config(&self) -> Config {
        Config {
            max_groups: self.max_groups as usize,
            max_groups_per_port: self.max_groups_per_port as usize,
            membership_interval: self.membership_interval.0,
            query_interval: self.query_interval.0,
            flood_unregistered: self.flood_unregistered,
            querier: self.querier.then_some(Querier { address: self.querier_address }),
        }
    }
}

fn address(fields: &mut Fields<'_, '_>) -> Ipv4Addr {
    let Some(text) = fields.text("querier_address") else { return Ipv4Addr::UNSPECIFIED };
    let address = text.parse::<Ipv4Addr>().ok().filter(|address| !address.is_multicast());
    address.unwrap_or_else(|| {
        let remedy = "write such as \"192.0.2.1\"".to_owned();
        fields.invalid::<()>("querier_address", format_args!("\"{text}\""), "an IPv4 address", remedy);
        Ipv4Addr::UNSPECIFIED
    })
}

impl fmt::Display for MulticastSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ", multicast snooping of {} groups", self.max_groups)?;
        f.write_str(if self.querier { " with querier" } else { "" })?;
        f.write_str(if self.flood_unregistered { "" } else { ", unregistered groups not flooded" })
    }
}

/// Whether a multicast router is behind a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RouterSetting {
    /// If one is heard.
    #[default]
    Auto,
    Always,
    Never,
}

impl RouterSetting {
    const WORDS: [(&str, Self); 3] = [("auto", Self::Auto), ("always", Self::Always), ("never", Self::Never)];

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the shape that serde calls")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Keys of a port for multicast snooping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PortMulticast {
    #[serde(default, skip_serializing_if = "RouterSetting::is_default")]
    pub(crate) multicast_router: RouterSetting,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) fast_leave: bool,
}

impl PortMulticast {
    /// Reads the keys of a port.
    pub(crate) fn read(fields: &mut Fields<'_, '_>) -> Self {
        Self {
            multicast_router: fields.choice("multicast_router", &RouterSetting::WORDS).unwrap_or_default(),
            fast_leave: fields.flag("fast_leave").unwrap_or(false),
        }
    }

    /// The first key that is set.
    pub(crate) fn first_key(self) -> Option<&'static str> {
        let keys =
            [(!self.multicast_router.is_default(), "multicast_router"), (self.fast_leave, "fast_leave")];
        keys.into_iter().find_map(|(is_set, key)| is_set.then_some(key))
    }

    /// Whether a router is behind the port.
    pub(crate) fn router(self) -> RouterPort {
        match self.multicast_router {
            RouterSetting::Auto => RouterPort::Auto,
            RouterSetting::Always => RouterPort::Always,
            RouterSetting::Never => RouterPort::Never,
        }
    }
}

impl fmt::Display for PortMulticast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.multicast_router {
            RouterSetting::Auto => "",
            RouterSetting::Always => ", multicast router",
            RouterSetting::Never => ", no multicast router",
        })?;
        f.write_str(if self.fast_leave { ", fast leave" } else { "" })
    }
}
