//! virtio-net headers of received packets, where the peer may leave offloads: from a guest to its back end, or from a
//! back end to a virtio-user driver.
//!
//! Each header is read once, into private memory, and validated against its packet and the negotiated features. A
//! packet with an invalid header is removed from the burst and counted; its buffer is returned with the others. Must
//! not be used if no offload was negotiated: the source need not fill in the header then.

use crate::{BURST, Burst, BurstStats, Capabilities, DropReason, OFFLOAD_HEADER, Offload};
use mem::VolatileSlice;
use mem::copy::Portable;

/// Offloads that the peer may request in a header.
#[derive(Clone, Copy)]
pub(crate) struct Allowed {
    /// Offloads that it may leave.
    work: Capabilities,
    /// Whether it may declare a checksum valid (`DATA_VALID`).
    vouches: bool,
}

impl Allowed {
    /// A driver must not set `DATA_VALID` (VIRTIO 1.2 section 5.1.6.2), so the flag is ignored.
    pub(crate) fn of_driver(work: Capabilities) -> Self {
        Self { work, vouches: false }
    }

    /// A device may set `DATA_VALID` (section 5.1.6.4).
    pub(crate) fn of_device(work: Capabilities) -> Self {
        Self { work, vouches: true }
    }

    /// Whether headers are used, that is, any offload was negotiated.
    #[inline(always)]
    pub(crate) fn is_any(self) -> bool {
        self.work != Capabilities::NONE
    }

    /// Validates the header of packet `i`. Returns `false` if the caller must remove the packet.
    #[inline]
    pub(crate) fn validate(
        self,
        i: usize,
        header: [u8; OFFLOAD_HEADER],
        burst: &mut Burst,
        stats: &mut BurstStats,
    ) -> bool {
        match Offload::validate(header, burst.frame_len(i)) {
            Ok(offload) if !offload.is_work() && !self.vouches => true,
            Ok(offload) if self.work.cover(offload.needs()) => {
                burst.set_offload(i, offload);
                true
            }
            _ => {
                stats.drop(DropReason::BadOffload, 1);
                false
            }
        }
    }
}

/// Headers of the burst being filled. Their addresses are recorded and prefetched during the batch; they are read
/// when the whole batch is in the burst.
pub(crate) struct Headers {
    allowed: Allowed,
    /// Header of each packet; empty if it was read already.
    places: Box<[VolatileSlice; BURST]>,
}

impl Headers {
    pub(crate) fn new(allowed: Allowed) -> Self {
        Self { allowed, places: Box::new([VolatileSlice::EMPTY; BURST]) }
    }

    /// Whether headers are used.
    #[inline(always)]
    pub(crate) fn are_read(&self) -> bool {
        self.allowed.is_any()
    }

    /// Records and prefetches the header of the packet that will have index `i`.
    #[inline(always)]
    pub(crate) fn note(&mut self, i: usize, header: VolatileSlice) {
        header.prefetch_read(0);
        self.places[i] = header;
    }

    /// Reads and validates the headers of all packets from `from` on, and removes packets with invalid ones.
    #[inline]
    pub(crate) fn read(&mut self, from: usize, burst: &mut Burst, stats: &mut BurstStats) {
        if !self.are_read() {
            return;
        }
        burst.filter(from, |burst, i, was| {
            let place = self.places[was];
            place.is_empty() || self.allowed.validate(i, of(place), burst, stats)
        });
    }

    /// Validates the header of the last packet, and removes the packet if it is invalid.
    #[inline]
    pub(crate) fn validate_last(
        &self,
        header: [u8; OFFLOAD_HEADER],
        burst: &mut Burst,
        stats: &mut BurstStats,
    ) {
        if self.are_read() {
            burst.filter(burst.len() - 1, |burst, i, _| self.allowed.validate(i, header, burst, stats));
        }
    }
}

/// Copies a header in one segment.
#[inline(always)]
fn of(header: VolatileSlice) -> [u8; OFFLOAD_HEADER] {
    let mut words = [0; OFFLOAD_HEADER];
    let there = header.split_at(OFFLOAD_HEADER).0;
    // SAFETY: the burst being filled pins the map of the batch; the slice has the segment's length.
    unsafe { there.copy_out::<Portable>(&mut words[..there.len()]) };
    words
}

/// Copies a header at the start of a chain, in any number of segments.
pub(crate) fn of_chain(chain: &[VolatileSlice]) -> [u8; OFFLOAD_HEADER] {
    let (mut words, mut at) = ([0; OFFLOAD_HEADER], 0);
    for seg in chain {
        let there = seg.split_at(OFFLOAD_HEADER - at).0;
        // SAFETY: as in `of`.
        unsafe { there.copy_out::<Portable>(&mut words[at..at + there.len()]) };
        at += there.len();
        if at == OFFLOAD_HEADER {
            break;
        }
    }
    words
}
