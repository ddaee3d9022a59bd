//! Rate limit of errors, so that forged packets cannot make this host a source of traffic (RFC 4443 section 2.4 f).

use crate::Time;

/// A token bucket that holds the tokens of a tenth of a second.
pub(super) struct Limiter {
    /// Tokens per second.
    rate: u64,
    /// Tokens in units of 1 / 10^9.
    level: u64,
    filled: Time,
}

const TOKEN: u64 = 1_000_000_000;

impl Limiter {
    pub(super) fn new(rate: u32, now: Time) -> Self {
        let rate = rate.into();
        Self { rate, level: Self::capacity(rate), filled: now }
    }

    const fn capacity(rate: u64) -> u64 {
        match rate {
            0 => 0,
            1..10 => TOKEN,
            _ => rate * (TOKEN / 10),
        }
    }

    /// Takes a token. Returns false if there is none.
    pub(super) fn allow(&mut self, now: Time) -> bool {
        let passed = now.0.saturating_sub(self.filled.0);
        self.filled = self.filled.max(now);
        self.level =
            self.level.saturating_add(passed.saturating_mul(self.rate)).min(Self::capacity(self.rate));
        let left = self.level.checked_sub(TOKEN);
        self.level = left.unwrap_or(self.level);
        left.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_and_then_the_rate_are_allowed() {
        let mut limiter = Limiter::new(100, Time(0));
        let mut count = |at| (0..1000).filter(|_| limiter.allow(Time(at))).count();
        assert_eq!((count(0), count(0), count(50_000_000)), (10, 0, 5));
        assert_eq!(count(u64::MAX), 10);
        assert!(!Limiter::new(0, Time(0)).allow(Time(u64::MAX)));
        assert!(Limiter::new(1, Time(0)).allow(Time(0)));
    }
}
