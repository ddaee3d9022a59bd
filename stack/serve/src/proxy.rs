//! TCP proxy: each accepted connection is joined with one to another server.
//!
//! Received data is sent on from the buffer in which it arrived, or copied for comparison ([`Forward`]). It is
//! consumed when the other connection took it, so a slow reader closes the window of its sender: a direction of a pair
//! holds at most the receive buffer of one connection and the send buffer of the other. The end of a direction is
//! passed on after its data; an error of one connection resets the other.
//!
//! The module must not read forwarded bytes.

use crate::{Served, Server};
use host::{App, Buffer, BufferPool, Calls, PoolLimits};
use stack::tcp::{ConnectionId, Options};
use stack::{Closed, Endpoint, Event, SendError, Slice, Time};
use std::collections::VecDeque;
use std::time::Duration;

/// Send and receive buffer in bytes of each connection of a proxy.
pub const BUFFER: u32 = 256 << 10;
/// Pairs that one search for idle ones looks at.
const SEARCHED: usize = 4096;
/// Maximum time between two searches.
const SEARCH_INTERVAL: Duration = Duration::from_secs(1);
/// Buffers of each size for copies.
const POOL: PoolLimits = PoolLimits([16_384, 16_384, 1_024, 1_024]);

/// How data passes a proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Forward {
    /// From the buffer in which it arrived.
    #[default]
    Reference,
    /// From a copy, so that its buffer is free at once.
    Copy,
}

/// Settings of a [`Proxy`].
#[derive(Clone, Debug)]
pub struct ProxyOptions {
    /// Server to which connections are opened.
    pub to: Endpoint,
    /// Settings of these connections.
    pub tcp: Options,
    /// Maximum number of pairs; further connections are reset.
    pub connections: u32,
    /// Time after which a pair without data is reset; `None` for no limit.
    pub idle: Option<Duration>,
    /// How data is forwarded.
    pub forward: Forward,
}

/// One connection of a pair.
#[derive(Debug)]
struct End {
    id: ConnectionId,
    /// Data of the other end that waits for send space of this one.
    waiting: VecDeque<Slice<Buffer>>,
    /// Whether the connection is established: before, closing it would end it without its data.
    is_connected: bool,
    /// Whether the peer has finished sending.
    is_finished: bool,
    /// Whether the connection has ended.
    is_gone: bool,
}

impl End {
    fn new(id: ConnectionId, is_connected: bool) -> Self {
        Self { id, waiting: VecDeque::new(), is_connected, is_finished: false, is_gone: false }
    }
}

#[derive(Debug)]
struct Pair {
    /// The accepted connection, and that to the server.
    ends: [End; 2],
    /// Time of the last data.
    active: Time,
}

/// Place of a connection: its pair, and which end it is.
#[derive(Clone, Copy, Debug)]
struct Place {
    id: ConnectionId,
    pair: usize,
    end: usize,
}

/// The proxy.
#[derive(Debug)]
pub struct Proxy {
    options: ProxyOptions,
    pairs: Vec<Option<Pair>>,
    free: Vec<usize>,
    /// By the number of the connection.
    places: Vec<Option<Place>>,
    /// Next pair of the search for idle ones, and the time of the search.
    search: (usize, Time),
    pool: BufferPool,
    served: Served,
}

impl Proxy {
    /// A proxy without connections.
    pub fn new(options: ProxyOptions) -> Self {
        Self {
            options,
            pairs: Vec::new(),
            free: Vec::new(),
            places: Vec::new(),
            search: (0, Time::default()),
            pool: BufferPool::new(POOL),
            served: Served::default(),
        }
    }

    /// Number of pairs.
    fn len(&self) -> usize {
        self.pairs.len() - self.free.len()
    }

    fn accept(&mut self, stack: &mut impl Calls, client: ConnectionId, now: Time) {
        let ProxyOptions { to, tcp, connections, .. } = self.options;
        let has_room = self.len() < connections as usize;
        let server = has_room.then(|| stack.connect(Endpoint::default(), to, tcp, now).ok()).flatten();
        let Some(server) = server else { return stack.abort(client) };
        if self.len() == 0 {
            self.search.1 = now.after(self.interval());
        }
        self.served.connections += 1;
        let pair = Pair { ends: [End::new(client, true), End::new(server, false)], active: now };
        let at = self.free.pop().unwrap_or_else(|| {
            self.pairs.push(None);
            self.pairs.len() - 1
        });
        self.pairs[at] = Some(pair);
        self.place(Place { id: client, pair: at, end: 0 });
        self.place(Place { id: server, pair: at, end: 1 });
    }

    fn place(&mut self, place: Place) {
        let index = place.id.index();
        if self.places.len() <= index {
            self.places.resize(index + 1, None);
        }
        self.places[index] = Some(place);
    }

    /// The pair of a connection, and which end it is.
    #[inline]
    fn find(&mut self, id: ConnectionId) -> Option<(&mut Pair, usize)> {
        let place = (*self.places.get(id.index())?).filter(|place| place.id == id)?;
        Some((self.pairs.get_mut(place.pair)?.as_mut()?, place.end))
    }

