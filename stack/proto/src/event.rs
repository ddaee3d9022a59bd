//! Events that the stack reports to the application.

use crate::tcp::{ConnectionId, ListenerId};
use crate::{Endpoint, Payload, Slice};

/// Reason why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Closed {
    /// Both sides closed, and all data was acknowledged.
    #[error("closed")]
    Normally,
    /// The peer reset the connection.
    #[error("connection reset by the peer")]
    Reset,
    /// The peer refused the connection.
    #[error("connection refused")]
    Refused,
    /// No acknowledgement within the user timeout, or too many retransmissions.
    #[error("connection timed out")]
    TimedOut,
    /// The network reports that the destination cannot be reached.
    #[error("destination unreachable")]
    Unreachable,
    /// Closed by [`crate::Stack::abort`], or by the removal of its address.
    #[error("aborted")]
    Aborted,
}

/// A UDP socket of one stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SocketId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl SocketId {
    /// A number for tables of the application: below the stack's limit of sockets, and used again after the socket is
    /// closed.
    pub const fn index(self) -> usize {
        self.index as usize
    }

    /// As a number, for interfaces in other languages.
    pub const fn to_bits(self) -> u64 {
        (self.generation as u64) << 32 | self.index as u64
    }

    /// From the number of [`SocketId::to_bits`]. Any other number is an identifier that is not valid.
    pub const fn from_bits(bits: u64) -> Self {
        Self { index: bits as u32, generation: (bits >> 32) as u32 }
    }
}

/// An ICMP error about a datagram of a connected socket. Not authenticated: an attacker may have sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DatagramError {
    /// The network reports that the destination cannot be reached; may be temporary.
    #[error("destination unreachable")]
    Unreachable,
    /// No socket receives on the destination port.
    #[error("connection refused")]
    Refused,
    /// The datagram was longer than the path MTU, which is at most this many bytes.
    #[error("datagram too long: path MTU is {0} bytes")]
    TooBig(u16),
}

/// An event, in the order in which they occurred.
#[derive(Clone, Debug)]
pub enum Event<P: Payload> {
    /// A peer opened a connection to a listener.
    Accepted {
        /// The new connection.
        connection: ConnectionId,
        /// Its listener.
        listener: ListenerId,
        /// The peer.
        remote: Endpoint,
    },
    /// A connection opened here is established.
    Connected {
        /// The connection.
        connection: ConnectionId,
    },
    /// Bytes of the stream. The window opens again by [`crate::Stack::consumed`].
    Data {
        /// The connection.
        connection: ConnectionId,
        /// The next bytes.
        data: Slice<P>,
    },
    /// The peer will send no more: all bytes before its FIN were reported.
    Finished {
        /// The connection.
        connection: ConnectionId,
    },
    /// Send space is available again, after [`crate::Stack::send`] reported a full buffer.
    Writable {
        /// The connection.
        connection: ConnectionId,
    },
    /// The peer acknowledged data, if the application asked for it ([`crate::Stack::report_acks`]).
    Acknowledged {
        /// The connection.
        connection: ConnectionId,
        /// Number of bytes.
        bytes: u32,
        /// Send space that became free, in bytes. It may be less or more than `bytes`: a buffer counts until all of it
        /// is acknowledged, and as [`crate::send_cost`].
        space: u32,
    },
    /// The connection ended. Its identifier is not valid any more, and no event of it follows.
    Closed {
        /// The connection.
        connection: ConnectionId,
        /// Reason.
        reason: Closed,
    },
    /// A datagram. Datagrams have no order with respect to the events of connections.
    Datagram {
        /// The socket.
        socket: SocketId,
        /// Sender.
        from: Endpoint,
        /// Destination: an address of this host, or a group or broadcast address.
        to: Endpoint,
        /// Payload.
        data: Slice<P>,
    },
    /// The network reports that a datagram of a connected socket was not delivered.
    DatagramLost {
        /// The socket.
        socket: SocketId,
        /// Reason.
        error: DatagramError,
    },
}
