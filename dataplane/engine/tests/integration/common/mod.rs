//! Helpers of these tests: a port with a given receive queue.

use port::{Attach, PortControl, PortFault, PortState, PortStatus, RxQueue};
use rustix::fd::BorrowedFd;
use std::time::Instant;

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
            last_fault: None,
        }
    }
}
