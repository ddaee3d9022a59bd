//! Interfaces as `[[port]]` sections: their kind, and settings that ports of all kinds have.

use super::database::{Database, Row};
use super::document::{Section, table};
use super::findings::Findings;
use super::plan::{self, Plan, PortPlan};
use super::{queues, tunnels};
use std::path::Path;

/// Kind of port for network cards and other interfaces of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CardKind {
    AfXdp,
    AfPacket,
}

/// Directory of the sockets of Open vSwitch, unless the database names another one.
const RUN: &str = "/var/run/openvswitch";
/// Default burst of a policer in kbit.
const BURST: i64 = 8000;
/// Range of `cbs`.
const BURSTS: std::ops::RangeInclusive<i64> = 1514..=1 << 40;
/// Range of a rate in kbit/s.
const RATES: std::ops::RangeInclusive<i64> = 8..=1_000_000_000;

/// Surroundings of an interface.
pub(super) struct Place<'a> {
    pub(super) database: &'a Database,
    pub(super) plan: &'a Plan<'a>,
    pub(super) bridge: usize,
    pub(super) cards: CardKind,
}

/// Writes the kind of an interface and its settings.
pub(super) fn write(
    section: &mut Section,
    interface: &Row,
    port: &PortPlan<'_>,
    place: &Place<'_>,
    findings: &mut Findings,
) {
    kind(section, interface, place, findings);
    mtu(section, interface, findings);
    policer(section, interface, findings);
    // Its columns are read here: numbers are compared when all sections are known.
    plan::number(interface);
    queues::write(section, port.row, interface, place.database, findings);
}

fn kind(section: &mut Section, interface: &Row, place: &Place<'_>, findings: &mut Findings) {
    match interface.text("type") {
        "" | "system" => card(section, interface, place.cards),
        "afxdp" | "afxdp-nonpmd" => xdp(section, interface),
        "internal" | "tap" => {
            section.set("kind", "tap");
            section.set("interface", interface.text("name"));
        }
        "dpdkvhostuser" => {
            guest(section, interface);
            let folder = socket_folder(place.plan);
            section.set("socket", format!("{folder}/{}", interface.text("name")));
        }
        "dpdkvhostuserclient" => guest_server(section, interface, findings),
        "dpdk" => dpdk(section, interface, place.cards, findings),
        "patch" => patch(section, interface, place.plan, findings),
        _ => tunnels::write(section, interface, findings),
    }
}

/// A network card or another interface of the kernel.
fn card(section: &mut Section, interface: &Row, cards: CardKind) {
    section.set("kind", if cards == CardKind::AfXdp { "af_xdp" } else { "af_packet" });
    section.set("interface", interface.text("name"));
    let pairs = number(interface, "n_rxq").filter(|pairs| (2..=128).contains(pairs));
    section.set_some("queue_pairs", pairs);
    if cards == CardKind::AfPacket {
        return;
    }
    let frames = number(interface, "n_rxq_desc").filter(|frames| (128..=32_768).contains(frames));
    section.set_some("frames", frames.filter(|frames| frames.count_ones() == 1));
}

fn number(row: &Row, key: &str) -> Option<i64> {
    row.key("options", key)?.parse().ok()
}

fn xdp(section: &mut Section, interface: &Row) {
    card(section, interface, CardKind::AfXdp);
    let (mode, attach) = match interface.key("options", "xdp-mode") {
        Some("native-with-zerocopy") => ("zero-copy", "native"),
        Some("native") => ("copy", "native"),
        Some("generic") => ("copy", "generic"),
        _ => return,
    };
    section.set("mode", mode);
    section.set("attach", attach);
}

/// A card that DPDK drives has no interface of the kernel. The section keeps its name, for bonds and mirrors.
fn dpdk(section: &mut Section, interface: &Row, cards: CardKind, findings: &mut Findings) {
    card(section, interface, cards);
    let device = interface.key("options", "dpdk-devargs").unwrap_or("unknown");
    let reason = format!("DPDK drives the device {device}, and linerate uses the interface of the kernel");
    let remedy = "bind the card to the driver of the kernel (`dpdk-devbind.py -b`), and write the name of its interface \
        as `interface`";
    findings.add(section, (interface, "type"), reason, remedy);
}

