//! HTTP/1.1 server for the files of a directory (RFC 9110, RFC 9112).
//!
//! Small files are kept in memory with stored sums, and sent without a copy. Larger files are read in blocks as the
//! client acknowledges others, and sent from the memory into which the disk wrote them. One thread does both and never
//! waits for a disk, except in [`files::Mode::Copy`].
//!
//! The server must not send a file outside of the directory, and must not hold more for clients than its limits
//! ([`HttpLimits`], [`HttpTimes`], [`FileLimits`]).

mod cache;
mod clock;
mod conditional;
mod connection;
mod content;
mod counts;
mod entry;
mod exchange;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub mod fuzz;
mod head;
mod limits;
mod lookup;
mod path;
mod range;
mod request;
mod status;
mod stream;
mod times;

pub use counts::HttpCounts;
pub use limits::{Bodies, FileLimits, HttpLimits, HttpOptions, HttpTimes, RECEIVE_BUFFER};

use crate::{Served, Server};
use cache::Cache;
use clock::WallClock;
use connection::{Connection, State};
use exchange::Turn;
use files::{BlockPool, Done, Files, FilesError};
use host::{App, Buffer, BufferPool, Calls, PoolLimits};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use stack::tcp::ConnectionId;
use stack::{Event, Time};
use std::collections::VecDeque;
use std::path::PathBuf;

/// Maximum number of connections whose time limits are looked at in one round.
const CHECKS: usize = 256;

/// Purpose of a request to the files.
#[derive(Clone, Copy, Debug)]
enum Use {
    Open,
    /// The whole file of this length, for the cache.
    File(u64),
    /// The block at this offset of a large file.
    Block(u64),
}

/// The connection for which files are requested.
#[derive(Clone, Copy, Debug)]
struct Token {
    index: u32,
    serial: u32,
    purpose: Use,
}

/// State that all connections share.
#[derive(Debug)]
struct Shared {
    limits: HttpLimits,
    times: HttpTimes,
    memory: FileLimits,
    bodies: Bodies,
    files: Files<Token>,
    blocks: BlockPool,
    cache: Cache,
    /// Memory of heads.
    heads: BufferPool,
    clock: WallClock,
    /// Connections that wait for a block, in order.
    waiting: VecDeque<ConnectionId>,
    /// Connections that have used their turn.
    more: VecDeque<ConnectionId>,
    /// Path of the current request.
    path: Vec<u8>,
    /// Head of the current response.
    text: Vec<u8>,
    served: Served,
    counts: HttpCounts,
}

/// The HTTP server.
#[derive(Debug)]
pub struct Http {
    shared: Shared,
    /// By the index of the connection.
    connections: Vec<Option<Box<Connection>>>,
    open: u32,
    serial: u32,
    /// Connections by the time of their next check; each has one entry.
    checks: VecDeque<(Time, ConnectionId)>,
}

/// Reason why [`Http::new`] failed.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The directory cannot be opened.
    #[error("{}: {error}", directory.display())]
    Directory {
        /// The directory.
        directory: PathBuf,
        /// Error of the kernel.
        error: Errno,
    },
    /// Files cannot be read in the configured mode.
    #[error(transparent)]
    Files(#[from] FilesError),
}

impl Http {
    /// A server for a directory.
    ///
    /// # Errors
    /// If the directory cannot be opened, or the kernel has no `io_uring` and the mode needs it.
    pub fn new(options: HttpOptions) -> Result<Self, HttpError> {
        let HttpOptions { directory, files, submission, bodies, limits, times, memory } = options;
        let root = files::directory(&directory).map_err(|error| HttpError::Directory { directory, error })?;
        let shared = Shared {
            files: Files::new(root, files, submission)?,
            blocks: BlockPool::new(memory.blocks, memory.block),
            cache: Cache::new(&memory),
            heads: BufferPool::new(PoolLimits::default()),
            clock: WallClock::new(),
            waiting: VecDeque::new(),
            more: VecDeque::new(),
            path: Vec::new(),
            text: Vec::new(),
            served: Served::default(),
            counts: HttpCounts::default(),
            limits,
            times,
            memory,
            bodies,
        };
        Ok(Self { shared, connections: Vec::new(), open: 0, serial: 0, checks: VecDeque::new() })
    }

    /// Counters.
    pub fn counts(&self) -> HttpCounts {
        let Cache { hits, misses, .. } = self.shared.cache;
        HttpCounts { cache_hits: hits, cache_misses: misses, ..self.shared.counts }
    }

    /// Why the kernel refused the thread of [`files::Submission::Thread`], if it was requested.
    pub fn refused(&self) -> Option<&std::io::Error> {
        self.shared.files.refused()
    }

