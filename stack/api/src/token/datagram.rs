//! Queues of datagrams.

use super::operation::Action;
use super::{Device, Queue, Queues, Token};
use host::Buffer;
use stack::Slice;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};

impl<D: Device> Queues<D> {
    /// Opens a queue of datagrams at an address and port; port 0 is replaced by an ephemeral port
    /// ([`Queues::bound`]). The queue has [`Queues::push_to`], [`Queues::pop_from`] and [`Queues::close`].
    ///
    /// # Errors
    /// If the port is in use or the address is not one of this host.
    pub fn bind(&mut self, local: SocketAddr) -> Result<Queue, ErrorKind> {
        let end = self.device.bind(local)?;
        Ok(self.adopt(end))
    }

    /// Local address and port of a queue of datagrams.
    ///
    /// # Errors
    /// If the queue was closed, or is not one of datagrams.
    pub fn bound(&mut self, queue: Queue) -> Result<SocketAddr, ErrorKind> {
        self.pending(queue).ok_or(ErrorKind::NotConnected)?;
        self.device.bound(queue.end)
    }

    /// Receives datagrams to a multicast group as well, on the interface with the address `local`; by default, on the
    /// one over which datagrams to the group leave. The queue must be bound to the unspecified address or to the group.
    /// [`super::Kernel`] has no interfaces of IPv6 by address.
    ///
    /// # Errors
    /// If the address is not a group, the queue is a member, no interface fits, or a limit of groups is reached.
    pub fn join(&mut self, queue: Queue, group: IpAddr, local: Option<IpAddr>) -> Result<(), ErrorKind> {
        self.pending(queue).ok_or(ErrorKind::NotConnected)?;
        self.device.change_group(queue.end, group, local, true)
    }

    /// Leaves a multicast group, by default on any interface.
    ///
    /// # Errors
    /// If the queue is not a member.
    pub fn leave(&mut self, queue: Queue, group: IpAddr, local: Option<IpAddr>) -> Result<(), ErrorKind> {
        self.pending(queue).ok_or(ErrorKind::NotConnected)?;
        self.device.change_group(queue.end, group, local, false)
    }

    /// Sends a datagram. Complete when the device has taken it; it may be lost afterwards. A datagram that is too long
    /// fails with [`ErrorKind::InvalidInput`].
    pub fn push_to(&mut self, queue: Queue, to: SocketAddr, data: Slice<Buffer>) -> Token {
        self.submit(queue, Action::PushTo(to, data))
    }

    /// Takes the next datagram with its sender: [`super::Outcome::PoppedFrom`].
    pub fn pop_from(&mut self, queue: Queue) -> Token {
        self.submit(queue, Action::PopFrom)
    }
}
