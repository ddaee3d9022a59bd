use super::*;
use crate::codel::CodelParams;
use crate::htb::tests::node;
use proptest::prelude::*;

const MBYTE: u64 = 8_000_000;
const SECOND: u64 = 1_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Packet {
    number: u32,
    len: u32,
    ecn: bool,
}

impl Waiting for Packet {
    fn bytes(&self) -> u32 {
        self.len
    }

    fn memory(&self) -> u32 {
        self.len.next_multiple_of(2048)
    }

    fn mark(&mut self) -> bool {
        self.ecn
    }
}

fn leaf(rate: u64, limit: u32) -> ClassConfig {
    let params = FqParams { limit, flows: 16, ..FqParams::default() };
    ClassConfig { node: node(rate, 10 * MBYTE, Some(0), 0), leaf: Some(params) }
}

fn scheduler(leaves: &[ClassConfig], memory: u64) -> Scheduler<Packet> {
    let root = ClassConfig { node: node(10 * MBYTE, 10 * MBYTE, None, 0), leaf: None };
    let classes: Vec<_> = [root].iter().chain(leaves).copied().collect();
    Scheduler::new(&classes, memory).unwrap()
}

/// A hash of flow `flow` of 16.
fn hash(flow: u32) -> u32 {
    flow << 28
}

#[test]
fn flows_share_a_class_by_bytes_and_keep_their_order() {
    let mut queues = scheduler(&[leaf(10 * MBYTE, 10_000)], u64::MAX);
    let packet = |flow: u32, number| Packet {
        number: flow << 20 | number,
        len: [100, 1000][flow as usize],
        ecn: false,
    };
    for number in 0..2000 {
        queues.enqueue(1, packet(0, number), hash(0), 0);
        queues.enqueue(1, packet(1, number), hash(1), 0);
    }
    let (mut bytes, mut next, mut now) = ([0u64; 2], [0; 2], 0);
    for _ in 0..1000 {
        let packet = loop {
            match queues.dequeue(now) {
                Some((1, packet)) => break packet,
                found => assert!(found.is_none()),
            }
            now = queues.next().unwrap();
        };
        let flow = (packet.number >> 20) as usize;
        assert!(packet.number & 0xf_ffff >= next[flow], "order within a flow");
        next[flow] = packet.number & 0xf_ffff;
        bytes[flow] += u64::from(packet.len);
    }
    assert!(bytes[0].abs_diff(bytes[1]) < 4000, "{bytes:?}");
}

#[test]
fn a_new_flow_passes_a_standing_queue() {
    let mut queues = scheduler(&[leaf(10 * MBYTE, 1000)], u64::MAX);
    let packet = |number| Packet { number, len: 1000, ecn: false };
    (0..500).for_each(|number| queues.enqueue(1, packet(number), hash(1), 0));
    (0..3).for_each(|_| assert!(queues.dequeue(0).is_some()));
    queues.enqueue(1, packet(9999), hash(7), 0);
    let mut now = 0;
    let mut sent = (0..4).map(|_| {
        now = queues.next().unwrap();
        queues.dequeue(now).unwrap().1.number
    });
    assert!(sent.any(|number| number == 9999));
}

#[test]
fn the_longest_queue_loses_packets_when_the_class_is_full() {
    let mut queues = scheduler(&[leaf(MBYTE, 100)], u64::MAX);
    let packet = |number| Packet { number, len: 1000, ecn: false };
    (0..10).for_each(|number| queues.enqueue(1, packet(number), hash(3), 0));
    (10..1000).for_each(|number| queues.enqueue(1, packet(number), hash(5), 0));
    assert!(queues.counts(1).unwrap().backlog <= 100);
    assert!(queues.dropped().all(|packet| packet.number >= 10), "the short queue lost nothing");
    assert!(queues.take_drops().full >= 900 && queues.take_drops() == Drops::default());
}

#[test]
fn a_class_that_never_sends_does_not_starve_others_of_memory() {
    let mut queues = scheduler(&[leaf(MBYTE, 1000), leaf(MBYTE, 1000)], 100 * 2048);
    let packet = |number| Packet { number, len: 1000, ecn: false };
    (0..500).for_each(|number| queues.enqueue(1, packet(number), hash(number % 16), 0));
    (0..20).for_each(|number| queues.enqueue(2, packet(number), hash(0), 0));
    assert_eq!(queues.counts(2).unwrap().backlog, 20);
    assert!(queues.memory() <= 100 * 2048);
    queues.clear();
    assert_eq!((queues.memory(), queues.next()), (0, None));
}

