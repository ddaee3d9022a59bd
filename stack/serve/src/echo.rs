//! Echo (RFC 862): received bytes and datagrams are sent back from the memory in which they arrived.

use crate::{BindError, Served, Server};
use host::{App, Buffer, Calls};
use stack::tcp::{ConnectionId, Options};
use stack::{Address, Endpoint, Event, SendError, Slice, SocketId, Stack, Time, UdpOptions};
use std::collections::{HashMap, VecDeque};

/// Data that a full send buffer did not take.
#[derive(Debug, Default)]
struct Waiting {
    data: VecDeque<Slice<Buffer>>,
    /// Whether the peer has finished sending.
    is_finished: bool,
}

/// The echo server.
#[derive(Debug, Default)]
pub struct Echo {
    served: Served,
    /// Connections with waiting data. Its length is limited by the receive windows, which open when data was sent.
    waiting: HashMap<ConnectionId, Waiting>,
}

impl Echo {
    /// Returns data to its sender. Returns it if the send buffer is full.
    #[inline]
    fn send(
        &mut self,
        stack: &mut impl Calls,
        to: ConnectionId,
        data: Slice<Buffer>,
    ) -> Option<Slice<Buffer>> {
        let len = data.len();
        // A clone costs a shared counter, so it is made only if the data may have to wait.
        if stack.send_space(to) < len {
            let kept = data.clone();
            let result = stack.send(to, data);
            self.note_sent(stack, to, len, result);
            return (result == Err(SendError::Full)).then_some(kept);
        }
        let result = stack.send(to, data);
        self.note_sent(stack, to, len, result);
        None
    }

    /// Counts what was sent. If the connection was closed instead, its last event follows.
    #[inline]
    fn note_sent(
        &mut self,
        stack: &mut impl Calls,
        to: ConnectionId,
        len: usize,
        result: Result<(), SendError>,
    ) {
        if result.is_ok() {
            self.served.sent += len as u64;
            stack.consumed(to, len);
        }
    }

    #[inline]
    fn data(&mut self, stack: &mut impl Calls, from: ConnectionId, data: Slice<Buffer>) {
        self.served.received += data.len() as u64;
        if !self.waiting.is_empty()
            && let Some(waiting) = self.waiting.get_mut(&from)
        {
            return waiting.data.push_back(data);
        }
        if let Some(data) = self.send(stack, from, data) {
            self.waiting.entry(from).or_default().data.push_back(data);
        }
    }

    /// Returns a datagram to its sender, unless it was sent to several hosts. An error means that the datagram is lost,
    /// as it could be in the network.
    fn datagram(
        &mut self,
        stack: &mut impl Calls,
        socket: SocketId,
        (from, to): (Endpoint, Address),
        data: Slice<Buffer>,
        now: Time,
    ) {
        let len = data.len() as u64;
        self.served.datagrams += 1;
        self.served.received += len;
        if !to.is_multicast()
            && !to.is_broadcast()
            && stack.udp_send(socket, Some(from), vec![data], now).is_ok()
        {
            self.served.sent += len;
        }
    }

    fn resume(&mut self, stack: &mut impl Calls, connection: ConnectionId) {
        let Some(mut waiting) = self.waiting.remove(&connection) else { return };
        while let Some(data) = waiting.data.pop_front() {
            if let Some(data) = self.send(stack, connection, data) {
                waiting.data.push_front(data);
                self.waiting.insert(connection, waiting);
                return;
            }
        }
        if waiting.is_finished {
            stack.close(connection);
        }
    }
}

impl Server for Echo {
    const TCP_PORT: u16 = 7;

    fn listen(&mut self, stack: &mut Stack<Buffer>, local: Endpoint) -> Result<(), BindError> {
        stack.listen(local, Options { no_delay: true, ..stack.config().tcp })?;
        stack.udp_bind(local, UdpOptions::default())?;
        Ok(())
    }

    fn served(&self) -> Served {
        self.served
    }
}

impl<S: Calls> App<S> for Echo {
    #[inline]
    fn event(&mut self, stack: &mut S, event: Event<Buffer>, now: Time) {
        match event {
            Event::Data { connection, data } => self.data(stack, connection, data),
            Event::Datagram { socket, from, to, data } => {
                self.datagram(stack, socket, (from, to.address), data, now);
            }
            Event::Accepted { .. } => self.served.connections += 1,
            Event::Writable { connection } => self.resume(stack, connection),
            Event::Finished { connection } => match self.waiting.get_mut(&connection) {
                Some(waiting) => waiting.is_finished = true,
                None => stack.close(connection),
            },
            Event::Closed { connection, reason } => {
                self.waiting.remove(&connection);
                self.served.closed(reason);
            }
            _ => {}
        }
    }
}
