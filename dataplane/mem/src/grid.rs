//! Equally sized cells at a fixed stride. A lookup costs two comparisons: bounds are checked at construction.

use crate::{MARGIN, VolatileSlice, Wide};

/// Cells of one segment. Each is followed by at least [`MARGIN`] bytes of the segment.
#[derive(Clone, Copy, Debug)]
pub struct Grid {
    first: VolatileSlice,
    stride: usize,
    count: usize,
    len: u32,
}

impl Grid {
    /// `count` cells of `len` bytes in `whole`: the first at byte `first`, the following at multiples of `stride`.
    /// Returns `None` if a cell or the margin after the last one exceeds `whole`.
    pub fn new(whole: VolatileSlice, first: usize, stride: usize, count: usize, len: u32) -> Option<Self> {
        let last = stride.checked_mul(count.checked_sub(1)?)?.checked_add(first)?;
        let end = last.checked_add(len as usize)?.checked_add(MARGIN)?;
        (end <= whole.len()).then(|| Self {
            first: VolatileSlice::offset_in(whole, first, len),
            stride,
            count,
            len,
        })
    }

    /// The first `len` bytes of cell `number`. Returns `None` if `number` or `len` is out of range.
    #[inline(always)]
    pub fn cell(&self, number: u16, len: u32) -> Option<Wide> {
        let number = usize::from(number);
        // `new` checked the last cell, and thereby all cells before it.
        (number < self.count && len <= self.len)
            .then(|| Wide::inside(VolatileSlice::offset_in(self.first, number * self.stride, len)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Region;

    #[test]
    fn cells_and_margin_are_inside() {
        let region = Region::heap(0, 0, 4096);
        let whole = region.seg(0, 4096).unwrap();
        let grid = Grid::new(whole, 64, 1024, 4, 832).unwrap();
        assert!(Grid::new(whole, 64, 1024, 4, 833).is_none() && Grid::new(whole, 64, 1024, 5, 1).is_none());
        assert!(Grid::new(whole, usize::MAX, 1, 2, 1).is_none() && Grid::new(whole, 0, 1, 0, 1).is_none());
        let cell = grid.cell(3, 832).unwrap().seg();
        assert_eq!((cell.addr() - whole.addr(), cell.len()), (64 + 3 * 1024, 832));
        assert!(grid.cell(4, 1).is_none() && grid.cell(0, 833).is_none());
    }
}
