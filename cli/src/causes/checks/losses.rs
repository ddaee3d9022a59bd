//! Packets that are dropped: a remedy for each reason.

use super::super::evidence::{Evidence, Port};
use super::super::findings::{Effect, Finding, Found};
use port::DropReason;

/// Seconds for which a refused move is current.
const RECENT: u32 = 60;
/// Refused moves of a port that are named.
const MOVES: usize = 5;

/// A reason of drops with its remedy.
pub(super) struct Known {
    pub(super) reason: DropReason,
    pub(super) remedy: &'static str,
    /// Whether it is a finding; false for drops that are usual.
    pub(super) is_cause: bool,
}

const fn cause(reason: DropReason, remedy: &'static str) -> Known {
    Known { reason, remedy, is_cause: true }
}

const fn usual(reason: DropReason, remedy: &'static str) -> Known {
    Known { reason, remedy, is_cause: false }
}

/// All reasons.
pub(super) const REASONS: &[Known] = &[
    cause(DropReason::TooShort, "look at the sender: it sends truncated frames"),
    cause(DropReason::TooLong, "lower the MTU of the sender"),
    cause(DropReason::BadSource, "look at the sender: its Ethernet address is a group address or zero"),
    cause(
        DropReason::NoDestination,
        "nothing if the sender talks to itself; otherwise look for a loop behind the port",
    ),
    cause(DropReason::VlanDenied, "add the VLAN to `vlan` of the port, or correct the VLAN of the sender"),
    cause(
        DropReason::BroadcastLimit,
        "raise `broadcast_limit` or `limit_burst` of the port, or look for a broadcast storm",
    ),
    cause(DropReason::UnknownLimit, "raise `unknown_limit` or `limit_burst` of the port, or look for a scan"),
    cause(
        DropReason::StaticMacViolation,
        "correct `macs` and `[[bridge.static]]`: the address belongs to another port",
    ),
    cause(
        DropReason::MacMoveRefused,
        "write trusted = true at the uplink, or mac_moves = \"free\" in `[[bridge]]`",
    ),
    cause(DropReason::MacViolation, "add the address to `macs` of the port"),
    cause(DropReason::SourceViolation, "add the address to `sources` of the port"),
    cause(DropReason::ArpViolation, "add the address to `sources` of the port"),
    cause(
        DropReason::NdViolation,
        "add the address to `sources`, or write trusted = true at the port of a router",
    ),
    cause(DropReason::DhcpViolation, "write trusted = true at the port of the DHCP server"),
    usual(
        DropReason::BondInactive,
        "nothing on a backup member; on all members, see `linerate bonds show` for LACP",
    ),
    cause(
        DropReason::BondReflected,
        "nothing, unless the station has moved there: the other switch sends packets back",
    ),
    cause(DropReason::BondDown, "see the links and LACP of the members in `linerate bonds show`"),
    cause(
        DropReason::StpBlocked,
        "nothing on a redundant path; otherwise see `linerate ports show PORT` for its spanning tree",
    ),
    cause(
        DropReason::PortBlocked,
        "change the configuration of the port by the controller (`ovs-ofctl mod-port`)",
    ),
    cause(DropReason::ProtocolLimit, "look for a flood of ARP, DHCP, IGMP or BPDUs behind the port"),
    cause(DropReason::TooManyPieces, "look at the sender: its frames have too many segments"),
    cause(DropReason::SourceStopped, "nothing: the port was stopped while its packets were sent"),
    cause(DropReason::BadOffload, "look at the driver of the sender, or write offloads = false at its port"),
    cause(DropReason::Policed, "raise `cir`, `cbs` or `pir` of `policer` of the port"),
    cause(DropReason::Injected, "remove `fault` of the port"),
    cause(
        DropReason::QueueFull,
        "the receiver is too slow: give it more CPU, longer rings (QEMU rx_queue_size=1024) or \
        more `queue_pairs`, or write queue_full = \"wait\" at the worker",
    ),
    cause(DropReason::ClassFull, "raise `limit` of the class, or `memory` or `rate` of `queues`"),
    cause(DropReason::Codel, "raise the `rate` or `ceil` of the class, or `target` of `queues`"),
    cause(DropReason::HandoffFull, "raise `ring` in `[worker]`, or add stages with `linerate workers add`"),
    cause(
        DropReason::BufferTooSmall,
        "lower the MTU of the senders, or raise `mtu` and enable mergeable buffers at the receiver",
    ),
    cause(DropReason::Refused, "see `ip -s link` for the interface; the kernel refused the packets"),
    cause(DropReason::PortDown, "connect the peer of the port, or set its interface up"),
    usual(DropReason::FloodPortDown, "nothing: packets for all were not copied to a port without a peer"),
    cause(DropReason::PortFault, "see the reason of the port in `linerate ports show PORT`"),
    cause(DropReason::RecirculationLimit, "look for a loop of `resubmit`, `ct` or patch ports in the flows"),
    cause(DropReason::PuntFull, "send fewer packets to the controller, such as with a meter"),
    cause(
        DropReason::NoFlow,
        "add a flow, such as one of priority 0: `linerate trace` shows the way of a packet",
    ),
    cause(DropReason::FlowDrop, "change the flows: `linerate trace` shows the way of a packet"),
    cause(DropReason::Metered, "raise the rate of the meter"),
    cause(DropReason::ActionFailed, "change the flows: `linerate trace` shows the action that does not fit"),
    cause(DropReason::MirrorPort, "do not use the output port of a mirror for other packets"),
    cause(
        DropReason::TunnelInvalid,
        "look at the other end of the tunnel: its headers, checksums and options",
    ),
    cause(DropReason::TunnelUnknown, "add a tunnel with the addresses and the key of the packets"),
    cause(DropReason::TunnelCongested, "enable ECN at the senders, or relieve the underlay"),
    cause(DropReason::TunnelNoRoute, "add a route to `routes` of `[[underlay]]`"),
    cause(
        DropReason::TunnelUnresolved,
        "nothing for the first packets; otherwise look at the next hop of the underlay",
    ),
    cause(DropReason::TunnelTooLong, "lower the MTU of the guests to that of `linerate tunnels show`"),
];

