//! Operations and their results.

use host::Buffer;
use stack::Slice;
use std::io::ErrorKind;
use std::net::SocketAddr;

/// A connection, a listener or a queue of datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Queue {
    pub(super) end: u32,
    pub(super) number: u64,
}

impl Queue {
    /// A number for tables of the program: small, and used again after the queue is closed.
    pub const fn index(self) -> usize {
        self.end as usize
    }
}

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token {
    pub(super) at: u32,
    pub(super) number: u64,
}

/// Result of an operation.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// A connection of a listener, with its peer.
    Accepted(Queue, SocketAddr),
    /// The connection is established.
    Connected,
    /// The send buffer has taken the data, or the device the datagram.
    Pushed,
    /// The next bytes.
    Popped(Slice<Buffer>),
    /// The next datagram, and its sender.
    PoppedFrom(SocketAddr, Slice<Buffer>),
    /// The peer has sent its last byte before.
    Finished,
    /// The sending side was closed.
    Shut,
    /// The queue was closed, and does not exist any more.
    Closed,
    /// The operation failed; [`ErrorKind::ConnectionAborted`] if its queue was closed or reset here.
    Failed(ErrorKind),
}

/// Kind of an operation, or its result.
#[derive(Debug)]
pub(super) enum Action {
    Accept,
    Connect,
    /// The data that was not sent yet.
    Push(Option<Slice<Buffer>>),
    Pop,
    PushTo(SocketAddr, Slice<Buffer>),
    PopFrom,
    Finish,
    Close,
    /// Complete, with a number that grows with each completion.
    Complete(u64, Outcome),
}

impl Action {
    /// Whether it waits for the peer's data, and not for those of its own queue.
    pub(super) const fn is_incoming(&self) -> bool {
        matches!(self, Self::Accept | Self::Pop | Self::PopFrom)
    }
}

#[derive(Debug)]
pub(super) struct Operation {
    pub(super) number: u64,
    pub(super) queue: Queue,
    /// Whether its result is dropped.
    pub(super) is_detached: bool,
    pub(super) action: Action,
}

impl Operation {
    pub(super) const fn is_complete(&self) -> bool {
        matches!(self.action, Action::Complete(..))
    }
}