/// A guest behind vhost-user. A running Open vSwitch reports the number of its virtqueues.
fn guest(section: &mut Section, interface: &Row) {
    section.set("kind", "vhost-user");
    let rings: Option<i64> = interface.key("status", "num_of_vrings").and_then(|rings| rings.parse().ok());
    section.set_some("queue_pairs", rings.map(|rings| rings / 2).filter(|pairs| (2..=128).contains(pairs)));
}

fn guest_server(section: &mut Section, interface: &Row, findings: &mut Findings) {
    guest(section, interface);
    section.set("mode", "client");
    let path = interface.key("options", "vhost-server-path");
    section.set_some("socket", path);
    if path.is_none() {
        section.is_disabled = true;
        let reason = "it has no vhost-server-path, so that Open vSwitch does not connect";
        findings.add(
            section,
            (interface, "options"),
            reason,
            "write `socket` with the path of QEMU's socket",
        );
    }
}

/// The directory in which Open vSwitch creates sockets.
fn socket_folder(plan: &Plan<'_>) -> String {
    let switch = plan.switch;
    let run = switch.and_then(|row| row.key("external_ids", "rundir")).unwrap_or(RUN);
    let below = switch.and_then(|row| row.key("other_config", "vhost-sock-dir")).unwrap_or_default();
    Path::new(run).join(below).display().to_string().trim_end_matches('/').to_owned()
}

fn patch(section: &mut Section, interface: &Row, plan: &Plan<'_>, findings: &mut Findings) {
    section.set("kind", "patch");
    let peer = interface.key("options", "peer");
    let found = peer.and_then(|peer| plan.port_of(peer));
    section.set_some("peer", found);
    if found.is_none() {
        section.is_disabled = true;
        let reason = format!("its peer {} does not exist", peer.unwrap_or("is missing and"));
        findings.add(section, (interface, "options:peer"), reason, "name the patch port of another bridge");
    }
}

fn mtu(section: &mut Section, interface: &Row, findings: &mut Findings) {
    let Some(mtu) = interface.integer("mtu_request") else { return };
    let is_ours =
        matches!(interface.text("type"), "internal" | "tap" | "dpdkvhostuser" | "dpdkvhostuserclient");
    if is_ours && (68..=65_535).contains(&mtu) {
        return section.set("mtu", mtu);
    }
    let reason = format!("the MTU of {mtu} is that of an interface, which the switch does not change");
    let remedy = format!("ip link set dev {} mtu {mtu}", interface.text("name"));
    findings.add(section, (interface, "mtu_request"), reason, remedy);
}

/// A token bucket: frames that do not fit into the burst are dropped.
fn policer(section: &mut Section, interface: &Row, findings: &mut Findings) {
    let rate = interface.integer("ingress_policing_rate").filter(|rate| *rate > 0);
    let burst = interface.integer("ingress_policing_burst").filter(|burst| *burst > 0).unwrap_or(BURST);
    let Some(rate) = rate else { return };
    if section.is_disabled || super::plan::TUNNELS.contains(&interface.text("type")) {
        let reason = "a policer of a tunnel has no effect";
        let remedy = "write a meter in the flows of the bridge";
        return findings.add(section, (interface, "ingress_policing_rate"), reason, remedy);
    }
    let (cir, cbs) = (rate.clamp(*RATES.start(), *RATES.end()), burst.saturating_mul(125));
    let policer = table([
        ("cir", Some(format!("{cir}kbit/s").into())),
        ("cbs", Some(cbs.clamp(*BURSTS.start(), *BURSTS.end()).into())),
        ("exceed", Some("drop".into())),
    ]);
    section.set("policer", policer);
}
