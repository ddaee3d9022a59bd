//! Windows over time on deterministic networks: each controller has its characteristic shape.

use super::model::{Conditions, Transfer};
use crate::tcp::CongestionAlgorithm::{self, Bbr, Cubic, NewReno};
use std::prelude::v1::*;

const SECOND: u64 = 1_000_000;
/// Time at which transfers start.
const START: u64 = SECOND;

/// A transfer without end over a path that loses the given transmissions only.
fn transfer(algorithm: CongestionAlgorithm, delay: u64, drops: &[u64]) -> Transfer {
    let conditions =
        Conditions { algorithm, delay, bytes: 1 << 30, window: 1 << 28, burst: 1, ..Conditions::default() };
    let mut transfer = Transfer::new(conditions);
    transfer.drops = drops.to_vec();
    transfer
}

/// Windows in segments at intervals in microseconds.
fn trace(transfer: &mut Transfer, interval: u64, count: usize) -> Vec<u32> {
    (0..count)
        .map(|_| {
            let until = transfer.now + interval;
            transfer.run_until(until) / 1_000
        })
        .collect()
}

#[test]
fn slow_start_doubles_each_round_trip() {
    for (algorithm, burst) in [(NewReno, 1), (Cubic, 1), (Cubic, 4)] {
        let mut transfer = transfer(algorithm, 10_000, &[]);
        transfer.conditions().burst = burst;
        transfer.run_until(START + 10_000);
        assert_eq!(trace(&mut transfer, 20_000, 5), [20, 40, 80, 160, 320], "{algorithm:?}");
    }
}

#[test]
fn newreno_halves_and_grows_by_one_segment_each_round_trip() {
    let mut transfer = transfer(NewReno, 10_000, &[100]);
    transfer.run_until(START + 150_000);
    let trace = trace(&mut transfer, 20_000, 40);
    assert!((35..=65).contains(&trace[0]), "{trace:?}");
    for step in trace.windows(11) {
        assert!((9..=11).contains(&(step[10] - step[0])), "{trace:?}");
    }
    assert_eq!((transfer.timeouts, transfer.retransmitted), (0, 1_000));
}

/// The window returns to its maximum after K, concave before and convex after.
#[test]
fn cubic_returns_to_its_maximum_after_the_period() {
    let mut transfer = transfer(Cubic, 50_000, &[320]);
    let mut maximum = 0;
    while transfer.retransmitted == 0 {
        maximum = transfer.recovery.window().0 / 1_000;
        transfer.step_first();
    }
    let beginning = transfer.now;
    let reduced = transfer.recovery.window().0 / 1_000;
    assert!(reduced.abs_diff(maximum * 7 / 10) <= 2, "{maximum} {reduced}");
    let period = (f64::from(maximum) * 0.3 / 0.4).cbrt();
    // Congestion avoidance starts when the recovery ends, a round-trip time later.
    let at = |transfer: &mut Transfer, share: f64| {
        let time = beginning + 100_000 + (period * share * 1e6) as u64;
        transfer.run_until(time) / 1_000
    };
    let [quarter, half, whole, later] = [0.25, 0.5, 1.0, 2.0].map(|share| at(&mut transfer, share));
    assert!(whole.abs_diff(maximum) <= maximum / 20, "{maximum} {whole}");
    assert!(quarter - reduced > half - quarter, "{reduced} {quarter} {half}");
    assert!(half.abs_diff(maximum) <= maximum / 12, "{maximum} {half}");
    assert!(later.abs_diff(maximum * 13 / 10) <= maximum / 10, "{maximum} {later}");
    assert_eq!(transfer.timeouts, 0);
}

/// A path of 10 Mbit/s with a round-trip time of 40 ms: the product of both is 50 kB.
fn bottleneck(algorithm: CongestionAlgorithm, queue: u64) -> Transfer {
    let conditions = Conditions {
        algorithm,
        delay: 20_000,
        rate: 1_250_000,
        queue,
        bytes: 1 << 30,
        window: 1 << 28,
        ..Conditions::default()
    };
    Transfer::new(conditions)
}

