//! Search for a larger path MTU after it was lowered (RFC 4821 section 7, RFC 8899 section 5.3).
//!
//! Decides sizes and times of probes only; connections send them as data that is due anyway, and report their fate. A
//! search must end after a bounded number of probes on every path.

use crate::Time;
use core::time::Duration;

/// Lost probes of one size after which it counts as too long (RFC 8899 section 5.1.2, `MAX_PROBES`).
const MAX_LOST: u8 = 3;
/// Minimum time between two probes of a path (RFC 8899 section 5.1.1, `PROBE_TIMER`).
const INTERVAL: Duration = Duration::from_secs(1);
/// Range of sizes in bytes that is not worth a probe (RFC 4821 section 7.2).
const PRECISION: u16 = 16;
/// Time after a search, or a reduction, before larger packets are tried (RFC 8899 section 5.1.1, `PMTU_RAISE_TIMER`;
/// RFC 1191 section 6.3, RFC 8201 section 4).
pub(super) const RAISE_TIME: Duration = Duration::from_mins(10);
/// Time after that in which a connection can probe the path. Without a probe, the path has the MTU of its link again,
/// as before RFC 4821.
pub(super) const PROBE_WAIT: Duration = Duration::from_mins(1);

/// Search on one path.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Search {
    /// Size of the next probe in bytes; 0 if no search is under way.
    probe: u16,
    /// Largest size that may be right, in bytes.
    top: u16,
    /// Lost probes of this size.
    lost: u8,
    /// Whether long packets were lost without a report, so that only a probe shows that a larger size is right.
    is_silent: bool,
    /// Earliest time of the next probe; the origin if there was none.
    next: Time,
}

impl Search {
    /// No search. `is_silent` if the path MTU was lowered without a report.
    pub(super) const fn none(is_silent: bool) -> Self {
        Self { probe: 0, top: 0, lost: 0, is_silent, next: Time(0) }
    }

    /// Starts with the largest size, because the loss of longer packets is often temporary.
    pub(super) const fn start(&mut self, top: u16) {
        *self = Self { probe: top, top, ..Self::none(self.is_silent) };
    }

    /// Size of the next probe, at any time; 0 if no search is under way.
    #[inline]
    pub(super) const fn probe(&self) -> u16 {
        self.probe
    }

    /// Whether a search is under way that no connection has contributed to and that the path does not depend on.
    pub(super) fn is_ignored(&self) -> bool {
        self.probe > 0 && self.next == Time(0) && !self.is_silent
    }

    /// Time that connections have for the first probe.
    pub(super) const fn wait(&self) -> Duration {
        if self.is_silent { RAISE_TIME } else { PROBE_WAIT }
    }

    /// Whether a probe may be sent now, which is noted.
    pub(super) fn take(&mut self, now: Time) -> bool {
        let may = self.probe > 0 && now >= self.next;
        if may {
            self.next = now.after(INTERVAL);
        }
        may
    }

    /// A probe of the present size was delivered: it is the path MTU. Returns whether the search is over.
    pub(super) const fn on_delivered(&mut self) -> bool {
        let mtu = self.probe;
        self.continue_above(mtu)
    }

    /// A probe of the present size was lost, with the path MTU `mtu`. Returns whether the search is over.
    pub(super) const fn on_lost(&mut self, mtu: u16) -> bool {
        self.lost += 1;
        if self.lost < MAX_LOST {
            return false;
        }
        self.top = self.probe - 1;
        self.continue_above(mtu)
    }

    /// A router reports that probes are longer than `mtu`, which is larger than the path MTU (RFC 8899 section 4.6.2).
    pub(super) const fn on_report(&mut self, mtu: u16) {
        if mtu < self.probe {
            (self.probe, self.top, self.lost) = (mtu, mtu, 0);
        }
    }

    /// Halves the range above `mtu`.
    const fn continue_above(&mut self, mtu: u16) -> bool {
        let range = self.top.saturating_sub(mtu);
        self.lost = 0;
        self.probe = if range < PRECISION { 0 } else { mtu + range.div_ceil(2) };
        self.probe == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Probes until the search over a path of `right` bytes ends. Returns the size found and the number of probes.
    fn search(base: u16, top: u16, right: u16) -> (u16, u32) {
        let (mut search, mut mtu, mut probes, mut now) = (Search::none(true), base, 0, Time(0));
        search.start(top);
        loop {
            now = now.after(INTERVAL);
            assert!(search.take(now) && !search.take(now), "one probe in an interval");
            probes += 1;
            let probe = search.probe();
            assert!(mtu < probe && probe <= top);
            let is_over = if probe <= right {
                mtu = probe;
                search.on_delivered()
            } else {
                search.on_lost(mtu)
            };
            if is_over {
                return (mtu, probes);
            }
        }
    }

    #[test]
    fn every_size_is_found_with_a_bounded_number_of_probes() {
        assert_eq!((search(1200, 1500, 1500), search(1200, 9000, 9000)), ((1500, 1), (9000, 1)));
        for right in 1200..=9000 {
            let (mtu, probes) = search(1200, 9000, right);
            assert!(mtu <= right && right - mtu <= PRECISION && probes <= 33, "{right}: {mtu}, {probes}");
        }
        assert!(search(576, u16::MAX, 576).1 <= 3 * 13);
    }

    #[test]
    fn a_report_is_probed_next() {
        let mut search = Search::none(false);
        search.start(9000);
        assert!(search.is_ignored() && search.take(Time(1)) && !search.is_ignored());
        search.on_report(9001);
        assert_eq!(search.probe(), 9000);
        search.on_report(1400);
        assert_eq!((search.probe(), search.on_delivered(), search.probe()), (1400, true, 0));
    }
}
