//! Walking over the rest of a frame, stretch by stretch.

use crate::Frame;
use mem::VolatileSlice;

/// How far the rest of a frame has been taken.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pieces {
    /// Pieces that are used up, and bytes of the one behind them.
    whole: usize,
    bytes: usize,
    /// Pieces that were looked at.
    #[cfg(test)]
    pub(super) steps: usize,
}

impl Pieces {
    /// The next `n` bytes as segments; fewer where the frame ends. Costs a step per piece that it goes on by, however far
    /// the front is behind.
    pub(super) fn take<'a>(
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

    /// Leaves out the next `n` bytes.
    pub(super) fn skip(&mut self, frame: &Frame<'_>, n: usize) {
        self.take(frame, n).for_each(drop);
    }
}
