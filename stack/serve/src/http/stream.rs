//! Bodies of large files: blocks are read as acknowledgements free others, and sent from the memory into which they
//! were read.

use super::connection::State;
use super::exchange::Turn;
use super::{Token, Use};
use files::{ALIGNMENT, Block};
use host::Calls;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use stack::Slice;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// A body that is being sent.
#[derive(Debug)]
pub(super) struct Stream {
    file: Arc<OwnedFd>,
    /// Bytes of the file that were not requested.
    rest: Range<u64>,
    /// Requested blocks in order.
    reads: VecDeque<Read>,
}

/// A requested block.
#[derive(Debug)]
struct Read {
    /// Place of the block in the file.
    offset: u64,
    /// Its bytes that belong to the body.
    range: Range<usize>,
    block: Option<Block>,
}

impl Stream {
    pub(super) fn new(file: Arc<OwnedFd>, rest: Range<u64>) -> Self {
        Self { file, rest, reads: VecDeque::new() }
    }

    /// The next block of `len` bytes, and the number of bytes to read.
    fn next(&mut self, len: usize) -> (u64, u32) {
        let offset = self.rest.start / ALIGNMENT as u64 * ALIGNMENT as u64;
        let start = (self.rest.start - offset) as usize;
        let end = (self.rest.end - offset).min(len as u64) as usize;
        self.rest.start = offset + end as u64;
        self.reads.push_back(Read { offset, range: start..end, block: None });
        (offset, end.next_multiple_of(ALIGNMENT) as u32)
    }

    /// Blocks that were read and not sent.
    pub(super) fn into_blocks(self) -> impl Iterator<Item = Block> {
        self.reads.into_iter().filter_map(|read| read.block)
    }
}

impl<S: Calls> Turn<'_, S> {
    /// Continues a body. Returns whether it was sent completely.
    pub(super) fn stream(&mut self) -> bool {
        let State::Stream(mut stream) = std::mem::take(&mut self.c.state) else { return false };
        self.release();
        self.send_blocks(&mut stream);
        self.read_blocks(&mut stream);
        let is_complete = stream.rest.is_empty() && stream.reads.is_empty();
        self.c.state = State::Stream(stream);
        is_complete
    }

    /// Takes back blocks that were acknowledged.
    pub(super) fn release(&mut self) {
        let released = self.c.sent.saturating_sub(u64::from(self.unacknowledged()));
        while let Some((end, block)) = self.c.held.pop_front() {
            if end > released {
                return self.c.held.push_front((end, block));
            }
            self.shared.blocks.put(block);
        }
    }

    /// Sends blocks in order.
    fn send_blocks(&mut self, stream: &mut Stream) {
        while let Some(Read { block: Some(block), range, .. }) = stream.reads.front()
            && self.stack.send_space(self.c.id) >= range.len()
        {
            let (memory, range) = block.share(range.clone());
            self.send(Slice::of(memory.into(), range));
            let block = stream.reads.pop_front().and_then(|read| read.block);
            self.c.held.extend(block.map(|block| (self.c.sent, block)));
        }
    }

    /// Requests blocks up to the limit of the connection, or waits for its turn if there are too few.
    fn read_blocks(&mut self, stream: &mut Stream) {
        let (len, limit) = (self.shared.memory.block, self.shared.memory.blocks_per_connection);
        while !stream.rest.is_empty() && stream.reads.len() + self.c.held.len() < limit {
            let block = if self.quota > 0 { self.shared.blocks.take() } else { None };
            let Some(block) = block else { return self.wait_for_block() };
            self.quota -= 1;
            let (offset, len) = stream.next(len);
            let token = self.token(Use::Block(offset));
            self.shared.files.read(&stream.file, offset, len, block, token);
        }
    }

    fn wait_for_block(&mut self) {
        if !std::mem::replace(&mut self.c.is_queued, true) {
            self.shared.waiting.push_back(self.c.id);
        }
    }

    pub(super) fn token(&self, purpose: Use) -> Token {
        Token { index: self.c.id.index() as u32, serial: self.c.serial, purpose }
    }

    /// A block was read. If it has less bytes than the response promised, the connection is reset.
    pub(super) fn read_done(&mut self, offset: u64, block: Block, result: Result<usize, Errno>) {
        self.shared.counts.blocks += 1;
        let State::Stream(stream) = &mut self.c.state else { return self.shared.blocks.put(block) };
        let read = stream.reads.iter_mut().find(|read| read.offset == offset);
        match read {
            Some(read) if result.is_ok_and(|n| n >= read.range.end) => read.block = Some(block),
            _ => {
                self.shared.blocks.put(block);
                self.shared.counts.read_errors += 1;
                return self.stack.abort(self.c.id);
            }
        }
        self.advance();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn blocks_cover_the_range_once(start in 0u64..100_000, len in 1u64..100_000, blocks in 1usize..9) {
            let file = Arc::new(files::directory(std::path::Path::new("/")).unwrap());
            let mut stream = Stream::new(file, start..start + len);
            let (mut at, block) = (start, blocks * ALIGNMENT);
            while !stream.rest.is_empty() {
                let (offset, len) = stream.next(block);
                let range = stream.reads.back().unwrap().range.clone();
                prop_assert_eq!(offset + range.start as u64, at);
                prop_assert!(!range.is_empty() && range.end <= len as usize && len as usize <= block);
                prop_assert!(offset % ALIGNMENT as u64 == 0 && (len as usize).is_multiple_of(ALIGNMENT));
                at = offset + range.end as u64;
            }
            prop_assert_eq!(at, start + len);
        }
    }
}
