//! Two hosts at the ends of one wire in shared memory: connections, data and their end, without a network.

use engine::{LocalPort, Polling};
use host::{App, Buffer, Host, Options, Report};
use port::memif;
use port::patch::{Exchange, Patch};
use serve::{Echo, Served, Server};
use stack::ip::{InterfaceConfig, InterfaceId};
use stack::tcp::ConnectionId;
use stack::{Address, Closed, Endpoint, Event, Slice, SocketId, Stack, Time, UdpOptions};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use wire::MacAddress;

const PORT: u16 = 7;
const SERVER: [&str; 2] = ["10.9.0.2/24", "fd09::2/64"];
const CLIENT: [&str; 2] = ["10.9.0.1/24", "fd09::1/64"];

fn host(name: &str, peer: &str, exchange: &Exchange, addresses: [&str; 2], polling: Polling) -> Host {
    let options = Options { polling, ..Options::new().unwrap() };
    let mut host = Host::new(options).unwrap();
    let patch = Patch::new(name, peer, memif::Options::default(), exchange).unwrap();
    let mac = MacAddress::new([2, 0, 0, 0, 0, name.as_bytes()[0]]);
    let config = InterfaceConfig { mac, mtu: 1500, vlan: None };
    let interface = host.add_port(LocalPort::new(name, Box::new(patch)), config);
    let now = host.now();
    for address in addresses {
        host.stack().add_address(interface, address.parse().unwrap(), now);
    }
    host
}

/// Sends bytes on each connection, closes, and collects what comes back.
struct Client {
    connections: Vec<(ConnectionId, Vec<u8>)>,
    data: Arc<[u8]>,
    open: usize,
    stop: Arc<AtomicBool>,
}

impl App for Client {
    fn event(&mut self, stack: &mut Stack<Buffer>, event: Event<Buffer>, _now: Time) {
        match event {
            Event::Connected { connection } => {
                stack.send(connection, Slice::new(self.data.clone().into())).unwrap();
                stack.close(connection);
            }
            Event::Data { connection, data } => {
                let mut known = self.connections.iter_mut();
                known.find(|(id, _)| *id == connection).unwrap().1.extend(data.to_vec());
                stack.consumed(connection, data.len());
            }
            // The client stays in TIME-WAIT, of which no event is reported.
            Event::Finished { .. } => {
                self.open -= 1;
                self.stop.store(self.open == 0, Ordering::Relaxed);
            }
            Event::Closed { reason, .. } => assert_eq!(reason, Closed::Normally),
            other => panic!("{other:?}"),
        }
    }
}

/// Echoes `len` bytes over `connections` connections of each IP version. Returns the server's counts.
fn echo(len: usize, connections: usize, polling: Polling) -> (Served, Report) {
    let (exchange, stop) = (Exchange::default(), Arc::new(AtomicBool::new(false)));
    let mut server = host("a", "b", &exchange, SERVER, polling);
    let mut client = host("b", "a", &exchange, CLIENT, polling);
    for any in [Address::v4([0; 4]), Address::UNSPECIFIED] {
        server.stack().listen(Endpoint::new(any, PORT), stack::tcp::Options::default()).unwrap();
    }
    let served = std::thread::spawn({
        let stop = stop.clone();
        move || {
            let mut echo = Echo::default();
            assert!(server.connect(&AtomicBool::new(false)));
            server.run(&mut echo, &stop);
            (echo.served(), server.close())
        }
    });
    assert!(client.connect(&AtomicBool::new(false)));
    let data: Arc<[u8]> = (0..len).map(|i| (i % 251) as u8).collect();
    let (now, mut opened) = (client.now(), Vec::new());
    for address in SERVER {
        let address: stack::Cidr = address.parse().unwrap();
        let any = if address.address.is_v4() { Address::v4([0; 4]) } else { Address::UNSPECIFIED };
        for _ in 0..connections {
            let (from, to) = (Endpoint::new(any, 0), Endpoint::new(address.address, PORT));
            let id = client.stack().connect(from, to, stack::tcp::Options::default(), now).unwrap();
            opened.push((id, Vec::new()));
        }
    }
    let open = opened.len();
    let mut app = Client { connections: opened, data: data.clone(), open, stop: stop.clone() };
    let watchdog = stop.clone();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_mins(1));
        watchdog.store(true, Ordering::Relaxed);
    });
    client.run(&mut app, &stop);
    client.close();
    app.connections
        .iter()
        .for_each(|(id, received)| assert!(**received == *data, "{id:?}: {}", received.len()));
    served.join().unwrap()
}

#[test]
fn connections_of_two_hosts_carry_bytes_unchanged() {
    for (len, connections) in [(1, 1), (100_000, 8), (3_000_000, 2)] {
        let (served, report) = echo(len, connections, Polling::Adaptive);
        let bytes = (2 * connections * len) as u64;
        assert_eq!((served.received, served.sent), (bytes, bytes));
        assert_eq!((served.connections, served.aborted), (2 * connections as u64, 0));
        assert_eq!((report.faults, report.counters.tcp_checksum_errors), (0, 0));
    }
}

#[test]
fn busy_hosts_never_sleep() {
    assert_eq!(echo(10_000, 1, Polling::Busy).1.rounds.2, 0);
}

/// Sends more datagrams than a ring takes.
struct Sender {
    socket: SocketId,
    left: usize,
}

impl App for Sender {
    fn event(&mut self, _stack: &mut Stack<Buffer>, event: Event<Buffer>, _now: Time) {
        panic!("{event:?}");
    }

    fn poll(&mut self, stack: &mut Stack<Buffer>, now: Time) -> bool {
        let part = self.left.min(64);
        for _ in 0..part {
            let payload = vec![Slice::new(Buffer::from(Arc::from([0; 64])))];
            stack.udp_send(self.socket, None, payload, now).unwrap();
        }
        self.left -= part;
        part > 0
    }
}

/// The peer takes nothing, so that the ring stays full and frames wait.
#[test]
fn a_host_sleeps_while_a_port_has_no_room() {
    let exchange = Exchange::default();
    let mut server = host("a", "b", &exchange, SERVER, Polling::Adaptive);
    let mut client = host("b", "a", &exchange, CLIENT, Polling::Adaptive);
    let connecting = std::thread::spawn(move || {
        assert!(server.connect(&AtomicBool::new(false)));
        server
    });
    assert!(client.connect(&AtomicBool::new(false)));
    let mut server = connecting.join().unwrap();
    let peer = Endpoint::new(Address::v4([10, 9, 0, 2]), PORT);
    let (now, any) = (client.now(), Endpoint::new(Address::v4([0; 4]), 0));
    assert!(client.stack().add_neighbour(InterfaceId(0), peer.address, MacAddress::new([2; 6]), now));
    let socket = client.stack().udp_bind(any, UdpOptions::default()).unwrap();
    client.stack().udp_connect(socket, peer, now).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let timer = std::thread::spawn({
        let stop = stop.clone();
        move || {
            std::thread::sleep(Duration::from_millis(300));
            stop.store(true, Ordering::Relaxed);
        }
    });
    client.run(&mut Sender { socket, left: 2048 }, &stop);
    timer.join().unwrap();
    let waiting = client.stack().counters().udp_out;
    let report = client.close();
    assert_eq!(waiting, 2048, "{report:?}");
    assert!(report.rounds.2 > 0, "the host did not sleep: {:?}", report.rounds);
    assert!(server.poll(&mut Echo::default()), "the ring was not empty");
}
