//! The virtio-net headers of what a guest sends, where it may leave work to be done.
//!
//! A sweep notes where headers lie and asks for their lines; when all of it is in the burst, each is read once, into
//! private memory, and judged against its packet and against what was negotiated. A packet whose header cannot be
//! honoured is taken out of the burst again and counted; its buffer goes back with the others.

use crate::{BURST, Burst, Capabilities, DropReason, OFFLOAD_HEADER, Offload, Tally};
use mem::Seg;
use mem::copy::Portable;

/// The headers of the burst that is being filled.
pub(super) struct Headers {
    /// What the guest may leave to be done.
    allowed: Capabilities,
    /// By packet; empty where the header has been read already.
    places: Box<[Seg; BURST]>,
}

impl Headers {
    pub(super) fn new(allowed: Capabilities) -> Self {
        Self { allowed, places: Box::new([Seg::EMPTY; BURST]) }
    }

    /// Whether headers say anything.
    #[inline(always)]
    pub(super) fn are_read(&self) -> bool {
        self.allowed != Capabilities::NONE
    }

    /// The header of the packet that is going to be number `i` lies there.
    #[inline(always)]
    pub(super) fn note(&mut self, i: usize, header: Seg) {
        header.prefetch_read(0);
        self.places[i] = header;
    }

    /// Reads the headers of all packets from number `from` on.
    #[inline]
    pub(super) fn read(&mut self, from: usize, burst: &mut Burst, tally: &mut Tally) {
        if !self.are_read() {
            return;
        }
        let mut i = from;
        for k in from..burst.len() {
            let place = self.places[k];
            if place.is_empty() || self.judge(i, of(place), burst, tally) {
                i += 1;
            }
        }
    }

    /// Judges the header of packet `i`. Whether the packet stays.
    #[inline]
    pub(super) fn judge(
        &self,
        i: usize,
        header: [u8; OFFLOAD_HEADER],
        burst: &mut Burst,
        tally: &mut Tally,
    ) -> bool {
        if !self.are_read() {
            return true;
        }
        match Offload::judge(header, burst.frame_len(i)) {
            // A driver vouches for nothing (VIRTIO 1.2 section 5.1.6.2), so that word is not passed on.
            Ok(offload) if !offload.is_work() => true,
            Ok(offload) if self.allowed.cover(offload.needs()) => {
                burst.set_offload(i, offload);
                true
            }
            _ => {
                burst.remove(i);
                tally.drop(DropReason::BadOffload, 1);
                false
            }
        }
    }
}

/// The words of a header in one piece.
#[inline(always)]
fn of(header: Seg) -> [u8; OFFLOAD_HEADER] {
    let mut words = [0; OFFLOAD_HEADER];
    let there = header.split_at(OFFLOAD_HEADER).0;
    // SAFETY: the burst that is being filled pins the map of what the sweep brought; the slice has the segment's length.
    unsafe { there.copy_out::<Portable>(&mut words[..there.len()]) };
    words
}

/// The words of a header at the front of a chain, in however many pieces.
pub(super) fn of_chain(chain: &[Seg]) -> [u8; OFFLOAD_HEADER] {
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
