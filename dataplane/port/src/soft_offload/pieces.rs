//! Cursor over the segments of a frame after its head.

use crate::Frame;
use mem::VolatileSlice;

/// Position in the rest of a frame.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pieces {
    /// Number of fully consumed segments, and bytes consumed of the next one.
    whole: usize,
    bytes: usize,
    /// Number of segments visited.
    #[cfg(test)]
    pub(crate) steps: usize,
}

impl Pieces {
    /// The next `n` bytes as segments; fewer at the end of the frame. The cost is proportional to the segments
    /// passed, independent of the position.
    pub(crate) fn take<'a>(
        &'a mut self,
        frame: &'a Frame<'_>,
        n: usize,
    ) -> impl Iterator<Item = VolatileSlice> + 'a {
        let mut left = n;
        std::iter::from_fn(move || {
            while left > 0 {
                #[cfg(test)]
                {
                    self.steps += 1;
                }
                let rest = frame.piece(self.whole)?.split_at(self.bytes).1;
                let taken = rest.split_at(left).0;
                left -= taken.len();
                if taken.len() == rest.len() {
                    (self.whole, self.bytes) = (self.whole + 1, 0);
                } else {
                    self.bytes += taken.len();
                }
                if !taken.is_empty() {
                    return Some(taken);
                }
            }
            None
        })
    }

    /// Skips the next `n` bytes.
    pub(crate) fn skip(&mut self, frame: &Frame<'_>, n: usize) {
        self.take(frame, n).for_each(drop);
    }
}
