//! Drop reasons of packets and fault reasons of ports. Both are named, counted and reported; neither is a panic.

use crate::described::described;
use ring::RingFault;

described! {
    /// Why a packet, or one copy of a flooded packet, was not sent. Each reason has a counter per port and worker.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[repr(u8)]
    DropReason, "The port that counts the drop: the source of the packet, or its output.";
    TooShort, "too-short", "source", "Shorter than an Ethernet header, or than the device's own header.";
    TooLong, "too-long", "source", "Longer than the largest frame supported.";
    BadSource, "bad-source", "source", "Invalid source address: the group bit is set, or it is zero.";
    NoDestination, "no-destination", "source",
        "The destination is the port that the packet came from, or there is no other port.";
    VlanDenied, "vlan-denied", "source", "The port is not a member of the packet's VLAN.";
    BroadcastLimit, "broadcast-limit", "source", "Above the port's limit for broadcast and multicast.";
    UnknownLimit, "unknown-limit", "source", "Above the port's limit for unknown unicast.";
    StaticMacViolation, "static-mac-violation", "source",
        "Source address configured as static on another port.";
    MacMoveRefused, "mac-move-refused", "source",
        "Source address in use at another port, and not allowed to move.";
    MacViolation, "mac-violation", "source", "Source address not in the port's allowed addresses.";
    SourceViolation, "source-violation", "source",
        "IP source address not allowed on the port, or headers not parseable on a port with a source guard.";
    ArpViolation, "arp-violation", "source", "ARP packet whose sender is not one of the port's addresses.";
    NdViolation, "nd-violation", "source", "Neighbor discovery message not allowed on the port.";
    DhcpViolation, "dhcp-violation", "source",
        "DHCP message not allowed on the port, or a lease that could not be recorded.";
    BondInactive, "bond-inactive", "source",
        "Received on a member of a bond that receives no such packets now.";
    BondReflected, "bond-reflected", "source",
        "Received on a bond from a station at another port: a copy of a packet that was sent to the bond.";
    BondDown, "bond-down", "source", "No member of the destination bond can send.";
    StpBlocked, "stp-blocked", "source", "Received on, or sent to, a port that its spanning tree does not forward.";
    PortBlocked, "port-blocked", "source",
        "Received on, or sent to, a port whose configuration by a controller forbids it.";
    ProtocolLimit, "protocol-limit", "source", "Above the limit for protocol frames from the port to the switch.";
    TooManyPieces, "too-many-pieces", "source", "More segments than a frame may have.";
    SourceStopped, "source-stopped", "source",
        "The source was stopped before the packet was sent to every output.";
    BadOffload, "bad-offload", "source",
        "The offloads (checksum, segmentation) contradict the packet, or cannot be completed.";
    Policed, "policed", "source", "Above the rates of the port's policer.";
    Injected, "injected", "port with `fault`", "Configured fault injection.";
    QueueFull, "queue-full", "output", "The destination queue had no free buffer.";
    ClassFull, "class-full", "port with `queues`",
        "A class of the port's queues, or the memory of the port's queues, was full.";
    Codel, "codel", "port with `queues`", "CoDel of a class of the port's queues: packets waited too long.";
    HandoffFull, "handoff-full", "source, or output once it is known",
        "The handoff queue to the next stage, or its pool, was full.";
    BufferTooSmall, "buffer-too-small", "output", "The destination's buffers are too small.";
    Refused, "refused", "output",
        "The kernel refused the packet: it is inconsistent, or its source's memory was lost.";
    PortDown, "port-down", "output", "The destination has no running queue, or its interface is down.";
    FloodPortDown, "flood-port-down", "output",
        "A flooded packet was not copied to a port that has no peer.";
    PortFault, "port-fault", "output", "The destination queue failed while the packet was in flight.";
    RecirculationLimit, "recirculation-limit", "source",
        "More recirculations than a packet may have.";
    PuntFull, "punt-full", "source", "The queue to the control plane was full.";
    NoFlow, "no-flow", "source", "No flow of an OpenFlow table selects the packet.";
    FlowDrop, "flow-drop", "source", "The flows that select the packet have no output.";
    Metered, "metered", "source", "Above the rate of a meter.";
    ActionFailed, "action-failed", "source", "An action of a flow does not fit the packet.";
    MirrorPort, "mirror-port", "source",
        "Received on the output port of a mirror, or sent to it by other means than the mirror.";
    TunnelInvalid, "tunnel-invalid", "source",
        "The outer headers of a tunnel packet are invalid or not supported, its checksum is wrong, or an option of Geneve \
         is critical and not known, or has another length than expected. Options are counted at the tunnel.";
    TunnelUnknown, "tunnel-unknown", "source", "No tunnel has the addresses and the key of the packet.";
    TunnelCongested, "tunnel-congested", "source",
        "Congestion was marked in the outer header, which the payload cannot carry on (RFC 6040).";
    TunnelNoRoute, "tunnel-no-route", "source", "No route leads to the remote end of the tunnel.";
    TunnelUnresolved, "tunnel-unresolved", "source",
        "The Ethernet address of the next hop to the remote end of the tunnel is not known yet.";
    TunnelTooLong, "tunnel-too-long", "source",
        "With the outer headers, the packet exceeds the MTU of the underlay, or the headers exceed 128 bytes.";
}

