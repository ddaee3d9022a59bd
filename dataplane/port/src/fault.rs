//! Why a packet is lost and why a port stops. Both are named, counted and shown; neither is ever a panic.

use ring::RingFault;

/// Why one packet, or one copy of a flooded packet, did not leave. Each has a counter per port and worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum DropReason {
    /// Shorter than an Ethernet header (or than the device's own header).
    TooShort,
    /// Longer than the largest frame this switch carries.
    TooLong,
    /// A reserved or impossible source address (group bit set, or all zero).
    BadSource,
    /// The destination is the port that the packet came from, or there is no other port.
    NoDestination,
    /// The packet's VLAN is not one of the port's.
    VlanDenied,
    /// Above the port's limit for broadcast and multicast.
    BroadcastLimit,
    /// Above the port's limit for unknown unicast.
    UnknownLimit,
    /// Sent from an address that is pinned to another port.
    StaticMacViolation,
    /// Sent from an address that is in use at another port, and may not move.
    MacMoveRefused,
    /// Sent from an address that is not among the port's allowed addresses.
    MacViolation,
    /// Its IP source address is not one of the port's, or its headers cannot be read on a port with a source guard.
    SourceViolation,
    /// An ARP packet whose sender is not one of the port's addresses.
    ArpViolation,
    /// A neighbor discovery message that the port may not send.
    NdViolation,
    /// A DHCP message that the port may not send, or whose lease could not be recorded.
    DhcpViolation,
    /// In more pieces than a frame may have ([`ring::MAX_PIECES`]).
    TooManyPieces,
    /// Its source was stopped before it was sent everywhere.
    SourceStopped,
    /// What its source left to be done (checksum, segments) contradicts the packet, or cannot be done where it was written.
    BadOffload,
    /// A fault that the operator asked for.
    Injected,
    /// The destination's queue had no buffer.
    QueueFull,
    /// The handoff queue to the next stage, or the pool behind it, had no room.
    HandoffFull,
    /// The destination's buffers are too small for the packet.
    BufferTooSmall,
    /// The kernel did not take the packet: it contradicts itself, or its source's memory has gone.
    Refused,
    /// The destination has no running queue, or its interface is down.
    PortDown,
    /// The destination's queue was found to be broken while the packet was on its way.
    PortFault,
    /// The packet was to be recirculated more often than [`crate::MOST_PASSES`] allows.
    RecirculationLimit,
    /// The queue to the control plane was full.
    PuntFull,
}

impl DropReason {
    /// Every reason, in the order of their counters.
    pub const ALL: [DropReason; 26] = [
        DropReason::TooShort,
        DropReason::TooLong,
        DropReason::BadSource,
        DropReason::NoDestination,
        DropReason::VlanDenied,
        DropReason::BroadcastLimit,
        DropReason::UnknownLimit,
        DropReason::StaticMacViolation,
        DropReason::MacMoveRefused,
        DropReason::MacViolation,
        DropReason::SourceViolation,
        DropReason::ArpViolation,
        DropReason::NdViolation,
        DropReason::DhcpViolation,
        DropReason::TooManyPieces,
        DropReason::SourceStopped,
        DropReason::BadOffload,
        DropReason::Injected,
        DropReason::QueueFull,
        DropReason::HandoffFull,
        DropReason::BufferTooSmall,
        DropReason::Refused,
        DropReason::PortDown,
        DropReason::PortFault,
        DropReason::RecirculationLimit,
        DropReason::PuntFull,
    ];

    /// How many reasons there are.
    pub const COUNT: usize = Self::ALL.len();

