//! The stack as an application on another thread sees it.

use super::names::{Names, Target};
use super::{BATCH, Call, Calls, Connect, Message};
use crate::{App, Buffer};
use engine::Doorbell;
use ring::spsc::Producer;
use stack::tcp::{ConnectionId, ListenerId, Options};
use stack::{
    ConnectError, Endpoint, Event, ListenError, SendError, Slice, SocketId, Time, UdpError, send_cost,
};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

/// First identifier of listeners that the application chooses. Those of the stack count from 1 on.
pub(super) const FIRST_LISTENER: u32 = 1 << 31;

/// Limits of the stack that the side of the application applies, because it gets no answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RemoteLimits {
    /// Send buffer of a connection in bytes.
    pub(crate) send_buffer: usize,
    /// Maximum number of connections.
    pub(crate) connections: usize,
}

/// Sends calls to the thread of the stack.
#[derive(Debug)]
pub struct Remote {
    calls: Producer<Call>,
    /// Calls that are not published yet.
    staged: VecDeque<Call>,
    wakes_stack: Arc<Doorbell>,
    names: Names,
    next_listener: u32,
    limits: RemoteLimits,
    stop: Arc<AtomicBool>,
}

impl Remote {
    pub(super) fn new(
        calls: Producer<Call>,
        wakes_stack: Arc<Doorbell>,
        limits: RemoteLimits,
        stop: Arc<AtomicBool>,
    ) -> Self {
        let (staged, names) = (VecDeque::with_capacity(BATCH), Names::default());
        Self { calls, staged, wakes_stack, names, next_listener: FIRST_LISTENER, limits, stop }
    }

    /// Passes a message of the stack to the application.
    #[inline]
    pub(super) fn deliver(&mut self, message: Message, app: &mut impl App<Self>, now: Time) {
        match message {
            Message::Event(event) => self.event(event, app, now),
            Message::Opened(number, id) => self.names.opened(number, id),
            Message::NotOpened(number, error) => {
                let name = self.names.id(number);
                self.names.remove(name);
                app.connect_failed(self, name, error, now);
            }
            Message::NotListening(listener, error) => app.listen_failed(self, listener, error, now),
            Message::PortLost(port) => app.port_lost(&port.0, &port.1),
        }
    }

    /// Follows the connections, and passes the event with the application's name of its connection.
    #[inline]
    fn event(&mut self, mut event: Event<Buffer>, app: &mut impl App<Self>, now: Time) {
        let Some(connection) = connection_mut(&mut event) else { return app.event(self, event, now) };
        *connection = self.names.name(*connection);
        match event {
            Event::Acknowledged { connection, space, .. } => {
                let (reports, is_due) = self.acknowledged(connection, space as usize);
                if reports {
                    app.event(self, event, now);
                }
                if is_due {
                    app.event(self, Event::Writable { connection }, now);
                }
                return;
            }
            Event::Closed { connection, .. } => self.names.remove(connection),
            _ => {}
        }
        app.event(self, event, now);
    }

    /// Send space became free. Returns whether acknowledgements are reported to the application, and whether the space
    /// for which it waits is available.
    #[inline]
    fn acknowledged(&mut self, connection: ConnectionId, freed: usize) -> (bool, bool) {
        let half = self.limits.send_buffer / 2;
        let Some((_, entry)) = self.names.get_mut(connection) else { return (false, false) };
        entry.used = entry.used.saturating_sub(freed);
        let is_due = entry.wants_space && entry.used <= half;
        entry.wants_space &= !is_due;
        (entry.reports_acks, is_due)
    }

    #[inline]
    fn call(&mut self, call: Call) {
        self.staged.push_back(call);
        if self.staged.len() >= BATCH {
            self.publish();
        }
    }

    /// Makes a call about a connection that exists.
    #[inline]
    fn call_about(&mut self, connection: ConnectionId, call: impl FnOnce(Target) -> Call) {
        if let Some((target, _)) = self.names.get_mut(connection) {
            self.call(call(target));
        }
    }

