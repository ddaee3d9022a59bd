//! A cache of values by key, with memcached's text and meta protocol.
//!
//! Each core has a [`Kv`] with a part of the store: a key belongs to one of them, which executes its commands for the
//! connections of all ([`Links`]). Nothing else is shared. A value is copied once, from where it was received into
//! memory of its exact size, and sent from there by reference. Input of a connection waits in its receive window while
//! its client does not read replies, or while other cores have no room for requests.
//!
//! Every limit of what a client can make the server hold is here, in `session` (lines), `output` (replies) and `store`
//! (keys and values).

mod cache;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;
mod line;
mod links;
mod meta;
mod output;
mod session;
mod shard;
mod stats;
mod store;
#[cfg(test)]
mod tests;
mod text;

pub use links::Links;

use crate::{Served, Server};
use host::{App, Buffer, Calls};
use output::Replies;
use rustix::fd::BorrowedFd;
use session::Session;
use shard::{Room, Shard};
use stack::tcp::ConnectionId;
use stack::{Event, SendError, Slice, Time};
use stats::ServerFacts;
use std::collections::VecDeque;
use std::time::Duration;

/// Send buffer of a connection in bytes: the longest value with its header, and as much again. Values in it stay in
/// memory although the store removes them.
pub const SEND_BUFFER: u32 = 2 << 20;
/// Minimum memory of a worker's items in bytes.
pub const MIN_MEMORY: usize = 2 * store::MAX_VALUE;
/// Receive buffer of a connection in bytes: requests that one event may have to process.
pub const RECEIVE_BUFFER: u32 = 256 << 10;
/// Name and meaning of the counter of requests that other workers executed.
const FORWARDED: (&str, &str) = ("kv_forwarded", "Requests that were passed to the worker of their key.");

/// Settings of a [`Kv`].
#[derive(Clone, Copy, Debug)]
pub struct KvOptions {
    /// Memory of the items in bytes, with their keys and administration: at least [`MIN_MEMORY`].
    pub memory: usize,
    /// Maximum number of connections; more are reset.
    pub connections: u64,
    /// Time since 1970 at [`Time`] 0.
    pub epoch: Duration,
}

/// A connection.
#[derive(Debug)]
struct Client {
    id: ConnectionId,
    session: Session,
    /// Received bytes that wait until the replies before them are sent.
    input: VecDeque<Slice<Buffer>>,
    replies: Replies,
    /// Whether the peer has finished sending.
    is_finished: bool,
    /// Whether input waits for room in a ring.
    is_stalled: bool,
}

/// The server.
#[derive(Debug)]
pub struct Kv {
    shard: Shard,
    /// By the number of the connection.
    clients: Vec<Option<Client>>,
    served: Served,
    open: u64,
    rejected: u64,
    /// Connections whose input waits for room in a ring.
    stalled: VecDeque<ConnectionId>,
    options: KvOptions,
    /// Copy of bytes that a peer may change while they are read.
    private: Vec<u8>,
}

impl Kv {
    /// An empty store of one worker.
    pub fn new(options: KvOptions) -> Self {
        Self::sharded(options, Links::none())
    }

    /// The empty part of a store that belongs to the worker with these links.
    pub fn sharded(options: KvOptions, links: Links) -> Self {
        let memory = options.memory.max(MIN_MEMORY);
        let mut shard = Shard::new(memory, links);
        shard.store.advance(options.epoch.as_secs() as u32);
        Self {
            shard,
            clients: Vec::new(),
            served: Served::default(),
            open: 0,
            rejected: 0,
            stalled: VecDeque::new(),
            options,
            private: Vec::new(),
        }
    }

    fn accept(&mut self, stack: &mut impl Calls, id: ConnectionId) {
        if self.open >= self.options.connections {
            self.rejected += 1;
            return stack.abort(id);
        }
        self.open += 1;
        self.served.connections += 1;
        if self.clients.len() <= id.index() {
            self.clients.resize_with(id.index() + 1, || None);
        }
        self.clients[id.index()] = Some(Client {
            id,
            session: Session::new(),
            input: VecDeque::new(),
            replies: Replies::default(),
            is_finished: false,
            is_stalled: false,
        });
    }

    fn client(&mut self, id: ConnectionId) -> Option<&mut Client> {
        self.clients.get_mut(id.index())?.as_mut().filter(|client| client.id == id)
    }

    fn data(&mut self, stack: &mut impl Calls, id: ConnectionId, data: Slice<Buffer>) {
        self.served.received += data.len() as u64;
        let Some(client) = self.client(id) else { return };
        client.input.push_back(data);
        self.run(stack, id);
    }

    /// Sends what waits, and processes input while there is room for replies and requests.
    fn run(&mut self, stack: &mut impl Calls, id: ConnectionId) {
        let facts = self.facts();
        let Self { shard, clients, served, private, stalled, .. } = self;
        let client = clients.get_mut(id.index()).and_then(Option::as_mut);
        let Some(client) = client.filter(|client| client.id == id) else { return };
        while client.send(stack, served) {
            if client.session.is_closed() {
                return if client.replies.is_empty() {
                    client.end(stack);
                };
            }
            match shard.room(&client.replies) {
                Room::Free => {}
                Room::Replies => return,
                Room::Links => return client.stall(stalled),
            }
            let Client { session, replies, input, .. } = client;
            let Some(data) = input.front() else {
                if session.is_paused() {
                    shard.feed(session, &[], replies, (id, facts));
                    continue;
                }
                break;
            };
            let bytes = private_bytes(data, private);
            let (len, taken) = (data.len(), shard.feed(session, bytes, replies, (id, facts)));
            client.taken(taken, len);
            stack.consumed(id, taken);
        }
        if client.is_finished && client.input.is_empty() && client.replies.is_empty() {
            stack.close(id);
        }
    }

