//! Random distances between samples.

/// A pseudo-random generator (`SplitMix64`: Steele, Lea and Flood, 2014). Not for secrets.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ bits >> 31
    }

    /// A distance from 1 to `2 * rate - 1`, all equally probable, so that the mean is `rate`.
    fn distance(&mut self, rate: u32) -> u64 {
        let range = 2 * u64::from(rate) - 1;
        1 + ((u128::from(self.next()) * u128::from(range)) >> 64) as u64
    }
}

/// Countdown of a port to its next sample.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Skip {
    rate: u32,
    /// Packets before the next sample.
    left: u64,
}

impl Skip {
    /// Passes `packets` packets, and calls `each` with the index of each one that is sampled: on average one in `rate`,
    /// which is at least 1.
    pub(super) fn pass(
        &mut self,
        packets: usize,
        rate: u32,
        random: &mut Random,
        mut each: impl FnMut(usize),
    ) {
        if self.rate != rate {
            *self = Self { rate, left: random.distance(rate) - 1 };
        }
        let packets = packets as u64;
        while self.left < packets {
            each(self.left as usize);
            self.left += random.distance(rate);
        }
        self.left -= packets;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The same packets are sampled, however they are divided into bursts.
        #[test]
        fn bursts_do_not_change_the_distances(rate in 1u32..100, bursts in prop::collection::vec(1usize..64, 1..50)) {
            let (mut one, mut many) = (vec![], vec![]);
            let total = bursts.iter().sum();
            Skip::default().pass(total, rate, &mut Random::new(7), |i| one.push(i));
            let (mut skip, mut random, mut start) = (Skip::default(), Random::new(7), 0);
            for burst in bursts {
                skip.pass(burst, rate, &mut random, |i| many.push(start + i));
                start += burst;
            }
            prop_assert_eq!(one, many);
        }

        #[test]
        fn distances_are_in_their_range(rate in 1u32.., seed: u64) {
            let distance = Random::new(seed).distance(rate);
            prop_assert!((1..2 * u64::from(rate)).contains(&distance));
        }
    }

    #[test]
    fn one_in_n_packets_is_sampled() {
        for rate in [1, 2, 100, 1000] {
            let (mut samples, packets) = (0, 1000 * rate as usize);
            Skip::default().pass(packets, rate, &mut Random::new(1), |_| samples += 1);
            // The standard deviation of a distance is rate / sqrt(3).
            assert!(1000i32.abs_diff(samples) < 100, "{samples} of {packets} at 1 in {rate}");
        }
    }
}
