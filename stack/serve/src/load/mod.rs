//! Client that loads a server: closed loop, open loop, short connections, or many of them.
//!
//! A run has phases: all connections are opened, a workload that needs it fills the server, the warm-up and the rounds
//! follow, requests without a reply get some time, and the connections are closed. Each request is answered, failed for
//! a named reason, or outstanding at the end ([`RequestCounts`]).
//!
//! A connection needs 32 bytes here, and a request on its way 16. The client must not allocate for a request once its
//! tables have grown, and each call does a bounded amount of work.

mod arrivals;
mod input;
mod meter;
mod opener;
mod options;
mod pending;
mod results;
mod series;
mod table;
#[cfg(test)]
mod tests;
mod workload;

pub use arrivals::Spacing;
pub use input::{Framing, Input, Reply, WrongReply};
pub use opener::MAX_CONNECTING;
pub use options::{LoadOptions, Mode};
pub use results::{ConnectionCounts, Failure, Failures, Point, RequestCounts, Results, Round, Series};
pub use workload::{EchoLoad, HttpLoad, HttpLoadError, Keys, KvLoad, KvOptions, Workload};

use arrivals::Arrivals;
use host::{App, Buffer};
use measure::Histogram;
use meter::Meter;
use opener::{Opened, Opener};
use pending::Pending;
use stack::tcp::ConnectionId;
use stack::{Closed, Event, Slice, Stack, Time};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use table::{State, Table};

/// Connections opened, requests sent, or connections closed by one call.
const BATCH: usize = 256;
/// Most connections with an incomplete line or head of a reply.
const MAX_PARTIAL: usize = 4096;
/// Time for replies after the last round.
const DRAIN: Duration = Duration::from_secs(1);
/// Time for the server to close connections after that.
const CLOSE: Duration = Duration::from_secs(2);

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
    /// Incomplete lines and heads of replies, by number of connection.
    partial: HashMap<u32, Vec<u8>>,
    /// Text of the segment being read.
    text: Vec<u8>,
    meter: Meter,
    phase: Phase,
    /// Connections that are established and not closed here.
    open: u64,
    /// Connections that were closed here and have not ended.
    closing: u64,
    /// Whether all requests of [`Workload::fill`] were sent.
    is_filled: bool,
    /// Time of the last connection, reply, or request after a time without any.
    progress: Time,
    /// Number of connections that were looked at to close them.
    closed: usize,
    /// Time at which the phase ends.
    until: Time,
    /// Results at the end of the rounds, before connections are closed.
    results: Option<Box<Results>>,
    error: Option<LoadError>,
    stop: Arc<AtomicBool>,
}

