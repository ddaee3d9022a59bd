//! Arena of one direction: its writer takes chunks for the bytes of a stream and gets them back in order.
//!
//! Both ends of a client use it: the client for data to send, and the service for received data. The state is private
//! to the writer; the reader only reports how many bytes it has read. Short pieces share a chunk, so that the number of
//! chunks in use follows the number of bytes.

use std::collections::VecDeque;

/// Bytes of a chunk.
pub(crate) const CHUNK: u32 = 16 << 10;

/// A range of an arena.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ArenaRange {
    /// First byte.
    pub(crate) offset: u32,
    /// Number of bytes.
    pub(crate) len: u32,
}

/// Free chunks of an arena, by number.
#[derive(Debug)]
pub(crate) struct FreeChunks(Vec<u32>);

impl FreeChunks {
    /// All chunks of an arena of `bytes` bytes.
    pub(crate) fn new(bytes: u32) -> Self {
        Self((0..bytes / CHUNK).rev().collect())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

#[derive(Debug)]
struct Chunk {
    number: u32,
    /// Bytes that the reader has returned.
    start: u32,
    /// Bytes written.
    end: u32,
}

/// Bytes of one stream that the reader holds, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    chunks: VecDeque<Chunk>,
    held: u32,
}

impl Stream {
    /// Bytes that the reader holds.
    pub(crate) fn held(&self) -> u32 {
        self.held
    }

    /// Takes a range of at most `wanted` bytes, which follows the last one. Returns `None` if no chunk is free.
    #[inline]
    pub(crate) fn take(&mut self, free: &mut FreeChunks, wanted: usize) -> Option<ArenaRange> {
        if self.chunks.back().is_none_or(|chunk| chunk.end == CHUNK) {
            let number = free.0.pop()?;
            self.chunks.push_back(Chunk { number, start: 0, end: 0 });
        }
        let chunk = self.chunks.back_mut()?;
        let len = (CHUNK - chunk.end).min(u32::try_from(wanted).unwrap_or(u32::MAX));
        let range = ArenaRange { offset: chunk.number * CHUNK + chunk.end, len };
        chunk.end += len;
        self.held += len;
        Some(range)
    }

    /// Undoes the last [`Stream::take`], which returned `bytes` bytes.
    pub(crate) fn undo_take(&mut self, free: &mut FreeChunks, bytes: u32) {
        let Some(chunk) = self.chunks.back_mut() else { return };
        chunk.end -= bytes;
        self.held -= bytes;
        if chunk.start == chunk.end {
            free.0.push(chunk.number);
            self.chunks.pop_back();
        }
    }

    /// Takes back the oldest `bytes` bytes. Returns `false` if the reader held fewer.
    #[inline]
    pub(crate) fn give_back(&mut self, free: &mut FreeChunks, mut bytes: u32) -> bool {
        if bytes > self.held {
            return false;
        }
        self.held -= bytes;
        while let Some(chunk) = self.chunks.front_mut() {
            let part = bytes.min(chunk.end - chunk.start);
            chunk.start += part;
            bytes -= part;
            if chunk.start < chunk.end {
                break;
            }
            free.0.push(chunk.number);
            self.chunks.pop_front();
        }
        true
    }

    /// Takes everything back.
    pub(crate) fn clear(&mut self, free: &mut FreeChunks) {
        free.0.extend(self.chunks.drain(..).map(|chunk| chunk.number));
        self.held = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn short_pieces_share_a_chunk_and_return_in_order() {
        let (mut free, mut stream) = (FreeChunks::new(2 * CHUNK), Stream::default());
        assert_eq!(stream.take(&mut free, 10), Some(ArenaRange { offset: 0, len: 10 }));
        assert_eq!(stream.take(&mut free, 100_000), Some(ArenaRange { offset: 10, len: CHUNK - 10 }));
        assert_eq!(stream.take(&mut free, 1), Some(ArenaRange { offset: CHUNK, len: 1 }));
        assert!(!stream.give_back(&mut free, CHUNK + 2) && stream.give_back(&mut free, CHUNK));
        assert_eq!((free.len(), stream.held()), (1, 1));
        stream.clear(&mut free);
        assert_eq!((free.len(), stream.held()), (2, 0));
    }

    proptest! {
        #[test]
        fn no_byte_belongs_to_two_ranges(steps in prop::collection::vec((any::<bool>(), 0..2_u8, 1..40_000_u32), 1..200)) {
            let mut free = FreeChunks::new(8 * CHUNK);
            let mut streams = [Stream::default(), Stream::default()];
            let mut held: [VecDeque<ArenaRange>; 2] = Default::default();
            for (takes, which, bytes) in steps {
                let (stream, ranges) = (&mut streams[usize::from(which)], &mut held[usize::from(which)]);
                if takes {
                    ranges.extend(stream.take(&mut free, bytes as usize));
                } else if let Some(range) = ranges.pop_front() {
                    prop_assert!(stream.give_back(&mut free, range.len));
                }
                let mut all: Vec<_> = held.iter().flatten().collect();
                all.sort_by_key(|range| range.offset);
                prop_assert!(all.windows(2).all(|pair| pair[0].offset + pair[0].len <= pair[1].offset));
                let bytes: u32 = all.iter().map(|range| range.len).sum();
                prop_assert_eq!(bytes, streams[0].held() + streams[1].held());
            }
            for stream in &mut streams {
                stream.clear(&mut free);
            }
            prop_assert_eq!(free.len(), 8);
        }
    }
}