    /// The name in tables, JSON and documentation.
    pub const fn name(self) -> &'static str {
        match self {
            DropReason::TooShort => "too-short",
            DropReason::TooLong => "too-long",
            DropReason::BadSource => "bad-source",
            DropReason::NoDestination => "no-destination",
            DropReason::VlanDenied => "vlan-denied",
            DropReason::BroadcastLimit => "broadcast-limit",
            DropReason::UnknownLimit => "unknown-limit",
            DropReason::StaticMacViolation => "static-mac-violation",
            DropReason::MacMoveRefused => "mac-move-refused",
            DropReason::MacViolation => "mac-violation",
            DropReason::SourceViolation => "source-violation",
            DropReason::ArpViolation => "arp-violation",
            DropReason::NdViolation => "nd-violation",
            DropReason::DhcpViolation => "dhcp-violation",
            DropReason::TooManyPieces => "too-many-pieces",
            DropReason::SourceStopped => "source-stopped",
            DropReason::BadOffload => "bad-offload",
            DropReason::Injected => "injected",
            DropReason::QueueFull => "queue-full",
            DropReason::HandoffFull => "handoff-full",
            DropReason::BufferTooSmall => "buffer-too-small",
            DropReason::Refused => "refused",
            DropReason::PortDown => "port-down",
            DropReason::PortFault => "port-fault",
            DropReason::RecirculationLimit => "recirculation-limit",
            DropReason::PuntFull => "punt-full",
        }
    }
}

/// Why a port was stopped. No other port's traffic is touched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortFault {
    /// The guest's ring breaks the rules of VIRTIO.
    #[error("the guest broke its virtqueue: {0}")]
    Ring(#[from] RingFault),
    /// The file behind the peer's memory became shorter than what was shared.
    #[error("the peer truncated the file behind its memory")]
    MemoryLost,
    /// A ring's address lies in no region.
    #[error("the {0} area of a virtqueue lies outside the shared memory or is misaligned")]
    RingOutside(&'static str),
    /// A descriptor that should be an event descriptor is something else.
    #[error("the {0} descriptor is not usable: {1}")]
    BadDescriptor(&'static str, String),
    /// A worker of this switch does not answer, so it may still hold the port's rings and memory.
    #[error(
        "worker {0} of this switch does not answer; the port waits until it has let go of its rings and memory"
    )]
    WorkerHung(usize),
    /// A worker of this switch failed in the middle of a burst, so the state of the port's queues is unknown.
    #[error(
        "worker code of this switch failed while it had the port's queues; the port starts anew, please report this"
    )]
    WorkerFailed,
    /// The port's place is not there: an interface, a namespace, a socket, what the kernel can do.
    #[error("the port cannot be made yet: {0}")]
    NotMade(String),
    /// The front end broke the vhost-user protocol.
    #[error("the front end broke the vhost-user protocol: {0}")]
    Protocol(String),
    /// The back end's side of a virtqueue breaks the rules of VIRTIO.
    #[error("the back end broke its virtqueue: {0}")]
    UsedRing(RingFault),
    /// The back end broke the vhost-user protocol, or does not answer.
    #[error("the back end broke the vhost-user protocol: {0}")]
    BackEnd(String),
    /// The back end has less than the port was told to ask for.
    #[error("the back end does not suit this port: {0}")]
    Unsuited(String),
    /// There is no memory for a port's rings and buffers.
    #[error("there is no memory for the port's rings and buffers: {0}")]
    NoMemory(String),
    /// A network interface is gone, or does not do what it did.
    #[error("the interface cannot be used: {0}")]
    Interface(String),
    /// The process at the other end of a socket does not want this port, or is not what this port wants.
    #[error("the peer and this port do not suit each other: {0}")]
    Refused(String),
    /// The peer's side of a memif ring breaks the rules.
    #[error("the peer broke its ring: {0}")]
    PeerRing(#[from] crate::memif::RingFault),
    /// The file that a port writes to takes no more.
    #[error("the file cannot be written any further: {0}")]
    File(String),
    /// There is no listener at the other end of a socket, yet or any more.
    #[error("the other end cannot be reached yet: {0}")]
    Unreachable(String),
    /// The process at the other end of a socket broke the protocol that both speak.
    #[error("the peer broke the protocol: {0}")]
    Peer(String),
    /// A queue cannot continue from the state of a stopped one.
    #[error("the state of the stopped queue is invalid: {0}; start the port anew")]
    State(&'static str),
}
