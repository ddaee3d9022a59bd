//! The step that a worker is in, for reports of one that hangs.
//!
//! A worker stores each step when it begins it. It stores nothing when a step ends, except at the end of a round: what
//! follows is short, or a step of its own. Snapshots load the step, about once a second.

use port::PortId;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU32, Ordering};

/// Port of a step that concerns no port.
pub(crate) const NO_PORT: PortId = PortId(u16::MAX);

/// A step of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Receive = 1,
    Pipeline,
    Transmit,
    Handoff,
    Deliver,
    Complete,
    Notify,
    Flush,
    Timers,
    Commands,
}

impl Step {
    const ALL: [Self; 10] = [
        Self::Receive,
        Self::Pipeline,
        Self::Transmit,
        Self::Handoff,
        Self::Deliver,
        Self::Complete,
        Self::Notify,
        Self::Flush,
        Self::Timers,
        Self::Commands,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Receive => "receive",
            Self::Pipeline => "pipeline",
            Self::Transmit => "transmit",
            Self::Handoff => "handoff",
            Self::Deliver => "deliver",
            Self::Complete => "complete",
            Self::Notify => "notify",
            Self::Flush => "flush",
            Self::Timers => "timers",
            Self::Commands => "commands",
        }
    }
}

/// The step that a worker has begun, with its port. Written only by the worker.
#[derive(Debug, Default)]
pub(crate) struct StepCell(AtomicU32);

impl StepCell {
    /// Begins `step`, which concerns `port`.
    #[inline(always)]
    pub(crate) fn enter(&self, step: Step, port: PortId) {
        self.0.store((step as u32) << 16 | u32::from(port.0), Ordering::Relaxed);
    }

    /// Ends the round.
    #[inline(always)]
    pub(crate) fn leave(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// The step; `None` between rounds. Ports from `max_ports` on are handoff queues, and not told.
    pub(crate) fn get(&self, max_ports: usize) -> Option<CurrentStep> {
        let stored = self.0.load(Ordering::Relaxed);
        let step = Step::ALL.into_iter().find(|step| *step as u32 == stored >> 16)?;
        let port = Some(stored as u16).filter(|port| usize::from(*port) < max_ports);
        Some(CurrentStep { name: step.name().to_owned(), port })
    }
}

/// The step that a worker is in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CurrentStep {
    /// `receive`, `pipeline`, `transmit`, `handoff`, `deliver` (the rest of a burst that exceeded its turn), `complete`
    /// (return of buffers), `notify`, `flush`, `timers` or `commands`.
    pub name: String,
    /// Number of the port that it concerns: the one it receives from or sends to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_step_is_told_with_its_port() {
        let cell = StepCell::default();
        assert_eq!(cell.get(8), None);
        for step in Step::ALL {
            cell.enter(step, PortId(7));
            assert_eq!(cell.get(8), Some(CurrentStep { name: step.name().to_owned(), port: Some(7) }));
            assert_eq!(cell.get(7).and_then(|step| step.port), None, "a handoff queue");
        }
        cell.enter(Step::Timers, NO_PORT);
        assert_eq!(cell.get(8).and_then(|step| step.port), None);
        cell.leave();
        assert_eq!(cell.get(8), None);
    }
}