impl<W: Workload> Load<W> {
    /// A run that begins with the first call of [`App::advance`] and sets `stop` at its end.
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
        let (bytes, limit) = (workload.longest(), stack.config().limits.send_buffer);
        if bytes * usize::from(options.depth) > limit as usize {
            return Err(LoadError::TooLong { bytes, depth: options.depth, limit });
        }
        Ok(Self {
            workload,
            table: Table::new(options.connections),
            pending: Pending::default(),
            opener: Opener::new(&options),
            arrivals: None,
            thinking: VecDeque::new(),
            partial: HashMap::new(),
            text: Vec::new(),
            meter: Meter::new(&options, now),
            phase: Phase::Opening,
            open: 0,
            closing: 0,
            is_filled: false,
            progress: now,
            closed: 0,
            until: Time::NEVER,
            results: None,
            error: None,
            stop,
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
        LoadProgress { phase: self.phase, open: self.open, answered: self.answered(), passed }
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
        results.connections.open = self.open;
        results
    }

    fn fail(&mut self, error: LoadError) {
        self.error.get_or_insert(error);
        self.finish();
    }

    fn finish(&mut self) {
        self.phase = Phase::Done;
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Opens connections that are wanted.
    fn open_some(&mut self, stack: &mut Stack<Buffer>, now: Time) {
        for _ in 0..BATCH {
            if self.opener.deadline() > now {
                return;
            }
            match self.opener.open(stack, now) {
                Opened::Connecting(id) => {
                    self.meter.connections.attempted += 1;
                    if self.pending.len() == 0 {
                        self.progress = now;
                    }
                    let connection = self.table.insert(id);
                    // The time of the attempt.
                    self.pending.push(&mut connection.last, now, 0);
                }
                Opened::Later => return,
                Opened::NoRoute => return self.fail(LoadError::NoRoute),
            }
        }
    }

    /// Queues connections whose time between reply and request has passed.
    fn resume(&mut self, now: Time) {
        while let Some((_, id)) = self.thinking.pop_front_if(|(due, _)| *due <= now) {
            self.table.enqueue(id);
        }
    }

    /// Whether a request is due, and since when.
    #[inline]
    fn due(&self, now: Time) -> Option<Time> {
        match (self.phase, &self.arrivals) {
            (Phase::Filling, _) => (!self.is_filled).then_some(now),
            (Phase::Running, None) => Some(now),
            (Phase::Running, Some(arrivals)) => Some(arrivals.peek()).filter(|due| *due <= now),
            _ => None,
        }
    }

    /// Sends requests that are due on connections that may send.
    fn dispatch(&mut self, stack: &mut Stack<Buffer>, now: Time) {
        for _ in 0..BATCH {
            let Some(due) = self.due(now) else { return };
            let Some(connection) = self.table.dequeue() else { return };
            let is_free = connection.state == State::Open && connection.outstanding < self.options.depth;
            let id = connection.id;
            if is_free && (!self.send(stack, id, due, now) || self.options.depth > 1) {
                self.table.enqueue(id);
            }
        }
    }

    /// Sends a request. Returns whether it was sent.
    #[inline]
    fn send(&mut self, stack: &mut Stack<Buffer>, id: ConnectionId, due: Time, now: Time) -> bool {
        let Some(connection) = self.table.get_mut(id) else { return false };
        let mut sent = true;
        let mut send = |data: Slice<Buffer>| sent &= stack.send(id, data).is_ok();
        let tag = if self.phase == Phase::Filling {
            match self.workload.fill(&mut send) {
                Some(tag) => tag,
                None => {
                    self.is_filled = true;
                    return false;
                }
            }
        } else {
            self.workload.request(&mut send)
        };
        // The connection has ended and its last event follows.
        if !sent {
            return false;
        }
        if self.pending.len() == 0 {
            self.progress = now;
        }
        self.pending.push(&mut connection.last, due, tag);
        connection.outstanding += 1;
        connection.sent += 1;
        if self.options.requests_per_connection == Some(connection.sent) {
            connection.state = State::Last;
        }
        self.meter.sent(due, now);
        if self.phase == Phase::Running
            && let Some(arrivals) = &mut self.arrivals
        {
            arrivals.pop();
        }
        true
    }

    fn connected(&mut self, id: ConnectionId, now: Time) {
        let Some(connection) = self.table.get_mut(id) else { return };
        let attempt = self.pending.pop(&mut connection.last);
        connection.state = State::Open;
        self.opener.connecting -= 1;
        self.open += 1;
        self.progress = now;
        self.meter.connected(attempt.map_or(now, |attempt| attempt.due), self.open, now);
        self.table.enqueue(id);
    }

    /// Reads replies.
    #[inline]
    fn data(&mut self, stack: &mut Stack<Buffer>, id: ConnectionId, data: &Slice<Buffer>, now: Time) {
        stack.consumed(id, data.len());
        self.meter.received(data.len(), now);
        let key = id.index() as u32;
        let mut text = std::mem::take(&mut self.text);
        if !self.partial.is_empty()
            && let Some(partial) = self.partial.remove(&key)
        {
            text = partial;
        }
        let mut input = Input::new(data, &mut text);
        let read = self.read(stack, id, &mut input, now);
        if text.is_empty() {
            self.text = text;
        } else if self.partial.len() < MAX_PARTIAL {
            self.partial.insert(key, text);
        } else if read.is_ok() {
            return self.wrong(stack, id, WrongReply::new("too many incomplete heads", 0), now);
        }
        if let Err(wrong) = read {
            self.wrong(stack, id, wrong, now);
        }
    }

    #[inline]
    fn read(
        &mut self,
        stack: &mut Stack<Buffer>,
        id: ConnectionId,
        input: &mut Input<'_>,
        now: Time,
    ) -> Result<(), WrongReply> {
        while !input.is_empty() {
            let Some(connection) = self.table.get_mut(id) else { return Ok(()) };
            if !matches!(connection.state, State::Open | State::Last) {
                return Ok(());
            }
            let Some(request) = self.pending.first(connection.last) else {
                return Err(WrongReply::new("bytes without a request", 0));
            };
            let Some(reply) = self.workload.reply(&mut connection.framing, request.tag, input)? else {
                return Ok(());
            };
            self.complete(stack, id, reply, now);
        }
        Ok(())
    }

    /// The reply to the oldest request of a connection is complete.
    #[inline]
    fn complete(&mut self, stack: &mut Stack<Buffer>, id: ConnectionId, reply: Reply, now: Time) {
        let Some(connection) = self.table.get_mut(id) else { return };
        let Some(request) = self.pending.pop(&mut connection.last) else { return };
        connection.framing = Framing::default();
        connection.outstanding -= 1;
        if reply.is_last {
            connection.state = State::Last;
        }
        self.progress = now;
        self.meter.answered(request.due, reply, now);
        match (connection.state, self.options.mode) {
            (State::Last, _) if connection.outstanding == 0 || reply.is_last => self.leave(stack, id, now),
            (State::Open, Mode::Closed { think }) if self.phase == Phase::Running => {
                if !think.is_zero() {
                    self.thinking.push_back((now.after(think), id));
                } else if !self.send(stack, id, now, now) {
                    self.table.enqueue(id);
                }
            }
            (State::Open, _) => self.table.enqueue(id),
            _ => {}
        }
    }

    /// Closes a connection, and has it replaced.
    fn leave(&mut self, stack: &mut Stack<Buffer>, id: ConnectionId, now: Time) {
        if self.table.get_mut(id).is_some_and(|connection| connection.outstanding > 0) {
            self.meter.connections.lost.add(Failure::Closed);
        } else {
            self.meter.connections.ended += 1;
        }
        stack.close(id);
        self.end(id, Failure::Closed, State::Closing, now);
    }

    /// A reply is wrong: what follows on its connection cannot be told apart.
    #[cold]
    fn wrong(&mut self, stack: &mut Stack<Buffer>, id: ConnectionId, wrong: WrongReply, now: Time) {
        let Some(connection) = self.table.get_mut(id) else { return };
        self.meter.wrong_reply.get_or_insert_with(|| wrong.to_string());
        if let Some(request) = self.pending.pop(&mut connection.last) {
            self.meter.failed(request.due, Failure::WrongReply, now);
        }
        self.meter.connections.lost.add(Failure::WrongReply);
        self.end(id, Failure::Aborted, State::Closing, now);
        stack.abort(id);
    }

    /// An open connection is not used any more: its requests fail for this reason, and another one takes its place.
    fn end(&mut self, id: ConnectionId, reason: Failure, state: State, now: Time) {
        self.partial.remove(&(id.index() as u32));
        let Some(connection) = self.table.get_mut(id) else { return };
        while let Some(request) = self.pending.pop(&mut connection.last) {
            self.meter.failed(request.due, reason, now);
        }
        connection.outstanding = 0;
        connection.state = state;
        self.closing += u64::from(state == State::Closing);
        self.open -= 1;
        self.opener.wanted += u32::from(self.may_open());
    }

    fn may_open(&self) -> bool {
        matches!(self.phase, Phase::Opening | Phase::Filling | Phase::Running)
    }

    /// The server sends no more.
    fn finished(&mut self, stack: &mut Stack<Buffer>, id: ConnectionId, now: Time) {
        let Some(connection) = self.table.get_mut(id) else { return };
        if !matches!(connection.state, State::Open | State::Last) {
            return;
        }
        if connection.outstanding > 0
            && let Some(reply) = self.workload.end(connection.framing)
        {
            return self.complete(stack, id, reply, now);
        }
        self.leave(stack, id, now);
    }

    fn closed(&mut self, id: ConnectionId, reason: Closed, now: Time) {
        let Some(connection) = self.table.get_mut(id) else { return };
        let reason = Failure::from(reason);
        match connection.state {
            State::Connecting => {
                self.pending.pop(&mut connection.last);
                connection.state = State::Free;
                self.opener.connecting -= 1;
                self.opener.wanted += u32::from(self.may_open());
                self.opener.postpone(now);
                self.meter.connect_failed(reason, now);
                if self.meter.connections.established == 0 {
                    self.fail(LoadError::Connect(reason));
                }
            }
            State::Open | State::Last => {
                self.meter.connections.lost.add(reason);
                self.end(id, reason, State::Free, now);
            }
            State::Closing => {
                connection.state = State::Free;
                self.closing = self.closing.saturating_sub(1);
                self.until = if self.phase == Phase::Closing { now.after(CLOSE) } else { self.until };
            }
            State::Free => {}
        }
    }

    /// Whether something should have arrived since [`Self::progress`].
    fn is_waiting(&self) -> bool {
        self.pending.len() > 0 || self.phase == Phase::Opening
    }

    /// Time at which the run ends if nothing arrives.
    #[inline]
    fn silence(&self) -> Time {
        if self.is_waiting() { self.progress.after(self.options.timeout) } else { Time::NEVER }
    }

    /// Moves to the next phase if the current one is complete.
    fn step(&mut self, stack: &mut Stack<Buffer>, now: Time) {
        match self.phase {
            Phase::Opening if self.open == u64::from(self.options.connections) => {
                self.meter.opened(now);
                self.phase = Phase::Filling;
            }
            // The attempts to connect are pending too.
            Phase::Filling if self.is_filled && self.pending.len() == self.opener.connecting as usize => {
                self.begin(now);
            }
            Phase::Running if now >= self.meter.end() => {
                (self.phase, self.until) = (Phase::Draining, now.after(DRAIN));
            }
            Phase::Draining if now >= self.until || self.pending.len() == 0 => {
                self.results = Some(Box::new(self.results(now)));
                (self.phase, self.until) = (Phase::Closing, Time::NEVER);
            }
            Phase::Closing => self.close_some(stack, now),
            _ => {}
        }
        let is_silent = self.may_open() && self.silence() <= now;
        if is_silent && self.meter.connections.established == 0 {
            self.fail(LoadError::NoAnswer(self.options.timeout));
        } else if is_silent {
            self.fail(LoadError::NoReply(self.options.timeout));
        }
    }

    /// Begins the warm-up.
    fn begin(&mut self, now: Time) {
        self.phase = Phase::Running;
        self.meter.set_begin(now.after(self.options.warm_up));
        if let Mode::Open { rate, spacing } = self.options.mode {
            self.arrivals = Some(Arrivals::new(rate, spacing, now));
        }
    }

    /// Closes connections. The run ends when the server has closed all of them, or none for some time.
    fn close_some(&mut self, stack: &mut Stack<Buffer>, now: Time) {
        let connections = self.table.range_mut(self.closed, BATCH);
        self.closed += connections.len();
        if !connections.is_empty() {
            self.until = now.after(CLOSE);
        }
        for connection in connections {
            if matches!(connection.state, State::Connecting | State::Open | State::Last) {
                self.closing += u64::from(connection.state != State::Connecting);
                connection.state = State::Closing;
                stack.close(connection.id);
            }
        }
        if self.closed == self.table.len() && (self.closing == 0 || now >= self.until) {
            self.finish();
        }
    }

    /// Time at which the phase may end.
    fn phase_deadline(&self) -> Time {
        let is_due = match self.phase {
            Phase::Opening => self.open == u64::from(self.options.connections),
            Phase::Filling => self.is_filled && self.pending.len() == self.opener.connecting as usize,
            Phase::Running => return self.meter.end(),
            Phase::Draining => self.pending.len() == 0,
            Phase::Closing => self.closing == 0 || self.closed < self.table.len(),
            Phase::Done => return Time::NEVER,
        };
        if is_due { Time::default() } else { self.until }
    }
}

impl<W: Workload> App for Load<W> {
    #[inline]
    fn event(&mut self, stack: &mut Stack<Buffer>, event: Event<Buffer>, now: Time) {
        match event {
            Event::Data { connection, data } => self.data(stack, connection, &data, now),
            Event::Connected { connection } => self.connected(connection, now),
            Event::Finished { connection } => self.finished(stack, connection, now),
            Event::Closed { connection, reason } => self.closed(connection, reason, now),
            _ => {}
        }
    }

    fn advance(&mut self, stack: &mut Stack<Buffer>, now: Time) {
        if self.may_open() {
            self.open_some(stack, now);
        }
        self.resume(now);
        self.dispatch(stack, now);
        self.step(stack, now);
    }

    #[inline]
    fn deadline(&self) -> Time {
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

    fn port_lost(&mut self, name: &str, state: &str) {
        self.fail(LoadError::PortLost { name: name.to_owned(), state: state.to_owned() });
    }
}
