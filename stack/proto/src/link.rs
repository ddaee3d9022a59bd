//! Where frames leave: the transmit side of ports.

#[cfg(any(test, feature = "fuzz"))]
mod recorder;

use crate::ip::InterfaceId;
use crate::{Payload, Slice};
use core::ops::Range;
#[cfg(any(test, feature = "fuzz"))]
pub use recorder::Recorder;

/// Offloads that a link completes for frames passed to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkOffloads {
    /// TCP and UDP checksums.
    pub checksum: bool,
    /// Maximum length in bytes of a TCP frame over IPv4 that the link cuts into segments (TSO); 0 without TSO.
    pub tso4: u32,
    /// The same over IPv6.
    pub tso6: u32,
    /// Maximum length in bytes of a UDP frame that the link cuts into datagrams (USO); 0 without USO.
    pub uso: u32,
}

/// Protocol of a frame to be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segmentation {
    /// TCP over IPv4.
    Tcp4,
    /// TCP over IPv6.
    Tcp6,
    /// UDP, each segment a datagram.
    Udp,
}

/// Offloads that one frame needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxOffload {
    /// Start of the checksum's range and offset of its field from there, in bytes; the range ends with the frame, and
    /// the field holds the folded sum of the pseudo header.
    pub checksum: Option<(u16, u16)>,
    /// Kind of the segments and their payload in bytes.
    pub segments: Option<(Segmentation, u16)>,
    /// Whether the segments set CWR only in the first one (VIRTIO 1.2 section 5.1.6.2, `GSO_ECN`).
    pub ecn: bool,
}

/// A range of a payload, to be copied behind a header.
#[derive(Debug)]
pub struct Piece<'a, P> {
    /// The payload.
    pub data: &'a P,
    /// Bytes of it.
    pub range: Range<usize>,
}

impl<'a, P: Payload> Piece<'a, P> {
    /// A range of a slice.
    pub fn of(slice: &'a Slice<P>, range: Range<usize>) -> Self {
        let start = slice.range().start;
        Self { data: slice.data(), range: start + range.start..start + range.end }
    }
}

/// The transmit side of the ports of a stack.
pub trait Link {
    /// Payload of the stack.
    type Payload: Payload;

    /// Offloads of the interface. Does not change while the stack uses it.
    fn offloads(&self, interface: InterfaceId) -> LinkOffloads;

    /// Whether the interface has room for one more frame of any length up to its limits.
    fn has_room(&mut self, interface: InterfaceId) -> bool;

    /// Sends a frame: `head`, then the pieces. The caller has checked [`Link::has_room`]. Payload that the link still
    /// refers to when this function returns must be cloned.
    fn send<'a>(
        &mut self,
        interface: InterfaceId,
        head: &[u8],
        pieces: impl Iterator<Item = Piece<'a, Self::Payload>>,
        offload: TxOffload,
    ) where
        Self::Payload: 'a;
}
