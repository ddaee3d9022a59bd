//! Runs in simulated time: client and server are applications of one stack, connected by its loopback.

use super::*;
use crate::{Echo, Server as _};
use stack::ip::InterfaceConfig;
use stack::{Config, Endpoint, Recorder, Slice};
use std::collections::HashSet;
use std::sync::atomic::Ordering;
use wire::MacAddress;

const ADDRESS: [u8; 4] = [10, 0, 0, 1];
const PORT: u16 = 7;
/// Simulated time between two rounds, in nanoseconds.
const TICK: u64 = 10_000;

/// A server and its stalls.
struct Server<A> {
    app: A,
    accepted: HashSet<ConnectionId>,
    /// Events that wait for the end of a stall.
    held: VecDeque<Event<Buffer>>,
    /// Times between which the server does nothing.
    stall: (Time, Time),
}

struct World<W, A> {
    stack: Stack<Buffer>,
    load: Load<W>,
    server: Server<A>,
    stop: Arc<AtomicBool>,
    now: Time,
}

fn stack() -> Stack<Buffer> {
    let mut stack = Stack::new(Config::new([7; 16]), Time::default());
    let mac = MacAddress::new([2, 0, 0, 0, 0, 1]);
    let interface = stack.add_interface(InterfaceConfig { mac, mtu: 1500, vlan: None });
    stack.add_address(
        interface,
        stack::Cidr { address: ADDRESS.into_address(), prefix: 24 },
        Time::default(),
    );
    stack
}

trait IntoAddress {
    fn into_address(self) -> stack::Address;
}

impl IntoAddress for [u8; 4] {
    fn into_address(self) -> stack::Address {
        stack::Address::v4(self)
    }
}

fn server() -> Endpoint {
    Endpoint::new(ADDRESS.into_address(), PORT)
}

fn closed(connections: u32) -> LoadOptions {
    LoadOptions::closed(server(), connections, Duration::from_millis(200))
}

fn open(connections: u32, rate: f64, spacing: Spacing) -> LoadOptions {
    LoadOptions { mode: Mode::Open { rate, spacing }, ..closed(connections) }
}

impl<W: Workload, A: App> World<W, A> {
    fn new(workload: W, options: LoadOptions, app: A) -> Self {
        let (mut stack, stop, now) = (stack(), Arc::new(AtomicBool::new(false)), Time(1));
        stack
            .listen(server(), stack::tcp::Options { no_delay: true, ..stack::tcp::Options::default() })
            .unwrap();
        let load = Load::new(workload, options, stop.clone(), &stack, now).unwrap();
        let stall = (Time::NEVER, Time::NEVER);
        let server = Server { app, accepted: HashSet::new(), held: VecDeque::new(), stall };
        Self { stack, load, server, stop, now }
    }

    fn round(&mut self) {
        let Self { stack, load, server, now, .. } = self;
        let is_stalled = *now >= server.stall.0 && *now < server.stall.1;
        while !is_stalled && let Some(event) = server.held.pop_front() {
            server.app.event(stack, event, *now);
        }
        while let Some(event) = stack.poll_event() {
            let id = match &event {
                Event::Accepted { connection, .. } => {
                    server.accepted.insert(*connection);
                    *connection
                }
                Event::Connected { connection }
                | Event::Data { connection, .. }
                | Event::Finished { connection }
                | Event::Writable { connection }
                | Event::Closed { connection, .. } => *connection,
                other => panic!("{other:?}"),
            };
            match (server.accepted.contains(&id), is_stalled) {
                (false, _) => load.event(stack, event, *now),
                (true, true) => server.held.push_back(event),
                (true, false) => server.app.event(stack, event, *now),
            }
        }
        load.poll(stack, *now);
        stack.advance(*now);
        // Packets to other hosts are lost.
        stack.transmit(&mut Recorder::default(), *now);
        now.0 += TICK;
    }

    /// Runs to the end, at most a minute of simulated time.
    fn run(mut self) -> (Results, Option<LoadError>, A) {
        while !self.stop.load(Ordering::Relaxed) {
            self.round();
            assert!(self.now < Time(60_000_000_000), "{:?}", self.load.progress(self.now));
        }
        (self.load.results(self.now), self.load.error().cloned(), self.server.app)
    }
}

/// Checks that every request and connection is counted once.
fn check(results: &Results) {
    let (requests, connections) = (&results.requests, &results.connections);
    assert_eq!(requests.due, requests.sent + requests.unsent, "{requests:?}");
    let ended = requests.answered + requests.failed.total() + requests.outstanding;
    assert_eq!(requests.sent, ended, "{requests:?}");
    assert_eq!(results.latency_ns.count, requests.answered);
    let attempted = connections.established + connections.connecting + connections.failed.total();
    assert_eq!(connections.attempted, attempted, "{connections:?}");
    let established = connections.open + connections.ended + connections.lost.total();
    assert_eq!(connections.established, established, "{connections:?}");
    assert_eq!(results.connect_ns.count, connections.established);
}