#[test]
fn controllers_use_the_bottleneck() {
    for algorithm in [NewReno, Cubic, Bbr] {
        let mut transfer = bottleneck(algorithm, 50_000);
        transfer.run_until(START + 3 * SECOND);
        let before = transfer.acknowledged();
        transfer.run_until(START + 23 * SECOND);
        let rate = u64::from(transfer.acknowledged() - before) / 20;
        assert!(rate > 1_250_000 * 85 / 100, "{algorithm:?} {rate}");
        assert_eq!(transfer.timeouts, 0, "{algorithm:?}");
    }
}

#[test]
fn bbr_finds_the_rate_and_keeps_the_queue_short() {
    let mut transfer = bottleneck(Bbr, 500_000);
    let mut lowest = u32::MAX;
    transfer.run_until(START + 2 * SECOND);
    // A longer path: the minimum round-trip time expires.
    transfer.conditions().delay += 500;
    for second in 2..14 {
        lowest = lowest.min(transfer.run_until(START + second * SECOND));
        let bandwidth = transfer.recovery.controller.bbr().map_or(0, super::Bbr::bandwidth);
        assert!(bandwidth.abs_diff(1_250_000) < 1_250_000 / 4, "{bandwidth}");
        assert!(transfer.flight() < 200_000, "{}", transfer.flight());
        for _ in 0..1_000 {
            transfer.step();
            lowest = lowest.min(transfer.recovery.window().0);
        }
    }
    assert_eq!((transfer.dropped, transfer.timeouts), (0, 0));
    assert_eq!(lowest, 4_000, "ProbeRTT");
}

/// Packets are held for a second: the timeout is spurious, and the window returns to its former size.
#[test]
fn spurious_timeout_is_undone() {
    for (sack, timestamps) in [(true, true), (true, false), (false, true), (false, false)] {
        for algorithm in [NewReno, Cubic, Bbr] {
            let mut transfer = transfer(algorithm, 10_000, &[]);
            let begin = START + 85_000;
            transfer.conditions().outage = (begin, begin + SECOND);
            transfer.conditions().sack = sack;
            transfer.conditions().timestamps = timestamps;
            transfer.conditions().window = 300_000;
            let before = transfer.run_until(begin);
            let after = transfer.run_until(begin + SECOND + 100_000);
            let case = (sack, timestamps, algorithm);
            assert!(transfer.timeouts > 0, "{case:?}");
            assert_eq!(transfer.undone, 1, "{case:?}");
            assert!(after >= before, "{case:?}: {before} {after}");
        }
    }
}

/// A genuine loss of everything in flight is not taken for a spurious timeout.
#[test]
fn genuine_timeout_is_not_undone() {
    for (sack, timestamps) in [(true, true), (true, false), (false, true), (false, false)] {
        let drops: Vec<u64> = (100..400).collect();
        let mut transfer = transfer(NewReno, 10_000, &drops);
        transfer.conditions().sack = sack;
        transfer.conditions().timestamps = timestamps;
        transfer.run_until(START + 20 * SECOND);
        assert!(transfer.timeouts > 0);
        assert_eq!(transfer.undone, 0, "{sack} {timestamps}");
    }
}

/// Reordering by more than the initial window costs few retransmissions: D-SACK widens the window.
#[test]
fn reordering_is_learnt() {
    let conditions = Conditions { jitter: 8_000, bytes: 20_000_000, ..Conditions::default() };
    let mut transfer = Transfer::new(conditions);
    transfer.run();
    assert!(transfer.undone > 0);
    assert!(transfer.retransmitted < 400_000, "{}", transfer.retransmitted);
}

/// Random losses do not slow BBR, and RACK repairs them, lost retransmissions included, without timeouts.
#[test]
fn bbr_ignores_random_losses() {
    let mut transfer = bottleneck(Bbr, 100_000);
    transfer.conditions().loss = 10;
    transfer.run_until(START + 2 * SECOND);
    let before = transfer.acknowledged();
    transfer.run_until(START + 12 * SECOND);
    let rate = u64::from(transfer.acknowledged() - before) / 10;
    assert!(rate > 1_250_000 * 75 / 100, "{rate}");
    assert!(transfer.dropped > 50 && transfer.timeouts <= 1, "{} {}", transfer.dropped, transfer.timeouts);
}

