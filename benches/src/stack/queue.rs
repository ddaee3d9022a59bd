//! Callbacks against the completion queue, for connections of few and of many messages: an echo server over vhost-user,
//! both ends on one thread.

use anyhow::{Result, bail};
use api::queue::Queue;
use counted::pair;
use host::{App, Buffer, Host};
use measure::Histogram;
use stack::tcp::{ConnectionId, Options};
use stack::{Endpoint, Event, Slice, Stack, Time};
use std::time::{Duration, Instant};

const SERVER: Endpoint = Endpoint::new(pair::SERVER, 7);
const MESSAGE: usize = 64;
const LIMIT: Duration = Duration::from_mins(1);

/// Echoes data and closes after the peer.
#[inline]
fn echo(stack: &mut Stack<Buffer>, event: Event<Buffer>) {
    match event {
        Event::Data { connection, data } => {
            let length = data.len();
            // The peer waits for each reply, so the send buffer has space.
            let _ = stack.send(connection, data);
            stack.consumed(connection, length);
        }
        Event::Finished { connection } => stack.close(connection),
        _ => {}
    }
}

struct Callbacks;

impl App for Callbacks {
    #[inline]
    fn event(&mut self, stack: &mut Stack<Buffer>, event: Event<Buffer>, _now: Time) {
        echo(stack, event);
    }
}

/// The server, with one of the interfaces.
enum Server {
    Callbacks(Host),
    Queue(Queue, usize),
}

impl Server {
    /// Runs until all requests that arrived are answered.
    #[inline(never)]
    fn serve(&mut self) {
        match self {
            Self::Callbacks(host) => while host.poll(&mut Callbacks) {},
            Self::Queue(queue, batch) => {
                while queue.wait(*batch, Duration::ZERO) > 0 {
                    while let Some(completion) = queue.pop() {
                        echo(queue.stack(), completion.event);
                    }
                }
            }
        }
    }
}

/// Opens a new connection whenever one has exchanged its messages.
struct Client {
    message: Slice<Buffer>,
    /// Messages per connection.
    messages: u32,
    /// Messages that are left, by the number of the connection.
    left: Vec<u32>,
    replies: u64,
}

impl Client {
    fn new(messages: u32) -> Self {
        let message = Slice::new(Buffer::from(vec![7; MESSAGE])).summed();
        Self { message, messages, left: Vec::new(), replies: 0 }
    }

    fn open(stack: &mut Stack<Buffer>, now: Time) {
        let options = Options { no_delay: true, time_wait: Duration::ZERO, ..Options::default() };
        if let Err(error) = stack.connect(Endpoint::default(), SERVER, options, now) {
            eprintln!("cannot connect: {error}");
        }
    }

    fn request(&mut self, stack: &mut Stack<Buffer>, to: ConnectionId) {
        let left = &mut self.left[to.index()];
        if *left == 0 {
            return stack.close(to);
        }
        *left -= 1;
        let _ = stack.send(to, self.message.clone());
    }
}

impl App for Client {
    fn event(&mut self, stack: &mut Stack<Buffer>, event: Event<Buffer>, now: Time) {
        match event {
            Event::Connected { connection } => {
                let at = connection.index();
                self.left.resize(self.left.len().max(at + 1), 0);
                self.left[at] = self.messages;
                self.request(stack, connection);
            }
            Event::Data { connection, data } => {
                stack.consumed(connection, data.len());
                self.replies += 1;
                self.request(stack, connection);
            }
            Event::Closed { .. } => Self::open(stack, now),
            _ => {}
        }
    }
}

/// Client and listening server, connected.
fn ends() -> Result<(Host, Host)> {
    let (mut host, peer) = pair::ends()?;
    host.stack().listen(SERVER, Options { no_delay: true, ..Options::default() })?;
    Ok((peer, host))
}

/// Nanoseconds per request in the server, and the number of all requests. `variant` is the batch of the queue; `None`
/// for callbacks.
///
/// # Errors
/// If there are too few replies within a minute.
pub fn measure(variant: Option<usize>, messages: u32, connections: u64, requests: u64) -> Result<(f64, u64)> {
    let (mut peer, host) = ends()?;
    let mut server = match variant {
        None => Server::Callbacks(host),
        Some(batch) => Server::Queue(Queue::new(host), batch),
    };
    let mut client = Client::new(messages);
    let now = peer.now();
    (0..connections).for_each(|_| Client::open(peer.stack(), now));
    let begin = Instant::now();
    let mut run = |until: u64| -> Result<(u64, Duration)> {
        let mut served = Duration::ZERO;
        while client.replies < until {
            while peer.poll(&mut client) {}
            let start = Instant::now();
            server.serve();
            served += start.elapsed();
            if begin.elapsed() > LIMIT {
                bail!("only {} replies in {LIMIT:?}", client.replies);
            }
        }
        Ok((client.replies, served))
    };
    let (before, _) = run(requests / 10)?;
    let (after, served) = run(before + requests)?;
    Ok((served.as_nanos() as f64 / (after - before) as f64, after))
}

/// Round trips of one connection that has one request on its way.
#[derive(Clone, Copy, Debug)]
pub struct RoundTrips {
    /// Median in nanoseconds.
    pub p50: f64,
    /// 99th percentile in nanoseconds.
    pub p99: f64,
    /// Completions of a batch.
    pub batch: f64,
}

/// Round trips to a server on the completion queue with batches of at most this length, after a tenth of the requests.
///
/// # Errors
/// As [`measure()`].
pub fn idle(batch: usize, requests: u64) -> Result<RoundTrips> {
    let (mut peer, host) = ends()?;
    let (mut queue, mut client) = (Queue::new(host), Client::new(u32::MAX));
    let now = peer.now();
    Client::open(peer.stack(), now);
    let (mut times, mut batches, mut completions) = (Histogram::default(), 0_u64, 0);
    let (begin, warm_up) = (Instant::now(), requests / 10);
    while client.replies < warm_up + requests {
        let (start, before) = (Instant::now(), client.replies);
        while client.replies == before {
            while peer.poll(&mut client) {}
            while let found @ 1.. = queue.wait(batch, Duration::ZERO) {
                (batches, completions) = (batches + 1, completions + found as u64);
                while let Some(completion) = queue.pop() {
                    echo(queue.stack(), completion.event);
                }
            }
            if begin.elapsed() > LIMIT {
                bail!("only {} replies in {LIMIT:?}", client.replies);
            }
        }
        if before >= warm_up {
            times.record(start.elapsed().as_nanos() as u64);
        }
    }
    let times = times.summary();
    let batch = completions as f64 / batches as f64;
    Ok(RoundTrips { p50: times.p50 as f64, p99: times.p99 as f64, batch })
}
