//! Programs over the stack: servers of echo, discard, source, HTTP and key-value storage, a proxy, and a client that
//! loads servers.
#![forbid(unsafe_code)]

mod discard;
mod echo;
pub mod http;
mod kv;
pub mod load;
mod proxy;
mod source;

pub use discard::Discard;
pub use echo::Echo;
#[cfg(feature = "fuzz")]
#[doc(hidden)]
pub use kv::fuzz::fuzz_kv;
pub use kv::{
    Kv, KvOptions, Links as KvLinks, MIN_MEMORY as KV_MIN_MEMORY, RECEIVE_BUFFER as KV_RECEIVE_BUFFER,
    SEND_BUFFER as KV_SEND_BUFFER,
};
pub use proxy::{BUFFER as PROXY_BUFFER, Forward, Proxy, ProxyOptions};
pub use source::Source;

use host::{App, Buffer, Remote};
use stack::tcp::Options;
use stack::{Endpoint, ListenError, Stack, UdpError};

/// A server program, which runs in every thread model.
pub trait Server: App + App<Remote> {
    /// Default TCP port.
    const TCP_PORT: u16;

    /// Listens at `local`, with the TCP settings of the stack but without Nagle's algorithm.
    ///
    /// # Errors
    /// If the port is in use, or the address is not one of the stack.
    fn listen(&mut self, stack: &mut Stack<Buffer>, local: Endpoint) -> Result<(), BindError> {
        stack.listen(local, Options { no_delay: true, ..stack.config().tcp })?;
        Ok(())
    }

    /// Counts.
    fn served(&self) -> Served;

    /// Further counters: names and values.
    fn named(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Names and meanings of the counters of [`Server::named`].
    fn meanings() -> Vec<(&'static str, &'static str)> {
        Vec::new()
    }
}

/// Reason why [`Server::listen`] failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BindError {
    /// TCP does not listen.
    #[error("TCP: {0}")]
    Tcp(#[from] ListenError),
    /// UDP is not bound.
    #[error("UDP: {0}")]
    Udp(#[from] UdpError),
}

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
    /// Adds the counts of another server.
    pub fn add(&mut self, other: &Self) {
        self.connections += other.connections;
        self.aborted += other.aborted;
        self.datagrams += other.datagrams;
        self.received += other.received;
        self.sent += other.sent;
    }

    /// Counts the end of a connection.
    pub(crate) fn closed(&mut self, reason: stack::Closed) {
        self.aborted += u64::from(reason != stack::Closed::Normally);
    }
}
