//! Protocol state machine of the memif handshake, without a socket.
//!
//! The client sends messages and the server acknowledges them, one at a time: HELLO (the server's limits), INIT (the
//! requested interface), `ADD_REGION` and `ADD_RING` for each, CONNECT, CONNECTED. A session receives each message
//! with its descriptors and returns the reply; it does no I/O and reads no clock. Every message in every order has a
//! reply or ends the session with a reason. After CONNECTED only DISCONNECT is valid.

mod client;
mod handover;
mod server;

#[cfg(test)]
mod tests;

pub(super) use client::ClientSession;
pub(super) use handover::Described;
pub(super) use server::ServerSession;

use super::message::{Init, MAX_SECRET, Message, VERSION, field, text};
use super::options::{Options, Secret};
use super::queue::Rings;
use crate::PortFault;
use rustix::fd::{BorrowedFd, OwnedFd};

/// Name sent in HELLO and INIT.
pub(super) const NAME: &str = "linerate";

/// Reason why a session ended.
#[derive(Debug)]
pub(super) enum End {
    /// The peer closed it.
    Closed,
    /// This end ended it, or the peer rejected this end.
    Fault(PortFault),
}

/// Result of a message.
#[derive(Debug)]
pub(super) enum Step {
    /// Nothing to send now.
    Wait,
    /// Message to send, with a descriptor of [`Session::file`].
    Send(Message, Attached),
    /// The rings may run; then send this message.
    Run(Rings, Option<Message>),
}

/// Descriptor sent with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attached {
    Nothing,
    Memory,
    Ring(usize),
}

/// Session of either end.
#[derive(Debug)]
pub(super) enum Session {
    Server(ServerSession),
    Client(ClientSession),
}

impl Session {
    /// Message to send before the peer's first message.
    pub(super) fn first_message(&self) -> Option<Message> {
        match self {
            Session::Server(server) => Some(server.first_message()),
            Session::Client(_) => None,
        }
    }

    /// Processes a message. Unexpected descriptors are closed.
    pub(super) fn receive(&mut self, message: Message, files: Vec<OwnedFd>) -> Result<Step, End> {
        match self {
            Session::Server(server) => server.receive(message, files),
            Session::Client(client) => client.receive(message, &files),
        }
    }

    /// Message that the session waits for, for the timeout error.
    pub(super) fn awaits(&self) -> Option<&'static str> {
        match self {
            Session::Server(server) => server.awaits(),
            Session::Client(client) => client.awaits(),
        }
    }

    /// A descriptor of this end.
    pub(super) fn file(&self, attached: Attached) -> Option<BorrowedFd<'_>> {
        match self {
            Session::Server(_) => None,
            Session::Client(client) => client.file(attached),
        }
    }

    /// Number of shared regions and their total bytes.
    pub(super) fn memory(&self) -> (usize, u64) {
        match self {
            Session::Server(server) => server.memory(),
            Session::Client(client) => client.memory(),
        }
    }

    /// Ring size, once known.
    pub(super) fn ring_size(&self) -> u16 {
        match self {
            Session::Server(server) => server.ring_size(),
            Session::Client(client) => client.ring_size(),
        }
    }
}

fn protocol_error(how: impl Into<String>) -> End {
    End::Fault(PortFault::Peer(how.into()))
}

fn rejected(why: impl Into<String>) -> End {
    End::Fault(PortFault::Refused(why.into()))
}

fn unexpected(message: &Message, expected: &str) -> End {
    protocol_error(format!("unexpected {}: expected {expected}", message.name()))
}

/// Result of the peer's DISCONNECT: a normal end while the rings run, a rejection before.
fn disconnected(reason: &[u8], runs: bool) -> End {
    let reason = text(reason);
    match (runs, reason.is_empty()) {
        (true, _) => End::Closed,
        (false, true) => rejected("it gave no reason"),
        (false, false) => rejected(format!("the peer reported \"{reason}\"")),
    }
}

/// The message with which a client requests the interface.
fn init(options: &Options) -> Init {
    let secret = options.secret.map_or([0; MAX_SECRET], Secret::bytes);
    Init { version: VERSION, id: options.id, mode: 0, secret, name: own_name() }
}

fn own_name() -> [u8; 32] {
    field(NAME)
}
