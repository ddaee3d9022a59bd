//! A proxy between a client and a server: three hosts, two wires in shared memory, no network.

use crate::{MODELS, drive};
use engine::{LocalPort, Polling};
use host::{App, Buffer, Host, Options, Threads};
use port::memif;
use port::patch::{Exchange, Patch};
use serve::{Forward, Proxy, ProxyOptions, Server};
use stack::ip::InterfaceConfig;
use stack::tcp::ConnectionId;
use stack::{Address, Closed, Endpoint, Event, Slice, Stack, Time};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wire::MacAddress;

const PORT: u16 = 8080;
/// Network of the client and of the server, and the last octets of the ends.
const NETWORKS: [[u8; 3]; 2] = [[10, 9, 1], [10, 9, 2]];
const PROXY: u8 = 2;
const PEER: u8 = 1;
/// Bytes of each direction: more than all buffers together.
const BYTES: usize = 5 << 20;
const LIMIT: Duration = Duration::from_secs(50);

fn address(network: usize, last: u8) -> Address {
    let [a, b, c] = NETWORKS[network];
    Address::v4([a, b, c, last])
}

fn host(ports: &[(&str, &str, usize, u8)], exchange: &Exchange) -> Host {
    let mut options = Options { polling: Polling::Adaptive, ..Options::new().unwrap() };
    let limits = &mut options.stack.limits;
    (limits.send_buffer, limits.receive_buffer) = (serve::PROXY_BUFFER, serve::PROXY_BUFFER);
    let mut host = Host::new(options).unwrap();
    for &(name, peer, network, last) in ports {
        let patch = Patch::new(name, peer, memif::Options::default(), exchange).unwrap();
        let mac = MacAddress::new([2, 0, 0, 0, network as u8, last]);
        let config = InterfaceConfig { mac, mtu: 1500, vlan: None };
        let interface = host.add_port(LocalPort::new(name, Box::new(patch)), config);
        let now = host.now();
        let own = stack::Cidr::new(address(network, last), 24).unwrap();
        host.stack().add_address(interface, own, now);
    }
    host
}

/// Action of an end on its connection.
#[derive(Clone, Copy, Debug, Default)]
struct Plan {
    /// Bytes to send.
    bytes: usize,
    /// Whether it sends only after the peer's end.
    is_second: bool,
    /// Resets the connection after this many received bytes.
    reset_after: Option<usize>,
    /// Does not consume what it receives until the flag is set.
    is_slow: bool,
    /// Whether the end listens.
    listens: bool,
}

/// Client or server of one connection: sends bytes that depend on their position, checks what it receives.
struct Peer {
    plan: Plan,
    seed: u8,
    sent: usize,
    received: usize,
    unconsumed: usize,
    is_finished: bool,
    connection: Option<ConnectionId>,
    reason: Option<Closed>,
    release: Arc<AtomicBool>,
}

impl Peer {
    fn new(plan: Plan, seed: u8, release: &Arc<AtomicBool>) -> Self {
        let release = release.clone();
        Self {
            plan,
            seed,
            sent: 0,
            received: 0,
            unconsumed: 0,
            is_finished: false,
            connection: None,
            reason: None,
            release,
        }
    }

    fn byte(seed: u8, at: usize) -> u8 {
        (at % 251) as u8 ^ seed ^ (at >> 12) as u8
    }

    fn send(&mut self, stack: &mut Stack<Buffer>) {
        let Some(connection) = self.connection else { return };
        if self.plan.is_second && !self.is_finished {
            return;
        }
        while self.sent < self.plan.bytes {
            // Lengths of all magnitudes.
            let len = (1 + self.sent % 30_011).min(self.plan.bytes - self.sent);
            let bytes: Vec<u8> = (self.sent..self.sent + len).map(|at| Self::byte(self.seed, at)).collect();
            if stack.send(connection, Slice::new(bytes.into())).is_err() {
                return;
            }
            self.sent += len;
        }
        stack.close(connection);
    }

