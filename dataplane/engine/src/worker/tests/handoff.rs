//! Division of handoff queues between ports, and the work that one port leaves in them.

use super::*;
use crate::bench::{StepConfig, SteppedWorker};
use port::work::{self, BYTES, RECEIVED, TURN, sending};

#[test]
fn flooding_behind_a_handoff_queue_is_charged_to_its_port() {
    let config = StepConfig { max_ports: PORTS, kernel: Choice::Portable, ticks_per_ns: TICKS };
    let mut stages = SteppedWorker::staged(&config, Box::new(Flood(60))).unwrap();
    let outputs: Vec<_> = (0..62).map(|_| Arc::new(Mutex::new(Taken::new()))).collect();
    for (port, taken) in outputs.iter().enumerate() {
        let left = if port < 2 { 64 * 500 } else { 0 };
        let source = Source::new(&[2; 60], (60, left), Offload::NONE);
        stages.start(
            PortId(port as u16),
            Box::new(source),
            Box::new(Sink(taken.clone(), Capabilities::NONE)),
        );
    }
    while outputs[1].lock().unwrap().packets < 64 * 500 {
        stages.round();
    }
    let copies: usize = outputs[2..].iter().map(|output| output.lock().unwrap().packets).sum();
    // The cost of the calm port's packets in front of the handoff queue, plus four bursts before the first debts are
    // settled.
    let calm = 500 * (64 * RECEIVED + sending(64, 64 * 60));
    let most = (64 * calm / sending(64, 64 * 60) + 4 * 60 * 64) as usize;
    assert!(copies <= most, "{copies} copies, {most} are the calm port's share");
    assert!(copies >= 60 * 64, "the port that floods is served, too: {copies}");
}

#[test]
fn segmentation_behind_a_handoff_queue_does_not_delay_other_packets() {
    let config = StepConfig { max_ports: PORTS, kernel: Choice::Portable, ticks_per_ns: TICKS };
    let mut stages = SteppedWorker::staged(&config, Box::new(Flood(1))).unwrap();
    let outputs: Vec<_> = (0..3).map(|_| Arc::new(Mutex::new(Taken::new()))).collect();
    let long = Source::new(&tcp(), (LONG, 200), segments_of(64));
    let calm = Source::new(&[2; 60], (60, 64 * 60), Offload::NONE);
    let silent = Source::new(&[2; 60], (60, 0), Offload::NONE);
    for (port, source) in [long, calm, silent].into_iter().enumerate() {
        let sink = Sink(outputs[port].clone(), Capabilities::NONE);
        stages.start(PortId(port as u16), Box::new(source), Box::new(sink));
    }
    let packets = |port: usize| outputs[port].lock().unwrap().packets;
    let (mut silent, mut longest) = (0, 0);
    for _ in 0..60 {
        let before = packets(1);
        stages.round();
        silent = if packets(1) == before { silent + 1 } else { 0 };
        longest = longest.max(silent);
    }
    assert!(longest <= 16, "nothing for {longest} rounds; {} packets", packets(1));
    assert!(packets(2) >= 1000, "{} segments", packets(2));
}

#[test]
fn drops_before_a_handoff_queue_count_for_the_input_port() {
    let config = StepConfig { max_ports: PORTS, kernel: Choice::Portable, ticks_per_ns: TICKS };
    let mut stages = SteppedWorker::staged(&config, Box::new(ToOne(1))).unwrap();
    for (port, left) in [64, 0].into_iter().enumerate() {
        let sink = Sink(Arc::new(Mutex::new(Taken::new())), Capabilities::NONE);
        let source = Source::new(&[2; 60], (LONG, left), Offload::NONE);
        stages.start(PortId(port as u16), Box::new(source), Box::new(sink));
    }
    (0..2).for_each(|_| _ = stages.round());
    stages.stop(PortId(0));
    (0..1_000).for_each(|_| _ = stages.round());
    let counts = stages.counts();
    assert!(counts.received == 64 && counts.dropped > 0 && counts.sent > 0, "{counts:?}");
    assert_eq!(counts.received, counts.sent + counts.dropped);
}

