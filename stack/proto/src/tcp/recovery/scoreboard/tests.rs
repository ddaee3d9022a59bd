//! The scoreboard against a model that holds the state of each byte.

use super::*;
use crate::tcp::recovery::pool::SentPool;
use proptest::prelude::*;
use std::prelude::v1::*;

/// First sequence number, so that numbers wrap.
const FIRST: Seq = Seq(u32::MAX - 3_000);
/// Long enough a round-trip time that no delivery is ambiguous.
const MIN_RTT: u32 = 0;

#[derive(Clone, Debug)]
enum Change {
    Send(u32),
    Acknowledge(u8),
    /// Ranges by their first and last byte, in 1/256 of the flight.
    Select(Vec<(u8, u8)>),
    Detect(u32),
    Repair(u32),
    LoseAll,
    Unmark,
}

fn change() -> impl Strategy<Value = Change> {
    let ranges = proptest::collection::vec(any::<(u8, u8)>(), 1..4);
    prop_oneof![
        4 => (1_u32..500).prop_map(Change::Send),
        2 => any::<u8>().prop_map(Change::Acknowledge),
        4 => ranges.prop_map(Change::Select),
        3 => (0_u32..20).prop_map(Change::Detect),
        4 => (1_u32..400).prop_map(Change::Repair),
        1 => Just(Change::LoseAll),
        1 => Just(Change::Unmark),
    ]
}

/// State of each unacknowledged byte, with the time of its last transmission.
#[derive(Default)]
struct Model {
    una: u32,
    bytes: Vec<(Mark, u32)>,
}

impl Model {
    fn count(&self, mark: Mark) -> u32 {
        self.bytes.iter().filter(|byte| byte.0 == mark).count() as u32
    }

    fn position(&self, share: u8) -> usize {
        self.bytes.len() * usize::from(share) / 255
    }

    fn seq(&self, at: usize) -> Seq {
        FIRST + self.una + at as u32
    }
}

struct Pair {
    board: Scoreboard,
    pool: SentPool,
    model: Model,
    now: u32,
    /// Transmission delivered that was sent last.
    latest: Option<(u32, Seq)>,
}

impl Pair {
    fn delivery(&self) -> Delivery {
        Delivery::new(self.now, MIN_RTT, false, FIRST, FIRST)
    }

    fn apply(&mut self, change: &Change) {
        self.now += 1;
        match change {
            Change::Send(len) => self.send(*len),
            Change::Acknowledge(share) => self.acknowledge(*share),
            Change::Select(ranges) => self.select(ranges),
            Change::Detect(limit) => self.detect(*limit),
            Change::Repair(max) => self.repair(*max),
            Change::LoseAll => self.lose_all(),
            Change::Unmark => {
                self.board.unmark_lost(&mut self.pool, self.now);
                let lost = self.model.bytes.iter_mut().filter(|byte| byte.0 == Mark::Lost);
                lost.for_each(|byte| byte.0 = Mark::InFlight);
            }
        }
    }

    fn send(&mut self, len: u32) {
        let start = self.model.seq(self.model.bytes.len());
        self.board.push(&mut self.pool, start..start + len, self.now, Snapshot::default());
        self.model.bytes.extend((0..len).map(|_| (Mark::InFlight, self.now)));
    }

    fn record(&mut self, delivery: &Delivery) {
        if let Some(latest) = delivery.latest {
            self.latest = Some((latest.sent, latest.end));
        }
    }

    fn acknowledge(&mut self, share: u8) {
        let (mut delivery, count) = (self.delivery(), self.model.position(share));
        let fresh = self.model.bytes.drain(..count).filter(|byte| byte.0 != Mark::Sacked).count();
        self.model.una += count as u32;
        self.board.acknowledge(&mut self.pool, FIRST + self.model.una, &mut delivery);
        assert_eq!(delivery.acked as usize, fresh);
        self.record(&delivery);
    }

