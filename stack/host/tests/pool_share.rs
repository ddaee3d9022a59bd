//! The share of the buffer pool that one connection can occupy whose data the application does not read.

#![allow(clippy::unwrap_used, reason = "a failure here is the test's")]

use host::{Buffer, BufferPool, PoolLimits};
use stack::ip::{InterfaceConfig, InterfaceId};
use stack::tcp::Options;
use stack::{Address, Config, Endpoint, Event, Frame, Recorder, Slice, Stack, Time};
use std::ops::Range;
use std::time::Duration;
use wire::MacAddress;

const MTU: u16 = 9000;
/// Sizes of buffers in bytes.
const SIZES: [usize; 4] = [256, 2048, 8192, 65_536];

/// A received frame whose payload is copied into the pool, as a host does.
struct Received<'a> {
    bytes: Vec<u8>,
    pool: &'a mut BufferPool,
}

impl Frame for Received<'_> {
    type Payload = Buffer;

    fn head(&self) -> &[u8] {
        &self.bytes
    }

    fn len(&self) -> usize {
        self.bytes.len()
    }

    fn is_checksum_valid(&self) -> bool {
        true
    }

    fn sum(&self, _: Range<usize>) -> u64 {
        0
    }

    fn copy_to(&self, at: usize, to: &mut [u8]) {
        to.copy_from_slice(&self.bytes[at..at + to.len()]);
    }

    fn retain(&mut self, range: Range<usize>) -> Option<Slice<Buffer>> {
        let bytes = &self.bytes[range];
        Some(Slice::new(self.pool.fill(bytes.len(), |to| to.copy_from_slice(bytes))?))
    }
}

fn stack(last: u8) -> Stack<Buffer> {
    let mut stack = Stack::new(Config::new([last; 16]), Time(0));
    let mac = MacAddress::new([2, 0, 0, 0, 0, last]);
    let interface = stack.add_interface(InterfaceConfig { mac, mtu: MTU, vlan: None });
    stack.add_address(interface, format!("10.0.0.{last}/24").parse().unwrap(), Time(0));
    stack
}

/// Passes frames in both directions until there are none. Returns the receiver's events.
fn exchange(ends: &mut [Stack<Buffer>; 2], pool: &mut BufferPool, now: Time) -> Vec<Event<Buffer>> {
    let (mut events, mut is_quiet) = (Vec::new(), false);
    while !is_quiet {
        is_quiet = true;
        for from in [0, 1] {
            let mut link = Recorder::default();
            ends[from].advance(now);
            ends[from].transmit(&mut link, now);
            for bytes in link.frames {
                is_quiet = false;
                ends[1 - from].receive(InterfaceId(0), &mut Received { bytes, pool }, now);
            }
        }
        events.extend(std::iter::from_fn(|| ends[1].poll_event()));
        while ends[0].poll_event().is_some() {}
    }
    events
}

/// Buffers of each size that are in use after a sender has sent pieces of `len` bytes, each in a segment of its own, to
/// a receiver that does not read.
fn occupied(len: usize) -> [usize; 4] {
    let (mut ends, mut pool, mut now) =
        ([stack(1), stack(2)], BufferPool::new(PoolLimits::default()), Time(0));
    let remote = Endpoint::new(Address::v4([10, 0, 0, 2]), 80);
    let options = Options { no_delay: true, ..Options::default() };
    ends[1].listen(remote, options).unwrap();
    let local = Endpoint::new(Address::v4([10, 0, 0, 1]), 0);
    let connection = ends[0].connect(local, remote, options, now).unwrap();
    let mut held = exchange(&mut ends, &mut pool, now);
    for _ in 0..20_000 {
        now = now.after(Duration::from_millis(50));
        let _ = ends[0].send(connection, Slice::new(vec![1; len].into()));
        held.extend(exchange(&mut ends, &mut pool, now));
    }
    assert!(held.iter().filter(|event| matches!(event, Event::Data { .. })).count() > 100);
    let free = SIZES.map(|size| std::iter::from_fn(|| pool.fill(size, |_| ())).collect::<Vec<_>>().len());
    std::array::from_fn(|class| PoolLimits::default().0[class] - free[class])
}

#[test]
fn a_hostile_sender_to_a_slow_reader_occupies_at_most_a_quarter_of_the_buffers() {
    for len in [1, 257, 2049, 8193] {
        let occupied = occupied(len);
        for (used, limit) in occupied.into_iter().zip(PoolLimits::default().0) {
            assert!(used <= limit / 4 + 1, "segments of {len} bytes: {used} of {limit}, {occupied:?}");
        }
    }
}
