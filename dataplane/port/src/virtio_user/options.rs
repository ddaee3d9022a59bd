//! Configuration of a virtio-user port, and the check whether a back end meets it.

use super::{Negotiated, device, offloads};
use crate::PortFault;
use crate::Remedy;
use crate::memory::MAX_MEMORY;
use crate::queue::OutOfRange;
use crate::socket::ListenError;
use crate::vhost::Features;
use rustix::io::Errno;
use std::borrow::Cow;

/// Maximum ring size. Larger rings only use more memory.
pub const MAX_QUEUE_SIZE: u16 = 4096;
/// Minimum ring size: two bursts.
pub const MIN_QUEUE_SIZE: u16 = 128;

/// Ring kinds that a driver can request. The names are those of the peers' guests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RingKind {
    /// Split, the default of virtual machines.
    #[default]
    Split,
    /// Split with `VIRTIO_F_IN_ORDER`.
    SplitInOrder,
    /// Packed.
    Packed,
    /// Packed with `VIRTIO_F_IN_ORDER`.
    PackedInOrder,
}

/// Error: not the name of a ring kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no ring `{0}`; write split, split-inorder, packed or packed-inorder")]
pub struct UnknownRing(String);

impl std::fmt::Display for RingKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for RingKind {
    type Err = UnknownRing;

    fn from_str(text: &str) -> Result<Self, UnknownRing> {
        Self::ALL.into_iter().find(|kind| kind.name() == text).ok_or_else(|| UnknownRing(text.to_owned()))
    }
}

impl RingKind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Split, Self::SplitInOrder, Self::Packed, Self::PackedInOrder];

    /// Name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            RingKind::Split => "split",
            RingKind::SplitInOrder => "split-inorder",
            RingKind::Packed => "packed",
            RingKind::PackedInOrder => "packed-inorder",
        }
    }

    /// Whether `VIRTIO_F_RING_PACKED` is requested.
    pub fn is_packed(self) -> bool {
        matches!(self, RingKind::Packed | RingKind::PackedInOrder)
    }

    /// Whether `VIRTIO_F_IN_ORDER` is requested.
    pub fn is_in_order(self) -> bool {
        matches!(self, RingKind::SplitInOrder | RingKind::PackedInOrder)
    }

    /// Required features, each with its name.
    pub fn needs(self) -> &'static [(u64, &'static str)] {
        const PACKED: (u64, &str) = (Features::RING_PACKED, "packed rings");
        const IN_ORDER: (u64, &str) = (Features::IN_ORDER, "in-order use");
        match self {
            RingKind::Split => &[],
            RingKind::SplitInOrder => &[IN_ORDER],
            RingKind::Packed => &[PACKED],
            RingKind::PackedInOrder => &[PACKED, IN_ORDER],
        }
    }
}

/// Options of a virtio-user port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Kind of every ring. The port disconnects from a back end that does not support it.
    pub ring: RingKind,
    /// Entries per ring, [`MIN_QUEUE_SIZE`] to [`MAX_QUEUE_SIZE`]; a power of two for split rings.
    pub queue_size: u16,
    /// Queue pairs, 1 to 128. The port disconnects from a back end that has fewer.
    pub queue_pairs: u16,
    /// Whether received frames may span buffers, if the back end supports it.
    pub mergeable: bool,
    /// Longest packet in bytes, without its Ethernet header, that fits in one buffer (68 to 65535); a buffer holds at
    /// least 2048 bytes of frame. Longer packets are sent in several buffers, and received only if frames may span
    /// buffers.
    pub mtu: Option<u16>,
    /// Whether checksum and segmentation offloads are negotiated, in both directions, as far as the back end supports
    /// them.
    pub offloads: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            ring: RingKind::Split,
            queue_size: 1024,
            queue_pairs: 1,
            mergeable: true,
            mtu: None,
            offloads: true,
        }
    }
}

/// Why a port could not be created. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum PlugError {
    /// The socket could not be created.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// MTU or number of queue pairs out of range.
    #[error(transparent)]
    Range(#[from] OutOfRange),
    /// Ring size out of range.
    #[error("invalid ring size {0}")]
    QueueSize(u16),
    /// No descriptor could be created.
    #[error("cannot create an event descriptor: {0}")]
    Descriptor(Errno),
    /// Every value is in range, but the total memory is not.
    #[error("rings and buffers need {0} bytes, above the limit of {MAX_MEMORY} per port")]
    Memory(u64),
}

impl Remedy for PlugError {
    fn remedy(&self) -> Option<Cow<'static, str>> {
        Some(match self {
            Self::Listen(error) => return error.remedy(),
            Self::Range(error) => return error.remedy(),
            Self::QueueSize(..) => {
                format!("write {MIN_QUEUE_SIZE} to {MAX_QUEUE_SIZE}, on split rings a power of two").into()
            }
            Self::Memory(..) => "use fewer queue pairs, shorter rings or a smaller MTU".into(),
            Self::Descriptor(..) => return None,
        })
    }
}

