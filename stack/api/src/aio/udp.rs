//! Sockets of UDP.

use super::Handle;
use super::tcp::Owned;
use host::Buffer;
use stack::{Slice, UdpOptions};
use std::future::poll_fn;
use std::io::Result;
use std::net::{IpAddr, SocketAddr};

/// A socket. It holds at most 256 received datagrams; more are dropped.
#[derive(Debug)]
pub struct UdpSocket(Owned);

impl UdpSocket {
    /// Receives datagrams to an address and port. The unspecified address stands for all addresses of its version; port
    /// 0 is replaced by an ephemeral port.
    ///
    /// # Errors
    /// If the port is in use, or the address is not one of the host.
    pub fn bind(net: &Handle, local: SocketAddr) -> Result<Self> {
        let end = net.shared.net(|net| net.bind(local, UdpOptions::default()))?;
        Ok(Self(Owned { shared: net.shared.clone(), end }))
    }

    /// Receives datagrams to a multicast group as well, on the interface with the address `local`; by default, on the
    /// one over which datagrams to the group leave. The socket must be bound to the unspecified address or to the
    /// group.
    ///
    /// # Errors
    /// If the address is not a group, the socket is a member, no interface fits, or the limit of groups is reached.
    pub fn join(&self, group: IpAddr, local: Option<IpAddr>) -> Result<()> {
        Ok(self.0.shared.net(|net| net.change_group(self.0.end, (group, local), true))?)
    }

    /// Leaves a multicast group, by default on any interface.
    ///
    /// # Errors
    /// If the socket is not a member.
    pub fn leave(&self, group: IpAddr, local: Option<IpAddr>) -> Result<()> {
        Ok(self.0.shared.net(|net| net.change_group(self.0.end, (group, local), false))?)
    }

    /// Sets the hop limit of datagrams to multicast groups, 1 by default.
    ///
    /// # Errors
    /// None today.
    pub fn set_group_hop_limit(&self, hop_limit: u8) -> Result<()> {
        let change = |options: &mut UdpOptions| options.group_hop_limit = hop_limit;
        Ok(self.0.shared.net(|net| net.adjust_socket(self.0.end, change))?)
    }

    /// Limits the socket to one remote end.
    ///
    /// # Errors
    /// If there is no route.
    pub fn connect(&self, remote: SocketAddr) -> Result<()> {
        Ok(self.0.shared.net(|net| net.connect_socket(self.0.end, remote))?)
    }

    /// Sends a datagram to the remote end of a connected socket. Does not wait: without room it is lost, as it could be
    /// in the network.
    ///
    /// # Errors
    /// If the socket is not connected, the datagram is too long, or the network reported an earlier one as lost.
    pub fn send(&self, datagram: &[u8]) -> Result<()> {
        self.send_slice(None, datagram)
    }

    /// Sends a datagram.
    ///
    /// # Errors
    /// If there is no route, or the datagram is too long.
    pub fn send_to(&self, datagram: &[u8], to: SocketAddr) -> Result<()> {
        self.send_slice(Some(to), datagram)
    }

    fn send_slice(&self, to: Option<SocketAddr>, datagram: &[u8]) -> Result<()> {
        Ok(self.0.shared.net(|net| {
            let data = net.copy(datagram);
            net.send_datagram(self.0.end, to, data)
        })?)
    }

    /// Waits for a datagram. Returns its sender, and its payload where it was received.
    ///
    /// # Errors
    /// If the network reported a datagram of a connected socket as lost.
    pub async fn receive(&self) -> Result<(SocketAddr, Slice<Buffer>)> {
        let Owned { shared, end } = &self.0;
        Ok(poll_fn(|context| shared.net(|net| net.poll_datagram(*end, context.waker()))).await?)
    }

    /// Waits for a datagram and copies it; a longer one is truncated. Returns its length and its sender.
    ///
    /// # Errors
    /// If the network reported a datagram of a connected socket as lost.
    pub async fn recv_from(&self, to: &mut [u8]) -> Result<(usize, SocketAddr)> {
        let (from, data) = self.receive().await?;
        let n = data.len().min(to.len());
        data.copy_to(0, &mut to[..n]);
        Ok((n, from))
    }

    /// Local address and port.
    ///
    /// # Errors
    /// None today.
    pub fn local_addr(&self) -> Result<SocketAddr> {
        Ok(self.0.shared.net(|net| net.bound(self.0.end))?)
    }
}
