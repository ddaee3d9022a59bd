//! Calls of the application.

use super::connection::{Connection, Flags, State};
use super::input::Outcome;
use super::key::Key;
use super::shared::Io;
use super::{ConnectionId, ListenerId, Options, Tcp, reset};
use crate::stack::{ConnectError, ListenError, SendError};
use crate::{Address, Closed, Endpoint, Payload, Slice, Time};
use alloc::collections::VecDeque;
use alloc::sync::Arc;

/// Ports tested for one connection, so that one to a destination with few free ports takes bounded time.
const TRIES: u16 = 256;
/// Ports of ended connections that are tested after these.
const FREED: usize = 256;

/// Where free ports are looked for.
#[derive(Default)]
pub(super) struct Ports {
    /// Ports tested so far, from where the next search continues.
    cursor: u16,
    /// Ports of connections that ended, oldest first.
    freed: VecDeque<u16>,
}

impl Ports {
    /// The connection with this port ended.
    pub(super) fn release(&mut self, port: u16) {
        if self.freed.len() >= FREED {
            self.freed.pop_front();
        }
        self.freed.push_back(port);
    }

    /// The port of an ended connection that is free.
    fn reuse(&mut self, is_free: impl Fn(u16) -> bool) -> Option<u16> {
        let at = self.freed.iter().position(|port| is_free(*port))?;
        self.freed.remove(at)
    }
}

impl<P: Payload> Tcp<P> {
    /// Adds a listener. Port 0 is replaced by an ephemeral port.
    pub(crate) fn listen(
        &mut self,
        mut local: Endpoint,
        options: Options,
    ) -> Result<ListenerId, ListenError> {
        if local.port == 0 {
            let Self { listeners, shared, affinity, ports, .. } = self;
            let first = shared.secret.port(local.address, Address::UNSPECIFIED, 0);
            let is_free = |port| !listeners.has(Endpoint::new(local.address, port));
            // Tests one port more than there are listeners at most.
            let port = affinity.choose((first, &mut ports.cursor, u16::MAX), local, None, is_free);
            local.port = port.ok_or(ListenError::InUse)?;
        }
        let options = self.share(options);
        self.listeners.add(local, options)
    }

    /// Address and port of a listener.
    pub(crate) fn listener(&self, listener: ListenerId) -> Option<Endpoint> {
        self.listeners.get(listener)
    }

    /// Settings that connections share: applications open most of theirs with the same ones.
    fn share(&mut self, options: Options) -> Arc<Options> {
        if *self.options != options {
            self.options = Arc::new(options);
        }
        self.options.clone()
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
        if !self.has_room(io) {
            return Err(ConnectError::TooMany);
        }
        let source = Some(local.address).filter(|address| !address.is_unspecified());
        let (path, source) =
            io.ip.route(source, remote.address, io.now).map_err(|_| ConnectError::NoRoute)?;
        let key = self.free_key((source, local.port), remote, &options, io.now);
        let key = key.ok_or(ConnectError::InUse)?;
        if let Some(at) = self.time_waits.find(&key) {
            self.time_waits.remove(at);
            io.counters.tcp_time_wait_reused += 1;
        }
        let options = self.share(options);
        let index = self.open(key, path, options, State::SynSent, io);
        io.counters.tcp_active_opens += 1;
        let Self { connections, shared, .. } = self;
        let c = connections.get_mut(index).ok_or(ConnectError::TooMany)?;
        c.flags.set(Flags::ACTIVE);
        shared.make_ready(index, c);
        Ok(ConnectionId { index, generation: c.generation })
    }

    /// A key that is not in use, with this port or an ephemeral one.
    fn free_key(
        &mut self,
        (source, port): (Address, u16),
        remote: Endpoint,
        options: &Options,
        now: Time,
    ) -> Option<Key> {
        let key = |port| Key::new(Endpoint::new(source, port), remote);
        if port != 0 {
            return Some(key(port)).filter(|key| self.is_free(key, options, now));
        }
        let first = self.shared.secret.port(source, remote.address, remote.port);
        let (local, mut ports) = (Endpoint::new(source, 0), core::mem::take(&mut self.ports));
        let is_free = |port| self.is_free(&key(port), options, now);
        let port = self.affinity.choose((first, &mut ports.cursor, TRIES), local, Some(remote), is_free);
        let port = port.or_else(|| ports.reuse(is_free));
        self.ports = ports;
        port.map(key)
    }

