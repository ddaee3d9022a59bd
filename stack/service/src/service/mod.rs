//! The fast path of a service on one worker: an application of a host that acts for its clients.
//!
//! In each round it takes commands from the rings of all clients, at most [`Limits::commands`] of each and
//! [`Limits::control`] of all that open or close something, and reports what happened. It shares no lock with clients
//! or other workers, and makes no system call for clients but signals. Must not trust anything in the memory of a
//! client: entries are copied once and validated, and a client that violates the protocol is removed with a named
//! reason ([`Fault`]).

mod client;
mod commands;
mod connection;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;
mod group;
mod listener;
mod remove;
mod udp;

use crate::entry::Completion;
use crate::link::{Link, Order};
use crate::{AcceptPolicy, Fault, Limits, Reason};
pub(crate) use client::{Channel, Client};
use connection::{Connection, Fact, Flushed};
use host::{Activity, App, Buffer, BufferPool, PoolLimits};
use listener::Listener;
use rustix::fd::{AsFd, BorrowedFd};
use slab::Slab;
use stack::tcp::{ConnectionId, ListenerId};
use stack::{Endpoint, Event, Slice, Stack, Time};
use std::collections::{HashMap, VecDeque};
use std::hash::RandomState;
use std::sync::Arc;
use udp::Udp;

/// Interval of looks for orders of the slow path, in nanoseconds.
const ORDER_INTERVAL: u64 = 1_000_000;

/// Settings of a service, of all its workers.
#[derive(Clone, Debug)]
pub struct ServiceOptions {
    /// Limits.
    pub limits: Limits,
    /// Which client accepts a connection, if several listen on one endpoint.
    pub accept: AcceptPolicy,
    /// Called with one line of text when a client comes or leaves.
    pub on_client: fn(&str),
    /// Workers that open new connections, as in [`host::SteeringOptions`]; `None` for all.
    pub activity: Option<Arc<Activity>>,
}

impl Default for ServiceOptions {
    fn default() -> Self {
        let (limits, accept) = (Limits::default(), AcceptPolicy::default());
        Self { limits, accept, on_client: |_| (), activity: None }
    }
}

/// Counts of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Clients that came.
    pub clients: u64,
    /// Connections opened, and connections accepted by a client.
    pub connected: u64,
    /// See `connected`.
    pub accepted: u64,
    /// Connections that ended otherwise than by both sides closing.
    pub aborted: u64,
    /// Datagrams that were dropped because a client did not take them.
    pub datagrams_dropped: u64,
    /// Clients that left, by reason.
    pub left: HashMap<Fault, u64>,
}

impl Statistics {
    /// Adds those of another worker, or of the slow path.
    pub fn add(&mut self, other: &Self) {
        self.clients += other.clients;
        self.connected += other.connected;
        self.accepted += other.accepted;
        self.aborted += other.aborted;
        self.datagrams_dropped += other.datagrams_dropped;
        for (fault, count) in &other.left {
            *self.left.entry(*fault).or_default() += count;
        }
    }
}

/// The part of a service that runs on one worker. [`crate::SlowPath::new`] creates all.
#[derive(Debug)]
pub struct Service {
    options: ServiceOptions,
    link: Link,
    clients: Slab<Client>,
    /// Place of the client whose commands the next round takes first.
    first: usize,
    connections: Slab<Connection>,
    /// Key of each connection by its number in the stack.
    by_stack: Vec<usize>,
    listeners: Slab<Listener>,
    /// Key of each listener by its endpoint, and by its number in the stack.
    by_end: HashMap<Endpoint, usize>,
    by_listener: HashMap<ListenerId, usize>,
    udp: Udp,
    /// Connections that their clients have closed, with the time at which they are reset.
    lingering: VecDeque<(Time, ConnectionId)>,
    /// Bytes received on connections without a client.
    unaccepted: u32,
    /// Time of the last look for orders.
    looked: Time,
    hasher: RandomState,
    statistics: Statistics,
}

