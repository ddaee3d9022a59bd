//! Cost of sending packets, in units of work, and the port that is charged.

use super::Transmit;
use crate::worker::carried::Carried;
use port::{Burst, Capabilities, PortId, work};

impl Transmit {
    /// Whether packets arrive or leave through handoff queues.
    #[inline(always)]
    pub(in crate::worker) fn is_staged(&self) -> bool {
        self.credit.is_some()
    }

    /// Cost of these indices that may arise behind a handoff queue, beyond sending them. Charged in front, because a
    /// later charge would first let the handoff queue fill up.
    #[inline(always)]
    pub(in crate::worker) fn cost_behind(&self, burst: &Burst, indices: &[u8]) -> u64 {
        if !self.is_staged() || burst.needs() == Capabilities::NONE {
            return 0;
        }
        indices.iter().map(|&pick| burst.segment_cost(usize::from(pick))).sum()
    }

    /// Expected cost of a packet behind the first handoff queue beyond that. Not charged here, because it is charged
    /// as a debt, but it limits the length of the handoff queue.
    pub(in crate::worker) fn price_behind(&self, to: PortId) -> u64 {
        if self.is_handoff(to) { self.price } else { 0 }
    }

    /// The port to which a loss is attributed: the output if it is known, otherwise the input port.
    pub(in crate::worker) fn loss_port(&self, from: PortId, to: PortId) -> PortId {
        if self.is_handoff(to) { from } else { to }
    }

    /// Whether `to` is a handoff queue, so that the final output is not known yet.
    fn is_handoff(&self, to: PortId) -> bool {
        usize::from(to.0) >= self.counters.max_ports()
    }

    /// Cost of the turn so far plus the known cost of the rest.
    #[cold]
    pub(in crate::worker) fn expected_cost(&self, carried: &Carried) -> u64 {
        let left = carried.delivery.rests.iter().map(|rest| cost_of(&carried.burst, rest.left()));
        self.spent + left.sum::<u64>()
    }
}

/// Cost of sending these indices.
#[inline]
pub(super) fn cost_of(burst: &Burst, indices: &[u8]) -> u64 {
    if indices.len() == burst.len() {
        return burst.cost();
    }
    work::OUTPUT + indices.iter().map(|&pick| burst.packet_cost(usize::from(pick))).sum::<u64>()
}
