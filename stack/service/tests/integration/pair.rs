//! Two services, each over a stack of its own, at the ends of one wire in shared memory.

use engine::LocalPort;
use host::{Host, Options, SteeringOptions, Workers};
use port::memif;
use port::patch::{Exchange, Patch};
use service::net::TcpStream;
use service::{Client, Connector, ServiceOptions, SlowPath, SlowPathThread, Statistics};
use stack::ip::{InterfaceConfig, InterfaceId};
use std::io::{Read, Write};
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
                let (port, steering) =
                    ((names[0], control), SteeringOptions { activity, ..SteeringOptions::default() });
                let mut hosts = Workers::open(services.len(), &options, port, &config, &steering).unwrap();
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

    pub(crate) fn stop(self) -> Statistics {
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
    pub(crate) fn start() -> Self {
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
    pub(crate) fn connect(&self, port: u16) -> (TcpStream, TcpStream) {
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

pub(crate) fn byte(i: usize, seed: usize) -> u8 {
    ((i / 251) * 7 + i % 251 + seed * 13) as u8
}

/// Sends bytes in pieces of different lengths and ends the stream.
pub(crate) fn send(mut stream: &TcpStream, len: usize, seed: usize) {
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
pub(crate) fn receive(mut stream: &TcpStream, len: usize, seed: usize) {
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
