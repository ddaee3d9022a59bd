//! Hand-over of the port to another process: its listening socket, its connection, the messages of the client that
//! describe regions and rings, and the positions of the queues.

use super::Memif;
use super::control::Role;
use super::link::{Link, TIMEOUT};
use super::message::Message;
use super::session::{Described, End, Session};
use crate::handover::{HandOver, Handover, Part, duplicate};
use crate::state::MemifQueue;
use crate::{Attach, PortFault, PortState, QueueState, RxQueue, TxQueue};
use rustix::fd::{AsFd, OwnedFd};
use std::time::Instant;

/// The listening socket.
const LISTENER: u8 = 1;
/// The connection.
const CONNECTION: u8 = 2;
/// A message of the client, with its descriptor.
const MESSAGE: u8 = 3;
/// State of the next receive queue.
const RX: u8 = 4;
/// State of the next transmit queue.
const TX: u8 = 5;

/// Error for parts that are not those of this kind of port.
const INVALID: PortFault = PortFault::State("it is not that of a memif port");

impl HandOver for Memif {
    fn hand_over(&mut self, engine: &mut dyn Attach) -> Result<Handover, PortFault> {
        let (rx, tx) = std::mem::take(&mut self.running);
        // Set before anything can fail, so that the port continues with these states.
        self.stopped = (
            (0..rx).map(|pair| engine.stop_rx(pair).map(RxQueue::freeze).unwrap_or_default()).collect(),
            (0..tx).map(|pair| engine.stop_tx(pair).map(TxQueue::freeze).unwrap_or_default()).collect(),
        );
        engine.failure().map_or(Ok(()), Err)?;
        let mut handover = Handover::default();
        self.connector.hand_over(LISTENER, &mut handover)?;
        let Some(link) = &self.link else { return Ok(handover) };
        let Some(messages) = link.session().hand_over()? else { return Ok(handover) };
        handover.push(CONNECTION, Vec::new(), vec![duplicate(link)?]);
        for (message, file) in messages {
            handover.push(MESSAGE, message.encode().to_vec(), file.into_iter().collect());
        }
        let (rx, tx) = (self.stopped.0.iter().map(|s| (RX, s)), self.stopped.1.iter().map(|s| (TX, s)));
        for (tag, state) in rx.chain(tx) {
            let QueueState::Memif(state) = state else { return Err(PortFault::State("a queue has ended")) };
            handover.push(tag, state.encode(), Vec::new());
        }
        Ok(handover)
    }

    fn resume(&mut self, now: Instant, engine: &mut dyn Attach) {
        if self.started.is_none() || self.running != (0, 0) {
            return;
        }
        let rings = self.link.as_ref().and_then(|link| link.session().rings());
        if let Some(Err(End::Fault(fault))) = rings.map(|rings| self.start(rings, now, engine)) {
            self.disconnect(Some(fault), now, engine);
        }
    }

    fn release(&mut self, _: &mut dyn Attach) {
        if let Some(link) = self.link.take() {
            link.session().set_left(true);
        }
        (self.started, self.until) = (None, None);
        self.connector.release();
        self.state = PortState::Closed;
    }

    fn take_over(
        &mut self,
        handover: Handover,
        now: Instant,
        engine: &mut dyn Attach,
    ) -> Result<(), PortFault> {
        let (mut connection, mut messages) = (None, Vec::new());
        for part in handover.parts {
            match part.tag {
                LISTENER => self.connector.take_over(part)?,
                CONNECTION => connection = Some(part),
                MESSAGE => messages.push(message(part)?),
                RX => self.stopped.0.push(state(&part)?),
                TX => self.stopped.1.push(state(&part)?),
                _ => return Err(INVALID),
            }
        }
        if let Some(connection) = connection {
            return self.continue_link(connection, messages, now, engine);
        }
        // A client without a connection connects.
        if self.role == Role::Client {
            self.connector.connect_at(now);
        }
        Ok(())
    }
}

impl Memif {
    fn continue_link(
        &mut self,
        connection: Part,
        messages: Vec<Described>,
        now: Instant,
        engine: &mut dyn Attach,
    ) -> Result<(), PortFault> {
        let [socket] = <[OwnedFd; 1]>::try_from(connection.descriptors).map_err(|_| INVALID)?;
        self.connector.continue_with(socket.as_fd())?;
        let (session, rings) = match self.role {
            Role::Server => Session::adopt_server(self.options, messages)?,
            Role::Client => Session::adopt_client(self.options, messages)?,
        };
        self.link = Some(Link::continued(socket, session));
        (self.state, self.connects) = (PortState::Connected, self.connects + 1);
        let Some(rings) = rings else {
            self.until = Some(now + TIMEOUT);
            return Ok(());
        };
        if rings.shape() != (self.stopped.0.len(), self.stopped.1.len()) {
            return Err(PortFault::State("it has another number of queues"));
        }
        self.start(rings, now, engine).map_err(|end| match end {
            End::Fault(fault) => fault,
            End::Closed => PortFault::Disconnected("peer"),
        })?;
        if let Some(link) = &self.link {
            link.session().set_left(false);
        }
        Ok(())
    }
}

fn message(part: Part) -> Result<Described, PortFault> {
    let message = Message::decode(&part.bytes).map_err(|error| PortFault::Peer(error.to_string()))?;
    let mut descriptors = part.descriptors.into_iter();
    let described = (message, descriptors.next());
    if descriptors.next().is_some() { Err(INVALID) } else { Ok(described) }
}

fn state(part: &Part) -> Result<QueueState, PortFault> {
    MemifQueue::decode(&part.bytes).map(|state| QueueState::Memif(Box::new(state))).ok_or(INVALID)
}
