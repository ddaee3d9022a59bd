//! A stack receives arbitrary segments of connections in any state, while its application calls it.
//!
//! The script gives segments relative to the connection: a segment in order by default, changed by deltas. Invariants:
//! sent packets are valid and carry the stream of the application, delivered bytes are those of the peer in order,
//! events belong to a connection that exists, no table exceeds its limit, and aborted connections leave nothing behind.

use super::app::byte;
use super::link::{Bytes, Port, Received};
use super::packet::{ROUTER_MAC, icmp_error};
use super::router::resolve;
use super::segment::{Segment, TcpOption, flag};
use peer::{Flow, delta, peer_byte};
use stack::ip::{InterfaceConfig, InterfaceId, Route};
use stack::tcp::{ConnectionId, Options};
use stack::{Address, Cidr, Config, Endpoint, Event, Limits, Slice, Stack, Time};
use std::collections::BTreeMap;
use std::time::Duration;

// With its path, because tests of the stack include this file by path.
#[path = "stack_segments/peer.rs"]
mod peer;

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const LOCAL: Address = Address::v4([192, 168, 0, 1]);
const REMOTE: Address = Address::v4([192, 0, 2, 1]);
/// Connections by the peer, then by the stack.
const FLOWS: usize = 8;
const ORIGIN: Time = Time(1_000_000_000_000);

/// The bytes of a script; zeros follow its end.
pub(crate) struct Script<'a>(pub(crate) &'a [u8]);

impl Script<'_> {
    pub(crate) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    pub(crate) fn word(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }
}

/// A connection of the application.
#[derive(Default)]
struct Open {
    flow: usize,
    /// Initial sequence numbers of the peer that agree with what was delivered.
    isn: Vec<u32>,
    delivered: u64,
    held: usize,
    written: u64,
    has_finished: bool,
}

struct Run {
    stack: Stack<Bytes>,
    port: Port,
    interface: InterfaceId,
    limits: Limits,
    now: Time,
    flows: Vec<Flow>,
    open: BTreeMap<ConnectionId, Open>,
    /// Recent frames of both sides.
    recent: Vec<Vec<u8>>,
}

/// Runs a script.
///
/// # Panics
/// If an invariant is violated.
pub fn play(script: &[u8]) {
    let mut script = Script(script);
    let mut run = Run::new(script.byte());
    while !script.0.is_empty() {
        run.step(&mut script);
        run.settle();
    }
    run.finish();
}

fn limits() -> Limits {
    Limits {
        connections: 6,
        half_open: 2,
        time_wait: 3,
        receive_buffer: 8192,
        send_buffer: 8192,
        out_of_order_ranges: 3,
        out_of_order_bytes: 16_384,
        challenge_acks: 10,
        errors: 10,
        outbox: 8,
        ..Limits::default()
    }
}

fn options(bits: u8) -> Options {
    let has = |bit: u8| bits >> bit & 1 == 1;
    Options {
        no_delay: has(0),
        keep_alive: has(1).then_some(Duration::from_secs(5)),
        ecn: has(2),
        timestamps: !has(3),
        sack: !has(4),
        window_scale: !has(5),
        fast_open: has(6),
        cork: has(7),
        ..Options::default()
    }
}

impl Run {
    fn new(bits: u8) -> Self {
        let limits = limits();
        let config = Config { limits: limits.clone(), tcp: options(bits), ..Config::new([7; 16]) };
        let mut stack = Stack::new(config, ORIGIN);
        let mac = wire::MacAddress::new(MAC);
        let interface = stack.add_interface(InterfaceConfig { mac, mtu: 1500, vlan: None });
        stack.add_address(interface, Cidr { address: LOCAL, prefix: 24 }, ORIGIN);
        let network = Cidr { address: Address::v4([0; 4]), prefix: 0 };
        stack.add_route(Route { network, interface, via: Some(Address::v4([192, 168, 0, 254])) });
        stack.listen(Endpoint::new(LOCAL, 80), options(bits)).expect("listens");
        let ports = |number: u16| if number < 4 { (80, 40_000 + number) } else { (50_000 + number, 8080) };
        let flow = |number: usize| {
            let (local, remote) = ports(number as u16);
            Flow {
                local: Endpoint::new(LOCAL, local),
                remote: Endpoint::new(REMOTE, remote),
                next: u32::MAX - 5_000 * number as u32,
                stack_next: 0,
                remote_isn: Vec::new(),
                local_isn: Vec::new(),
                value: 1,
                echo: 0,
            }
        };
        let flows = (0..FLOWS).map(flow).collect();
        let (open, recent) = (BTreeMap::new(), Vec::new());
        let mut run =
            Self { stack, port: Port::new(1500), interface, limits, now: ORIGIN, flows, open, recent };
        run.pass(10_000_000);
        run
    }

    fn step(&mut self, script: &mut Script<'_>) {
        let (operation, number) = (script.byte(), usize::from(script.byte()));
        match operation % 12 {
            0..=3 => self.segment(number % FLOWS, script),
            4 => self.in_order(number % FLOWS, script),
            5 => self.repeat(number, script),
            6 => self.report(number % FLOWS, script),
            7 => self.pass(u64::from(script.word()) << (number % 16)),
            8 => self.port.room = [1, 3, 20, usize::MAX][number % 4],
            9 => self.connect(4 + number % 4, script),
            _ => self.call(number, script),
        }
    }

