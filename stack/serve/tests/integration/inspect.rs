//! Another thread looks at a running server of two workers: connections, counters and captures agree with what its
//! clients did.

use engine::LocalPort;
use host::{
    App, Buffer, CaptureError, CaptureFilter, CaptureOptions, Host, InspectError, Inspector, Options, PAGE,
    Recording, SteeringOptions, Workers,
};
use port::memif;
use port::patch::{Exchange, Patch};
use port::pcap::{self, Output};
use serve::{Echo, Server};
use stack::ip::InterfaceConfig;
use stack::tcp::{ConnectionId, ConnectionInfo, State};
use stack::{Address, Cidr, Endpoint, Event, Slice, Stack, Time};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use wire::{Layers, MacAddress};

const PORT: u16 = 7;
const CLIENT: &str = "10.9.0.1/24";
const SERVER: &str = "10.9.0.2/24";
/// More than two pages of each worker.
const CONNECTIONS: usize = 5 * PAGE;
/// Bytes of a connection in a round: several segments.
const LEN: usize = 10_000;

/// Sends bytes on all connections in each round, and counts those that come back.
struct Client {
    connections: Vec<ConnectionId>,
    data: Arc<[u8]>,
    rounds: Arc<AtomicUsize>,
    sent: usize,
    received: Arc<AtomicUsize>,
}

impl App for Client {
    fn event(&mut self, stack: &mut Stack<Buffer>, event: Event<Buffer>, _now: Time) {
        if let Event::Data { connection, data } = event {
            self.received.fetch_add(data.len(), Ordering::Relaxed);
            stack.consumed(connection, data.len());
        }
    }

    fn poll(&mut self, stack: &mut Stack<Buffer>, _now: Time) -> bool {
        let is_due = self.sent < self.rounds.load(Ordering::Relaxed);
        if is_due {
            for connection in &self.connections {
                stack.send(*connection, Slice::new(self.data.clone().into())).unwrap();
            }
            self.sent += 1;
        }
        is_due
    }

    /// The loop must see a new round without a packet.
    fn prepare_sleep(&mut self) -> bool {
        false
    }
}

/// A server of two workers and a client, which run until this is dropped.
struct Running {
    server: Vec<Inspector>,
    client: Inspector,
    rounds: Arc<AtomicUsize>,
    received: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

fn config(last: u8) -> InterfaceConfig {
    InterfaceConfig { mac: MacAddress::new([2, 0, 0, 0, 0, last]), mtu: 1500, vlan: None }
}

fn server(exchange: &Exchange, stop: &Arc<AtomicBool>) -> (Vec<Inspector>, std::thread::JoinHandle<()>) {
    let patch = Patch::new("a", "b", memif::Options::default(), exchange).unwrap();
    let (options, steering) = (Options::new().unwrap(), SteeringOptions::default());
    let mut workers = Workers::open(2, &options, ("a", Box::new(patch)), &config(2), &steering).unwrap();
    let mut echoes = [Echo::default(), Echo::default()];
    let mut inspectors = Vec::new();
    for (host, echo) in workers.hosts().iter_mut().zip(&mut echoes) {
        let now = host.now();
        host.stack().add_address(Workers::interface(), SERVER.parse().unwrap(), now);
        echo.listen(host.stack(), Endpoint::new(Address::v4([0; 4]), PORT)).unwrap();
        inspectors.push(host.inspector().unwrap());
    }
    let stop = stop.clone();
    let thread = std::thread::spawn(move || {
        assert!(workers.connect(&stop));
        workers.run(&mut echoes, |_, _| (), &stop);
        workers.close();
    });
    (inspectors, thread)
}

fn client(
    exchange: &Exchange,
    stop: &Arc<AtomicBool>,
    app: Client,
) -> (Inspector, std::thread::JoinHandle<()>) {
    let patch = Patch::new("b", "a", memif::Options::default(), exchange).unwrap();
    let mut host = Host::new(Options::new().unwrap()).unwrap();
    let interface = host.add_port(LocalPort::new("b", Box::new(patch)), config(1));
    let now = host.now();
    host.stack().add_address(interface, CLIENT.parse().unwrap(), now);
    let (inspector, stop, mut app) = (host.inspector().unwrap(), stop.clone(), app);
    let thread = std::thread::spawn(move || {
        assert!(host.connect(&stop));
        let to: Cidr = SERVER.parse().unwrap();
        let (any, to, now) =
            (Endpoint::new(Address::v4([0; 4]), 0), Endpoint::new(to.address, PORT), host.now());
        let mut connect = || host.stack().connect(any, to, stack::tcp::Options::default(), now).unwrap();
        app.connections = (0..CONNECTIONS).map(|_| connect()).collect();
        host.run(&mut app, &stop);
        host.close();
    });
    (inspector, thread)
}

impl Running {
    fn start() -> Self {
        let (exchange, stop) = (Exchange::default(), Arc::new(AtomicBool::new(false)));
        let (rounds, received) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let data = (0..LEN).map(|i| (i % 251) as u8).collect();
        let (of_app, count) = (rounds.clone(), received.clone());
        let app = Client { connections: Vec::new(), data, rounds: of_app, sent: 0, received: count };
        let (server, served) = server(&exchange, &stop);
        let (client, ran) = client(&exchange, &stop, app);
        Self { server, client, rounds, received, stop, threads: vec![served, ran] }
    }

    /// Waits until each connection has echoed another round.
    fn round(&self) {
        let rounds = self.rounds.fetch_add(1, Ordering::Relaxed) + 1;
        until(|| self.received.load(Ordering::Relaxed) == rounds * CONNECTIONS * LEN);
    }

