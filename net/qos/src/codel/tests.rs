use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;

const MS: u64 = 1_000_000;

/// Packets of 1,000 bytes: number, and whether they can be marked.
#[derive(Default)]
struct Queue {
    packets: VecDeque<((u64, bool), u64)>,
    dropped: Vec<u64>,
    marked: Vec<u64>,
}

impl Fifo for Queue {
    type Packet = (u64, bool);

    fn pop(&mut self) -> Option<((u64, bool), u64)> {
        self.packets.pop_front()
    }

    fn bytes(&self) -> u64 {
        self.packets.len() as u64 * 1000
    }

    fn discard(&mut self, (number, _): (u64, bool)) {
        self.dropped.push(number);
    }

    fn mark(&mut self, packet: &mut (u64, bool)) -> bool {
        if packet.1 {
            self.marked.push(packet.0);
        }
        packet.1
    }
}

/// The pseudocode of RFC 8289, section 5, with its names but for underscores, without ECN.
#[derive(Default)]
struct Pseudocode {
    first_above_time: u64,
    drop_next: u64,
    count: u64,
    lastcount: u64,
    dropping: bool,
}

impl Pseudocode {
    fn dodequeue(&mut self, now: u64, params: &CodelParams, queue: &mut Queue) -> (Option<u64>, bool) {
        let mut ok_to_drop = false;
        let Some(((p, _), tstamp)) = queue.pop() else {
            self.first_above_time = 0;
            return (None, ok_to_drop);
        };
        let sojourn_time = now - tstamp;
        if sojourn_time < params.target || queue.bytes() <= params.longest {
            self.first_above_time = 0;
        } else if self.first_above_time == 0 {
            self.first_above_time = now + params.interval;
        } else if now >= self.first_above_time {
            ok_to_drop = true;
        }
        (Some(p), ok_to_drop)
    }

    fn dequeue(&mut self, now: u64, params: &CodelParams, queue: &mut Queue) -> Option<u64> {
        let control_law = |t: u64, count: u64| t + (params.interval as f64 / (count as f64).sqrt()) as u64;
        let mut r = self.dodequeue(now, params, queue);
        if self.dropping {
            if !r.1 {
                self.dropping = false;
            }
            while now >= self.drop_next && self.dropping {
                queue.dropped.extend(r.0);
                self.count += 1;
                r = self.dodequeue(now, params, queue);
                if r.1 {
                    self.drop_next = control_law(self.drop_next, self.count);
                } else {
                    self.dropping = false;
                }
            }
        } else if r.1 {
            queue.dropped.extend(r.0);
            r = self.dodequeue(now, params, queue);
            self.dropping = true;
            let delta = self.count - self.lastcount;
            self.count = 1;
            if delta > 1 && now.saturating_sub(self.drop_next) < 16 * params.interval {
                self.count = delta;
            }
            self.drop_next = control_law(now, self.count);
            self.lastcount = self.count;
        }
        r.0
    }
}

/// Runs arrivals and departures: gaps in microseconds, and packets that arrive and leave at each.
fn run(
    steps: &[(u64, u8, u8)],
    mut dequeue: impl FnMut(u64, &mut Queue) -> Option<u64>,
) -> (Vec<u64>, Vec<u64>) {
    let (mut queue, mut now, mut number, mut sent) = (Queue::default(), 1, 0, Vec::new());
    for &(gap, arrivals, departures) in steps {
        now += gap * 1000;
        for _ in 0..arrivals {
            queue.packets.push_back(((number, false), now));
            number += 1;
        }
        sent.extend((0..departures).filter_map(|_| dequeue(now, &mut queue)));
    }
    (sent, queue.dropped)
}

proptest! {
    #[test]
    fn drops_are_those_of_the_pseudocode(
        steps in prop::collection::vec((0u64..5_000, 0u8..6, 0u8..5), 1..1500),
        target in 0u64..20, interval in 1u64..200,
    ) {
        let (target, interval) = (target * MS, interval * MS);
        let params = CodelParams { target, interval, ecn: false, longest: 1500 };
        let (mut codel, mut reference) = (Codel::default(), Pseudocode::default());
        let found = run(&steps, |now, queue| codel.dequeue(now, &params, queue).map(|packet| packet.0));
        let expected = run(&steps, |now, queue| reference.dequeue(now, &params, queue));
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn a_standing_queue_loses_packets_at_growing_frequency() {
    let params = CodelParams { ecn: false, ..CodelParams::default() };
    let (mut codel, mut drops) = (Codel::default(), Vec::new());
    // Two packets arrive for each that leaves, one each millisecond.
    let mut queue = Queue::default();
    for now in 1..2000 {
        queue.packets.extend([((now, false), now * MS); 2]);
        let before = queue.dropped.len();
        codel.dequeue(now * MS, &params, &mut queue);
        drops.extend((before < queue.dropped.len()).then_some(now));
    }
    let first: Vec<_> = drops.windows(2).map(|pair| pair[1] - pair[0]).take(3).collect();
    // 100, 100 / sqrt(2) and 100 / sqrt(3) milliseconds.
    assert!(
        first[0].abs_diff(100) <= 1 && first[1].abs_diff(71) <= 1 && first[2].abs_diff(58) <= 1,
        "{first:?}"
    );
    assert!(drops[0] >= 105, "target and interval pass first");
}

#[test]
fn packets_that_can_be_marked_are_not_dropped() {
    let params = CodelParams::default();
    let (mut codel, mut queue, mut sent) = (Codel::default(), Queue::default(), 0);
    for now in 1..2000 {
        queue.packets.extend([((now, true), now * MS); 2]);
        sent += u64::from(codel.dequeue(now * MS, &params, &mut queue).is_some());
    }
    assert!(queue.dropped.is_empty() && queue.marked.len() > 10 && sent == 1999);
}
