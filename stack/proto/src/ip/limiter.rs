//! Rate limit of errors, so that forged packets cannot make this host a source of traffic (RFC 4443 section 2.4 f).

use crate::Time;
use crate::random::Random;

/// A token bucket that holds the tokens of a tenth of a second. An error costs one to two tokens at random: with a
/// constant cost, a host that uses up the bucket learns how many errors this host has sent to others, and so which
/// ports are open (CVE-2020-25705).
pub(super) struct Limiter {
    /// Tokens per second.
    rate: u64,
    /// Tokens in units of 1 / 10^9.
    level: u64,
    filled: Time,
    random: Random,
}

const TOKEN: u64 = 1_000_000_000;

impl Limiter {
    pub(super) fn new(rate: u32, random: Random, now: Time) -> Self {
        let rate = rate.into();
        Self { rate, level: Self::capacity(rate), filled: now, random }
    }

    const fn capacity(rate: u64) -> u64 {
        match rate {
            0 => 0,
            1..10 => TOKEN,
            _ => rate * (TOKEN / 10),
        }
    }

    /// Takes the cost of an error. Returns false if there is no token.
    pub(super) fn allow(&mut self, now: Time) -> bool {
        let passed = now.0.saturating_sub(self.filled.0);
        self.filled = self.filled.max(now);
        self.level =
            self.level.saturating_add(passed.saturating_mul(self.rate)).min(Self::capacity(self.rate));
        let left = self.level.checked_sub(TOKEN);
        if let Some(left) = left {
            self.level = left.saturating_sub(self.random.below(TOKEN));
        }
        left.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limiter(rate: u32) -> Limiter {
        Limiter::new(rate, Random::new(&[3; 16], "errors", 0), Time(0))
    }

    #[test]
    fn a_burst_and_then_the_rate_are_allowed() {
        let mut limiter = limiter(100);
        let mut count = |at| (0..1000).filter(|_| limiter.allow(Time(at))).count();
        let (first, at_once, later, last) = (count(0), count(0), count(50_000_000), count(u64::MAX));
        assert!((5..=10).contains(&first) && (2..=5).contains(&later) && (5..=10).contains(&last));
        assert_eq!(at_once, 0);
        assert!(!self::limiter(0).allow(Time(u64::MAX)));
        assert!(self::limiter(1).allow(Time(0)));
    }

    #[test]
    fn the_number_of_errors_is_not_constant() {
        let mut limiter = limiter(500);
        let counts = (0..20_u64).map(|at| (0..1000).filter(|_| limiter.allow(Time(at * TOKEN))).count());
        let counts: std::collections::HashSet<usize> = counts.collect();
        assert!(counts.len() > 3 && counts.iter().all(|count| (25..=50).contains(count)), "{counts:?}");
    }
}