    fn select(&mut self, ranges: &[(u8, u8)]) {
        let (mut delivery, mut fresh) = (self.delivery(), 0);
        let mut list = Vec::new();
        for (start, end) in ranges {
            let (start, end) = (self.model.position(*start), self.model.position(*end));
            list.push((self.model.seq(start), self.model.seq(end)));
            for byte in self.model.bytes.get_mut(start..end).into_iter().flatten() {
                fresh += u32::from(byte.0 != Mark::Sacked);
                byte.0 = Mark::Sacked;
            }
        }
        // A segment size of one byte permits any cut.
        self.board.select(&mut self.pool, &list, 1, &mut delivery);
        assert_eq!(delivery.sacked, fresh);
        self.record(&delivery);
    }

    /// Everything sent before the latest delivery and long enough ago is lost, byte for byte.
    fn detect(&mut self, limit: u32) {
        let Some((sent, _)) = self.latest else { return };
        // With the end of the number space as tie-breaker, entries sent at the same time count as sent before.
        let end = self.model.seq(self.model.bytes.len()) + 1;
        let remaining = self.board.detect_losses(&mut self.pool, (sent, end), limit, self.now);
        let mut waits = false;
        for byte in self.model.bytes.iter_mut().filter(|byte| byte.0 == Mark::InFlight && byte.1 <= sent) {
            if byte.1 + limit <= self.now { byte.0 = Mark::Lost } else { waits = true }
        }
        assert_eq!(remaining.is_some(), waits);
    }

    fn repair(&mut self, max: u32) {
        let first = self.model.bytes.iter().position(|byte| byte.0 == Mark::Lost);
        let range = self.board.next_lost(&self.pool, max);
        assert_eq!(range.as_ref().map(|range| range.start), first.map(|at| self.model.seq(at)));
        let (Some(range), Some(first)) = (range, first) else { return };
        let len = range.end.since(range.start);
        assert!(len <= max);
        assert_eq!(self.board.retransmit(&mut self.pool, &range, self.now, Snapshot::default()), len);
        for byte in self.model.bytes.iter_mut().skip(first).take(len as usize) {
            assert_eq!(byte.0, Mark::Lost);
            *byte = (Mark::InFlight, self.now);
        }
    }

    fn lose_all(&mut self) {
        // A reneging peer is tested elsewhere: the times of merged entries are not known.
        if self.model.bytes.first().is_some_and(|byte| byte.0 == Mark::Sacked) {
            return;
        }
        self.board.mark_all_lost(&mut self.pool);
        for byte in self.model.bytes.iter_mut().filter(|byte| byte.0 != Mark::Sacked) {
            byte.0 = Mark::Lost;
        }
    }

    fn check(&self) {
        let end = self.model.seq(self.model.bytes.len());
        self.board.check(&self.pool, self.model.seq(0)..end);
        let model = (self.model.count(Mark::Sacked), self.model.count(Mark::Lost));
        assert_eq!((self.board.sacked(), self.board.lost()), model);
        assert_eq!(self.board.is_empty(), self.model.bytes.is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sums_agree_with_single_bytes(changes in proptest::collection::vec(change(), 1..80)) {
        let (board, pool, model) = (Scoreboard::new(), SentPool::new(), Model::default());
        let mut pair = Pair { board, pool, model, now: 0, latest: None };
        for change in &changes {
            pair.apply(change);
            pair.check();
        }
        pair.board.release(&mut pair.pool);
        prop_assert_eq!(pair.pool.entries.len(), 0);
    }
}

#[test]
fn neighbours_are_merged() {
    let (mut board, mut pool) = (Scoreboard::new(), SentPool::new());
    board.push(&mut pool, Seq(0)..Seq(10_000), 0, Snapshot::default());
    let mut delivery = Delivery::new(5, 0, false, Seq(0), Seq(0));
    for start in [2_000, 6_000, 4_000, 3_000, 5_000] {
        board.select(&mut pool, &[(Seq(start), Seq(start + 1_000))], 1_000, &mut delivery);
    }
    assert_eq!((board.len, board.sacked(), delivery.sacked), (3, 5_000, 5_000));
    board.check(&pool, Seq(0)..Seq(10_000));
}
