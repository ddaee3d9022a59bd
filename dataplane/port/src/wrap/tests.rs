pub(super) mod bench;

use super::*;
use crate::Remedy;
use crate::memif;
use crate::patch::{Exchange, Patch};
use crate::pcap::{Options, Output, Pace, Pcap, Playback, Recording, Repeat};
use crate::vhost_user::fake::FakeEngine;
use crate::{Burst, BurstStats, DropReason, Now, PortControl, RxQueue, TxQueue};
use bench::*;
use mem::copy::Portable;
use pcap_parser::{Block, OptionCode};
use proptest::prelude::*;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

#[test]
fn port_without_wrappers_is_unchanged() {
    let inner: Box<dyn PortControl> = Box::new(Pcap::new(Options::default()).unwrap());
    let before: *const dyn PortControl = &raw const *inner;
    let after = wrap(inner, "red", &Wrappers::default()).unwrap();
    assert!(std::ptr::addr_eq(before, &raw const *after));
}

#[test]
fn capture_has_packets_of_both_directions() {
    for (directions, snap) in
        [(Directions::Both, None), (Directions::In, Some(20)), (Directions::Out, Some(200))]
    {
        let capture = |dir: &Path| Capture { output: Output::new(dir.join("c.pcapng")), snap, directions };
        let mut bench = Bench::new(&frames(70, 300), |dir| Wrappers {
            capture: Some(capture(dir)),
            ..Wrappers::default()
        });
        let came = bench.drain(5 * MS);
        assert_eq!(came, frames(70, 300), "a capture changes nothing");
        bench.send(9 * MS, &frames(3, 60));
        bench.close();
        assert_eq!(bench.outside(), frames(3, 60));
        let expected = came.iter().map(|f| (1, f)).filter(|_| directions != Directions::Out);
        let left = frames(3, 60);
        let expected: Vec<_> =
            expected.chain(left.iter().map(|f| (2, f)).filter(|_| directions != Directions::In)).collect();
        let captured = packets(&bench.path("c.pcapng"));
        assert_eq!(captured.len(), expected.len());
        for (packet, (flags, frame)) in captured.iter().zip(expected) {
            let kept = frame.len().min(snap.unwrap_or(9999) as usize);
            assert_eq!((packet.flags, packet.whole as usize), (flags, frame.len()));
            assert_eq!(
                (&packet.bytes[..], packet.time),
                (&frame[..kept], if flags == 1 { 5 } else { 9 } * MS)
            );
            assert_eq!(packet.comment, None);
        }
        assert_eq!((bench.count("captured"), bench.count("capture_missed")), (captured.len() as u64, 0));
    }
}

#[test]
fn slow_capture_counts_missed_packets_without_loss() {
    let many = frames(100, 65_550);
    let mut bench = Bench::new(&many, |dir| Wrappers {
        capture: Some(Capture {
            output: Output::new(dir.join("c")),
            snap: None,
            directions: Directions::Both,
        }),
        ..Wrappers::default()
    });
    assert_eq!(bench.drain(1).len(), 100);
    bench.close();
    let captured = packets(&bench.path("c")).len() as u64;
    assert!(captured > 0 && bench.count("capture_missed") == 100 - captured && captured < 100, "{captured}");
}

#[test]
fn capture_has_sent_packets_and_trace_has_drop_reasons() {
    let faults = Faults { drop: 0.5, directions: Directions::Out, ..Faults::default() };
    let mut bench = Bench::new(&frames(1, 60), |dir| Wrappers {
        capture: Some(Capture {
            output: Output::new(dir.join("c")),
            snap: None,
            directions: Directions::Out,
        }),
        trace: Some(Trace { output: Output::new(dir.join("t")), directions: Directions::Both }),
        fault: Some(faults),
        ..Wrappers::default()
    });
    // The 64th of these fills the spool of the inner port.
    bench.send(1, &frames(200, 65_550));
    bench.close();
    let sent = bench.sent.packets;
    assert_eq!(packets(&bench.path("c")).len() as u64, sent);
    let trace = std::fs::read_to_string(bench.path("t")).unwrap();
    let lines = |end: &str| trace.lines().filter(|line| line.ends_with(end)).count() as u64;
    assert_eq!(lines(", sent"), sent);
    assert_eq!(lines(", lost: injected"), bench.sent.drops[DropReason::Injected as usize]);
    assert_eq!(lines(", lost: queue-full"), bench.left_out);
    assert!(bench.left_out > 0 && trace.lines().count() == 200, "{trace}");
}