    fn take(&mut self, stack: &mut Stack<Buffer>, connection: ConnectionId, bytes: &[u8]) {
        let expected = (self.received..).map(|at| Self::byte(!self.seed, at));
        assert!(bytes.iter().copied().eq(expected.take(bytes.len())), "bytes at {}", self.received);
        self.received += bytes.len();
        self.unconsumed += bytes.len();
        if self.plan.reset_after.is_some_and(|at| self.received >= at) {
            return stack.abort(connection);
        }
        if !self.plan.is_slow {
            self.consume(stack);
        }
    }

    fn consume(&mut self, stack: &mut Stack<Buffer>) {
        if let Some(connection) = self.connection {
            stack.consumed(connection, std::mem::take(&mut self.unconsumed));
        }
    }

    fn is_done(&self) -> bool {
        self.reason.is_some()
    }
}

impl App for Peer {
    fn event(&mut self, stack: &mut Stack<Buffer>, event: Event<Buffer>, _now: Time) {
        match event {
            Event::Connected { connection } | Event::Accepted { connection, .. } => {
                self.connection = Some(connection);
                self.send(stack);
            }
            Event::Data { connection, data } => self.take(stack, connection, &data.to_vec()),
            Event::Writable { .. } => self.send(stack),
            Event::Finished { .. } => {
                self.is_finished = true;
                self.send(stack);
            }
            Event::Closed { reason, .. } => self.reason = Some(reason),
            other => panic!("{other:?}"),
        }
    }

    fn poll(&mut self, stack: &mut Stack<Buffer>, _now: Time) -> bool {
        let is_released = self.plan.is_slow && self.release.load(Ordering::Relaxed);
        if is_released {
            self.plan.is_slow = false;
            self.consume(stack);
        }
        is_released
    }
}

/// Results of a run.
struct Outcome {
    client: Peer,
    server: Peer,
    proxy: serve::Served,
}

/// A client, a proxy and a server, with their hosts.
struct World {
    client_host: Host,
    proxy_host: Host,
    server_host: Host,
    client: Peer,
    proxy: Proxy,
    server: Peer,
    release: Arc<AtomicBool>,
    began: Instant,
    rounds: u64,
    has_opened: bool,
}

impl World {
    fn new(plans: [Plan; 2], forward: Forward, idle: Option<Duration>) -> Self {
        let (exchange, release) = (Exchange::default(), Arc::new(AtomicBool::new(false)));
        let mut proxy_host = host(&[("pa", "ca", 0, PROXY), ("pb", "sb", 1, PROXY)], &exchange);
        let client_host = host(&[("ca", "pa", 0, PEER)], &exchange);
        let mut server_host = host(&[("sb", "pb", 1, PEER)], &exchange);
        let to = Endpoint::new(address(1, PEER), PORT);
        let options = ProxyOptions { to, tcp: tcp(), connections: 4, idle, forward };
        let mut proxy = Proxy::new(options);
        proxy.listen(proxy_host.stack(), Endpoint::new(address(0, PROXY), PORT)).unwrap();
        if plans[1].listens {
            server_host.stack().listen(to, tcp()).unwrap();
        }
        let [client, server] =
            [(plans[0], 0), (plans[1], 0xff)].map(|(plan, seed)| Peer::new(plan, seed, &release));
        let (began, rounds, has_opened) = (Instant::now(), 0, false);
        Self {
            client_host,
            proxy_host,
            server_host,
            client,
            proxy,
            server,
            release,
            began,
            rounds,
            has_opened,
        }
    }

    /// Runs a round of the client and the server. Returns whether both connections have ended.
    fn round_of_peers(&mut self) -> bool {
        if self.rounds.is_multiple_of(256) {
            self.control();
        }
        self.rounds += 1;
        self.client_host.poll(&mut self.client);
        self.server_host.poll(&mut self.server);
        self.client.is_done() && (self.server.is_done() || self.server.connection.is_none())
    }

    /// Runs the control of the client's and the server's ports, and connects when they are ready.
    fn control(&mut self) {
        for host in [&mut self.client_host, &mut self.server_host] {
            host.control(host.now());
        }
        let hosts = [&self.client_host, &self.server_host];
        if !self.has_opened && hosts.iter().all(|host| host.not_ready().is_none()) {
            let (now, at) = (self.client_host.now(), Endpoint::new(address(0, PROXY), PORT));
            self.client_host.stack().connect(Endpoint::default(), at, tcp(), now).unwrap();
            self.has_opened = true;
        }
        let (client, server) = (&self.client, &self.server);
        assert!(
            self.began.elapsed() < LIMIT,
            "client {} of {}, server {} of {}",
            client.received,
            server.plan.bytes,
            server.received,
            client.plan.bytes
        );
    }

