//! The network below [`super::Queues`].

use host::Buffer;
use stack::Slice;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::task::Poll;
use std::time::Duration;

/// A network with connections, listeners and sockets for datagrams, which have small numbers that are used again. Calls
/// do not block. An end whose call returned [`Poll::Pending`] is reported by [`Device::run`] when the call may succeed;
/// reports without reason are permitted.
pub trait Device {
    /// Listens on an address and port.
    fn listen(&mut self, local: SocketAddr) -> Result<u32, ErrorKind>;

    /// Starts to open a connection.
    fn connect(&mut self, remote: SocketAddr) -> Result<u32, ErrorKind>;

    /// Opens a socket for datagrams. Port 0 is replaced by an ephemeral port.
    fn bind(&mut self, local: SocketAddr) -> Result<u32, ErrorKind>;

    /// Local end of a socket for datagrams.
    fn bound(&mut self, end: u32) -> Result<SocketAddr, ErrorKind>;

    /// Joins or leaves a multicast group, on the interface of an own address if there is one.
    fn change_group(
        &mut self,
        end: u32,
        group: IpAddr,
        local: Option<IpAddr>,
        joins: bool,
    ) -> Result<(), ErrorKind>;

    /// Takes the next connection of a listener.
    fn poll_accept(&mut self, end: u32) -> Poll<Result<(u32, SocketAddr), ErrorKind>>;

    /// Whether a connection is established.
    fn poll_connect(&mut self, end: u32) -> Poll<Result<(), ErrorKind>>;

    /// Sends data. Sent bytes are removed from `data`; ready when all were sent.
    fn poll_push(&mut self, end: u32, data: &mut Option<Slice<Buffer>>) -> Poll<Result<(), ErrorKind>>;

    /// Takes received data; `None` after the peer's last byte.
    fn poll_pop(&mut self, end: u32) -> Poll<Result<Option<Slice<Buffer>>, ErrorKind>>;

    /// Sends a datagram.
    fn poll_push_to(&mut self, end: u32, to: SocketAddr, data: &Slice<Buffer>)
    -> Poll<Result<(), ErrorKind>>;

    /// Takes a received datagram, with its sender.
    fn poll_pop_from(&mut self, end: u32) -> Poll<Result<(SocketAddr, Slice<Buffer>), ErrorKind>>;

    /// Closes the sending side.
    fn finish(&mut self, end: u32) -> Result<(), ErrorKind>;

    /// Closes a connection, a listener or a socket for datagrams.
    fn close(&mut self, end: u32);

    /// Resets a connection, or closes anything else.
    fn abort(&mut self, end: u32);

    /// A copy of at most 64 KiB for [`super::Queues::push`], in memory that is used again.
    fn copy(&mut self, bytes: &[u8]) -> Slice<Buffer>;

    /// Sends, receives, and appends the ends that may be ready to `ready`. Sleeps at most `limit` if there are none.
    fn run(&mut self, limit: Duration, ready: &mut Vec<u32>);
}
