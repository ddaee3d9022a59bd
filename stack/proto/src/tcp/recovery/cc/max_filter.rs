//! Windowed maximum of the delivery rate, in constant space.

/// Rounds for which a maximum is kept.
const ROUNDS: u32 = 10;

/// Maximum of the last rounds: the best three samples, each later than the one before.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MaxFilter {
    samples: [(u64, u32); 3],
}

impl MaxFilter {
    /// Maximum; 0 without samples.
    pub(super) fn get(&self) -> u64 {
        self.samples[0].0
    }

    /// Adds a value of a round; rounds do not decrease.
    pub(super) fn update(&mut self, value: u64, round: u32) {
        let new = (value, round);
        let is_expired = |sample: (u64, u32)| round.wrapping_sub(sample.1) > ROUNDS;
        if value >= self.samples[0].0 || is_expired(self.samples[2]) {
            self.samples = [new; 3];
            return;
        }
        if value >= self.samples[1].0 {
            (self.samples[1], self.samples[2]) = (new, new);
        } else if value >= self.samples[2].0 {
            self.samples[2] = new;
        }
        if is_expired(self.samples[0]) {
            self.samples = [self.samples[1], self.samples[2], new];
        }
        // The candidates come from different quarters of the window.
        let age = |sample: (u64, u32)| round.wrapping_sub(sample.1);
        if self.samples[1].1 == self.samples[0].1 && age(self.samples[0]) > ROUNDS / 4 {
            (self.samples[1], self.samples[2]) = (new, new);
        } else if self.samples[2].1 == self.samples[1].1 && age(self.samples[1]) > ROUNDS / 2 {
            self.samples[2] = new;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filter_forgets_after_ten_rounds() {
        let mut filter = MaxFilter::default();
        filter.update(100, 0);
        for round in 1..=10 {
            filter.update(50, round);
            assert_eq!(filter.get(), 100);
        }
        filter.update(50, 11);
        assert_eq!(filter.get(), 50);
        filter.update(70, 12);
        assert_eq!(filter.get(), 70);
    }
}