#[test]
fn trace_has_no_outcome_of_packets_that_are_kept_back() {
    let faults = Faults { drop: 0.5, directions: Directions::Out, ..Faults::default() };
    let mut bench = Bench::new(&frames(1, 60), |dir| Wrappers {
        trace: Some(Trace { output: Output::new(dir.join("t")), directions: Directions::Out }),
        fault: Some(faults),
        tx_coalesce: Some(TxCoalesce { frames: 8, delay: None }),
        ..Wrappers::default()
    });
    bench.send(1, &frames(100, 60));
    bench.close();
    let trace = std::fs::read_to_string(bench.path("t")).unwrap();
    let lines = |end: &str| trace.lines().filter(|line| line.ends_with(end)).count() as u64;
    let injected = bench.sent.drops[DropReason::Injected as usize];
    assert!(injected > 0 && bench.sent.packets > 0 && bench.left_out == 0);
    assert_eq!((lines(", queued"), lines(", lost: injected")), (100 - injected, injected), "{trace}");
}

#[test]
fn existing_file_fails_the_wrapping_without_effect() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("c"), "dear").unwrap();
    let capture =
        Capture { output: Output::new(dir.path().join("c")), snap: None, directions: Directions::Both };
    let inner = Box::new(Pcap::new(Options::default()).unwrap());
    let wrapped = wrap(inner, "red", &Wrappers { capture: Some(capture), ..Wrappers::default() });
    let error = wrapped.err().unwrap().in_one_line();
    assert!(error.starts_with("capture: ") && error.contains("already exists"), "{error}");
}

#[test]
fn corruption_flips_one_bit_of_a_copy_in_order() {
    for len in [60, 1514] {
        let original = frames(200, len);
        let mut bench = Bench::faulty(&original, Faults { corrupt: 0.3, ..Faults::default() });
        let came = bench.drain(1);
        assert_eq!(came.len(), 200);
        let turned: u32 = came.iter().zip(&original).map(|(a, b)| difference(a, b).min(2)).sum();
        assert!(came.iter().zip(&original).all(|(a, b)| difference(a, b) <= 1), "one bit, and in its place");
        assert_eq!(u64::from(turned), bench.count("fault_in_corrupted"));
        bench.send(1, &original);
        bench.close();
        let outside = bench.outside();
        assert!(outside.iter().zip(&original).all(|(a, b)| difference(a, b) <= 1));
        let turned = outside.iter().zip(&original).filter(|(a, b)| a != b).count() as u64;
        assert_eq!((outside.len(), turned), (200, bench.count("fault_out_corrupted")));
        assert!((30..90).contains(&turned), "{turned}");
    }
}

#[test]
fn delayed_packets_arrive_when_due_and_wake_the_worker() {
    let delay = (Duration::from_millis(2), Duration::from_millis(2));
    let original = frames(100, 700);
    let mut bench = Bench::faulty(&original, Faults { delay, ..Faults::default() });
    assert!(bench.drain(MS).is_empty());
    assert_eq!(bench.received, BurstStats::default(), "they are on the wire");
    assert!(!bench.rx().enable_notification().unwrap());
    assert!(is_readable(bench.rx(), 60), "the timer of the hold wakes");
    bench.rx().disable_notification();
    assert!(!is_readable(bench.rx(), 0));
    assert!(bench.drain(3 * MS - 1).is_empty());
    assert_eq!(bench.drain(3 * MS), original);
    assert_eq!(bench.received.packets, 100);
    bench.send(10 * MS, &original);
    assert_eq!(bench.sent.packets, 100, "the wire has them");
    bench.let_go(12 * MS - 1);
    assert!(!bench.release().enable_notification().unwrap());
    assert!(is_readable(bench.release(), 60));
    bench.release().disable_notification();
    bench.let_go(12 * MS + 1);
    bench.close();
    assert_eq!(bench.outside(), original);
    assert_eq!((bench.count("fault_in_delayed"), bench.count("fault_out_delayed")), (100, 100));
}

