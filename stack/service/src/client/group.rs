//! Multicast memberships and settings of UDP sockets.

use super::{Handle, lock};
use crate::DatagramOptions;
use crate::entry::{Command, GroupChange};
use stack::Address;
use std::io;
use std::time::Duration;

impl Handle {
    /// Receives datagrams to a multicast group as well, on the interface with the own address `local`; the unspecified
    /// address selects the one over which datagrams to the group leave. Waits for the service's answer.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`] if the socket is a member, [`io::ErrorKind::AddrNotAvailable`] if `local` is not an
    /// address of the stack, [`io::ErrorKind::OutOfMemory`] at a limit of groups ([`crate::Limits`]),
    /// [`io::ErrorKind::InvalidInput`] if the address is not a group of the socket's IP version, and
    /// [`io::ErrorKind::WouldBlock`] after `timeout`.
    pub fn join_group(&self, group: Address, local: Address, timeout: Option<Duration>) -> io::Result<()> {
        self.change_group(group, local, true, timeout)
    }

    /// Leaves a multicast group, on any interface if `local` is unspecified.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrNotAvailable`] if the socket is not a member; [`io::ErrorKind::WouldBlock`] after `timeout`.
    pub fn leave_group(&self, group: Address, local: Address, timeout: Option<Duration>) -> io::Result<()> {
        self.change_group(group, local, false, timeout)
    }

    fn change_group(
        &self,
        group: Address,
        local: Address,
        joins: bool,
        timeout: Option<Duration>,
    ) -> io::Result<()> {
        let socket = &self.socket;
        let _one = lock(&socket.asking);
        let request = {
            let mut state = socket.lock();
            state.requests = state.requests.wrapping_add(1);
            state.requests
        };
        let change = GroupChange { request, group, local, joins };
        socket.shared.send(Command::UdpGroup { id: socket.id, change });
        socket.wait(timeout, |state| match (state.answer, state.closed) {
            (Some((answered, reason)), _) if answered == request => {
                reason.map_or(Ok(()), |reason| Err(reason.into()))
            }
            (_, Some(reason)) => Err(reason.into()),
            _ => Err(io::ErrorKind::WouldBlock.into()),
        })
    }

    /// Changes the settings of a UDP socket, for later datagrams.
    pub fn set_datagram_options(&self, options: DatagramOptions) {
        self.socket.shared.send(Command::UdpSetOptions { id: self.socket.id, options });
    }
}
