//! UDP.

use super::{Mode, set, socket_address};
use crate::{Client, Handle, Reason};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// A UDP socket.
#[derive(Clone, Debug)]
pub struct UdpSocket(Arc<(Handle, Mode)>);

impl UdpSocket {
    /// Binds to an address of the stack; port 0 is chosen.
    ///
    /// # Errors
    /// If the address is in use or not one of the stack.
    pub fn bind(client: &Client, local: SocketAddr) -> io::Result<Self> {
        let handle = client.open_udp(local.into())?;
        handle.wait_open(None)?;
        Ok(Self(Arc::new((handle, Mode::default()))))
    }

    /// Limits the socket to one remote end.
    ///
    /// # Errors
    /// If no route leads to it.
    pub fn connect(&self, remote: SocketAddr) -> io::Result<()> {
        self.0.0.udp_connect(remote.into(), None)
    }

    /// Sends a datagram.
    ///
    /// # Errors
    /// If it is too long, or an earlier one was not sent.
    pub fn send_to(&self, from: &[u8], to: SocketAddr) -> io::Result<usize> {
        self.0.0.send_to(from, Some(to.into()), self.0.1.writes())
    }

    /// Sends a datagram to the connected end.
    ///
    /// # Errors
    /// As [`UdpSocket::send_to`]; [`io::ErrorKind::NotConnected`].
    pub fn send(&self, from: &[u8]) -> io::Result<usize> {
        if self.0.0.remote().is_none() {
            return Err(Reason::NotConnected.into());
        }
        self.0.0.send_to(from, None, self.0.1.writes())
    }

    /// Receives a datagram, truncated to the buffer, and its sender.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] after the time limit; errors about datagrams of a connected socket.
    pub fn recv_from(&self, to: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let (len, from) = self.0.0.receive_from(to, false, self.0.1.reads())?;
        Ok((len.min(to.len()), socket_address(from)))
    }

    /// Receives a datagram, truncated to the buffer.
    ///
    /// # Errors
    /// As [`UdpSocket::recv_from`].
    pub fn recv(&self, to: &mut [u8]) -> io::Result<usize> {
        self.recv_from(to).map(|(len, _)| len)
    }

    /// The local end.
    ///
    /// # Errors
    /// Never.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(socket_address(self.0.0.local()))
    }

    /// The connected end.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotConnected`].
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        Ok(socket_address(self.0.0.remote().ok_or(Reason::NotConnected)?))
    }

    /// Sets or clears the time limit of receiving.
    ///
    /// # Errors
    /// If it is zero.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        set(&self.0.1.read_timeout, timeout)
    }

    /// Whether calls return [`io::ErrorKind::WouldBlock`] instead of blocking.
    ///
    /// # Errors
    /// Never.
    pub fn set_nonblocking(&self, is_nonblocking: bool) -> io::Result<()> {
        self.0.1.set_nonblocking(is_nonblocking);
        Ok(())
    }
}
