//! Recovery of one connection, call by call.

use super::*;

/// One connection. Sequence numbers start at 0, segments have 1000 bytes.
struct Connection {
    recovery: Recovery,
    pool: SentPool,
    una: u32,
    nxt: u32,
    now: Time,
}

impl Connection {
    fn new(congestion: CongestionAlgorithm) -> Self {
        let options = Options { congestion, ..Options::default() };
        let recovery = Recovery::new(&options, 1_000, Time(0));
        Self { recovery, pool: SentPool::new(), una: 0, nxt: 0, now: Time(0) }
    }

    /// A connection whose handshake took 10 ms.
    fn established(congestion: CongestionAlgorithm) -> Self {
        let mut connection = Self::new(congestion);
        connection.send(1);
        connection.wait(10_000);
        connection.ack(1, &[]);
        connection
    }

    fn wait(&mut self, micros: u64) {
        self.now = self.now.after_micros(micros);
    }

    fn send(&mut self, bytes: u32) {
        self.recovery.on_sent(&mut self.pool, Seq(self.nxt)..Seq(self.nxt + bytes), self.now);
        self.nxt += bytes;
    }

    /// Sends `count` segments one by one.
    fn send_segments(&mut self, count: u32) {
        (0..count).for_each(|_| self.send(1_000));
    }

    /// Retransmits what is lost and allowed, and returns the ranges.
    fn repair(&mut self) -> Vec<(u32, u32)> {
        let mut ranges = Vec::new();
        while self.recovery.allowance(self.nxt - self.una) >= 1_000
            && let Some(range) = self.recovery.next_lost(&mut self.pool, 1_000)
        {
            ranges.push((range.start.0, range.end.0));
            self.recovery.on_retransmitted(&mut self.pool, range, self.now);
        }
        ranges
    }

    fn ack(&mut self, ack: u32, sack: &[(u32, u32)]) -> Acked {
        self.ack_with(ack, sack, |_| {})
    }

