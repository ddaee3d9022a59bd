//! What a field that changes from frame to frame holds: counted, random from a seed, or from a list.

use fastrand::Rng;
use serde::{Deserialize, Serialize};

/// How a field changes, before it is judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case", untagged)]
pub enum Pattern {
    /// `from`, then `step` more with each frame, `count` values in all, and again.
    Count {
        /// How many values.
        count: u64,
        /// The first; left out: what stands in the field otherwise.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<u64>,
        /// From one to the next.
        #[serde(default = "one")]
        step: u64,
    },
    /// By chance from this seed, the same in each run.
    Random {
        /// The seed.
        random: u64,
        /// Only values below this; left out: every value of the field.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        below: Option<u64>,
    },
    /// These in turn.
    List {
        /// The values.
        list: Vec<u64>,
    },
}

fn one() -> u64 {
    1
}

/// The values of one field as they come. They are cut to the field's width by whoever writes them.
#[derive(Clone, Debug)]
pub(super) enum Values {
    /// See [`Pattern::Count`].
    Count {
        /// The next value.
        value: u64,
        /// The first value.
        from: u64,
        /// From one to the next.
        step: u64,
        /// How many values.
        count: u64,
        /// How many come before it begins anew.
        left: u64,
    },
    /// See [`Pattern::Random`].
    Random {
        /// The chance.
        chance: Rng,
        /// Above all values; 0: no limit.
        below: u64,
    },
    /// See [`Pattern::List`].
    List {
        /// The values; never none.
        values: Box<[u64]>,
        /// The next one's place.
        at: usize,
    },
    /// Bits of the flow's number: so many flows in turn, of whose number this field holds the bits of `mask` behind
    /// `shift`, added to `from`.
    Flow {
        /// The next flow.
        flow: u64,
        /// How many flows.
        flows: u64,
        /// What is added.
        from: u64,
        /// Bits of the number that are not this field's.
        shift: u32,
        /// The bits that are.
        mask: u64,
    },
}

impl Values {
    /// The values of a pattern for a field that otherwise holds `base`; `None` where the pattern has none.
    pub(super) fn of(pattern: &Pattern, base: u64) -> Option<Self> {
        match pattern {
            Pattern::Count { count: 0, .. } | Pattern::Random { below: Some(0), .. } => None,
            Pattern::Count { count, from, step } => {
                let from = from.unwrap_or(base);
                Some(Values::Count { value: from, from, step: *step, count: *count, left: *count })
            }
            Pattern::Random { random, below } => {
                Some(Values::Random { chance: Rng::with_seed(*random), below: below.unwrap_or(0) })
            }
            Pattern::List { list } if list.is_empty() => None,
            Pattern::List { list } => Some(Values::List { values: list.clone().into(), at: 0 }),
        }
    }

    /// The value of the next frame.
    #[inline]
    pub(super) fn next(&mut self) -> u64 {
        match self {
            Values::Count { value, from, step, count, left } => {
                let now = *value;
                *left -= 1;
                (*value, *left) = if *left == 0 { (*from, *count) } else { (now.wrapping_add(*step), *left) };
                now
            }
            Values::Random { chance, below: 0 } => chance.u64(..),
            Values::Random { chance, below } => chance.u64(..*below),
            Values::List { values, at } => {
                let now = values[*at];
                *at = if *at + 1 == values.len() { 0 } else { *at + 1 };
                now
            }
            Values::Flow { flow, flows, from, shift, mask } => {
                let now = from.wrapping_add(*flow >> *shift & *mask);
                *flow = if *flow + 1 == *flows { 0 } else { *flow + 1 };
                now
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(pattern: &str, n: usize) -> Vec<u64> {
        let pattern: Pattern = toml::from_str(pattern).unwrap();
        let mut values = Values::of(&pattern, 7).unwrap();
        std::iter::repeat_with(|| values.next()).take(n).collect()
    }

    #[test]
    fn patterns_are_read_and_repeat() {
        assert_eq!(first("count = 3", 5), [7, 8, 9, 7, 8]);
        assert_eq!(first("count = 2\nfrom = 1\nstep = 10", 3), [1, 11, 1]);
        assert_eq!(first("list = [5, 3]", 3), [5, 3, 5]);
        assert_eq!(first("random = 1", 4), first("random = 1", 4));
        assert_ne!(first("random = 1", 4), first("random = 2", 4));
        assert!(first("random = 1\nbelow = 4", 100).iter().all(|value| *value < 4));
        assert!(Values::of(&Pattern::List { list: vec![] }, 0).is_none());
        assert!(toml::from_str::<Pattern>("cuont = 3").is_err());
    }

    #[test]
    fn flows_are_numbered_over_two_fields() {
        let flow = |shift, mask| Values::Flow { flow: 0, flows: 5, from: 100, shift, mask };
        let (mut low, mut high) = (flow(0, 1), flow(1, u64::MAX));
        let pairs: Vec<_> = (0..6).map(|_| (low.next(), high.next())).collect();
        assert_eq!(pairs, [(100, 100), (101, 100), (100, 101), (101, 101), (100, 102), (100, 100)]);
    }
}
