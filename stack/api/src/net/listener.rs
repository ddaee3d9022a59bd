//! Listeners.

use super::{End, Ends, Net, keep};
use host::Buffer;
use stack::tcp::{ConnectionId, ListenerId, Options};
use stack::{ListenError, Stack, Time};
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::task::Poll;

/// Maximum number of connections that wait for [`Net::poll_accept`]. More are reset.
const BACKLOG: usize = 1024;

/// A listener.
#[derive(Debug)]
pub(super) struct Listener<W> {
    id: ListenerId,
    local: SocketAddr,
    /// Connections that were not accepted yet.
    backlog: VecDeque<u32>,
    acceptor: Option<W>,
}

impl<W> Ends<W> {
    pub(super) fn accepted(
        &mut self,
        stack: &mut Stack<Buffer>,
        connection: ConnectionId,
        listener: ListenerId,
        remote: SocketAddr,
    ) {
        // A listener may have been released during the handshake.
        let at = self.listeners.iter().find(|(known, _)| *known == listener).map(|(_, at)| *at);
        let Some(at) = at.filter(|at| self.listener(*at).is_ok_and(|known| known.backlog.len() < BACKLOG))
        else {
            return stack.abort(connection);
        };
        let end = self.add_stream(connection, remote);
        let Ok(listener) = self.listener(at) else { return };
        listener.backlog.push_back(end);
        let acceptor = listener.acceptor.take();
        self.woken.extend(acceptor);
    }

    pub(super) fn release_listener(&mut self, stack: &mut Stack<Buffer>, end: u32, now: Time) {
        let Some(End::Listener(listener)) = self.all.try_remove(end as usize) else { return };
        stack.unlisten(listener.id);
        self.listeners.retain(|(_, known)| *known != end);
        for waiting in listener.backlog {
            self.release_stream(stack, waiting, true, now);
        }
    }
}

impl<W: Clone> Net<W> {
    /// Adds a listener. Port 0 is replaced by an ephemeral port ([`Net::listening`]).
    pub(crate) fn listen(&mut self, mut local: SocketAddr, options: Options) -> Result<u32, ErrorKind> {
        let id = self.host.stack().listen(local.into(), options).map_err(|error| match error {
            ListenError::InUse => ErrorKind::AddrInUse,
            ListenError::NotLocal => ErrorKind::AddrNotAvailable,
        })?;
        let chosen = self.host.stack().listener(id).map_or(local.port(), |chosen| chosen.port);
        local.set_port(chosen);
        let added = Listener { id, local, backlog: VecDeque::new(), acceptor: None };
        let end = self.ends.insert(End::Listener(added));
        self.ends.listeners.push((id, end));
        Ok(end)
    }

    pub(crate) fn poll_accept(&mut self, end: u32, waiter: &W) -> Poll<Result<(u32, SocketAddr), ErrorKind>> {
        let listener = self.ends.listener(end)?;
        let Some(accepted) = listener.backlog.pop_front() else {
            keep(&mut listener.acceptor, waiter);
            return Poll::Pending;
        };
        let remote = self.ends.stream(accepted)?.remote();
        Poll::Ready(Ok((accepted, remote)))
    }

    /// Address of a listener.
    pub(crate) fn listening(&mut self, end: u32) -> Result<SocketAddr, ErrorKind> {
        Ok(self.ends.listener(end)?.local)
    }
}