#[test]
fn sleeping_worker_wakes_for_packets_delayed_meanwhile() {
    let delay = (Duration::from_millis(1), Duration::from_millis(1));
    let mut bench = Bench::faulty(&frames(1, 60), Faults { delay, ..Faults::default() });
    bench.let_go(MS);
    assert!(!bench.release().enable_notification().unwrap());
    assert!(!is_readable(bench.release(), 0));
    bench.send(2 * MS, &frames(1, 60));
    assert!(is_readable(bench.release(), 60), "another worker set the timer");
}

#[test]
fn reordered_packet_arrives_without_a_later_one() {
    let mut bench = Bench::faulty(&frames(1, 60), Faults { reorder: 1.0, ..Faults::default() });
    assert!(bench.drain(MS).is_empty());
    assert_eq!(bench.drain(101 * MS), frames(1, 60));
    bench.send(MS, &frames(1, 60));
    bench.let_go(101 * MS);
    bench.close();
    assert_eq!(bench.outside(), frames(1, 60));
}

#[test]
fn reordered_packets_arrive_after_later_ones() {
    let mut bench = Bench::faulty(&frames(300, 60), Faults { reorder: 0.1, ..Faults::default() });
    let came: Vec<_> = bench.drain(MS).iter().map(|bytes| number(bytes)).collect();
    let late = came.iter().enumerate().filter(|(at, n)| came[..*at].iter().any(|before| before > n)).count();
    assert_eq!(came.len(), 300);
    assert!(late as u64 >= bench.count("fault_in_reordered") && late > 10, "{late}");
}

#[test]
fn full_delay_queue_passes_packets_and_counts() {
    let delay = (Duration::from_millis(1), Duration::from_millis(1));
    let faults = Faults { delay, duplicate: 1.0, hold: 3, ..Faults::default() };
    let mut bench = Bench::faulty(&frames(20, 60), faults);
    assert_eq!(bench.drain(MS).len(), 18, "two are late, one of them twice");
    assert_eq!(bench.drain(9 * MS).len(), 3);
    assert_eq!(bench.count("fault_in_hold_full"), 18 + 19);
    bench.send(MS, &frames(20, 60));
    bench.let_go(9 * MS);
    bench.close();
    assert_eq!(bench.outside().len(), 21);
    assert_eq!((bench.sent.packets, bench.count("fault_out_duplicated")), (20, 1));
}