/// Whether a port does not take packets: its queue is full, and none was sent.
fn is_stuck(port: &Port) -> bool {
    port.dropped(DropReason::QueueFull.name()) > 0 && port.difference(|now| now.tx_packets) == 0
}

pub(super) fn not_draining(evidence: &Evidence) -> Vec<Found> {
    let stuck = evidence.ports.iter().filter(|port| is_stuck(port));
    let found = stuck.map(|port| {
        let full = port.dropped(DropReason::QueueFull.name());
        let sizes: Vec<_> =
            port.now.iter().flat_map(|now| &now.queues).map(|queue| queue.size.to_string()).collect();
        let lost = format!("0 packets sent and {full} dropped as queue-full in {:.1} s", evidence.seconds);
        Found::port(port.name(), [lost, format!("ring entries: {}", sizes.join(", "))])
    });
    found.collect()
}

/// Reasons that another check has named already, with a cause of their own.
fn is_explained(port: &Port, reason: DropReason) -> bool {
    match reason {
        DropReason::QueueFull => is_stuck(port),
        DropReason::BufferTooSmall => port.settings.kind.name() == "vhost-user" && !port.has("mrg-rxbuf"),
        _ => false,
    }
}

/// One finding for each port and reason of packets that were dropped between the readings.
pub(super) fn findings(evidence: &Evidence) -> Vec<Finding> {
    let of_port = |port: &Port| {
        let lost = REASONS.iter().filter(|known| known.is_cause && !is_explained(port, known.reason));
        let lost =
            lost.filter_map(|known| Some((known, port.dropped(known.reason.name()))).filter(|(_, n)| *n > 0));
        lost.map(|(known, lost)| finding(port, known, lost, evidence)).collect::<Vec<_>>()
    };
    evidence.ports.iter().flat_map(of_port).collect()
}

fn finding(port: &Port, known: &Known, lost: u64, read: &Evidence) -> Finding {
    let (received, sent) = (port.difference(|now| now.rx_packets), port.difference(|now| now.tx_packets));
    let counts = format!("{lost} packets in {:.1} s, with {received} received and {sent} sent", read.seconds);
    let moves = (known.reason == DropReason::MacMoveRefused).then(|| refused_moves(port, read));
    Finding {
        check: known.reason.name(),
        effect: Effect::Loss,
        subject: format!("port {}", port.name()),
        cause: known.reason.meaning().trim_end_matches('.').to_owned(),
        evidence: std::iter::once(counts).chain(moves.into_iter().flatten()).collect(),
        remedy: known.remedy.to_owned(),
    }
}

/// The latest addresses that may not move to a port.
fn refused_moves(port: &Port, evidence: &Evidence) -> Vec<String> {
    let moves = evidence.bridges.iter().flat_map(|bridge| bridge.refused_moves.iter().rev());
    let own = moves.filter(|refused| refused.new_port == port.name() && refused.age < RECENT);
    own.take(MOVES).map(|refused| format!("{} is in use at port {}", refused.mac, refused.old_port)).collect()
}
