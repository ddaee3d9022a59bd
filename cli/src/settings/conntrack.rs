//! `[conntrack]`: limits and timeouts of the connections that OpenFlow bridges track.

use super::reader::fields::Fields;
use super::reader::node::{Node, Value};
use super::reader::notes::{Findings, Section};
use super::reader::shape::Shape;
use conntrack::{Config, Timeouts, Timer};
use console::Span;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Connections. Each needs some 170 bytes.
const MAX: RangeInclusive<i128> = 1..=100_000_000;
const DEFAULT_MAX: u32 = 3_000_000;
const TIMEOUT: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_hours(24 * 30);

/// `[conntrack]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ConntrackSettings {
    /// Connections of all zones.
    pub(crate) max: u32,
    /// Connections of each zone that `zones` does not list; `None`: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_per_zone: Option<u32>,
    /// Connections that packets of one port have begun; `None`: half of `max`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_per_port: Option<u32>,
    /// Connections of single zones.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) zones: BTreeMap<u16, u32>,
    /// Whether TCP segments outside of the window are invalid.
    pub(crate) tcp_window_check: bool,
    /// Timeouts by the name of their timer, of all timers.
    pub(crate) timeouts: BTreeMap<&'static str, Span>,
}

impl Default for ConntrackSettings {
    fn default() -> Self {
        let (zones, timeouts) = (BTreeMap::new(), Timer::NAMES.map(|(timer, name)| (name, usual(timer))));
        Self {
            max: DEFAULT_MAX,
            max_per_zone: None,
            max_per_port: None,
            zones,
            tcp_window_check: true,
            timeouts: timeouts.into(),
        }
    }
}

fn usual(timer: Timer) -> Span {
    Span(Duration::from_secs(Timeouts::default().seconds(timer).into()))
}

impl ConntrackSettings {
    pub(crate) fn read(node: &Node, notes: &mut Findings) -> Self {
        notes.call(Section::Conntrack, "conntrack".to_owned());
        let mut fields = Fields::open(node, Section::Conntrack, notes);
        let mut number = |key| fields.number(key, MAX, "connections");
        let (max, max_per_zone) = (number("max").unwrap_or(DEFAULT_MAX), number("max_per_zone"));
        let max_per_port = number("max_per_port");
        let zones = zones(&mut fields).unwrap_or_default();
        let tcp_window_check = fields.flag("tcp_window_check").unwrap_or(true);
        let timeouts = timeouts(&mut fields);
        fields.finish();
        Self { max, max_per_zone, max_per_port, zones, tcp_window_check, timeouts }
    }

    /// Maximum connections of a port.
    pub(crate) fn per_port(&self) -> u32 {
        self.max_per_port.unwrap_or(self.max.div_ceil(2))
    }

    /// Settings of the tracker.
    pub(crate) fn config(&self) -> Config {
        let timeouts = Timer::NAMES.iter().fold(Timeouts::default(), |timeouts, (timer, name)| {
            let span = self.timeouts.get(name).copied().unwrap_or_else(|| usual(*timer));
            timeouts.with(*timer, u32::try_from(span.0.as_secs()).unwrap_or(u32::MAX))
        });
        Config {
            limit: self.max as usize,
            zone_limit: self.max_per_zone,
            zones: self.zones.clone(),
            port_limit: Some(self.per_port()),
            checks_window: self.tcp_window_check,
            timeouts,
        }
    }

    /// Whether the section would be empty.
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// `zones = { 5 = 1000 }`
fn zones(fields: &mut Fields<'_, '_>) -> Option<BTreeMap<u16, u32>> {
    const WANTED: &str = "the maximum of each zone from 0 to 65535, such as { 5 = 1000 }";
    fields.accepts("zones", || Shape::Map(Box::new(Shape::Integer(MAX))));
    let node = fields.node("zones")?;
    let Value::Table(entries) = &node.value else { return fields.not("zones", node, WANTED) };
    let limit = |node: &Node| match node.value {
        Value::Integer(number) if MAX.contains(&number) => u32::try_from(number).ok(),
        _ => None,
    };
    let read = entries.iter().map(|entry| Some((entry.key.parse().ok()?, limit(&entry.node)?)));
    let read: Option<_> = read.collect();
    read.or_else(|| {
        let remedy = format!("write {WANTED}");
        fields.wrong("zones", "`zones` has an entry that is not a zone with its maximum", remedy)
    })
}

fn timeouts(fields: &mut Fields<'_, '_>) -> BTreeMap<&'static str, Span> {
    let mut timeouts = ConntrackSettings::default().timeouts;
    fields.accepts("timeouts", || Shape::Table);
    let place = fields.place("timeouts");
    let Some(node) = fields.node("timeouts") else { return timeouts };
    if !matches!(node.value, Value::Table(_)) {
        fields.not::<()>("timeouts", node, "a table such as { tcp_established = \"1h\" }");
        return timeouts;
    }
    let mut inner = Fields::open_inner(node, place, fields.notes);
    for (name, timeout) in &mut timeouts {
        *timeout = inner.span_within(name, &TIMEOUT).unwrap_or(*timeout);
    }
    inner.report_unknown();
    timeouts
}

impl fmt::Display for ConntrackSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "conntrack: at most {} connections, {} of one port", self.max, self.per_port())?;
        if let Some(zone) = self.max_per_zone {
            write!(f, ", {zone} of one zone")?;
        }
        self.zones.iter().try_for_each(|(zone, max)| write!(f, ", {max} of zone {zone}"))?;
        if self.tcp_window_check { Ok(()) } else { write!(f, ", without a check of TCP windows") }
    }
}
