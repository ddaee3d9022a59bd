//! Memory of established connections without data: what the allocator gives for them, divided by their number. And
//! requests and replies, for which it is not asked.

#![allow(clippy::unwrap_used, reason = "a failure here is the test's")]

use stack::ip::{InterfaceConfig, InterfaceId};
use stack::tcp::Options;
use stack::{
    Address, Config, Endpoint, Event, Frame, Limits, Link, LinkOffloads, Payload, Piece, Recorder, Slice,
    Stack, Time, TxOffload,
};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::alloc::System;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use wire::MacAddress;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

type Bytes = Arc<[u8]>;

/// Connections between the two stacks, each of which is one at both.
const CONNECTIONS: usize = 100_032;
/// Connections that are opened first.
const FIRST: usize = 256;
/// First remote port, and local ports of the connections to one remote port.
const SERVICE: u16 = 80;
const LOCAL_PORTS: std::ops::Range<u16> = 1024..49_152;
/// Maximum memory of a connection in bytes.
const LIMIT: usize = 1024;

struct Received(Vec<u8>);

impl Frame for Received {
    type Payload = Bytes;

    fn head(&self) -> &[u8] {
        &self.0
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn is_checksum_valid(&self) -> bool {
        false
    }

    fn sum(&self, range: Range<usize>) -> u64 {
        Payload::sum(&Bytes::from(&self.0[range.clone()]), 0..range.len())
    }

    fn copy_to(&self, at: usize, to: &mut [u8]) {
        to.copy_from_slice(&self.0[at..at + to.len()]);
    }

    fn retain(&mut self, range: Range<usize>) -> Option<Slice<Bytes>> {
        Some(Slice::new(Bytes::from(&self.0[range])))
    }
}

fn stack(last: u8) -> Stack<Bytes> {
    let limits = Limits { connections: 1 << 17, ..Limits::default() };
    let mut stack = Stack::new(Config { limits, ..Config::new([last; 16]) }, Time(0));
    let mac = MacAddress::new([2, 0, 0, 0, 0, last]);
    let interface = stack.add_interface(InterfaceConfig { mac, mtu: 1500, vlan: None });
    stack.add_address(interface, format!("10.0.0.{last}/24").parse().unwrap(), Time(0));
    stack
}

/// Passes frames in both directions until there are none. Returns the number of connections that were opened.
fn exchange(ends: &mut [Stack<Bytes>; 2], now: Time) -> usize {
    let (mut opened, mut is_quiet) = (0, false);
    while !is_quiet {
        is_quiet = true;
        for from in [0, 1] {
            let mut link = Recorder::default();
            ends[from].advance(now);
            ends[from].transmit(&mut link, now);
            for bytes in link.frames {
                is_quiet = false;
                ends[1 - from].receive(InterfaceId(0), &mut Received(bytes), now);
            }
        }
        for end in &mut *ends {
            let events = std::iter::from_fn(|| end.poll_event());
            opened += events
                .filter(|event| matches!(event, Event::Accepted { .. } | Event::Connected { .. }))
                .count();
        }
    }
    opened
}

/// Local and remote end of a connection.
fn endpoints(number: usize) -> (Endpoint, Endpoint) {
    let ports = LOCAL_PORTS.len();
    let (local, remote) = (LOCAL_PORTS.start + (number % ports) as u16, SERVICE + (number / ports) as u16);
    let [one, two] = [1, 2].map(|last| Address::v4([10, 0, 0, last]));
    (Endpoint::new(one, local), Endpoint::new(two, remote))
}

/// Opens connections in groups, as an application does: what grows with those that are open at a time stays small.
fn open(ends: &mut [Stack<Bytes>; 2], numbers: std::ops::Range<usize>, now: &mut Time) -> usize {
    let mut opened = 0;
    for first in numbers.step_by(64) {
        for (local, remote) in (first..first + 64).map(endpoints) {
            ends[0].connect(local, remote, Options::default(), *now).unwrap();
        }
        opened += exchange(ends, *now);
        // Acknowledgements that were delayed, and timers.
        *now = now.after(Duration::from_secs(1));
        opened += exchange(ends, *now);
    }
    opened
}

fn an_idle_established_connection_takes_less_than_a_kibibyte() {
    let (mut ends, mut now) = (Box::new([stack(1), stack(2)]), Time(0));
    for port in (0..FIRST + CONNECTIONS).step_by(LOCAL_PORTS.len()).map(|number| endpoints(number).1.port) {
        ends[1].listen(Endpoint::new(Address::v4([10, 0, 0, 2]), port), Options::default()).unwrap();
    }
    assert_eq!(open(&mut ends, 0..FIRST, &mut now), 2 * FIRST, "neighbours and pools are allocated");
    let region = Region::new(ALLOCATOR);
    assert_eq!(open(&mut ends, FIRST..FIRST + CONNECTIONS, &mut now), 2 * CONNECTIONS);
    assert_eq!(
        ends.each_ref().map(|end| end.connections().count()),
        [FIRST + CONNECTIONS; 2],
        "none has ended"
    );
    let stats = region.change();
    let each = (stats.bytes_allocated - stats.bytes_deallocated) / (2 * CONNECTIONS);
    let itself = ends[0].connections().next().unwrap().memory;
    println!("{each} bytes for each connection, of which {itself} are the connection itself");
    assert!(itself <= each && each <= LIMIT, "{each} bytes, limit {LIMIT}");
}

/// A request or its reply.
const REQUEST: [u8; 64] = *b"a request and its reply have these bytes, whatever number it has";
/// Requests before those that are counted, and these.
const REQUESTS: [usize; 2] = [2_000, 10_000];

/// A received frame whose payload, if any, is a request. Retaining it allocates nothing.
struct Request<'a> {
    bytes: &'a [u8],
    data: &'a Bytes,
}

