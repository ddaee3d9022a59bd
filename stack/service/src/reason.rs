//! Reasons for the end of operations, connections and clients.

use stack::{Closed, ConnectError, DatagramError, ListenError, UdpError};

/// Reason why an operation failed or a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[repr(u8)]
pub enum Reason {
    /// Both sides closed, and all data was acknowledged.
    #[error("closed")]
    Normally = 1,
    /// The peer reset the connection.
    #[error("connection reset by the peer")]
    Reset,
    /// The peer refused the connection or the datagram.
    #[error("connection refused")]
    Refused,
    /// No acknowledgement in time.
    #[error("connection timed out")]
    TimedOut,
    /// The network reports that the destination cannot be reached.
    #[error("destination unreachable")]
    Unreachable,
    /// This side ended the connection.
    #[error("aborted")]
    Aborted,
    /// Another socket has the address and port.
    #[error("address in use")]
    InUse,
    /// The address is not one of the stack.
    #[error("address not available")]
    NotLocal,
    /// No route leads to the destination.
    #[error("no route to the destination")]
    NoRoute,
    /// A limit of the service or the stack is reached.
    #[error("too many sockets or connections")]
    TooMany,
    /// The datagram is longer than the protocol or the path permits.
    #[error("datagram too long")]
    TooLong,
    /// The socket has no destination.
    #[error("destination address required")]
    NotConnected,
    /// The address is not valid for the operation.
    #[error("invalid address")]
    InvalidAddress,
    /// Received data exceeded the memory for data that the client does not read.
    #[error("received data exceeds the limit of memory")]
    Memory,
    /// The service ended, or ended its connection with this client.
    #[error("the service ended")]
    Service,
}

impl Reason {
    const ALL: [Self; 15] = [
        Self::Normally,
        Self::Reset,
        Self::Refused,
        Self::TimedOut,
        Self::Unreachable,
        Self::Aborted,
        Self::InUse,
        Self::NotLocal,
        Self::NoRoute,
        Self::TooMany,
        Self::TooLong,
        Self::NotConnected,
        Self::InvalidAddress,
        Self::Memory,
        Self::Service,
    ];

    /// The reason of a number in an entry.
    pub(crate) fn of(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| *reason as u8 == number)
    }

    /// The kind of I/O error that a socket of the kernel reports.
    pub fn kind(self) -> std::io::ErrorKind {
        use std::io::ErrorKind;
        match self {
            Self::Normally | Self::NotConnected => ErrorKind::NotConnected,
            Self::Reset => ErrorKind::ConnectionReset,
            Self::Refused => ErrorKind::ConnectionRefused,
            Self::TimedOut => ErrorKind::TimedOut,
            Self::Unreachable => ErrorKind::HostUnreachable,
            Self::NoRoute => ErrorKind::NetworkUnreachable,
            Self::Aborted | Self::Memory | Self::Service => ErrorKind::ConnectionAborted,
            Self::InUse => ErrorKind::AddrInUse,
            Self::NotLocal => ErrorKind::AddrNotAvailable,
            Self::TooMany => ErrorKind::OutOfMemory,
            Self::TooLong | Self::InvalidAddress => ErrorKind::InvalidInput,
        }
    }
}

impl From<Reason> for std::io::Error {
    fn from(reason: Reason) -> Self {
        Self::new(reason.kind(), reason)
    }
}

impl From<Closed> for Reason {
    fn from(closed: Closed) -> Self {
        match closed {
            Closed::Normally => Self::Normally,
            Closed::Reset => Self::Reset,
            Closed::Refused => Self::Refused,
            Closed::TimedOut => Self::TimedOut,
            Closed::Unreachable => Self::Unreachable,
            Closed::Aborted => Self::Aborted,
        }
    }
}

impl From<ListenError> for Reason {
    fn from(error: ListenError) -> Self {
        match error {
            ListenError::InUse => Self::InUse,
            ListenError::NotLocal => Self::NotLocal,
        }
    }
}

impl From<ConnectError> for Reason {
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::NoRoute => Self::NoRoute,
            ConnectError::InUse => Self::InUse,
            ConnectError::TooMany => Self::TooMany,
        }
    }
}

impl From<UdpError> for Reason {
    fn from(error: UdpError) -> Self {
        match error {
            UdpError::Closed | UdpError::NotConnected => Self::NotConnected,
            UdpError::InUse => Self::InUse,
            UdpError::NotLocal => Self::NotLocal,
            UdpError::NoRoute => Self::NoRoute,
            UdpError::InvalidAddress => Self::InvalidAddress,
            UdpError::TooLong(_) => Self::TooLong,
            UdpError::TooMany => Self::TooMany,
        }
    }
}

impl From<DatagramError> for Reason {
    fn from(error: DatagramError) -> Self {
        match error {
            DatagramError::Unreachable => Self::Unreachable,
            DatagramError::Refused => Self::Refused,
            DatagramError::TooBig(_) => Self::TooLong,
        }
    }
}

/// Reason why a service ended its connection with a client. All connections of the client were reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Fault {
    /// The process ended, or closed the connection.
    #[error("the client left")]
    Left,
    /// A position of a ring is invalid.
    #[error("invalid position in a ring")]
    Ring,
    /// A command cannot be decoded.
    #[error("invalid command")]
    Command,
    /// A range is outside of the arena.
    #[error("a range is outside of the arena")]
    Range,
    /// A new socket has the number of another one.
    #[error("a number is in use")]
    Number,
    /// More bytes or commands were sent than permitted without acknowledgement.
    #[error("more was sent than permitted")]
    Credit,
    /// More bytes were returned than received.
    #[error("more was returned than received")]
    Returned,
}
