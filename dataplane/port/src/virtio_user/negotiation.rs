//! Start of every connection, up to feature negotiation: selects the next request from the replies so far.
//!
//! Sans-IO and without time: used by the blocking [`super::FrontEnd`] and by the port's link, one request at a time.
//! Checks whether a reply is valid; the caller checks whether the result is sufficient.

use super::{FrontEndError, Negotiated, offloads};
use crate::vhost::Features;
use crate::vhost::message::{MAX_TABLE, ProtocolFeatures, Request};
use virtio_bindings::virtio_config::{
    VIRTIO_CONFIG_S_ACKNOWLEDGE, VIRTIO_CONFIG_S_DRIVER, VIRTIO_CONFIG_S_FEATURES_OK,
};

/// Protocol features supported by this front end.
const WANTED: u64 = ProtocolFeatures::MQ
    | ProtocolFeatures::RARP
    | ProtocolFeatures::REPLY_ACK
    | ProtocolFeatures::NET_MTU
    | ProtocolFeatures::RESET_DEVICE
    | ProtocolFeatures::CONFIGURE_MEM_SLOTS
    | ProtocolFeatures::STATUS;

/// Device status of a driver that has recognised the device (VIRTIO 1.2 section 2.1).
const DRIVER: u32 = VIRTIO_CONFIG_S_ACKNOWLEDGE | VIRTIO_CONFIG_S_DRIVER;

/// State of the negotiation; each step is one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Owner,
    Offered,
    ProtocolOffered,
    Protocol,
    QueuePairs,
    MemorySlots,
    Driver,
    Features,
    FeaturesOk,
    Confirm,
    Agreed,
}

/// A negotiation in progress.
#[derive(Debug)]
pub(super) struct Negotiation {
    wanted: Features,
    step: Step,
    so_far: Negotiated,
}

impl Negotiation {
    /// Starts a negotiation of at most `wanted`.
    pub(super) fn new(wanted: Features) -> Self {
        Self { wanted, step: Step::Owner, so_far: Negotiated::EMPTY }
    }

    /// Result so far.
    pub(super) fn negotiated(&self) -> Negotiated {
        self.so_far
    }

    /// The next request. `None`: negotiation is complete.
    pub(super) fn next(&self) -> Option<Request> {
        Some(match self.step {
            Step::Owner => Request::SetOwner,
            Step::Offered => Request::GetFeatures,
            Step::ProtocolOffered => Request::GetProtocolFeatures,
            Step::Protocol => Request::SetProtocolFeatures(self.so_far.protocol.0),
            Step::QueuePairs => Request::GetQueueNum,
            Step::MemorySlots => Request::GetMaxMemSlots,
            Step::Driver => Request::SetStatus(DRIVER.into()),
            Step::Features => Request::SetFeatures(self.so_far.features.0),
            Step::FeaturesOk => Request::SetStatus((DRIVER | VIRTIO_CONFIG_S_FEATURES_OK).into()),
            Step::Confirm => Request::GetStatus,
            Step::Agreed => return None,
        })
    }

    /// Whether the back end acknowledges the request of [`Negotiation::next`]. `SET_PROTOCOL_FEATURES` enables
    /// acknowledgements and is not acknowledged itself.
    pub(super) fn is_acknowledged(&self) -> bool {
        self.step > Step::Protocol && self.so_far.protocol.has(ProtocolFeatures::REPLY_ACK)
    }

    /// Advances to the next step: the request of [`Negotiation::next`] was sent and, if it has a reply of its own, the
    /// reply's value is `number`.
    pub(super) fn complete_step(&mut self, number: u64) -> Result<(), FrontEndError> {
        match self.step {
            Step::Offered => {
                let offered = Features(number & (self.wanted.0 | Features::PROTOCOL));
                self.so_far.features = offloads::acceptable(offered);
            }
            Step::ProtocolOffered => self.so_far.protocol = ProtocolFeatures(number & WANTED),
            Step::QueuePairs => self.so_far.queue_pairs = number.clamp(1, 0x8000) as u16,
            Step::MemorySlots => self.so_far.memory_slots = number as usize,
            Step::Confirm if number & u64::from(VIRTIO_CONFIG_S_FEATURES_OK) == 0 => {
                return Err(FrontEndError::Features(self.so_far.features.0));
            }
            _ => {}
        }
        self.step = self.step.after();
        while !self.applies() {
            self.step = self.step.after();
        }
        Ok(())
    }

    /// Whether the step applies to this back end.
    fn applies(&self) -> bool {
        let Negotiated { features, protocol, .. } = self.so_far;
        match self.step {
            Step::ProtocolOffered | Step::Protocol => features.has(Features::PROTOCOL),
            Step::QueuePairs => protocol.has(ProtocolFeatures::MQ),
            Step::MemorySlots => protocol.has(ProtocolFeatures::CONFIGURE_MEM_SLOTS),
            Step::Driver | Step::FeaturesOk | Step::Confirm => protocol.has(ProtocolFeatures::STATUS),
            Step::Owner | Step::Offered | Step::Features | Step::Agreed => true,
        }
    }
}

impl Step {
    fn after(self) -> Self {
        match self {
            Step::Owner => Step::Offered,
            Step::Offered => Step::ProtocolOffered,
            Step::ProtocolOffered => Step::Protocol,
            Step::Protocol => Step::QueuePairs,
            Step::QueuePairs => Step::MemorySlots,
            Step::MemorySlots => Step::Driver,
            Step::Driver => Step::Features,
            Step::Features => Step::FeaturesOk,
            Step::FeaturesOk => Step::Confirm,
            Step::Confirm | Step::Agreed => Step::Agreed,
        }
    }
}

impl Negotiated {
    /// State before the first reply.
    pub(super) const EMPTY: Self = Self {
        features: Features(0),
        protocol: ProtocolFeatures(0),
        queue_pairs: 1,
        memory_slots: MAX_TABLE,
    };
}