#[test]
fn lost_retransmissions_are_repaired_without_timeout() {
    for algorithm in [NewReno, Cubic, Bbr] {
        let mut transfer = bottleneck(algorithm, 100_000);
        transfer.conditions().loss = 30;
        transfer.run_until(START + 20 * SECOND);
        assert!(transfer.dropped > 50 && transfer.timeouts <= 1, "{algorithm:?} {}", transfer.timeouts);
        // The rate of Reno with 3 % losses: 1.22 segments / 40 ms / sqrt(0.03).
        assert!(transfer.acknowledged() / 20 > 176_000 / 4 * 3, "{algorithm:?} {}", transfer.acknowledged());
    }
}

/// 10 Gbit/s with a round-trip time of 50 us, as between two machines of a rack.
#[test]
fn short_paths_are_filled() {
    for algorithm in [NewReno, Cubic, Bbr] {
        let conditions = Conditions {
            algorithm,
            delay: 25,
            rate: 1_250_000_000,
            queue: 300_000,
            mss: 1_460,
            burst: 44,
            bytes: 1 << 30,
            window: 1 << 20,
            ..Conditions::default()
        };
        let mut transfer = Transfer::new(conditions);
        transfer.run_until(START + 20_000);
        let before = transfer.acknowledged();
        transfer.run_until(START + 60_000);
        let rate = u64::from(transfer.acknowledged() - before) * 25;
        assert!(rate > 1_000_000_000, "{algorithm:?} {rate}");
        assert_eq!(transfer.timeouts, 0, "{algorithm:?}");
    }
}

/// A queue that marks packets keeps the rate without losses, and each window is reduced once.
#[test]
fn marks_replace_losses() {
    for algorithm in [NewReno, Cubic] {
        let mut transfer = bottleneck(algorithm, 500_000);
        transfer.conditions().mark = 40_000;
        transfer.run_until(START + 3 * SECOND);
        let (before, reductions) = (transfer.acknowledged(), transfer.reductions);
        transfer.run_until(START + 23 * SECOND);
        let rate = u64::from(transfer.acknowledged() - before) / 20;
        assert!(rate > 1_250_000 * 80 / 100, "{algorithm:?} {rate}");
        assert_eq!((transfer.dropped, transfer.retransmitted), (0, 0), "{algorithm:?}");
        // Between two marks, the window grows from its reduction for many round trips.
        let reductions = transfer.reductions - reductions;
        assert!((3..40).contains(&reductions), "{algorithm:?} {reductions}");
    }
}

/// BBR answers the marks of each probe for bandwidth once: rate and window stay lower until the next probe, which
/// forgets them, and the queue causes no losses.
#[test]
fn bbr_answers_marks_until_the_next_probe() {
    let mut transfer = bottleneck(Bbr, 500_000);
    transfer.conditions().mark = 10_000;
    transfer.run_until(START + 3 * SECOND);
    let (before, reductions) = (transfer.acknowledged(), transfer.reductions);
    let windows = trace(&mut transfer, 40_000, 500);
    assert_eq!(windows[..16], [71, 71, 71, 71, 71, 71, 98, 102, 71, 71, 71, 71, 71, 71, 91, 102]);
    assert_eq!((windows.iter().min(), windows.iter().max()), (Some(&71), Some(&102)));
    // A cycle of eight round trips of 40 ms.
    let reductions = transfer.reductions - reductions;
    assert!((58..=64).contains(&reductions), "{reductions} reductions in 20 s");
    let rate = u64::from(transfer.acknowledged() - before) / 20;
    assert!(rate > 1_250_000 * 90 / 100, "{rate}");
    assert_eq!((transfer.dropped, transfer.retransmitted), (0, 0));
}

/// `HyStart++` leaves slow start while the queue grows.
#[test]
fn slow_start_of_cubic_spares_the_queue() {
    let drops = [NewReno, Cubic].map(|algorithm| {
        let mut transfer = bottleneck(algorithm, 100_000);
        transfer.run_until(START + SECOND);
        transfer.dropped
    });
    assert!(drops[1] * 2 <= drops[0], "{drops:?}");
}
