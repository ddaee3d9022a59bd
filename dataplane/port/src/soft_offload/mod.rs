//! Software offload: checksums and segments that a source left to be done and a destination does not do.
//!
//! A packet stays where it lies here as well. A finished packet is a new private head, in which lengths, numbers and
//! checksums are right, and a stretch of the same segments in the source's memory; so a packet of 64 KiB becomes its
//! segments without a copy, and each of them moves once, to its destination. Only the sums read the payload, where it
//! lies. What is made belongs to the burst that it was made of, and must be sent before that burst is completed.
//!
//! Fields that contradict the headers are [`BadOffload`]. Nothing is allocated after the first packets, and no packet
//! takes longer than [`MOST_SEGMENTS`] segments do.

mod pieces;
mod plan;
mod sums;
#[cfg(test)]
mod tests;

use crate::burst::{HEADROOM, LONGEST_HEAD};
use crate::{BadOffload, Burst};
use mem::copy::Portable;
use pieces::Pieces;
use plan::Plan;

/// Most segments of one packet: 64 KiB in pieces of 88 bytes, the least that TCP may agree on, and some more.
pub const MOST_SEGMENTS: usize = 1024;

/// Longest head that a packet may come with: one that was pulled longer, or has grown by an edit.
const MOST_HEAD: usize = HEADROOM + LONGEST_HEAD;

/// A packet that is being finished.
#[derive(Debug)]
pub struct SoftGso {
    plan: Plan,
    /// The packet's first bytes: all headers, and what else the source's burst had of them.
    head: [u8; MOST_HEAD],
    have: usize,
    /// Bytes of payload that are sent already.
    sent: usize,
    pieces: Pieces,
    next: usize,
}

impl SoftGso {
    /// Looks at packet `i` of `source`, in which there is work to do.
    ///
    /// # Errors
    /// [`BadOffload`]: the work contradicts the packet's headers, or there would be too many segments.
    pub fn start(source: &Burst, i: usize) -> Result<Self, BadOffload> {
        let (frame, mut head) = (source.frame(i), [0; MOST_HEAD]);
        let plan = Plan::of(frame.head, frame.offload, source.frame_len(i))?;
        let have = frame.head.len().max(plan.private());
        if have > MOST_HEAD || have > source.frame_len(i) {
            return Err(BadOffload);
        }
        frame.copy_to::<Portable>(&mut head[..have]);
        let mut pieces = Pieces::default();
        pieces.skip(&frame, have - frame.head.len());
        Ok(Self { plan, head, have, sent: 0, pieces, next: 0 })
    }

    /// How many packets this one becomes.
    pub fn packets(&self) -> usize {
        self.plan.packets()
    }

    /// Fills `made`, which it empties first, with as many finished packets as it holds. `false` when there were no
    /// more. `source` and `i` are those of [`SoftGso::start`].
    pub fn fill(&mut self, source: &Burst, i: usize, made: &mut Burst) -> bool {
        made.begin_from(source);
        while made.len() < crate::BURST && self.next < self.plan.packets() {
            self.make(source, i, made);
        }
        !made.is_empty()
    }

    fn make(&mut self, source: &Burst, i: usize, made: &mut Burst) {
        let headers = self.plan.headers();
        let payload = self.plan.payload(self.next);
        // Of the payload, the front of the first packets is private already.
        let private = (self.have - headers).saturating_sub(self.sent).min(payload);
        let mut head = [0; MOST_HEAD];
        head[..headers].copy_from_slice(&self.head[..headers]);
        let from = headers + self.sent.min(self.have - headers);
        head[headers..headers + private].copy_from_slice(&self.head[from..from + private]);
        let head = &mut head[..headers + private];
        self.plan.write_headers(head, self.next);
        let frame = source.frame(i);
        let number = made.push_made(head, self.pieces.take(&frame, payload - private));
        if let Some(number) = number {
            made.copy_notes(number, source, i);
            self.plan.write_checksum(made, number);
        }
        self.sent += payload;
        self.next += 1;
    }
}
