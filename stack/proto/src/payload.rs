//! Payload: counted handles of bytes that the stack does not touch.

use core::ops::Range;
use wire::checksum::{Sum, fold};

/// A counted handle of immutable bytes: a retained buffer of a port, or a buffer of the application. A clone shares the
/// bytes. The bytes may lie in memory that another party can write, so two reads may differ.
pub trait Payload: Clone {
    /// A handle of a copy of `bytes`, for packets that the stack must assemble itself. Rare; may allocate.
    fn copy_of(bytes: &[u8]) -> Self;

    /// Length in bytes.
    fn len(&self) -> usize;

    /// Whether there are no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Unfolded sum of the 16-bit words of `range`, in native byte order; a final odd byte is padded with zero
    /// ([`Sum::add_words`]).
    fn sum(&self, range: Range<usize>) -> u64;

    /// Copies `to.len()` bytes from offset `at`. The caller guarantees that they exist.
    fn copy_to(&self, at: usize, to: &mut [u8]);
}

impl Payload for alloc::sync::Arc<[u8]> {
    fn copy_of(bytes: &[u8]) -> Self {
        bytes.into()
    }

    fn len(&self) -> usize {
        (**self).len()
    }

    fn sum(&self, range: Range<usize>) -> u64 {
        self.get(range).map_or(0, |bytes| Sum::of(bytes).total())
    }

    fn copy_to(&self, at: usize, to: &mut [u8]) {
        if let Some(bytes) = self.get(at..at + to.len()) {
            to.copy_from_slice(bytes);
        }
    }
}

/// A range of a payload.
#[derive(Clone, Debug)]
pub struct Slice<P> {
    data: P,
    start: u32,
    len: u32,
    /// Folded sum of the slice's words, if known. Received segments whose checksum was computed in software have it, so
    /// that sending the same slice again needs no pass over its bytes.
    sum: Option<u16>,
}

impl<P: Payload> Slice<P> {
    /// The whole payload. At most 4 GiB.
    #[inline]
    pub fn new(data: P) -> Self {
        let len = u32::try_from(data.len()).unwrap_or(u32::MAX);
        Self { data, start: 0, len, sum: None }
    }

    /// The bytes `range` of `data`, limited to its length.
    pub fn of(data: P, range: Range<usize>) -> Self {
        let mut all = Self::new(data);
        all.narrow(range);
        all
    }

    /// The same slice with the known folded sum of its words.
    #[must_use]
    #[inline]
    pub fn with_sum(mut self, sum: u16) -> Self {
        self.sum = Some(sum);
        self
    }

    /// The same slice with its sum computed now, for data that is sent several times.
    #[must_use]
    pub fn summed(self) -> Self {
        let sum = fold(self.words(0..self.len as usize));
        self.with_sum(sum)
    }

    /// Limits the slice to a range of itself.
    pub fn narrow(&mut self, range: Range<usize>) {
        let end = range.end.min(self.len as usize);
        let start = range.start.min(end);
        if (start, end) != (0, self.len as usize) {
            self.sum = None;
        }
        self.start += start as u32;
        self.len = (end - start) as u32;
    }

    /// Length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there are no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The payload.
    #[inline]
    pub fn data(&self) -> &P {
        &self.data
    }

    /// Range of the payload's bytes that belong to the slice.
    #[inline]
    pub fn range(&self) -> Range<usize> {
        self.start as usize..self.start as usize + self.len as usize
    }

    /// Unfolded sum of the words of a range of the slice.
    #[inline]
    pub fn words(&self, range: Range<usize>) -> u64 {
        match self.sum {
            Some(sum) if range == (0..self.len as usize) => sum.into(),
            _ => self.data.sum(self.start as usize + range.start..self.start as usize + range.end),
        }
    }

    /// Copies `to.len()` bytes from offset `at` of the slice.
    pub fn copy_to(&self, at: usize, to: &mut [u8]) {
        self.data.copy_to(self.start as usize + at, to);
    }

    /// The bytes, copied.
    pub fn to_vec(&self) -> alloc::vec::Vec<u8> {
        let mut bytes = alloc::vec![0; self.len()];
        self.copy_to(0, &mut bytes);
        bytes
    }
}