    #[inline]
    fn data(&mut self, stack: &mut impl Calls, from: ConnectionId, data: Slice<Buffer>, now: Time) {
        self.served.received += data.len() as u64;
        let data = match self.options.forward {
            Forward::Reference => data,
            Forward::Copy => self.copy(&data),
        };
        let Some((pair, end)) = self.find(from) else { return };
        pair.active = now;
        let (to, len) = (&mut pair.ends[1 - end], data.len());
        if to.waiting.is_empty() && stack.send_space(to.id) >= len {
            // Fails only if the connection ends; its last event follows.
            self.served.sent += if stack.send(to.id, data).is_ok() { len as u64 } else { 0 };
            return stack.consumed(from, len);
        }
        to.waiting.push_back(data);
        self.resume(stack, from, true);
    }

    /// A copy of the data, which is the data itself if there is no memory for a copy.
    fn copy(&mut self, data: &Slice<Buffer>) -> Slice<Buffer> {
        let copy = self.pool.fill(data.len(), |to| data.copy_to(0, to));
        copy.map_or_else(|| data.clone(), Slice::new)
    }

    /// Sends what waits for a connection, or for the other one of its pair, and then its end.
    fn resume(&mut self, stack: &mut impl Calls, id: ConnectionId, is_sender: bool) {
        let Some((pair, end)) = self.find(id) else { return };
        let [from, to] = if is_sender { [end, 1 - end] } else { [1 - end, end] };
        let (mut sent, sender, is_finished) = (0, pair.ends[from].id, pair.ends[from].is_finished);
        let to = &mut pair.ends[to];
        while let Some(data) = to.waiting.front() {
            match stack.send(to.id, data.clone()) {
                Err(SendError::Full) => break,
                // The connection ends; its last event follows.
                Err(SendError::Closed) => {}
                Ok(()) => sent += data.len(),
            }
            stack.consumed(sender, data.len());
            to.waiting.pop_front();
        }
        if is_finished && to.is_connected && to.waiting.is_empty() {
            stack.close(to.id);
        }
        self.served.sent += sent as u64;
    }

    fn connected(&mut self, stack: &mut impl Calls, id: ConnectionId) {
        if let Some((pair, end)) = self.find(id) {
            pair.ends[end].is_connected = true;
            self.resume(stack, id, false);
        }
    }

    fn finished(&mut self, stack: &mut impl Calls, id: ConnectionId) {
        if let Some((pair, end)) = self.find(id) {
            pair.ends[end].is_finished = true;
            self.resume(stack, id, true);
        }
    }

    /// Removes a connection. An error of it ends the other one.
    fn closed(&mut self, stack: &mut impl Calls, id: ConnectionId, reason: Closed) {
        let Some((pair, end)) = self.find(id) else { return };
        pair.ends[end].is_gone = true;
        let (other, is_last) = (pair.ends[1 - end].id, pair.ends[1 - end].is_gone);
        let place = self.places.get_mut(id.index()).and_then(Option::take);
        if end == 0 {
            self.served.closed(reason);
        }
        if is_last && let Some(place) = place {
            self.pairs[place.pair] = None;
            self.free.push(place.pair);
        } else if reason != Closed::Normally {
            stack.abort(other);
        }
    }

    /// Time between two searches for idle pairs.
    fn interval(&self) -> Duration {
        self.options.idle.map_or(SEARCH_INTERVAL, |idle| SEARCH_INTERVAL.min(idle / 4))
    }

    /// Time of the next search; [`Time::NEVER`] if no pair can be idle.
    fn search_at(&self) -> Time {
        if self.options.idle.is_some() && self.len() > 0 { self.search.1 } else { Time::NEVER }
    }

    /// Resets idle pairs among the next ones.
    fn search(&mut self, stack: &mut impl Calls, idle: Duration, now: Time) {
        for _ in 0..SEARCHED.min(self.pairs.len()) {
            self.search.0 = (self.search.0 + 1) % self.pairs.len();
            if let Some(pair) = &self.pairs[self.search.0]
                && pair.active.after(idle) <= now
            {
                // The events of the first end the second.
                let end = pair.ends.iter().find(|end| !end.is_gone);
                if let Some(end) = end {
                    stack.abort(end.id);
                }
            }
        }
    }
}

impl Server for Proxy {
    const TCP_PORT: u16 = 8080;

    fn served(&self) -> Served {
        self.served
    }
}

impl<S: Calls> App<S> for Proxy {
    #[inline]
    fn event(&mut self, stack: &mut S, event: Event<Buffer>, now: Time) {
        match event {
            Event::Data { connection, data } => self.data(stack, connection, data, now),
            Event::Accepted { connection, .. } => self.accept(stack, connection, now),
            Event::Connected { connection } => self.connected(stack, connection),
            Event::Writable { connection } => self.resume(stack, connection, false),
            Event::Finished { connection } => self.finished(stack, connection),
            Event::Closed { connection, reason } => self.closed(stack, connection, reason),
            _ => {}
        }
    }

    fn poll(&mut self, stack: &mut S, now: Time) -> bool {
        if self.search_at() > now {
            return false;
        }
        if let Some(idle) = self.options.idle {
            self.search(stack, idle, now);
        }
        self.search.1 = now.after(self.interval());
        true
    }

    fn deadline(&self) -> Time {
        self.search_at()
    }
}
