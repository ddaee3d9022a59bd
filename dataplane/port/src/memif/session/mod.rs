//! What was said so far, and what it comes to: the memif conversation without a socket.
//!
//! The client speaks and the server acknowledges, one message at a time: HELLO (the server's limits), INIT (whom the
//! client wants), `ADD_REGION` and `ADD_RING` for each, CONNECT, CONNECTED. A session is told each message with its
//! descriptors and says what to answer; it does no I/O and reads no clock. Every message in every order has an answer,
//! or ends the session with a reason. After CONNECTED only DISCONNECT may come.

mod client;
mod server;

#[cfg(test)]
mod tests;

pub(super) use client::ClientSession;
pub(super) use server::ServerSession;

use super::message::{Message, field, text};
use super::queue::Rings;
use crate::PortFault;
use rustix::fd::{BorrowedFd, OwnedFd};

/// Our name in HELLO and INIT.
pub(super) const NAME: &str = "linerate";

/// Why a session ended.
#[derive(Debug)]
pub(super) enum End {
    /// The peer closed it.
    Closed,
    /// It was ended here, or the peer would not have us.
    Fault(PortFault),
}

/// What a message comes to.
#[derive(Debug)]
pub(super) enum Step {
    /// Nothing to say now.
    Wait,
    /// To be said, with a descriptor of [`Session::file`] beside it.
    Say(Message, Attached),
    /// The rings may run, and then this is to be said.
    Run(Rings, Option<Message>),
}

/// A descriptor that travels with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attached {
    Nothing,
    Memory,
    Ring(usize),
}

/// Either end's session.
#[derive(Debug)]
pub(super) enum Session {
    Server(ServerSession),
    Client(ClientSession),
}

impl Session {
    /// What is said before the peer says anything.
    pub(super) fn greeting(&self) -> Option<Message> {
        match self {
            Session::Server(server) => Some(server.greeting()),
            Session::Client(_) => None,
        }
    }

    /// What a message comes to. Unwanted descriptors are closed.
    pub(super) fn receive(&mut self, message: Message, files: Vec<OwnedFd>) -> Result<Step, End> {
        match self {
            Session::Server(server) => server.receive(message, files),
            Session::Client(client) => client.receive(message, &files),
        }
    }

    /// What the session waits for.
    pub(super) fn awaits(&self) -> Option<&'static str> {
        match self {
            Session::Server(server) => server.awaits(),
            Session::Client(client) => client.awaits(),
        }
    }

    /// A descriptor of ours.
    pub(super) fn file(&self, attached: Attached) -> Option<BorrowedFd<'_>> {
        match self {
            Session::Server(_) => None,
            Session::Client(client) => client.file(attached),
        }
    }

    /// Regions and bytes that are shared.
    pub(super) fn memory(&self) -> (usize, u64) {
        match self {
            Session::Server(server) => server.memory(),
            Session::Client(client) => client.memory(),
        }
    }

    /// Entries of the rings, once they are known.
    pub(super) fn ring_size(&self) -> u16 {
        match self {
            Session::Server(server) => server.ring_size(),
            Session::Client(client) => client.ring_size(),
        }
    }
}

fn broke(how: impl Into<String>) -> End {
    End::Fault(PortFault::Peer(how.into()))
}

fn refused(why: impl Into<String>) -> End {
    End::Fault(PortFault::Refused(why.into()))
}

fn unexpected(message: &Message, awaited: &str) -> End {
    broke(format!("it said {} where {awaited} was due", message.name()))
}

/// The peer said goodbye: while the rings run that is its right, before it is a refusal.
fn goodbye(reason: &[u8], runs: bool) -> End {
    let reason = text(reason);
    match (runs, reason.is_empty()) {
        (true, _) => End::Closed,
        (false, true) => refused("it gave no reason"),
        (false, false) => refused(format!("it said \"{reason}\"")),
    }
}

fn own_name() -> [u8; 32] {
    field(NAME)
}