    /// Takes the answers of other workers. Returns whether there were any.
    fn take_answers(&mut self, stack: &mut impl Calls) -> bool {
        let mut worked = false;
        for from in 0..self.shard.links.others() {
            for _ in 0..self.shard.links.replies(from) {
                let Some((ticket, answer)) = self.shard.links.reply(from) else { break };
                worked = true;
                // The connection may have ended.
                if let Some(client) = self.client(ticket.client) {
                    client.replies.fill(ticket.slot, answer);
                    self.run(stack, ticket.client);
                }
            }
        }
        worked
    }

    /// Continues connections that waited for room in a ring, in order.
    fn resume_stalled(&mut self, stack: &mut impl Calls) {
        while self.shard.links.has_room()
            && let Some(id) = self.stalled.pop_front()
        {
            if let Some(client) = self.client(id) {
                client.is_stalled = false;
                self.run(stack, id);
            }
        }
    }

    fn advance(&mut self, now: Time) {
        let seconds = self.options.epoch + Duration::from_nanos(now.0);
        self.shard.store.advance(seconds.as_secs() as u32);
    }

    fn facts(&self) -> ServerFacts {
        let Served { connections: total, received, sent, .. } = self.served;
        let started = self.options.epoch.as_secs() as u32;
        ServerFacts { started, open: self.open, total, rejected: self.rejected, received, sent }
    }
}

/// The bytes of received data. Bytes that a peer may change are copied first, so that a request is read once.
fn private_bytes<'a>(data: &'a Slice<Buffer>, private: &'a mut Vec<u8>) -> &'a [u8] {
    if let Some(bytes) = data.data().bytes().and_then(|bytes| bytes.get(data.range())) {
        return bytes;
    }
    private.resize(data.len(), 0);
    data.copy_to(0, private);
    private
}

impl Client {
    /// Sends replies in order, up to the first that another worker prepares. Returns `false` if there is no send space.
    fn send(&mut self, stack: &mut impl Calls, served: &mut Served) -> bool {
        while let Some(piece) = self.replies.front() {
            let len = piece.len() as u64;
            match stack.send(self.id, piece.clone()) {
                Err(SendError::Full) => return false,
                // The connection ends; its last event follows.
                Err(SendError::Closed) => {}
                Ok(()) => served.sent += len,
            }
            self.replies.pop();
        }
        true
    }

    /// Continues when other workers have room for requests.
    fn stall(&mut self, stalled: &mut VecDeque<ConnectionId>) {
        if !std::mem::replace(&mut self.is_stalled, true) {
            stalled.push_back(self.id);
        }
    }

    /// Removes processed bytes from the first of the input.
    fn taken(&mut self, taken: usize, len: usize) {
        if taken == len {
            self.input.pop_front();
        } else if let Some(data) = self.input.front_mut() {
            data.narrow(taken..len);
        }
    }

    /// Closes the connection and drops its input.
    fn end(&mut self, stack: &mut impl Calls) {
        stack.close(self.id);
        self.input.drain(..).for_each(|data| stack.consumed(self.id, data.len()));
    }
}

impl Server for Kv {
    const TCP_PORT: u16 = 11_211;

    fn served(&self) -> Served {
        self.served
    }

    fn named(&self) -> Vec<(&'static str, u64)> {
        vec![(FORWARDED.0, self.shard.links.forwarded())]
    }

    fn meanings() -> Vec<(&'static str, &'static str)> {
        vec![FORWARDED]
    }
}

impl<S: Calls> App<S> for Kv {
    fn event(&mut self, stack: &mut S, event: Event<Buffer>, now: Time) {
        self.advance(now);
        match event {
            Event::Data { connection, data } => self.data(stack, connection, data),
            Event::Accepted { connection, .. } => self.accept(stack, connection),
            Event::Writable { connection } => self.run(stack, connection),
            Event::Finished { connection } => {
                if let Some(client) = self.client(connection) {
                    client.is_finished = true;
                    self.run(stack, connection);
                }
            }
            Event::Closed { connection, reason } => {
                let client = self.clients.get_mut(connection.index());
                if client.and_then(|client| client.take_if(|client| client.id == connection)).is_some() {
                    self.open -= 1;
                    self.served.closed(reason);
                }
            }
            _ => {}
        }
    }

    fn poll(&mut self, stack: &mut S, now: Time) -> bool {
        if self.shard.links.others() == 0 {
            return false;
        }
        self.advance(now);
        let facts = self.facts();
        let worked = self.shard.serve(facts) | self.take_answers(stack);
        self.resume_stalled(stack);
        self.shard.links.ring();
        worked
    }

    fn prepare_sleep(&mut self) -> bool {
        self.shard.links.prepare_sleep()
    }

    fn wake_fds(&self) -> Vec<BorrowedFd<'_>> {
        self.shard.links.wake_fds()
    }

    fn resume(&mut self) {
        self.shard.links.resume();
    }
}
