//! Repeated evaluation of the load, protected against outliers and oscillation.
//!
//! Two consecutive evaluations must find a gain. A moved queue stays on its worker for some evaluations. The
//! evaluation right after a move only starts a new measurement, because the previous sample belongs to the old
//! assignment.

use super::load::{Sample, balance};
use super::{Balance, Rebalancing};
use crate::command::QueueKey;
use port::PortId;
use std::collections::HashMap;

/// Consecutive evaluations that must agree.
const REQUIRED_AGREEMENT: u32 = 2;
/// Evaluations for which a moved queue is not moved again.
const HOLD_DOWN: u32 = 6;

/// State of load monitoring.
pub(crate) struct Watch {
    pub(crate) wanted: Rebalancing,
    last: Option<Sample>,
    agreed: u32,
    held_down: HashMap<QueueKey, u32>,
}

/// Result of one evaluation.
pub(crate) struct Evaluation {
    pub(crate) balance: Balance,
    /// Moves to execute now; empty until evaluations agree.
    pub(crate) moves: Vec<(QueueKey, usize)>,
}

impl Watch {
    pub(crate) fn new(wanted: Rebalancing) -> Self {
        Self { wanted, last: None, agreed: 0, held_down: HashMap::new() }
    }

    /// Evaluates the load since the last sample. Returns `None` if there is none.
    pub(crate) fn evaluate(&mut self, sample: Sample, name: impl Fn(PortId) -> String) -> Option<Evaluation> {
        let last = self.last.replace(sample)?;
        let now = self.last.as_ref()?;
        self.held_down.retain(|_, evaluations| {
            *evaluations -= 1;
            *evaluations > 0
        });
        let is_held_down = |key| self.held_down.contains_key(&key);
        let (balance, moves) = balance((&last, now), self.wanted.threshold, is_held_down, name);
        self.agreed = if moves.is_empty() { 0 } else { self.agreed + 1 };
        let moves = if self.agreed < REQUIRED_AGREEMENT { Vec::new() } else { moves };
        Some(Evaluation { balance, moves })
    }

    /// Records queues that were moved.
    pub(crate) fn moved(&mut self, queues: impl Iterator<Item = QueueKey>) {
        self.held_down.extend(queues.map(|key| (key, HOLD_DOWN)));
        (self.last, self.agreed) = (None, 0);
    }
}
