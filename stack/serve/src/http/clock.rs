//! The date of responses, read once per second.

use stack::Time;
use std::time::{Duration, SystemTime};

const SECOND: u64 = 1_000_000_000;

/// Current date with a resolution of a second.
#[derive(Debug)]
pub(super) struct WallClock {
    /// The current second.
    pub(super) today: SystemTime,
    /// It as an HTTP date (RFC 9110 section 5.6.7).
    pub(super) text: String,
    /// Monotonic time of the next second.
    until: Time,
}

impl WallClock {
    /// A clock that is read at the first update.
    pub(super) const fn new() -> Self {
        Self { today: SystemTime::UNIX_EPOCH, text: String::new(), until: Time(0) }
    }

    /// Follows the time. Must be called before the date is used.
    #[inline]
    pub(super) fn update(&mut self, now: Time) {
        if now >= self.until {
            self.read(now);
        }
    }

    #[cold]
    fn read(&mut self, now: Time) {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.today = SystemTime::UNIX_EPOCH + Duration::from_secs(since.as_secs());
        self.text = httpdate::fmt_http_date(self.today);
        self.until = Time(now.0 + SECOND - u64::from(since.subsec_nanos()));
    }
}
