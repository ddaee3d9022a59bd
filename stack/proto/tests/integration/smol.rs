//! The TCP/IP stack `smoltcp` as an independent peer, with the application of the plans.

use super::app::{After, FIRST_PORT, Plan, SERVICE, Side, byte, stream};
use super::net::Node;
use super::rng::Rng;
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer, State};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpAddress, IpCidr};
use stack::{Address, Time};
use std::collections::VecDeque;
use std::net::IpAddr;

/// Frames of both directions.
struct Queues {
    mtu: usize,
    received: VecDeque<Vec<u8>>,
    sent: Vec<Vec<u8>>,
}

struct Receive(Vec<u8>);

struct Transmit<'a>(&'a mut Vec<Vec<u8>>);

impl RxToken for Receive {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

impl TxToken for Transmit<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut frame = vec![0; len];
        let result = f(&mut frame);
        self.0.push(frame);
        result
    }
}

impl Device for Queues {
    type RxToken<'a> = Receive;
    type TxToken<'a> = Transmit<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Receive, Transmit<'_>)> {
        let frame = self.received.pop_front()?;
        Some((Receive(frame), Transmit(&mut self.sent)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Transmit<'_>> {
        Some(Transmit(&mut self.sent))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        (capabilities.medium, capabilities.max_transmission_unit) = (Medium::Ethernet, self.mtu + 14);
        capabilities
    }
}

/// A socket, and what its plan has done.
struct Connection {
    handle: SocketHandle,
    number: Option<usize>,
    sent: u64,
    received: u64,
    has_closed: bool,
}

/// A host with smoltcp.
pub(crate) struct Smol {
    host: usize,
    addresses: [Address; 2],
    seed: u64,
    plans: Vec<Plan>,
    queues: Queues,
    interface: Interface,
    sockets: SocketSet<'static>,
    connections: Vec<Connection>,
    /// Connections to open, the earliest last.
    openings: Vec<(Time, usize)>,
    /// Bytes that each connection of the plans has sent and received in the end.
    pub(crate) ends: Vec<Option<(u64, u64)>>,
    wake: Time,
}

fn instant(now: Time) -> Instant {
    Instant::from_micros(now.micros().cast_signed())
}

fn address(address: Address) -> IpAddress {
    match address.ip() {
        IpAddr::V4(v4) => v4.into(),
        IpAddr::V6(v6) => v6.into(),
    }
}

impl Smol {
    pub(crate) fn new(
        host: usize,
        addresses: [Address; 2],
        (seed, buffer): (u64, usize),
        plans: &[Plan],
        now: Time,
    ) -> Self {
        let mut queues = Queues { mtu: 1500, received: VecDeque::new(), sent: Vec::new() };
        let mac = EthernetAddress([2, 0, 0, 0, 0, host as u8]);
        let mut config = Config::new(HardwareAddress::Ethernet(mac));
        config.random_seed = seed;
        let mut interface = Interface::new(config, &mut queues, instant(now));
        let own = addresses[host];
        interface.update_ip_addrs(|list| {
            list.push(IpCidr::new(address(own), if own.is_v4() { 24 } else { 64 })).expect("space");
        });
        let opens = |number: &usize| plans[*number].opener == host;
        let mut openings: Vec<_> =
            (0..plans.len()).filter(opens).map(|number| (plans[number].at, number)).collect();
        openings.sort_unstable_by(|a, b| b.cmp(a));
        let mut smol = Self {
            host,
            addresses,
            seed,
            plans: plans.to_vec(),
            queues,
            interface,
            sockets: SocketSet::new(Vec::new()),
            connections: Vec::new(),
            openings,
            ends: vec![None; plans.len()],
            wake: now,
        };
        // A socket accepts one connection; late copies of a SYN take some as well.
        for _ in 0..plans.len() - smol.openings.len() + 8 {
            let socket = smol.socket(buffer);
            socket.listen(SERVICE).expect("listens");
        }
        for (_, number) in smol.openings.clone() {
            let _ = smol.socket(buffer);
            smol.connections.last_mut().expect("the new socket").number = Some(number);
        }
        smol
    }

    fn socket(&mut self, buffer: usize) -> &mut Socket<'static> {
        let buffers = [(); 2].map(|()| SocketBuffer::new(vec![0; buffer]));
        let [receive, transmit] = buffers;
        let mut socket = Socket::new(receive, transmit);
        socket.set_congestion_control(CongestionControl::Reno);
        let handle = self.sockets.add(socket);
        self.connections.push(Connection { handle, number: None, sent: 0, received: 0, has_closed: false });
        self.sockets.get_mut(handle)
    }

    /// Whether every connection of the plans ended here.
    pub(crate) fn is_done(&self) -> bool {
        self.ends.iter().all(Option::is_some)
    }

    fn open_due(&mut self, now: Time) {
        while let Some((_, number)) = self.openings.pop_if(|(at, _)| *at <= now) {
            let connection = self.connections.iter().find(|connection| connection.number == Some(number));
            let socket = self.sockets.get_mut::<Socket<'_>>(connection.expect("its socket").handle);
            let remote = (address(self.addresses[1 - self.host]), SERVICE);
            let port = FIRST_PORT + number as u16;
            socket.connect(self.interface.context(), remote, port).expect("connects");
        }
    }

    fn drive(&mut self, at: usize) {
        let connection = &mut self.connections[at];
        let socket = self.sockets.get_mut::<Socket<'_>>(connection.handle);
        if connection.number.is_none() && socket.may_send() {
            let remote = socket.remote_endpoint().expect("a remote end");
            connection.number = Some(usize::from(remote.port - FIRST_PORT));
        }
        let Some(number) = connection.number else { return };
        if matches!(socket.state(), State::SynSent | State::SynReceived | State::Listen) {
            return;
        }
        let is_open = !matches!(socket.state(), State::Closed | State::TimeWait);
        connection.receive(socket, stream(self.seed, number, 1 - self.host));
        connection.send(socket, &self.plans[number].sides[self.host], stream(self.seed, number, self.host));
        if !is_open && (connection.sent > 0 || connection.has_closed) {
            self.ends[number] = Some((connection.sent, connection.received));
        }
    }
}

