//! Policy of TAS (Kaufmann et al., `EuroSys` 2019) for the number of fast-path cores: a pure function of samples.

/// A worker is added if active ones are idle for less than this part of one worker's time: a fifth.
const ADD_BELOW: (u64, u64) = (1, 5);
/// A worker is drained if active ones are idle for more than this: 1.25 workers, so that the others are idle for 0.25.
const DRAIN_ABOVE: (u64, u64) = (5, 4);
/// Weight of the samples before in the averages, in eighths.
const OLD: u64 = 7;
/// Samples after a change before the next one.
const PAUSE: u32 = 10;

/// Averages of the samples.
#[derive(Debug)]
pub(super) struct Policy {
    least: usize,
    most: usize,
    /// Averages of busy and of elapsed time.
    busy: u64,
    elapsed: u64,
    /// Samples until a change is possible.
    pause: u32,
}

impl Policy {
    /// A policy for a number of workers from `least` to `most`.
    pub(super) fn new((least, most): (usize, usize)) -> Self {
        Self { least, most, busy: 0, elapsed: 0, pause: PAUSE }
    }

    /// Adds a sample: of `elapsed` nanoseconds, the `active` workers were busy for `busy` in sum. Returns the number of
    /// active workers from now on.
    pub(super) fn sample(&mut self, active: usize, busy: u64, elapsed: u64) -> usize {
        let average = |old: u64, new: u64| (OLD * old + new) / (OLD + 1);
        (self.busy, self.elapsed) = (average(self.busy, busy), average(self.elapsed, elapsed));
        self.pause = self.pause.saturating_sub(1);
        if self.pause > 0 {
            return active;
        }
        let idle = (active as u64 * self.elapsed).saturating_sub(self.busy);
        let part = |(numerator, denominator): (u64, u64)| self.elapsed * numerator / denominator;
        let wanted = if active > self.least && idle > part(DRAIN_ABOVE) {
            active - 1
        } else if active < self.most && idle < part(ADD_BELOW) {
            active + 1
        } else {
            return active;
        };
        self.pause = PAUSE;
        wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SAMPLE: u64 = 10_000_000;

    /// The numbers of active workers if all of them together are busy for `percent` of one worker's time.
    fn run(policy: &mut Policy, mut active: usize, percent: u64, samples: u32) -> Vec<usize> {
        let sample = |_| {
            active = policy.sample(active, SAMPLE * percent.min(active as u64 * 100) / 100, SAMPLE);
            active
        };
        (0..samples).map(sample).collect()
    }

    #[test]
    fn thresholds_are_those_of_tas() {
        for (active, percent, after) in
            [(1, 79, 1), (1, 82, 2), (2, 73, 1), (2, 76, 2), (2, 179, 2), (2, 182, 3), (3, 174, 2)]
        {
            let all = run(&mut Policy::new((1, 8)), active, percent, 200);
            let first = all.iter().find(|count| **count != active).copied().unwrap_or(active);
            assert_eq!(first, after, "{active} workers, {percent} %");
        }
    }

    #[test]
    fn a_change_needs_a_tenth_of_a_second_and_another_one_as_long() {
        let all = run(&mut Policy::new((1, 4)), 1, 400, 40);
        let changes = all.windows(2).enumerate().filter(|(_, pair)| pair[0] != pair[1]);
        let changes: Vec<_> = changes.map(|(at, _)| at + 1).collect();
        assert_eq!((changes[0], changes.len()), (9, 3), "{all:?}");
        assert!(changes.windows(2).all(|pair| pair[1] - pair[0] >= PAUSE as usize), "{changes:?}");
    }

    #[test]
    fn a_short_burst_changes_nothing() {
        let mut policy = Policy::new((1, 2));
        assert_eq!(run(&mut policy, 1, 10, 50).last(), Some(&1));
        assert_eq!(run(&mut policy, 1, 100, 5).last(), Some(&1), "50 ms");
        assert_eq!(run(&mut policy, 1, 100, 30).last(), Some(&2), "0.3 s");
    }

    proptest! {
        /// Under a constant load the number is in the range, and changes in one direction only.
        #[test]
        fn a_constant_load_has_a_constant_number(percent in 0..900_u64, from in 1..=8_usize, least in 1..=8_usize) {
            let from = from.max(least);
            let all = run(&mut Policy::new((least, 8)), from, percent, 400);
            prop_assert!(all.iter().all(|count| (least..=8).contains(count)));
            prop_assert!(all.is_sorted() || all.iter().rev().is_sorted(), "{all:?}");
            prop_assert!(all[200..].windows(2).all(|pair| pair[0] == pair[1]), "{all:?}");
        }
    }
}
