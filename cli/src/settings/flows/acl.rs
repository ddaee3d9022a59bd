//! `[[acl]]`: an access list, whose rules are converted to flows of table 0.
//!
//! Rule `n` of a bridge, counted from 0 in the order of the file, has the priority 60000 - `n`. A rule is one flow for
//! each IP version, and for each aligned block of its port ranges.
//!
//! On a bridge with a stateful rule, IP packets first pass through connection tracking. A stateful rule matches the
//! first packets of connections and commits these with its number as mark, by which flows of a higher priority admit
//! all other packets of the connection.

use crate::settings::reader::fields::Fields;
use crate::settings::reader::node::Node;
use crate::settings::reader::notes::{Findings, Section};
use flow::text::PortNames;
use flow::{PortNo, port_masks};
use serde::{Serialize, Serializer};
use std::fmt::{self, Write};
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Priority of the first rule of a bridge.
const FIRST: usize = 60_000;
/// Rules of one bridge.
pub(crate) const RULES: usize = 10_000;
/// Flows of one rule.
pub(crate) const FLOWS: usize = 1024;
/// Priority of the flows for connections.
const CONNECTIONS: usize = 60_001;
/// Zone of the connections of the first bridge; the number of the bridge is added.
const ZONE: usize = 0xac00;
/// Cookie of the flows of the first section; the number of the section is added.
const COOKIE: usize = 0xac10_0000;

/// Whether packets of a rule pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Allow,
    Deny,
}

/// Protocol of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Protocol {
    Arp,
    Nd,
    Ipv4,
    Ipv6,
    Icmp,
    Icmp6,
    Tcp,
    Udp,
    Sctp,
}

impl Protocol {
    const NAMES: [(&str, Self); 9] = [
        ("tcp", Self::Tcp),
        ("udp", Self::Udp),
        ("sctp", Self::Sctp),
        ("icmp", Self::Icmp),
        ("icmp6", Self::Icmp6),
        ("ipv4", Self::Ipv4),
        ("ipv6", Self::Ipv6),
        ("arp", Self::Arp),
        ("nd", Self::Nd),
    ];

    /// Messages of Neighbor Discovery (RFC 4861, section 4).
    const ND: [(&str, bool); 4] = [
        ("icmp6,icmp_type=133", true),
        ("icmp6,icmp_type=134", true),
        ("icmp6,icmp_type=135", true),
        ("icmp6,icmp_type=136", true),
    ];

    /// Whether its packets belong to connections.
    fn has_connections(self) -> bool {
        !matches!(self, Self::Arp | Self::Nd)
    }

    /// Words of a match for IPv4 and for IPv6.
    fn words(self) -> (Option<&'static str>, Option<&'static str>) {
        match self {
            Self::Arp | Self::Nd => (None, None),
            Self::Ipv4 => (Some("ip"), None),
            Self::Ipv6 => (None, Some("ipv6")),
            Self::Icmp => (Some("icmp"), None),
            Self::Icmp6 => (None, Some("icmp6")),
            Self::Tcp => (Some("tcp"), Some("tcp6")),
            Self::Udp => (Some("udp"), Some("udp6")),
            Self::Sctp => (Some("sctp"), Some("sctp6")),
        }
    }

    fn has_ports(self) -> bool {
        matches!(self, Self::Tcp | Self::Udp | Self::Sctp)
    }

    fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, protocol)| *protocol == self).map_or("", |(name, _)| name)
    }
}

/// An address with a prefix length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Prefix {
    address: IpAddr,
    bits: u8,
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (address, bits) = text.split_once('/').map_or((text, None), |(a, b)| (a, Some(b)));
        let address: IpAddr =
            address.parse().map_err(|_| format!("\"{text}\" is not an address or prefix"))?;
        let all = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(all), str::parse::<u8>).ok().filter(|bits| *bits <= all);
        let bits = bits.ok_or_else(|| format!("\"{text}\" has a prefix length that is not 0 to {all}"))?;
        Ok(Self { address, bits })
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

