//! UMEM: the memory of received and transmitted frames. Contains the only unsafe code of this port that accesses
//! frames.
//!
//! One region for all queues of a port, divided into frames of one size. Each queue has a contiguous range: receive
//! frames, then transmit frames. The kernel writes a received packet after a headroom of [`HEADROOM`] bytes; a
//! transmitted packet starts at the start of its frame.
//!
//! Protocol: a frame is owned either by this process or by the kernel, which owns frames in the rings and accesses no
//! others. No reference to frame contents is ever formed.

use crate::interface::{InterfaceError, Place};
use crate::retain::Lender;
use crate::{Frame, PortFault};
use mem::copy::Kernel;
use mem::{GuestMemory, Region, VolatileSlice};
use std::sync::Arc;

/// `XDP_PACKET_HEADROOM`: bytes before each received packet that the kernel reserves for XDP programs.
const HEADROOM: u32 = 256;
/// Frame size for packets of up to 1500 bytes with an Ethernet header and two VLAN tags.
const SMALL: u32 = 2048;
/// One page, the maximum frame size of the kernel. Longer packets occupy several frames.
const LARGE: u32 = 4096;
/// Bytes beyond the MTU: an Ethernet header and two VLAN tags.
const OVERHEAD: u32 = 22;

/// Frames of one size.
#[derive(Debug)]
pub(super) struct Umem {
    map: Arc<GuestMemory>,
    whole: VolatileSlice,
    /// Binary logarithm of the frame size.
    shift: u32,
    /// Frames per queue; the first half is for reception.
    per_queue: u32,
    /// Whether a packet may need several frames.
    pieces: bool,
}

impl Umem {
    /// Allocates memory for `queues` queues with rings of `ring` entries, on an interface with this MTU.
    pub(super) fn new(place: &Place, queues: u16, ring: u16, mtu: u32) -> Result<Self, InterfaceError> {
        let pieces = mtu + OVERHEAD > SMALL - HEADROOM;
        let frame = if pieces { LARGE } else { SMALL };
        let per_queue = 2 * u32::from(ring);
        let bytes = u64::from(queues) * u64::from(per_queue) * u64::from(frame);
        let memory = |why: String| InterfaceError::Memory(place.clone(), why);
        let len = u32::try_from(bytes)
            .map_err(|_| memory(format!("rings need {bytes} bytes, above the limit of 4 GiB")))?;
        let region = Region::anonymous(bytes).map_err(|e| memory(e.to_string()))?;
        let whole = region.seg(0, len).unwrap_or(VolatileSlice::EMPTY);
        let map = GuestMemory::new(vec![Arc::new(region)]).map_err(|e| memory(e.to_string()))?;
        Ok(Self { map: Arc::new(map), whole, shift: frame.trailing_zeros(), per_queue, pieces })
    }

    /// Memory that a burst pins.
    pub(super) fn map(&self) -> &Arc<GuestMemory> {
        &self.map
    }

    /// Address and length in this process.
    pub(super) fn extent(&self) -> (u64, u64) {
        (self.whole.addr() as u64, self.whole.len() as u64)
    }

    /// Frame size in bytes, including headroom.
    pub(super) fn frame_size(&self) -> u32 {
        1 << self.shift
    }

    /// Whether a packet may need several frames.
    pub(super) fn has_pieces(&self) -> bool {
        self.pieces
    }

    /// Frame numbers of `queue`: receive frames, transmit frames.
    pub(super) fn frames(&self, queue: u16) -> (std::ops::Range<u32>, std::ops::Range<u32>) {
        let first = u32::from(queue) * self.per_queue;
        let (middle, end) = (first + self.per_queue / 2, first + self.per_queue);
        (first..middle, middle..end)
    }

    /// A lender of these frames.
    pub(super) fn lender(&self, frames: std::ops::Range<u32>) -> Lender {
        let first = self.whole.split_at(self.address(frames.start) as usize).1;
        Lender::new(first, self.frame_size() as usize, frames.len())
    }

    /// UMEM offset of the start of `frame`.
    #[inline(always)]
    pub(super) fn address(&self, frame: u32) -> u64 {
        u64::from(frame) << self.shift
    }

    /// Frame that contains a UMEM offset.
    #[inline(always)]
    pub(super) fn frame_of(&self, address: u64) -> u32 {
        (address >> self.shift) as u32
    }

    /// `len` bytes at a UMEM offset from the kernel. Returns an error if they exceed the UMEM.
    #[inline(always)]
    pub(super) fn received(&self, address: u64, len: u32) -> Result<VolatileSlice, PortFault> {
        self.whole.slice(address as usize, len as usize).ok_or_else(outside)
    }

    /// Number of frames that a transmitted packet of `len` bytes occupies.
    #[inline(always)]
    pub(super) fn frames_for(&self, len: usize) -> usize {
        len.div_ceil(1 << self.shift)
    }

    /// Prefetches the first line of `frame` for writing.
    #[inline(always)]
    pub(super) fn prefetch_write(&self, frame: u32) {
        self.whole.prefetch_write(self.address(frame) as usize);
    }

    /// Copies a packet of `len` bytes to `frames`, which the caller owns and which are large enough.
    #[inline(always)]
    pub(super) fn fill<K: Kernel>(&self, frames: &[u32], packet: &Frame<'_>, len: usize) {
        let place = |frame: u32, len| self.whole.slice(self.address(frame) as usize, len);
        if let [frame] = *frames {
            let Some(to) = place(frame, len) else { return };
            // SAFETY: `self` holds the map, and `to` has the packet's length.
            return unsafe { packet.write_to::<K>(to) };
        }
        let to = frames.iter().filter_map(|&frame| place(frame, 1 << self.shift));
        // SAFETY: `self` holds the map; the caller took enough frames for the packet.
        unsafe { packet.scatter_to::<K>(to) };
    }
}

#[cold]
fn outside() -> PortFault {
    PortFault::Interface("the kernel named a frame outside of the port's memory".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn umem(mtu: u32) -> Umem {
        Umem::new(&Place { interface: "eth0".to_owned(), netns: None }, 3, 128, mtu).unwrap()
    }

    #[test]
    fn each_queue_has_its_own_rx_and_tx_frames() {
        let umem = umem(1500);
        assert_eq!(umem.frames(0), (0..128, 128..256));
        assert_eq!(umem.frames(2), (512..640, 640..768));
        assert_eq!(umem.extent().1, 3 * 256 * 2048);
        assert_eq!(umem.frame_of(umem.address(300) + 256), 300);
    }

    #[test]
    fn long_packets_span_frames() {
        assert!(!umem(1500).has_pieces() && !umem(1770).has_pieces());
        let large = umem(9000);
        assert!(large.has_pieces() && umem(1771).has_pieces());
        assert_eq!((large.frame_size(), large.frames_for(4096), large.frames_for(9018)), (4096, 1, 3));
    }

    #[test]
    fn addresses_outside_the_umem_are_rejected() {
        let umem = umem(1500);
        let end = umem.extent().1;
        assert!(umem.received(end - 60, 60).is_ok());
        assert!(umem.received(end - 60, 61).is_err() && umem.received(u64::MAX, 1).is_err());
    }
}
