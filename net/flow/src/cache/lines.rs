//! Entries of words, with their beginning on a cache line.

use mem::huge::HUGE;
use mem::line::LINE;

/// Words from the beginning of a cache line on, or of a huge page, if they fill one. An allocation of zeros has memory
/// only where it was written.
#[derive(Default)]
pub(super) struct Lines {
    words: Vec<u64>,
    /// Words before the first cache line.
    skip: usize,
}

impl Lines {
    /// At least this number of words, all of them 0.
    pub(super) fn zeroed(words: usize) -> Self {
        let unit = if words * 8 < HUGE { LINE } else { HUGE };
        let words = vec![0_u64; words + unit / 8];
        mem::huge::advise(&words);
        let start = words.as_ptr().addr();
        let skip = (start.next_multiple_of(unit) - start) / 8;
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
