//! Connections of OpenFlow bridges in the control API's JSON.

use crate::settings::conntrack::ConntrackSettings;
use conntrack::{Listed, Phase, Refused, Tracker, Tuple};
use flow::FlowSwitch;
use port::Now;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::{IntoParams, ToSchema};

/// `GET /v1/connections`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct ConnectionReport {
    /// Total number of matching connections, regardless of the limit.
    pub(crate) total: usize,
    /// Matching connections, at most as many as the limit.
    pub(crate) connections: Vec<ConnectionEntry>,
}

/// One connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct ConnectionEntry {
    /// Protocol number (IANA).
    pub(crate) protocol: u8,
    /// Zone.
    pub(crate) zone: u16,
    /// The direction of its first packet, before translation.
    pub(crate) original: ConnectionEnds,
    /// The opposite direction, before translation.
    pub(crate) reply: ConnectionEnds,
    /// Phases of TCP by direction; `new` or `replied` for other protocols.
    pub(crate) state: String,
    /// Mark.
    pub(crate) mark: u32,
    /// Label, in hexadecimal.
    pub(crate) label: String,
    /// Time until it ends unless a packet arrives, in seconds.
    pub(crate) timeout: u64,
}

/// Addresses and ports of a direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct ConnectionEnds {
    /// Source address.
    pub(crate) source: String,
    /// Source port; the identifier of ICMP.
    pub(crate) source_port: u16,
    /// Destination address.
    pub(crate) destination: String,
    /// Destination port; the identifier of ICMP.
    pub(crate) destination_port: u16,
}

/// `GET /v1/connections/limits`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct ConnectionLimits {
    /// Connections of all zones.
    pub(crate) connections: usize,
    /// Their maximum.
    pub(crate) max: u32,
    /// Maximum for each zone without another one; absent: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_per_zone: Option<u32>,
    /// Maximum of connections that packets of one port have begun.
    pub(crate) max_per_port: u32,
    /// Connections without reply that others replaced at the maximum.
    pub(crate) replaced: u64,
    /// Connections that were not added because of a limit.
    pub(crate) refused: RefusedConnections,
    /// Zones with connections or with a maximum of their own.
    pub(crate) zones: Vec<ZoneConnections>,
    /// Ports whose packets have begun connections.
    pub(crate) ports: Vec<PortConnections>,
    /// Whether TCP segments outside of the window are invalid.
    pub(crate) tcp_window_check: bool,
    /// Timeouts by the name of their timer.
    pub(crate) timeouts: BTreeMap<String, String>,
}

/// Connections that were not added, by the limit that they would have exceeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct RefusedConnections {
    /// That of all zones.
    pub(crate) total: u64,
    /// That of a zone.
    pub(crate) zone: u64,
    /// That of a port.
    pub(crate) port: u64,
}

/// Connections of a zone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct ZoneConnections {
    /// Zone.
    pub(crate) zone: u16,
    /// Connections.
    pub(crate) connections: u32,
    /// Its own maximum; absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max: Option<u32>,
}

/// Connections of a port.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct PortConnections {
    /// Name of the port.
    pub(crate) port: String,
    /// Connections.
    pub(crate) connections: u32,
}

/// Limits, and the connections that count for them, of the ports `names` by number.
pub(super) fn limits(
    tracker: &Tracker,
    settings: &ConntrackSettings,
    names: &BTreeMap<u16, String>,
) -> ConnectionLimits {
    let zone = |zone: u16| {
        let (connections, max) = (tracker.zone_len(zone), settings.zones.get(&zone).copied());
        (connections > 0 || max.is_some()).then_some(ZoneConnections { zone, connections, max })
    };
    let port = |(id, name): (&u16, &String)| {
        let connections = tracker.port_len(*id);
        (connections > 0).then(|| PortConnections { port: name.clone(), connections })
    };
    let Refused { total, zone: of_zone, port: of_port } = tracker.refused();
    let timeouts = settings.timeouts.iter().map(|(name, span)| ((*name).to_owned(), span.to_string()));
    ConnectionLimits {
        connections: tracker.len(),
        max: settings.max,
        max_per_zone: settings.max_per_zone,
        max_per_port: settings.per_port(),
        replaced: tracker.evicted(),
        refused: RefusedConnections { total, zone: of_zone, port: of_port },
        zones: (0..=u16::MAX).filter_map(zone).collect(),
        ports: names.iter().filter_map(port).collect(),
        tcp_window_check: settings.tcp_window_check,
        timeouts: timeouts.collect(),
    }
}

/// Selection of connections.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConnectionFilter {
    /// Zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) zone: Option<u16>,
    /// Maximum number of entries returned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) limit: Option<usize>,
}

/// The connections that match a filter.
pub(super) fn list(switch: &FlowSwitch, wanted: &ConnectionFilter, now: Now) -> ConnectionReport {
    let mut report = ConnectionReport::default();
    let is_wanted = |found: &Listed| wanted.zone.is_none_or(|zone| found.original.zone() == zone);
    for found in switch.connections(now).filter(is_wanted) {
        report.total += 1;
        if report.total <= wanted.limit.unwrap_or(usize::MAX) {
            report.connections.push(entry(&found));
        }
    }
    report
}

fn entry(found: &Listed) -> ConnectionEntry {
    let state = match found.phases {
        Some((original, reply)) => format!("{}/{}", phase(original), phase(reply)),
        None if found.is_assured => "replied".to_owned(),
        None => "new".to_owned(),
    };
    ConnectionEntry {
        protocol: found.original.protocol(),
        zone: found.original.zone(),
        original: ends(&found.original),
        reply: ends(&found.reply),
        state,
        mark: found.mark,
        label: format!("{:#x}", found.label),
        timeout: found.timeout,
    }
}

fn ends(tuple: &Tuple) -> ConnectionEnds {
    let (source_port, destination_port) = tuple.ports();
    let (source, destination) = (tuple.source().to_string(), tuple.destination().to_string());
    ConnectionEnds { source, source_port, destination, destination_port }
}

fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Closed => "closed",
        Phase::SynSent => "syn-sent",
        Phase::Established => "established",
        Phase::Closing => "closing",
        Phase::FinWait => "fin-wait",
        Phase::TimeWait => "time-wait",
    }
}
