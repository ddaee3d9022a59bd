//! An application of a stack that follows a plan for each connection and checks every byte that it receives.

use super::link::Bytes;
use super::net::Application;
use super::rng::{Rng, mix};
use stack::tcp::{ConnectionId, Options};
use stack::{Address, Closed, Endpoint, Event, SendError, Slice, Stack, Time};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Port on which both hosts listen.
pub(crate) const SERVICE: u16 = 80;
/// Port of the side that opens connection 0.
pub(crate) const FIRST_PORT: u16 = 10_000;

/// Condition for a step of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// This many bytes of the peer were received.
    Received(u64),
    /// The peer closed its side.
    Finished,
}

/// Actions of one side of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Side {
    /// Conditions, and the number of bytes that may be sent once they hold. The last one is the total.
    pub(crate) sends: Vec<(After, u64)>,
    /// Maximum length of one call of [`Stack::send`].
    pub(crate) chunk: u64,
    /// Condition for closing, once everything was sent.
    pub(crate) close: After,
    /// Time from then to closing.
    pub(crate) linger: Duration,
    /// Number of bytes, sent and received, after which the connection is aborted.
    pub(crate) abort: Option<u64>,
    /// Number of received bytes at which the reader stops, and for how long.
    pub(crate) pause: Option<(u64, Duration)>,
    /// Time from the receipt of data to its consumption.
    pub(crate) reading: Duration,
}

impl Side {
    pub(crate) fn total(&self) -> u64 {
        self.sends.last().map_or(0, |(_, until)| *until)
    }
}

/// A connection between both hosts.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Time at which it is opened.
    pub(crate) at: Time,
    /// Host that opens it.
    pub(crate) opener: usize,
    /// Whether both hosts open it at the same time.
    pub(crate) is_simultaneous: bool,
    /// Actions of each host.
    pub(crate) sides: [Side; 2],
}

impl Plan {
    pub(crate) fn may_abort(&self) -> bool {
        self.sides.iter().any(|side| side.abort.is_some())
    }
}

/// Byte of a stream, from its seed, connection, direction and offset.
pub(crate) fn byte(stream: u64, offset: u64) -> u8 {
    (mix(stream ^ (offset >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15)) >> (8 * (offset & 7))) as u8
}

/// The stream of a connection from one of its hosts.
pub(crate) fn stream(seed: u64, number: usize, from: usize) -> u64 {
    mix(seed ^ ((number as u64) << 1) ^ from as u64)
}

/// Result of one side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) reason: Closed,
    pub(crate) sent: u64,
    pub(crate) received: u64,
    pub(crate) has_finished: bool,
}

/// An open connection.
struct Open {
    number: usize,
    is_established: bool,
    sent: u64,
    received: u64,
    /// Received bytes that are not consumed, with the time of their consumption.
    held: VecDeque<(Time, usize)>,
    has_paused: bool,
    has_finished: bool,
    has_closed: bool,
    /// Time of closing, once it is known.
    close_at: Option<Time>,
    is_blocked: bool,
    /// Last chunk passed to the stack, which must drop it in the end.
    last: Weak<[u8]>,
}

impl Open {
    fn new(number: usize, is_established: bool) -> Self {
        Self {
            number,
            is_established,
            sent: 0,
            received: 0,
            held: VecDeque::new(),
            has_paused: false,
            has_finished: false,
            has_closed: false,
            close_at: None,
            is_blocked: false,
            last: Weak::<[u8; 0]>::new(),
        }
    }

    fn holds(&self, after: After) -> bool {
        match after {
            After::Received(bytes) => self.received >= bytes,
            After::Finished => self.has_finished,
        }
    }
}

/// The application of one host.
pub(crate) struct App {
    host: usize,
    addresses: [Address; 2],
    options: Options,
    seed: u64,
    plans: Vec<Plan>,
    /// Connections to open, by time.
    openings: BTreeSet<(Time, usize)>,
    open: HashMap<ConnectionId, Open>,
    pub(crate) ends: BTreeMap<usize, End>,
    chunks: Vec<Weak<[u8]>>,
    rng: Rng,
    wake: Time,
}

impl App {
    pub(crate) fn new(
        host: usize,
        (addresses, options): ([Address; 2], Options),
        (seed, rng): (u64, Rng),
        plans: &[Plan],
    ) -> Self {
        let opens = |plan: &Plan| plan.opener == host || plan.is_simultaneous;
        let openings: BTreeSet<_> =
            plans.iter().enumerate().filter(|(_, plan)| opens(plan)).map(|(n, plan)| (plan.at, n)).collect();
        let wake = openings.first().map_or(Time::NEVER, |key| key.0);
        let (open, ends) = (HashMap::new(), BTreeMap::new());
        let plans = plans.to_vec();
        Self { host, addresses, options, seed, plans, openings, open, ends, chunks: Vec::new(), rng, wake }
    }

