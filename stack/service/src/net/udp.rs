//! UDP.

use super::{Mode, set, socket_address};
use crate::{Client, DatagramOptions, Handle, Reason};
use stack::Address;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A UDP socket.
#[derive(Clone, Debug)]
pub struct UdpSocket(Arc<(Handle, Mode, Mutex<DatagramOptions>)>);

impl UdpSocket {
    /// Binds to an address of the stack; port 0 is chosen.
    ///
    /// # Errors
    /// If the address is in use or not one of the stack.
    pub fn bind(client: &Client, local: SocketAddr) -> io::Result<Self> {
        let handle = client.open_udp(local.into())?;
        handle.wait_open(None)?;
        Ok(Self(Arc::new((handle, Mode::default(), Mutex::default()))))
    }

    /// Receives datagrams to a multicast group, on the interface with the address `interface`; the unspecified address
    /// selects the one over which datagrams to the group leave.
    ///
    /// # Errors
    /// Those of [`Handle::join_group`].
    pub fn join_multicast_v4(&self, group: &Ipv4Addr, interface: &Ipv4Addr) -> io::Result<()> {
        self.0.0.join_group((*group).into(), (*interface).into(), None)
    }

    /// Receives datagrams to a multicast group on the interface over which datagrams to the group leave. Interfaces of
    /// the stack have no numbers, so `interface` must be 0.
    ///
    /// # Errors
    /// Those of [`Handle::join_group`].
    pub fn join_multicast_v6(&self, group: &Ipv6Addr, interface: u32) -> io::Result<()> {
        self.0.0.join_group((*group).into(), without_number(interface)?, None)
    }

    /// Leaves a multicast group.
    ///
    /// # Errors
    /// Those of [`Handle::leave_group`].
    pub fn leave_multicast_v4(&self, group: &Ipv4Addr, interface: &Ipv4Addr) -> io::Result<()> {
        self.0.0.leave_group((*group).into(), (*interface).into(), None)
    }

    /// Leaves a multicast group. `interface` must be 0.
    ///
    /// # Errors
    /// Those of [`Handle::leave_group`].
    pub fn leave_multicast_v6(&self, group: &Ipv6Addr, interface: u32) -> io::Result<()> {
        self.0.0.leave_group((*group).into(), without_number(interface)?, None)
    }

    /// Sets the hop limit of datagrams to unicast addresses, 1 to 255.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for another number.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        let hop_limit = hop_limit(ttl).filter(|limit| *limit > 0).ok_or(io::ErrorKind::InvalidInput)?;
        self.change_options(|options| options.hop_limit = hop_limit);
        Ok(())
    }

    /// Sets the hop limit of datagrams to multicast groups of either IP version, 0 to 255; 1 by default.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] for another number.
    pub fn set_multicast_ttl_v4(&self, ttl: u32) -> io::Result<()> {
        let group_hop_limit = hop_limit(ttl).ok_or(io::ErrorKind::InvalidInput)?;
        self.change_options(|options| options.group_hop_limit = group_hop_limit);
        Ok(())
    }

    fn change_options(&self, change: impl FnOnce(&mut DatagramOptions)) {
        // Sent under the lock, so that the last change is the last command.
        let mut options = self.0.2.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut options);
        self.0.0.set_datagram_options(*options);
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

fn hop_limit(ttl: u32) -> Option<u8> {
    ttl.try_into().ok()
}

/// The unspecified address, for an interface that is not named.
fn without_number(interface: u32) -> io::Result<Address> {
    if interface == 0 { Ok(Address::UNSPECIFIED) } else { Err(Reason::NotLocal.into()) }
}
