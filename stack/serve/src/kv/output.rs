//! Replies of one connection before they are sent: text, and values by reference.

use host::{Buffer, BufferPool, PoolLimits};
use stack::{Payload, Slice};
use std::collections::VecDeque;

/// Minimum length in bytes of a value that is sent from the store's memory. Shorter ones are copied behind their
/// header, so that replies to pipelined requests are one piece of the send buffer.
pub(super) const MIN_REFERENCED: usize = 1024;
/// Length in bytes at which text becomes a piece.
const TEXT: usize = 16 << 10;
/// Bytes of replies that are prepared before they are sent.
const MAX_PREPARED: usize = 256 << 10;
/// Buffers for text of each size that may be unacknowledged; more text is allocated.
const POOL: PoolLimits = PoolLimits([16_384, 16_384, 1_024, 1_024]);

/// Replies in order.
#[derive(Debug)]
pub(super) struct Output {
    text: Vec<u8>,
    pieces: VecDeque<Slice<Buffer>>,
    /// Bytes of the pieces.
    bytes: usize,
    pool: BufferPool,
}

impl Output {
    pub(super) fn new() -> Self {
        let text = Vec::with_capacity(TEXT + 2 * MIN_REFERENCED);
        Self { text, pieces: VecDeque::new(), bytes: 0, pool: BufferPool::new(POOL) }
    }

    /// Whether further replies may be prepared.
    pub(super) fn has_room(&self) -> bool {
        self.bytes + self.text.len() < MAX_PREPARED
    }

    pub(super) fn push(&mut self, text: &[u8]) {
        self.text.extend_from_slice(text);
        if self.text.len() >= TEXT {
            self.finish();
        }
    }

    pub(super) fn number(&mut self, value: u64) {
        self.text.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
    }

    /// A line.
    pub(super) fn line(&mut self, text: &[u8]) {
        self.push(text);
        self.push(b"\r\n");
    }

    /// A value with its CR and LF.
    pub(super) fn value(&mut self, value: &Slice<Buffer>) {
        if value.len() >= MIN_REFERENCED {
            self.finish();
            self.bytes += value.len();
            return self.pieces.push_back(value.clone());
        }
        match value.data().bytes().and_then(|bytes| bytes.get(value.range())) {
            Some(bytes) => self.push(bytes),
            None => self.push(&value.to_vec()),
        }
    }

    /// Makes a piece of the text.
    fn finish(&mut self) {
        if self.text.is_empty() {
            return;
        }
        let text = &self.text;
        let pooled = self.pool.fill(text.len(), |to| to.copy_from_slice(text));
        let piece = pooled.unwrap_or_else(|| Buffer::copy_of(text));
        self.bytes += text.len();
        self.pieces.push_back(Slice::new(piece));
        self.text.clear();
    }

    /// Removes all replies.
    pub(super) fn take(&mut self) -> impl Iterator<Item = Slice<Buffer>> + '_ {
        self.finish();
        self.bytes = 0;
        self.pieces.drain(..)
    }
}
