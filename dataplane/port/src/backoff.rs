//! Exponential back-off for retries: bounds the control thread's cost of repeated failures. Does not read a clock;
//! callers pass the time.

use std::time::{Duration, Instant};

/// Initial pause.
const MIN_PAUSE: Duration = Duration::from_millis(100);
/// Maximum pause, and the run time after which the back-off resets.
pub(crate) const MAX_PAUSE: Duration = Duration::from_secs(2);

/// Duration of the next pause.
#[derive(Debug)]
pub(crate) struct Backoff(Duration);

impl Default for Backoff {
    fn default() -> Self {
        Self(MIN_PAUSE)
    }
}

impl Backoff {
    /// Starts a pause at `now` and returns its end. The next pause is twice as long, up to the maximum.
    pub(crate) fn begin(&mut self, now: Instant) -> Instant {
        let next = (self.0 * 2).min(MAX_PAUSE);
        now + std::mem::replace(&mut self.0, next)
    }

    /// Reports the end of a run that started at `since`; `None` if it never started. Resets the back-off only after a
    /// long run, because a short one is easily faked.
    pub(crate) fn ended(&mut self, since: Option<Instant>, now: Instant) {
        if since.is_some_and(|at| now.saturating_duration_since(at) >= MAX_PAUSE) {
            self.shorten();
        }
    }

    /// Resets the back-off.
    pub(crate) fn shorten(&mut self) {
        self.0 = MIN_PAUSE;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_grows_to_its_maximum_and_resets_after_a_long_connection() {
        let (mut backoff, began) = (Backoff::default(), Instant::now());
        let mut next = || (backoff.begin(began) - began).as_millis();
        assert_eq!([(); 7].map(|()| next()), [100, 200, 400, 800, 1600, 2000, 2000]);
        let (soon, late) = (began + MAX_PAUSE / 2, began + MAX_PAUSE);
        for (since, now, expected) in
            [(None, late, 2000), (Some(began), soon, 2000), (Some(began), late, 100)]
        {
            backoff.ended(since, now);
            assert_eq!((backoff.begin(now) - now).as_millis(), expected);
        }
    }
}