    fn connections(&self) -> Vec<ConnectionInfo> {
        self.server.iter().flat_map(all).collect()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let ended = thread.join();
            assert!(std::thread::panicking() || ended.is_ok());
        }
    }
}

/// Waits, at most a minute, so that a failing test ends.
fn until(mut reached: impl FnMut() -> bool) {
    let limit = Instant::now() + Duration::from_mins(1);
    while !reached() {
        assert!(Instant::now() < limit, "not reached in a minute");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// All connections of a host, page by page.
fn all(host: &Inspector) -> Vec<ConnectionInfo> {
    let (mut infos, mut next) = (Vec::new(), Some(0));
    while let Some(from) = next {
        let page = host.connections(from).unwrap();
        assert!(page.entries.len() <= PAGE);
        infos.extend(page.entries);
        next = page.next;
    }
    infos
}

fn options(path: &Path, filter: CaptureFilter, packets: u64) -> CaptureOptions {
    let duration = Duration::from_mins(1);
    CaptureOptions { filter, output: Output::new(path), snap: None, packets, duration }
}

#[test]
fn connections_and_counters_agree_with_those_of_the_peer() {
    let running = Running::start();
    until(|| {
        running.connections().iter().filter(|info| info.state == State::Established).count() == CONNECTIONS
    });
    assert!(running.server.iter().all(|host| all(host).len() > PAGE), "both workers have several pages");
    running.round();
    let ends = |infos: Vec<ConnectionInfo>, swap: bool| {
        let ends =
            infos.iter().map(|info| if swap { (info.remote, info.local) } else { (info.local, info.remote) });
        let mut ends: Vec<_> = ends.collect();
        ends.sort();
        ends
    };
    assert_eq!(ends(running.connections(), false), ends(all(&running.client), true));
    for info in running.connections() {
        assert!(info.rtt.is_some() && info.memory > 0 && info.peer_window > 0, "{info:?}");
        assert_eq!((info.congestion.name(), info.held, info.out_of_order), ("cubic", 0, 0), "{info:?}");
    }
    // Each frame and each segment that the client has sent was received by one worker, once acknowledgements have
    // arrived.
    until(|| {
        let reports: Vec<_> = running.server.iter().map(|host| host.totals().unwrap().report).collect();
        let frames: u64 = reports.iter().map(|report| report.distributor.received).sum();
        let segments: u64 = reports.iter().map(|report| report.counters.tcp_in).sum();
        let sent = running.client.totals().unwrap().report.counters;
        frames == sent.frames_out && segments == sent.tcp_out + sent.tcp_retransmits
    });
    let hosts = running.server.clone();
    drop(running);
    assert_eq!(hosts[0].totals().unwrap_err(), InspectError::Ended);
}

#[test]
fn a_capture_has_the_packets_of_its_connection_only() {
    let (running, dir) = (Running::start(), tempfile::tempdir().unwrap());
    until(|| running.connections().len() == CONNECTIONS);
    running.round();
    let path = dir.path().join("one.pcapng");
    let wanted = running.connections()[PAGE + 7].clone();
    let filter = CaptureFilter::Connection { local: wanted.local, remote: wanted.remote };
    let recording = Recording::start(&running.server, &options(&path, filter, 10_000)).unwrap();
    running.round();
    assert!(!recording.status().has_ended);
    let status = recording.stop();
    assert_eq!(
        (status.has_ended, status.counts.missed, &status.counts.failure),
        (true, 0, &None),
        "{status:?}"
    );
    let frames: Vec<_> = pcap::Recording::read(&path).unwrap().frames().collect();
    assert_eq!(frames.len() as u64, status.counts.written);
    let (mut came, mut went) = (0, 0);
    for frame in &frames {
        let layers = Layers::of(frame).unwrap();
        let tcp = wire::Tcp::new(&frame[layers.transport..]).unwrap();
        let payload = frame.len() - layers.transport - tcp.header_len();
        let [a, b, c, d] = *layers.ports(frame).unwrap();
        match (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])) {
            (from, PORT) if from == wanted.remote.port => came += payload,
            (PORT, to) if to == wanted.remote.port => went += payload,
            others => panic!("a packet of another connection: {others:?}"),
        }
    }
    // Retransmissions add to the bytes of a round.
    assert!(came >= LEN && went >= LEN, "{came} bytes came and {went} went in {} frames", frames.len());
}

#[test]
fn a_capture_ends_at_its_limit_and_errors_leave_no_file() {
    let (running, dir) = (Running::start(), tempfile::tempdir().unwrap());
    until(|| running.connections().len() == CONNECTIONS);
    let path = dir.path().join("port.pcapng");
    let recording = Recording::start(&running.server, &options(&path, CaptureFilter::Port(PORT), 5)).unwrap();
    running.round();
    until(|| recording.status().has_ended);
    assert_eq!(recording.status().counts.written, 5, "both workers share the limit");
    assert_eq!(pcap::Recording::read(&path).unwrap().packets(), 5);
    let again = Recording::start(&running.server, &options(&path, CaptureFilter::Port(PORT), 5));
    assert!(matches!(again, Err(CaptureError::File(_))), "{again:?}");
    let hosts = running.server.clone();
    drop(running);
    let path = dir.path().join("ended.pcapng");
    let ended = Recording::start(&hosts, &options(&path, CaptureFilter::Port(PORT), 5));
    assert!(matches!(ended, Err(CaptureError::Host(InspectError::Ended))) && !path.exists(), "{ended:?}");
}