impl Serialize for Prefix {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// One `[[acl]]` section.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct AclRule {
    pub(crate) bridge: String,
    action: Verdict,
    /// Port of the bridge from which packets come; `None` for all.
    pub(crate) from: Option<String>,
    /// Port to which packets are sent; `None`: as the learning bridge decides.
    pub(crate) to: Option<String>,
    protocol: Option<Protocol>,
    source: Option<Prefix>,
    destination: Option<Prefix>,
    /// Ranges of source ports; empty for all.
    source_ports: Vec<RangeInclusive<u16>>,
    /// Ranges of destination ports; empty for all.
    destination_ports: Vec<RangeInclusive<u16>>,
    /// Whether it is for the first packets of connections, whose other packets pass as well.
    pub(super) stateful: bool,
}

impl AclRule {
    pub(super) fn read(node: &Node, index: usize, notes: &mut Findings) -> Self {
        let section = Section::Acl(index);
        notes.call(section, format!("acl {index}"));
        let mut fields = Fields::open(node, section, notes);
        let rule = Self {
            bridge: fields.text("bridge").unwrap_or_default().to_owned(),
            action: action(&mut fields),
            from: fields.text("from").map(str::to_owned),
            to: fields.text("to").map(str::to_owned),
            protocol: fields.choice("protocol", &Protocol::NAMES),
            source: prefix(&mut fields, "source"),
            destination: prefix(&mut fields, "destination"),
            source_ports: fields.list("source_ports", range, "[\"1024-65535\"]"),
            destination_ports: fields.list("destination_ports", range, "[\"80\", \"8000-8080\"]"),
            stateful: fields.flag("stateful").unwrap_or_default(),
        };
        fields.finish();
        rule.validate(section, notes);
        rule
    }

    /// Validates the keys against each other.
    fn validate(&self, section: Section, notes: &mut Findings) {
        let Self { action, to, protocol, source, destination, .. } = self;
        if *action == Verdict::Deny && to.is_some() {
            let reason = "`to` has no effect: a denied packet is sent to no port";
            notes.wrong((section, "to"), reason, "remove it, or match `destination`");
        }
        if to.is_some() && *to == self.from {
            let remedy = "name another port: a packet is not sent to the port that it came from";
            notes.wrong((section, "to"), "`to` is the port of `from`", remedy);
        }
        let ports = [("source_ports", &self.source_ports), ("destination_ports", &self.destination_ports)];
        for (key, _) in ports.into_iter().filter(|(_, ranges)| !ranges.is_empty()) {
            if !protocol.is_some_and(Protocol::has_ports) {
                let reason = format!("`{key}` requires a protocol with ports");
                notes.wrong((section, key), reason, "write protocol = \"tcp\", \"udp\" or \"sctp\"");
            }
        }
        if *protocol == Some(Protocol::Arp) && source.or(*destination).is_some() {
            let reason = "`protocol` \"arp\" has no IP addresses";
            notes.wrong((section, "protocol"), reason, "remove `source` and `destination`");
        } else if self.words().is_empty() {
            let reason = "no packet has this protocol and these addresses";
            let remedy = "use addresses of one IP version, which the protocol has";
            notes.wrong((section, "protocol"), reason, remedy);
        }
        if self.stateful && *action == Verdict::Deny {
            let reason = "`stateful` has no effect: packets of denied connections are not replied to";
            notes.wrong((section, "stateful"), reason, "remove it");
        }
        if let Some(protocol) = protocol.filter(|protocol| self.stateful && !protocol.has_connections()) {
            let reason =
                format!("`stateful` requires a protocol with connections, not \"{}\"", protocol.name());
            notes.wrong((section, "stateful"), reason, "remove it, and add a rule for the replies");
        }
        let flows = self.len();
        if flows > FLOWS {
            let reason = format!("the rule needs {flows} flows, and the maximum is {FLOWS}");
            notes.wrong(
                (section, ""),
                reason,
                "write fewer port ranges, or ranges that begin at powers of two",
            );
        }
    }