    fn end(self) -> Outcome {
        let Self { client_host, proxy_host, server_host, client, proxy, server, .. } = self;
        assert_eq!(client_host.close().faults, 0);
        assert_eq!(proxy_host.close().faults, 0);
        assert_eq!(server_host.close().faults, 0);
        Outcome { client, server, proxy: proxy.served() }
    }
}

fn tcp() -> stack::tcp::Options {
    stack::tcp::Options { no_delay: true, ..Default::default() }
}

/// Runs a client, a proxy and a server on one thread until both connections ended, or `watch` returns `true`.
fn run(
    plans: [Plan; 2],
    forward: Forward,
    idle: Option<Duration>,
    mut watch: impl FnMut(&Peer, &Peer, &serve::Served, &Arc<AtomicBool>) -> bool,
) -> Outcome {
    let mut world = World::new(plans, forward, idle);
    let round = |world: &mut World| {
        if world.rounds.is_multiple_of(256) {
            world.proxy_host.control(world.proxy_host.now());
        }
        let is_over = world.round_of_peers();
        world.proxy_host.poll(&mut world.proxy);
        is_over
    };
    while !round(&mut world) && !watch(&world.client, &world.server, &world.proxy.served(), &world.release) {}
    // The last segments and events.
    for _ in 0..1000 {
        round(&mut world);
    }
    world.end()
}

/// As [`run`], with the proxy in a thread model.
fn run_in(threads: Threads, plans: [Plan; 2], idle: Option<Duration>) -> Outcome {
    let mut world = World::new(plans, Forward::Reference, idle);
    let (exchange, stop) = (Exchange::default(), Arc::new(AtomicBool::new(false)));
    // The thread of the proxy has its host and the proxy meanwhile.
    let mut host = std::mem::replace(&mut world.proxy_host, host(&[], &exchange));
    let options =
        ProxyOptions { to: Endpoint::default(), tcp: tcp(), connections: 0, idle, forward: Forward::Copy };
    let mut proxy = std::mem::replace(&mut world.proxy, Proxy::new(options));
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| drive(&mut host, &mut proxy, threads, &stop));
        while !world.round_of_peers() {}
        // The last segments.
        for _ in 0..100 {
            world.round_of_peers();
            std::thread::sleep(Duration::from_millis(1));
        }
        stop.store(true, Ordering::Relaxed);
        thread.join().unwrap();
    });
    (world.proxy_host, world.proxy) = (host, proxy);
    world.end()
}

fn listening(bytes: usize) -> Plan {
    Plan { bytes, listens: true, ..Plan::default() }
}

#[test]
fn megabytes_pass_both_ways_unchanged() {
    for forward in [Forward::Reference, Forward::Copy] {
        let plans = [Plan { bytes: BYTES, ..Plan::default() }, listening(BYTES)];
        let outcome = run(plans, forward, None, |_, _, _, _| false);
        assert_eq!((outcome.client.received, outcome.server.received), (BYTES, BYTES));
        assert_eq!(
            (outcome.client.reason, outcome.server.reason),
            (Some(Closed::Normally), Some(Closed::Normally))
        );
        let bytes = 2 * BYTES as u64;
        assert_eq!((outcome.proxy.received, outcome.proxy.sent), (bytes, bytes));
        assert_eq!((outcome.proxy.connections, outcome.proxy.aborted), (1, 0));
    }
}

#[test]
fn each_direction_ends_by_itself() {
    for second in 0..2 {
        let mut plans = [Plan { bytes: 300_000, ..Plan::default() }, listening(300_000)];
        // This end sends only after it has seen the end of the other direction.
        plans[second].is_second = true;
        let outcome = run(plans, Forward::Reference, None, |_, _, _, _| false);
        assert_eq!((outcome.client.received, outcome.server.received), (300_000, 300_000));
        assert_eq!(outcome.proxy.aborted, 0);
    }
}

