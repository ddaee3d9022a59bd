//! Features offered for a configuration. Only supported features are offered;
//! `docs/decisions/0024-no-channel-for-requests-of-the-back-end.md` lists the code that implements each.

use crate::Remedy;
use crate::queue::OutOfRange;
use crate::socket::ListenError;
use crate::vhost::Features;
use crate::vhost::message::ProtocolFeatures;
use crate::vhost_user::session::{MAX_BYTES, Offer};
use rustix::io::Errno;
use std::borrow::Cow;

/// Features supported in every configuration.
const ALWAYS: u64 = Features::VERSION_1
    | Features::ANY_LAYOUT
    | Features::MRG_RXBUF
    | Features::INDIRECT_DESC
    | Features::EVENT_IDX
    | Features::RING_PACKED
    | Features::IN_ORDER
    | Features::PROTOCOL
    | Features::LOG_ALL
    | OFFLOADS;

/// Offloads in either direction. The worker completes those that a destination does not support.
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
    | ProtocolFeatures::LOG_SHMFD
    | ProtocolFeatures::RARP
    | ProtocolFeatures::REPLY_ACK
    | ProtocolFeatures::RESET_DEVICE
    | ProtocolFeatures::CONFIGURE_MEM_SLOTS
    | ProtocolFeatures::STATUS
    | ProtocolFeatures::DEVICE_STATE;

/// Options of a vhost-user port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Number of queue pairs to offer, 1 to 128.
    pub queue_pairs: u16,
    /// Maximum packet length, without Ethernet header, reported to the guest (68 to 65535 bytes). By default none is
    /// reported, and the guest uses its own.
    pub mtu: Option<u16>,
    /// Maximum memory that the front end may share, in bytes, at most [`MAX_BYTES`].
    pub memory: u64,
    /// Mask of the offered features. Unsupported features are never offered.
    pub features: Features,
}

/// Why a port could not be created. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum PlugError {
    /// The socket could not be created.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// An option is out of range.
    #[error(transparent)]
    Range(#[from] OutOfRange),
    /// No descriptor could be created.
    #[error("cannot create an event descriptor: {0}")]
    Descriptor(Errno),
}

impl Remedy for PlugError {
    fn remedy(&self) -> Option<Cow<'static, str>> {
        match self {
            Self::Listen(error) => error.remedy(),
            Self::Range(error) => error.remedy(),
            Self::Descriptor(..) => None,
        }
    }
}

impl Options {
    /// The same options without offloads: guests complete their packets themselves.
    #[must_use]
    pub fn without_offloads(self) -> Self {
        Self { features: Features(self.features.0 & !OFFLOADS), ..self }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self { queue_pairs: 1, mtu: None, memory: MAX_BYTES, features: Features(u64::MAX) }
    }
}

impl Options {
    /// Features to offer.
    ///
    /// Excludes `STATUS` and `GUEST_ANNOUNCE`, which need the configuration space and the control queue, which front
    /// ends do not forward. With `GUEST_ANNOUNCE` QEMU would also not send `SEND_RARP`.
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
            memory: self.memory.min(MAX_BYTES),
        })
    }
}
