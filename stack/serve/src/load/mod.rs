//! Client that loads a server: closed loop, open loop, short connections, or many of them.
//!
//! A run has phases: all connections are opened, a workload that needs it fills the server, the warm-up and the rounds
//! follow, requests without a reply get some time, and the connections are closed. Each request is answered, failed for
//! a named reason, or outstanding at the end ([`RequestCounts`]).
//!
//! A connection needs 32 bytes here, and a request on its way 16. The client must not allocate for a request once its
//! tables have grown, and each call does a bounded amount of work.

mod arrivals;
mod connections;
mod exchange;
#[cfg(any(test, feature = "fuzz"))]
mod fuzz;
mod input;
mod join;
mod meter;
mod opener;
mod options;
mod pending;
mod phases;
mod results;
mod series;
mod table;
mod team;
#[cfg(test)]
mod tests;
mod texts;
mod workload;

pub use arrivals::Spacing;
#[cfg(any(test, feature = "fuzz"))]
#[doc(hidden)]
pub use fuzz::fuzz_replies;
pub use input::{Framing, Input, Reply, WrongReply};
pub use options::{LoadOptions, Mode};
pub use results::{ConnectionCounts, Failure, Failures, Point, RequestCounts, Results, Round, Series};
pub use team::Team;
pub use workload::{EchoLoad, HttpLoad, HttpLoadError, Keys, KvLoad, KvOptions, Workload};

use arrivals::Arrivals;
use host::{App, Buffer, Calls};
use measure::Histogram;
use meter::Meter;
use opener::Opener;
use pending::Pending;
use stack::tcp::ConnectionId;
use stack::{ConnectError, Event, Stack, Time};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use table::Table;
use team::Member;
use texts::Texts;

/// Connections opened, requests sent, or connections closed by one call.
const BATCH: usize = 256;
/// Time for replies after the last round.
const DRAIN: Duration = Duration::from_secs(1);
/// Time for the server to close connections after that.
const CLOSE: Duration = Duration::from_secs(2);
/// Interval at which a worker looks whether the others are ready.
const WAIT: Duration = Duration::from_millis(1);

/// Reason why a run cannot begin, or ended before its last round.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// The first attempt to connect failed.
    #[error("cannot connect to the server: {0}")]
    Connect(Failure),
    /// No attempt to connect was answered.
    #[error("cannot connect to the server: no answer within {0:?}")]
    NoAnswer(Duration),
    /// Neither a connection was established nor a reply received.
    #[error("the server does not reply: nothing received within {0:?}")]
    NoReply(Duration),
    /// The requests on their way do not fit the send buffer.
    #[error("{depth} requests of {bytes} bytes exceed the send buffer of {limit} bytes")]
    TooLong {
        /// Bytes of a request.
        bytes: usize,
        /// Requests on their way on one connection.
        depth: u16,
        /// Send buffer in bytes.
        limit: u32,
    },
    /// The stack has no route to the server.
    #[error("no route to the server")]
    NoRoute,
    /// The port stopped carrying packets.
    #[error("port {name} stopped carrying packets: {state}")]
    PortLost {
        /// Name of the port.
        name: String,
        /// Its state.
        state: String,
    },
}

/// Part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Connections are opened.
    Opening,
    /// The requests of [`Workload::fill`] are sent.
    Filling,
    /// Warm-up and rounds.
    Running,
    /// Waits for replies.
    Draining,
    /// Closes the connections.
    Closing,
    /// The run has ended.
    Done,
}

/// State of a run, for display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadProgress {
    /// Part of the run.
    pub phase: Phase,
    /// Connections established.
    pub open: u64,
    /// Requests answered within the rounds.
    pub answered: u64,
    /// Time since the first round began; zero before.
    pub passed: Duration,
}

/// The client.
#[derive(Debug)]
pub struct Load<W> {
    workload: W,
    options: LoadOptions,
    table: Table,
    pending: Pending,
    opener: Opener,
    /// Open loop: due times.
    arrivals: Option<Arrivals>,
    /// Closed loop: connections between a reply and the next request, by the time of the latter.
    thinking: VecDeque<(Time, ConnectionId)>,
    texts: Texts,
    meter: Meter,
    phase: Phase,
    connections: Connections,
    /// Whether all requests of [`Workload::fill`] were sent.
    is_filled: bool,
    /// Time of the last connection, reply, or request after a time without any.
    progress: Time,
    /// Time at which the phase ends.
    until: Time,
    /// Results at the end of the rounds, before connections are closed.
    results: Option<Box<Results>>,
    error: Option<LoadError>,
    member: Member,
}

/// Numbers of connections.
#[derive(Debug, Default)]
struct Connections {
    /// Established and not closed here.
    open: u64,
    /// Closed here and not ended.
    closing: u64,
    /// Looked at to close them at the end of the run.
    visited: usize,
}