fn answered_all(results: &Results) {
    check(results);
    let requests = &results.requests;
    assert!(results.is_complete, "{results:?}");
    assert_eq!((requests.failed.total(), requests.outstanding, requests.unsent), (0, 0, 0), "{requests:?}");
    assert!(requests.answered > 0);
}

#[test]
fn closed_loop_keeps_its_depth_on_each_connection() {
    for (depth, think) in [(1, 0), (4, 0), (2, 5_000)] {
        let mode = Mode::Closed { think: Duration::from_micros(think) };
        let options = LoadOptions { depth, mode, rounds: 2, warm_up: Duration::from_millis(10), ..closed(5) };
        let (results, error, echo) = World::new(EchoLoad::new(100, true), options, Echo::default()).run();
        assert_eq!(error, None);
        answered_all(&results);
        assert_eq!((results.connections.established, results.connections.open), (5, 5));
        assert_eq!((echo.served().connections, echo.served().aborted), (5, 0));
        // Each connection has `depth` requests for each time of a request and its pause.
        let cycle = results.latency_ns.mean + think as f64 * 1e3;
        let expected = 5.0 * f64::from(depth) * 0.4e9 / cycle;
        let ratio = results.requests.answered as f64 / expected;
        assert!((0.9..1.1).contains(&ratio), "depth {depth}: {ratio}");
        assert_eq!(results.rounds.len(), 2);
        assert!(results.delay_ns.is_none());
    }
}

#[test]
fn open_loop_sends_at_its_rate() {
    for spacing in [Spacing::Constant, Spacing::Poisson(3)] {
        let options = open(20, 10_000.0, spacing);
        let (results, error, _) = World::new(EchoLoad::new(64, true), options, Echo::default()).run();
        assert_eq!(error, None);
        answered_all(&results);
        // 2000 requests in 200 ms; a Poisson process deviates by 45.
        assert!(results.requests.due.abs_diff(2_000) < 200, "{}", results.requests.due);
        assert!(results.latency_ns.max < 1_000_000, "{:?}", results.latency_ns);
    }
}

/// A server that stalls for 100 ms of 200 ms makes every second request late. A client that measures from the time of
/// sending would find as many late requests as it has connections.
#[test]
fn a_stall_shows_in_the_latency_of_all_requests_that_were_due_meanwhile() {
    let options = open(4, 10_000.0, Spacing::Constant);
    let mut world = World::new(EchoLoad::new(64, true), options, Echo::default());
    while world.load.meter.begin().is_never() {
        world.round();
    }
    let begin = world.load.meter.begin().0;
    world.server.stall = (Time(begin + 50_000_000), Time(begin + 150_000_000));
    let (results, error, _) = world.run();
    assert_eq!(error, None);
    answered_all(&results);
    assert_eq!(results.requests.due, 2_000);
    // Requests that were due during the stall waited for the rest of it: 0 to 100 ms, equally distributed.
    let late: u64 = results.histogram.iter().filter(|(ns, _)| *ns > 10_000_000).map(|(_, count)| count).sum();
    assert!((850..1_000).contains(&late), "{late} late");
    let summary = results.latency_ns;
    assert!((75_000_000..85_000_000).contains(&summary.p90), "{summary:?}");
    assert!((95_000_000..=102_000_000).contains(&summary.max), "{summary:?}");
    // All but four of the late ones waited for a connection.
    assert!(results.delay_ns.unwrap().p90 > 70_000_000);
}

#[test]
fn requests_that_were_never_sent_are_counted() {
    let options = LoadOptions { timeout: Duration::from_secs(20), ..open(4, 10_000.0, Spacing::Constant) };
    let mut world = World::new(EchoLoad::new(64, true), options, Echo::default());
    while world.load.meter.begin().is_never() {
        world.round();
    }
    world.server.stall = (Time(world.load.meter.begin().0 + 50_000_000), Time::NEVER);
    let (results, error, _) = world.run();
    assert_eq!(error, None);
    check(&results);
    let requests = &results.requests;
    assert_eq!((requests.due, requests.outstanding), (2_000, 4));
    assert!(requests.unsent.abs_diff(1_496) < 10, "{requests:?}");
}

#[test]
fn a_silent_server_ends_the_run() {
    let options = LoadOptions { duration: Duration::from_secs(30), ..closed(3) };
    let mut world = World::new(EchoLoad::new(64, true), options, Echo::default());
    while world.load.meter.begin().is_never() {
        world.round();
    }
    world.server.stall = (world.now, Time::NEVER);
    let (results, error, _) = world.run();
    assert_eq!(error, Some(LoadError::NoReply(Duration::from_secs(10))));
    assert!(!results.is_complete);
    assert_eq!(results.requests.outstanding, 3);
}

