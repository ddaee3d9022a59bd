//! Keys `sflow` and `ipfix` of a `[[bridge]]`: export of sampled packets and counters to collectors.
//!
//! Reading, defaults and display; `dataplane::export` runs them.

use super::reader::fields::Fields;
use super::reader::node::Value;
use super::reader::shape::Shape;
use console::Span;
use serde::Serialize;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::time::Duration;

/// UDP ports of collectors (IANA).
const SFLOW_PORT: u16 = 6343;
const IPFIX_PORT: u16 = 4739;
/// Collectors of a bridge for a protocol.
const MAX_COLLECTORS: usize = 8;
const RATE: RangeInclusive<i128> = 1..=16_777_215;
const DEFAULT_RATE: u32 = 400;
/// From a header of Ethernet and IPv4 on, as far as samples go.
const HEADER: RangeInclusive<i128> = 64..=export::sample::MAX_HEADER as i128;
const DEFAULT_HEADER: u16 = 128;
const SECONDS: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_hours(1);
const FLOWS: RangeInclusive<i128> = 0..=1_000_000;
const DEFAULT_FLOWS: u32 = 8192;
const DOMAIN: RangeInclusive<i128> = 0..=u32::MAX as i128;

/// `sflow = { collectors = ["192.0.2.9:6343"] }`
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct SflowSettings {
    pub(crate) collectors: Vec<SocketAddr>,
    /// Mean number of packets for a sample.
    pub(crate) sampling: u32,
    /// Interval of counter samples.
    pub(crate) polling: Span,
    /// Maximum bytes of a packet.
    pub(crate) header: u16,
    /// Address by which collectors know the switch; `None`: that from which the first collector is reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) agent: Option<IpAddr>,
}

/// `ipfix = { collectors = ["192.0.2.9:4739"] }`
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct IpfixSettings {
    pub(crate) collectors: Vec<SocketAddr>,
    /// Mean number of packets for a sample.
    pub(crate) sampling: u32,
    /// Observation domain.
    pub(crate) domain: u32,
    /// Observation point.
    pub(crate) point: u32,
    pub(crate) cache_active_timeout: Span,
    pub(crate) cache_idle_timeout: Span,
    /// Maximum flows; 0: a record for each sampled packet.
    pub(crate) cache_max_flows: u32,
}

/// Export of a bridge.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct ExportSettings {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sflow: Option<SflowSettings>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ipfix: Option<IpfixSettings>,
}

impl ExportSettings {
    /// Whether nothing is exported.
    pub(crate) fn is_empty(&self) -> bool {
        self.sflow.is_none() && self.ipfix.is_none()
    }

    /// Reads the keys of a bridge, the one with this index.
    pub(crate) fn read(fields: &mut Fields<'_, '_>, index: usize) -> Self {
        let sflow = table(fields, "sflow", |inner| SflowSettings {
            collectors: collectors(inner, SFLOW_PORT),
            sampling: inner.number("sampling", RATE, "packets").unwrap_or(DEFAULT_RATE),
            polling: seconds(inner, "polling", 30),
            header: inner.number("header", HEADER, "bytes").unwrap_or(DEFAULT_HEADER),
            agent: agent(inner),
        });
        let ipfix = table(fields, "ipfix", |inner| IpfixSettings {
            collectors: collectors(inner, IPFIX_PORT),
            sampling: inner.number("sampling", RATE, "packets").unwrap_or(DEFAULT_RATE),
            domain: inner.number("domain", DOMAIN, "as an observation domain").unwrap_or(index as u32 + 1),
            point: inner.number("point", DOMAIN, "as an observation point").unwrap_or(1),
            cache_active_timeout: seconds(inner, "cache_active_timeout", 60),
            cache_idle_timeout: seconds(inner, "cache_idle_timeout", 15),
            cache_max_flows: inner.number("cache_max_flows", FLOWS, "flows").unwrap_or(DEFAULT_FLOWS),
        });
        Self { sflow, ipfix }
    }

    /// Whether anything is exported.
    pub(crate) fn is_on(&self) -> bool {
        self.sflow.is_some() || self.ipfix.is_some()
    }
}

fn table<T>(
    fields: &mut Fields<'_, '_>,
    key: &'static str,
    read: impl FnOnce(&mut Fields<'_, '_>) -> T,
) -> Option<T> {
    fields.accepts(key, || Shape::Table);
    let place = fields.place(key);
    let node = fields.node(key)?;
    if !matches!(node.value, Value::Table(_)) {
        return fields.not(key, node, "a table such as { collectors = [\"192.0.2.9\"] }");
    }
    let mut inner = Fields::open_inner(node, place, fields.notes);
    let settings = read(&mut inner);
    inner.report_unknown();
    Some(settings)
}

/// Reads addresses with an optional port.
fn collectors(fields: &mut Fields<'_, '_>, port: u16) -> Vec<SocketAddr> {
    const EXAMPLE: &str = "[\"192.0.2.9\", \"[2001:db8::9]:6343\"]";
    if fields.peek("collectors").is_none() {
        let remedy = format!("write a list such as collectors = {EXAMPLE}");
        fields.wrong::<()>("collectors", "`collectors` is missing", remedy);
    }
    let read = |text: &str| {
        let with_port = text.parse::<SocketAddr>().ok();
        let address = with_port.or_else(|| Some(SocketAddr::new(text.parse().ok()?, port)));
        address.filter(|at| at.port() != 0 && !at.ip().is_unspecified()).ok_or_else(|| {
            format!("invalid value \"{text}\" for `collectors`: expected an IP address with an optional port")
        })
    };
    let mut found: Vec<SocketAddr> = fields.list("collectors", read, EXAMPLE);
    if found.len() > MAX_COLLECTORS {
        let reason = format!("`collectors` has {} entries", found.len());
        fields.wrong::<()>("collectors", reason, format!("list at most {MAX_COLLECTORS}"));
        found.truncate(MAX_COLLECTORS);
    }
    if let Some(i) = (1..found.len()).find(|i| found[..*i].contains(&found[*i])) {
        let reason = format!("`collectors` lists {} twice", found[i]);
        fields.wrong::<()>("collectors", reason, "remove one of them".to_owned());
    }
    found
}

