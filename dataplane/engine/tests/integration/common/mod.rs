//! Helpers of these tests: a port with a given receive queue, a receive queue of given frames, and all models.

use engine::{HandoffConfig, Model, PipelineConfig, Role, Roles};
use port::{Attach, BufId, Burst, BurstStats, PortControl, PortFault, PortState, PortStatus, RxQueue};
use rustix::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// Longer than any test takes, so that a hang fails.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// Every model with worker threads.
pub(crate) fn models() -> [Model; 4] {
    let roles = vec![Roles { rx: true, work: false, tx: true }, Roles::only(Role::Work)];
    [
        Model::RunToCompletion,
        Model::Stealing,
        Model::SoftwareRss(HandoffConfig::default()),
        Model::Pipeline(PipelineConfig { roles, handoffs: HandoffConfig::default() }),
    ]
}

/// Frames of a receive queue.
pub(crate) trait Frames: Send {
    /// Fills one burst. Each frame is added by [`push`].
    fn fill(&mut self, burst: &mut Burst, stats: &mut BurstStats);

    /// Whether there are more.
    fn are_left(&self) -> bool;

    /// Events that a sleeping worker waits for.
    fn kick(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// See [`RxQueue::is_bound`].
    fn is_bound(&self) -> bool {
        false
    }
}

/// Adds one frame to a burst and its counters.
pub(crate) fn push(frame: &[u8], burst: &mut Burst, stats: &mut BurstStats) {
    assert!(burst.push_own(frame));
    stats.packets += 1;
    stats.bytes += frame.len() as u64;
}

/// A receive queue that gives these frames.
pub(crate) struct Queue<F>(pub(crate) F);

impl<F: Frames> RxQueue for Queue<F> {
    fn prefetch(&self) {}

    fn rx(&mut self, burst: &mut Burst, stats: &mut BurstStats) -> Result<(), PortFault> {
        self.0.fill(burst, stats);
        Ok(())
    }

    fn complete(&mut self, _: &[BufId]) {}

    fn notify(&mut self) {}

    fn enable_notification(&mut self) -> Result<bool, PortFault> {
        Ok(self.0.are_left())
    }

    fn disable_notification(&mut self) {}

    fn kick_fd(&self) -> Option<BorrowedFd<'_>> {
        self.0.kick()
    }

    fn refresh(&mut self) -> Result<(), PortFault> {
        Ok(())
    }

    fn is_bound(&self) -> bool {
        self.0.is_bound()
    }
}

/// A port that starts its single receive queue at once.
pub(crate) struct Source<Q>(pub(crate) Option<Q>);

impl<Q: RxQueue + 'static> PortControl for Source<Q> {
    fn poll_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }

    fn handle(&mut self, _: Instant, engine: &mut dyn Attach) {
        if let Some(queue) = self.0.take() {
            engine.start_rx(0, Box::new(queue));
        }
    }

    fn fault(&mut self, _: Instant, _: PortFault, _: &mut dyn Attach) {}

    fn close(&mut self, engine: &mut dyn Attach) {
        drop(engine.stop_rx(0));
    }

    fn status(&self) -> PortStatus {
        PortStatus {
            state: PortState::Connected,
            kind: "source",
            place: String::new(),
            features: Vec::new(),
            queues: Vec::new(),
            connects: 1,
            memory: (0, 0),
        }
    }
}
