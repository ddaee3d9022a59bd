//! Hand-over of all ports to another process, and its other side.
//!
//! From [`HandoverRequest::Describe`] to [`HandoverRequest::Resume`], and in the other process from
//! [`HandoverRequest::Prepare`] to [`HandoverRequest::Start`], the control thread does not look at ports or faults:
//! messages of peers wait in their sockets, where the other process finds them. Queues run until
//! [`HandoverRequest::HandOver`]. Pipelines and observers are not told, because for peers nothing has happened.

use super::Control;
use crate::attachment::Attachment;
use port::handover::{HandOver, Handover, NotHandedOver};
use port::{PortFault, PortId};
use std::collections::BTreeSet;
use std::sync::mpsc::Sender;
use std::time::Instant;

/// Descriptions of ports.
pub(crate) type Handovers = Vec<(PortId, Handover)>;

/// Why a hand-over failed.
pub(crate) enum Failed {
    /// The port, and its reason.
    Port(PortId, PortFault),
    /// This worker does not respond.
    Worker(usize),
}

/// What happens if a port cannot be continued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFault {
    /// No port is: the other process continues them.
    Refuse,
    /// It has this fault, as if one of its queues had. There is no other process any more.
    Continue,
}

/// A request about the hand-over of ports.
pub(crate) enum HandoverRequest {
    /// Requests the ports that cannot be handed over.
    Unsupported(Sender<Vec<(PortId, NotHandedOver)>>),
    /// Requests descriptions of all ports except those that will be closed. After an error, all ports have continued.
    Describe(BTreeSet<PortId>, Sender<Result<Handovers, Failed>>),
    /// Stops all queues after [`HandoverRequest::Describe`] and requests the rest of the descriptions. After an error,
    /// all ports have continued.
    HandOver(Sender<Result<Handovers, Failed>>),
    /// Continues after [`HandoverRequest::Describe`] or [`HandoverRequest::HandOver`].
    Resume(Sender<()>),
    /// Closes all ports after [`HandoverRequest::HandOver`], without an effect on the peers of those handed over.
    Release(Sender<()>),
    /// Prepares ports that another process has described.
    Prepare(Handovers, OnFault, Sender<Result<(), Failed>>),
    /// Takes over the prepared ports, of which no receive queue starts yet.
    TakeOver(Handovers, OnFault, Sender<Result<(), Failed>>),
    /// Starts the queues after [`HandoverRequest::TakeOver`].
    Start(Sender<()>),
}

impl Control {
    /// The requester may have given up waiting for the reply.
    pub(super) fn handle_handover(&mut self, request: HandoverRequest) {
        match request {
            HandoverRequest::Unsupported(reply) => drop(reply.send(self.unsupported())),
            HandoverRequest::Describe(closed, reply) => {
                self.not_handed_over = closed;
                let descriptions = self.describe();
                self.reply_or_resume(descriptions, &reply);
            }
            HandoverRequest::HandOver(reply) => {
                let handovers = self.hand_over();
                self.reply_or_resume(handovers, &reply);
            }
            HandoverRequest::Resume(reply) => {
                self.resume();
                let _ = reply.send(());
            }
            HandoverRequest::Release(reply) => {
                self.release();
                let _ = reply.send(());
            }
            HandoverRequest::Prepare(descriptions, on_fault, reply) => {
                drop(reply.send(self.prepare(descriptions, on_fault)));
            }
            HandoverRequest::TakeOver(handovers, on_fault, reply) => {
                drop(reply.send(self.take_over(handovers, on_fault)));
            }
            HandoverRequest::Start(reply) => {
                // A worker that hangs is reported by the next command for it.
                let _ = self.placement.end_starts();
                let _ = reply.send(());
                self.welcome();
            }
        }
    }

    fn reply_or_resume(
        &mut self,
        handovers: Result<Handovers, Failed>,
        reply: &Sender<Result<Handovers, Failed>>,
    ) {
        if handovers.is_err() {
            self.resume();
        }
        let _ = reply.send(handovers);
    }

