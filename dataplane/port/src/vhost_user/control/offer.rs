//! What a port offers, from what its user asked for. Never more than is honoured: which code honours which line is in
//! `docs/decisions/0024-no-channel-for-requests-of-the-back-end.md`.

use crate::queue::OutOfRange;
use crate::socket::ListenError;
use crate::vhost::Features;
use crate::vhost::message::ProtocolFeatures;
use crate::vhost_user::session::Offer;

/// Everything that is honoured with every configuration.
const ALWAYS: u64 = Features::VERSION_1
    | Features::ANY_LAYOUT
    | Features::MRG_RXBUF
    | Features::INDIRECT_DESC
    | Features::EVENT_IDX
    | Features::RING_PACKED
    | Features::IN_ORDER
    | Features::PROTOCOL
    | OFFLOADS;

/// Work that may be left to be done, in either direction: what a destination does not do is done by the worker.
const OFFLOADS: u64 = Features::CSUM
    | Features::GUEST_CSUM
    | Features::GUEST_TSO4
    | Features::GUEST_TSO6
    | Features::GUEST_ECN
    | Features::HOST_TSO4
    | Features::HOST_TSO6
    | Features::HOST_ECN
    | Features::GUEST_USO4
    | Features::GUEST_USO6
    | Features::HOST_USO;

const PROTOCOL: u64 = ProtocolFeatures::MQ
    | ProtocolFeatures::RARP
    | ProtocolFeatures::REPLY_ACK
    | ProtocolFeatures::RESET_DEVICE
    | ProtocolFeatures::CONFIGURE_MEM_SLOTS
    | ProtocolFeatures::STATUS;

/// How a vhost-user port is configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Queue pairs to offer, 1 to 128.
    pub queue_pairs: u16,
    /// The largest packet, without its Ethernet header, that the guest is told of (68 to 65535 bytes). Without
    /// it nothing is said and the guest uses its own.
    pub mtu: Option<u16>,
    /// The most that may be offered. What is not honoured is never offered, whatever this says.
    pub features: Features,
}

/// Why a port could not be made. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum PlugError {
    /// The socket.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// A configuration out of range.
    #[error(transparent)]
    Range(#[from] OutOfRange),
}

impl Options {
    /// The same without offloads: guests finish their packets themselves.
    #[must_use]
    pub fn without_offloads(self) -> Self {
        Self { features: Features(self.features.0 & !OFFLOADS), ..self }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self { queue_pairs: 1, mtu: None, features: Features(u64::MAX) }
    }
}

impl Options {
    /// What to offer.
    ///
    /// `STATUS` and `GUEST_ANNOUNCE` belong to the configuration space and the control queue, which front ends
    /// keep to themselves; offering the latter would also keep QEMU from sending `SEND_RARP`.
    pub(super) fn offer(self) -> Result<Offer, OutOfRange> {
        OutOfRange::check(self.queue_pairs, self.mtu)?;
        let mut features = ALWAYS;
        let mut protocol = PROTOCOL;
        if self.queue_pairs > 1 {
            features |= Features::MQ;
        }
        if self.mtu.is_some() {
            features |= Features::NET_MTU;
            protocol |= ProtocolFeatures::NET_MTU;
        }
        let features = Features(features & self.features.0);
        if !features.has(Features::PROTOCOL) {
            protocol = 0;
        }
        Ok(Offer {
            features,
            protocol: ProtocolFeatures(protocol),
            queue_pairs: self.queue_pairs,
            mtu: self.mtu,
        })
    }
}