    /// Runs `act` for a connection that exists.
    fn with<S: Calls>(
        &mut self,
        stack: &mut S,
        now: Time,
        id: ConnectionId,
        act: impl FnOnce(&mut Turn<'_, S>),
    ) {
        let Self { shared, connections, .. } = self;
        let known = connections.get_mut(id.index()).and_then(Option::as_mut);
        let Some(c) = known.filter(|c| c.id == id) else { return };
        // Others that wait for a block have precedence.
        let quota = if shared.waiting.is_empty() { usize::MAX } else { 0 };
        act(&mut Turn { stack, shared, c, now, quota });
    }

    fn accept(&mut self, stack: &mut impl Calls, id: ConnectionId, now: Time) {
        if self.open >= self.shared.limits.connections {
            self.shared.counts.over_limit += 1;
            return stack.abort(id);
        }
        self.shared.served.connections += 1;
        self.open += 1;
        self.serial = self.serial.wrapping_add(1);
        if self.connections.len() <= id.index() {
            self.connections.resize_with(id.index() + 1, || None);
        }
        self.connections[id.index()] = Some(Box::new(Connection::new(id, self.serial, now)));
        self.checks.push_back((now.after(times::INTERVAL), id));
    }

    /// Removes a connection and takes back its blocks.
    fn remove(&mut self, id: ConnectionId) {
        let slot = self.connections.get_mut(id.index());
        let Some(c) = slot.and_then(|slot| slot.take_if(|c| c.id == id)) else { return };
        self.open -= 1;
        c.held.into_iter().for_each(|(_, block)| self.shared.blocks.put(block));
        if let State::Stream(stream) = c.state {
            stream.into_blocks().for_each(|block| self.shared.blocks.put(block));
        }
    }

    /// Connection of a token, if it still exists.
    fn owner(&self, token: Token) -> Option<ConnectionId> {
        let c = self.connections.get(token.index as usize)?.as_ref()?;
        (c.serial == token.serial).then_some(c.id)
    }

    /// Handles a result of the files.
    fn done(&mut self, stack: &mut impl Calls, done: Done<Token>, now: Time) {
        match done {
            Done::Opened(token, result) => {
                if let Some(id) = self.owner(token) {
                    self.with(stack, now, id, |turn| turn.opened(result));
                }
            }
            Done::Read(token, block, result) => match (token.purpose, self.owner(token)) {
                (Use::Block(offset), Some(id)) => {
                    self.with(stack, now, id, |turn| turn.read_done(offset, block, result));
                }
                (Use::File(len), Some(id)) => {
                    self.with(stack, now, id, |turn| turn.loaded(len, &block, result));
                }
                (Use::File(len), None) => self.shared.cache.release(len),
                (Use::Block(_) | Use::Open, _) => self.shared.blocks.put(block),
            },
            // This server sends over its own stack.
            Done::Sent(_, block, _) => self.shared.blocks.put(block),
        }
    }

    /// Gives each waiting connection its turn. Returns whether there was one.
    fn resume(&mut self, stack: &mut impl Calls, now: Time) -> bool {
        let turns = self.shared.more.len();
        for _ in 0..turns {
            let Some(id) = self.shared.more.pop_front() else { break };
            self.with(stack, now, id, |turn| {
                turn.c.is_queued = false;
                turn.advance();
            });
        }
        let (waiting, mut resumed) = (self.shared.waiting.len(), turns);
        for _ in 0..waiting.min(self.shared.blocks.available()) {
            let Some(id) = self.shared.waiting.pop_front() else { break };
            let before = self.shared.blocks.available();
            self.with(stack, now, id, |turn| {
                (turn.c.is_queued, turn.quota) = (false, 1);
                turn.advance();
            });
            resumed += usize::from(self.shared.blocks.available() != before);
        }
        resumed > 0
    }

    /// Looks at the time limits that are due.
    fn check(&mut self, stack: &mut impl Calls, now: Time) {
        for _ in 0..CHECKS {
            let Some((_, id)) = self.checks.pop_front_if(|(at, _)| *at <= now) else { return };
            self.with(stack, now, id, |turn| {
                turn.check();
            });
            if self.connections.get(id.index()).is_some_and(|c| c.as_ref().is_some_and(|c| c.id == id)) {
                self.checks.push_back((now.after(times::INTERVAL), id));
            }
        }
    }
}

impl Server for Http {
    const TCP_PORT: u16 = 80;

    fn served(&self) -> Served {
        self.shared.served
    }

    fn named(&self) -> Vec<(&'static str, u64)> {
        self.counts().named().collect()
    }

    fn meanings() -> Vec<(&'static str, &'static str)> {
        HttpCounts::meanings().collect()
    }
}

impl<S: Calls> App<S> for Http {
    #[inline]
    fn event(&mut self, stack: &mut S, event: Event<Buffer>, now: Time) {
        self.shared.clock.update(now);
        match event {
            Event::Data { connection, data } => {
                self.shared.served.received += data.len() as u64;
                self.with(stack, now, connection, |turn| {
                    if turn.c.input.rest().is_empty() && matches!(turn.c.state, State::Head) {
                        turn.c.since = now;
                    }
                    turn.c.input.push(data.len(), |to| data.copy_to(0, to));
                    turn.advance();
                });
            }
            Event::Acknowledged { connection, bytes, .. } => self.with(stack, now, connection, |turn| {
                turn.c.progress.acked += u64::from(bytes);
                turn.advance();
            }),
            Event::Accepted { connection, .. } => self.accept(stack, connection, now),
            Event::Finished { connection } => self.with(stack, now, connection, |turn| {
                turn.c.is_finished = true;
                turn.advance();
            }),
            Event::Closed { connection, reason } => {
                self.remove(connection);
                self.shared.served.closed(reason);
            }
            _ => {}
        }
    }

    fn poll(&mut self, stack: &mut S, now: Time) -> bool {
        self.shared.clock.update(now);
        self.check(stack, now);
        let mut worked = false;
        while let Some(done) = self.shared.files.next_done() {
            self.done(stack, done, now);
            worked = true;
        }
        worked |= self.resume(stack, now);
        self.shared.files.submit();
        worked
    }

    fn wake_fds(&self) -> Vec<BorrowedFd<'_>> {
        self.shared.files.wake_fd().into_iter().collect()
    }
}
