//! Copies of packets that wait, in chunks of private memory.
//!
//! Chunks are allocated with the queues of a port and with each handle, and are reused. A handle copies packets into
//! its own chunks without the lock of the queues, and exchanges full chunks for empty ones under it.

use crate::dscp::mark_congestion;
use crate::fq_codel::Waiting;
use mem::VolatileSlice;
use mem::copy::Kernel;
use port::{Frame, GeneratedBurst, Offload};

/// Bytes of a chunk, which holds a packet of a common MTU.
pub(crate) const CHUNK: usize = 2048;
/// Longest frame: 64 KiB with headers.
pub(crate) const LONGEST: usize = 65_550;
/// Bytes of the private head of a packet that is sent.
const HEAD: usize = 128;

/// Empty chunks. A chunk is boxed once, and moves to a packet and back as a pointer.
pub(crate) type Chunks = Vec<Box<Chunk>>;

/// A piece of memory of a packet.
pub(crate) struct Chunk {
    bytes: [u8; CHUNK],
    next: Option<Box<Chunk>>,
}

impl Chunk {
    pub(crate) fn new() -> Box<Self> {
        Box::new(Self { bytes: [0; CHUNK], next: None })
    }
}

/// A packet in chunks.
pub(crate) struct Packet {
    first: Box<Chunk>,
    len: u32,
    offload: Offload,
}

/// Number of chunks of a frame of `len` bytes.
pub(crate) fn chunks(len: usize) -> usize {
    len.div_ceil(CHUNK).max(1)
}

impl Packet {
    /// Copies a frame into chunks of `spare`. Returns `None` if there are too few, or the frame is too long. A frame of
    /// several chunks is copied through `staging` of [`LONGEST`] bytes.
    pub(crate) fn copy<K: Kernel>(
        frame: &Frame<'_>,
        len: usize,
        spare: &mut Chunks,
        staging: &mut [u8],
    ) -> Option<Self> {
        if spare.len() < chunks(len) || len > staging.len() {
            return None;
        }
        let mut first = spare.pop()?;
        if len <= CHUNK {
            let len = frame.copy_to::<K>(&mut first.bytes[..len]) as u32;
            return Some(Self { first, len, offload: frame.offload });
        }
        let len = frame.copy_to::<K>(&mut staging[..len]);
        let mut pieces = staging[..len].chunks(CHUNK);
        let mut fill = |chunk: &mut Chunk| {
            let piece = pieces.next().unwrap_or_default();
            chunk.bytes[..piece.len()].copy_from_slice(piece);
        };
        fill(&mut first);
        let mut last = &mut first;
        for _ in 1..chunks(len) {
            fill(last.next.insert(spare.pop()?));
            last = last.next.as_mut()?;
        }
        Some(Self { first, len: len as u32, offload: frame.offload })
    }

    /// Adds the packet to a burst. It must stay in place until the burst was sent. Returns `false` if the burst is
    /// full.
    pub(crate) fn push(&self, burst: &mut GeneratedBurst) -> bool {
        let len = self.len as usize;
        let at = burst.len();
        if !burst.start_packet(&self.first.bytes[..len.min(HEAD)]) {
            return false;
        }
        let (mut chunk, mut from) = (Some(&self.first), HEAD);
        let mut rest = len.saturating_sub(HEAD);
        while let Some(piece) = chunk.filter(|_| rest > 0) {
            let end = CHUNK.min(from + rest);
            burst.push_segment(VolatileSlice::of_private(&piece.bytes[from..end]));
            rest -= end - from;
            (chunk, from) = (piece.next.as_ref(), 0);
        }
        burst.set_offload(at, self.offload);
        true
    }

    /// Returns the chunks.
    pub(crate) fn free(self, pool: &mut Chunks) {
        let mut chunk = Some(self.first);
        while let Some(mut piece) = chunk {
            chunk = piece.next.take();
            pool.push(piece);
        }
    }
}

impl Waiting for Packet {
    fn bytes(&self) -> u32 {
        self.len
    }

    fn memory(&self) -> u32 {
        (chunks(self.len as usize) * CHUNK) as u32
    }

    fn mark(&mut self) -> bool {
        let len = (self.len as usize).min(CHUNK);
        mark_congestion(&mut self.first.bytes[..len])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mem::copy::Portable;

    #[test]
    fn packets_of_all_lengths_are_copied_and_their_chunks_return() {
        let (mut spare, mut staging): (Chunks, _) =
            ((0..64).map(|_| Chunk::new()).collect(), vec![0; LONGEST]);
        for len in [14, 60, 128, 129, CHUNK, CHUNK + 1, 9000, LONGEST] {
            let bytes: Vec<u8> = (0..len).map(|i| (i * 7 % 251) as u8).collect();
            let (mut burst, mut copy) = (GeneratedBurst::new(), GeneratedBurst::new());
            burst.restart();
            copy.restart();
            let (head, rest) = bytes.split_at(len.min(100));
            assert!(burst.start_packet(head));
            burst.push_segment(VolatileSlice::of_private(rest));
            let packet = Packet::copy::<Portable>(&burst.frame(0), len, &mut spare, &mut staging).unwrap();
            assert_eq!((packet.bytes() as usize, spare.len()), (len, 64 - chunks(len)));
            assert!(packet.push(&mut copy));
            let mut found = vec![0; len];
            assert_eq!(copy.frame(0).copy_to::<Portable>(&mut found), len);
            assert_eq!(found, bytes);
            packet.free(&mut spare);
            assert_eq!(spare.len(), 64);
        }
    }
}
