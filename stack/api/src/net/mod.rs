//! A host with the connections, listeners and sockets that its program holds.
//!
//! Calls never block: they return [`Poll::Pending`] and keep the waiter, which is in [`Ends::woken`] after the round in
//! which the call may succeed. One waiter is kept for each direction of a connection. The receive window opens by the
//! bytes that the program took, and only so many bytes are sent as the send buffer takes.
//!
//! The module must not call foreign code (wakers) while it is borrowed.

mod datagram;
mod listener;
mod stream;

use crate::list::Nodes;
use datagram::Socket;
use host::{App, Buffer, BufferPool, Host, PoolLimits, Report};
use listener::Listener;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use slab::Slab;
use stack::tcp::{ConnectionId, ListenerId};
use stack::{Closed, Endpoint, Event, Slice, SocketId, Stack, Time};
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use stream::Stream;

/// Rounds between two looks at the ports' control and at released connections.
const CONTROL_ROUNDS: u32 = 32;
/// Minimum number of rounds without work before a sleep.
const IDLE_ROUNDS: u32 = 256;
/// Time without work before a sleep, in nanoseconds.
const IDLE: u64 = 50_000;
/// Sleep at a time while a host is closed.
const CLOSE_SLEEP: Duration = Duration::from_millis(10);
const NONE: u32 = u32::MAX;

/// Meaning of a number of [`Ends`].
#[derive(Debug)]
enum End<W> {
    Listener(Listener<W>),
    Stream(Stream<W>),
    Socket(Socket<W>),
}

/// Numbers of ends by the index of a connection or socket of the stack.
#[derive(Debug, Default)]
struct Index(Vec<u32>);

impl Index {
    #[inline]
    fn get(&self, at: usize) -> Option<u32> {
        self.0.get(at).copied().filter(|end| *end != NONE)
    }

    fn set(&mut self, at: usize, end: u32) {
        if self.0.len() <= at {
            self.0.resize(at + 1, NONE);
        }
        self.0[at] = end;
    }
}

/// All ends of one host. `W` is the waiter of a call that could not complete.
pub(crate) struct Ends<W> {
    all: Slab<End<W>>,
    /// Received data of all connections.
    data: Nodes<Slice<Buffer>>,
    connections: Index,
    sockets: Index,
    listeners: Vec<(ListenerId, u32)>,
    /// Released connections, by the time of the next look at each.
    released: VecDeque<(Time, ConnectionId)>,
    /// Waiters whose call may succeed now.
    pub(crate) woken: Vec<W>,
    /// Ends a sleep of the host while it is readable.
    waker: Option<Arc<OwnedFd>>,
}

/// A host and its ends.
pub(crate) struct Net<W> {
    pub(crate) host: Host,
    pub(crate) ends: Ends<W>,
    /// Memory for sent bytes that are copied.
    pool: BufferPool,
    round: u32,
    idle_rounds: u32,
    worked_at: Time,
}

impl<W> std::fmt::Debug for Net<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Net")
            .field("host", &self.host)
            .field("ends", &self.ends.all.len())
            .finish_non_exhaustive()
    }
}

/// Keeps a waiter. `clone_from` of a waker is free if both wake the same task.
fn keep<W: Clone>(place: &mut Option<W>, waiter: &W) {
    match place {
        Some(kept) => kept.clone_from(waiter),
        None => *place = Some(waiter.clone()),
    }
}

/// An address of the standard library.
fn address(end: Endpoint) -> SocketAddr {
    SocketAddr::new(end.address.ip(), end.port)
}

/// The reason as an error of the standard library.
fn error(reason: Closed) -> ErrorKind {
    match reason {
        Closed::Normally => ErrorKind::BrokenPipe,
        Closed::Reset => ErrorKind::ConnectionReset,
        Closed::Refused => ErrorKind::ConnectionRefused,
        Closed::TimedOut => ErrorKind::TimedOut,
        Closed::Unreachable => ErrorKind::HostUnreachable,
        Closed::Aborted => ErrorKind::ConnectionAborted,
    }
}

impl<W> Ends<W> {
    fn new(waker: Option<Arc<OwnedFd>>) -> Self {
        Self {
            all: Slab::new(),
            data: Nodes::new(),
            connections: Index::default(),
            sockets: Index::default(),
            listeners: Vec::new(),
            released: VecDeque::new(),
            woken: Vec::new(),
            waker,
        }
    }

    fn insert(&mut self, end: End<W>) -> u32 {
        self.all.insert(end) as u32
    }

    /// The connection with this number, which may be invalid.
    #[inline]
    fn stream(&mut self, end: u32) -> Result<&mut Stream<W>, ErrorKind> {
        match self.all.get_mut(end as usize) {
            Some(End::Stream(stream)) => Ok(stream),
            _ => Err(ErrorKind::InvalidInput),
        }
    }

    fn listener(&mut self, end: u32) -> Result<&mut Listener<W>, ErrorKind> {
        match self.all.get_mut(end as usize) {
            Some(End::Listener(listener)) => Ok(listener),
            _ => Err(ErrorKind::InvalidInput),
        }
    }

