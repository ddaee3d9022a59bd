//! Closed-loop client: each connection has one request on its way, and sends the next one when the reply is complete.

use super::Served;
use crate::{App, Buffer};
use stack::tcp::{ConnectionId, Options};
use stack::{ConnectError, Endpoint, Event, Slice, Stack, Time};

/// Settings of a client.
#[derive(Clone, Debug)]
pub struct RequestOptions {
    /// Server.
    pub server: Endpoint,
    /// Number of connections.
    pub connections: u32,
    /// Bytes of a request.
    pub request: Vec<u8>,
    /// Bytes of a reply.
    pub reply: u32,
    /// Settings of the connections.
    pub tcp: Options,
}

/// The client.
#[derive(Debug)]
pub struct Requests {
    served: Served,
    request: Slice<Buffer>,
    reply: u32,
    /// Bytes of the reply that each connection waits for.
    missing: Vec<u32>,
    replies: u64,
}

impl Requests {
    /// Opens the connections.
    ///
    /// # Errors
    /// If a connection cannot be opened.
    pub fn open(stack: &mut Stack<Buffer>, options: RequestOptions, now: Time) -> Result<Self, ConnectError> {
        for _ in 0..options.connections {
            stack.connect(Endpoint::default(), options.server, options.tcp, now)?;
        }
        let (request, reply) = (Slice::new(options.request.into()), options.reply);
        // The stored sum saves a pass over the request each time.
        let request = request.summed();
        Ok(Self { served: Served::default(), request, reply, missing: Vec::new(), replies: 0 })
    }

    /// Counts.
    pub fn served(&self) -> Served {
        self.served
    }

    /// Complete replies.
    pub fn replies(&self) -> u64 {
        self.replies
    }

    #[inline]
    fn request(&mut self, stack: &mut Stack<Buffer>, to: ConnectionId) {
        // A connection that was closed meanwhile reports its end.
        if stack.send(to, self.request.clone()).is_ok() {
            self.served.sent += self.request.len() as u64;
            self.missing[to.index()] = self.reply;
        }
    }

    fn start(&mut self, stack: &mut Stack<Buffer>, connection: ConnectionId) {
        self.served.connections += 1;
        if self.missing.len() <= connection.index() {
            self.missing.resize(connection.index() + 1, 0);
        }
        self.request(stack, connection);
    }

    #[inline]
    fn data(&mut self, stack: &mut Stack<Buffer>, from: ConnectionId, bytes: usize) {
        self.served.received += bytes as u64;
        stack.consumed(from, bytes);
        let Some(missing) = self.missing.get_mut(from.index()) else { return };
        *missing = missing.saturating_sub(bytes as u32);
        if *missing == 0 {
            self.replies += 1;
            self.request(stack, from);
        }
    }
}

impl App for Requests {
    #[inline]
    fn event(&mut self, stack: &mut Stack<Buffer>, event: Event<Buffer>, _now: Time) {
        match event {
            Event::Data { connection, data } => self.data(stack, connection, data.len()),
            Event::Connected { connection } => self.start(stack, connection),
            Event::Finished { connection } => stack.close(connection),
            Event::Closed { reason, .. } => self.served.closed(reason),
            _ => {}
        }
    }
}
