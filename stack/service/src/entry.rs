//! Commands of clients and completions of the service, and their encoding in entries of a ring.
//!
//! A socket (connection, listener or UDP socket) has a number. The client chooses the number of a socket that it opens,
//! below [`ACCEPTED`]; the service chooses that of a connection that a listener accepts, from [`ACCEPTED`] on. A number
//! is free again when the client has sent [`Command::Close`] and received [`Completion::Closed`] or
//! [`Completion::Failed`]. Entries come from memory that a peer writes.

use crate::chunks::ArenaRange;
use crate::reason::Reason;
use stack::{Address, Endpoint};

mod encoding;
mod options;

pub use options::{DatagramOptions, StreamOptions};

/// First number of accepted connections.
pub(crate) const ACCEPTED: u32 = 1 << 31;

/// A change of a multicast membership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupChange {
    /// Number of the request, which the answer has too.
    pub(crate) request: u32,
    pub(crate) group: Address,
    /// Own address of the interface, or the unspecified address.
    pub(crate) local: Address,
    pub(crate) joins: bool,
}

/// Command of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// Accepts connections; with `shares`, together with other clients of the same user.
    Listen {
        id: u32,
        local: Endpoint,
        shares: bool,
    },
    /// Permits `count` more connections of a listener to be accepted.
    Accept {
        id: u32,
        count: u32,
    },
    Connect {
        id: u32,
        local: Endpoint,
        remote: Endpoint,
        options: StreamOptions,
    },
    /// Sends bytes of the client's arena; [`Completion::Sent`] gives them back.
    Send {
        id: u32,
        range: ArenaRange,
    },
    /// Gives received bytes back, oldest first.
    Consumed {
        id: u32,
        bytes: u32,
    },
    /// Ends sending after all data.
    Shutdown {
        id: u32,
    },
    Abort {
        id: u32,
    },
    /// The client will not use the socket any more.
    Close {
        id: u32,
    },
    SetOptions {
        id: u32,
        options: StreamOptions,
    },
    UdpBind {
        id: u32,
        local: Endpoint,
    },
    UdpConnect {
        id: u32,
        remote: Endpoint,
    },
    /// Sends a datagram, or adds a piece to one that is not complete.
    UdpSend {
        id: u32,
        remote: Option<Endpoint>,
        range: ArenaRange,
        is_last: bool,
    },
    /// Joins or leaves a multicast group; [`Completion::Answer`] has the result.
    UdpGroup {
        id: u32,
        change: GroupChange,
    },
    UdpSetOptions {
        id: u32,
        options: DatagramOptions,
    },
}

impl Command {
    /// Whether it opens or closes something, or assigns new connections. Others are those of the data path.
    #[inline]
    pub(crate) fn is_control(self) -> bool {
        !matches!(
            self,
            Self::Send { .. }
                | Self::Consumed { .. }
                | Self::UdpSend { .. }
                | Self::Shutdown { .. }
                | Self::SetOptions { .. }
        )
    }
}

/// Completion of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Completion {
    /// A listener or UDP socket is bound.
    Bound {
        id: u32,
        local: Endpoint,
    },
    /// Opening a socket failed; its number is free.
    Failed {
        id: u32,
        reason: Reason,
    },
    /// Segments of the connection belong to another worker, which is to open it; the number is free at this one.
    Elsewhere {
        id: u32,
        worker: u32,
    },
    Accepted {
        listener: u32,
        id: u32,
        local: Endpoint,
        remote: Endpoint,
    },
    /// A connection is being opened.
    Connecting {
        id: u32,
        local: Endpoint,
        remote: Endpoint,
    },
    Connected {
        id: u32,
        local: Endpoint,
        remote: Endpoint,
    },
    Data {
        id: u32,
        range: ArenaRange,
    },
    /// The oldest bytes were acknowledged, or a datagram was sent.
    Sent {
        id: u32,
        bytes: u32,
    },
    /// The peer will send no more.
    Finished {
        id: u32,
    },
    Closed {
        id: u32,
        reason: Reason,
    },
    /// A datagram, or a piece of one that is not complete.
    Datagram {
        id: u32,
        from: Endpoint,
        range: ArenaRange,
        is_last: bool,
    },
    /// A datagram was not sent or not delivered.
    DatagramFailed {
        id: u32,
        reason: Reason,
    },
    /// Result of a request; `None` if it succeeded.
    Answer {
        id: u32,
        request: u32,
        reason: Option<Reason>,
    },
    /// The first `workers` workers open new connections from now on. Belongs to no socket.
    Active {
        workers: u32,
    },
}