#[test]
fn busy_handoff_queue_is_shared_by_cost() {
    let config = StepConfig { max_ports: PORTS, kernel: Choice::Portable, ticks_per_ns: TICKS };
    let mut stages = SteppedWorker::staged(&config, Box::new(ToOne(3))).unwrap();
    let long = || Source::new(&tcp(), (LONG, usize::MAX), segments_of(64));
    let calm = Source::new(&[2; 60], (60, usize::MAX), Offload::NONE);
    let sink = Arc::new(Mutex::new(Taken::new()));
    let (long, calm) = ([long(), long()], calm);
    let states = [long[0].state.clone(), long[1].state.clone(), calm.state.clone()];
    let sources = long.into_iter().chain([calm, Source::new(&[2; 60], (60, 0), Offload::NONE)]);
    for (port, source) in sources.enumerate() {
        let sink = Sink(sink.clone(), Capabilities::NONE);
        stages.start(PortId(port as u16), Box::new(source), Box::new(sink));
    }
    (0..20_000).for_each(|_| _ = stages.round());
    let [first, second, calm] = states.map(|state| state.lock().unwrap().completed as u64);
    let segments = LONG as u64 / 64 * (work::SEGMENT + work::SENT) + LONG as u64 / BYTES;
    assert!(first.abs_diff(second) <= 64, "{first} and {second} long frames");
    assert!(
        calm * 2 * (RECEIVED + work::SENT) > first * segments,
        "{calm} packets beside {first} long frames"
    );
}

/// Units of work done before port 1's first packet, after port 0 had the stages alone.
fn work_in_front(alone: Source, flood: usize) -> u64 {
    let config = StepConfig { max_ports: PORTS, kernel: Choice::Portable, ticks_per_ns: TICKS };
    let mut stages = SteppedWorker::staged(&config, Box::new(Flood(flood))).unwrap();
    let is_cut = alone.offload != Offload::NONE;
    let mut start = |port: usize, source| {
        let taken = Arc::new(Mutex::new(Taken::new()));
        stages.start(
            PortId(port as u16),
            Box::new(source),
            Box::new(Sink(taken.clone(), Capabilities::NONE)),
        );
        taken
    };
    let silent = || Source::new(&[2; 60], (60, 0), Offload::NONE);
    let others: Vec<_> = (2..2 + flood).map(|port| start(port, silent())).collect();
    start(0, alone);
    (0..300).for_each(|_| _ = stages.round());
    let done = || -> u64 {
        let of = |taken: &Taken| {
            let segments = if is_cut { taken.packets as u64 * work::SEGMENT } else { 0 };
            taken.calls as u64 * work::OUTPUT
                + taken.packets as u64 * work::SENT
                + taken.bytes as u64 / BYTES
                + segments
        };
        others.iter().map(|taken| of(&taken.lock().unwrap())).sum()
    };
    let before = done();
    assert!(before > 0, "port 0 is served");
    let taken = Arc::new(Mutex::new(Taken::new()));
    let calm = Source::new(&[2; 60], (60, 64), Offload::NONE);
    stages.start(PortId(1), Box::new(calm), Box::new(Sink(taken.clone(), Capabilities::NONE)));
    while taken.lock().unwrap().packets == 0 {
        stages.round();
    }
    done() - before
}

#[test]
fn single_port_keeps_little_work_in_handoff_queues() {
    let segments = || Source::new(&tcp(), (LONG, usize::MAX), segments_of(64));
    let flood = |len| Source::new(&[2; 60], (len, usize::MAX), Offload::NONE);
    // Limits in turns; a single packet costs about two, eight, a sixth and fifteen turns.
    for (what, source, outputs, most) in [
        ("segments", segments(), 1, 8),
        ("segments for several", segments(), 4, 32),
        ("a flood", flood(60), 60, 8),
        ("a flood of long frames", flood(LONG), 60, 32),
    ] {
        let work = work_in_front(source, outputs);
        assert!(work <= most * TURN, "{what}: {} turns", work / TURN);
    }
}

#[test]
fn timed_out_output_behind_a_handoff_queue_is_not_waited_for_again_at_once() {
    let mut bench = Bench::new(1, QueueFull::Wait, Capabilities::NONE);
    bench.worker.out.credit = Some(0);
    bench.outputs[2].lock().unwrap().room = 0;
    bench.source(0, &[2; 60], (60, 4 * 64), Offload::NONE);
    for (time, lost) in [(0, 0), (1_100_000, 64), (1_200_000, 4 * 64)] {
        bench.at(time);
        (0..8).for_each(|_| _ = bench.worker.round());
        assert!(bench.drops(DropReason::QueueFull) >= lost, "at {time} ns");
    }
    bench.assert_sums_agree();
}
