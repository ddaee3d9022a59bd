//! Entries of words, with their beginning on a cache line.

use mem::line::LINE;

/// Words from the beginning of a cache line on. An allocation of zeros has memory only where it was written, so that few
/// entries need little.
#[derive(Default)]
pub(super) struct Lines {
    words: Vec<u64>,
    /// Words before the first cache line.
    skip: usize,
}

impl Lines {
    /// At least this number of words, all of them 0.
    pub(super) fn zeroed(words: usize) -> Self {
        let words = vec![0_u64; words + LINE / 8];
        let start = words.as_ptr().addr();
        let skip = (start.next_multiple_of(LINE) - start) / 8;
        Self { words, skip }
    }

    /// Entries of `N` words.
    #[inline(always)]
    pub(super) fn entries<const N: usize>(&self) -> &[[u64; N]] {
        self.words.get(self.skip..).unwrap_or_default().as_chunks().0
    }

    /// Entries of `N` words.
    #[inline(always)]
    pub(super) fn entries_mut<const N: usize>(&mut self) -> &mut [[u64; N]] {
        self.words.get_mut(self.skip..).unwrap_or_default().as_chunks_mut().0
    }
}