    /// A segment with arbitrary fields near those expected.
    fn segment(&mut self, number: usize, script: &mut Script<'_>) {
        let flow = &mut self.flows[number];
        let flags = script.byte();
        let seq = flow.next.wrapping_add(delta(script));
        let ack = flow.stack_next.wrapping_add(delta(script));
        let (window, len) = (script.word(), u32::from(script.byte()) * 6);
        let options = flow.options(script);
        let end = Flow::end(flags, seq, len);
        if seq == flow.next || flags & flag::SYN != 0 {
            flow.next = end;
        }
        let segment = flow.build(number, (flags, seq, ack), (window, script.byte().into()), options, len);
        self.inject(&segment.encode(MAC, ROUTER_MAC));
    }

    /// Next segment of the peer: its handshake, or data.
    fn in_order(&mut self, number: usize, script: &mut Script<'_>) {
        let flow = &mut self.flows[number];
        let len = u32::from(script.byte()) * 6;
        let (flags, len) = match (flow.local_isn.is_empty(), flow.remote_isn.is_empty(), number < 4) {
            (true, _, true) => (flag::SYN, 0),
            (false, true, false) => (flag::SYN | flag::ACK, 0),
            _ => (flag::ACK | flag::PSH, len),
        };
        let mut options = flow.timestamps(1);
        if flags & flag::SYN != 0 {
            options.extend([TcpOption::Mss(1200), TcpOption::SackOk, TcpOption::WindowScale(2)]);
        }
        let seq = flow.next;
        flow.next = Flow::end(flags, seq, len);
        let segment = flow.build(number, (flags, seq, flow.stack_next), (20_000, 0), options, len);
        self.inject(&segment.encode(MAC, ROUTER_MAC));
    }

    /// A frame once more, with a changed byte if the script has one.
    fn repeat(&mut self, number: usize, script: &mut Script<'_>) {
        let Some(mut frame) = self.recent.get(number % self.recent.len().max(1)).cloned() else { return };
        let at = usize::from(script.word()) % frame.len();
        frame[at] ^= script.byte();
        self.receive(&frame);
    }

    /// An ICMP error about a segment of the stack.
    fn report(&mut self, number: usize, script: &mut Script<'_>) {
        let flow = &self.flows[number];
        let seq = flow.stack_next.wrapping_sub(u32::from(script.byte()) * 8);
        let mut quoted = flow.build(number, (flag::ACK, seq, 0), (0, 0), Vec::new(), 0);
        (quoted.source, quoted.destination) = (flow.local, flow.remote);
        let kind = [(3, 4), (3, 1), (3, 3), (11, 0)][usize::from(script.byte() % 4)];
        let error = icmp_error(&quoted.encode(ROUTER_MAC, MAC), REMOTE, kind, script.word().into());
        self.receive(&error);
    }

    fn connect(&mut self, number: usize, script: &mut Script<'_>) {
        let flow = &self.flows[number];
        if let Ok(connection) = self.stack.connect(flow.local, flow.remote, options(script.byte()), self.now)
        {
            let open = Open { flow: number, isn: Vec::new(), ..Open::default() };
            assert!(self.open.insert(connection, open).is_none(), "identifier in use");
        }
    }

    /// A call of the application for one of its connections.
    fn call(&mut self, number: usize, script: &mut Script<'_>) {
        let Some(connection) = self.open.keys().nth(number % self.open.len().max(1)).copied() else { return };
        let open = self.open.get_mut(&connection).expect("an open connection");
        match script.byte() % 8 {
            0..=2 => {
                let len = u64::from(script.word() % 4096) + 1;
                let stream = open.flow as u64;
                let data: Bytes = (open.written..open.written + len).map(|at| byte(stream, at)).collect();
                if self.stack.send(connection, Slice::new(data)).is_ok() {
                    open.written += len;
                }
            }
            3 | 4 => {
                let bytes = open.held.min(script.word().into());
                open.held -= bytes;
                self.stack.consumed(connection, bytes);
            }
            5 => self.stack.close(connection),
            6 => self.stack.set_options(connection, options(script.byte())),
            _ => self.stack.abort(connection),
        }
    }

    fn inject(&mut self, frame: &[u8]) {
        // One copy in recent frames for each four, so that old ones stay.
        if self.recent.len() < 64 {
            self.recent.push(frame.to_vec());
        }
        self.receive(frame);
    }

    fn receive(&mut self, frame: &[u8]) {
        self.note_syn(frame);
        self.stack.receive(self.interface, &mut Received::new(frame), self.now);
    }

    /// Records the numbers that a SYN of the peer can give a connection.
    fn note_syn(&mut self, frame: &[u8]) {
        let Some(Ok(segment)) = Segment::decode(frame) else { return };
        let flow = self
            .flows
            .iter_mut()
            .find(|flow| (flow.remote, flow.local) == (segment.source, segment.destination));
        if let Some(flow) = flow.filter(|_| segment.has(flag::SYN)) {
            flow.remote_isn.push(segment.seq);
        }
    }

