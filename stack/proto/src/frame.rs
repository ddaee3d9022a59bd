//! A received frame.

use crate::{Payload, Slice};
use core::ops::Range;

/// A received Ethernet frame without its frame check sequence.
///
/// The head is private memory: the stack validates it, and the source cannot change it afterwards. It has at least the
/// first 128 bytes, or the whole frame. A frame may be longer than the MTU if the port merged segments (LRO).
pub trait Frame {
    /// Counted handle of its bytes.
    type Payload: Payload;

    /// The private first bytes.
    fn head(&self) -> &[u8];

    /// Length of the frame in bytes.
    fn len(&self) -> usize;

    /// Whether there are no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Payload in bytes of each UDP datagram that the frame consists of, if the port merged several (USO).
    fn segment(&self) -> Option<u16> {
        None
    }

    /// Whether the transport checksum was verified, or need not be because the frame never left memory.
    fn is_checksum_valid(&self) -> bool;

    /// Unfolded sum of the 16-bit words of `range`, in native byte order ([`Payload::sum`]).
    fn sum(&self, range: Range<usize>) -> u64;

    /// Copies `to.len()` bytes from offset `at`. The caller guarantees that they exist.
    fn copy_to(&self, at: usize, to: &mut [u8]);

    /// A handle of the bytes `range` beyond this call. Returns `None` if no buffer is free; the stack then treats the
    /// frame as lost.
    fn retain(&mut self, range: Range<usize>) -> Option<Slice<Self::Payload>>;
}