    /// Words of a match, each with whether it is for IPv6; the empty word matches all packets.
    fn words(&self) -> Vec<(&'static str, bool)> {
        let (v4, v6) = match self.protocol {
            Some(Protocol::Arp) => return vec![("arp", false)],
            Some(Protocol::Nd) => (None, None),
            Some(protocol) => protocol.words(),
            // A connection is one of IP packets.
            None if self.stateful => (Some("ip"), Some("ipv6")),
            None if self.source.is_none() && self.destination.is_none() => return vec![("", false)],
            None => (Some("ip"), Some("ipv6")),
        };
        let fits = |is_v6: bool| {
            let mut prefixes = self.source.iter().chain(&self.destination);
            prefixes.all(|prefix| prefix.address.is_ipv6() == is_v6)
        };
        let nd = Protocol::ND.into_iter().filter(|_| self.protocol == Some(Protocol::Nd));
        let words = [(v4, false), (v6, true)].into_iter().filter_map(|(word, is_v6)| Some((word?, is_v6)));
        words.chain(nd).filter(|(_, is_v6)| fits(*is_v6)).collect()
    }

    /// Words of a match for each block of source ports, and for each one of destination ports.
    fn blocks(&self) -> [Vec<String>; 2] {
        let words = |key: &str, ranges: &[RangeInclusive<u16>]| -> Vec<String> {
            if ranges.is_empty() {
                return vec![String::new()];
            }
            let blocks = ranges.iter().flat_map(port_masks);
            blocks.map(|(value, mask)| format!(",{key}={value:#x}/{mask:#x}")).collect()
        };
        [words("tp_src", &self.source_ports), words("tp_dst", &self.destination_ports)]
    }

    /// Number of flows.
    fn len(&self) -> usize {
        self.words().len() * self.blocks().iter().map(Vec::len).product::<usize>()
    }

    /// The flows of the rule: the one at `place` of its bridge, in section `index`. None if the rule is not valid.
    pub(super) fn flows(&self, place: usize, index: usize, ports: &dyn PortNames, zone: u16) -> Vec<String> {
        let number = |name: Option<&String>| match name {
            Some(name) => ports.number(name).map(Some).ok_or(()),
            None => Ok(None),
        };
        let ends = (number(self.from.as_ref()), number(self.to.as_ref()));
        let (Ok(from), Ok(to)) = ends else { return Vec::new() };
        if self.len() > FLOWS {
            return Vec::new();
        }
        let (mark, cookie) = (place + 1, COOKIE + index);
        let (state, actions) = match self.action {
            Verdict::Deny => ("", "drop".to_owned()),
            Verdict::Allow if self.stateful => {
                let commit = format!("ct(commit,zone={zone},exec(set_field:{mark}->ct_mark)),");
                (",ct_state=+new+trk", commit + &output(to))
            }
            Verdict::Allow => ("", output(to)),
        };
        let head = format!("priority={},cookie={cookie:#x}{}", FIRST.saturating_sub(place), came_from(from));
        let [sources, destinations] = self.blocks();
        let mut flows = Vec::new();
        for (word, is_v6) in self.words() {
            let addresses = self.addresses(word, is_v6);
            for source in &sources {
                let flow = |to: &String| format!("{head}{addresses}{source}{to}{state},actions={actions}");
                flows.extend(destinations.iter().map(flow));
            }
        }
        if self.stateful {
            flows.extend(self.connections((from, to), (mark, cookie), zone));
        }
        flows
    }

    /// The flows for the packets of connections that the rule has allowed, but for their first ones.
    fn connections(
        &self,
        (from, to): (Option<PortNo>, Option<PortNo>),
        (mark, cookie): (usize, usize),
        zone: u16,
    ) -> Vec<String> {
        let is_used = |version: bool| self.words().iter().any(|(_, is_v6)| *is_v6 == version);
        let versions = [("ip", false), ("ipv6", true)].into_iter().filter(|(_, is_v6)| is_used(*is_v6));
        let directions = [("-rpl", from, to), ("+rpl", to, from)];
        let flow = |word: &str, (reply, from, to): (&str, Option<PortNo>, Option<PortNo>)| {
            let from = came_from(from);
            let state = format!("ct_state=-new-inv{reply}+trk,ct_zone={zone},ct_mark={mark:#x}");
            format!("priority={CONNECTIONS},cookie={cookie:#x}{from},{word},{state},actions={}", output(to))
        };
        versions.flat_map(|(word, _)| directions.map(|direction| flow(word, direction))).collect()
    }

