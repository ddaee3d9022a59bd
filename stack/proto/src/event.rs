//! What the stack reports to the application.

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
    },
    /// The connection ended. Its identifier is not valid any more, and no event of it follows.
    Closed {
        /// The connection.
        connection: ConnectionId,
        /// Reason.
        reason: Closed,
    },
}
