//! The bursts' clock as control reads it, beside the time of day.

use mem::ticks;
use port::Now;
use std::time::{SystemTime, UNIX_EPOCH};

/// Where the clock began, and how fast it goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    pub(crate) start: u64,
    pub(crate) ticks_per_ns: f64,
}

impl Clock {
    /// What a burst begun now would say.
    pub(crate) fn now(self) -> Now {
        Now(((ticks() - self.start) as f64 / self.ticks_per_ns) as u64)
    }

    /// So many ticks in nanoseconds.
    pub(crate) fn ns(self, ticks: u64) -> u64 {
        (ticks as f64 / self.ticks_per_ns) as u64
    }

    /// When it stood at zero, in nanoseconds since the Unix epoch.
    pub(crate) fn epoch(self) -> u64 {
        // A machine whose clock stands before 1970 has no time of day.
        let today = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        (today.as_nanos() as u64).saturating_sub(self.now().0)
    }
}
