//! Packets pass handoff queues intact, in order and exactly once, for any sequence of sends and receives.

use super::*;
use crate::config::QueueFull;
use mem::copy::Portable;
use port::{Burst, BurstStats, DropReason, Offload, PLACES, PortId, Route, RxQueue};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::sync::LazyLock;

fn config(ring: usize, write_unit: usize, read_unit: usize) -> HandoffConfig {
    HandoffConfig { ring, write_unit, read_unit, full: QueueFull::Drop, ..HandoffConfig::default() }
}

fn kernel() -> mem::copy::Choice {
    mem::copy::settle_fastest(|| 0)
}

fn route(from: u16, to: u16) -> Route {
    Route { from: PortId(from), pair: from % 3, to: PortId(to) }
}

/// Frame of packet `number`, which determines its length and content.
fn frame(number: usize) -> &'static [u8] {
    static BYTES: LazyLock<Vec<u8>> = LazyLock::new(|| (0..256 + 65_550).map(|i| i as u8).collect());
    let longest = if number.is_multiple_of(32) { 65_550 } else { 1515 };
    let len = [longest, 60, 64, 128, 1514, DATA, DATA + 1, 9216][number % 8];
    &BYTES[31 * number % 256..][..len]
}

/// A burst of packets in buffers of a separate pool, in place of a port's memory.
struct Source {
    burst: Burst,
    cache: mem::pool::Cache,
}

impl Source {
    fn new() -> Self {
        let spec = PoolSpec { buffers: 64 * 32, size: 2176, pages: Pages::Ordinary };
        Self { burst: Burst::new(), cache: Pool::new(spec).unwrap().cache() }
    }

    fn fill(&mut self, numbers: std::ops::Range<usize>) {
        self.cache.free_all(self.burst.unload());
        self.burst.begin(0);
        for (i, number) in numbers.enumerate() {
            let mut pieces = frame(number).chunks(2176).map(|piece| {
                let mut buffer = self.cache.alloc().unwrap();
                buffer.append(piece.len()).unwrap().copy_from_slice(piece);
                buffer
            });
            let first = pieces.next().unwrap();
            self.burst.push_buffers(first, pieces).unwrap();
            if number % 5 == 0 {
                self.burst.set_offload(i, Offload::VALID);
            }
        }
        self.burst.load_heads::<Portable>();
    }
}

/// Frees the buffers of a burst, as a worker does.
fn free(burst: &Burst) {
    store::with(|cache| cache.free_all(burst.unload()));
}

fn read(burst: &Burst, i: usize) -> Vec<u8> {
    let mut bytes = vec![0; burst.frame_len(i)];
    burst.frame(i).copy_to::<Portable>(&mut bytes);
    bytes
}

/// A handoff queue and the packets expected from it.
struct Rig {
    pool: Arc<Pool>,
    sender: Sender,
    receiver: Receiver,
    source: Source,
    next: usize,
    expected: VecDeque<(usize, Route)>,
    lost: u64,
    holds: bool,
}

impl Rig {
    fn new(config: HandoffConfig) -> Self {
        let pool = pool(&config, 1, 1).unwrap();
        store::open(&pool);
        let holds = config.full == QueueFull::Wait;
        let (sender, receiver) = handoff(&pool, &config).unwrap();
        Self {
            pool,
            sender,
            receiver,
            source: Source::new(),
            next: 0,
            expected: VecDeque::new(),
            lost: 0,
            holds,
        }
    }

    /// Sends a burst of `n` packets and records which ones have room.
    fn send(&mut self, n: usize, route: Route) {
        self.source.fill(self.next..self.next + n);
        // The actual fill level, not the one known to the sender.
        let there = self.sender.staged() + self.receiver.waiting();
        let mut left = if self.holds { usize::MAX } else { self.sender.capacity() - there };
        for number in self.next..self.next + n {
            let entries = frame(number).len().div_ceil(DATA);
            if entries <= left {
                left -= entries;
                self.expected.push_back((number, route));
            }
        }
        let mut stats = BurstStats::default();
        let before = self.expected.len();
        self.sender.send(kernel(), (&self.source.burst, &PLACES[..n]), (route, false), &mut stats);
        self.lost += stats.drops[DropReason::HandoffFull as usize];
        assert_eq!((stats.packets, stats.lost), (0, stats.drops[DropReason::HandoffFull as usize]));
        assert!(before <= self.expected.len());
        self.next += n;
    }

    /// Receives one burst. Returns whether there was any packet.
    fn receive(&mut self) -> bool {
        let (mut burst, mut stats) = (Burst::new(), BurstStats::default());
        burst.begin(0);
        self.receiver.rx(&mut burst, &mut stats).unwrap();
        burst.load_heads::<Portable>();
        for i in 0..burst.len() {
            let (number, route) = self.expected.pop_front().expect("a packet that was never sent");
            assert!(read(&burst, i) == frame(number), "packet {number} was changed");
            assert_eq!(burst.route(), route);
            assert_eq!(burst.offload(i) == Offload::VALID, number % 5 == 0);
        }
        assert_eq!(stats.packets as usize, burst.len());
        free(&burst);
        !burst.is_empty()
    }

    /// Drops both ends; every buffer must be back in the pool.
    fn end(mut self) {
        self.sender.publish();
        while self.receive() {}
        assert!(self.expected.is_empty(), "{:?} never came", self.expected);
        drop((self.sender, self.receiver));
        let all = self.pool.spec().buffers as usize;
        store::open(&self.pool);
        let mut cache = self.pool.cache();
        let there: Vec<_> = std::iter::from_fn(|| cache.alloc()).collect();
        assert_eq!(there.len(), all, "buffers are missing");
        for buffer in there {
            cache.free(buffer);
        }
    }
}

