//! Calls of the application.

use super::connection::{Connection, Flags, State};
use super::input::Outcome;
use super::key::Key;
use super::shared::Io;
use super::{ConnectionId, ListenerId, Options, Tcp, reset};
use crate::stack::{ConnectError, ListenError, SendError};
use crate::{Closed, Endpoint, Payload, Slice, Time};
use alloc::sync::Arc;

impl<P: Payload> Tcp<P> {
    pub(crate) fn listen(&mut self, local: Endpoint, options: Options) -> Result<ListenerId, ListenError> {
        self.listeners.add(local, options)
    }

    pub(crate) fn unlisten(&mut self, listener: ListenerId) {
        self.listeners.remove(listener);
    }

    /// The connection, if it still exists.
    pub(crate) fn get(&self, id: ConnectionId) -> Option<&Connection<P>> {
        self.connections.get(id.index).filter(|c| c.generation == id.generation)
    }

    pub(super) fn get_mut(&mut self, id: ConnectionId) -> Option<&mut Connection<P>> {
        self.connections.get_mut(id.index).filter(|c| c.generation == id.generation)
    }

    pub(crate) fn connect(
        &mut self,
        local: Endpoint,
        remote: Endpoint,
        options: Options,
        io: &mut Io<'_, P>,
    ) -> Result<ConnectionId, ConnectError> {
        if self.connections.len() >= self.shared.limits.connections as usize {
            return Err(ConnectError::TooMany);
        }
        let source = Some(local.address).filter(|address| !address.is_unspecified());
        let (path, source) =
            io.ip.route(source, remote.address, io.now).map_err(|_| ConnectError::NoRoute)?;
        let key = self.free_key(source, local.port, remote).ok_or(ConnectError::InUse)?;
        let index = self.open(key, path, Arc::new(options), State::SynSent, io);
        io.counters.tcp_active_opens += 1;
        let Self { connections, shared, .. } = self;
        let c = connections.get_mut(index).ok_or(ConnectError::TooMany)?;
        c.flags.set(Flags::ACTIVE);
        shared.make_ready(index, c);
        Ok(ConnectionId { index, generation: c.generation })
    }

    /// A key that is not in use, with this port or an ephemeral one.
    fn free_key(&self, source: crate::Address, port: u16, remote: Endpoint) -> Option<Key> {
        let key = |port| Key::new(Endpoint::new(source, port), remote);
        if port != 0 {
            return Some(key(port)).filter(|key| self.is_free(key));
        }
        let first = self.shared.secret.port(source, remote.address, remote.port);
        let (first, local) = (first.wrapping_add(self.generation as u16), Endpoint::new(source, 0));
        self.affinity.choose(first, local, Some(remote), |port| self.is_free(&key(port))).map(key)
    }

    fn is_free(&self, key: &Key) -> bool {
        let used = self.table.find(key, |index| self.connections.get(index).map(|c| &c.key));
        used.is_none() && self.time_waits.find(key).is_none()
    }

    pub(crate) fn send(&mut self, id: ConnectionId, data: Slice<P>) -> Result<(), SendError> {
        let Self { connections, shared, .. } = self;
        let c = connections.get_mut(id.index).filter(|c| c.generation == id.generation);
        let c = c.ok_or(SendError::Closed)?;
        if !c.state.can_send() || c.flags.has(Flags::FIN_QUEUED) {
            return Err(SendError::Closed);
        }
        if c.tx.queue.held() as usize + data.len() > shared.limits.send_buffer as usize {
            c.flags.set(Flags::WANTS_SPACE);
            return Err(SendError::Full);
        }
        if !data.is_empty() {
            c.tx.queue.push(&mut shared.chunks, data);
            shared.make_ready(id.index, c);
        }
        Ok(())
    }

    pub(crate) fn send_space(&self, id: ConnectionId) -> usize {
        let used = self.get(id).map(|c| c.tx.queue.held());
        used.map_or(0, |used| self.shared.limits.send_buffer.saturating_sub(used) as usize)
    }

    pub(crate) fn consumed(&mut self, id: ConnectionId, bytes: usize) {
        let Self { connections, shared, .. } = self;
        let Some(c) = connections.get_mut(id.index).filter(|c| c.generation == id.generation) else { return };
        c.rx.held = c.rx.held.saturating_sub(u32::try_from(bytes).unwrap_or(u32::MAX));
        if c.can_receive() && c.has_opened() {
            shared.acknowledge(id.index, c);
        }
    }

    /// Queues a FIN (RFC 9293 section 3.10.4).
    pub(crate) fn close(&mut self, id: ConnectionId, io: &mut Io<'_, P>) {
        let Self { connections, shared, .. } = self;
        let Some(c) = connections.get_mut(id.index).filter(|c| c.generation == id.generation) else { return };
        if !c.state.can_send() || c.flags.has(Flags::FIN_QUEUED) {
            return;
        }
        if c.state == State::SynSent {
            return self.remove(id.index, Outcome::Close(Closed::Aborted), io);
        }
        c.flags.set(Flags::FIN_QUEUED);
        match c.state {
            State::Established => c.state = State::FinWait1,
            State::CloseWait => c.state = State::LastAck,
            _ => {}
        }
        shared.make_ready(id.index, c);
    }

    /// Resets a connection (RFC 9293 section 3.10.5).
    pub(crate) fn abort(&mut self, id: ConnectionId, io: &mut Io<'_, P>) {
        if self.get(id).is_some() {
            self.abort_silently(id.index, io);
            self.remove(id.index, Outcome::Close(Closed::Aborted), io);
        }
    }

    /// Sends the reset of a connection that ends here.
    pub(super) fn abort_silently(&mut self, index: u32, io: &mut Io<'_, P>) {
        let Some(c) = self.connections.get(index).filter(|c| c.state != State::SynSent) else { return };
        io.counters.tcp_resets_out += 1;
        io.ip.send(reset::at(&c.key, c.tx.nxt).packet(c.path), io.now, io.counters);
    }

    pub(crate) fn report_acks(&mut self, id: ConnectionId, report: bool) {
        if let Some(c) = self.get_mut(id) {
            c.flags.put(Flags::REPORT_ACKS, report);
        }
    }

    pub(crate) fn set_options(&mut self, id: ConnectionId, options: Options, now: Time) {
        let Self { connections, shared, .. } = self;
        let Some(c) = connections.get_mut(id.index).filter(|c| c.generation == id.generation) else { return };
        c.options = Arc::new(options);
        // Both timers are evaluated with the new settings.
        c.timers.idle = now;
        shared.wheel.schedule(id.index, now);
        shared.make_ready(id.index, c);
    }
}