#[test]
fn a_reset_of_either_end_resets_the_other() {
    let reset = Some(100_000);
    let plans = [Plan { bytes: BYTES, ..Plan::default() }, Plan { reset_after: reset, ..listening(BYTES) }];
    let outcome = run(plans, Forward::Reference, None, |_, _, _, _| false);
    assert_eq!((outcome.client.reason, outcome.server.reason), (Some(Closed::Reset), Some(Closed::Aborted)));
    let plans = [Plan { bytes: BYTES, reset_after: reset, ..Plan::default() }, listening(BYTES)];
    let outcome = run(plans, Forward::Reference, None, |_, _, _, _| false);
    assert_eq!((outcome.client.reason, outcome.server.reason), (Some(Closed::Aborted), Some(Closed::Reset)));
    assert_eq!(outcome.proxy.aborted, 1);
}

#[test]
fn a_server_that_refuses_resets_the_client() {
    let outcome = run(
        [Plan { bytes: 1000, ..Plan::default() }, Plan::default()],
        Forward::Reference,
        None,
        |_, _, _, _| false,
    );
    assert_eq!((outcome.client.reason, outcome.proxy.aborted), (Some(Closed::Reset), 1));
}

#[test]
fn a_slow_reader_stops_its_sender_within_the_buffers() {
    let plans = [Plan { bytes: BYTES, ..Plan::default() }, Plan { is_slow: true, ..listening(0) }];
    let (mut last, mut still) = (0, 0);
    let mut highest = 0;
    let outcome = run(plans, Forward::Reference, None, |_, server, proxy, release| {
        // The transfer rests when the proxy has received nothing for many rounds.
        still = if last > 0 && proxy.received == last { still + 1 } else { 0 };
        last = proxy.received;
        if still == 100_000 && !release.load(Ordering::Relaxed) {
            highest = proxy.received;
            assert!(server.received < BYTES, "the reader is slow");
            release.store(true, Ordering::Relaxed);
        }
        false
    });
    let most = 3 * u64::from(serve::PROXY_BUFFER) + (64 << 10);
    assert!((1..=most).contains(&highest), "{highest} bytes were received");
    assert_eq!(outcome.server.received, BYTES);
}

#[test]
fn an_idle_pair_is_reset() {
    // Neither end closes: the server never sends, and the client waits for it.
    let waits = Plan { bytes: 1, is_second: true, ..Plan::default() };
    let plans = [waits, Plan { bytes: 1, is_second: true, listens: true, ..Plan::default() }];
    let outcome = run(plans, Forward::Reference, Some(Duration::from_millis(200)), |_, _, _, _| false);
    assert_eq!((outcome.client.reason, outcome.server.reason), (Some(Closed::Reset), Some(Closed::Reset)));
}

#[test]
fn thread_models_forward_the_same_bytes_and_ends() {
    for threads in MODELS {
        let plans = [Plan { bytes: BYTES, ..Plan::default() }, listening(BYTES)];
        let outcome = run_in(threads, plans, None);
        assert_eq!((outcome.client.received, outcome.server.received), (BYTES, BYTES), "{threads:?}");
        let reasons = (outcome.client.reason, outcome.server.reason);
        assert_eq!(reasons, (Some(Closed::Normally), Some(Closed::Normally)), "{threads:?}");
        assert_eq!((outcome.proxy.connections, outcome.proxy.aborted), (1, 0), "{threads:?}");
        assert_eq!(outcome.proxy.sent, 2 * BYTES as u64);
        // A server that refuses, and one that resets.
        let outcome = run_in(threads, [Plan { bytes: 1000, ..Plan::default() }, Plan::default()], None);
        assert_eq!((outcome.client.reason, outcome.proxy.aborted), (Some(Closed::Reset), 1), "{threads:?}");
        let plans = [
            Plan { bytes: BYTES, ..Plan::default() },
            Plan { reset_after: Some(100_000), ..listening(BYTES) },
        ];
        let outcome = run_in(threads, plans, None);
        assert_eq!(outcome.client.reason, Some(Closed::Reset), "{threads:?}");
    }
}
