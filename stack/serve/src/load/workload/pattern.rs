//! Bytes of requests and values, so that a reply to another request differs.

use host::Buffer;
use stack::Slice;
use std::sync::Arc;

/// Number of patterns.
const VARIANTS: usize = 16;

/// Patterns of one length.
#[derive(Debug)]
pub(super) struct Pattern {
    bytes: Arc<[u8]>,
    /// With their sums, which saves a pass over the bytes for each request.
    slices: Vec<Slice<Buffer>>,
    size: usize,
}

impl Pattern {
    pub(super) fn new(size: usize) -> Self {
        // A period that is no power of two, so that an offset of whole blocks is a difference.
        let bytes: Arc<[u8]> = (0..size + VARIANTS).map(|i| (i % 251) as u8).collect();
        let buffer = Buffer::from(bytes.clone());
        let slices = (0..VARIANTS).map(|from| Slice::of(buffer.clone(), from..from + size).summed());
        Self { bytes, slices: slices.collect(), size }
    }

    pub(super) const fn len(&self) -> usize {
        self.size
    }

    /// Pattern of number `n`.
    #[inline]
    pub(super) fn slice(&self, n: u32) -> Slice<Buffer> {
        self.slices[n as usize % VARIANTS].clone()
    }

    /// The last `left` bytes of the pattern of number `n`.
    #[inline]
    pub(super) fn rest(&self, n: u32, left: u64) -> &[u8] {
        let end = n as usize % VARIANTS + self.size;
        &self.bytes[end - (left as usize).min(self.size)..end]
    }
}