    /// Whether every connection of the plan ended here.
    pub(crate) fn is_done(&self) -> bool {
        self.openings.is_empty() && self.open.is_empty()
    }

    /// Connections that did not end, with what they have done.
    pub(crate) fn pending(&self) -> Vec<String> {
        let text = |open: &Open| {
            let Open { number, sent, received, has_finished, has_closed, .. } = open;
            format!("connection {number}: sent {sent}, received {received}, {has_finished} {has_closed}")
        };
        self.open.values().map(text).collect()
    }

    /// Number of sent buffers to which the stack still refers.
    pub(crate) fn leaked(&self) -> usize {
        self.chunks.iter().filter(|chunk| chunk.strong_count() > 0).count()
    }

    /// Identifiers of open connections.
    pub(crate) fn connections(&self) -> impl Iterator<Item = ConnectionId> {
        self.open.keys().copied()
    }

    fn endpoints(&self, number: usize) -> (Endpoint, Endpoint) {
        let plan = &self.plans[number];
        let port = |host| if host == plan.opener { FIRST_PORT + number as u16 } else { SERVICE + 1 };
        let remote = if plan.is_simultaneous { port(1 - self.host) } else { SERVICE };
        let local = Endpoint::new(self.addresses[self.host], port(self.host));
        (local, Endpoint::new(self.addresses[1 - self.host], remote))
    }

    fn open_due(&mut self, stack: &mut Stack<Bytes>, now: Time) {
        while let Some((_, number)) = self.openings.first().copied().filter(|(at, _)| *at <= now) {
            self.openings.pop_first();
            let (local, remote) = self.endpoints(number);
            let connection = stack.connect(local, remote, self.options, now);
            let connection =
                connection.unwrap_or_else(|e| panic!("connection {number}: {local} to {remote}: {e}"));
            assert!(self.open.insert(connection, Open::new(number, false)).is_none(), "identifier in use");
        }
    }

    fn accept(&mut self, stack: &Stack<Bytes>, connection: ConnectionId, remote: Endpoint) {
        if let Some(ends) = stack.endpoints(connection) {
            assert_eq!(ends, (Endpoint::new(self.addresses[self.host], SERVICE), remote));
        }
        let number = usize::from(remote.port - FIRST_PORT);
        assert_eq!(self.plans[number].opener, 1 - self.host, "connection {number} from the wrong side");
        assert!(self.open.insert(connection, Open::new(number, true)).is_none(), "identifier in use");
    }

    fn take(&mut self, connection: ConnectionId, data: &Slice<Bytes>, now: Time) {
        let number = self.open[&connection].number;
        let (stream, side) = (stream(self.seed, number, 1 - self.host), &self.plans[number].sides[self.host]);
        let total = self.plans[number].sides[1 - self.host].total();
        let open = self.open.get_mut(&connection).expect("an open connection");
        assert!(open.is_established && !open.has_finished && !data.is_empty(), "data of connection {number}");
        for (at, got) in data.to_vec().into_iter().enumerate() {
            let offset = open.received + at as u64;
            assert_eq!(got, byte(stream, offset), "connection {number}: byte {offset}");
        }
        open.received += data.len() as u64;
        assert!(open.received <= total, "connection {number}: more bytes than were sent");
        let mut due = now.after(side.reading);
        if let Some((at, pause)) = side.pause
            && open.received >= at
            && !open.has_paused
        {
            open.has_paused = true;
            due = now.after(pause);
        }
        let due = open.held.back().map_or(due, |(last, _)| due.max(*last));
        open.held.push_back((due, data.len()));
    }

    fn end(&mut self, connection: ConnectionId, reason: Closed) {
        let open = self.open.remove(&connection).expect("an open connection");
        let end = End { reason, sent: open.sent, received: open.received, has_finished: open.has_finished };
        // A late copy of an acknowledgement with a SYN cookie opens an aborted connection again.
        let first = self.ends.entry(open.number).or_insert(end);
        let is_once = *first == end || first.reason == Closed::Aborted;
        assert!(is_once, "connection {} ended twice: {first:?}, {end:?}", open.number);
        self.chunks.push(open.last);
    }

