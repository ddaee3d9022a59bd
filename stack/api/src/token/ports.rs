//! Ports of any kind below a TCP/IP stack of our own.

use super::Device;
use crate::net::Net;
use host::{Buffer, Host, Report};
use rustix::fd::OwnedFd;
use stack::tcp::Options;
use stack::{Slice, UdpOptions};
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// A host as a [`Device`].
#[derive(Debug)]
pub struct Ports {
    net: Net<u32>,
    options: Options,
}

impl Ports {
    /// Takes over a host with its ports. Connections have the default settings of its stack, without Nagle's algorithm:
    /// a push is a message.
    pub fn new(host: Host) -> Self {
        Self::woken_by(host, None)
    }

    /// [`Ports::new`] with a descriptor that ends a sleep of the host while it is readable.
    pub(super) fn woken_by(mut host: Host, waker: Option<Arc<OwnedFd>>) -> Self {
        let options = Options { no_delay: true, ..host.stack().config().tcp };
        Self { net: Net::new(host, waker), options }
    }

    /// The host.
    pub fn host(&mut self) -> &mut Host {
        &mut self.net.host
    }

    /// Closes all connections, waits until they have ended, at most `limit`, and closes the ports.
    pub fn close(self, limit: Duration) -> Report {
        self.net.close(limit)
    }
}

impl Device for Ports {
    fn listen(&mut self, local: SocketAddr) -> Result<u32, ErrorKind> {
        self.net.listen(local, self.options)
    }

    fn connect(&mut self, remote: SocketAddr) -> Result<u32, ErrorKind> {
        self.net.connect(remote, self.options)
    }

    fn bind(&mut self, local: SocketAddr) -> Result<u32, ErrorKind> {
        self.net.bind(local, UdpOptions::default())
    }

    fn bound(&mut self, end: u32) -> Result<SocketAddr, ErrorKind> {
        self.net.bound(end)
    }

    fn change_group(
        &mut self,
        end: u32,
        group: IpAddr,
        local: Option<IpAddr>,
        joins: bool,
    ) -> Result<(), ErrorKind> {
        self.net.change_group(end, (group, local), joins)
    }

    fn poll_accept(&mut self, end: u32) -> Poll<Result<(u32, SocketAddr), ErrorKind>> {
        self.net.poll_accept(end, &end)
    }

    fn poll_connect(&mut self, end: u32) -> Poll<Result<(), ErrorKind>> {
        self.net.poll_connect(end, &end)
    }

    #[inline]
    fn poll_push(&mut self, end: u32, data: &mut Option<Slice<Buffer>>) -> Poll<Result<(), ErrorKind>> {
        self.net.poll_push(end, data, &end)
    }

    #[inline]
    fn poll_pop(&mut self, end: u32) -> Poll<Result<Option<Slice<Buffer>>, ErrorKind>> {
        self.net.poll_pop(end, &end)
    }

    #[inline]
    fn poll_push_to(
        &mut self,
        end: u32,
        to: SocketAddr,
        data: &Slice<Buffer>,
    ) -> Poll<Result<(), ErrorKind>> {
        Poll::Ready(self.net.send_datagram(end, Some(to), data.clone()))
    }

    #[inline]
    fn poll_pop_from(&mut self, end: u32) -> Poll<Result<(SocketAddr, Slice<Buffer>), ErrorKind>> {
        self.net.poll_datagram(end, &end)
    }

    fn finish(&mut self, end: u32) -> Result<(), ErrorKind> {
        self.net.shut(end)
    }

    fn close(&mut self, end: u32) {
        self.net.release(end);
    }

    fn abort(&mut self, end: u32) {
        self.net.abort(end);
    }

    fn copy(&mut self, bytes: &[u8]) -> Slice<Buffer> {
        self.net.copy(bytes)
    }

    #[inline]
    fn run(&mut self, limit: Duration, ready: &mut Vec<u32>) {
        self.net.turn(limit);
        ready.append(&mut self.net.ends.woken);
    }
}
