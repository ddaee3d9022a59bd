//! One connection: messages in and out of a packet socket. Never blocks, where the socket does not.

use super::message::{BYTES, Message};
use super::queue::Rings;
use super::session::{End, Session, Step};
use crate::PortFault;
use crate::socket::rights::{self, ReceiveError};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::time::Duration;

/// How long the whole conversation may take. A peer maps and populates memory in it.
pub(super) const TIMEOUT: Duration = Duration::from_secs(10);
/// Messages carried out before other ports have their turn.
const MESSAGES_AT_ONCE: usize = 64;

/// A peer that is connected.
#[derive(Debug)]
pub(super) struct Link {
    socket: OwnedFd,
    session: Session,
    /// What is to be said once the rings run.
    last_word: Option<Message>,
}

impl Link {
    /// A conversation over a connected socket that does not block.
    pub(super) fn new(socket: OwnedFd, session: Session) -> Result<Self, End> {
        let link = Self { socket, session, last_word: None };
        if let Some(greeting) = link.session.greeting() {
            link.say(&greeting, None)?;
        }
        Ok(link)
    }

    /// What was agreed on.
    pub(super) fn session(&self) -> &Session {
        &self.session
    }

    /// Carries out the messages that are there, up to the one after which the rings may run.
    pub(super) fn advance(&mut self) -> Result<Option<Rings>, End> {
        for _ in 0..MESSAGES_AT_ONCE {
            let Some((message, files)) = receive(&self.socket)? else { break };
            match self.session.receive(message, files)? {
                Step::Wait => {}
                Step::Say(message, attached) => self.say(&message, self.session.file(attached))?,
                Step::Run(rings, last_word) => {
                    self.last_word = last_word;
                    return Ok(Some(rings));
                }
            }
        }
        Ok(None)
    }

    /// The conversation took longer than [`TIMEOUT`].
    pub(super) fn overdue(&self) -> Option<End> {
        let (awaited, limit) = (self.session.awaits()?, TIMEOUT.as_secs());
        Some(End::Fault(PortFault::Peer(format!("it did not say {awaited} within {limit} s"))))
    }

    /// The rings run.
    pub(super) fn started(&mut self) -> Result<(), End> {
        self.last_word.take().map_or(Ok(()), |message| self.say(&message, None))
    }

    /// Says why this ends. The peer may be gone.
    pub(super) fn part(&self, reason: &str) {
        let _ = self.say(&Message::disconnect(reason), None);
    }

    fn say(&self, message: &Message, file: Option<BorrowedFd<'_>>) -> Result<(), End> {
        match rights::send(self.socket.as_fd(), &message.encode(), file.as_slice()) {
            Ok(()) => Ok(()),
            Err(Errno::AGAIN) => {
                Err(End::Fault(PortFault::Peer(format!("it does not read {}", message.name()))))
            }
            Err(_) => Err(End::Closed),
        }
    }
}

/// The next message with its descriptors, if one is there.
fn receive(socket: &OwnedFd) -> Result<Option<(Message, Vec<OwnedFd>)>, End> {
    // One byte more than a message has, so that a longer packet shows.
    let (mut bytes, mut files) = ([0; BYTES + 1], Vec::new());
    let broke = |how: &dyn std::fmt::Display| End::Fault(PortFault::Peer(how.to_string()));
    match rights::receive(socket.as_fd(), &mut bytes, &mut files) {
        Ok(None) => Ok(None),
        Ok(Some(n)) => {
            let message = Message::decode(&bytes[..n]).map_err(|e| broke(&e))?;
            Ok(Some((message, files)))
        }
        Err(error @ ReceiveError::Descriptors) => Err(broke(&error)),
        Err(ReceiveError::Closed | ReceiveError::Io(_)) => Err(End::Closed),
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