impl Service {
    /// A worker's part without clients.
    pub(crate) fn new(options: ServiceOptions, link: Link) -> Self {
        Self {
            options,
            link,
            clients: Slab::new(),
            first: 0,
            connections: Slab::new(),
            by_stack: Vec::new(),
            listeners: Slab::new(),
            by_end: HashMap::new(),
            by_listener: HashMap::new(),
            udp: Udp::new(BufferPool::new(PoolLimits::default())),
            lingering: VecDeque::new(),
            unaccepted: 0,
            looked: Time(0),
            hasher: RandomState::new(),
            statistics: Statistics::default(),
        }
    }

    /// Counts of this worker. Those of clients are counted by the slow path.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Takes over new clients, and begins to remove those that ended.
    #[cold]
    fn take_orders(&mut self) {
        while let Some(order) = self.link.order() {
            match order {
                Order::Attach(client) => {
                    self.clients.insert(*client);
                }
                Order::Detach { client, fault } => {
                    if let Some((_, own)) = self.clients.iter_mut().find(|(_, own)| own.number == client) {
                        own.fault.get_or_insert(fault);
                    }
                }
            }
        }
    }

    /// Reports the number of active workers to clients. The first worker, which is always active, does it for all.
    #[cold]
    fn report_active(&mut self) {
        let Some(activity) = self.options.activity.as_ref().filter(|_| self.link.worker.0 == 0) else {
            return;
        };
        let active = activity.active() as u32;
        for (_, client) in &mut self.clients {
            if client.fault.is_none() && std::mem::replace(&mut client.active, active) != active {
                client.reply(Completion::Active { workers: active });
            }
        }
    }

    fn key(&self, id: ConnectionId) -> Option<usize> {
        let key = *self.by_stack.get(id.index())?;
        self.connections.get(key).filter(|c| c.stack == Some(id)).map(|_| key)
    }

    fn insert(&mut self, connection: Connection, id: ConnectionId) -> usize {
        let key = self.connections.insert(connection);
        if self.by_stack.len() <= id.index() {
            self.by_stack.resize(id.index() + 1, usize::MAX);
        }
        self.by_stack[id.index()] = key;
        key
    }

    /// Notes that there is something to report about a connection.
    #[inline]
    fn mark(&mut self, key: usize) {
        let Some(connection) = self.connections.get_mut(key) else { return };
        let Some(client) = connection.client.and_then(|client| self.clients.get_mut(client)) else { return };
        if !std::mem::replace(&mut connection.is_dirty, true) {
            client.dirty.push_back(key);
        }
    }

    fn data(&mut self, stack: &mut Stack<Buffer>, id: ConnectionId, data: Slice<Buffer>) {
        let Some(key) = self.key(id) else { return };
        let connection = &mut self.connections[key];
        if connection.is_released {
            // As the kernel does for data that no program can read.
            return stack.abort(id);
        }
        let limits = &self.options.limits;
        let (waiting, most) = match connection.client.and_then(|client| self.clients.get_mut(client)) {
            Some(client) => (&mut client.waiting, limits.waiting_bytes),
            None => (&mut self.unaccepted, limits.unaccepted_bytes),
        };
        *waiting += connection::charge(&data);
        let is_too_much = *waiting > most;
        connection.waiting.push_back(data);
        if is_too_much {
            connection.closed = Fact::New(Reason::Memory);
            stack.abort(id);
        }
        self.mark(key);
    }

    fn closed(&mut self, id: ConnectionId, reason: Reason) {
        let Some(key) = self.key(id) else { return };
        self.statistics.aborted += u64::from(reason != Reason::Normally);
        let connection = &mut self.connections[key];
        connection.stack = None;
        if connection.closed == Fact::No {
            connection.closed = Fact::New(reason);
        }
        if connection.is_released && connection.client.is_none() {
            self.connections.remove(key);
        }
        self.mark(key);
    }