#[test]
fn codel_keeps_the_queue_of_a_reacting_sender_short() {
    let mut queues = scheduler(&[leaf(10 * MBYTE, 1000)], u64::MAX);
    let (mut number, mut delays, mut arrived) = (0, Vec::new(), std::collections::HashMap::new());
    // A sender that increases its rate, and reduces it after a drop. 10 packets leave each millisecond.
    let (mut rate, mut credit) = (5.0, 0.0);
    for step in 0..10_000u64 {
        let now = step * 1_000_000;
        rate = if queues.take_drops().codel > 0 { rate * 0.7 } else { rate + 0.01 };
        credit += rate;
        while credit >= 1.0 {
            queues.enqueue(1, Packet { number, len: 1000, ecn: false }, hash(0), now);
            arrived.insert(number, now);
            (number, credit) = (number + 1, credit - 1.0);
        }
        while let Some((_, packet)) = queues.dequeue(now) {
            delays.push(now - arrived[&packet.number]);
        }
        queues.dropped().for_each(drop);
    }
    let late = &delays[delays.len() / 2..];
    let mean = late.iter().sum::<u64>() / late.len() as u64;
    let counts = queues.counts(1).unwrap();
    assert!(counts.codel > 10 && counts.full == 0 && mean < 60_000_000, "{mean} {counts:?}");
}

proptest! {
    /// Every packet leaves once, and the counters and the memory say so.
    #[test]
    fn packets_leave_exactly_once(
        steps in prop::collection::vec((0usize..4, 0u32..16, 60u32..9000, 0u64..20_000_000, 0u8..4, any::<bool>()), 1..400),
        memory in 16_384u64..400_000,
    ) {
        let codel = CodelParams { target: 1_000_000, interval: 10_000_000, ..CodelParams::default() };
        let quick = |rate, limit| {
            let class = leaf(rate, limit);
            ClassConfig { leaf: class.leaf.map(|params| FqParams { codel, ..params }), ..class }
        };
        let mut queues = scheduler(&[quick(MBYTE, 20), quick(2 * MBYTE, 30), quick(MBYTE, 100)], memory);
        let (mut now, mut seen, mut sent, mut dropped, mut sums) = (0, Vec::new(), 0u64, 0u64, Drops::default());
        for (number, (class, flow, len, gap, departures, ecn)) in (0u32..).zip(&steps) {
            now += gap;
            queues.enqueue(*class, Packet { number, len: *len, ecn: *ecn }, hash(*flow), now);
            for _ in 0..*departures {
                seen.extend(queues.dequeue(now).map(|(_, packet)| packet.number));
            }
            sent = (seen.len() as u64) - dropped;
            let lost: Vec<_> = queues.dropped().map(|packet| packet.number).collect();
            dropped += lost.len() as u64;
            seen.extend(lost);
            prop_assert!(queues.memory() <= memory);
            let drops = queues.take_drops();
            sums = Drops { full: sums.full + drops.full, codel: sums.codel + drops.codel };
            prop_assert_eq!(sums.full + sums.codel, dropped);
        }
        let counts: Vec<_> = (1..4).map(|class| *queues.counts(class).unwrap()).collect();
        prop_assert_eq!(counts.iter().map(|counts| counts.packets).sum::<u64>(), sent);
        let waiting = counts.iter().map(|counts| counts.backlog).sum::<u64>();
        prop_assert_eq!(waiting + seen.len() as u64, steps.len() as u64);
        queues.clear();
        seen.extend(queues.dropped().map(|packet| packet.number));
        seen.sort_unstable();
        prop_assert_eq!(seen, (0..steps.len() as u32).collect::<Vec<_>>());
        prop_assert_eq!((queues.memory(), queues.next()), (0, None));
    }

    /// Sent bytes conform to the rate of the port at any time, and every class is served.
    #[test]
    fn bytes_conform_to_the_rate_of_the_port(
        packets in prop::collection::vec((1usize..4, 60u32..1515), 300..600), gap in 0u64..200_000,
    ) {
        let mut queues = scheduler(&[leaf(MBYTE, 1000), leaf(2 * MBYTE, 1000), leaf(7 * MBYTE, 1000)], u64::MAX);
        let (mut now, mut bytes) = (SECOND, 0u64);
        // Bursts of the port and of three classes, and a packet of each.
        let burst = 4 * (3000 + 1514);
        for (class, len) in packets {
            now += gap;
            queues.enqueue(class, Packet { number: 0, len, ecn: false }, hash(0), now);
            while let Some((_, packet)) = queues.dequeue(now) {
                bytes += u64::from(packet.len);
            }
            prop_assert!(bytes <= burst + (now - SECOND) / 100);
        }
        while let Some(next) = queues.next() {
            now = next.max(now);
            bytes += queues.dequeue(now).map_or(0, |(_, packet)| u64::from(packet.len));
        }
        prop_assert!(bytes <= burst + (now - SECOND) / 100);
        prop_assert!((1..4).all(|class| queues.counts(class).unwrap().backlog == 0));
    }
}
