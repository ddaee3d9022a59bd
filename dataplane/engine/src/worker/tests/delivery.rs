//! Delivery to full queues, segmentation, and accounting of packets that are carried over.

use super::*;

#[test]
fn packet_is_segmented_once_for_all_outputs_with_room() {
    let mut bench = Bench::new(4, QueueFull::Drop, Capabilities::NONE);
    bench.outputs[5].lock().unwrap().room = 0;
    bench.outputs[4].lock().unwrap().room = 100;
    let payload = 64_000;
    let given = bench.source(0, &tcp(), (54 + payload, 2), segments_of(64));
    let mut spent = 0;
    while given.lock().unwrap().completed < 2 {
        bench.worker.round();
        spent += bench.worker.out.spent;
    }
    let segments = payload / 64;
    for output in 2..4 {
        let taken = bench.outputs[output].lock().unwrap();
        let expected: Vec<u32> = (0..2 * segments as u32).map(|n| n % segments as u32 * 64).collect();
        assert_eq!(taken.sequences, expected);
    }
    assert_eq!(bench.outputs[4].lock().unwrap().packets, 100);
    assert_eq!(bench.outputs[5].lock().unwrap().calls, 0, "nothing is made for it");
    let made = 2 * segments as u64 * port::work::SEGMENT;
    assert!(spent < 4 * made, "{spent} units for segments of {made}");
    // For the second packet, two outputs have no room at all.
    assert_eq!(bench.drops(DropReason::QueueFull), segments as u64 - 100 + 1 + 2);
    bench.assert_sums_agree();
}

#[test]
fn outputs_with_segmentation_offload_get_the_whole_packet() {
    let mut bench = Bench::new(0, QueueFull::Drop, Capabilities::ALL);
    bench.worker.handle(Command::SetPipeline(Box::new(Flood(2))));
    bench.output(2, Capabilities::ALL);
    bench.output(3, Capabilities::NONE);
    let given = bench.source(0, &tcp(), (54 + 6_400, 3), segments_of(64));
    while given.lock().unwrap().completed < 3 {
        bench.worker.round();
    }
    let packets: Vec<usize> = bench.outputs[2..].iter().map(|taken| taken.lock().unwrap().packets).collect();
    assert_eq!(packets, [3, 300]);
    bench.assert_sums_agree();
}

#[test]
fn wait_for_full_queues_has_one_deadline_and_delays_no_other_queue() {
    let mut bench = Bench::new(60, QueueFull::Wait, Capabilities::NONE);
    bench.outputs[2..].iter().for_each(|output| output.lock().unwrap().room = 0);
    bench.source(0, &[2; 60], (60, 64), Offload::NONE);
    let calm = bench.source(1, &[4; 60], (60, usize::MAX), Offload::NONE);
    for round in 0..100_u64 {
        bench.at(round * 9_000);
        bench.worker.round();
        let calls = bench.outputs[2..].iter().map(|output| output.lock().unwrap().calls).max();
        // The round that carries the burst over retries at once.
        assert!(calls <= Some(round as usize + 2), "no output is tried again and again in a round");
    }
    assert_eq!(bench.drops(DropReason::QueueFull), 0, "the deadline has not passed");
    assert!(calm.lock().unwrap().completed > 98 * 64);
    bench.outputs[2].lock().unwrap().room = 64;
    bench.at(950_000);
    bench.worker.round();
    assert_eq!(bench.outputs[2].lock().unwrap().packets, 64, "an output that makes room gets what waits");
    bench.at(1_100_000);
    bench.worker.round();
    bench.worker.round();
    assert_eq!(bench.drops(DropReason::QueueFull), 59 * 64, "all that is left, at once");
}

#[test]
fn segments_wait_for_full_queues_and_are_sent_once() {
    let mut bench = Bench::new(2, QueueFull::Wait, Capabilities::NONE);
    bench.outputs[2].lock().unwrap().room = 30;
    let given = bench.source(0, &tcp(), (54 + 6_400, 2), segments_of(64));
    for _ in 0..50 {
        bench.worker.round();
        bench.outputs[2].lock().unwrap().room += 7;
    }
    assert_eq!(given.lock().unwrap().completed, 2);
    let expected: Vec<u32> = (0..200).map(|n| n % 100 * 64).collect();
    for output in &bench.outputs[2..] {
        assert_eq!(output.lock().unwrap().sequences, expected);
    }
    assert_eq!(bench.drops(DropReason::QueueFull), 0);
    bench.assert_sums_agree();
}

#[test]
fn stopped_queue_gets_its_buffers_back_and_drops_are_counted() {
    for offload in [Offload::NONE, segments_of(64)] {
        let mut bench = Bench::new(60, QueueFull::Drop, Capabilities::NONE);
        let given = bench.source(0, &tcp(), (54 + 64_000, 128), offload);
        (0..4).for_each(|_| {
            bench.worker.round();
        });
        assert!(bench.worker.rx[0].account.carries());
        bench.worker.finish();
        bench.worker.handle(Command::StopRx(key(0)));
        let given = given.lock().unwrap();
        assert_eq!((given.received, given.completed), (128, 128));
        assert!(bench.drops(DropReason::SourceStopped) > 0);
        bench.assert_sums_agree();
    }
}

#[test]
fn sums_agree_for_random_packets_outputs_and_space() {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    for case in 0..200 {
        let full = if next(2) == 0 { QueueFull::Drop } else { QueueFull::Wait };
        let mut bench = Bench::new(1 + next(5) as usize, full, Capabilities::NONE);
        let len = 54 + 64 + next(60_000) as usize;
        let offload = if next(3) == 0 { Offload::NONE } else { segments_of(64 + next(3_000) as u16) };
        bench.source(0, &tcp(), (len, 1 + next(100) as usize), offload);
        bench.source(1, &[4; 60], (60, 100), Offload::NONE);
        let mut now = 0;
        for _ in 0..next(60) {
            let output = next(bench.outputs.len() as u64) as usize;
            bench.outputs[output].lock().unwrap().room = next(200) as usize;
            now += next(300_000);
            bench.at(now);
            bench.worker.round();
        }
        bench.worker.finish();
        bench.worker.handle(Command::StopRx(key(0)));
        bench.worker.handle(Command::StopRx(key(1)));
        bench.assert_sums_agree();
        assert!(bench.worker.rx.is_empty(), "case {case}");
    }
}