    fn ack_with(&mut self, ack: u32, sack: &[(u32, u32)], change: impl Fn(&mut Ack<'_>)) -> Acked {
        let sack: Vec<_> = sack.iter().map(|r| (Seq(r.0), Seq(r.1))).collect();
        let mut segment = Ack {
            una: Seq(self.una),
            ack: Seq(ack),
            nxt: Seq(self.nxt),
            sack: &sack,
            duplicate: None,
            timestamp_rtt: None,
            echoes_original: None,
            is_update: false,
            has_ece: false,
            is_app_limited: false,
            now: self.now,
        };
        change(&mut segment);
        let acked = self.recovery.on_ack(&mut self.pool, &segment);
        self.una = ack;
        self.recovery.board.check(&self.pool, Seq(self.una)..Seq(self.nxt));
        acked
    }

    /// Runs the next timer.
    fn expire(&mut self) -> LossTimer {
        self.now = self.recovery.deadline();
        self.recovery.on_timer(&mut self.pool, self.now)
    }
}

#[test]
fn lost_handshake_keeps_the_threshold() {
    let mut connection = Connection::new(Cubic);
    connection.send(1);
    assert_eq!((connection.expire(), connection.now), (LossTimer::Timeout, Time(1_000_000_000)));
    assert_eq!(connection.repair(), [(0, 1)]);
    connection.wait(10_000);
    connection.ack(1, &[]);
    connection.recovery.on_handshake(&Options::default(), 1_000, true);
    assert_eq!(connection.recovery.window(), (1_000, cc::MAX_WINDOW));
    assert_eq!((connection.recovery.rto(), connection.recovery.timeouts()), (3_000_000, 0));
}

#[test]
fn spurious_handshake_timeout_keeps_the_initial_window() {
    let mut connection = Connection::new(Cubic);
    connection.send(1);
    connection.expire();
    connection.repair();
    let acked = connection.ack_with(1, &[], |ack| {
        (ack.echoes_original, ack.timestamp_rtt) = (Some(true), Some(1_100_000));
    });
    assert!(acked.is_undone);
    connection.recovery.on_handshake(&Options::default(), 1_000, true);
    assert_eq!(connection.recovery.window().0, 10_000);
}

#[test]
fn timeouts_double_and_progress_ends_them() {
    let mut connection = Connection::established(NewReno);
    connection.send_segments(10);
    assert_eq!(connection.expire(), LossTimer::Probe);
    connection.recovery.on_retransmitted(&mut connection.pool, Seq(9_001)..Seq(10_001), connection.now);
    for (count, rto) in [(1, 210_000), (2, 420_000), (3, 840_000)] {
        let before = connection.now;
        assert_eq!(connection.expire(), LossTimer::Timeout);
        assert_eq!((connection.recovery.timeouts(), connection.now), (count, before.after_micros(rto)));
        assert_eq!(connection.recovery.window(), (1_000, 5_000), "the threshold is reduced once");
        assert_eq!(connection.repair(), [(1, 1_001)]);
    }
    connection.wait(10_000);
    connection.ack_with(10_001, &[], |ack| ack.timestamp_rtt = Some(10_000));
    assert_eq!((connection.recovery.timeouts(), connection.recovery.rto()), (0, 210_000));
    assert!(connection.recovery.deadline().is_never());
}

#[test]
fn a_retry_ends_the_back_off_of_a_timeout_only() {
    let mut connection = Connection::established(NewReno);
    connection.send_segments(2);
    let before = connection.recovery.deadline();
    connection.recovery.retry(connection.now);
    assert_eq!(connection.recovery.deadline(), before, "no timeout has occurred");
    while connection.recovery.timeouts() < 3 {
        connection.expire();
        connection.repair();
    }
    connection.recovery.retry(connection.now);
    assert_eq!(connection.recovery.deadline(), connection.now);
    assert_eq!(connection.recovery.rto(), 210_000);
}

#[test]
fn reneging_peer_gets_everything_again() {
    let mut connection = Connection::established(Cubic);
    connection.send_segments(5);
    connection.wait(10_000);
    connection.ack(1, &[(1, 5_001)]);
    assert_eq!(connection.recovery.allowance(5_000), 10_000);
    while connection.expire() != LossTimer::Timeout {}
    assert_eq!(connection.recovery.board.lost(), 5_000);
    assert_eq!(connection.repair(), [(1, 1_001)]);
}

#[test]
fn congestion_mark_reduces_the_window_once() {
    for algorithm in [NewReno, Cubic] {
        let mut connection = Connection::established(algorithm);
        connection.send_segments(10);
        connection.wait(10_000);
        let acked = connection.ack_with(1_001, &[], |ack| ack.has_ece = true);
        assert!(acked.is_reduced_by_ece && !acked.has_lost);
        let window = connection.recovery.window().0;
        assert!((5_000..=7_001).contains(&window), "{window}");
        connection.send(1_000);
        for ack in 2..=10 {
            assert!(!connection.ack_with(ack * 1_000 + 1, &[], |ack| ack.has_ece = true).is_reduced_by_ece);
        }
        assert_eq!(connection.recovery.window().0, window);
        assert!(!connection.ack(11_001, &[]).is_reduced_by_ece);
        assert!(connection.recovery.window().0 <= window + 1_000);
    }
}

/// RFC 9438 section 4.9.2.
#[test]
fn undoing_a_reduction_keeps_a_window_that_has_grown_beyond_the_former_one() {
    for has_grown in [false, true] {
        let mut connection = Connection::established(Cubic);
        connection.send_segments(10);
        let before = connection.recovery.window();
        connection.wait(10_000);
        connection.ack(1, &[(1_001, 6_001)]);
        assert_eq!(connection.repair(), [(1, 1_001)]);
        let reduced = connection.recovery.window();
        assert!(reduced.0 < before.0 && reduced.1 < before.1);
        if has_grown {
            connection.recovery.window.congestion = 50_000;
        }
        connection.wait(10_000);
        let acked = connection.ack_with(10_001, &[], |ack| ack.duplicate = Some((Seq(1), Seq(1_001))));
        assert!(acked.is_undone);
        let window = connection.recovery.window();
        if has_grown {
            assert_eq!(window, (50_000, reduced.1));
        } else {
            assert!(window.0 >= before.0 && window.1 == before.1);
        }
    }
}

/// RFC 8985 section 7.1.
#[test]
fn fast_recovery_ends_a_probe() {
    let mut connection = Connection::established(Cubic);
    connection.send_segments(10);
    assert_eq!(connection.expire(), LossTimer::Probe);
    connection.recovery.on_retransmitted(&mut connection.pool, Seq(9_001)..Seq(10_001), connection.now);
    assert_eq!(connection.recovery.probe, Probe::Retransmission);
    connection.wait(10_000);
    connection.ack(1, &[(5_001, 10_001)]);
    assert_eq!((connection.recovery.phase, connection.recovery.probe), (Phase::Recovery, Probe::None));
}

#[test]
fn smaller_segments_are_sent_again_without_reduction() {
    let mut connection = Connection::established(Cubic);
    connection.send_segments(3);
    connection.send(500);
    let window = connection.recovery.window().0;
    connection.recovery.on_segment_size(&mut connection.pool, 600, true);
    assert_eq!(connection.recovery.board.lost(), 3_000);
    assert_eq!(connection.repair(), [(1, 1_001), (1_001, 2_001), (2_001, 3_001)]);
    connection.wait(10_000);
    connection.ack(3_501, &[]);
    assert!(connection.recovery.window().0 >= window);
}

#[test]
fn reordering_window_delays_the_loss() {
    let mut connection = Connection::established(Cubic);
    connection.send_segments(10);
    connection.wait(10_000);
    assert!(!connection.ack(1, &[(1_001, 2_001)]).has_lost);
    let deadline = connection.now.after_micros(2_500);
    assert_eq!(connection.recovery.deadline(), deadline);
    connection.send(1_000);
    assert_eq!(connection.recovery.deadline(), deadline, "limited transmit starts no probe timer");
    assert_eq!(connection.expire(), LossTimer::Reordering);
    assert_eq!(connection.repair(), [(1, 1_001)]);
    let mut certain = Connection::established(Cubic);
    certain.send_segments(10);
    certain.wait(10_000);
    assert!(certain.ack(1, &[(1_001, 4_001)]).has_lost);
}

#[test]
fn limited_transmit_sends_new_data_for_duplicates() {
    for sack in [true, false] {
        let mut connection = Connection::established(NewReno);
        connection.send_segments(10);
        connection.wait(10_000);
        for count in 1..=2 {
            let range = [(1_001, 1_001 + count * 1_000)];
            assert!(!connection.ack(1, if sack { &range } else { &[] }).has_lost);
            assert!(connection.recovery.allowance(connection.nxt - connection.una) >= 1_000);
            connection.send(1_000);
        }
        let acked = connection.ack(1, if sack { &[(1_001, 4_001)] } else { &[] });
        assert!(acked.has_lost);
        assert_eq!(connection.repair(), [(1, 1_001)]);
    }
}

#[test]
fn probe_that_repairs_a_loss_reduces_the_window() {
    let mut connection = Connection::established(NewReno);
    connection.send_segments(10);
    connection.wait(10_000);
    connection.ack(9_001, &[]);
    assert_eq!(connection.expire(), LossTimer::Probe);
    connection.recovery.on_retransmitted(&mut connection.pool, Seq(9_001)..Seq(10_001), connection.now);
    connection.wait(10_000);
    connection.ack(10_001, &[]);
    let window = connection.recovery.window().0;
    connection.send(1_000);
    connection.wait(10_000);
    connection.ack(11_001, &[]);
    assert!(connection.recovery.window().0 <= window / 2);
}

#[test]
fn unneeded_probe_reduces_nothing() {
    let mut connection = Connection::established(NewReno);
    connection.send_segments(10);
    connection.wait(10_000);
    connection.ack(9_001, &[]);
    let window = connection.recovery.window().0;
    connection.expire();
    connection.recovery.on_retransmitted(&mut connection.pool, Seq(9_001)..Seq(10_001), connection.now);
    connection.ack(10_001, &[]);
    connection.ack_with(10_001, &[], |ack| ack.duplicate = Some((Seq(9_001), Seq(10_001))));
    connection.send(1_000);
    connection.wait(10_000);
    connection.ack(11_001, &[]);
    assert!(connection.recovery.window().0 >= window);
}

#[test]
fn idle_connection_restarts_with_the_initial_window() {
    let mut connection = Connection::established(NewReno);
    for round in 1..=3 {
        connection.send_segments(10 * round);
        connection.wait(10_000);
        (connection.una / 1_000 + 1..=connection.nxt / 1_000).for_each(|i| {
            connection.ack(i * 1_000 + 1, &[]);
        });
    }
    assert!(connection.recovery.window().0 > 30_000);
    assert_eq!(connection.pool.entries.len(), 0);
    connection.wait(150_000);
    connection.send(1_000);
    assert!(connection.recovery.window().0 > 30_000, "not idle for a timeout");
    connection.wait(10_000);
    connection.ack(connection.nxt, &[]);
    connection.wait(250_000);
    connection.send(1_000);
    assert_eq!(connection.recovery.window().0, 10_000);
}

#[test]
fn small_segments_are_repaired_without_sack() {
    let mut connection = Connection::established(NewReno);
    (0..5).for_each(|_| connection.send(100));
    connection.wait(10_000);
    assert!(!connection.ack(1, &[]).has_lost && !connection.ack(1, &[]).has_lost);
    assert!(connection.ack(1, &[]).has_lost);
    assert_eq!(connection.recovery.next_lost(&mut connection.pool, 1_000), Some(Seq(1)..Seq(101)));
}

#[test]
fn partial_acknowledgements_repair_one_segment_each_without_sack() {
    let mut connection = Connection::established(NewReno);
    connection.send_segments(10);
    connection.wait(10_000);
    (0..3).for_each(|_| {
        connection.ack(1, &[]);
    });
    assert_eq!(connection.repair(), [(1, 1_001)]);
    connection.wait(10_000);
    connection.ack(4_001, &[]);
    assert_eq!(connection.repair(), [(4_001, 5_001)]);
    connection.wait(10_000);
    let acked = connection.ack(10_001, &[]);
    assert!(!acked.has_lost);
    assert_eq!(connection.recovery.window(), (6_000, 5_000), "one segment above the threshold");
}