impl Connection {
    fn receive(&mut self, socket: &mut Socket<'_>, stream: u64) {
        while socket.can_recv() {
            let start = self.received;
            let taken = socket.recv(|bytes| {
                for (at, got) in bytes.iter().enumerate() {
                    assert_eq!(*got, byte(stream, start + at as u64), "byte {}", start + at as u64);
                }
                (bytes.len(), bytes.len())
            });
            self.received += taken.expect("receives") as u64;
        }
    }

    fn holds(&self, after: After, socket: &Socket<'_>) -> bool {
        match after {
            After::Received(bytes) => self.received >= bytes,
            After::Finished => !socket.may_recv(),
        }
    }

    fn send(&mut self, socket: &mut Socket<'_>, side: &Side, stream: u64) {
        let allowed = side.sends.iter().take_while(|(after, _)| self.holds(*after, socket));
        let until = allowed.map(|(_, until)| *until).last().unwrap_or(0);
        while socket.can_send() && self.sent < until {
            let chunk: Vec<u8> =
                (self.sent..until.min(self.sent + side.chunk)).map(|at| byte(stream, at)).collect();
            self.sent += socket.send_slice(&chunk).expect("sends") as u64;
        }
        if self.sent == side.total() && self.holds(side.close, socket) && !self.has_closed {
            self.has_closed = true;
            socket.close();
        }
    }
}

impl Node for Smol {
    fn wake(&self, _: Time) -> Time {
        self.wake
    }

    fn run(&mut self, now: Time, _: &mut Rng) {
        self.open_due(now);
        // A call of the application lets the interface send, which changes states again.
        for _ in 0..2 {
            self.interface.poll(instant(now), &mut self.queues, &mut self.sockets);
            (0..self.connections.len()).for_each(|at| self.drive(at));
        }
        self.interface.poll(instant(now), &mut self.queues, &mut self.sockets);
        let at = self.interface.poll_at(instant(now), &self.sockets);
        let at = at.map_or(Time::NEVER, |at| Time(at.total_micros().cast_unsigned() * 1000));
        let opening = self.openings.last().map_or(Time::NEVER, |(at, _)| *at);
        self.wake = at.max(now.after_micros(1)).min(opening);
    }

    fn take(&mut self, frame: Vec<u8>, now: Time) {
        self.queues.received.push_back(frame);
        self.wake = now;
    }

    fn sent(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.queues.sent)
    }
}
