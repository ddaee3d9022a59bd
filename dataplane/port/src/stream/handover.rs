//! Hand-over of the port to another process: its listening socket, its connection, and the bytes that this process has
//! read and not passed on, or has not sent yet.

use super::Stream;
use super::connection::Connection;
use crate::handover::{HandOver, Handover, Part, duplicate};
use crate::{Attach, PortFault, PortState, QueueState, RxQueue};
use rustix::fd::OwnedFd;
use std::time::Instant;

/// The listening socket.
const LISTENER: u8 = 1;
/// The connection. Bytes: the rest of a partially sent frame.
const CONNECTION: u8 = 2;
/// Bytes of the connection that were read.
const RECEIVED: u8 = 3;
/// Maximum number of bytes that were read, in one part.
const PIECE: usize = 1 << 16;

/// Error for parts that are not those of this kind of port, or in another order.
const INVALID: PortFault = PortFault::State("it is not that of a stream port");

impl HandOver for Stream {
    fn hand_over(&mut self, engine: &mut dyn Attach) -> Result<Handover, PortFault> {
        let mut handover = Handover::default();
        let Some(link) = &mut self.link else {
            return self.connector.hand_over(LISTENER, &mut handover).map(|()| handover);
        };
        // Set before anything can fail, so that the port continues with these bytes.
        let received = link.received.insert(stop(engine));
        self.connector.hand_over(LISTENER, &mut handover)?;
        handover.push(CONNECTION, link.wire.rest(), vec![duplicate(link.wire.socket())?]);
        received.chunks(PIECE).for_each(|piece| handover.push(RECEIVED, piece.to_vec(), Vec::new()));
        Ok(handover)
    }

    fn resume(&mut self, now: Instant, engine: &mut dyn Attach) {
        let received = self.link.as_mut().and_then(|link| link.received.take());
        if let Some(Err(fault)) = received.map(|received| self.start(&received, engine)) {
            self.disconnect(Some(fault), now, engine);
        }
    }

    fn release(&mut self, _: &mut dyn Attach) {
        self.link = None;
        self.connector.release();
        self.state = PortState::Closed;
    }

    fn take_over(
        &mut self,
        handover: Handover,
        now: Instant,
        engine: &mut dyn Attach,
    ) -> Result<(), PortFault> {
        let mut received = Vec::new();
        for part in handover.parts {
            match (part.tag, &self.link) {
                (LISTENER, None) => self.connector.take_over(part)?,
                (CONNECTION, None) => self.continue_connection(part, now)?,
                (RECEIVED, Some(_)) => received.extend(part.bytes),
                _ => return Err(INVALID),
            }
        }
        if self.link.is_none() && self.connector.listener().is_none() {
            // A client without a connection connects.
            self.connector.connect_at(now);
        }
        self.start(&received, engine)
    }
}

impl Stream {
    fn continue_connection(&mut self, part: Part, now: Instant) -> Result<(), PortFault> {
        let [socket] = <[OwnedFd; 1]>::try_from(part.descriptors).map_err(|_| INVALID)?;
        let connection = Connection::continued(socket, self.doorbell.clone(), &part.bytes);
        self.connected(connection.ok_or(PortFault::State("a partially sent frame is too long"))?, now);
        Ok(())
    }
}

/// Stops both queues. Returns the bytes that the receive queue left.
fn stop(engine: &mut dyn Attach) -> Box<[u8]> {
    let left = engine.stop_rx(0).map(RxQueue::freeze);
    drop(engine.stop_tx(0));
    match left {
        Some(QueueState::Bytes(bytes)) => bytes,
        _ => Box::default(),
    }
}
