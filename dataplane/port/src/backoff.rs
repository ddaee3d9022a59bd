//! Pauses between tries, each twice as long as the one before until something has lasted: whatever fails again and again,
//! or is made to, costs the control thread little. Knows the time only as it is told.

use std::time::{Duration, Instant};

/// The first pause.
const SHORTEST: Duration = Duration::from_millis(100);
/// The longest pause, and how long something must last for the next pause to be a short one again.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// How long the next pause is.
#[derive(Debug)]
pub(crate) struct Backoff(Duration);

impl Default for Backoff {
    fn default() -> Self {
        Self(SHORTEST)
    }
}

impl Backoff {
    /// When the pause ends that begins `now`. The one after it is longer.
    pub(crate) fn begin(&mut self, now: Instant) -> Instant {
        let next = (self.0 * 2).min(LONGEST_PAUSE);
        now + std::mem::replace(&mut self.0, next)
    }

    /// What ran since that time has ended; `None`: it never came to run. Running for a moment is easily played, so it
    /// earns no short pause.
    pub(crate) fn ended(&mut self, since: Option<Instant>, now: Instant) {
        if since.is_some_and(|at| now.saturating_duration_since(at) >= LONGEST_PAUSE) {
            self.shorten();
        }
    }

    /// The next pause is a short one again.
    pub(crate) fn shorten(&mut self) {
        self.0 = SHORTEST;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_the_longest_and_are_short_again_after_what_lasted() {
        let (mut backoff, began) = (Backoff::default(), Instant::now());
        let mut next = || (backoff.begin(began) - began).as_millis();
        assert_eq!([(); 7].map(|()| next()), [100, 200, 400, 800, 1600, 2000, 2000]);
        let (soon, late) = (began + LONGEST_PAUSE / 2, began + LONGEST_PAUSE);
        for (since, now, expected) in
            [(None, late, 2000), (Some(began), soon, 2000), (Some(began), late, 100)]
        {
            backoff.ended(since, now);
            assert_eq!((backoff.begin(now) - now).as_millis(), expected);
        }
    }
}