    fn socket(&mut self, end: u32) -> Result<&mut Socket<W>, ErrorKind> {
        match self.all.get_mut(end as usize) {
            Some(End::Socket(socket)) => Ok(socket),
            _ => Err(ErrorKind::InvalidInput),
        }
    }

    /// Number of the end of a connection, if it is one of this program.
    #[inline]
    fn of_connection(&self, connection: ConnectionId) -> Option<u32> {
        let end = self.connections.get(connection.index())?;
        matches!(self.all.get(end as usize)?, End::Stream(stream) if stream.is(connection)).then_some(end)
    }

    fn of_socket(&self, socket: SocketId) -> Option<u32> {
        let end = self.sockets.get(socket.index())?;
        matches!(self.all.get(end as usize)?, End::Socket(known) if known.is(socket)).then_some(end)
    }
}

impl<W> App for Ends<W> {
    #[inline]
    fn event(&mut self, stack: &mut Stack<Buffer>, event: Event<Buffer>, _now: Time) {
        match event {
            Event::Data { connection, data } => self.received(stack, connection, data),
            Event::Writable { connection } => self.writable(connection),
            Event::Accepted { connection, listener, remote } => {
                self.accepted(stack, connection, listener, address(remote));
            }
            Event::Connected { connection } => self.connected(connection),
            Event::Finished { connection } => self.finished(connection),
            Event::Closed { connection, reason } => self.closed(connection, reason),
            Event::Datagram { socket, from, data, .. } => self.datagram(socket, address(from), data),
            Event::DatagramLost { socket, error } => self.datagram_lost(socket, error),
            Event::Acknowledged { .. } => {}
        }
    }

    fn wake_fds(&self) -> Vec<BorrowedFd<'_>> {
        self.waker.iter().map(AsFd::as_fd).collect()
    }
}

impl<W: Clone> Net<W> {
    /// Takes over a host. `waker` ends its sleep while it is readable.
    pub(crate) fn new(host: Host, waker: Option<Arc<OwnedFd>>) -> Self {
        let worked_at = host.now();
        let pool = BufferPool::new(PoolLimits::default());
        Self { host, ends: Ends::new(waker), pool, round: 0, idle_rounds: 0, worked_at }
    }

    /// Whether the host may sleep in the next round, if that has no work.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.idle_rounds >= IDLE_ROUNDS
    }

    /// Runs one round. Sleeps at most `limit` if there was nothing to do for a while.
    #[inline]
    pub(crate) fn turn(&mut self, limit: Duration) {
        self.round = self.round.wrapping_add(1);
        if self.round.is_multiple_of(CONTROL_ROUNDS) {
            self.control();
        }
        if self.host.poll(&mut self.ends) {
            self.idle_rounds = 0;
            return;
        }
        // On SMT, a tight poll loop takes cycles from the sibling thread.
        std::hint::spin_loop();
        self.idle_rounds += 1;
        if self.idle_rounds == 1 {
            self.worked_at = self.host.now();
        }
        if self.idle_rounds > IDLE_ROUNDS && !limit.is_zero() {
            self.rest(limit);
        }
    }

    #[cold]
    fn control(&mut self) {
        let now = self.host.now();
        if self.host.is_control_due(now) {
            self.host.control(now);
        }
        self.ends.expire(self.host.stack(), now);
    }

    #[cold]
    fn rest(&mut self, limit: Duration) {
        if self.host.now().0 - self.worked_at.0 > IDLE && self.ends.woken.is_empty() {
            self.host.rest(&mut self.ends, limit);
            self.idle_rounds = 0;
        }
    }

    /// A copy of bytes for sending.
    pub(crate) fn copy(&mut self, bytes: &[u8]) -> Slice<Buffer> {
        let copied = self.pool.fill(bytes.len(), |to| to.copy_from_slice(bytes));
        Slice::new(copied.unwrap_or_else(|| bytes.to_vec().into()))
    }

    /// Releases an end: a listener stops, and its waiting connections are reset; a connection is closed, or reset if
    /// received data was not taken.
    pub(crate) fn release(&mut self, end: u32) {
        let (now, Self { host, ends, .. }) = (self.host.now(), self);
        match ends.all.get(end as usize) {
            Some(End::Stream(_)) => ends.release_stream(host.stack(), end, false, now),
            Some(End::Listener(_)) => ends.release_listener(host.stack(), end, now),
            Some(End::Socket(_)) => ends.release_socket(host.stack(), end, now),
            None => {}
        }
    }

    /// Releases all ends, runs the host until no connection remains, at most `limit`, and closes the ports.
    pub(crate) fn close(mut self, limit: Duration) -> Report {
        let all: Vec<u32> = self.ends.all.iter().map(|(end, _)| end as u32).collect();
        for end in all {
            self.release(end);
        }
        let until = self.host.now().after(limit);
        while self.host.stack().connections().next().is_some() && self.host.now() < until {
            self.turn(CLOSE_SLEEP);
        }
        self.host.close()
    }
}
