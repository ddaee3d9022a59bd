//! Software offload: checksums and segmentation (GSO) that a packet still needs and its destination does not support.
//!
//! Payload is not copied. An output packet consists of a new private head, with final lengths, sequence numbers and
//! checksums, and a range of the same segments in the source's memory. A packet of 64 KiB thus becomes its segments
//! without a copy, and each segment is copied once, by its destination. Only checksum computation reads the payload,
//! in place. Output packets belong to the source burst and must be sent before it is completed.
//!
//! Fields that contradict the headers cause [`BadOffload`]. Nothing is allocated after the first packets, and the
//! work per packet is limited to [`MAX_SEGMENTS`] segments.

mod pieces;
mod plan;
mod sums;
#[cfg(test)]
mod tests;

use crate::burst::{HEADROOM, MAX_HEAD};
use crate::{BadOffload, Burst};
use mem::copy::Portable;
pub(crate) use pieces::Pieces;
use plan::Plan;

/// Maximum segments of one packet: 64 KiB in segments of 88 bytes, the smallest TCP MSS, and a reserve.
pub const MAX_SEGMENTS: usize = 1024;

/// Maximum head of a source packet, which may be extended or have grown by an edit.
const MAX_INPUT_HEAD: usize = HEADROOM + MAX_HEAD;

/// Software offload of one packet.
#[derive(Debug)]
pub struct SoftGso {
    plan: Plan,
    /// First bytes of the packet: all headers, and the rest of the head in the source burst.
    head: [u8; MAX_INPUT_HEAD],
    have: usize,
    /// Payload bytes already sent.
    sent: usize,
    pieces: Pieces,
    next: usize,
}

impl SoftGso {
    /// Starts the offload of packet `i` of `source`, which must need one.
    ///
    /// # Errors
    /// [`BadOffload`] if the offload contradicts the packet's headers, or there would be too many segments.
    pub fn start(source: &Burst, i: usize) -> Result<Self, BadOffload> {
        let (frame, mut head) = (source.frame(i), [0; MAX_INPUT_HEAD]);
        let plan = Plan::of(frame.head, frame.offload, source.frame_len(i))?;
        let have = frame.head.len().max(plan.private());
        if have > MAX_INPUT_HEAD || have > source.frame_len(i) {
            return Err(BadOffload);
        }
        frame.copy_to::<Portable>(&mut head[..have]);
        let mut pieces = Pieces::default();
        pieces.skip(&frame, have - frame.head.len());
        Ok(Self { plan, head, have, sent: 0, pieces, next: 0 })
    }

    /// Number of output packets.
    pub fn packets(&self) -> usize {
        self.plan.packets()
    }

    /// Clears `segments` and fills it with as many output packets as fit. Returns `false` if there are no more.
    /// `source` and `i` must be those of [`SoftGso::start`].
    pub fn fill(&mut self, source: &Burst, i: usize, segments: &mut Burst) -> bool {
        segments.begin_from(source);
        while segments.len() < crate::BURST && self.next < self.plan.packets() {
            self.make(source, i, segments);
        }
        !segments.is_empty()
    }

    fn make(&mut self, source: &Burst, i: usize, segments: &mut Burst) {
        let headers = self.plan.headers();
        let payload = self.plan.payload(self.next);
        // Leading payload bytes may already be in the private head.
        let private = (self.have - headers).saturating_sub(self.sent).min(payload);
        let mut head = [0; MAX_INPUT_HEAD];
        head[..headers].copy_from_slice(&self.head[..headers]);
        let from = headers + self.sent.min(self.have - headers);
        head[headers..headers + private].copy_from_slice(&self.head[from..from + private]);
        let head = &mut head[..headers + private];
        self.plan.write_headers(head, self.next);
        let frame = source.frame(i);
        let number = segments.push_derived(head, self.pieces.take(&frame, payload - private));
        if let Some(number) = number {
            segments.copy_notes(number, source, i);
            self.plan.write_checksum(segments, number);
        }
        self.sent += payload;
        self.next += 1;
    }
}
