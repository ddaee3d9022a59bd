//! The network below [`super::Queues`].

use host::Buffer;
use stack::Slice;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::task::Poll;
use std::time::Duration;

/// A network with connections and listeners, which have small numbers that are used again. Calls do not block. An end
/// whose call returned [`Poll::Pending`] is reported by [`Device::run`] when the call may succeed; reports without reason
/// are permitted.
pub trait Device {
    /// Listens on an address and port.
    fn listen(&mut self, local: SocketAddr) -> Result<u32, ErrorKind>;

    /// Starts to open a connection.
    fn connect(&mut self, remote: SocketAddr) -> Result<u32, ErrorKind>;

    /// Takes the next connection of a listener.
    fn poll_accept(&mut self, end: u32) -> Poll<Result<(u32, SocketAddr), ErrorKind>>;

    /// Whether a connection is established.
    fn poll_connect(&mut self, end: u32) -> Poll<Result<(), ErrorKind>>;

    /// Sends data. What was sent is removed from `data`; ready when all was.
    fn poll_push(&mut self, end: u32, data: &mut Option<Slice<Buffer>>) -> Poll<Result<(), ErrorKind>>;

    /// Takes received data; `None` after the peer's last byte.
    fn poll_pop(&mut self, end: u32) -> Poll<Result<Option<Slice<Buffer>>, ErrorKind>>;

    /// Closes the sending side.
    fn finish(&mut self, end: u32) -> Result<(), ErrorKind>;

    /// Closes a connection or a listener.
    fn close(&mut self, end: u32);

    /// Resets a connection, or closes a listener.
    fn abort(&mut self, end: u32);

    /// A copy of at most 64 KiB for [`super::Queues::push`], in memory that is used again.
    fn copy(&mut self, bytes: &[u8]) -> Slice<Buffer>;

    /// Sends, receives, and appends the ends that may be ready to `ready`. Sleeps at most `limit` if there are none.
    fn run(&mut self, limit: Duration, ready: &mut Vec<u32>);
}