impl<W: Workload> Load<W> {
    /// A run that begins with the first call of [`App::poll`] and sets `stop` at its end.
    ///
    /// # Errors
    /// [`LoadError::TooLong`] if the requests on their way do not fit the send buffer of a connection.
    pub fn new(
        workload: W,
        options: LoadOptions,
        stop: Arc<AtomicBool>,
        stack: &Stack<Buffer>,
        now: Time,
    ) -> Result<Self, LoadError> {
        Self::of_team(workload, options, Team::new(1, stop), stack, now)
    }

    /// A worker's part of a run, with the worker's connections and rates as `options`. Otherwise as [`Load::new`].
    ///
    /// # Errors
    /// Those of [`Load::new`].
    pub fn of_team(
        workload: W,
        options: LoadOptions,
        team: Arc<Team>,
        stack: &Stack<Buffer>,
        now: Time,
    ) -> Result<Self, LoadError> {
        let (bytes, limit) = (workload.longest(), stack.config().limits.send_buffer);
        if bytes * usize::from(options.depth) > limit as usize {
            return Err(LoadError::TooLong { bytes, depth: options.depth, limit });
        }
        Ok(Self {
            workload,
            table: Table::new(options.connections),
            pending: Pending::default(),
            opener: Opener::new(&options, stack.config().affinity.clone()),
            arrivals: None,
            thinking: VecDeque::new(),
            texts: Texts::default(),
            meter: Meter::new(&options, now),
            phase: Phase::Opening,
            connections: Connections::default(),
            is_filled: false,
            progress: now,
            until: Time::NEVER,
            results: None,
            error: None,
            member: Member::new(team),
            options,
        })
    }

    /// Requests answered within the rounds so far.
    pub fn answered(&self) -> u64 {
        self.meter.requests().answered
    }

    /// Latencies of the rounds so far, in nanoseconds.
    pub fn latency(&self) -> Histogram {
        self.meter.latency()
    }

    /// Reason why the run ended early.
    pub fn error(&self) -> Option<&LoadError> {
        self.error.as_ref()
    }

    /// State of the run.
    pub fn progress(&self, now: Time) -> LoadProgress {
        let passed = Duration::from_nanos(now.0.saturating_sub(self.meter.begin().0));
        LoadProgress { phase: self.phase, open: self.connections.open, answered: self.answered(), passed }
    }

    /// Results up to now.
    pub fn results(&self, now: Time) -> Results {
        if let Some(results) = &self.results {
            return (**results).clone();
        }
        let end = now.min(self.meter.end());
        let mut arrivals = self.arrivals.clone();
        let unsent = arrivals.as_mut().map_or(0, |arrivals| arrivals.drain(self.meter.begin(), end));
        let outstanding = self.table.iter().flat_map(|connection| self.pending.list(connection.last));
        let bytes = self.table.bytes() + self.pending.bytes();
        let mut results = self.meter.results(outstanding.map(|request| request.due), unsent, bytes, now);
        results.is_complete &= self.error.is_none();
        results.connections.connecting = u64::from(self.opener.connecting);
        results.connections.open = self.connections.open;
        results
    }

    fn fail(&mut self, error: LoadError) {
        self.error.get_or_insert(error);
        self.finish();
    }

    fn finish(&mut self) {
        if std::mem::replace(&mut self.phase, Phase::Done) != Phase::Done {
            self.member.end(self.error.is_some());
        }
    }

    /// Time of the next work that no event announces.
    #[inline]
    fn due_at(&self) -> Time {
        let request = match (self.phase, &self.arrivals) {
            _ if self.table.is_idle() => Time::NEVER,
            (Phase::Filling, _) if !self.is_filled => Time::default(),
            (Phase::Running, None) => Time::default(),
            (Phase::Running, Some(arrivals)) => arrivals.peek(),
            _ => Time::NEVER,
        };
        let resume = self.thinking.front().map_or(Time::NEVER, |(due, _)| *due);
        let of_run = self.phase_deadline().min(request).min(resume);
        if self.may_open() { of_run.min(self.opener.deadline()).min(self.silence()) } else { of_run }
    }
}

impl<W: Workload, S: Calls> App<S> for Load<W> {
    #[inline]
    fn event(&mut self, stack: &mut S, event: Event<Buffer>, now: Time) {
        match event {
            Event::Data { connection, data } => self.data(stack, connection, &data, now),
            Event::Connected { connection } => self.connected(connection, now),
            Event::Finished { connection } => self.finished(stack, connection, now),
            Event::Closed { connection, reason } => self.closed(connection, reason, now),
            _ => {}
        }
    }

    #[inline]
    fn poll(&mut self, stack: &mut S, now: Time) -> bool {
        if self.due_at() > now {
            return false;
        }
        if self.may_open() {
            self.open_some(stack, now);
        }
        self.resume(now);
        self.dispatch(stack, now);
        self.step(stack, now);
        true
    }

    #[inline]
    fn deadline(&self) -> Time {
        self.due_at()
    }

    fn port_lost(&mut self, name: &str, state: &str) {
        self.fail(LoadError::PortLost { name: name.to_owned(), state: state.to_owned() });
    }

    fn connect_failed(&mut self, _: &mut S, connection: ConnectionId, error: ConnectError, now: Time) {
        self.not_opened(connection, error, now);
    }
}