    /// Reports to a client as far as its ring has room. Returns whether anything was reported.
    fn flush(&mut self, key: usize) -> bool {
        let Self { clients, connections, .. } = self;
        let Some(client) = clients.get_mut(key) else { return false };
        while client.flush_outbox()
            && let Some(&number) = client.dirty.front()
        {
            let Some(connection) = connections.get_mut(number).filter(|c| c.client == Some(key)) else {
                client.dirty.pop_front();
                continue;
            };
            let flushed = connection.flush(&mut client.channel, &mut client.waiting);
            if flushed == Flushed::RingFull {
                break;
            }
            connection.is_dirty = false;
            client.dirty.pop_front();
            if flushed == Flushed::NoArena {
                client.starved.push(number);
            }
            if connection.is_over() {
                client.objects.remove(&connection.id);
                connections.remove(number);
            }
        }
        let is_new = client.channel.publish();
        if client.channel.has_fault {
            self.fail(key, Fault::Ring);
        }
        is_new
    }

    /// Resets connections that lingered for too long, or are too many: as many in a round as clients can close.
    fn reset_lingering(&mut self, stack: &mut Stack<Buffer>, now: Time) {
        let (_, most) = self.options.limits.linger;
        for _ in 0..self.options.limits.control {
            let is_due =
                |&&(at, _): &&(Time, ConnectionId)| at <= now || self.lingering.len() > most as usize;
            let Some(&(_, id)) = self.lingering.front().filter(is_due) else { return };
            self.lingering.pop_front();
            stack.abort(id);
        }
    }
}

impl App for Service {
    #[inline]
    fn event(&mut self, stack: &mut Stack<Buffer>, event: Event<Buffer>, _now: Time) {
        match event {
            Event::Data { connection, data } => self.data(stack, connection, data),
            Event::Acknowledged { connection, bytes, .. } => {
                if let Some(key) = self.key(connection) {
                    self.connections[key].acknowledge(bytes);
                    self.mark(key);
                }
            }
            Event::Datagram { socket, from, data, .. } => self.datagram(socket, from, &data),
            Event::Accepted { connection, listener, .. } => self.accepted(stack, connection, listener),
            Event::Connected { connection } => self.connected(stack, connection),
            Event::Finished { connection } => {
                if let Some(key) = self.key(connection) {
                    self.connections[key].finished = Fact::New(());
                    self.mark(key);
                }
            }
            Event::Closed { connection, reason } => self.closed(connection, reason.into()),
            Event::DatagramLost { socket, error } => self.datagram_lost(socket, error.into()),
            // The limit of unacknowledged bytes is below the send buffer, so no client waits for space.
            Event::Writable { .. } => {}
        }
    }

    fn poll(&mut self, stack: &mut Stack<Buffer>, now: Time) -> bool {
        if now.0 - self.looked.0 > ORDER_INTERVAL {
            self.looked = now;
            self.take_orders();
            self.report_active();
        }
        self.reset_lingering(stack, now);
        let (mut worked, mut control) = (false, self.options.limits.control);
        let places = self.clients.capacity();
        // Each client is the first in turn, so that none has what others leave of the limit for ever.
        self.first += 1;
        if self.first >= places {
            self.first = 0;
        }
        for key in (self.first..places).chain(0..self.first) {
            if self.clients.contains(key) {
                let is_busy = self.run_commands(stack, key, &mut control, now);
                worked |= self.flush(key) | is_busy;
                // The commands of a client that left are still carried out.
                worked |= !is_busy && self.remove_faulty(stack, key, &mut control, now);
            }
        }
        worked
    }

    fn prepare_sleep(&mut self) -> bool {
        self.clients.iter_mut().all(|(_, client)| client.prepare_sleep())
    }

    fn wake_fds(&self) -> Vec<BorrowedFd<'_>> {
        let clients = self.clients.iter().map(|(_, client)| client.channel.to_service.as_fd());
        clients.chain([self.link.event.as_fd()]).collect()
    }

    fn resume(&mut self) {
        for (_, client) in &mut self.clients {
            client.channel.commands.resume();
            port::eventfd::clear(&client.channel.to_service);
        }
        port::eventfd::clear(&self.link.event);
        // The next round takes orders.
        self.looked = Time(0);
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
