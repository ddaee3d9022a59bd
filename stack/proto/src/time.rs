//! Time, passed in by the caller.

use core::time::Duration;

/// Nanoseconds since an origin chosen by the caller, the same for all calls of one stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

impl Time {
    /// Later than any other time: the deadline of a timer that does not run.
    pub const NEVER: Self = Self(u64::MAX);

    /// This time plus `micros` microseconds.
    #[must_use]
    #[inline]
    pub const fn after_micros(self, micros: u64) -> Self {
        Self(self.0.saturating_add(micros.saturating_mul(1000)))
    }

    /// This time plus a duration.
    #[must_use]
    #[inline]
    pub const fn after(self, duration: Duration) -> Self {
        self.after_micros(duration.as_micros() as u64)
    }

    /// Microseconds since `earlier`; 0 if that is later.
    #[inline]
    pub const fn micros_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0) / 1000
    }

    /// Microseconds since the origin.
    #[inline]
    pub const fn micros(self) -> u64 {
        self.0 / 1000
    }

    /// Milliseconds since the origin.
    #[inline]
    pub const fn millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// Whether the timer does not run.
    #[inline]
    pub const fn is_never(self) -> bool {
        self.0 == u64::MAX
    }
}
