//! Small programs: servers of echo, discard and source, and a closed-loop client.
#![forbid(unsafe_code)]

mod discard;
mod echo;
pub mod load;
mod requests;
mod source;

pub use discard::Discard;
pub use echo::Echo;
pub use requests::{RequestOptions, Requests};
pub use source::Source;

/// Counts of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Connections accepted.
    pub connections: u64,
    /// Connections that ended otherwise than by both sides closing.
    pub aborted: u64,
    /// Datagrams received.
    pub datagrams: u64,
    /// Bytes received.
    pub received: u64,
    /// Bytes passed to the stack for sending.
    pub sent: u64,
}

impl Served {
    /// Counts the end of a connection.
    fn closed(&mut self, reason: stack::Closed) {
        self.aborted += u64::from(reason != stack::Closed::Normally);
    }
}