    /// Publishes all calls. Waits for room, which the thread of the stack makes until it stops.
    pub(super) fn publish(&mut self) {
        while !self.staged.is_empty() {
            let fits = self.calls.room(self.staged.len()).min(self.staged.len());
            self.calls.push_all(&mut self.staged.drain(..fits));
            // Orders the calls before the check whether the stack sleeps.
            fence(Ordering::SeqCst);
            self.wakes_stack.ring();
            if fits == 0 {
                if self.stop.load(Ordering::Relaxed) {
                    return;
                }
                std::thread::yield_now();
            }
        }
    }

    #[cfg(test)]
    pub(super) fn connections(&self) -> usize {
        self.names.len()
    }
}

/// The connection of an event; `None` for one of a socket.
#[inline]
fn connection_mut(event: &mut Event<Buffer>) -> Option<&mut ConnectionId> {
    match event {
        Event::Accepted { connection, .. }
        | Event::Connected { connection }
        | Event::Data { connection, .. }
        | Event::Finished { connection }
        | Event::Writable { connection }
        | Event::Acknowledged { connection, .. }
        | Event::Closed { connection, .. } => Some(connection),
        Event::Datagram { .. } | Event::DatagramLost { .. } => None,
    }
}

impl Calls for Remote {
    /// Posts the call. Its failure is [`App::connect_failed`].
    fn connect(
        &mut self,
        local: Endpoint,
        remote: Endpoint,
        options: Options,
        _now: Time,
    ) -> Result<ConnectionId, ConnectError> {
        if self.names.len() >= self.limits.connections {
            return Err(ConnectError::TooMany);
        }
        let name = self.names.post();
        let connect = Connect { number: name.index() as u32, local, remote, options };
        self.call(Call::Connect(Box::new(connect)));
        Ok(name)
    }

    /// Posts the call. Its failure is [`App::listen_failed`].
    fn listen(&mut self, local: Endpoint, options: Options) -> Result<ListenerId, ListenError> {
        let listener = ListenerId::from_bits(self.next_listener);
        self.next_listener = self.next_listener.checked_add(1).ok_or(ListenError::InUse)?;
        self.call(Call::Listen(listener, Box::new((local, options))));
        Ok(listener)
    }

    fn unlisten(&mut self, listener: ListenerId) {
        self.call(Call::Unlisten(listener));
    }

    /// As [`stack::Stack::send`] with what the stack has reported, so a call that returns no error succeeds there too,
    /// unless the connection ends.
    #[inline]
    fn send(&mut self, connection: ConnectionId, data: Slice<Buffer>) -> Result<(), SendError> {
        let limit = self.limits.send_buffer;
        let (target, entry) = self.names.get_mut(connection).ok_or(SendError::Closed)?;
        if entry.is_closed {
            return Err(SendError::Closed);
        }
        if entry.used + data.len() > limit {
            entry.wants_space = true;
            return Err(SendError::Full);
        }
        entry.used += send_cost(data.len());
        self.call(Call::Send(target, data));
        Ok(())
    }

    #[inline]
    fn send_space(&self, connection: ConnectionId) -> usize {
        let entry = self.names.get(connection);
        entry.map_or(0, |entry| self.limits.send_buffer.saturating_sub(entry.used))
    }

    fn send_buffer(&self) -> usize {
        self.limits.send_buffer
    }

    #[inline]
    fn consumed(&mut self, connection: ConnectionId, bytes: usize) {
        self.call_about(connection, |target| Call::Consumed(target, bytes));
    }

    /// Has an effect at once: the stack reports every acknowledgement to this side.
    fn report_acks(&mut self, connection: ConnectionId, report: bool) {
        if let Some((_, entry)) = self.names.get_mut(connection) {
            entry.reports_acks = report;
        }
    }

    fn close(&mut self, connection: ConnectionId) {
        if let Some((target, entry)) = self.names.get_mut(connection) {
            entry.is_closed = true;
            self.call(Call::Close(target));
        }
    }

    fn abort(&mut self, connection: ConnectionId) {
        if let Some((target, entry)) = self.names.get_mut(connection) {
            entry.is_closed = true;
            self.call(Call::Abort(target));
        }
    }

    fn udp_send(
        &mut self,
        socket: SocketId,
        to: Option<Endpoint>,
        data: Vec<Slice<Buffer>>,
        _now: Time,
    ) -> Result<(), UdpError> {
        self.call(Call::UdpSend(socket, to, data));
        Ok(())
    }
}
