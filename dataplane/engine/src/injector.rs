//! Frames that a pipeline's control plane sends through the pipeline, from any thread.
//!
//! A worker handles them as commands, at a burst boundary. One worker gets all frames as long as it is in service, so
//! that they keep their order. Neither side waits for the other, and the number of waiting frames is limited.

use crate::command::{Command, Injected};
use crate::link::Link;
use port::PortId;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum number of frames that wait for a worker.
const MAX_WAITING: usize = 1024;

/// The workers that run the pipeline now.
#[derive(Clone, Default)]
pub(crate) struct Classifiers(Arc<Mutex<Arc<[Arc<Link>]>>>);

impl Classifiers {
    pub(crate) fn set(&self, links: Arc<[Arc<Link>]>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = links;
    }

    /// The first one in service.
    fn first(&self) -> Option<Arc<Link>> {
        let links = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        links.iter().find(|link| !link.is_out_of_service()).cloned()
    }
}

/// Injects frames into a running engine.
#[derive(Clone)]
pub struct Injector {
    classifiers: Classifiers,
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
    pub(crate) fn new(classifiers: Classifiers, max_ports: usize) -> Self {
        Self { classifiers, waiting: Arc::default(), max_ports }
    }

    /// Has a worker classify `frame` with a context of this port and stage, `injected` set, and send it as the pipeline
    /// decides. The frame is counted as received on the port. Frames of one caller are classified in order, unless a
    /// worker hangs or has ended. Does not wait.
    ///
    /// Returns `false` if the frame is discarded: too many frames wait, every worker is out of service, or the port
    /// number is not one of the engine.
    pub fn inject_at(&self, port: PortId, frame: Box<[u8]>, stage: u32) -> bool {
        let (Some(link), true) = (self.classifiers.first(), usize::from(port.0) < self.max_ports) else {
            return false;
        };
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
        let classifiers = Classifiers::default();
        classifiers.set(links.clone().into());
        let injector = Injector::new(classifiers, 4);
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