impl Options {
    /// Returns an error if a value is out of range.
    pub(super) fn check(self) -> Result<(), PlugError> {
        OutOfRange::check(self.queue_pairs, self.mtu)?;
        let split = !self.ring.is_packed();
        let in_range = (MIN_QUEUE_SIZE..=MAX_QUEUE_SIZE).contains(&self.queue_size);
        if !in_range || split && !self.queue_size.is_power_of_two() {
            return Err(PlugError::QueueSize(self.queue_size));
        }
        if self.memory() > MAX_MEMORY {
            return Err(PlugError::Memory(self.memory()));
        }
        Ok(())
    }

    /// Features to request. With `EVENT_IDX`, a back end that is waking up receives only the first kick
    /// (`docs/decisions/0023-event-idx-where-offered.md`). A back end without it is accepted too.
    pub(super) fn wanted(self) -> Features {
        let mut bits = Features::VERSION_1 | Features::PROTOCOL | Features::EVENT_IDX;
        bits |= self.ring.needs().iter().map(|need| need.0).sum::<u64>();
        if self.mergeable {
            bits |= Features::MRG_RXBUF;
        }
        if self.queue_pairs > 1 {
            bits |= Features::MQ;
        }
        if self.offloads {
            bits |= offloads::ALL;
        }
        Features(bits)
    }

    /// Checks whether the negotiated features are sufficient.
    pub(super) fn validate(self, agreed: Negotiated) -> Result<(), PortFault> {
        let missing = self.ring.needs().iter().find(|need| !agreed.features.has(need.0));
        if let Some((_, name)) = missing {
            return Err(PortFault::Unsuited(format!(
                "it does not offer {name}; choose another kind of ring"
            )));
        }
        if agreed.queue_pairs < self.queue_pairs {
            let (has, wants) = (agreed.queue_pairs, self.queue_pairs);
            let remedy = "lower this port's number, or raise the back end's";
            return Err(PortFault::Unsuited(format!("it has {has} of {wants} queue pairs; {remedy}")));
        }
        Ok(())
    }

    /// Bytes of memory shared with the back end per connection.
    pub fn memory(self) -> u64 {
        device::bytes(self)
    }

    /// Frame bytes per buffer, including room for two VLAN tags.
    pub(super) fn room(self) -> u64 {
        let asked = self.mtu.map_or(0, |mtu| u64::from(mtu) + 14 + 8);
        asked.max(2048).next_multiple_of(128)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(change: impl FnOnce(&mut Options)) -> Options {
        let mut options = Options::default();
        change(&mut options);
        options
    }

    #[test]
    fn out_of_range_options_are_rejected() {
        assert!(Options::default().check().is_ok());
        for size in [0, 64, 300, 8192] {
            let error = with(|o| o.queue_size = size).check().unwrap_err();
            assert!(matches!(error, PlugError::QueueSize(s) if s == size), "{error}");
        }
        assert!(with(|o| (o.queue_size, o.ring) = (300, RingKind::Packed)).check().is_ok());
        for pairs in [0, 129] {
            assert!(with(|o| o.queue_pairs = pairs).check().is_err());
        }
        assert!(with(|o| o.mtu = Some(67)).check().is_err());
    }

    #[test]
    fn product_of_valid_options_out_of_range_is_rejected() {
        let largest = with(|o| (o.queue_pairs, o.queue_size, o.mtu) = (128, MAX_QUEUE_SIZE, Some(65535)));
        let error = largest.check().unwrap_err();
        assert!(matches!(error, PlugError::Memory(bytes) if bytes == largest.memory()), "{error}");
        assert!(with(|o| o.queue_pairs = 128).check().is_ok(), "every pair that there is, of the usual size");
    }

    #[test]
    fn missing_back_end_feature_is_named() {
        let options = with(|o| (o.ring, o.queue_pairs) = (RingKind::PackedInOrder, 2));
        let mut agreed = Negotiated { queue_pairs: 2, features: options.wanted(), ..Negotiated::EMPTY };
        assert_eq!(options.validate(agreed), Ok(()));
        agreed.queue_pairs = 1;
        let fault = options.validate(agreed).unwrap_err().to_string();
        assert!(fault.contains("it has 1 of 2 queue pairs; lower"), "{fault}");
        agreed.features = Features(agreed.features.0 & !Features::IN_ORDER);
        let fault = options.validate(agreed).unwrap_err().to_string();
        assert!(fault.contains("it does not offer in-order use; choose"), "{fault}");
    }

    #[test]
    fn buffer_fits_the_largest_packet_with_header_and_tags() {
        assert_eq!(Options::default().room(), 2048);
        assert_eq!(with(|o| o.mtu = Some(1500)).room(), 2048);
        assert_eq!(with(|o| o.mtu = Some(9000)).room(), 9088);
        assert!(with(|o| o.mtu = Some(65535)).room() >= 65535 + 22);
    }
}