    fn unsupported(&mut self) -> Vec<(PortId, NotHandedOver)> {
        let ports = self.ports.iter_mut();
        ports.filter_map(|(id, port)| port.as_handover().err().map(|why| (*id, why))).collect()
    }

    pub(super) fn describe(&mut self) -> Result<Handovers, Failed> {
        // A queue fault must be handled by its port first. A queue with a later one continues in the other process with
        // the last position that its port knows, and may have another fault there.
        self.faults(Instant::now());
        self.is_handed_over = true;
        self.of_each(|port, engine| port.describe(engine))
    }

    pub(super) fn hand_over(&mut self) -> Result<Handovers, Failed> {
        self.placement.stop_all().map_err(Failed::Worker)?;
        self.of_each(|port, engine| port.hand_over(engine))
    }

    fn of_each(
        &mut self,
        describe: impl Fn(&mut dyn HandOver, &mut Attachment<'_>) -> Result<Handover, PortFault>,
    ) -> Result<Handovers, Failed> {
        let mut handovers = Vec::new();
        for (id, port) in &mut self.ports {
            if self.not_handed_over.contains(id) {
                continue;
            }
            let port = match port.as_handover() {
                Ok(port) => port,
                Err(NotHandedOver::Internal) => continue,
                Err(why) => return Err(Failed::Port(*id, PortFault::NotMade(why.to_string()))),
            };
            let handover = describe(port, &mut Attachment::new(&mut self.placement, *id));
            handovers.push((*id, handover.map_err(|fault| Failed::Port(*id, fault))?));
        }
        Ok(handovers)
    }

    /// Ports that were not described yet have their queues in the placement.
    pub(super) fn resume(&mut self) {
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
                Ok(port) if !self.not_handed_over.contains(&id) => port.release(&mut engine),
                _ => port.close(&mut engine),
            }
        }
    }

    /// Until [`Control::welcome`], the other process handles what peers send, and may continue the ports: no packet
    /// passes here.
    fn prepare(&mut self, descriptions: Handovers, on_fault: OnFault) -> Result<(), Failed> {
        self.is_handed_over = true;
        self.with_each(descriptions, on_fault, |port, description, now, engine| {
            port.prepare(description, now, engine)
        })
    }

    fn take_over(&mut self, handovers: Handovers, on_fault: OnFault) -> Result<(), Failed> {
        self.placement.begin_starts();
        let taken = self.with_each(handovers, on_fault, |port, handover, now, engine| {
            port.take_over(handover, now, engine)
        });
        let taken = taken.and_then(|()| self.placement.wait_for_starts().map_err(Failed::Worker));
        if taken.is_err() {
            self.placement.abandon_starts();
        }
        taken
    }

    fn with_each(
        &mut self,
        handovers: Handovers,
        on_fault: OnFault,
        take: impl Fn(&mut dyn HandOver, Handover, Instant, &mut Attachment<'_>) -> Result<(), PortFault>,
    ) -> Result<(), Failed> {
        let now = Instant::now();
        for (id, handover) in handovers {
            let mut engine = Attachment::new(&mut self.placement, id);
            let taken = match self.ports.get_mut(&id).map(|port| port.as_handover()) {
                Some(Ok(port)) => take(port, handover, now, &mut engine),
                _ => Err(PortFault::State("the port is not one that takes over")),
            };
            match (taken, self.ports.get_mut(&id)) {
                (Ok(()), _) => {}
                (Err(fault), Some(port)) if on_fault == OnFault::Continue => {
                    port.fault(now, fault, &mut Attachment::new(&mut self.placement, id));
                }
                (Err(fault), _) => return Err(Failed::Port(id, fault)),
            }
        }
        Ok(())
    }

    /// Handles what peers have sent since the other process described the ports. Registers that the ports can send.
    fn welcome(&mut self) {
        self.is_handed_over = false;
        let (now, ports) = (Instant::now(), self.ports.keys().copied().collect::<Vec<_>>());
        for id in ports {
            self.with_port(id, |port, engine| port.handle(now, engine));
        }
    }
}
