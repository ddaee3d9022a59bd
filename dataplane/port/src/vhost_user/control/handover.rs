//! Hand-over of the port to another process: its listening socket, its connection, and the messages from which the
//! other process builds the session. Only the positions of rings wait until the rings are stopped.

use super::{Link, VhostUser};
use crate::handover::{HandOver, Handover, Part};
use crate::vhost::message::Header;
use crate::vhost::wire::Channel;
use crate::{Attach, PortFault, PortState};
use rustix::fd::AsFd;
use std::time::Instant;

/// The listening socket.
const LISTENER: u8 = 1;
/// The connection. Bytes and further descriptors: the received part of a message.
const CONNECTION: u8 = 2;
/// A message that builds the session, with its descriptors.
const MESSAGE: u8 = 3;

/// Error for parts that are not those of this kind of port, or in another order.
const INVALID: PortFault = PortFault::State("it is not that of a vhost-user port");

impl HandOver for VhostUser {
    fn describe(&mut self, _: &mut dyn Attach) -> Result<Handover, PortFault> {
        let mut handover = Handover::default();
        self.connector.hand_over(LISTENER, &mut handover)?;
        let Some(link) = &mut self.link else { return Ok(handover) };
        link.channel.hand_over(CONNECTION, &mut handover)?;
        for (request, descriptors) in link.session.describe()? {
            handover.push(MESSAGE, request.encode(false), descriptors);
        }
        Ok(handover)
    }

    fn hand_over(&mut self, engine: &mut dyn Attach) -> Result<Handover, PortFault> {
        let mut handover = Handover::default();
        let Some(link) = &mut self.link else { return Ok(handover) };
        for request in link.session.hand_over(engine)? {
            handover.push(MESSAGE, request.encode(false), Vec::new());
        }
        Ok(handover)
    }

    fn resume(&mut self, now: Instant, engine: &mut dyn Attach) {
        let Some(link) = &mut self.link else { return };
        if let Err(fault) = link.session.resume(engine) {
            self.disconnect(Some(fault), now, engine);
        }
    }

    fn release(&mut self, engine: &mut dyn Attach) {
        if let Some(mut link) = self.link.take() {
            link.session.release(engine);
        }
        self.own_positions(false);
        self.connector.release();
        self.state = PortState::Closed;
    }

    fn prepare(
        &mut self,
        description: Handover,
        _: Instant,
        engine: &mut dyn Attach,
    ) -> Result<(), PortFault> {
        for part in description.parts {
            match part.tag {
                LISTENER => self.connector.take_over(part)?,
                CONNECTION => self.continue_link(part)?,
                MESSAGE => self.replay(part, engine)?,
                _ => return Err(INVALID),
            }
        }
        Ok(())
    }

    fn take_over(
        &mut self,
        handover: Handover,
        now: Instant,
        engine: &mut dyn Attach,
    ) -> Result<(), PortFault> {
        for part in handover.parts {
            if part.tag != MESSAGE {
                return Err(INVALID);
            }
            self.replay(part, engine)?;
        }
        if let Some(link) = &mut self.link {
            link.session.resume(engine)?;
        }
        self.own_positions(true);
        // A client without a connection connects.
        if !self.listens && self.link.is_none() {
            self.connector.connect_at(now);
        }
        Ok(())
    }
}

impl VhostUser {
    fn own_positions(&self, owned: bool) {
        if let Some(Ok(positions)) = &self.positions {
            positions.set_owned(owned);
        }
    }

    fn continue_link(&mut self, part: Part) -> Result<(), PortFault> {
        let channel = Channel::take_over(part, Header::expect_request).ok_or(INVALID)?;
        self.connector.continue_with(channel.as_fd())?;
        self.link = Some(Link { channel, session: self.session().held() });
        (self.state, self.connects) = (PortState::Connected, self.connects + 1);
        self.connector.succeeded();
        Ok(())
    }

    fn replay(&mut self, part: Part, engine: &mut dyn Attach) -> Result<(), PortFault> {
        let link = self.link.as_mut().ok_or(INVALID)?;
        let (header, payload) = part.bytes.split_first_chunk().ok_or(INVALID)?;
        let header = Header::decode(*header).map_err(|error| PortFault::Protocol(error.to_string()))?;
        link.session.receive(header, payload, part.descriptors, engine).map(drop)
    }
}
