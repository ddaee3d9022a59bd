//! `NewReno` (RFC 5681, RFC 6582) with appropriate byte counting (RFC 3465).

use super::{AckSample, Congestion, CongestionControl, Window};

/// Segments by which one acknowledgement can grow the window in slow start (RFC 3465 section 2.2).
const SLOW_START_LIMIT: u32 = 2;

/// Controller of one connection.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct NewReno {
    /// Bytes delivered since the window last grew in congestion avoidance.
    delivered: u32,
}

impl CongestionControl for NewReno {
    #[inline]
    fn on_ack(&mut self, window: &mut Window, ack: &AckSample) {
        if !ack.is_limited {
            return;
        }
        let mut bytes = ack.delivered;
        if window.is_slow_start() {
            let segments = if ack.is_repairing { 1 } else { SLOW_START_LIMIT };
            bytes = window.slow_start(bytes, segments * ack.mss);
        }
        self.delivered = self.delivered.saturating_add(bytes);
        if !window.is_slow_start() && self.delivered >= window.congestion {
            self.delivered -= window.congestion;
            self.delivered = self.delivered.min(window.congestion);
            window.grow(ack.mss);
        }
    }

    fn on_congestion(&mut self, window: &mut Window, _reason: Congestion, flight: u32, mss: u32) {
        self.delivered = 0;
        window.threshold = (flight / 2).max(2 * mss);
    }

    fn on_idle(&mut self, window: &mut Window, mss: u32) {
        self.delivered = 0;
        window.congestion = window.congestion.min(Window::initial(mss).congestion);
    }
}
