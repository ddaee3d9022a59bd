//! Loss, duplicates and reordering of the frames of one stream.
//!
//! A frame is *reordered* if a frame with a larger number arrived before it (RFC 4737 section 3.3); its *extent* is the
//! number of frames received since the first such frame, without duplicates (section 4.2). For both, the state of the
//! last [`WINDOW`] numbers below the largest is kept. Frames with older numbers are counted as too late: they cannot be
//! told from duplicates, so they stay lost.

use measure::Histogram;

/// Number of sequence numbers, up to the largest, whose state is kept.
pub const WINDOW: u64 = 1 << 16;
const WORDS: usize = (WINDOW / 64) as usize;

/// Classification of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Its number is the largest so far.
    InOrder,
    /// A frame with a larger number arrived before.
    Reordered,
    /// The number was received before.
    Duplicate,
    /// The number is outside the window.
    TooLate,
}

/// Arrivals of one stream.
#[derive(Clone, Debug)]
pub struct Order {
    /// One above the largest number received.
    next: u64,
    /// Per number of the window: whether it was received.
    seen: Box<[u64]>,
    /// Per skipped number: the number of frames received when it was skipped.
    jumped: Box<[u64]>,
    received: u64,
    reordered: u64,
    duplicates: u64,
    too_late: u64,
    extents: Histogram,
}

impl Default for Order {
    fn default() -> Self {
        Self {
            next: 0,
            seen: vec![0; WORDS].into_boxed_slice(),
            jumped: vec![0; WINDOW as usize].into_boxed_slice(),
            received: 0,
            reordered: 0,
            duplicates: 0,
            too_late: 0,
            extents: Histogram::default(),
        }
    }
}

impl Order {
    /// Records the frame with this number.
    #[inline]
    pub fn take(&mut self, number: u64) -> Arrival {
        if number == self.next {
            self.next += 1;
            self.mark(number, true);
            self.received += 1;
            return Arrival::InOrder;
        }
        if number > self.next { self.jump(number) } else { self.behind(number) }
    }

    /// Records a number that skips others.
    fn jump(&mut self, number: u64) -> Arrival {
        let first = self.next.max(number.saturating_sub(WINDOW - 1));
        for missing in first..number {
            self.mark(missing, false);
            self.jumped[(missing % WINDOW) as usize] = self.received;
        }
        self.next = number.saturating_add(1);
        self.mark(number, true);
        self.received += 1;
        Arrival::InOrder
    }

    fn behind(&mut self, number: u64) -> Arrival {
        if self.next - number > WINDOW {
            self.too_late += 1;
            return Arrival::TooLate;
        }
        if self.seen[(number % WINDOW / 64) as usize] >> (number % 64) & 1 == 1 {
            self.duplicates += 1;
            return Arrival::Duplicate;
        }
        self.mark(number, true);
        self.extents.record(self.received - self.jumped[(number % WINDOW) as usize]);
        self.received += 1;
        self.reordered += 1;
        Arrival::Reordered
    }

    #[inline(always)]
    fn mark(&mut self, number: u64, came: bool) {
        let word = &mut self.seen[(number % WINDOW / 64) as usize];
        *word = *word & !(1 << (number % 64)) | u64::from(came) << (number % 64);
    }

    /// Distinct frames received.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Reordered frames.
    pub fn reordered(&self) -> u64 {
        self.reordered
    }

    /// Duplicate frames.
    pub fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// Frames too late to be told from duplicates.
    pub fn too_late(&self) -> u64 {
        self.too_late
    }

    /// Reordering extents, in frames.
    pub fn extents(&self) -> &Histogram {
        &self.extents
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Arrival::{Duplicate, InOrder, Reordered, TooLate};
    use proptest::prelude::*;

    fn arrivals(order: &mut Order, numbers: &[u64]) -> Vec<Arrival> {
        numbers.iter().map(|number| order.take(*number)).collect()
    }

    #[test]
    fn matches_the_rfc_example() {
        // RFC 4737 section 7: packets 4, 5 and 6 arrive after 7 and 8; the extents are 2, 3 and 4.
        let mut order = Order::default();
        let told = arrivals(&mut order, &[0, 1, 2, 3, 7, 8, 4, 5, 6, 9]);
        assert_eq!(told.iter().filter(|arrival| **arrival == Reordered).count(), 3);
        assert_eq!(order.extents().buckets().collect::<Vec<_>>(), [(2, 1), (3, 1), (4, 1)]);
    }

    #[test]
    fn duplicates_and_late_frames_differ_within_the_window() {
        let mut order = Order::default();
        assert_eq!(
            arrivals(&mut order, &[0, 0, 2, 1, 1]),
            [InOrder, Duplicate, InOrder, Reordered, Duplicate]
        );
        order.take(WINDOW + 2);
        assert_eq!(arrivals(&mut order, &[2, 3, 3]), [TooLate, Reordered, Duplicate]);
        assert_eq!((order.received(), order.duplicates(), order.too_late()), (5, 3, 1));
    }

    #[test]
    fn jump_beyond_the_window_clears_it() {
        let mut order = Order::default();
        (0..100).for_each(|number| assert_eq!(order.take(number), InOrder));
        assert_eq!(order.take(10 * WINDOW), InOrder);
        assert_eq!(order.take(9 * WINDOW + 50), Reordered);
        assert_eq!(order.take(50), TooLate);
        assert_eq!(order.take(u64::MAX), InOrder);
    }

    proptest! {
        /// Compares with the definitions, by a search of all earlier arrivals.
        #[test]
        fn random_arrivals_match_the_definitions(numbers in prop::collection::vec(0..60u64, 0..120)) {
            let (mut order, mut came) = (Order::default(), Vec::<u64>::new());
            let mut extents = Histogram::default();
            for number in numbers {
                let expected = if came.contains(&number) {
                    Duplicate
                } else if let Some(first) = came.iter().position(|other| *other > number) {
                    extents.record((came.len() - first) as u64);
                    Reordered
                } else {
                    InOrder
                };
                prop_assert_eq!(order.take(number), expected);
                if expected != Duplicate {
                    came.push(number);
                }
            }
            prop_assert_eq!(order.received(), came.len() as u64);
            prop_assert_eq!(order.extents().summary(), extents.summary());
        }
    }
}
