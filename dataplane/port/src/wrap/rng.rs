//! Which packet meets which fault: decided by a generator with a seed and by nothing else.
//!
//! For each packet the same numbers are drawn whatever became of the one before, so that the faults of a queue depend on
//! the seed, the settings and how many packets came, and never on bursts or time.

use super::options::Faults;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// Bits of a probability.
const BITS: u32 = 53;

/// What one packet meets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) drop: bool,
    pub(super) duplicate: bool,
    pub(super) reorder: bool,
    /// The bit to turn over, modulo the packet's length.
    pub(super) corrupt: Option<u64>,
    /// Nanoseconds.
    pub(super) delay: u64,
}

/// The dice of one queue.
#[derive(Debug)]
pub(super) struct FaultRng {
    generator: Xoshiro256PlusPlus,
    drop: u64,
    duplicate: u64,
    reorder: u64,
    corrupt: u64,
    /// Least delay, and how many longer ones there are.
    delay: (u64, u64),
}

impl FaultRng {
    /// The dice of queue number `queue`: each has its own.
    pub(super) fn new(faults: &Faults, queue: u64) -> Self {
        let limit = |chance: f64| (chance * (1_u64 << BITS) as f64) as u64;
        let nanoseconds = |time: std::time::Duration| time.as_nanos() as u64;
        let (least, most) = (nanoseconds(faults.delay.0), nanoseconds(faults.delay.1));
        // An odd factor: different queues have different seeds.
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

    /// For the next packet.
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
    /// Whether the packet goes on at once and as it is, whatever else comes.
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
    fn equal_seeds_have_equal_faults_and_other_queues_others() {
        let faults = Faults { drop: 0.5, corrupt: 0.5, ..Faults::default() };
        let rolls = |faults: &Faults, queue| {
            let mut rng = FaultRng::new(faults, queue);
            (0..200).map(|_| rng.roll()).collect::<Vec<_>>()
        };
        assert_eq!(rolls(&faults, 3), rolls(&faults, 3));
        assert_ne!(rolls(&faults, 3), rolls(&faults, 4));
        assert_ne!(rolls(&faults, 3), rolls(&Faults { seed: 2, ..faults.clone() }, 3));
        // The algorithm is named and stays: these are its numbers for ever.
        let first: String = rolls(&faults, 0)[..16].iter().map(|v| if v.drop { 'x' } else { '.' }).collect();
        assert_eq!(first, "..x.x.xxxxx.....");
    }

    #[test]
    fn never_and_always_are_exact() {
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

        /// Of n packets with chance p, the count lies within six standard deviations of n p, which fails for one seed
        /// in five hundred million.
        #[test]
        fn faults_are_as_often_as_asked(seed: u64, chance in 0.0_f64..=1.0, least in 0_u64..1_000, more in 0_u64..1_000) {
            let n = 5_000_u32;
            let delay = (Duration::from_nanos(least), Duration::from_nanos(least + more));
            let mut rng = FaultRng::new(&Faults { seed, drop: chance, delay, ..Faults::default() }, 0);
            let rolls: Vec<_> = (0..n).map(|_| rng.roll()).collect();
            let dropped = rolls.iter().filter(|verdict| verdict.drop).count() as f64;
            let (mean, deviation) = (f64::from(n) * chance, (f64::from(n) * chance * (1.0 - chance)).sqrt());
            // Around a mean below one, counts are Poisson's and not normal: a handful more is no rarity in many cases.
            prop_assert!((dropped - mean).abs() <= 6.0 * deviation + 6.0, "{dropped} of {mean}");
            prop_assert!(rolls.iter().all(|verdict| (least..=least + more).contains(&verdict.delay)));
        }
    }
}