#[test]
fn equal_seeds_lose_the_same_packets() {
    let run = |seed| {
        let faults =
            Faults { seed, drop: 0.3, duplicate: 0.2, reorder: 0.1, corrupt: 0.1, ..Faults::default() };
        let mut bench = Bench::faulty(&frames(500, 200), faults);
        let came = bench.drain(MS);
        bench.send(MS, &frames(500, 200));
        bench.let_go(MS);
        bench.close();
        (came, bench.outside())
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

/// Whether a count is within six standard deviations of its mean.
fn is_likely(count: u64, n: f64, chance: f64) -> bool {
    (count as f64 - n * chance).abs() <= 6.0 * (n * chance * (1.0 - chance)).sqrt() + 1e-9
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// With any combination of faults, every packet is accounted for.
    #[test]
    fn sums_agree(
        seed: u64,
        chances in prop::array::uniform4(prop_oneof![Just(0.0), 0.0_f64..0.5]),
        delay in prop_oneof![Just((0, 0)), (0_u64..3_000, 0_u64..3_000)],
        len in 14_usize..400,
        hold in prop_oneof![Just(4096_u32), 0_u32..40],
    ) {
        const N: usize = 1_000;
        let [drop, duplicate, reorder, corrupt] = chances;
        let delay = (Duration::from_micros(delay.0), Duration::from_micros(delay.0 + delay.1));
        let faults = Faults { seed, drop, duplicate, reorder, corrupt, delay, hold, directions: Directions::Both };
        let mut bench = Bench::faulty(&frames(N, len), faults);
        let mut came = Vec::new();
        for now in 0..300 {
            came.extend(bench.poll(now * MS));
        }
        let (n, in_dropped) = (N as u64, bench.received.drops[DropReason::Injected as usize]);
        prop_assert_eq!(bench.received.packets, came.len() as u64 + in_dropped);
        prop_assert_eq!(bench.received.bytes, bench.received.packets * len as u64);
        prop_assert_eq!(bench.received.packets, n + bench.count("fault_in_duplicated"));
        prop_assert_eq!(in_dropped, bench.count("fault_in_dropped"));
        prop_assert!(is_likely(in_dropped, N as f64, drop), "{in_dropped}");
        bench.send(300 * MS, &frames(N, len));
        for now in 300..500 {
            bench.let_go(now * MS);
        }
        bench.close();
        let (out_dropped, outside) = (bench.sent.drops[DropReason::Injected as usize], bench.outside());
        prop_assert_eq!(bench.sent.packets + out_dropped, n, "each ends once");
        prop_assert_eq!(outside.len() as u64, bench.sent.packets + bench.count("fault_out_duplicated"));
        prop_assert_eq!(bench.count("fault_out_lost_late"), 0);
        prop_assert!(is_likely(out_dropped, N as f64, drop));
        if hold > 4000 {
            let kept = (N as u64 - in_dropped) as f64;
            prop_assert!(is_likely(bench.count("fault_in_duplicated"), kept, duplicate));
            prop_assert!(is_likely(bench.count("fault_in_reordered"), kept, reorder));
            prop_assert!(is_likely(bench.count("fault_in_corrupted"), kept, corrupt));
            let kept = bench.sent.packets as f64;
            prop_assert!(is_likely(bench.count("fault_out_duplicated"), kept, duplicate));
            prop_assert!(is_likely(bench.count("fault_out_reordered"), kept, reorder));
            prop_assert!(is_likely(bench.count("fault_out_corrupted"), kept, corrupt));
        }
    }
}

/// Sends frames of 60 bytes while the queue has space. Returns their number.
fn fill(tx: &mut dyn TxQueue) -> usize {
    let (mut burst, mut stats, mut sent) = (Burst::new(), BurstStats::default(), 0);
    burst.begin(0);
    assert!(burst.push_own(&[7; 60]));
    while tx.room(60) > 0 && sent < 1000 {
        assert_eq!(tx.tx(&burst, &[0], &mut stats), Ok(1), "{sent}");
        sent += 1;
    }
    sent
}

#[test]
fn wrapper_reports_the_space_of_its_port() {
    let dir = tempfile::tempdir().unwrap();
    let output = Output::new(dir.path().join("trace.pcapng"));
    let trace = Some(Trace { output, directions: Directions::Both });
    let tx_coalesce = Some(TxCoalesce { frames: 32, delay: None });
    let all = [
        (128, Wrappers { fault: Some(Faults::default()), ..Wrappers::default() }),
        (128, Wrappers { trace, ..Wrappers::default() }),
        (128 + 32, Wrappers { tx_coalesce, ..Wrappers::default() }),
    ];
    for (most, wrappers) in all {
        let (exchange, now) = (Exchange::default(), Instant::now());
        let options = memif::Options { ring_size: 128, ..memif::Options::default() };
        let [one, other] =
            [("a", "b"), ("b", "a")].map(|(name, peer)| Patch::new(name, peer, options, &exchange).unwrap());
        let mut ends = [wrap(Box::new(one), "a", &wrappers).unwrap(), Box::new(other)];
        let mut engines = [FakeEngine::default(), FakeEngine::default()];
        for _ in 0..2 {
            ends.iter_mut().zip(&mut engines).for_each(|(end, engine)| end.handle(now, engine));
        }
        let [near, far] = &mut engines;
        let (tx, rx) = (near.tx.get_mut(&0).unwrap(), far.rx.get_mut(&0).unwrap());
        assert_eq!((fill(&mut **tx), tx.room(60)), (most, 0), "{wrappers:?}");
        let (mut burst, mut stats) = (Burst::new(), BurstStats::default());
        burst.begin(0);
        rx.rx(&mut burst, &mut stats).unwrap();
        rx.complete(burst.buf_ids());
        tx.reap().unwrap();
        assert!(tx.room(60) > 0, "{wrappers:?}");
    }
}
