//! Hand-over of all ports to another process, as requested from the control thread.

use super::Engine;
use crate::config::EngineError;
use crate::control::{Failed, HandoverRequest, OnFault, Request};
use crate::snapshot::Snapshot;
use port::PortId;
use port::handover::{Handover, NotHandedOver};
use std::sync::mpsc::{Sender, channel};

impl Engine {
    /// The ports that cannot be handed over to another process, with their reasons.
    pub fn not_handed_over(&self) -> Result<Vec<(PortId, NotHandedOver)>, EngineError> {
        self.handover(HandoverRequest::Unsupported)
    }

    /// Describes all ports but `closed` for another process, as far as that is possible while their queues run. Peers
    /// do not notice. Must be followed by [`Engine::hand_over_ports`] or [`Engine::resume_ports`].
    ///
    /// # Errors
    /// The port that could not be described; all ports have continued then.
    pub fn describe_ports(
        &self,
        closed: impl IntoIterator<Item = PortId>,
    ) -> Result<Vec<(PortId, Handover)>, EngineError> {
        let closed = closed.into_iter().collect();
        self.handover(|reply| HandoverRequest::Describe(closed, reply))?
            .map_err(|failed| self.not_done(failed))
    }

    /// Stops all queues and describes the rest of all ports, after [`Engine::describe_ports`]. Must be followed by
    /// [`Engine::resume_ports`] or [`Engine::release_ports`].
    ///
    /// # Errors
    /// The port that could not be described, or a worker that does not respond; all ports have continued then.
    pub fn hand_over_ports(&self) -> Result<Vec<(PortId, Handover)>, EngineError> {
        self.handover(HandoverRequest::HandOver)?.map_err(|failed| self.not_done(failed))
    }

    /// Continues all ports after [`Engine::describe_ports`] or [`Engine::hand_over_ports`].
    pub fn resume_ports(&self) -> Result<(), EngineError> {
        self.handover(HandoverRequest::Resume)
    }

    /// Closes all ports after [`Engine::hand_over_ports`]. Peers of ports that were handed over do not notice.
    pub fn release_ports(&self) -> Result<(), EngineError> {
        self.handover(HandoverRequest::Release)
    }

    /// Prepares ports of another process, which must have been added before: with its descriptions of
    /// [`Engine::describe_ports`].
    ///
    /// # Errors
    /// The port whose description is invalid. The engine must be stopped then.
    pub fn prepare_ports(
        &self,
        ports: Vec<(PortId, Handover)>,
        on_fault: OnFault,
    ) -> Result<(), EngineError> {
        self.handover(|reply| HandoverRequest::Prepare(ports, on_fault, reply))?
            .map_err(|failed| self.not_done(failed))
    }

    /// Takes over the prepared ports, with the descriptions of [`Engine::hand_over_ports`]. They pass no packet until
    /// [`Engine::start_ports`]; until then, the other process can continue them.
    ///
    /// # Errors
    /// The port whose description is invalid, or a worker that does not respond. The engine must be stopped then.
    pub fn take_over_ports(
        &self,
        ports: Vec<(PortId, Handover)>,
        on_fault: OnFault,
    ) -> Result<(), EngineError> {
        self.handover(|reply| HandoverRequest::TakeOver(ports, on_fault, reply))?
            .map_err(|failed| self.not_done(failed))
    }

    /// Starts the ports after [`Engine::take_over_ports`]. Returns when their queues run.
    pub fn start_ports(&self) -> Result<(), EngineError> {
        self.handover(HandoverRequest::Start)
    }

    /// Adds the counters of another process to those of this engine: of ports with the same names, and of all others
    /// together.
    pub fn restore_counters(&self, before: &Snapshot) {
        self.registry.restore(before);
    }

    pub(super) fn not_done(&self, failed: Failed) -> EngineError {
        match failed {
            Failed::Port(port, fault) => EngineError::NotHandedOver(self.registry.name(port), fault),
            Failed::Worker(worker) => self.hung(worker),
        }
    }

    fn handover<T>(&self, request: impl FnOnce(Sender<T>) -> HandoverRequest) -> Result<T, EngineError> {
        let (reply, answer) = channel();
        self.request(Request::Handover(request(reply)))?;
        answer.recv().map_err(|_| EngineError::Stopping)
    }
}
