//! Fault generator: a seeded pseudo-random sequence, without other inputs.
//!
//! Each packet draws the same number of values regardless of earlier outcomes, so the faults of a queue depend only on
//! seed, settings and packet count, not on burst sizes or time.

use super::options::Faults;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// Bits of precision of a probability.
const BITS: u32 = 53;

/// Faults of one packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) drop: bool,
    pub(super) duplicate: bool,
    pub(super) reorder: bool,
    /// Bit to flip, modulo the packet's length in bits.
    pub(super) corrupt: Option<u64>,
    /// Delay in nanoseconds.
    pub(super) delay: u64,
}

/// Generator of one queue.
#[derive(Debug)]
pub(super) struct FaultRng {
    generator: Xoshiro256PlusPlus,
    drop: u64,
    duplicate: u64,
    reorder: u64,
    corrupt: u64,
    /// Minimum delay, and width of the delay range, in nanoseconds.
    delay: (u64, u64),
}

impl FaultRng {
    /// Generator for queue `queue`, independent of other queues.
    pub(super) fn new(faults: &Faults, queue: u64) -> Self {
        let limit = |chance: f64| (chance * (1_u64 << BITS) as f64) as u64;
        let nanoseconds = |time: std::time::Duration| time.as_nanos() as u64;
        let (least, most) = (nanoseconds(faults.delay.0), nanoseconds(faults.delay.1));
        // The odd factor gives different queues different seeds.
        let seed = faults.seed.wrapping_add(queue.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        Self {
            generator: Xoshiro256PlusPlus::seed_from_u64(seed),
            drop: limit(faults.drop),
            duplicate: limit(faults.duplicate),
            reorder: limit(faults.reorder),
            corrupt: limit(faults.corrupt),
            delay: (least, most.saturating_sub(least)),
        }
    }

    /// Draws the faults of the next packet.
    pub(super) fn roll(&mut self) -> Verdict {
        let drop = self.happens(self.drop);
        let duplicate = self.happens(self.duplicate);
        let reorder = self.happens(self.reorder);
        let (corrupt, bit) = (self.happens(self.corrupt), self.generator.next_u64());
        let longer = ((u128::from(self.generator.next_u64()) * (u128::from(self.delay.1) + 1)) >> 64) as u64;
        let delay = self.delay.0 + longer;
        Verdict { drop, duplicate, reorder, corrupt: corrupt.then_some(bit), delay }
    }

    fn happens(&mut self, limit: u64) -> bool {
        self.generator.next_u64() >> (u64::BITS - BITS) < limit
    }
}

impl Verdict {
    /// Whether the packet goes into the delay queue, to be delivered later.
    pub(super) fn is_kept(&self) -> bool {
        self.delay > 0 || self.reorder
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    #[test]
    fn equal_seeds_give_equal_faults_per_queue() {
        let faults = Faults { drop: 0.5, corrupt: 0.5, ..Faults::default() };
        let rolls = |faults: &Faults, queue| {
            let mut rng = FaultRng::new(faults, queue);
            (0..200).map(|_| rng.roll()).collect::<Vec<_>>()
        };
        assert_eq!(rolls(&faults, 3), rolls(&faults, 3));
        assert_ne!(rolls(&faults, 3), rolls(&faults, 4));
        assert_ne!(rolls(&faults, 3), rolls(&Faults { seed: 2, ..faults.clone() }, 3));
        // The algorithm is fixed; these values must never change.
        let first: String = rolls(&faults, 0)[..16].iter().map(|v| if v.drop { 'x' } else { '.' }).collect();
        assert_eq!(first, "..x.x.xxxxx.....");
    }

    #[test]
    fn probabilities_zero_and_one_are_exact() {
        let always = Faults { drop: 1.0, duplicate: 1.0, reorder: 1.0, corrupt: 1.0, ..Faults::default() };
        let (mut all, mut none) = (FaultRng::new(&always, 0), FaultRng::new(&Faults::default(), 0));
        for _ in 0..10_000 {
            let Verdict { drop, duplicate, reorder, corrupt, delay } = all.roll();
            assert!(drop && duplicate && reorder && corrupt.is_some() && delay == 0);
            assert_eq!(none.roll(), Verdict::default());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// The count of n packets with probability p must be within six standard deviations of n p, which fails for one
        /// seed in five hundred million.
        #[test]
        fn fault_rate_matches_its_probability(seed: u64, chance in 0.0_f64..=1.0, least in 0_u64..1_000, more in 0_u64..1_000) {
            let n = 5_000_u32;
            let delay = (Duration::from_nanos(least), Duration::from_nanos(least + more));
            let mut rng = FaultRng::new(&Faults { seed, drop: chance, delay, ..Faults::default() }, 0);
            let rolls: Vec<_> = (0..n).map(|_| rng.roll()).collect();
            let dropped = rolls.iter().filter(|verdict| verdict.drop).count() as f64;
            let (mean, deviation) = (f64::from(n) * chance, (f64::from(n) * chance * (1.0 - chance)).sqrt());
            // For a mean below one, the distribution is Poisson rather than normal: allow a few more.
            prop_assert!((dropped - mean).abs() <= 6.0 * deviation + 6.0, "{dropped} of {mean}");
            prop_assert!(rolls.iter().all(|verdict| (least..=least + more).contains(&verdict.delay)));
        }
    }
}
