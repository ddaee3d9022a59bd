//! A cache of values by key, with memcached's text and meta protocol.
//!
//! [`Kv`] is the store of one core: it shares nothing, so several cores are several servers among which clients
//! distribute their keys. A value is copied once, from where it was received into memory of its exact size, and sent
//! from there by reference. Input of a connection waits in its receive window while its client does not read replies.
//!
//! Every limit of what a client can make the server hold is here, in `session` (lines), `output` (replies) and `store`
//! (keys and values).

mod cache;
#[cfg(any(test, feature = "fuzz"))]
pub(crate) mod fuzz;
mod line;
mod meta;
mod output;
mod session;
mod stats;
mod store;
#[cfg(test)]
mod tests;
mod text;

use crate::{Served, Server};
use host::{App, Buffer};
use output::Output;
use session::{Context, Session};
use stack::tcp::ConnectionId;
use stack::{Event, SendError, Slice, Stack, Time};
use stats::ServerFacts;
use std::collections::VecDeque;
use std::time::Duration;
use store::Store;

/// Send buffer of a connection in bytes: the longest value with its header, and as much again. Values in it stay in
/// memory although the store removes them.
pub const SEND_BUFFER: u32 = 2 << 20;
/// Receive buffer of a connection in bytes: requests that one event may have to process.
pub const RECEIVE_BUFFER: u32 = 256 << 10;

/// Settings of a [`Kv`].
#[derive(Clone, Copy, Debug)]
pub struct KvOptions {
    /// Memory of the items in bytes, with their keys and administration: at least 2 MiB.
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
    /// Replies that wait for send space.
    output: VecDeque<Slice<Buffer>>,
    /// Whether the peer has finished sending.
    is_finished: bool,
}

/// The server.
#[derive(Debug)]
pub struct Kv {
    store: Store,
    out: Output,
    /// By the number of the connection.
    clients: Vec<Option<Client>>,
    served: Served,
    open: u64,
    rejected: u64,
    options: KvOptions,
    /// Copy of bytes that a peer may change while they are read.
    private: Vec<u8>,
}

impl Kv {
    /// An empty store.
    pub fn new(options: KvOptions) -> Self {
        let memory = options.memory.max(2 * store::MAX_VALUE);
        let mut store = Store::new(memory);
        store.advance(options.epoch.as_secs() as u32);
        Self {
            store,
            out: Output::new(),
            clients: Vec::new(),
            served: Served::default(),
            open: 0,
            rejected: 0,
            options,
            private: Vec::new(),
        }
    }

    fn accept(&mut self, stack: &mut Stack<Buffer>, id: ConnectionId) {
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
            output: VecDeque::new(),
            is_finished: false,
        });
    }

    fn client(&mut self, id: ConnectionId) -> Option<&mut Client> {
        self.clients.get_mut(id.index())?.as_mut().filter(|client| client.id == id)
    }

    fn data(&mut self, stack: &mut Stack<Buffer>, id: ConnectionId, data: Slice<Buffer>) {
        self.served.received += data.len() as u64;
        let Some(client) = self.client(id) else { return };
        client.input.push_back(data);
        self.run(stack, id);
    }

    /// Sends what waits, and processes input while all replies are sent.
    fn run(&mut self, stack: &mut Stack<Buffer>, id: ConnectionId) {
        let facts = self.facts();
        let Self { store, out, clients, served, private, .. } = self;
        let client = clients.get_mut(id.index()).and_then(Option::as_mut);
        let Some(client) = client.filter(|client| client.id == id) else { return };
        while client.send(stack, served) {
            if client.session.is_closed() {
                return client.end(stack);
            }
            let Some(data) = client.input.front() else {
                if client.session.is_paused() {
                    client.session.feed(&[], &mut Context { store, out, facts });
                    client.output.extend(out.take());
                    continue;
                }
                break;
            };
            let bytes = private_bytes(data, private);
            let (len, taken) = (data.len(), client.session.feed(bytes, &mut Context { store, out, facts }));
            client.output.extend(out.take());
            client.taken(taken, len);
            stack.consumed(id, taken);
        }
        if client.is_finished && client.input.is_empty() && client.output.is_empty() {
            stack.close(id);
        }
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
    /// Sends replies. Returns whether none wait.
    fn send(&mut self, stack: &mut Stack<Buffer>, served: &mut Served) -> bool {
        while let Some(piece) = self.output.front() {
            let len = piece.len() as u64;
            match stack.send(self.id, piece.clone()) {
                Err(SendError::Full) => return false,
                // The connection ends; its last event follows.
                Err(SendError::Closed) => {}
                Ok(()) => served.sent += len,
            }
            self.output.pop_front();
        }
        true
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
    fn end(&mut self, stack: &mut Stack<Buffer>) {
        stack.close(self.id);
        self.input.drain(..).for_each(|data| stack.consumed(self.id, data.len()));
    }
}

impl Server for Kv {
    const TCP_PORT: u16 = 11_211;

    fn served(&self) -> Served {
        self.served
    }
}

impl App for Kv {
    fn event(&mut self, stack: &mut Stack<Buffer>, event: Event<Buffer>, now: Time) {
        let seconds = self.options.epoch + Duration::from_nanos(now.0);
        self.store.advance(seconds.as_secs() as u32);
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
}
