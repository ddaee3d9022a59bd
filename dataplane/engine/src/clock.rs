//! The clock of bursts, as read by the control thread, and its relation to wall-clock time.

use mem::{ticks, ticks_per_second};
use port::Now;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Origin and frequency of the clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    pub(crate) start: u64,
    pub(crate) ticks_per_ns: f64,
}

impl Clock {
    /// A clock that starts now.
    pub(crate) fn start() -> Self {
        Self { ticks_per_ns: ticks_per_second() / 1e9, start: ticks() }
    }

    /// The clock with a time that is `age` ahead, at most that of the ticks.
    pub(crate) fn advanced(self, age: Duration) -> Self {
        let ticks = age.as_nanos() as f64 * self.ticks_per_ns;
        Self { start: self.start.saturating_sub(ticks as u64), ..self }
    }

    /// Current time, as in a burst begun now.
    pub(crate) fn now(self) -> Now {
        Now(((ticks() - self.start) as f64 / self.ticks_per_ns) as u64)
    }

    /// Converts ticks to nanoseconds.
    pub(crate) fn ns(self, ticks: u64) -> u64 {
        (ticks as f64 / self.ticks_per_ns) as u64
    }

    /// The origin of this clock, in nanoseconds since the Unix epoch.
    pub(crate) fn epoch(self) -> u64 {
        // Zero if the system clock is before 1970.
        let today = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        (today.as_nanos() as u64).saturating_sub(self.now().0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_begins_at_the_time_of_another_one() {
        let age = Duration::from_millis(5);
        let clock = Clock::start();
        let (before, after) = (clock.now().0, clock.advanced(age).now().0);
        assert!(after - before >= 4_999_000, "{before} {after}");
    }
}
