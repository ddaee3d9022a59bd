//! Memory that a disk can write directly and from which packets are sent: aligned, counted and reused.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// Alignment in bytes of the address, offset and length of a direct read. Logical blocks of current disks are not
/// longer.
pub const ALIGNMENT: usize = 4096;
/// Maximum number of blocks in use that are passed over in the search for a free one.
const TRIES: usize = 16;

/// Aligned memory behind a counted handle.
#[derive(Debug)]
pub struct Block {
    bytes: Arc<[u8]>,
    /// First aligned byte.
    start: usize,
}

impl Block {
    /// At least `len` bytes of zeroes, rounded up to [`ALIGNMENT`].
    pub fn new(len: usize) -> Self {
        let len = len.next_multiple_of(ALIGNMENT) + ALIGNMENT;
        let bytes: Arc<[u8]> = std::iter::repeat_n(0, len).collect();
        let start = bytes.as_ptr().align_offset(ALIGNMENT);
        Self { bytes, start }
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.bytes.len() - ALIGNMENT
    }

    /// Whether the block has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes. `None` while there are further handles.
    pub fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        let range = self.start..self.start + self.len();
        Arc::get_mut(&mut self.bytes)?.get_mut(range)
    }

    /// A further handle of the memory, and the place of `range` of the block in it.
    pub fn share(&self, range: Range<usize>) -> (Arc<[u8]>, Range<usize>) {
        (self.bytes.clone(), self.start + range.start..self.start + range.end)
    }
}

/// A bounded number of blocks of one length.
#[derive(Debug)]
pub struct BlockPool {
    /// Blocks that were put back; packets may still refer to some of them.
    free: VecDeque<Block>,
    made: usize,
    limit: usize,
    len: usize,
}

impl BlockPool {
    /// An empty pool that grows to `limit` blocks of `len` bytes.
    pub fn new(limit: usize, len: usize) -> Self {
        Self { free: VecDeque::new(), made: 0, limit, len }
    }

    /// Number of blocks that are not taken.
    pub fn available(&self) -> usize {
        self.free.len() + self.limit - self.made
    }

    /// A block without further handles. `None` if all are taken or in use.
    pub fn take(&mut self) -> Option<Block> {
        for _ in 0..TRIES.min(self.free.len()) {
            let mut block = self.free.pop_front()?;
            if block.bytes_mut().is_some() {
                return Some(block);
            }
            self.free.push_back(block);
        }
        if self.made == self.limit {
            return None;
        }
        self.made += 1;
        Some(Block::new(self.len))
    }

    /// Returns a block.
    pub fn put(&mut self, block: Block) {
        self.free.push_back(block);
    }
}
