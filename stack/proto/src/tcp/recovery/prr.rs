//! Proportional rate reduction (RFC 6937, RFC 9937): how much is sent while the window shrinks.

/// State of one reduction, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Prr {
    /// Flight at the start (`RecoverFS`).
    flight: u32,
    delivered: u32,
    sent: u32,
    /// Bytes that may be sent now.
    budget: u32,
}

impl Prr {
    pub(super) const fn new(flight: u32) -> Self {
        Self { flight, delivered: 0, sent: 0, budget: 0 }
    }

    /// Bytes that may be sent now.
    #[inline]
    pub(super) const fn budget(&self) -> u32 {
        self.budget
    }

    /// Whether nothing was sent since the start.
    #[inline]
    pub(super) const fn is_first(&self) -> bool {
        self.sent == 0
    }

    /// Counts delivered bytes. `is_safe` if the acknowledgement advances and reports no new loss, so that the flight
    /// may grow back to the threshold (slow start, else packet conservation).
    pub(super) fn on_ack(&mut self, delivered: u32, pipe: u32, threshold: u32, mss: u32, is_safe: bool) {
        self.delivered = self.delivered.saturating_add(delivered);
        self.budget = if pipe > threshold {
            let share = u64::from(self.delivered) * u64::from(threshold);
            let share =
                share.div_ceil(u64::from(self.flight.max(threshold).max(1))).min(u64::from(u32::MAX)) as u32;
            // Duplicates of the network can count as more than was sent.
            share.saturating_sub(self.sent).min(threshold)
        } else {
            let limit = self.delivered.saturating_sub(self.sent).max(delivered);
            limit.saturating_add(if is_safe { mss } else { 0 }).min(threshold - pipe)
        };
        if self.sent == 0 {
            self.budget = self.budget.max(mss);
        }
    }

    /// Permits at least `bytes`.
    pub(super) fn grant(&mut self, bytes: u32) {
        self.budget = self.budget.max(bytes);
    }

    /// Counts sent bytes.
    pub(super) fn on_sent(&mut self, bytes: u32) {
        self.sent = self.sent.saturating_add(bytes);
        self.budget = self.budget.saturating_sub(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 20 segments, the first lost, threshold 10: about every second acknowledgement sends one segment.
    #[test]
    fn reduction_is_proportional() {
        let (mut prr, mut pipe) = (Prr::new(20_000), 18_000_u32);
        prr.on_ack(1_000, pipe, 10_000, 1_000, false);
        let mut sent = 0;
        for _ in 0..19 {
            let bytes = prr.budget() / 1_000 * 1_000;
            prr.on_sent(bytes);
            (pipe, sent) = (pipe + bytes - 1_000, sent + bytes);
            prr.on_ack(1_000, pipe, 10_000, 1_000, false);
        }
        assert!((9_000..=11_000).contains(&sent), "{sent}");
        assert!((9_000..=10_000).contains(&pipe), "{pipe}");
    }

    #[test]
    fn first_retransmission_is_never_withheld() {
        let mut prr = Prr::new(4_000);
        prr.on_ack(0, 40_000, 2_000, 1_000, false);
        assert_eq!(prr.budget(), 1_000);
        prr.on_sent(1_000);
        prr.on_ack(0, 40_000, 2_000, 1_000, false);
        assert_eq!(prr.budget(), 0);
    }

    #[test]
    fn flight_below_the_threshold_grows_by_delivered_bytes() {
        let mut prr = Prr::new(20_000);
        prr.on_sent(1_000);
        prr.on_ack(2_000, 3_000, 10_000, 1_000, false);
        assert_eq!(prr.budget(), 2_000);
        prr.on_ack(2_000, 3_000, 10_000, 1_000, true);
        assert_eq!(prr.budget(), 4_000);
        prr.on_ack(2_000, 9_500, 10_000, 1_000, true);
        assert_eq!(prr.budget(), 500);
    }
}