    /// Sends and handles events until nothing more happens now.
    fn settle(&mut self) {
        for round in 0.. {
            assert!(round < 1000, "the stack does not rest");
            self.stack.transmit(&mut self.port, self.now);
            let has_event = self.handle_events();
            let frames = std::mem::take(&mut self.port.sent);
            if frames.is_empty() && !has_event {
                break;
            }
            for frame in frames {
                self.note_sent(&frame);
            }
        }
        assert!(self.stack.connections().count() <= self.limits.connections as usize, "connections");
        assert!(self.stack.time_waits() <= self.limits.time_wait as usize, "TIME-WAIT");
    }

    fn note_sent(&mut self, frame: &[u8]) {
        if let Some(reply) = resolve(frame, MAC) {
            return self.receive(&reply);
        }
        let Some(segment) = Segment::decode(frame) else { return };
        let segment = segment.expect("a valid segment");
        let number = self
            .flows
            .iter()
            .position(|flow| (flow.local, flow.remote) == (segment.source, segment.destination));
        let Some(number) = number else { return };
        let flow = &mut self.flows[number];
        if segment.has(flag::SYN) {
            flow.local_isn.push(segment.seq);
        }
        flow.stack_next = Flow::end(segment.flags, segment.seq, segment.payload.len() as u32);
        flow.echo = segment.timestamps().map_or(flow.echo, |(value, _)| value);
        let is_stream = |isn: &u32| {
            let start =
                u64::from(segment.seq.wrapping_sub(*isn).wrapping_sub(u32::from(!segment.has(flag::SYN))));
            (0..).zip(&segment.payload).all(|(at, got)| *got == byte(number as u64, start + at))
        };
        let is_own = segment.payload.is_empty() || flow.local_isn.iter().any(is_stream);
        assert!(is_own, "the stack sent other bytes than those of the application: {segment}");
    }

    fn handle_events(&mut self) -> bool {
        let mut any = false;
        while let Some(event) = self.stack.poll_event() {
            any = true;
            match event {
                Event::Accepted { connection, remote, .. } => {
                    let flow =
                        self.flows.iter().position(|flow| flow.remote == remote).expect("a known peer");
                    let isn = self.flows[flow].remote_isn.clone();
                    let earlier = self.open.insert(connection, Open { flow, isn, ..Open::default() });
                    assert!(earlier.is_none(), "identifier in use");
                }
                Event::Connected { connection } => {
                    assert!(self.open.contains_key(&connection), "connected without connection");
                }
                Event::Data { connection, data } => self.take(connection, &data),
                Event::Finished { connection } => {
                    let open = self.open.get_mut(&connection).expect("finished without connection");
                    assert!(!std::mem::replace(&mut open.has_finished, true), "finished twice");
                }
                Event::Closed { connection, .. } => {
                    assert!(self.open.remove(&connection).is_some(), "closed without connection");
                }
                _ => {}
            }
        }
        any
    }

    /// Checks delivered bytes: those of the peer from one of its initial sequence numbers, without a gap.
    fn take(&mut self, connection: ConnectionId, data: &Slice<Bytes>) {
        let open = self.open.get_mut(&connection).expect("data without connection");
        assert!(!open.has_finished && !data.is_empty(), "data after the end, or none");
        if open.delivered == 0 {
            open.isn.clone_from(&self.flows[open.flow].remote_isn);
        }
        let (bytes, flow, delivered) = (data.to_vec(), open.flow, open.delivered);
        open.isn.retain(|isn| {
            let start = isn.wrapping_add(1).wrapping_add(delivered as u32);
            (0..).zip(&bytes).all(|(at, got)| *got == peer_byte(flow, start.wrapping_add(at)))
        });
        assert!(!open.isn.is_empty(), "delivered bytes are not those of the peer");
        open.delivered += bytes.len() as u64;
        open.held += bytes.len();
    }

    /// Lets time pass, with all timers.
    fn pass(&mut self, micros: u64) {
        let end = self.now.after_micros(micros.min(400_000_000));
        for step in 0.. {
            assert!(step < 100_000, "timers do not rest");
            self.settle();
            let deadline = self.stack.deadline();
            // Without room, what is due stays due.
            if deadline > end || deadline <= self.now && self.port.room == 0 {
                break;
            }
            self.now = deadline.max(self.now.after_micros(1));
            self.stack.advance(self.now);
        }
        self.now = end;
        self.stack.advance(self.now);
    }

    fn finish(mut self) {
        self.port.room = usize::MAX;
        for connection in self.open.keys().copied().collect::<Vec<_>>() {
            self.stack.abort(connection);
        }
        self.settle();
        assert!(self.open.is_empty(), "aborted connections did not end");
        self.pass(400_000_000);
        for connection in self.open.keys().copied().collect::<Vec<_>>() {
            self.stack.abort(connection);
        }
        self.settle();
        assert_eq!(
            (self.stack.connections().count(), self.stack.time_waits()),
            (0, 0),
            "connections are left"
        );
    }
}
