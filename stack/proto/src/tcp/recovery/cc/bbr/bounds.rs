//! Short-term bounds of bandwidth and flight, which congestion marks lower.

/// Factor of the short-term bounds for each window with a congestion mark, in 1/10 (`BBR.Beta`).
const BETA: u64 = 7;

/// Bounds from congestion marks (`BBR.bw_shortterm`, `BBR.inflight_shortterm`), and the largest delivery of the present
/// round, below which they do not fall.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Bytes per second, and bytes in flight.
    pub(super) bandwidth: u64,
    pub(super) inflight: u32,
    /// The same of the present round (`BBR.bw_latest`, `BBR.inflight_latest`).
    latest: (u64, u32),
}

impl Bounds {
    pub(super) const NONE: Self = Self { bandwidth: u64::MAX, inflight: u32::MAX, latest: (0, 0) };

    /// `UpdateLatestDeliverySignals` and `AdvanceLatestDeliverySignals`.
    pub(super) fn on_delivered(&mut self, bandwidth: u64, bytes: u32, is_round_start: bool) {
        let (rate, volume) = if is_round_start { (0, 0) } else { self.latest };
        self.latest = (rate.max(bandwidth), volume.max(bytes));
    }

    /// `InitLowerBounds` and `LossLowerBounds`.
    pub(super) fn on_mark(&mut self, bandwidth: u64, window: u32) {
        self.bandwidth = (self.bandwidth.min(bandwidth) / 10 * BETA).max(self.latest.0);
        self.inflight = (u64::from(self.inflight.min(window)) * BETA / 10).max(self.latest.1.into()) as u32;
    }

    /// `ResetShortTermModel`.
    pub(super) const fn reset(&mut self) {
        *self = Self { latest: self.latest, ..Self::NONE };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn congestion_marks_lower_bounds_to_delivered_values() {
        let mut bounds = Bounds::NONE;
        bounds.on_delivered(400_000, 4_000, true);
        bounds.on_delivered(300_000, 5_000, false);
        bounds.on_mark(1_000_000, 10_000);
        assert_eq!((bounds.bandwidth, bounds.inflight), (700_000, 7_000));
        bounds.on_mark(1_000_000, 10_000);
        assert_eq!((bounds.bandwidth, bounds.inflight), (490_000, 5_000));
        bounds.on_mark(1_000_000, 10_000);
        assert_eq!((bounds.bandwidth, bounds.inflight), (400_000, 5_000));
        bounds.reset();
        bounds.on_delivered(1, 1, true);
        bounds.on_mark(1_000_000, 10_000);
        assert_eq!((bounds.bandwidth, bounds.inflight), (700_000, 7_000));
    }
}
