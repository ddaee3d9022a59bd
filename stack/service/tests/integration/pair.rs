//! Two services, each over a stack of its own, at the ends of one wire in shared memory.

use engine::LocalPort;
use host::{Host, Options, SpreadOptions, Workers};
use port::memif;
use port::patch::{Exchange, Patch};
use service::net::{TcpListener, TcpStream};
use service::{
    AcceptPolicy, Client, Connector, Fault, Limits, ServiceOptions, SlowPath, SlowPathThread, Statistics,
};
use stack::ip::{InterfaceConfig, InterfaceId};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use wire::MacAddress;

pub(crate) const SERVER: [&str; 2] = ["10.9.0.2", "fd09::2"];
pub(crate) const CLIENT: [&str; 2] = ["10.9.0.1", "fd09::1"];
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// A service that runs on threads of its own until it is stopped.
pub(crate) struct Running {
    pub(crate) connector: Connector,
    slow_path: SlowPathThread,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Statistics>>,
}

impl Running {
    fn start(
        names: [&'static str; 2],
        exchange: &Exchange,
        addresses: [&str; 2],
        (options, workers): (ServiceOptions, usize),
        path: Option<&Path>,
    ) -> Self {
        let activity = options.activity.clone();
        let (mut slow_path, mut services) = SlowPath::new(options, workers).unwrap();
        if let Some(path) = path {
            slow_path.listen(UnixListener::bind(path).unwrap()).unwrap();
        }
        let (connector, stop) = (slow_path.connector(), Arc::new(AtomicBool::new(false)));
        let (exchange, ended) = (exchange.clone(), stop.clone());
        let addresses = [format!("{}/24", addresses[0]), format!("{}/64", addresses[1])];
        let thread = std::thread::spawn(move || {
            let patch = Patch::new(names[0], names[1], memif::Options::default(), &exchange).unwrap();
            let options = Options::new().unwrap();
            let mac = MacAddress::new([2, 0, 0, 0, 0, names[0].as_bytes()[0]]);
            let config = InterfaceConfig { mac, mtu: 1500, vlan: None };
            if let [service] = &mut services[..] {
                let mut host = Host::new(options).unwrap();
                let interface = host.add_port(LocalPort::new(names[0], Box::new(patch)), config);
                add_addresses(&mut host, interface, &addresses);
                host.connect(&ended);
                host.run(service, &ended);
                host.close();
            } else {
                let control: Box<dyn port::PortControl> = Box::new(patch);
                let (port, spread) =
                    ((names[0], control), SpreadOptions { activity, ..SpreadOptions::default() });
                let mut hosts = Workers::open(services.len(), &options, port, &config, &spread).unwrap();
                for host in hosts.hosts() {
                    add_addresses(host, Workers::interface(), &addresses);
                }
                hosts.connect(&ended);
                hosts.run(&mut services, |_, _| (), &ended);
                hosts.close();
            }
            services.iter().map(|service| service.statistics().clone()).collect()
        });
        Self { connector, slow_path: slow_path.start().unwrap(), stop, thread }
    }

    pub(crate) fn client(&self) -> Client {
        self.connector.connect().unwrap()
    }

    /// Ends the service. Returns the counts of each worker.
    pub(crate) fn stop_workers(self) -> (Statistics, Vec<Statistics>) {
        self.stop.store(true, Ordering::Relaxed);
        let workers = self.thread.join().unwrap();
        (self.slow_path.finish(), workers)
    }

    fn stop(self) -> Statistics {
        let (mut total, workers) = self.stop_workers();
        for worker in &workers {
            total.add(worker);
        }
        total
    }
}

fn add_addresses(host: &mut Host, interface: InterfaceId, addresses: &[String]) {
    let now = host.now();
    for address in addresses {
        host.stack().add_address(interface, address.parse().unwrap(), now);
    }
}

/// Services of a server and a client.
pub(crate) struct Pair(pub(crate) Running, pub(crate) Running);

impl Pair {
    fn start() -> Self {
        Self::with(ServiceOptions::default(), 1, None)
    }

    /// A pair whose services have this many workers each.
    pub(crate) fn with(options: ServiceOptions, workers: usize, path: Option<&Path>) -> Self {
        Self::of([options, ServiceOptions::default()], workers, path)
    }

    /// A pair with the options of each service.
    pub(crate) fn of(options: [ServiceOptions; 2], workers: usize, path: Option<&Path>) -> Self {
        let exchange = Exchange::default();
        let [of_server, of_client] = options;
        let server = Running::start(["a", "b"], &exchange, SERVER, (of_server, workers), path);
        let client = Running::start(["b", "a"], &exchange, CLIENT, (of_client, workers), None);
        Self(server, client)
    }

