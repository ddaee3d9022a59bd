//! Peers that acknowledge anything: no panic, no long loop, no window beyond what was delivered.

use super::*;
use crate::tcp::CongestionAlgorithm::{self, Bbr, Cubic, NewReno};
use proptest::prelude::*;
use std::prelude::v1::*;

/// One call of the connection.
#[derive(Clone, Debug)]
enum Call {
    Send(u32),
    /// Retransmits what is lost, at most so many bytes.
    Repair(u32),
    /// Retransmits any range: offset and length.
    Retransmit(u32, u32),
    Ack(Arrival),
    Timer,
    /// Advances the time, in microseconds.
    Wait(u64),
    SegmentSize(u16, bool),
}

/// An acknowledgement: share of the flight in 1/256, ranges relative to the first unacknowledged number.
#[derive(Clone, Debug)]
struct Arrival {
    share: u8,
    sack: Vec<(i32, i32)>,
    duplicate: Option<(i32, i32)>,
    rtt: Option<u32>,
    echoes_original: Option<bool>,
    flags: u8,
}

/// Offsets near the flight, at the ends of the number space, and anywhere.
fn offset() -> impl Strategy<Value = i32> {
    prop_oneof![6 => -3_000..60_000, 1 => any::<i32>(), 1 => Just(i32::MAX), 1 => Just(i32::MIN)]
}

fn range() -> impl Strategy<Value = (i32, i32)> {
    prop_oneof![
        4 => (offset(), 0..5_000).prop_map(|(start, len)| (start, start.wrapping_add(len))),
        1 => (offset(), offset()),
    ]
}

fn arrival() -> impl Strategy<Value = Arrival> {
    let share = prop_oneof![3 => Just(0), 2 => any::<u8>()];
    let sack = proptest::collection::vec(range(), 0..5);
    let duplicate = proptest::option::weighted(0.2, range());
    let rtt = proptest::option::of(prop_oneof![1_u32..1_000_000, any::<u32>()]);
    (share, sack, duplicate, rtt, any::<Option<bool>>(), any::<u8>()).prop_map(
        |(share, sack, duplicate, rtt, echoes_original, flags)| Arrival {
            share,
            sack,
            duplicate,
            rtt,
            echoes_original,
            flags,
        },
    )
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        6 => (0_u32..20_000).prop_map(Call::Send),
        3 => (0_u32..10_000).prop_map(Call::Repair),
        1 => (0_u32..50_000, 0_u32..5_000).prop_map(|(start, len)| Call::Retransmit(start, len)),
        10 => arrival().prop_map(Call::Ack),
        3 => Just(Call::Timer),
        3 => prop_oneof![0_u64..50_000, 0_u64..10_000_000_000].prop_map(Call::Wait),
        1 => (0_u16..9_000, any::<bool>()).prop_map(|(mss, is_reduced)| Call::SegmentSize(mss, is_reduced)),
    ]
}

struct Driver {
    recovery: Recovery,
    pool: SentPool,
    una: Seq,
    nxt: Seq,
    now: Time,
    /// Largest window that deliveries justify, in bytes.
    bound: u64,
}

impl Driver {
    fn new(congestion: CongestionAlgorithm, mss: u16) -> Self {
        let options = Options { congestion, ..Options::default() };
        let recovery = Recovery::new(&options, mss, Time(0));
        let bound = u64::from(recovery.window().0);
        let (una, nxt) = (Seq(u32::MAX - 20_000), Seq(u32::MAX - 20_000));
        Self { recovery, pool: SentPool::new(), una, nxt, now: Time(0), bound }
    }

