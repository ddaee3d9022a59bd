//! One connection: sends and receives messages on a packet socket. Does not block if the socket is non-blocking.

use super::message::{BYTES, Message};
use super::queue::Rings;
use super::session::{End, Session, Step};
use crate::PortFault;
use crate::socket::rights::{self, ReceiveError};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::time::Duration;

/// Timeout of the complete handshake. The peer maps and populates memory in it.
pub(super) const TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum messages processed per call, so that other ports are not delayed.
const MESSAGES_AT_ONCE: usize = 64;

/// A connection to a peer.
#[derive(Debug)]
pub(super) struct Link {
    socket: OwnedFd,
    session: Session,
    /// Message to send once the rings run.
    last_word: Option<Message>,
}

impl Link {
    /// Creates a link on a connected non-blocking socket.
    pub(super) fn new(socket: OwnedFd, session: Session) -> Result<Self, End> {
        let link = Self { socket, session, last_word: None };
        if let Some(greeting) = link.session.first_message() {
            link.send(&greeting, None)?;
        }
        Ok(link)
    }

    /// Continues the connection of another process.
    pub(super) fn continued(socket: OwnedFd, session: Session) -> Self {
        Self { socket, session, last_word: None }
    }

    /// The session.
    pub(super) fn session(&self) -> &Session {
        &self.session
    }

    /// Processes available messages, up to the one that completes the handshake.
    pub(super) fn advance(&mut self) -> Result<Option<Rings>, End> {
        for _ in 0..MESSAGES_AT_ONCE {
            let Some((message, files)) = receive(&self.socket)? else { break };
            match self.session.receive(message, files)? {
                Step::Wait => {}
                Step::Send(message, attached) => self.send(&message, self.session.file(attached))?,
                Step::Run(rings, last_word) => {
                    self.last_word = last_word;
                    return Ok(Some(rings));
                }
            }
        }
        Ok(None)
    }

    /// The fault if the handshake took longer than [`TIMEOUT`].
    pub(super) fn overdue(&self) -> Option<End> {
        let (expected, limit) = (self.session.awaits()?, TIMEOUT.as_secs());
        Some(End::Fault(PortFault::Peer(format!("no {expected} within {limit} s"))))
    }

    /// Sends the final message of the handshake, once the rings run.
    pub(super) fn started(&mut self) -> Result<(), End> {
        self.last_word.take().map_or(Ok(()), |message| self.send(&message, None))
    }

    /// Sends the reason for disconnecting. Errors are ignored, because the peer may have disconnected.
    pub(super) fn part(&self, reason: &str) {
        let _ = self.send(&Message::disconnect(reason), None);
    }

    fn send(&self, message: &Message, file: Option<BorrowedFd<'_>>) -> Result<(), End> {
        match rights::send(self.socket.as_fd(), &message.encode(), file.as_slice()) {
            Ok(()) => Ok(()),
            Err(Errno::AGAIN) => {
                Err(End::Fault(PortFault::Peer(format!("it does not read {}", message.name()))))
            }
            Err(_) => Err(End::Closed),
        }
    }
}

/// Receives the next message with its descriptors, if one is available.
fn receive(socket: &OwnedFd) -> Result<Option<(Message, Vec<OwnedFd>)>, End> {
    // One byte more than a message, to detect longer packets.
    let (mut bytes, mut files) = ([0; BYTES + 1], Vec::new());
    let broke = |how: &dyn std::fmt::Display| End::Fault(PortFault::Peer(how.to_string()));
    match rights::receive(socket.as_fd(), &mut bytes, &mut files) {
        Ok(None) => Ok(None),
        Err(error) if error.is_temporary() => Ok(None),
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
