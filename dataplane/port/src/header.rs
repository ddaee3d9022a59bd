//! The virtio-net headers of what comes in, where the other side may leave work to be done: a guest to its back end, a
//! back end to the driver that a virtio-user port is.
//!
//! Each header is read once, into private memory, and judged against its packet and against what was negotiated. A packet
//! whose header cannot be honoured is taken out of the burst again and counted; its buffer goes back with the others.
//! Must never be used on a header that the source need not fill: without an offload negotiated it says nothing.

use crate::{BURST, Burst, BurstStats, Capabilities, DropReason, OFFLOAD_HEADER, Offload};
use mem::VolatileSlice;
use mem::copy::Portable;

/// What the other side may say in a header.
#[derive(Clone, Copy)]
pub(crate) struct Allowed {
    /// What it may leave to be done.
    work: Capabilities,
    /// Whether it may vouch for a checksum.
    vouches: bool,
}

impl Allowed {
    /// A driver vouches for nothing (VIRTIO 1.2 section 5.1.6.2), so that word of its is not passed on.
    pub(crate) fn of_driver(work: Capabilities) -> Self {
        Self { work, vouches: false }
    }

    /// A device may (section 5.1.6.4).
    pub(crate) fn of_device(work: Capabilities) -> Self {
        Self { work, vouches: true }
    }

    /// Whether headers say anything.
    #[inline(always)]
    pub(crate) fn is_any(self) -> bool {
        self.work != Capabilities::NONE
    }

    /// Validates the header of packet `i`. Whether the packet stays; the caller takes one out that does not.
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

/// The headers of the burst that is being filled: a batch notes where they lie and asks for their lines, and when all of
/// it is in the burst, each is read.
pub(crate) struct Headers {
    allowed: Allowed,
    /// By packet; empty where the header has been read already.
    places: Box<[VolatileSlice; BURST]>,
}

impl Headers {
    pub(crate) fn new(allowed: Allowed) -> Self {
        Self { allowed, places: Box::new([VolatileSlice::EMPTY; BURST]) }
    }

    /// Whether headers say anything.
    #[inline(always)]
    pub(crate) fn are_read(&self) -> bool {
        self.allowed.is_any()
    }

    /// The header of the packet that is going to be number `i` lies there.
    #[inline(always)]
    pub(crate) fn note(&mut self, i: usize, header: VolatileSlice) {
        header.prefetch_read(0);
        self.places[i] = header;
    }

    /// Reads the headers of all packets from number `from` on.
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

    /// Validates the header of the last packet, and takes the packet out where it cannot be honoured.
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

/// The words of a header in one piece.
#[inline(always)]
fn of(header: VolatileSlice) -> [u8; OFFLOAD_HEADER] {
    let mut words = [0; OFFLOAD_HEADER];
    let there = header.split_at(OFFLOAD_HEADER).0;
    // SAFETY: the burst that is being filled pins the map of what the batch brought; the slice has the segment's length.
    unsafe { there.copy_out::<Portable>(&mut words[..there.len()]) };
    words
}

/// The words of a header at the front of a chain, in however many pieces.
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
