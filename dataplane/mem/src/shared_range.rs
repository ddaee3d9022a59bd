//! A range of memory that two parties write, with access that needs no further contract.
//!
//! A [`SharedRange`] holds its region, so its bytes stay mapped, and compares each offset with its length. Words are
//! accessed as atomics; bytes are copied to and from private memory, and may change between two reads. Must not be
//! used for files that can be truncated while mapped, unless the region watches them.

use crate::copy::chosen;
use crate::{Region, VolatileSlice, sum};
use core::sync::atomic::Ordering;
use std::ops::Range;
use std::sync::Arc;

/// Bytes of a word.
const WORD: usize = 8;

/// A range of a region, aligned to eight bytes at the start of the region only.
#[derive(Clone, Debug)]
pub struct SharedRange {
    seg: VolatileSlice,
    region: Arc<Region>,
}

impl SharedRange {
    /// `len` bytes from `offset`. Returns `None` if they exceed the region.
    pub fn new(region: &Arc<Region>, offset: u64, len: u32) -> Option<Self> {
        Some(Self { seg: region.seg(offset, len)?, region: region.clone() })
    }

    /// `len` bytes from `offset` of this range. Returns `None` if they exceed it.
    #[inline]
    pub fn slice(&self, offset: usize, len: usize) -> Option<Self> {
        Some(Self { seg: self.seg.slice(offset, len)?, region: self.region.clone() })
    }

    /// The bytes, valid while this range or a clone of it exists.
    #[inline]
    pub fn seg(&self) -> VolatileSlice {
        self.seg
    }

    /// Length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.seg.len()
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.seg.is_empty()
    }

    /// Copies `to.len()` bytes from offset `at` to private memory. Returns `false`, without copying, if they exceed the
    /// range.
    pub fn read(&self, at: usize, to: &mut [u8]) -> bool {
        let Some(from) = self.seg.slice(at, to.len()) else { return false };
        // SAFETY: the region is held, and the piece has the length of the slice. The kernel is a supported one.
        crate::with_kernel!(chosen(), K => unsafe { from.copy_out::<K>(to) });
        true
    }

    /// Copies private bytes to offset `at`. Returns `false`, without copying, if they exceed the range.
    pub fn write(&self, at: usize, from: &[u8]) -> bool {
        let Some(to) = self.seg.slice(at, from.len()) else { return false };
        // SAFETY: as in `read`.
        crate::with_kernel!(chosen(), K => unsafe { to.copy_in::<K>(from) });
        true
    }

    /// Unfolded sum of the 16-bit words of a range, in native byte order; zero if it exceeds this one.
    pub fn sum(&self, range: Range<usize>) -> u64 {
        let Some(seg) = self.seg.slice(range.start, range.len()) else { return 0 };
        // SAFETY: the region is held.
        unsafe { sum::words(seg) }
    }

    /// Reads the word with number `word`.
    ///
    /// # Panics
    /// If the word exceeds the range or is not aligned: its place must not depend on the other party.
    #[inline]
    pub fn load(&self, word: usize, order: Ordering) -> u64 {
        let at = self.place(word);
        // SAFETY: the region is held; `place` compared the word with the range, and checked its alignment.
        unsafe { self.seg.load_u64(at, order) }
    }

    /// Writes the word with number `word`.
    ///
    /// # Panics
    /// As [`SharedRange::load`].
    #[inline]
    pub fn store(&self, word: usize, value: u64, order: Ordering) {
        let at = self.place(word);
        // SAFETY: as in `load`.
        unsafe { self.seg.store_u64(at, value, order) }
    }

    #[inline]
    fn place(&self, word: usize) -> usize {
        let at = word * WORD;
        assert!(at + WORD <= self.seg.len() && self.seg.addr().is_multiple_of(WORD), "a word of the range");
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_is_limited_to_the_range() {
        let region = Arc::new(Region::heap(0, 0, 4096));
        assert!(SharedRange::new(&region, 4000, 97).is_none());
        let whole = SharedRange::new(&region, 0, 4096).unwrap();
        let part = whole.slice(1024, 64).unwrap();
        assert!(whole.slice(4096, 1).is_none() && part.slice(60, 5).is_none());
        assert!(part.write(60, &[1, 2, 3, 4]) && !part.write(61, &[0; 4]));
        let mut read = [0; 4];
        assert!(whole.read(1084, &mut read) && !part.read(61, &mut read));
        assert_eq!(read, [1, 2, 3, 4]);
        assert_eq!(part.sum(60..64), sum::private_words(&read));
        assert_eq!(part.sum(60..65), 0);
        part.store(7, 5, Ordering::Release);
        assert_eq!((whole.load(135, Ordering::Acquire), part.len(), part.is_empty()), (5, 64, false));
    }

    #[test]
    #[should_panic(expected = "a word of the range")]
    fn words_beyond_the_range_are_refused() {
        SharedRange::new(&Arc::new(Region::heap(0, 0, 64)), 0, 64).unwrap().load(8, Ordering::Relaxed);
    }
}
