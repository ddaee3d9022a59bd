//! Hand-over of all ports to another process, as requested from the control thread.

use super::Engine;
use crate::config::EngineError;
use crate::control::{HandoverRequest, Request};
use crate::snapshot::Snapshot;
use port::PortId;
use port::handover::{Handover, NotHandedOver};
use std::sync::mpsc::{Sender, channel};

impl Engine {
    /// The ports that cannot be handed over to another process, with their reasons.
    pub fn not_handed_over(&self) -> Result<Vec<(PortId, NotHandedOver)>, EngineError> {
        self.handover(HandoverRequest::Unsupported)
    }

    /// Stops all queues and describes all ports that can be handed over, for another process. Peers do not notice.
    /// Must be followed by [`Engine::resume_ports`] or [`Engine::release_ports`].
    ///
    /// # Errors
    /// The port that could not be described; all ports have continued then.
    pub fn hand_over_ports(&self) -> Result<Vec<(PortId, Handover)>, EngineError> {
        let failed = |(id, fault)| EngineError::NotHandedOver(self.registry.name(id), fault);
        self.handover(HandoverRequest::HandOver)?.map_err(failed)
    }

    /// Continues all ports after [`Engine::hand_over_ports`].
    pub fn resume_ports(&self) -> Result<(), EngineError> {
        self.handover(HandoverRequest::Resume)
    }

    /// Closes all ports after [`Engine::hand_over_ports`]. Peers of ports that were handed over do not notice.
    pub fn release_ports(&self) -> Result<(), EngineError> {
        self.handover(HandoverRequest::Release)
    }

    /// Continues ports of another process, which must have been added before. Returns when their queues run.
    ///
    /// # Errors
    /// The port whose description is invalid. The engine must be stopped then.
    pub fn take_over_ports(&self, ports: Vec<(PortId, Handover)>) -> Result<(), EngineError> {
        let failed = |(id, fault)| EngineError::NotHandedOver(self.registry.name(id), fault);
        self.handover(|reply| HandoverRequest::TakeOver(ports, reply))?.map_err(failed)
    }

    /// Adds the counters of another process to those of this engine: of ports with the same names, and of all others
    /// together.
    pub fn restore_counters(&self, before: &Snapshot) {
        self.registry.restore(before);
    }

    fn handover<T>(&self, request: impl FnOnce(Sender<T>) -> HandoverRequest) -> Result<T, EngineError> {
        let (reply, answer) = channel();
        self.request(Request::Handover(request(reply)))?;
        answer.recv().map_err(|_| EngineError::Stopping)
    }
}
