//! Budget of a turn, and division of the worker between receive queues.

use super::*;
use port::work::{BYTES, LEAD, TURN};

#[test]
fn turn_copies_at_most_its_budget_and_one_frame() {
    let mut bench = Bench::new(60, QueueFull::Drop, Capabilities::NONE);
    let given = bench.source(0, &[2; 60], (LONG, 64), Offload::NONE);
    let (mut before, mut rounds) = (0, 0);
    while given.lock().unwrap().completed < 64 {
        bench.worker.round();
        let bytes = bench.sum(|taken| taken.bytes);
        assert!(
            bytes - before <= TURN as usize * BYTES as usize + LONG,
            "{} bytes in a round",
            bytes - before
        );
        (before, rounds) = (bytes, rounds + 1);
    }
    assert_eq!(bench.sum(|taken| taken.packets), 64 * 60, "nothing is lost by being carried over");
    assert!(rounds > 64 * 60 * LONG / (TURN as usize * BYTES as usize + LONG));
    assert!(bench.worker.counters.carried_turns.get() > 0);
    bench.assert_sums_agree();
}

#[test]
fn short_unicast_and_long_flooded_frames_get_equal_work() {
    let mut bench = Bench::new(60, QueueFull::Drop, Capabilities::NONE);
    bench.source(0, &[2; 60], (LONG, usize::MAX), Offload::NONE);
    let calm = bench.source(1, &[4; 60], (60, usize::MAX), Offload::NONE);
    for _ in 0..2_000 {
        bench.worker.round();
    }
    let calm = calm.lock().unwrap().completed;
    let copied: usize = bench.outputs[2..].iter().map(|taken| taken.lock().unwrap().bytes).sum();
    assert!(calm > 1_990 * 64, "no round passes it by: {calm}");
    // Each of its packets costs 47 units; a copied byte costs an eighth of a unit.
    assert!(
        copied as u64 / BYTES < calm as u64 * 50 + 2 * (TURN + LEAD),
        "{copied} bytes beside {calm} packets"
    );
}

#[test]
fn flooding_queue_gets_smaller_bursts() {
    let mut bench = Bench::new(60, QueueFull::Drop, Capabilities::NONE);
    let given = bench.source(0, &[2; 60], (LONG, 1_000), Offload::NONE);
    while given.lock().unwrap().completed < 1_000 {
        let before = given.lock().unwrap().received;
        bench.worker.round();
        let taken = given.lock().unwrap().received - before;
        assert!(before < 128 || taken <= 1, "{taken} packets after {before}");
    }
}

#[test]
fn turn_creates_at_most_its_budget_of_segments_and_one_set() {
    let mut bench = Bench::new(1, QueueFull::Drop, Capabilities::NONE);
    let given = bench.source(0, &tcp(), (54 + 64_000, 64), segments_of(64));
    let mut before = 0;
    while given.lock().unwrap().completed < 64 {
        bench.worker.round();
        let packets = bench.sum(|taken| taken.packets);
        assert!((packets - before) as u64 <= TURN / port::work::SEGMENT + 64, "{}", packets - before);
        before = packets;
    }
    assert_eq!(before, 64 * 1_000);
    bench.assert_sums_agree();
}

#[test]
fn queue_with_receive_drops_only_does_not_delay_others() {
    let mut bench = Bench::new(0, QueueFull::Drop, Capabilities::NONE);
    let useless = Source { drops: true, ..Source::new(&[2; 60], (60, usize::MAX), Offload::NONE) };
    bench.worker.handle(Command::StartRx(key(0), Generation(0), Box::new(useless)));
    let calm = bench.source(1, &[4; 60], (60, usize::MAX), Offload::NONE);
    for _ in 0..1_000 {
        bench.worker.round();
    }
    let calm = calm.lock().unwrap().completed;
    // A burst of the useless queue costs less than half of a calm one, so at least two of five rounds belong to the
    // calm queue.
    assert!(calm > 300 * 64, "{calm} packets beside a queue that brings none");
}