#[test]
fn short_connections_are_replaced() {
    for depth in [1, 3] {
        let options = LoadOptions { requests_per_connection: Some(3), depth, ..closed(4) };
        let (results, error, echo) = World::new(EchoLoad::new(10, true), options, Echo::default()).run();
        assert_eq!(error, None);
        answered_all(&results);
        let connections = &results.connections;
        assert!(connections.ended > 100, "{connections:?}");
        assert_eq!((connections.lost.total(), connections.failed.total()), (0, 0));
        assert!(connections.ended.abs_diff(results.requests.answered / 3) <= 4);
        assert_eq!(echo.served().aborted, 0);
        assert!(results.rounds[0].connects_per_second > 500.0);
    }
}

#[test]
fn the_ramp_is_bounded_by_its_rate() {
    let options = LoadOptions { connect_rate: Some(10_000.0), ..closed(1_000) };
    let (results, error, _) = World::new(EchoLoad::new(10, false), options, Echo::default()).run();
    assert_eq!(error, None);
    answered_all(&results);
    assert!((0.098..0.12).contains(&results.opened_after.unwrap()), "{:?}", results.opened_after);
    assert_eq!((results.connections.most, results.connections.open), (1_000, 1_000));
    // 48 bytes, and 32 for the server's connections, which have numbers of the same stack.
    assert!(results.client_bytes_per_connection <= 100.0, "{}", results.client_bytes_per_connection);
}

#[test]
fn a_server_that_refuses_ends_the_run() {
    let options = LoadOptions { server: Endpoint::new(ADDRESS.into_address(), 9), ..closed(2) };
    let (results, error, _) = World::new(EchoLoad::new(10, true), options, Echo::default()).run();
    assert_eq!(error, Some(LoadError::Connect(Failure::Refused)));
    check(&results);
    let options = LoadOptions { server: Endpoint::new(stack::Address::v4([192, 0, 2, 1]), 9), ..closed(2) };
    let (results, error, _) = World::new(EchoLoad::new(10, true), options, Echo::default()).run();
    assert_eq!(error, Some(LoadError::NoRoute));
    check(&results);
    let options = LoadOptions { server: Endpoint::new(stack::Address::v4([10, 0, 0, 2]), 9), ..closed(2) };
    let (results, error, _) = World::new(EchoLoad::new(10, true), options, Echo::default()).run();
    assert!(matches!(error, Some(LoadError::NoAnswer(_) | LoadError::Connect(_))), "{error:?}");
    check(&results);
}

/// Replies with other bytes, resets, or closes.
struct Faulty {
    /// Number of segments until the fault.
    after: u32,
    fault: Fault,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    Wrong,
    Reset,
    Close,
}

impl App for Faulty {
    fn event(&mut self, stack: &mut Stack<Buffer>, event: Event<Buffer>, _: Time) {
        let Event::Data { connection, data } = event else {
            if let Event::Finished { connection } = event {
                stack.close(connection);
            }
            return;
        };
        stack.consumed(connection, data.len());
        self.after = self.after.wrapping_sub(1);
        if self.after > 0 {
            stack.send(connection, data).ok();
            return;
        }
        match self.fault {
            Fault::Wrong => {
                let mut bytes = data.to_vec();
                bytes[5] ^= 1;
                stack.send(connection, Slice::new(bytes.into())).ok();
            }
            Fault::Reset => stack.abort(connection),
            Fault::Close => stack.close(connection),
        }
    }
}

#[test]
fn failures_have_a_reason_and_the_connection_is_replaced() {
    for (fault, reason) in
        [(Fault::Wrong, Failure::WrongReply), (Fault::Reset, Failure::Reset), (Fault::Close, Failure::Closed)]
    {
        let server = Faulty { after: 50, fault };
        let (results, error, _) = World::new(EchoLoad::new(20, true), closed(2), server).run();
        assert_eq!(error, None);
        check(&results);
        assert_eq!(results.requests.failed.iter().collect::<Vec<_>>(), [(reason, 1)], "{fault:?}");
        assert_eq!(results.connections.lost.iter().collect::<Vec<_>>(), [(reason, 1)], "{fault:?}");
        assert_eq!((results.connections.established, results.connections.open), (3, 2));
        assert!(results.requests.answered > 100);
        let expected = (fault == Fault::Wrong).then(|| "wrong reply: byte differs at byte 5".to_owned());
        assert_eq!(results.wrong_reply, expected);
    }
}

#[test]
fn requests_must_fit_the_send_buffer() {
    let (stack, stop) = (stack(), Arc::new(AtomicBool::new(false)));
    let options = LoadOptions { depth: 5, ..closed(1) };
    let refused = Load::new(EchoLoad::new(1 << 20, true), options, stop, &stack, Time(1)).unwrap_err();
    assert!(matches!(refused, LoadError::TooLong { depth: 5, .. }));
}
