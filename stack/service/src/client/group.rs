//! Multicast memberships and settings of UDP sockets.

use super::lane::WorkerSet;
use super::{Handle, lock};
use crate::DatagramOptions;
use crate::entry::{Command, GroupChange};
use stack::Address;
use std::io;
use std::time::Duration;

/// Number of a request whose answer is not awaited.
pub(super) const UNAWAITED: u32 = 0;

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
    /// [`io::ErrorKind::AddrNotAvailable`] if the socket is not a member; [`io::ErrorKind::WouldBlock`] after
    /// `timeout`.
    pub fn leave_group(&self, group: Address, local: Address, timeout: Option<Duration>) -> io::Result<()> {
        self.change_group(group, local, false, timeout)
    }

    /// Every worker with the socket becomes a member, because any of them may receive a datagram to the group.
    fn change_group(
        &self,
        group: Address,
        local: Address,
        joins: bool,
        timeout: Option<Duration>,
    ) -> io::Result<()> {
        let socket = &self.socket;
        let _one = lock(&socket.asking);
        let workers = socket.lock().placement.parts();
        let change = |request, joins| GroupChange { request, group, local, joins };
        let mut changed = WorkerSet::default();
        for worker in workers.iter().map(WorkerSet::one) {
            if let Err(error) = self.ask(worker, |request| change(request, joins), timeout) {
                if joins {
                    let undo = change(UNAWAITED, false);
                    socket.request(changed, Command::UdpGroup { id: socket.id, change: undo });
                }
                return Err(error);
            }
            changed.add(worker);
        }
        Ok(())
    }

    /// Sends a change to one worker and waits for its answer.
    fn ask(
        &self,
        worker: WorkerSet,
        change: impl Fn(u32) -> GroupChange,
        timeout: Option<Duration>,
    ) -> io::Result<()> {
        let socket = &self.socket;
        let request = {
            let mut state = socket.lock();
            state.requests = state.requests.wrapping_add(1).max(UNAWAITED + 1);
            state.requests
        };
        socket.request(worker, Command::UdpGroup { id: socket.id, change: change(request) });
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
        let workers = self.socket.lock().placement.parts();
        self.socket.request(workers, Command::UdpSetOptions { id: self.socket.id, options });
    }
}
