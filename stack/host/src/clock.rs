//! The clock of a host: nanoseconds since it was made.

use stack::Time;

/// A calibrated clock with its origin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    source: measure::Clock,
    origin: u64,
    /// Nanoseconds per tick.
    per_tick: f64,
}

impl Clock {
    /// A clock that starts now.
    pub(crate) fn new() -> Self {
        let source = measure::Clock::calibrated();
        Self { source, origin: source.ticks(), per_tick: source.seconds(0, 1) * 1e9 }
    }

    #[inline]
    pub(crate) fn now(&self) -> Time {
        Time((self.source.ticks().saturating_sub(self.origin) as f64 * self.per_tick) as u64)
    }
}
