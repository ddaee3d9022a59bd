//! The clock of bursts, as read by the control thread, and its relation to wall-clock time.

use mem::ticks;
use port::Now;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long the time-stamp counter is compared with the clock at start.
const CALIBRATION: Duration = Duration::from_millis(5);

/// Origin and frequency of the clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    pub(crate) start: u64,
    pub(crate) ticks_per_ns: f64,
}

impl Clock {
    /// A clock that starts now, after a comparison of the time-stamp counter with the system's clock.
    pub(crate) fn start() -> Self {
        let (started, start) = (Instant::now(), ticks());
        std::thread::sleep(CALIBRATION);
        let ticks_per_ns = (ticks() - start) as f64 / started.elapsed().as_nanos() as f64;
        Self { start, ticks_per_ns }
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
