//! Closed-loop client: each connection has one request on its way, and sends the next one when the reply is complete.

use crate::Served;
use host::{App, Buffer, Calls};
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
    /// Maximum number of round trips whose times are kept; further ones replace the oldest.
    pub samples: usize,
}

/// What a connection waits for.
#[derive(Clone, Copy, Debug, Default)]
struct Exchange {
    /// Bytes of the reply that are missing.
    missing: u32,
    /// Time of the request.
    sent: Time,
}

/// The client.
#[derive(Debug)]
pub struct Requests {
    served: Served,
    request: Slice<Buffer>,
    reply: u32,
    /// By the number of the connection.
    exchanges: Vec<Exchange>,
    replies: u64,
    /// Round-trip times in nanoseconds.
    times: Vec<u32>,
    samples: usize,
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
        let (times, samples) = (Vec::with_capacity(options.samples), options.samples);
        Ok(Self {
            served: Served::default(),
            request,
            reply,
            exchanges: Vec::new(),
            replies: 0,
            times,
            samples,
        })
    }

    /// Counts.
    pub fn served(&self) -> Served {
        self.served
    }

    /// Complete replies.
    pub fn replies(&self) -> u64 {
        self.replies
    }

    /// Round-trip times in nanoseconds, in no order.
    pub fn times(&self) -> &[u32] {
        &self.times
    }

    #[inline]
    fn record(&mut self, nanos: u64) {
        let time = u32::try_from(nanos).unwrap_or(u32::MAX);
        if self.times.len() < self.samples {
            self.times.push(time);
        } else if self.samples > 0 {
            let at = (self.replies % self.samples as u64) as usize;
            self.times[at] = time;
        }
    }

    #[inline]
    fn request(&mut self, stack: &mut impl Calls, to: ConnectionId, now: Time) {
        // A connection that was closed meanwhile reports its end.
        if stack.send(to, self.request.clone()).is_ok() {
            self.served.sent += self.request.len() as u64;
            self.exchanges[to.index()] = Exchange { missing: self.reply, sent: now };
        }
    }

    fn start(&mut self, stack: &mut impl Calls, connection: ConnectionId, now: Time) {
        self.served.connections += 1;
        if self.exchanges.len() <= connection.index() {
            self.exchanges.resize(connection.index() + 1, Exchange::default());
        }
        self.request(stack, connection, now);
    }

    #[inline]
    fn data(&mut self, stack: &mut impl Calls, from: ConnectionId, bytes: usize, now: Time) {
        self.served.received += bytes as u64;
        stack.consumed(from, bytes);
        let Some(exchange) = self.exchanges.get_mut(from.index()) else { return };
        exchange.missing = exchange.missing.saturating_sub(bytes as u32);
        if exchange.missing == 0 {
            let sent = exchange.sent;
            self.replies += 1;
            self.record(now.0 - sent.0);
            self.request(stack, from, now);
        }
    }
}

impl<S: Calls> App<S> for Requests {
    #[inline]
    fn event(&mut self, stack: &mut S, event: Event<Buffer>, now: Time) {
        match event {
            Event::Data { connection, data } => self.data(stack, connection, data.len(), now),
            Event::Connected { connection } => self.start(stack, connection, now),
            Event::Finished { connection } => stack.close(connection),
            Event::Closed { reason, .. } => self.served.closed(reason),
            _ => {}
        }
    }
}
