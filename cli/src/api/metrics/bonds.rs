//! Metrics of bonds, mirrors and tunnels.

use super::{COUNTER, GAUGE, Page};
use crate::api::model::{BondReport, MirrorReport};
use crate::dataplane::bond_report::{BondState, MemberState};
use crate::dataplane::tunnels::TunnelEntry;
use std::fmt::Display;

/// Reads a value of a member of a bond.
type OfMember = fn(&BondState, &MemberState) -> u64;

pub(super) fn bonds(bonds: &[BondReport], page: &mut Page) {
    let live = || bonds.iter().filter_map(|bond| Some((&bond.settings.name, bond.live.as_ref()?)));
    let states = live().map(|(name, state)| {
        let (bond, lacp): (&dyn Display, &dyn Display) = (name, &state.lacp);
        ([("bond", bond), ("state", lacp)], 1)
    });
    page.add(("bond_lacp", GAUGE, "State of LACP of the bond; always 1."), states);
    let moves = live().map(|(name, state)| ([("bond", name as &dyn Display)], state.moves));
    page.add(("bond_moved_buckets_total", COUNTER, "Buckets that rebalancing has moved."), moves);
    let members = || live().flat_map(|(name, state)| state.members.iter().map(move |m| (name, state, m)));
    let gauges: [(&str, &str, OfMember); 4] = [
        ("bond_member_up", "Whether the link of the member is up.", |_, member| member.up.into()),
        ("bond_member_enabled", "Whether the member is used.", |_, member| member.enabled.into()),
        ("bond_member_active", "Whether the member is the active one.", |state, member| {
            (state.active.as_ref() == Some(&member.port)).into()
        }),
        ("bond_member_buckets", "Buckets of the member, of 256.", |_, member| member.buckets as u64),
    ];
    for (name, help, read) in gauges {
        let samples = members().map(|(bond, state, member)| {
            ([("bond", bond as &dyn Display), ("port", &member.port)], read(state, member))
        });
        page.add((name, GAUGE, help), samples);
    }
    let pdus = members().filter_map(|(bond, _, member)| Some((bond, &member.port, member.lacp.as_ref()?)));
    let pdus = pdus.flat_map(|(bond, port, lacp)| {
        let kinds: [(&dyn Display, u64); 2] = [(&"received", lacp.received), (&"sent", lacp.sent)];
        let labels = |kind| [("bond", bond as &dyn Display), ("port", port), ("kind", kind)];
        kinds.map(|(kind, pdus)| (labels(kind), pdus))
    });
    page.add(("lacp_pdus_total", COUNTER, "LACPDUs that the member received and sent."), pdus);
}

pub(super) fn mirrors(mirrors: &[MirrorReport], page: &mut Page) {
    type Read = fn(&MirrorReport) -> u64;
    let metrics: [(&str, &str, &str, Read); 3] = [
        ("mirror_active", GAUGE, "Whether the output of the mirror exists.", |mirror| mirror.active.into()),
        ("mirror_packets_total", COUNTER, "Packets that the mirror has copied.", |mirror| mirror.packets),
        (
            "mirror_bytes_total",
            COUNTER,
            "Bytes of these packets, before their copies are truncated.",
            |mirror| mirror.bytes,
        ),
    ];
    for (name, kind, help, read) in metrics {
        let samples = mirrors.iter().map(|mirror| {
            let (bridge, own): (&dyn Display, &dyn Display) =
                (&mirror.settings.bridge, &mirror.settings.name);
            ([("bridge", bridge), ("mirror", own)], read(mirror))
        });
        page.add((name, kind, help), samples);
    }
}

pub(super) fn tunnels(tunnels: &[TunnelEntry], page: &mut Page) {
    type Read = fn(&TunnelEntry) -> u64;
    let metrics: [(&str, &str, &str, Read); 5] = [
        ("tunnel_up", GAUGE, "Whether there is a path to the other end of the tunnel.", |tunnel| {
            tunnel.reason.is_none().into()
        }),
        ("tunnel_received_packets_total", COUNTER, "Packets received from the tunnel.", |tunnel| {
            tunnel.rx_packets
        }),
        (
            "tunnel_received_bytes_total",
            COUNTER,
            "Bytes received from the tunnel, without outer headers.",
            |tunnel| tunnel.rx_bytes,
        ),
        ("tunnel_sent_packets_total", COUNTER, "Packets sent to the tunnel.", |tunnel| tunnel.tx_packets),
        ("tunnel_sent_bytes_total", COUNTER, "Bytes sent to the tunnel, without outer headers.", |tunnel| {
            tunnel.tx_bytes
        }),
    ];
    for (name, kind, help, read) in metrics {
        let samples = tunnels.iter().map(|tunnel| {
            let (port, protocol): (&dyn Display, &dyn Display) = (&tunnel.port, &tunnel.protocol);
            ([("port", port), ("protocol", protocol)], read(tunnel))
        });
        page.add((name, kind, help), samples);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Format, Sources, text};
    use crate::dataplane::tunnels::TunnelEntry;
    use serde_json::json;

    #[test]
    fn states_are_numbers_and_names_are_labels() {
        let end = json!({
            "system": "02:00:00:00:00:01", "system_priority": 1, "key": 1, "port": 1, "port_priority": 1, "state": [],
        });
        let lacp = json!({ "receive": "current", "mux": "attached", "actor": end, "partner": end, "received": 8, "sent": 9 });
        let bond = json!({
            "settings": {
                "name": "up", "bridge": "main", "ports": ["a"], "mode": "balance-tcp", "lacp": "active",
                "lacp_rate": "slow", "system_priority": 1, "fallback": false, "up_delay": "0s", "down_delay": "0s",
                "rebalance": "10s",
            },
            "live": {
                "lacp": "negotiated", "active": "a", "buckets": [], "rebalance_in": null, "moves": 4,
                "members": [{ "port": "a", "up": true, "enabled": true, "buckets": 256, "load": 1, "lacp": lacp }],
            },
        });
        let mirror = json!({
            "name": "m", "bridge": "main", "source_ports": ["a"], "output_port": "b", "active": true, "packets": 5,
            "bytes": 6,
        });
        let tunnel = TunnelEntry {
            port: "t".to_owned(),
            protocol: "vxlan".to_owned(),
            reason: Some("no route".to_owned()),
            tx_packets: 7,
            ..TunnelEntry::default()
        };
        let sources = Sources {
            bonds: vec![serde_json::from_value(bond).unwrap()],
            mirrors: vec![serde_json::from_value(mirror).unwrap()],
            tunnels: vec![tunnel],
            ..Sources::default()
        };
        let text = text(&sources, Format::Prometheus);
        for line in [
            "linerate_bond_lacp{bond=\"up\",state=\"negotiated\"} 1",
            "linerate_bond_moved_buckets_total{bond=\"up\"} 4",
            "linerate_bond_member_active{bond=\"up\",port=\"a\"} 1",
            "linerate_bond_member_buckets{bond=\"up\",port=\"a\"} 256",
            "linerate_lacp_pdus_total{bond=\"up\",port=\"a\",kind=\"received\"} 8",
            "linerate_lacp_pdus_total{bond=\"up\",port=\"a\",kind=\"sent\"} 9",
            "linerate_mirror_packets_total{bridge=\"main\",mirror=\"m\"} 5",
            "linerate_tunnel_up{port=\"t\",protocol=\"vxlan\"} 0",
            "linerate_tunnel_sent_packets_total{port=\"t\",protocol=\"vxlan\"} 7",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is missing in\n{text}");
        }
    }
}
