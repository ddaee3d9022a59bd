//! A DHCP lease of several workers. The server at the other end of a stream port gives an address, changes its MTU, and
//! takes it back, each time when all workers have what it has given before.

use host::{App, Buffer, Options, SteeringOptions, Workers};
use port::stream::{SocketAddress, Stream};
use stack::ip::InterfaceConfig;
use stack::{Event, Stack, Time};
use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use wire::{Arp, Dhcp, DhcpMessage, EtherType, Ethernet, Layers, MacAddress};

const WORKERS: usize = 3;
const MAC: MacAddress = MacAddress::new([2, 0, 0, 0, 0, 2]);
const SERVER: (MacAddress, Ipv4Addr) = (MacAddress::new([2, 0, 0, 0, 0, 1]), Ipv4Addr::new(10, 9, 0, 1));
const LEASED: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 100);

/// Lease as a worker sees it: addresses, and the MTU that the server has given.
type Seen = (Vec<String>, Option<u16>);

/// Records changes of the lease.
struct Witness<'a> {
    seen: Vec<Seen>,
    count: &'a AtomicUsize,
}

impl App for Witness<'_> {
    fn event(&mut self, _: &mut Stack<Buffer>, _: Event<Buffer>, _: Time) {}

    fn poll(&mut self, stack: &mut Stack<Buffer>, _: Time) -> bool {
        let id = Workers::interface();
        let addresses = stack.addresses(id).map(|own| own.to_string()).collect();
        let now = (addresses, stack.lease(id).and_then(|lease| lease.mtu));
        if self.seen.last() != Some(&now) {
            self.seen.push(now);
            self.count.store(self.seen.len(), Ordering::Release);
        }
        false
    }
}

/// The server, with the numbers of states that the workers have seen.
struct Server<'a> {
    wire: UnixStream,
    seen: &'a [AtomicUsize; WORKERS],
    stop: &'a AtomicBool,
    /// Leases given.
    leases: usize,
}

impl Server<'_> {
    /// Serves until the lease has ended, or the workers have.
    fn run(&mut self) {
        while let Some(frame) = self.receive() {
            let ethernet = Ethernet::new(&frame).unwrap();
            if let Some(arp) = Arp::new(ethernet.payload()).filter(|arp| arp.target_ip() == SERVER.1) {
                let to = (arp.sender_mac(), arp.sender_ip());
                self.send(to.0, EtherType::ARP, &wire::arp_packet(Arp::REPLY, SERVER, to));
                continue;
            }
            let dhcp = Layers::of(&frame).and_then(|layers| Dhcp::new(frame.get(layers.transport + 8..)?));
            let Some(request) = dhcp else { continue };
            match (request.message_type(), request.client_address().is_unspecified()) {
                (Some(Dhcp::DISCOVER), _) => self.answer(Dhcp::OFFER, &request),
                (Some(Dhcp::REQUEST_ADDRESS), true) => self.answer(Dhcp::ACK, &request),
                (Some(Dhcp::REQUEST_ADDRESS), false) => {
                    self.wait(2 + self.leases);
                    self.leases += 1;
                    let kind = if self.leases == 1 { Dhcp::ACK } else { Dhcp::NAK };
                    self.answer(kind, &request);
                    if kind == Dhcp::NAK {
                        return self.wait(4);
                    }
                }
                (kind, _) => panic!("{kind:?}"),
            }
        }
    }

    /// Waits until all workers have seen this many states.
    fn wait(&self, count: usize) {
        let has_seen = |seen: &AtomicUsize| seen.load(Ordering::Acquire) >= count;
        while !self.seen.iter().all(has_seen) && !self.stop.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn receive(&mut self) -> Option<Vec<u8>> {
        let mut len = [0; 4];
        self.wire.read_exact(&mut len).ok()?;
        let mut frame = vec![0; u32::from_be_bytes(len) as usize];
        self.wire.read_exact(&mut frame).ok()?;
        Some(frame)
    }

    fn send(&mut self, to: MacAddress, ethertype: EtherType, packet: &[u8]) {
        let link = [&to.octets()[..], &SERVER.0.octets(), &ethertype.0.to_be_bytes()].concat();
        let len = (link.len() + packet.len()) as u32;
        self.wire.write_all(&[&len.to_be_bytes()[..], &link, packet].concat()).unwrap();
    }

    /// Broadcasts an answer. T1 is one second, and the MTU differs between leases.
    fn answer(&mut self, kind: u8, request: &Dhcp<'_>) {
        let message = DhcpMessage {
            kind,
            transaction: request.transaction(),
            seconds: 0,
            broadcast: true,
            client_address: Ipv4Addr::UNSPECIFIED,
            mac: request.client_mac(),
            requested: None,
            server: Some(SERVER.1),
        };
        let mut payload = message.to_bytes();
        payload[0] = Dhcp::REPLY;
        payload[16..20].copy_from_slice(&LEASED.octets());
        payload.truncate(payload.iter().rposition(|byte| *byte == 255).unwrap());
        payload.extend([1, 4, 255, 255, 255, 0, 26, 2, 5, 100 - self.leases as u8]);
        payload.extend([51, 4, 0, 0, 2, 88, 58, 4, 0, 0, 0, 1, 59, 4, 0, 0, 2, 0, 255]);
        let len = (wire::UDP_HEADER + payload.len()) as u16;
        let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, 17, 0, 0];
        packet.extend(SERVER.1.octets().into_iter().chain([255; 4]));
        packet.extend(wire::udp_header(67, 68, len, [0, 0]).iter().chain(&payload));
        let total = packet.len() as u16;
        wire::rewrite_ipv4(&mut packet, total, 0);
        self.send(MacAddress::BROADCAST, EtherType::IPV4, &packet);
    }
}

#[test]
fn all_workers_have_the_lease_that_the_first_one_obtained_until_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let port = Stream::listen(&SocketAddress::Unix(path.clone())).unwrap();
    let config = InterfaceConfig { mac: MAC, mtu: 1500, vlan: None };
    let (options, steering) = (Options::new().unwrap(), SteeringOptions::default());
    let mut workers = Workers::open(WORKERS, &options, ("port", Box::new(port)), &config, &steering).unwrap();
    for host in workers.hosts() {
        let now = host.now();
        host.stack().start_dhcp(Workers::interface(), now);
    }
    let (stop, seen) = (AtomicBool::new(false), [const { AtomicUsize::new(0) }; WORKERS]);
    let mut apps: Vec<_> = seen.iter().map(|count| Witness { seen: Vec::new(), count }).collect();
    let mut server =
        Server { wire: UnixStream::connect(&path).unwrap(), seen: &seen, stop: &stop, leases: 0 };
    std::thread::scope(|scope| {
        let served = scope.spawn(move || {
            server.run();
            server.stop.store(true, Ordering::Relaxed);
        });
        let stop = &stop;
        scope.spawn(move || {
            (0..600).take_while(|_| !served.is_finished()).for_each(|_| {
                std::thread::sleep(Duration::from_millis(100));
            });
            stop.store(true, Ordering::Relaxed);
        });
        workers.run(&mut apps, |_, _| (), stop);
        workers.close();
    });
    let own = || vec![format!("{LEASED}/24")];
    for app in apps {
        let expected = [(vec![], None), (own(), Some(1380)), (own(), Some(1379)), (vec![], None)];
        assert_eq!(app.seen, expected);
    }
}
