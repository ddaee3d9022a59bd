//! The readings of counters that later ones are compared with, for clients that ask again and again.

use super::evidence::Readings;
use engine::Snapshot;

/// Seconds after which a reading begins the next interval. However many clients ask, counters are compared over this time
/// or up to twice as much.
const APART: f64 = 5.0;
/// Seconds after which a reading is no longer compared with.
const OLD: f64 = 60.0;

/// Readings that later ones are compared with.
#[derive(Debug, Default)]
pub(crate) struct Earlier {
    before: Snapshot,
    /// Replaces `before` once it is old enough.
    next: Snapshot,
}

impl Earlier {
    /// Later readings are compared with `now`.
    pub(crate) fn since(now: Snapshot) -> Self {
        Self { before: now.clone(), next: now }
    }

    /// The reading `now`, and the one to compare it with.
    pub(crate) fn readings(&mut self, now: Snapshot) -> Readings {
        let since = now.uptime_ns.saturating_sub(self.next.uptime_ns) as f64 / 1e9;
        if since >= OLD {
            *self = Self::since(now.clone());
        } else if since >= APART {
            self.before = std::mem::replace(&mut self.next, now.clone());
        }
        Readings { before: self.before.clone(), now }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_are_compared_over_some_seconds_whoever_asks() {
        let mut earlier = Earlier::default();
        let mut apart = |now: u64| {
            let readings =
                earlier.readings(Snapshot { uptime_ns: now * 1_000_000_000, ..Snapshot::default() });
            readings.seconds() as u64
        };
        assert_eq!([100, 101, 104, 105, 106, 110, 119].map(&mut apart), [0, 1, 4, 5, 6, 5, 9]);
        assert_eq!([180, 185].map(apart), [0, 5]);
    }
}
