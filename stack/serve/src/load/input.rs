//! Received bytes, as the workloads read them: lines as text, bodies without a copy.

use host::Buffer;
use stack::Slice;

/// Bytes that are copied at once from memory which a peer may change.
const PIECE: usize = 2048;

/// Position in a reply. Each reply begins with the default value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Framing(u64);

/// Bits of [`Framing`] for the number of bytes.
const LEFT: u32 = 56;

impl Framing {
    /// Position `stage` of a workload, with `left` bytes until its next one.
    ///
    /// # Errors
    /// [`WrongReply`] if the number of bytes has more than 56 bits.
    pub fn new(stage: u8, left: u64) -> Result<Self, WrongReply> {
        if left >> LEFT != 0 {
            return Err(WrongReply::new("length out of range", 0));
        }
        Ok(Self(u64::from(stage) << LEFT | left))
    }

    /// A position without a number of bytes.
    pub const fn at(stage: u8) -> Self {
        Self((stage as u64) << LEFT)
    }

    /// Position of the workload.
    pub const fn stage(self) -> u8 {
        (self.0 >> LEFT) as u8
    }

    /// Bytes until the next position.
    pub const fn left(self) -> u64 {
        self.0 & ((1 << LEFT) - 1)
    }

    /// Passes `bytes` bytes, at most those left.
    pub fn pass(&mut self, bytes: usize) {
        self.0 -= (bytes as u64).min(self.left());
    }
}

/// A reply that does not belong to its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("wrong reply: {what} at byte {offset}")]
pub struct WrongReply {
    /// Difference.
    pub what: &'static str,
    /// Offset in bytes, from the start of the head, line or body in which the difference is.
    pub offset: u64,
}

impl WrongReply {
    /// A difference at an offset.
    pub const fn new(what: &'static str, offset: u64) -> Self {
        Self { what, offset }
    }
}

/// Result of a complete reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// Whether the server reports an error.
    pub is_error: bool,
    /// Whether a value was not found.
    pub is_miss: bool,
    /// Whether the server closes the connection.
    pub is_last: bool,
}

/// Bytes of one segment, and the incomplete line before them.
#[derive(Debug)]
pub struct Input<'a> {
    data: &'a Slice<Buffer>,
    at: usize,
    /// Bytes of a line or head that is not complete.
    text: &'a mut Vec<u8>,
}

impl<'a> Input<'a> {
    pub(super) fn new(data: &'a Slice<Buffer>, text: &'a mut Vec<u8>) -> Self {
        Self { data, at: 0, text }
    }

    /// Bytes left in the segment.
    #[inline]
    pub fn len(&self) -> usize {
        self.data.len() - self.at
    }

    /// Whether no bytes are left.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Passes bytes without reading them, at most `most`. Returns their number.
    #[inline]
    pub fn skip(&mut self, most: u64) -> usize {
        let bytes = most.min(self.len() as u64) as usize;
        self.at += bytes;
        bytes
    }

    /// Passes bytes that must equal those of `expected`, as far as both reach. Returns their number.
    ///
    /// # Errors
    /// Offset of the first difference.
    #[inline]
    pub fn expect(&mut self, expected: &[u8]) -> Result<usize, u64> {
        let len = expected.len().min(self.len());
        let from = self.data.range().start + self.at;
        let Some(bytes) = self.data.data().bytes().and_then(|bytes| bytes.get(from..from + len)) else {
            return self.expect_copied(&expected[..len]);
        };
        if bytes != &expected[..len] {
            return Err(difference(bytes, expected));
        }
        self.at += len;
        Ok(len)
    }

    /// [`Input::expect`] for bytes in memory that a peer may change.
    fn expect_copied(&mut self, expected: &[u8]) -> Result<usize, u64> {
        let mut piece = [0; PIECE];
        for (n, expected) in expected.chunks(PIECE).enumerate() {
            let bytes = &mut piece[..expected.len()];
            self.data.copy_to(self.at, bytes);
            if bytes != expected {
                return Err((n * PIECE) as u64 + difference(bytes, expected));
            }
            self.at += expected.len();
        }
        Ok(expected.len())
    }

    /// Collects bytes up to and including a line feed. Returns whether the line is complete.
    ///
    /// # Errors
    /// [`WrongReply`] if the line is longer than `most` bytes.
    pub fn line(&mut self, most: usize) -> Result<bool, WrongReply> {
        while !self.is_empty() {
            let before = self.text.len();
            self.collect(64);
            let found = self.text[before..].iter().position(|byte| *byte == b'\n');
            if let Some(found) = found {
                self.keep_text(before + found + 1);
            }
            if self.text.len() > most {
                return Err(WrongReply::new("line too long", most as u64));
            }
            if found.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Adds up to `most` bytes to the text.
    pub fn collect(&mut self, most: usize) {
        let (len, before) = (most.min(self.len()), self.text.len());
        self.text.resize(before + len, 0);
        self.data.copy_to(self.at, &mut self.text[before..]);
        self.at += len;
    }

    /// The text.
    pub fn text(&self) -> &[u8] {
        self.text
    }

    /// Returns bytes of the text behind `len` to the segment. Must be called after [`Input::collect`] only.
    pub fn keep_text(&mut self, len: usize) {
        self.at -= self.text.len() - len;
        self.text.truncate(len);
    }

    /// Ends a line or head.
    pub fn clear_text(&mut self) {
        self.text.clear();
    }
}

fn difference(bytes: &[u8], expected: &[u8]) -> u64 {
    bytes.iter().zip(expected).take_while(|(a, b)| a == b).count() as u64
}