    fn call(&mut self, call: Call) {
        let (recovery, pool) = (&mut self.recovery, &mut self.pool);
        match call {
            Call::Send(bytes) => {
                let bytes = bytes.min((1 << 20) - self.nxt.since(self.una));
                recovery.on_sent(pool, self.nxt..self.nxt + bytes, self.now);
                self.nxt += bytes;
            }
            Call::Repair(max) => {
                if let Some(range) = recovery.next_lost(pool, max) {
                    assert!(self.una.is_at_most(range.start) && range.end.is_at_most(self.nxt));
                    assert!(range.start.is_before(range.end) && range.end.since(range.start) <= max);
                    recovery.on_retransmitted(pool, range, self.now);
                }
            }
            Call::Retransmit(start, len) => {
                recovery.on_retransmitted(pool, self.una + start..self.una + start + len, self.now);
            }
            Call::Ack(arrival) => self.acknowledge(&arrival),
            Call::Timer => {
                recovery.on_timer(pool, self.now);
            }
            Call::Wait(micros) => self.now = self.now.after_micros(micros),
            Call::SegmentSize(mss, is_reduced) => recovery.on_segment_size(pool, mss, is_reduced),
        }
    }

    fn acknowledge(&mut self, arrival: &Arrival) {
        let flight = self.nxt.since(self.una);
        let seq = |offset: i32| Seq(self.una.0.wrapping_add(offset as u32));
        let sack: Vec<_> = arrival.sack.iter().map(|r| (seq(r.0), seq(r.1))).collect();
        let ack = Ack {
            una: self.una,
            ack: self.una + (u64::from(flight) * u64::from(arrival.share)).div_ceil(255) as u32,
            nxt: self.nxt,
            sack: &sack,
            duplicate: arrival.duplicate.map(|r| (seq(r.0), seq(r.1))),
            timestamp_rtt: arrival.rtt,
            echoes_original: arrival.echoes_original,
            is_update: arrival.flags & 1 > 0,
            has_ece: arrival.flags & 0xE == 0xE,
            is_app_limited: arrival.flags & 0x10 > 0,
            now: self.now,
        };
        let acked = self.recovery.on_ack(&mut self.pool, &ack);
        assert!(acked.delivered <= flight);
        self.bound += u64::from(acked.delivered);
        self.una = ack.ack;
    }

    fn check(&mut self) {
        let recovery = &self.recovery;
        recovery.board.check(&self.pool, self.una..self.nxt);
        assert_eq!(recovery.deadline().is_never(), self.una == self.nxt);
        let mss = u64::from(recovery.mss);
        self.bound = self.bound.max(4 * mss);
        let window = recovery.window().0;
        assert!(u64::from(window) <= self.bound + mss, "{window} {}", self.bound);
        let allowance = recovery.allowance(self.nxt.since(self.una));
        assert!(u64::from(allowance) <= self.bound + 2 * mss, "{allowance} {}", self.bound);
        assert!(recovery.rto() >= 200_000 && recovery.rto() <= 60_000_000);
        // A peer cannot cut the flight into more entries than segments and transmissions.
        assert!(self.pool.entries.len() < 4_000);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_acknowledgement_is_harmless(
        algorithm in prop_oneof![Just(NewReno), Just(Cubic), Just(Bbr)],
        mss in 0_u16..9_000,
        calls in proptest::collection::vec(call(), 1..300),
    ) {
        let mut driver = Driver::new(algorithm, mss);
        for call in calls {
            driver.call(call);
            driver.check();
        }
        driver.recovery.release(&mut driver.pool);
        prop_assert_eq!(driver.pool.entries.len(), 0);
        prop_assert!(driver.recovery.deadline().is_never());
    }
}

/// Ranges of single bytes do not cut the flight into single bytes.
#[test]
fn single_bytes_are_not_entries() {
    let mut driver = Driver::new(Cubic, 1_000);
    driver.call(Call::Send(60_000));
    for at in (1..60_000).step_by(2) {
        let sack = Vec::from([(at, at + 1)]);
        let arrival = Arrival { share: 0, sack, duplicate: None, rtt: None, echoes_original: None, flags: 0 };
        driver.call(Call::Ack(arrival));
    }
    driver.check();
    assert!(driver.pool.entries.len() < 200, "{}", driver.pool.entries.len());
}