fn seconds(fields: &mut Fields<'_, '_>, key: &'static str, default: u64) -> Span {
    fields.span_within(key, &SECONDS).unwrap_or(Span(Duration::from_secs(default)))
}

fn agent(fields: &mut Fields<'_, '_>) -> Option<IpAddr> {
    let text = fields.text("agent")?;
    text.parse().ok().filter(|address: &IpAddr| !address.is_unspecified()).or_else(|| {
        let remedy = "write such as \"192.0.2.1\"".to_owned();
        fields.invalid("agent", format_args!("\"{text}\""), "an IP address of the switch", remedy)
    })
}

impl fmt::Display for ExportSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sflow = self.sflow.iter().map(|sflow| ("sFlow", sflow.sampling, &sflow.collectors));
        let ipfix = self.ipfix.iter().map(|ipfix| ("IPFIX", ipfix.sampling, &ipfix.collectors));
        for (name, sampling, collectors) in sflow.chain(ipfix) {
            let collectors: Vec<_> = collectors.iter().map(ToString::to_string).collect();
            write!(f, ", {name} of one in {sampling} packets to {}", collectors.join(" "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::Host;
    use crate::settings::config;
    use crate::settings::topology::Topology;

    fn read(text: &str) -> Result<Topology, Vec<console::Diagnostic>> {
        let port = "[[port]]\nname = \"a\"\nkind = \"null\"\nbridge = \"main\"\n";
        let bridges = format!("[[bridge]]\nname = \"main\"\n{text}\n");
        config::parse(&format!("{bridges}{port}"), &Host::of(&[0], &[0]), None)
    }

    #[test]
    fn export_is_read_with_all_keys_and_with_defaults() {
        let text = "sflow = { collectors = [\"10.0.0.9:99\", \"2001:db8::1\"], sampling = 10, polling = \"5s\", \
            header = 64, agent = \"10.0.0.1\" }\n\
            ipfix = { collectors = [\"10.0.0.9\"], sampling = 1, domain = 7, point = 0, cache_active_timeout = \"2s\", \
            cache_idle_timeout = \"1s\", cache_max_flows = 0 }";
        let bridge = read(text).unwrap_or_else(|e| panic!("{e:?}")).bridges.remove(0);
        let (sflow, ipfix) = (bridge.export.sflow.clone().unwrap(), bridge.export.ipfix.clone().unwrap());
        let expected: Vec<SocketAddr> =
            vec!["10.0.0.9:99".parse().unwrap(), "[2001:db8::1]:6343".parse().unwrap()];
        assert_eq!((sflow.collectors, sflow.agent), (expected, "10.0.0.1".parse().ok()));
        assert_eq!((ipfix.domain, ipfix.point, ipfix.cache_max_flows), (7, 0, 0));
        let shown = "sFlow of one in 10 packets to 10.0.0.9:99 [2001:db8::1]:6343, IPFIX of one in 1 packets to \
            10.0.0.9:4739";
        assert!(bridge.to_string().ends_with(shown), "{bridge}");
        let text = "sflow = { collectors = [\"10.0.0.9\"] }\nipfix = { collectors = [\"10.0.0.9\"] }";
        let bridge = read(text).unwrap_or_else(|e| panic!("{e:?}")).bridges.remove(0);
        let (sflow, ipfix) = (bridge.export.sflow.unwrap(), bridge.export.ipfix.unwrap());
        assert_eq!((sflow.sampling, sflow.header, sflow.agent), (400, 128, None));
        assert_eq!((ipfix.domain, ipfix.point, ipfix.cache_max_flows), (1, 1, 8192));
    }

    #[test]
    fn each_wrong_value_is_an_error() {
        for (text, wanted) in [
            ("sflow = true", "`sflow` is"),
            ("sflow = {}", "`collectors` is missing"),
            ("ipfix = { collectors = [] }", "empty list"),
            ("sflow = { collectors = [\"host:1\"] }", "invalid value \"host:1\" for `collectors`"),
            ("sflow = { collectors = [\"10.0.0.9:0\"] }", "invalid value"),
            ("sflow = { collectors = [\"10.0.0.9\", \"10.0.0.9:6343\"] }", "twice"),
            ("sflow = { collectors = [\"10.0.0.9\"], sampling = 0 }", "invalid value 0 for `sampling`"),
            ("sflow = { collectors = [\"10.0.0.9\"], header = 300 }", "invalid value 300 for `header`"),
            ("sflow = { collectors = [\"10.0.0.9\"], agent = \"0.0.0.0\" }", "for `agent`"),
            ("sflow = { collectors = [\"10.0.0.9\"], polling = \"10ms\" }", "for `polling`"),
            ("sflow = { collectors = [\"10.0.0.9\"], domain = 1 }", "unknown key `domain`"),
            ("ipfix = { collectors = [\"10.0.0.9\"], cache_max_flows = -1 }", "for `cache_max_flows`"),
            (
                "ipfix = { collectors = [\"10.0.0.9\"] }\n[[bridge]]\nname = \"b\"\nipfix = { collectors = \
                 [\"10.0.0.9\"], domain = 1 }",
                "observation domain 1",
            ),
        ] {
            let errors = read(text).unwrap_err();
            assert!(errors.iter().any(|error| error.reason.contains(wanted)), "{text}: {errors:?}");
        }
    }
}
