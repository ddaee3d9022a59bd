//! The clock of a host: nanoseconds since it was made.

use measure::Processor;
use stack::Time;

/// A calibrated clock with its origin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    clock: measure::Clock,
    origin: u64,
    /// Nanoseconds per tick.
    per_tick: f64,
}

impl Clock {
    /// Calibrates the clock, which takes a tenth of a second.
    pub(crate) fn new() -> Self {
        let clock = measure::Clock::calibrated(&Processor::here());
        Self { clock, origin: clock.ticks(), per_tick: clock.seconds(0, 1) * 1e9 }
    }

    #[inline]
    pub(crate) fn now(&self) -> Time {
        Time((self.clock.ticks().saturating_sub(self.origin) as f64 * self.per_tick) as u64)
    }
}
