//! The Transmission Control Protocol (RFC 9293).

mod options;
pub(crate) mod recovery;
mod seq;

pub use options::{CongestionAlgorithm, Options};
pub(crate) use seq::Seq;

/// A connection of one stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl ConnectionId {
    /// A number for tables of the application: below the stack's limit of connections, and used again after the
    /// connection ends.
    pub const fn index(self) -> usize {
        self.index as usize
    }
}

/// A listener of one stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ListenerId(pub(crate) u32);
