//! Which frames of one stream came, came twice, or came out of order.
//!
//! A frame is *reordered* when one with a greater number came before it (RFC 4737 section 3.3); its *extent* is how many
//! frames came since the first such one, duplicates left out (section 4.2). To know both, the last [`WINDOW`] numbers
//! below the greatest are remembered. What comes later than that is counted as too late: whether it came before, nobody
//! knows any more, so it stays lost.

use super::histogram::Histogram;

/// So many numbers behind the greatest one are remembered.
pub const WINDOW: u64 = 1 << 16;
const WORDS: usize = (WINDOW / 64) as usize;

/// What a frame was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It has the greatest number so far.
    InOrder,
    /// A greater one came before.
    Reordered,
    /// It had come before.
    Duplicate,
    /// It is further behind than is remembered.
    TooLate,
}

/// The arrivals of one stream.
#[derive(Clone, Debug)]
pub struct Order {
    /// One above the greatest number that came.
    next: u64,
    /// Whether a number of the window came.
    seen: Box<[u64]>,
    /// For numbers that were jumped over: how many had come when that happened.
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
    /// A frame came.
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

    /// Numbers are missing in front of this one.
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

    /// Different frames that came.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Of those, the ones out of order.
    pub fn reordered(&self) -> u64 {
        self.reordered
    }

    /// Frames beyond the first of their number.
    pub fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// Frames that came too late to be told from duplicates.
    pub fn too_late(&self) -> u64 {
        self.too_late
    }

    /// The extents of the frames out of order, in frames.
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
    fn the_example_of_the_rfc() {
        // RFC 4737 section 7: packets 4, 5 and 6 arrive behind 7 and 8; the extents are 2, 3 and 4.
        let mut order = Order::default();
        let told = arrivals(&mut order, &[0, 1, 2, 3, 7, 8, 4, 5, 6, 9]);
        assert_eq!(told.iter().filter(|arrival| **arrival == Reordered).count(), 3);
        assert_eq!(order.extents().buckets().collect::<Vec<_>>(), [(2, 1), (3, 1), (4, 1)]);
    }

    #[test]
    fn duplicates_are_told_from_late_ones_as_far_as_is_remembered() {
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
    fn a_jump_beyond_the_window_forgets_what_stood_there() {
        let mut order = Order::default();
        (0..100).for_each(|number| assert_eq!(order.take(number), InOrder));
        assert_eq!(order.take(10 * WINDOW), InOrder);
        assert_eq!(order.take(9 * WINDOW + 50), Reordered);
        assert_eq!(order.take(50), TooLate);
        assert_eq!(order.take(u64::MAX), InOrder);
    }

    proptest! {
        /// Against the definitions, by search through everything that came.
        #[test]
        fn any_arrivals_are_as_the_definitions_say(numbers in prop::collection::vec(0..60u64, 0..120)) {
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
