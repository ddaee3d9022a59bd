//! Judging again and again, so that no moment moves a queue and no queue goes to and fro.
//!
//! Two looks in a row must find something to gain. A queue that was moved stays where it is for some looks, and the look
//! right behind a move only begins a new measurement, because the old one was of another division.

use super::load::{Sample, balance};
use super::{Balance, Rebalancing};
use crate::command::QueueKey;
use port::PortId;
use std::collections::HashMap;

/// Looks in a row that must agree.
const AGREE: u32 = 2;
/// Looks for which a queue stays where it was moved.
const REST: u32 = 6;

/// What was seen so far.
pub(crate) struct Watch {
    pub(crate) wanted: Rebalancing,
    last: Option<Sample>,
    agreed: u32,
    resting: HashMap<QueueKey, u32>,
}

/// What a look came to.
pub(crate) struct Look {
    pub(crate) balance: Balance,
    /// What to move now; empty unless looks agreed.
    pub(crate) moves: Vec<(QueueKey, usize)>,
}

impl Watch {
    pub(crate) fn new(wanted: Rebalancing) -> Self {
        Self { wanted, last: None, agreed: 0, resting: HashMap::new() }
    }

    /// Judges what happened since the last sample; `None`: there was none to compare with.
    pub(crate) fn look(&mut self, sample: Sample, name: impl Fn(PortId) -> String) -> Option<Look> {
        let last = self.last.replace(sample)?;
        let now = self.last.as_ref()?;
        self.resting.retain(|_, looks| {
            *looks -= 1;
            *looks > 0
        });
        let rests = |key| self.resting.contains_key(&key);
        let (balance, moves) = balance((&last, now), self.wanted.threshold, rests, name);
        self.agreed = if moves.is_empty() { 0 } else { self.agreed + 1 };
        let moves = if self.agreed < AGREE { Vec::new() } else { moves };
        Some(Look { balance, moves })
    }

    /// These queues were moved.
    pub(crate) fn moved(&mut self, queues: impl Iterator<Item = QueueKey>) {
        self.resting.extend(queues.map(|key| (key, REST)));
        (self.last, self.agreed) = (None, 0);
    }
}