impl Frame for Request<'_> {
    type Payload = Bytes;

    fn head(&self) -> &[u8] {
        self.bytes
    }

    fn len(&self) -> usize {
        self.bytes.len()
    }

    fn is_checksum_valid(&self) -> bool {
        true
    }

    fn sum(&self, range: Range<usize>) -> u64 {
        wire::checksum::Sum::of(&self.bytes[range]).total()
    }

    fn copy_to(&self, at: usize, to: &mut [u8]) {
        to.copy_from_slice(&self.bytes[at..at + to.len()]);
    }

    fn retain(&mut self, range: Range<usize>) -> Option<Slice<Bytes>> {
        assert_eq!(self.bytes[range], REQUEST);
        Some(Slice::new(self.data.clone()))
    }
}

/// A link with room for one frame.
struct Single {
    frame: [u8; 256],
    len: usize,
}

impl Link for Single {
    type Payload = Bytes;

    fn offloads(&self, _: InterfaceId) -> LinkOffloads {
        LinkOffloads::default()
    }

    fn has_room(&mut self, _: InterfaceId) -> bool {
        self.len == 0
    }

    fn send<'a>(
        &mut self,
        _: InterfaceId,
        head: &[u8],
        pieces: impl Iterator<Item = Piece<'a, Bytes>>,
        _: TxOffload,
    ) {
        self.frame[..head.len()].copy_from_slice(head);
        self.len = head.len();
        for piece in pieces {
            let end = self.len + piece.range.len();
            piece.data.copy_to(piece.range.start, &mut self.frame[self.len..end]);
            self.len = end;
        }
    }
}

/// Passes frames in both directions until there are none. The first stack sends a request for each reply, and the
/// second one returns what it receives. Returns the number of replies.
fn echo(ends: &mut [Stack<Bytes>; 2], data: &Bytes, now: Time) -> usize {
    let (mut link, mut replies, mut is_quiet) = (Single { frame: [0; 256], len: 0 }, 0, false);
    while !is_quiet {
        is_quiet = true;
        for from in [0, 1] {
            ends[from].advance(now);
            ends[from].transmit(&mut link, now);
            if link.len > 0 {
                is_quiet = false;
                let mut frame = Request { bytes: &link.frame[..link.len], data };
                ends[1 - from].receive(InterfaceId(0), &mut frame, now);
                link.len = 0;
            }
            while let Some(event) = ends[1 - from].poll_event() {
                let Event::Data { connection, data } = event else { continue };
                ends[1 - from].consumed(connection, data.len());
                // The first stack ends a round with a reply, and begins the next one later.
                if from == 0 {
                    ends[1].send(connection, data).unwrap();
                } else {
                    replies += 1;
                }
            }
        }
    }
    replies
}

fn requests_and_replies_allocate_nothing() {
    let (mut ends, mut now) = (Box::new([stack(1), stack(2)]), Time(0));
    let (local, remote) = endpoints(0);
    ends[1].listen(remote, Options::default()).unwrap();
    let connections: Vec<_> = (0..16)
        .map(|n| {
            let local = Endpoint::new(local.address, local.port + n);
            ends[0].connect(local, remote, Options::default(), now).unwrap()
        })
        .collect();
    assert_eq!(exchange(&mut ends, now), 2 * connections.len());
    let request = Bytes::from(REQUEST);
    let mut run = |requests: usize| {
        for _ in 0..requests / connections.len() {
            now = now.after(Duration::from_micros(100));
            for connection in &connections {
                ends[0].send(*connection, Slice::new(request.clone())).unwrap();
            }
            assert_eq!(echo(&mut ends, &request, now), connections.len());
        }
    };
    run(REQUESTS[0]);
    let region = Region::new(ALLOCATOR);
    run(REQUESTS[1]);
    let stats = region.change();
    assert_eq!((stats.allocations, stats.reallocations, stats.deallocations), (0, 0, 0), "{stats:?}");
}

/// One test, because the allocator's counts are those of the process: the end of another one would allocate.
#[test]
fn memory_of_connections_and_of_requests_is_bounded() {
    requests_and_replies_allocate_nothing();
    an_idle_established_connection_takes_less_than_a_kibibyte();
}
