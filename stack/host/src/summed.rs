//! Bytes with stored sums, for data that is sent many times: a checksum in software reads at most the two ends of a
//! segment, wherever segments begin.

use std::ops::Range;
use std::sync::Arc;
use wire::checksum::{Sum, fold};

/// Bytes for which one sum is stored: 3 % more memory, and less than two such blocks are read for a segment.
const BLOCK: usize = 256;

/// Bytes with the sums of their prefixes.
#[derive(Debug)]
pub(crate) struct Summed {
    bytes: Arc<[u8]>,
    range: Range<usize>,
    /// Sum of the words of the first `i` blocks.
    prefixes: Box<[u64]>,
}

impl Summed {
    pub(crate) fn new(bytes: Arc<[u8]>, range: Range<usize>) -> Self {
        let mut total = 0;
        let data = bytes.get(range.clone()).unwrap_or_default();
        let sums = data.as_chunks::<BLOCK>().0.iter().map(|block| {
            // Folded, so that prefixes can be subtracted.
            total += u64::from(fold(mem::sum::private_words(block)));
            total
        });
        let prefixes = std::iter::once(0).chain(sums).collect();
        Self { bytes, range, prefixes }
    }

    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.get(self.range.clone()).unwrap_or_default()
    }

    /// Sum of the words of a range, as [`stack::Payload::sum`].
    pub(crate) fn sum(&self, range: Range<usize>) -> u64 {
        let words = |range: Range<usize>| self.bytes().get(range).map_or(0, mem::sum::private_words);
        let (first, last) = (range.start.div_ceil(BLOCK), range.end / BLOCK);
        if first >= last {
            return words(range);
        }
        let (from, to) = (first * BLOCK, last * BLOCK);
        let inner = self.prefixes.get(last).zip(self.prefixes.get(first)).map_or(0, |(to, from)| to - from);
        let mut sum = Sum::default();
        sum.add_words(words(range.start..from), from - range.start);
        sum.add_words(inner, to - from);
        sum.add_words(words(to..range.end), range.end - to);
        sum.total()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_all_ranges_are_those_of_the_bytes() {
        let bytes: Arc<[u8]> = (0..1500).map(|i| (i * 7 % 251) as u8).collect();
        for skip in [0, 1] {
            let (data, summed) = (&bytes[skip..], Summed::new(bytes.clone(), skip..1500));
            for start in (0..data.len()).step_by(37) {
                for end in (start..=data.len()).step_by(23) {
                    let expected = mem::sum::private_words(&data[start..end]);
                    assert_eq!(fold(summed.sum(start..end)), fold(expected), "{start}..{end}");
                }
            }
        }
    }
}