#[test]
fn full_handoff_queue_drops_and_counts() {
    let mut rig = Rig::new(config(256, 0, 64));
    for _ in 0..6 {
        rig.send(64, route(1, 2));
    }
    assert_eq!(rig.lost as usize + rig.expected.len(), 6 * 64);
    assert!(rig.lost > 0);
    rig.end();
}

#[test]
fn waiting_stage_defers_whole_packets_without_loss() {
    let mut rig = Rig::new(HandoffConfig { full: QueueFull::Wait, buffers: 8000, ..config(256, 0, 64) });
    for _ in 0..6 {
        rig.send(64, route(1, 2));
    }
    assert!(rig.lost == 0 && rig.sender.has_staged() && rig.sender.room(1) == 0);
    while rig.receive() {
        rig.sender.publish();
    }
    assert!(!rig.sender.has_staged());
    rig.end();
}

#[test]
fn forwarded_packet_keeps_its_buffers() {
    let config = config(256, 0, 64);
    let mut rig = Rig::new(config);
    let (mut second, mut last) = handoff(&rig.pool, &config).unwrap();
    rig.send(8, route(1, 2));
    let (mut burst, mut stats) = (Burst::new(), BurstStats::default());
    burst.begin(0);
    rig.receiver.rx(&mut burst, &mut stats).unwrap();
    burst.load_heads::<Portable>();
    let before = store::with(|cache| cache.counters().allocations()).unwrap();
    second.send(kernel(), (&burst, &PLACES[..8]), (route(1, 3), true), &mut stats);
    assert_eq!(store::with(|cache| cache.counters().allocations()), Some(before), "nothing was copied");
    free(&burst);
    let mut burst = Burst::new();
    burst.begin(0);
    last.rx(&mut burst, &mut stats).unwrap();
    burst.load_heads::<Portable>();
    assert_eq!((burst.len(), burst.route()), (8, route(1, 3)));
    for number in 0..8 {
        assert!(read(&burst, number) == frame(number), "packet {number}");
    }
    free(&burst);
    rig.expected.clear();
    drop((second, last));
    rig.end();
}

#[test]
fn empty_pool_drops_packets_only() {
    let config = config(256, 0, 64);
    let mut rig = Rig::new(config);
    let held: Vec<_> = store::with(|cache| std::iter::from_fn(|| cache.alloc()).skip(2).collect()).unwrap();
    rig.send(8, route(0, 0));
    assert_eq!(rig.lost, 8);
    rig.expected.clear();
    store::with(|cache| held.into_iter().for_each(|buffer: mem::pool::Buffer| cache.free(buffer)));
    assert!(!rig.receive());
}

#[test]
fn doorbell_rings_once_per_request() {
    let doorbell = Doorbell::new().unwrap();
    let rung = || rustix::io::read(doorbell.fd(), &mut [0u8; 8]).is_ok();
    doorbell.ring();
    assert!(!rung(), "no receiver sleeps");
    doorbell.set();
    doorbell.ring();
    doorbell.ring();
    assert!(rung() && !rung());
    doorbell.set();
    doorbell.ring();
    doorbell.stop();
    assert!(!rung(), "a receiver that is awake is not signalled");
}

#[test]
fn receiver_with_dequeued_entries_does_not_sleep() {
    let mut rig = Rig::new(config(256, 1, 64));
    assert_eq!(rig.receiver.enable_notification(), Ok(false));
    rig.send(1, route(1, 1));
    rig.send(1, route(2, 1));
    assert_eq!(rig.receiver.enable_notification(), Ok(true), "in the ring");
    assert!(rig.receive());
    assert_eq!(rig.receiver.enable_notification(), Ok(true), "taken out, and of another origin");
    assert!(rig.receive());
    assert_eq!(rig.receiver.enable_notification(), Ok(false));
    rig.end();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 4, ..ProptestConfig::default() })]
    #[test]
    fn random_schedules_lose_and_reorder_nothing_uncounted(
        ring in 256_usize..600,
        write_unit in 0_usize..100,
        read_unit in 1_usize..200,
        steps in proptest::collection::vec((0_usize..=64, 0_u16..3, 0_u16..2, 0_u8..4), 1..40),
    ) {
        let mut rig = Rig::new(config(ring, write_unit, read_unit));
        for (n, from, to, then) in steps {
            rig.send(n, route(from, to));
            if then & 1 > 0 {
                rig.sender.publish();
            }
            if then & 2 > 0 {
                rig.receive();
            }
        }
        let (sent, lost) = (rig.next as u64, rig.lost);
        prop_assert!(lost <= sent);
        rig.end();
    }
}

#[test]
fn other_routes_stay_when_a_handoff_queue_is_removed() {
    let config = config(256, 0, 64);
    let pool = pool(&config, 3, 1).unwrap();
    let mut handoffs = Handoffs::new(kernel(), 8, false);
    for (port, to) in (0..3).zip(5..8) {
        handoffs.add(PortId(to), handoff(&pool, &config).unwrap().0);
        handoffs.route(PortId(port), Some(PortId(to)));
    }
    handoffs.remove(PortId(6));
    handoffs.remove(PortId(6));
    let (burst, mut stats) = (Burst::new(), BurstStats::default());
    let mut has_route = |to| handoffs.send((&burst, &[]), (route(0, to), true), 0, &mut stats);
    assert_eq!([0, 1, 2, 5, 6, 7].map(&mut has_route), [true, false, true, true, false, true]);
}