    /// A connection from the client to a listener of the server.
    fn connect(&self, port: u16) -> (TcpStream, TcpStream) {
        let listener = self.0.client().bind_tcp(address(SERVER[0], port)).unwrap();
        let ours = self.1.client().connect_tcp(address(SERVER[0], port)).unwrap();
        let (theirs, from) = listener.accept().unwrap();
        assert_eq!(
            (ours.local_addr().unwrap(), theirs.local_addr().unwrap()),
            (from, ours.peer_addr().unwrap())
        );
        for stream in [&ours, &theirs] {
            stream.set_read_timeout(Some(LIMIT)).unwrap();
            stream.set_write_timeout(Some(LIMIT)).unwrap();
        }
        (ours, theirs)
    }
}

pub(crate) fn address(ip: &str, port: u16) -> SocketAddr {
    SocketAddr::new(ip.parse().unwrap(), port)
}

fn byte(i: usize, seed: usize) -> u8 {
    ((i / 251) * 7 + i % 251 + seed * 13) as u8
}

/// Sends bytes in pieces of different lengths and ends the stream.
fn send(mut stream: &TcpStream, len: usize, seed: usize) {
    let bytes: Vec<u8> = (0..len).map(|i| byte(i, seed)).collect();
    let (mut at, mut piece) = (0, 1);
    while at < len {
        let end = len.min(at + piece);
        stream.write_all(&bytes[at..end]).unwrap();
        (at, piece) = (end, (piece * 3 + seed) % 70_000 + 1);
    }
    stream.shutdown(Shutdown::Write).unwrap();
}

/// Reads to the end of the stream and compares every byte.
fn receive(mut stream: &TcpStream, len: usize, seed: usize) {
    let (mut at, mut buffer) = (0, vec![0; 50_000]);
    loop {
        let n = stream.read(&mut buffer).unwrap();
        if n == 0 {
            break;
        }
        assert!((at..).zip(&buffer[..n]).all(|(i, have)| *have == byte(i, seed)), "near {at}");
        at += n;
    }
    assert_eq!(at, len);
}

/// Sends in both directions at the same time.
pub(crate) fn exchange(ours: &TcpStream, theirs: &TcpStream, len: usize) {
    std::thread::scope(|scope| {
        scope.spawn(|| send(ours, len, 1));
        scope.spawn(|| send(theirs, len, 2));
        scope.spawn(|| receive(theirs, len, 1));
        receive(ours, len, 2);
    });
}

#[test]
fn megabytes_pass_through_both_directions_unchanged() {
    let pair = Pair::start();
    let (ours, theirs) = pair.connect(80);
    exchange(&ours, &theirs, 8 << 20);
    drop((ours, theirs));
    let (server, client) = (pair.0.stop(), pair.1.stop());
    assert_eq!((server.accepted, server.aborted, client.connected, client.aborted), (1, 0, 1, 0));
}

#[test]
fn many_threads_share_one_client() {
    let pair = Pair::start();
    let (server, client) = (pair.0.client(), pair.1.client());
    let listeners = SERVER.map(|ip| server.bind_tcp(address(ip, 81)).unwrap());
    std::thread::scope(|scope| {
        for listener in &listeners {
            scope.spawn(move || {
                for _ in 0..16 {
                    let (stream, _) = listener.accept().unwrap();
                    scope.spawn(move || {
                        receive(&stream, 200_000, 5);
                        send(&stream, 100_000, 6);
                    });
                }
            });
        }
        for ip in SERVER {
            for _ in 0..16 {
                let client = &client;
                scope.spawn(move || {
                    let stream = client.connect_tcp(address(ip, 81)).unwrap();
                    send(&stream, 200_000, 5);
                    receive(&stream, 100_000, 6);
                });
            }
        }
    });
}

#[test]
fn a_half_closed_connection_still_receives() {
    let pair = Pair::start();
    let (mut ours, mut theirs) = pair.connect(82);
    ours.write_all(b"question").unwrap();
    ours.shutdown(Shutdown::Write).unwrap();
    assert_eq!(ours.write(b"more").unwrap_err().kind(), ErrorKind::BrokenPipe);
    let mut text = String::new();
    theirs.read_to_string(&mut text).unwrap();
    assert_eq!(text, "question");
    theirs.write_all(b"answer").unwrap();
    drop(theirs);
    text.clear();
    ours.read_to_string(&mut text).unwrap();
    assert_eq!(text, "answer");
}

#[test]
fn unread_data_resets_the_connection() {
    let pair = Pair::start();
    let (mut ours, theirs) = pair.connect(83);
    ours.write_all(&[7; 1000]).unwrap();
    theirs.peek(&mut [0]).unwrap();
    drop(theirs);
    let error = ours.read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert_eq!(ours.write(&[0]).unwrap_err().kind(), ErrorKind::BrokenPipe);
    assert_eq!(pair.0.stop().aborted, 1);
}

#[test]
fn calls_end_at_their_time_limits() {
    let pair = Pair::start();
    let (mut ours, theirs) = pair.connect(84);
    ours.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    assert_eq!(ours.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    ours.set_nonblocking(true).unwrap();
    assert_eq!(ours.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    let (many, mut sent) = (vec![1; 100_000], 0);
    let error = loop {
        match ours.write(&many) {
            Ok(n) => sent += n,
            Err(error) if sent > 1 << 20 || error.kind() != ErrorKind::WouldBlock => break error,
            Err(_) => std::thread::yield_now(),
        }
    };
    assert_eq!(error.kind(), ErrorKind::WouldBlock, "the peer does not read");
    let client = pair.1.client();
    let refused = client.connect_tcp(address(SERVER[0], 9)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    let absent = TcpStream::connect_timeout(&client, address("10.9.0.77", 9), Duration::from_millis(30));
    assert_eq!(absent.unwrap_err().kind(), ErrorKind::TimedOut);
    let unknown = client.connect_tcp(address("192.0.2.1", 9)).unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::NetworkUnreachable);
    drop(theirs);
}

#[test]
fn datagrams_of_every_length_arrive() {
    let pair = Pair::start();
    for (server, client) in SERVER.into_iter().zip(CLIENT) {
        let server = pair.0.client().bind_udp(address(server, 53)).unwrap();
        let client = pair.1.client().bind_udp(address(client, 0)).unwrap();
        client.connect(server.local_addr().unwrap()).unwrap();
        for socket in [&server, &client] {
            socket.set_read_timeout(Some(LIMIT)).unwrap();
        }
        let mut buffer = vec![0; 65_536];
        for len in [0, 1, 1452, 1473, 16_384, 40_000, 65_000] {
            let bytes: Vec<u8> = (0..len).map(|i| byte(i, len)).collect();
            assert_eq!(client.send(&bytes).unwrap(), len);
            let (n, from) = server.recv_from(&mut buffer).unwrap();
            assert_eq!((&buffer[..n], from), (&*bytes, client.local_addr().unwrap()));
            server.send_to(&buffer[..n], from).unwrap();
            let n = client.recv(&mut buffer).unwrap();
            assert_eq!(buffer[..n], bytes);
        }
        assert_eq!(server.send(&[1]).unwrap_err().kind(), ErrorKind::NotConnected);
    }
}

#[test]
fn groups_are_received_until_they_are_left() {
    let pair = Pair::start();
    let group = std::net::Ipv4Addr::new(239, 1, 2, 3);
    let (any, own) = (std::net::Ipv4Addr::UNSPECIFIED, SERVER[0].parse().unwrap());
    let server = pair.0.client().bind_udp(address("0.0.0.0", 5000)).unwrap();
    let client = pair.1.client().bind_udp(address("0.0.0.0", 0)).unwrap();
    server.set_read_timeout(Some(LIMIT)).unwrap();
    let kind = |done: std::io::Result<()>| done.map_err(|error| error.kind());
    assert_eq!(kind(server.join_multicast_v4(&group, &any)), Ok(()));
    assert_eq!(kind(server.join_multicast_v4(&group, &own)), Err(ErrorKind::AddrInUse));
    assert_eq!(kind(server.join_multicast_v4(&own, &any)), Err(ErrorKind::InvalidInput));
    let foreign = CLIENT[0].parse().unwrap();
    assert_eq!(kind(server.join_multicast_v4(&group, &foreign)), Err(ErrorKind::AddrNotAvailable));
    assert_eq!(
        kind(server.join_multicast_v6(&"ff05::7".parse().unwrap(), 1)),
        Err(ErrorKind::AddrNotAvailable)
    );
    for (ttl, done) in [(0, Err(ErrorKind::InvalidInput)), (256, Err(ErrorKind::InvalidInput)), (9, Ok(()))] {
        assert_eq!(kind(client.set_ttl(ttl)), done);
    }
    client.set_multicast_ttl_v4(2).unwrap();
    let mut byte = [0];
    client.send_to(b"1", address("239.1.2.3", 5000)).unwrap();
    assert_eq!((server.recv_from(&mut byte).unwrap().0, &byte), (1, b"1"));
    assert_eq!(kind(server.leave_multicast_v4(&group, &own)), Ok(()));
    assert_eq!(kind(server.leave_multicast_v4(&group, &any)), Err(ErrorKind::AddrNotAvailable));
    client.send_to(b"2", address("239.1.2.3", 5000)).unwrap();
    client.send_to(b"3", address(SERVER[0], 5000)).unwrap();
    assert_eq!(
        (server.recv_from(&mut byte).unwrap().0, &byte),
        (1, b"3"),
        "the second one went to the group"
    );
}

#[test]
fn clients_of_one_user_share_an_endpoint() {
    let policies = [AcceptPolicy::Locked, AcceptPolicy::RoundRobin, AcceptPolicy::OwnWithStealing];
    for (accept, workers) in policies.into_iter().flat_map(|accept| [(accept, 1), (accept, 2)]) {
        let pair = Pair::with(ServiceOptions { accept, ..ServiceOptions::default() }, workers, None);
        let end = address(SERVER[0], 85);
        let servers = [pair.0.client(), pair.0.client()];
        let listeners = servers.each_ref().map(|server| TcpListener::bind_shared(server, end).unwrap());
        assert_eq!(TcpListener::bind(&servers[0], end).unwrap_err().kind(), ErrorKind::AddrInUse);
        let client = pair.1.client();
        let streams: Vec<_> = (0..32).map(|_| client.connect_tcp(end).unwrap()).collect();
        // Accepted one by one, so that no listener is waited for that has none.
        for listener in &listeners {
            listener.set_nonblocking(true).unwrap();
        }
        let mut accepted = [0_usize; 2];
        while accepted[0] + accepted[1] < streams.len() {
            for (count, listener) in accepted.iter_mut().zip(&listeners) {
                *count += usize::from(listener.accept().is_ok());
            }
            std::thread::yield_now();
        }
        if accept == AcceptPolicy::RoundRobin {
            // Each worker fills the queues in turn.
            assert!(accepted[0].abs_diff(accepted[1]) <= 2 * (workers - 1), "{accepted:?}");
        }
    }
}

#[test]
fn other_processes_connect_by_a_unix_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("service");
    let limits = Limits { clients: 1, ..Limits::default() };
    let options = ServiceOptions { limits, ..ServiceOptions::default() };
    let pair = Pair::with(options, 1, Some(&path));
    let server = Client::connect(&path).unwrap();
    let listener = server.bind_tcp(address(SERVER[1], 86)).unwrap();
    let ours = pair.1.client().connect_tcp(address(SERVER[1], 86)).unwrap();
    let (theirs, _) = listener.accept().unwrap();
    exchange(&ours, &theirs, 1 << 20);
    drop((theirs, listener, server));
    // There is room for one client.
    let _again = loop {
        if let Ok(client) = Client::connect(&path) {
            break client;
        }
        std::thread::yield_now();
    };
    let left = pair.0.stop().left;
    assert_eq!(left.into_iter().collect::<Vec<_>>(), [(Fault::Left, 1)]);
}

#[test]
fn sockets_of_an_ended_service_fail() {
    let pair = Pair::start();
    let (mut ours, theirs) = pair.connect(87);
    let client = pair.1.client();
    pair.1.stop();
    assert_eq!(ours.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionAborted);
    assert!(client.connect_tcp(address(SERVER[0], 87)).is_err());
    drop(theirs);
}

#[test]
fn clients_end_with_the_slow_path_while_workers_exist() {
    let (slow_path, workers) = SlowPath::new(ServiceOptions::default(), 1).unwrap();
    let connector = slow_path.connector();
    let slow_path = slow_path.start().unwrap();
    let client = connector.connect().unwrap();
    slow_path.finish();
    assert_eq!(client.bind_tcp(address(SERVER[0], 88)).unwrap_err().kind(), ErrorKind::ConnectionAborted);
    drop(workers);
}

#[test]
fn a_service_refuses_more_clients_than_its_limit() {
    let limits = Limits { clients: 1, ..Limits::default() };
    let pair = Pair::with(ServiceOptions { limits, ..ServiceOptions::default() }, 1, None);
    let first = pair.0.client();
    assert!(pair.0.connector.connect().is_err());
    assert!(first.bind_tcp(address(SERVER[0], 88)).is_ok());
    assert_eq!(first.bind_tcp(address("10.9.0.99", 88)).unwrap_err().kind(), ErrorKind::AddrNotAvailable);
}
