//! Sending: frames of the stack become packets of bursts.
//!
//! A frame that fits is copied into the private head. Longer payload becomes segments over the memory of its buffers,
//! whose handles are held until the burst was sent. A burst that its queue does not take completely stays, and its
//! interface has no room when it is full.

use crate::Buffer;
use crate::distributor::Distributor;
use crate::inspect::Capture;
use crate::lease::SharedLease;
use engine::LocalPort;
use port::{Capabilities, GeneratedBurst, MAX_HEAD, Now, Offload, PLACES};
use stack::ip::InterfaceId;
use stack::{Link, LinkOffloads, Payload, Piece, Segmentation, Time, TxOffload};
use std::hash::{BuildHasher, RandomState};
use wire::MacAddress;

/// Maximum length in bytes of a frame that a port cuts into segments: what Linux and VIRTIO drivers accept.
const MAX_SEGMENTED: u32 = 65_535;

/// A port, and the burst that collects its frames.
pub(crate) struct Interface {
    pub(crate) port: LocalPort,
    /// Present if other threads have shares of the port.
    pub(crate) distributor: Option<Distributor>,
    /// Present then, too.
    pub(crate) lease: Option<SharedLease>,
    burst: GeneratedBurst,
    /// Number of the burst's frames that were sent.
    sent: usize,
    /// Buffers that the burst refers to.
    held: Vec<Buffer>,
    capabilities: Capabilities,
    is_ready: bool,
    /// Whether frames were sent since the last notification.
    is_published: bool,
    /// Whether the port never carries packets again.
    pub(crate) has_ended: bool,
}

/// The ports of a host, by [`InterfaceId`].
#[derive(Default)]
pub struct Ports {
    pub(crate) interfaces: Vec<Interface>,
    pub(crate) now: Time,
    /// Capture in progress.
    pub(crate) capture: Option<Box<Capture>>,
}

impl std::fmt::Debug for Ports {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ports").field("interfaces", &self.interfaces.len()).finish_non_exhaustive()
    }
}

/// A locally administered unicast address, for an interface without one.
pub fn random_mac() -> MacAddress {
    let [_, _, mut octets @ ..] = RandomState::new().hash_one("interface").to_ne_bytes();
    octets[0] = 2;
    MacAddress::new(octets)
}

impl Interface {
    pub(crate) fn new(port: LocalPort) -> Self {
        let mut burst = GeneratedBurst::new();
        burst.restart();
        let (capabilities, held) = (Capabilities::NONE, Vec::new());
        Self {
            port,
            distributor: None,
            lease: None,
            burst,
            sent: 0,
            held,
            capabilities,
            is_ready: false,
            is_published: false,
            has_ended: false,
        }
    }

    /// Returns `true` once, when the port has ended.
    pub(crate) fn ends(&mut self) -> bool {
        if self.has_ended || self.port.is_ready() {
            return false;
        }
        self.has_ended = self.port.has_ended();
        self.has_ended
    }

    /// Takes over a change of the port: a peer that connected again may support other offloads. Frames for the last one
    /// are lost. Returns whether the port started or stopped carrying packets.
    pub(crate) fn update(&mut self) -> bool {
        let is_ready = self.port.is_ready();
        let is_changed = is_ready != std::mem::replace(&mut self.is_ready, is_ready);
        if is_changed {
            self.capabilities = self.port.capabilities().unwrap_or_default();
            self.clear();
        }
        is_changed
    }

    fn clear(&mut self) {
        self.burst.restart();
        self.held.clear();
        self.sent = 0;
    }

    /// Number of frames that wait for the port.
    pub(crate) fn backlog(&self) -> usize {
        self.burst.len() - self.sent
    }

    /// Sends collected frames as far as the queue has room. Without a queue they are lost, as on an unplugged cable.
    pub(crate) fn flush(&mut self, now: Time, capture: &mut Option<Box<Capture>>) {
        let len = self.burst.len();
        if self.sent < len && self.is_ready {
            self.burst.set_now(Now(now.0));
            let from = self.sent;
            self.sent += self.port.send(&self.burst, &PLACES[from..len]);
            self.is_published |= self.sent > from;
            if let Some(capture) = capture {
                capture.sent(&self.burst, &PLACES[from..self.sent]);
            }
        }
        if len > 0 && (self.sent == len || !self.is_ready) {
            self.clear();
        }
    }

    /// Whether frames were sent since the last call.
    pub(crate) fn take_published(&mut self) -> bool {
        std::mem::take(&mut self.is_published)
    }

    /// Adds one piece to the last frame of the burst.
    #[inline(always)]
    fn add(&mut self, piece: &Piece<'_, Buffer>) {
        if let Some(to) = self.burst.extend_head(piece.range.len()) {
            return piece.data.copy_to(piece.range.start, to);
        }
        piece.data.segments(piece.range.clone(), |seg| self.burst.push_segment(seg));
        self.held.push(piece.data.clone());
    }

    fn offload(&self, needed: TxOffload) -> Offload {
        let Some((start, offset)) = needed.checksum else { return Offload::NONE };
        let offload = Offload::with_checksum(start, offset);
        let Some((kind, size)) = needed.segments else { return offload };
        let kind = match kind {
            Segmentation::Tcp4 => port::Segmentation::Tcp4,
            Segmentation::Tcp6 => port::Segmentation::Tcp6,
            Segmentation::Udp => port::Segmentation::Udp,
        };
        // Without support for ECN each segment has the flag of the first one, which a receiver tolerates.
        offload.with_segments(kind, size, needed.ecn && self.supports(Capabilities::ECN))
    }

    fn supports(&self, capability: u8) -> bool {
        self.capabilities.cover(Capabilities(capability))
    }
}

impl Ports {
    /// Sends all collected frames as far as there is room.
    pub(crate) fn flush(&mut self, now: Time) {
        let Self { interfaces, capture, .. } = self;
        for interface in interfaces {
            interface.flush(now, capture);
        }
    }
}

impl Link for Ports {
    type Payload = Buffer;

    fn offloads(&self, interface: InterfaceId) -> LinkOffloads {
        let Some(interface) = self.interfaces.get(usize::from(interface.0)) else {
            return LinkOffloads::default();
        };
        let longest =
            |kind: u8| if interface.supports(kind | Capabilities::CHECKSUM) { MAX_SEGMENTED } else { 0 };
        LinkOffloads {
            checksum: interface.supports(Capabilities::CHECKSUM),
            tso4: longest(Capabilities::TCP4),
            tso6: longest(Capabilities::TCP6),
            uso: longest(Capabilities::UDP),
        }
    }

    #[inline]
    fn has_room(&mut self, interface: InterfaceId) -> bool {
        let Self { interfaces, capture, now } = self;
        let Some(interface) = interfaces.get_mut(usize::from(interface.0)) else { return false };
        if interface.burst.len() == port::BURST {
            interface.flush(*now, capture);
        }
        interface.burst.len() < port::BURST
    }

    #[inline]
    fn send<'a>(
        &mut self,
        interface: InterfaceId,
        head: &[u8],
        pieces: impl Iterator<Item = Piece<'a, Buffer>>,
        offload: TxOffload,
    ) where
        Buffer: 'a,
    {
        let Some(interface) = self.interfaces.get_mut(usize::from(interface.0)) else { return };
        debug_assert!(head.len() <= MAX_HEAD);
        if !interface.burst.start_packet(head) {
            return;
        }
        for piece in pieces {
            interface.add(&piece);
        }
        let offload = interface.offload(offload);
        let i = interface.burst.len() - 1;
        interface.burst.set_offload(i, offload);
    }
}
