//! The memory that frames lie in, on their way from the kernel and to it: the one unsafe room of this port's queues.
//!
//! One region for all queues of a port, cut into frames of one size. Each queue has a stretch of its own: first the
//! frames to receive into, then those to send from. The kernel writes a received frame behind a headroom of
//! [`HEADROOM`] bytes; what is sent begins where its frame does.
//!
//! Protocol: a frame is ours, or in one of the rings. The kernel touches those in the rings only, and still nothing in
//! any of them is ever behind a reference.

use crate::interface::{InterfaceError, Place};
use crate::retain::Lender;
use crate::{Frame, PortFault};
use mem::copy::Kernel;
use mem::{GuestMemory, Region, VolatileSlice};
use std::sync::Arc;

/// `XDP_PACKET_HEADROOM`: bytes in front of each received frame that the kernel keeps for programs.
const HEADROOM: u32 = 256;
/// Frames of this size hold a packet of 1500 bytes with its Ethernet header and two tags.
const SMALL: u32 = 2048;
/// A page, the most that the kernel takes. Longer packets are in several.
const LARGE: u32 = 4096;
/// Bytes beyond the MTU: an Ethernet header and two tags.
const OVERHEAD: u32 = 22;

/// Frames of one size.
#[derive(Debug)]
pub(super) struct Umem {
    map: Arc<GuestMemory>,
    whole: VolatileSlice,
    /// Binary logarithm of a frame's bytes.
    shift: u32,
    /// Frames of each queue, half of them to receive into.
    per_queue: u32,
    /// Whether a packet may need several frames.
    pieces: bool,
}

impl Umem {
    /// Memory for `queues` queues with rings of `ring` entries, on an interface with this MTU.
    pub(super) fn new(place: &Place, queues: u16, ring: u16, mtu: u32) -> Result<Self, InterfaceError> {
        let pieces = mtu + OVERHEAD > SMALL - HEADROOM;
        let frame = if pieces { LARGE } else { SMALL };
        let per_queue = 2 * u32::from(ring);
        let bytes = u64::from(queues) * u64::from(per_queue) * u64::from(frame);
        let memory = |why: String| InterfaceError::Memory(place.clone(), why);
        let len = u32::try_from(bytes).map_err(|_| {
            memory(format!("{bytes} bytes were asked for, and the limit is 4 GiB; ask for shorter rings"))
        })?;
        let region = Region::anonymous(bytes).map_err(|e| memory(e.to_string()))?;
        let whole = region.seg(0, len).unwrap_or(VolatileSlice::EMPTY);
        let map = GuestMemory::new(vec![Arc::new(region)]).map_err(|e| memory(e.to_string()))?;
        Ok(Self { map: Arc::new(map), whole, shift: frame.trailing_zeros(), per_queue, pieces })
    }

    /// What a burst pins.
    pub(super) fn map(&self) -> &Arc<GuestMemory> {
        &self.map
    }

    /// Address and bytes in this process.
    pub(super) fn extent(&self) -> (u64, u64) {
        (self.whole.addr() as u64, self.whole.len() as u64)
    }

    /// Bytes of a frame, headroom and all.
    pub(super) fn frame_size(&self) -> u32 {
        1 << self.shift
    }

    /// Whether a packet may need several frames.
    pub(super) fn has_pieces(&self) -> bool {
        self.pieces
    }

    /// The numbers of the frames that queue `queue` receives into, then of those that it sends from.
    pub(super) fn frames(&self, queue: u16) -> (std::ops::Range<u32>, std::ops::Range<u32>) {
        let first = u32::from(queue) * self.per_queue;
        let (middle, end) = (first + self.per_queue / 2, first + self.per_queue);
        (first..middle, middle..end)
    }

    /// What lends these frames.
    pub(super) fn lender(&self, frames: std::ops::Range<u32>) -> Lender {
        let first = self.whole.split_at(self.address(frames.start) as usize).1;
        Lender::new(first, self.frame_size() as usize, frames.len())
    }

    /// The offset at which frame `frame` begins.
    #[inline(always)]
    pub(super) fn address(&self, frame: u32) -> u64 {
        u64::from(frame) << self.shift
    }

    /// The frame that an offset lies in.
    #[inline(always)]
    pub(super) fn frame_of(&self, address: u64) -> u32 {
        (address >> self.shift) as u32
    }

    /// `len` bytes at an offset that the kernel named; a fault where they are not all inside.
    #[inline(always)]
    pub(super) fn received(&self, address: u64, len: u32) -> Result<VolatileSlice, PortFault> {
        self.whole.slice(address as usize, len as usize).ok_or_else(outside)
    }

    /// How many frames a packet of `len` bytes takes to send.
    #[inline(always)]
    pub(super) fn frames_for(&self, len: usize) -> usize {
        len.div_ceil(1 << self.shift)
    }

    /// Fetches the line that a short packet is written to.
    #[inline(always)]
    pub(super) fn prefetch_write(&self, frame: u32) {
        self.whole.prefetch_write(self.address(frame) as usize);
    }

    /// Writes a packet of `len` bytes into `frames`, which are ours and hold it.
    #[inline(always)]
    pub(super) fn fill<K: Kernel>(&self, frames: &[u32], packet: &Frame<'_>, len: usize) {
        let place = |frame: u32, len| self.whole.slice(self.address(frame) as usize, len);
        if let [frame] = *frames {
            let Some(to) = place(frame, len) else { return };
            // SAFETY: the map is held by `self`; the place has the packet's length.
            return unsafe { packet.write_to::<K>(to) };
        }
        let to = frames.iter().filter_map(|&frame| place(frame, 1 << self.shift));
        // SAFETY: as above; the caller took as many frames as hold the packet.
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
    fn each_queue_has_frames_of_its_own_for_either_direction() {
        let umem = umem(1500);
        assert_eq!(umem.frames(0), (0..128, 128..256));
        assert_eq!(umem.frames(2), (512..640, 640..768));
        assert_eq!(umem.extent().1, 3 * 256 * 2048);
        assert_eq!(umem.frame_of(umem.address(300) + 256), 300);
    }

    #[test]
    fn packets_beyond_a_frame_are_in_pieces() {
        assert!(!umem(1500).has_pieces() && !umem(1770).has_pieces());
        let large = umem(9000);
        assert!(large.has_pieces() && umem(1771).has_pieces());
        assert_eq!((large.frame_size(), large.frames_for(4096), large.frames_for(9018)), (4096, 1, 3));
    }

    #[test]
    fn nothing_outside_of_the_memory_is_received() {
        let umem = umem(1500);
        let end = umem.extent().1;
        assert!(umem.received(end - 60, 60).is_ok());
        assert!(umem.received(end - 60, 61).is_err() && umem.received(u64::MAX, 1).is_err());
    }
}
