//! Frames that a pipeline's control plane sends through the pipeline, from any thread.
//!
//! A worker handles them as commands, at a burst boundary. One worker gets all frames as long as it is in service, so
//! that they keep their order. Neither side waits for the other, and the number of waiting frames is limited.

use crate::command::{Command, Injected};
use crate::link::Link;
use port::PortId;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum number of frames that wait for a worker.
const MAX_WAITING: usize = 1024;

/// Injects frames into a running engine.
#[derive(Clone)]
pub struct Injector {
    /// Of the workers that run the pipeline.
    links: Arc<[Arc<Link>]>,
    waiting: Arc<AtomicUsize>,
    max_ports: usize,
}

/// Place of a waiting frame.
pub(crate) struct Permit(Arc<AtomicUsize>);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Injector {
    pub(crate) fn new(links: Vec<Arc<Link>>, max_ports: usize) -> Self {
        Self { links: links.into(), waiting: Arc::default(), max_ports }
    }

    /// Has a worker classify `frame` with a context of this port and stage, `injected` set, and send it as the pipeline
    /// decides. The frame is counted as received on the port. Frames of one caller are classified in order, unless a
    /// worker hangs or has ended. Does not wait.
    ///
    /// Returns `false` if the frame is discarded: too many frames wait, every worker is out of service, or the port
    /// number is not one of the engine.
    pub fn inject_at(&self, port: PortId, frame: Box<[u8]>, stage: u32) -> bool {
        let link = self.links.iter().find(|link| !link.is_out_of_service());
        let (Some(link), true) = (link, usize::from(port.0) < self.max_ports) else { return false };
        let Some(permit) = self.permit() else { return false };
        link.post(Command::Inject(Injected { port, frame, stage, _permit: Some(permit) }));
        true
    }

    fn permit(&self) -> Option<Permit> {
        let permit = Permit(self.waiting.clone());
        // Dropping the permit takes the addition back.
        (self.waiting.fetch_add(1, Ordering::Relaxed) < MAX_WAITING).then_some(permit)
    }
}

impl std::fmt::Debug for Injector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Injector").finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::link::{Doorbell, ResponseLimit};
    use std::sync::mpsc::channel;

    #[test]
    fn waiting_frames_are_limited_and_an_ended_worker_gets_none() {
        let link = || Link::new(channel().0, Doorbell::new().unwrap(), ResponseLimit::default()).unwrap();
        let links = vec![Arc::new(link()), Arc::new(link())];
        let injector = Injector::new(links.clone(), 4);
        let send = || injector.inject_at(PortId(3), Box::new([0; 60]), 1);
        assert!(!injector.inject_at(PortId(4), Box::new([0; 60]), 1), "not a port");
        assert_eq!((0..2 * MAX_WAITING).filter(|_| send()).count(), MAX_WAITING);
        let mut commands = Vec::new();
        links[0].mailbox.take(&mut commands);
        assert_eq!((commands.len(), send()), (MAX_WAITING, false), "they are not handled yet");
        commands.clear();
        links[0].end();
        assert!(send() && links[1].mailbox.pending(0));
        links[1].end();
        assert!(!send());
    }
}
