//! Workloads: requests, and the framing and checking of replies.
//!
//! Replies are bytes of a peer: each parser must consume bytes or fail on any input, and must hold a bounded amount of
//! text.

mod echo;
mod http;
mod kv;
mod pattern;
#[cfg(test)]
mod tests;

pub use echo::EchoLoad;
pub use http::{HttpLoad, HttpLoadError};
pub use kv::{Keys, KvLoad, KvOptions};

use super::input::{Framing, Input, Reply, WrongReply};
use host::Buffer;
use stack::Slice;

/// Requests of one kind, and their replies.
pub trait Workload {
    /// Passes the parts of the next request to `send`. Returns what its reply is checked against.
    fn request(&mut self, send: &mut impl FnMut(Slice<Buffer>)) -> u32;

    /// [`Workload::request`] for the requests before the warm-up. Returns `None` after the last one.
    fn fill(&mut self, _send: &mut impl FnMut(Slice<Buffer>)) -> Option<u32> {
        None
    }

    /// Length of the longest request in bytes.
    fn longest(&self) -> usize;

    /// Passes bytes of the reply to the request with this tag. Returns the result of a complete reply, or `None` if all
    /// bytes were passed and the reply is not complete.
    ///
    /// # Errors
    /// If the reply does not belong to the request.
    fn reply(
        &self,
        framing: &mut Framing,
        tag: u32,
        input: &mut Input<'_>,
    ) -> Result<Option<Reply>, WrongReply>;

    /// Result of a reply that the end of the connection completes at this position.
    fn end(&self, _framing: Framing) -> Option<Reply> {
        None
    }
}