    /// Whether no connection has the numbers. One in TIME-WAIT gives them to a connection with timestamps, which are
    /// later than all of the old one after a moment (RFC 7323 section 5.8), so that a client can open more connections
    /// to one server than it has ports in the time of TIME-WAIT.
    fn is_free(&self, key: &Key, options: &Options, now: Time) -> bool {
        let used = self.table.find(key, |index| self.connections.get(index).map(|c| &c.key));
        let waiting = self.time_waits.find(key).and_then(|at| self.time_waits.get(at));
        used.is_none() && waiting.is_none_or(|entry| options.timestamps && entry.has_rested(now))
    }

    pub(crate) fn send(&mut self, id: ConnectionId, data: Slice<P>) -> Result<(), SendError> {
        let Self { connections, shared, .. } = self;
        let c = connections.get_mut(id.index).filter(|c| c.generation == id.generation);
        let c = c.ok_or(SendError::Closed)?;
        if !c.state.can_send() || c.flags.has(Flags::FIN_QUEUED) {
            return Err(SendError::Closed);
        }
        if c.tx.queue.cost() as usize + data.len() > shared.limits.send_buffer as usize {
            c.flags.set(Flags::WANTS_SPACE);
            return Err(SendError::Full);
        }
        if !data.is_empty() {
            c.tx.queue.push(&mut shared.chunks, data);
            shared.make_ready(id.index, c);
        }
        Ok(())
    }

    pub(crate) fn send_urgent(&mut self, id: ConnectionId, data: Slice<P>) -> Result<(), SendError> {
        let is_empty = data.is_empty();
        self.send(id, data)?;
        let Self { connections, shared, .. } = self;
        if let Some(c) = connections.get_mut(id.index).filter(|_| !is_empty) {
            c.flags.set(Flags::URGENT);
            shared.urgent.insert(c.generation, c.tx.queue.end());
        }
        Ok(())
    }

    pub(crate) fn send_space(&self, id: ConnectionId) -> usize {
        let used = self.get(id).map(|c| c.tx.queue.cost());
        used.map_or(0, |used| self.shared.limits.send_buffer.saturating_sub(used) as usize)
    }

    pub(crate) fn consumed(&mut self, id: ConnectionId, bytes: usize) {
        let Self { connections, shared, .. } = self;
        let Some(c) = connections.get_mut(id.index).filter(|c| c.generation == id.generation) else { return };
        c.rx.consume(u32::try_from(bytes).unwrap_or(u32::MAX));
        let has_room = c.flags.has(Flags::NO_BUFFER) && c.rx.used() <= c.rx.limit;
        if has_room {
            c.flags.clear(Flags::NO_BUFFER);
        }
        if c.can_receive() && (has_room || c.has_opened()) {
            shared.acknowledge(id.index, c);
        }
    }

    /// Queues a FIN (RFC 9293 section 3.10.4). In SYN-SENT, a connection without queued data ends; queued data is sent
    /// first, as in SYN-RECEIVED, where the RFC would discard it.
    pub(crate) fn close(&mut self, id: ConnectionId, io: &mut Io<'_, P>) {
        let Self { connections, shared, .. } = self;
        let Some(c) = connections.get_mut(id.index).filter(|c| c.generation == id.generation) else { return };
        if !c.state.can_send() || c.flags.has(Flags::FIN_QUEUED) {
            return;
        }
        if c.state == State::SynSent && c.tx.queue.held() == 0 {
            return self.remove(id.index, Outcome::Close(Closed::Aborted), io);
        }
        c.flags.set(Flags::FIN_QUEUED);
        match c.state {
            State::Established => c.state = State::FinWait1,
            State::CloseWait => c.state = State::LastAck,
            _ => {}
        }
        shared.make_ready(id.index, c);
        if c.state == State::LastAck {
            self.note_closing(id.index, id.generation);
        }
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
        // The path of an idle connection may have been removed.
        let Ok((path, _)) = io.ip.route(Some(c.key.local), c.key.remote, io.now) else { return };
        io.counters.tcp_resets_out += 1;
        io.ip.send(reset::at(&c.key, c.tx.nxt).packet(path), io.now, io.counters);
    }

    pub(crate) fn report_acks(&mut self, id: ConnectionId, report: bool) {
        if let Some(c) = self.get_mut(id) {
            c.flags.put(Flags::REPORT_ACKS, report);
        }
    }

    pub(crate) fn set_options(&mut self, id: ConnectionId, options: Options, now: Time) {
        let options = self.share(options);
        let Self { connections, shared, .. } = self;
        let Some(c) = connections.get_mut(id.index).filter(|c| c.generation == id.generation) else { return };
        (c.options, c.tx.mtu) = (options, 0);
        // Both timers are evaluated with the new settings.
        c.timers.idle = now;
        shared.wheel.schedule(id.index, now);
        shared.make_ready(id.index, c);
    }
}
