//! Hand-over of all ports to another process, and its other side.
//!
//! After [`HandoverRequest::HandOver`], the control thread does not look at ports or faults until
//! [`HandoverRequest::Resume`]: messages of peers wait in their sockets, where the other process finds them. Pipelines
//! and observers are not told, because for peers nothing has happened.

use super::Control;
use crate::attachment::Attachment;
use port::handover::{Handover, NotHandedOver};
use port::{PortFault, PortId};
use std::sync::mpsc::Sender;
use std::time::Instant;

/// Descriptions of ports.
pub(crate) type Handovers = Vec<(PortId, Handover)>;

/// A port whose hand-over failed, and the reason.
pub(crate) type Failed = (PortId, PortFault);

/// A request about the hand-over of ports.
pub(crate) enum HandoverRequest {
    /// Requests the ports that cannot be handed over.
    Unsupported(Sender<Vec<(PortId, NotHandedOver)>>),
    /// Stops all queues and requests the descriptions of all ports that can be handed over. After an error, all ports
    /// have continued.
    HandOver(Sender<Result<Handovers, Failed>>),
    /// Continues after [`HandoverRequest::HandOver`].
    Resume(Sender<()>),
    /// Closes all ports after [`HandoverRequest::HandOver`], without an effect on the peers of those handed over.
    Release(Sender<()>),
    /// Continues ports of another process.
    TakeOver(Handovers, Sender<Result<(), Failed>>),
}

impl Control {
    /// The requester may have given up waiting for the reply.
    pub(super) fn handle_handover(&mut self, request: HandoverRequest) {
        match request {
            HandoverRequest::Unsupported(reply) => drop(reply.send(self.unsupported())),
            HandoverRequest::HandOver(reply) => {
                let handovers = self.hand_over();
                if handovers.is_err() {
                    self.resume();
                }
                let _ = reply.send(handovers);
            }
            HandoverRequest::Resume(reply) => {
                self.resume();
                let _ = reply.send(());
            }
            HandoverRequest::Release(reply) => {
                self.release();
                let _ = reply.send(());
            }
            HandoverRequest::TakeOver(handovers, reply) => drop(reply.send(self.take_over(handovers))),
        }
    }

    fn unsupported(&mut self) -> Vec<(PortId, NotHandedOver)> {
        let ports = self.ports.iter_mut();
        ports.filter_map(|(id, port)| port.as_handover().err().map(|why| (*id, why))).collect()
    }

    fn hand_over(&mut self) -> Result<Handovers, Failed> {
        // A queue fault must be handled by its port first.
        self.faults(Instant::now());
        self.is_handed_over = true;
        let first = self.ports.keys().next().copied().unwrap_or(PortId(0));
        self.placement.stop_all().map_err(|worker| (first, PortFault::WorkerHung(worker)))?;
        let mut handovers = Vec::new();
        for (id, port) in &mut self.ports {
            let Ok(port) = port.as_handover() else { continue };
            let handover = port.hand_over(&mut Attachment::new(&mut self.placement, *id));
            handovers.push((*id, handover.map_err(|fault| (*id, fault))?));
        }
        Ok(handovers)
    }

    /// Ports that were not described yet have their queues in the placement.
    fn resume(&mut self) {
        let now = Instant::now();
        self.placement.begin_starts();
        for (id, port) in &mut self.ports {
            self.placement.restart_stopped(*id);
            if let Ok(port) = port.as_handover() {
                port.resume(now, &mut Attachment::new(&mut self.placement, *id));
            }
        }
        // A worker that hangs is reported by the next command for it.
        let _ = self.placement.end_starts();
        self.is_handed_over = false;
    }

    fn release(&mut self) {
        for (id, mut port) in std::mem::take(&mut self.ports) {
            let mut engine = Attachment::new(&mut self.placement, id);
            match port.as_handover() {
                Ok(port) => port.release(&mut engine),
                Err(_) => port.close(&mut engine),
            }
        }
    }

    fn take_over(&mut self, handovers: Handovers) -> Result<(), Failed> {
        let now = Instant::now();
        self.placement.begin_starts();
        let taken = self.take_over_each(handovers, now);
        let first = self.ports.keys().next().copied().unwrap_or(PortId(0));
        let started = self.placement.end_starts().map_err(|worker| (first, PortFault::WorkerHung(worker)));
        taken.and(started)
    }

    fn take_over_each(&mut self, handovers: Handovers, now: Instant) -> Result<(), Failed> {
        for (id, handover) in handovers {
            let mut taken = Err(PortFault::State("the port is not one that takes over"));
            self.with_port(id, |port, engine| {
                if let Ok(port) = port.as_handover() {
                    taken = port.take_over(handover, now, engine);
                }
                port.handle(now, engine);
            });
            taken.map_err(|fault| (id, fault))?;
        }
        Ok(())
    }
}