    /// Does what is due for one connection. Returns the time of the next call.
    fn drive(&mut self, stack: &mut Stack<Bytes>, connection: ConnectionId, now: Time) -> Time {
        let (stream, side) = {
            let number = self.open[&connection].number;
            (stream(self.seed, number, self.host), self.plans[number].sides[self.host].clone())
        };
        let open = self.open.get_mut(&connection).expect("an open connection");
        while let Some((due, bytes)) = open.held.front().copied().filter(|(due, _)| *due <= now) {
            let _ = due;
            open.held.pop_front();
            stack.consumed(connection, bytes);
        }
        if open.is_established
            && side.abort.is_some_and(|at| open.sent + open.received >= at)
            && !open.has_closed
        {
            open.has_closed = true;
            stack.abort(connection);
            return Time::NEVER;
        }
        Self::send(stack, connection, open, (&side, stream), &mut self.rng);
        let mut next = open.held.front().map_or(Time::NEVER, |(due, _)| *due);
        if open.is_established && open.sent == side.total() && open.holds(side.close) && !open.has_closed {
            let at = *open.close_at.get_or_insert(now.after(side.linger));
            if at <= now {
                Self::close(stack, connection, open);
            } else {
                next = next.min(at);
            }
        }
        next
    }

    fn close(stack: &mut Stack<Bytes>, connection: ConnectionId, open: &mut Open) {
        open.has_closed = true;
        stack.close(connection);
        let refused = stack.send(connection, Slice::new(Arc::from([0u8].as_slice())));
        assert_eq!(refused, Err(SendError::Closed), "sent after closing");
    }

    fn send(
        stack: &mut Stack<Bytes>,
        connection: ConnectionId,
        open: &mut Open,
        (side, stream): (&Side, u64),
        rng: &mut Rng,
    ) {
        let allowed = side.sends.iter().take_while(|(after, _)| open.holds(*after)).map(|(_, until)| *until);
        let until = allowed.last().unwrap_or(0);
        while open.is_established && !open.is_blocked && !open.has_closed && open.sent < until {
            let space = stack.send_space(connection) as u64;
            let len = rng.magnitude(1..side.chunk + 1).min(until - open.sent);
            let len = if space > 0 { len.min(space) } else { len };
            let chunk: Bytes = (open.sent..open.sent + len).map(|offset| byte(stream, offset)).collect();
            let last = Arc::downgrade(&chunk);
            match stack.send(connection, Slice::new(chunk)) {
                Ok(()) => {
                    assert!(space >= len, "sent {len} bytes into space for {space}");
                    open.sent += len;
                    open.last = last;
                }
                Err(SendError::Full) => {
                    assert_eq!(space, 0, "send buffer full with space for {space}");
                    open.is_blocked = true;
                }
                Err(error) => panic!("connection {}: {error}", open.number),
            }
        }
    }
}

impl Application for App {
    fn on_event(&mut self, stack: &mut Stack<Bytes>, event: Event<Bytes>, now: Time) {
        self.wake = now;
        match event {
            Event::Accepted { connection, remote, .. } => self.accept(stack, connection, remote),
            Event::Connected { connection } => {
                let open = self.open.get_mut(&connection).expect("an open connection");
                assert!(!open.is_established, "connected twice");
                open.is_established = true;
            }
            Event::Data { connection, data } => self.take(connection, &data, now),
            Event::Finished { connection } => {
                let open = self.open.get_mut(&connection).expect("an open connection");
                assert!(!open.has_finished, "finished twice");
                open.has_finished = true;
            }
            Event::Writable { connection } => {
                let open = self.open.get_mut(&connection).expect("an open connection");
                open.is_blocked = false;
            }
            Event::Acknowledged { .. } => panic!("acknowledgements were not asked for"),
            Event::Datagram { .. } | Event::DatagramLost { .. } => panic!("no socket of UDP is open"),
            Event::Closed { connection, reason } => self.end(connection, reason),
        }
    }

    fn poll(&mut self, stack: &mut Stack<Bytes>, now: Time) {
        self.open_due(stack, now);
        let mut connections: Vec<_> = self.open.iter().map(|(id, open)| (open.number, *id)).collect();
        connections.sort_unstable();
        let next = self.openings.first().map_or(Time::NEVER, |key| key.0);
        let due = connections.into_iter().map(|(_, id)| self.drive(stack, id, now)).min();
        self.wake = next.min(due.unwrap_or(Time::NEVER));
    }

    fn wake(&self) -> Time {
        self.wake
    }
}
