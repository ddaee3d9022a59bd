//! Sockets of UDP.

use super::{End, Ends, Net, address, keep};
use host::Buffer;
use stack::{DatagramError, Slice, SocketId, Stack, Time, UdpError, UdpOptions};
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::task::Poll;

/// Maximum number of received datagrams that a socket holds. More are dropped.
const QUEUE: usize = 256;

/// A socket.
#[derive(Debug)]
pub(super) struct Socket<W> {
    id: SocketId,
    received: VecDeque<(SocketAddr, Slice<Buffer>)>,
    lost: Option<DatagramError>,
    reader: Option<W>,
}

impl<W> Socket<W> {
    pub(super) fn is(&self, socket: SocketId) -> bool {
        self.id == socket
    }
}

fn error(error: UdpError) -> ErrorKind {
    match error {
        UdpError::Closed | UdpError::NotConnected => ErrorKind::NotConnected,
        UdpError::InUse => ErrorKind::AddrInUse,
        UdpError::NotLocal => ErrorKind::AddrNotAvailable,
        UdpError::NoRoute => ErrorKind::NetworkUnreachable,
        UdpError::InvalidAddress | UdpError::TooLong(_) => ErrorKind::InvalidInput,
        UdpError::TooMany => ErrorKind::QuotaExceeded,
    }
}

impl<W> Ends<W> {
    pub(super) fn datagram(&mut self, socket: SocketId, from: SocketAddr, data: Slice<Buffer>) {
        let Some(Ok(socket)) = self.of_socket(socket).map(|end| self.socket(end)) else { return };
        if socket.received.len() < QUEUE {
            socket.received.push_back((from, data));
        }
        let reader = socket.reader.take();
        self.woken.extend(reader);
    }

    pub(super) fn datagram_lost(&mut self, socket: SocketId, error: DatagramError) {
        let Some(Ok(socket)) = self.of_socket(socket).map(|end| self.socket(end)) else { return };
        socket.lost = Some(error);
        let reader = socket.reader.take();
        self.woken.extend(reader);
    }

    pub(super) fn release_socket(&mut self, stack: &mut Stack<Buffer>, end: u32, now: Time) {
        if let Some(End::Socket(socket)) = self.all.try_remove(end as usize) {
            stack.udp_close(socket.id, now);
        }
    }
}

impl<W: Clone> Net<W> {
    pub(crate) fn bind(&mut self, local: SocketAddr, options: UdpOptions) -> Result<u32, ErrorKind> {
        let socket = self.host.stack().udp_bind(local.into(), options).map_err(error)?;
        let added = Socket { id: socket, received: VecDeque::new(), lost: None, reader: None };
        let end = self.ends.insert(End::Socket(added));
        self.ends.sockets.set(socket.index(), end);
        Ok(end)
    }

    pub(crate) fn connect_socket(&mut self, end: u32, remote: SocketAddr) -> Result<(), ErrorKind> {
        let (now, socket) = (self.host.now(), self.ends.socket(end)?.id);
        self.host.stack().udp_connect(socket, remote.into(), now).map_err(error)
    }

    /// Sends a datagram. Returns the error of an earlier one, if the network reported one.
    pub(crate) fn send_datagram(
        &mut self,
        end: u32,
        to: Option<SocketAddr>,
        data: Slice<Buffer>,
    ) -> Result<(), ErrorKind> {
        let (now, socket) = (self.host.now(), self.ends.socket(end)?);
        if let Some(lost) = socket.lost.take() {
            return Err(lost_error(lost));
        }
        let socket = socket.id;
        self.host.stack().udp_send(socket, to.map(Into::into), vec![data], now).map_err(error)
    }

    pub(crate) fn poll_datagram(
        &mut self,
        end: u32,
        waiter: &W,
    ) -> Poll<Result<(SocketAddr, Slice<Buffer>), ErrorKind>> {
        let socket = self.ends.socket(end)?;
        if let Some(received) = socket.received.pop_front() {
            return Poll::Ready(Ok(received));
        }
        if let Some(lost) = socket.lost.take() {
            return Poll::Ready(Err(lost_error(lost)));
        }
        keep(&mut socket.reader, waiter);
        Poll::Pending
    }

    /// Receives datagrams to a group on the interface of an own address, by default on the one over which datagrams to
    /// the group leave; with `joins` false, leaves it.
    pub(crate) fn change_group(
        &mut self,
        end: u32,
        (group, local): (IpAddr, Option<IpAddr>),
        joins: bool,
    ) -> Result<(), ErrorKind> {
        let (now, socket, stack) = (self.host.now(), self.ends.socket(end)?.id, self.host.stack());
        let owner = |local: IpAddr| stack.interface_of(local.into()).ok_or(ErrorKind::AddrNotAvailable);
        let interface = local.map(owner).transpose()?;
        let change = if joins { Stack::<Buffer>::udp_join } else { Stack::<Buffer>::udp_leave };
        let is_changed = change(stack, socket, interface, group.into(), now).map_err(error)?;
        is_changed.then_some(()).ok_or(if joins { ErrorKind::AddrInUse } else { ErrorKind::AddrNotAvailable })
    }

    /// Changes the settings of a socket.
    pub(crate) fn adjust_socket(
        &mut self,
        end: u32,
        change: impl FnOnce(&mut UdpOptions),
    ) -> Result<(), ErrorKind> {
        let (socket, stack) = (self.ends.socket(end)?.id, self.host.stack());
        let mut options = stack.udp_options(socket).ok_or(ErrorKind::NotConnected)?;
        change(&mut options);
        stack.udp_set_options(socket, options).map_err(error)
    }

    /// Local end of a socket.
    pub(crate) fn bound(&mut self, end: u32) -> Result<SocketAddr, ErrorKind> {
        let socket = self.ends.socket(end)?.id;
        let ends = self.host.stack().udp_endpoints(socket).ok_or(ErrorKind::NotConnected)?;
        Ok(address(ends.0))
    }
}

fn lost_error(error: DatagramError) -> ErrorKind {
    match error {
        DatagramError::Unreachable => ErrorKind::HostUnreachable,
        DatagramError::Refused => ErrorKind::ConnectionRefused,
        DatagramError::TooBig(_) => ErrorKind::InvalidInput,
    }
}