    /// Words for the protocol and the addresses.
    fn addresses(&self, word: &str, is_v6: bool) -> String {
        let mut text = if word.is_empty() { String::new() } else { format!(",{word}") };
        let keys = if is_v6 { ["ipv6_src", "ipv6_dst"] } else { ["nw_src", "nw_dst"] };
        for (key, prefix) in keys.into_iter().zip([self.source, self.destination]) {
            if let Some(prefix) = prefix {
                // Writing to a String cannot fail.
                let _ = write!(text, ",{key}={prefix}");
            }
        }
        text
    }
}

/// Zone of the connections of a bridge, by its position among all bridges.
pub(crate) fn zone(bridge: usize) -> u16 {
    u16::try_from(ZONE + bridge).unwrap_or(u16::MAX)
}

/// The flows that pass the IP packets of a bridge through connection tracking, before the rules.
pub(super) fn tracking(index: usize, zone: u16) -> [String; 2] {
    ["ip", "ipv6"].map(|word| {
        let cookie = COOKIE + index;
        format!(
            "priority={CONNECTIONS},cookie={cookie:#x},{word},ct_state=-trk,actions=ct(table=0,zone={zone})"
        )
    })
}

fn output(to: Option<PortNo>) -> String {
    to.map_or_else(|| "NORMAL".to_owned(), |port| format!("output:{}", port.0))
}

fn came_from(from: Option<PortNo>) -> String {
    from.map(|port| format!(",in_port={}", port.0)).unwrap_or_default()
}

fn action(fields: &mut Fields<'_, '_>) -> Verdict {
    let found = fields.choice("action", &[("allow", Verdict::Allow), ("deny", Verdict::Deny)]);
    if found.is_none() && !fields.is_spoiled("action") {
        let remedy = fields.notes.example("action", "\"allow\"");
        fields.wrong::<()>("action", "`action` is missing", remedy);
    }
    found.unwrap_or(Verdict::Deny)
}

fn prefix(fields: &mut Fields<'_, '_>, key: &'static str) -> Option<Prefix> {
    let text = fields.text(key)?;
    let remedy = "write an address or a prefix, such as \"10.0.0.0/8\" or \"2001:db8::/32\"";
    text.parse().map_or_else(|e| fields.wrong(key, format!("`{key}` {e}"), remedy.to_owned()), Some)
}

/// A port, or a range of ports.
fn range(text: &str) -> Result<RangeInclusive<u16>, String> {
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    let port = |text: &str| text.trim().parse::<u16>().ok();
    match (port(low), port(high)) {
        (Some(low), Some(high)) if low <= high => Ok(low..=high),
        _ => Err(format!("\"{text}\" is not a port from 0 to 65535, or a range of ports")),
    }
}

impl fmt::Display for AclRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.action == Verdict::Allow { "allow" } else { "deny" })?;
        f.write_str(if self.stateful { " connections of" } else { "" })?;
        f.write_str(self.protocol.map_or(" all", |_| " "))?;
        f.write_str(self.protocol.map_or("", Protocol::name))?;
        let ports = |ranges: &[RangeInclusive<u16>]| {
            let range = |range: &RangeInclusive<u16>| match (range.start(), range.end()) {
                (low, high) if low == high => low.to_string(),
                (low, high) => format!("{low}-{high}"),
            };
            let each: Vec<_> = ranges.iter().map(range).collect();
            if each.is_empty() { String::new() } else { format!(" ports {}", each.join(", ")) }
        };
        let end = |port: Option<&String>, prefix: Option<Prefix>, ranges: &[RangeInclusive<u16>]| {
            let port = port.map(|port| format!(" port {port}")).unwrap_or_default();
            let prefix = prefix.map(|prefix| format!(" {prefix}")).unwrap_or_default();
            let text = format!("{port}{prefix}{}", ports(ranges));
            if text.is_empty() { " any".to_owned() } else { text }
        };
        write!(f, " from{}", end(self.from.as_ref(), self.source, &self.source_ports))?;
        write!(f, " to{}", end(self.to.as_ref(), self.destination, &self.destination_ports))
    }
}

#[cfg(test)]
mod tests;
