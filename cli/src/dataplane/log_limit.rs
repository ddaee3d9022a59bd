//! A limit of log lines, so that a party that causes them cannot fill the log.

use std::time::{Duration, Instant};

/// Lines that may be written at once, and the interval after which another one may be.
const BURST: u32 = 10;
const INTERVAL: Duration = Duration::from_secs(1);

/// A token bucket of lines: [`BURST`] at once, and then one in each [`INTERVAL`].
#[derive(Default)]
pub(super) struct LogLimit {
    /// Lines in the bucket are those of the time since then, at most [`BURST`]. `None`: it is full.
    empty_at: Option<Instant>,
    left_out: u64,
}

impl LogLimit {
    /// Returns how many lines were left out before this one, or `None` if this one is left out too.
    pub(super) fn admit(&mut self, now: Instant) -> Option<u64> {
        let full = now.checked_sub(BURST * INTERVAL).unwrap_or(now);
        let from = self.empty_at.map_or(full, |at| at.max(full));
        if now.saturating_duration_since(from) < INTERVAL && self.empty_at.is_some() {
            self.left_out += 1;
            return None;
        }
        self.empty_at = Some(from + INTERVAL);
        Some(std::mem::take(&mut self.left_out))
    }

    /// When the next line may be written, after one that was left out.
    pub(super) fn next(&self, now: Instant) -> Instant {
        self.empty_at.map_or(now, |at| at + INTERVAL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_lines_are_written_and_the_others_counted() {
        let (mut limit, start) = (LogLimit::default(), Instant::now() + Duration::from_hours(1));
        let admitted = (0..100).filter(|_| limit.admit(start).is_some()).count();
        assert_eq!(admitted, BURST as usize);
        assert_eq!(limit.admit(start + INTERVAL), Some(100 - u64::from(BURST)));
        assert_eq!(limit.admit(start + INTERVAL), None);
        assert_eq!(limit.next(start + INTERVAL), start + 2 * INTERVAL);
        let later = start + 2 * BURST * INTERVAL;
        assert_eq!(limit.admit(later), Some(1));
        assert_eq!((0..100).filter(|_| limit.admit(later).is_some()).count(), BURST as usize - 1);
    }
}