impl DropReason {
    /// Number of reasons.
    pub const COUNT: usize = Self::ALL.len();
}

/// Why a port does not run. Traffic of other ports is not affected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortFault {
    /// The peer closed the connection.
    #[error("{0} disconnected")]
    Disconnected(&'static str),
    /// The guest's ring violates VIRTIO.
    #[error("the guest violated the virtqueue protocol: {0}")]
    Ring(#[from] RingFault),
    /// The file behind the peer's memory was truncated.
    #[error("the peer truncated the file behind its memory")]
    MemoryLost,
    /// A ring address is in no region, or misaligned.
    #[error("the {0} area of a virtqueue lies outside the shared memory or is misaligned")]
    RingOutside(&'static str),
    /// The interface is administratively down or has no carrier.
    #[error("interface {0} is down")]
    InterfaceDown(String),
    /// A descriptor cannot be created or used, such as a kick or call descriptor that is not an eventfd.
    #[error("the {0} descriptor is not usable: {1}")]
    BadDescriptor(&'static str, String),
    /// A worker of this switch hangs and may still hold the port's rings and memory.
    #[error(
        "worker {0} of this switch does not respond; the port waits until it has released its rings and memory"
    )]
    WorkerHung(usize),
    /// A worker of this switch failed during a burst, so the state of the port's queues is unknown.
    #[error(
        "a worker of this switch failed while processing the port's queues; the port restarts, please report this"
    )]
    WorkerFailed,
    /// A resource of the port is missing: an interface, a namespace, a socket or a kernel feature.
    #[error("the port cannot be created yet: {0}")]
    NotMade(String),
    /// The front end violated the vhost-user protocol.
    #[error("the front end violated the vhost-user protocol: {0}")]
    Protocol(String),
    /// The back end's side of a virtqueue violates VIRTIO.
    #[error("the back end violated the virtqueue protocol: {0}")]
    UsedRing(RingFault),
    /// The back end violated the vhost-user protocol, or timed out.
    #[error("the back end violated the vhost-user protocol: {0}")]
    BackEnd(String),
    /// The back end lacks a feature required by the port's configuration.
    #[error("the back end is incompatible with this port: {0}")]
    Unsuited(String),
    /// Out of memory for a port's rings and buffers.
    #[error("out of memory for the port's rings and buffers: {0}")]
    NoMemory(String),
    /// A network interface was removed, or no longer works as before.
    #[error("the interface cannot be used: {0}")]
    Interface(String),
    /// The peer process rejects this port, or the port rejects the peer.
    #[error("the peer is incompatible with this port: {0}")]
    Refused(String),
    /// The peer's side of a memif ring violates the protocol.
    #[error("the peer violated the ring protocol: {0}")]
    PeerRing(#[from] crate::memif::RingFault),
    /// The port's output file cannot be written.
    #[error("the file cannot be written: {0}")]
    File(String),
    /// There is no listener at the other end of a socket.
    #[error("the peer is not reachable yet: {0}")]
    Unreachable(String),
    /// The peer process violated the protocol of the socket.
    #[error("the peer violated the protocol: {0}")]
    Peer(String),
    /// A queue cannot continue from the state of a stopped one.
    #[error("the state of the stopped queue is invalid: {0}; restart the port")]
    State(&'static str),
    /// The grant of the port ended.
    #[error("the grant ended: {0}")]
    Grant(#[from] GrantEnd),
}

/// Why the grant of a port ended: the connection was handed over by a switch, and there is no other one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrantEnd {
    /// The operator removed the port, or the switch stopped.
    #[error("revoked by the switch")]
    Revoked,
    /// The switch disconnected this end because of a fault.
    #[error("this end violated the protocol; see the log of the switch")]
    Violation,
    /// The connection ended without a reason, as that of a process that was killed.
    #[error("the switch disconnected")]
    Disconnected,
}

impl GrantEnd {
    /// Encoded in a message; `None` for the end without one.
    pub(crate) fn number(self) -> Option<u64> {
        match self {
            Self::Revoked => Some(0),
            Self::Violation => Some(1),
            Self::Disconnected => None,
        }
    }

    /// Decodes a message. A number of a later version is an end without a known reason.
    pub(crate) fn from_number(number: u64) -> Self {
        let known = [Self::Revoked, Self::Violation].into_iter().find(|end| end.number() == Some(number));
        known.unwrap_or(Self::Disconnected)
    }
}

impl PortFault {
    /// Whether the guest's virtqueue is invalid, which a guest that shuts down can cause.
    pub(crate) fn is_invalid_ring(&self) -> bool {
        matches!(self, Self::Ring(_) | Self::RingOutside(_))
    }
}
