//! Samples of bursts: their latency by output port, and the cycles of their steps.

use super::*;
use crate::latency::{LatencyTotals, RingDepthSnapshot};

/// Sampled packets that were sent to a port.
fn sampled(bench: &Bench, port: usize) -> u64 {
    let none = LatencyTotals::of(PortId(port as u16), &[]);
    let totals = LatencyTotals::of(PortId(port as u16), std::slice::from_ref(&bench.worker.counters));
    totals.since(&none).map_or(0, |latency| latency.packets())
}

#[test]
fn one_burst_in_a_millisecond_is_sampled_at_each_output() {
    let mut bench = Bench::new(2, QueueFull::Drop, Capabilities::NONE);
    bench.source(0, &[2; 60], (60, usize::MAX), Offload::NONE);
    for microseconds in 0..10_000 {
        bench.at(microseconds * 1_000);
        bench.worker.round();
    }
    bench.worker.finish();
    let sent = bench.outputs[2].lock().unwrap().packets as u64;
    assert_eq!((sampled(&bench, 2), sampled(&bench, 3)), (10 * 64, 10 * 64), "of {sent}");
    let totals = |workers: &[_]| LatencyTotals::of(PortId(2), workers);
    let depth = totals(std::slice::from_ref(&bench.worker.counters)).transmit_since(&totals(&[]));
    assert_eq!(depth, Some(RingDepthSnapshot { rings: 10, entries: 70 }));
    let counters = &bench.worker.counters;
    let port = counters.port(PortId(0));
    assert_eq!((port.sampled_polls.get(), port.sampled_packets.get()), (10, 640));
    assert_eq!(counters.sampled_packets.get(), 10 * 64);
    let steps = [&counters.step_receive, &counters.step_pipeline, &counters.step_transmit];
    assert!(steps.iter().all(|step| step.get() > 0));
    assert!(!bench.worker.out.watch.is_on, "a burst that is not sampled takes the fast path");
    bench.assert_sums_agree();
}

#[test]
fn each_queue_of_a_busy_worker_is_sampled_as_often_as_the_others() {
    let mut bench = Bench::new(1, QueueFull::Drop, Capabilities::NONE);
    for port in 0..40 {
        bench.source(port, &[2; 60], (60, usize::MAX), Offload::NONE);
    }
    for sample in 0..400 {
        bench.at(sample * 1_100_000);
        (0..2).for_each(|_| _ = bench.worker.round());
    }
    let polls = (0..40).map(|port| bench.worker.counters.port(PortId(port)).sampled_polls.get());
    let polls: Vec<_> = polls.collect();
    assert_eq!(polls.iter().sum::<u64>(), 400);
    assert!(polls.iter().all(|polls| (8..=12).contains(polls)), "{polls:?}");
}

#[test]
fn a_burst_that_is_carried_over_is_sampled_until_its_last_packet() {
    let mut bench = Bench::new(60, QueueFull::Drop, Capabilities::NONE);
    let given = bench.source(0, &[2; 60], (LONG, 64), Offload::NONE);
    while given.lock().unwrap().completed < 64 {
        bench.worker.round();
    }
    assert!(bench.worker.counters.carried_turns.get() > 0);
    assert_eq!((2..62).map(|port| sampled(&bench, port)).sum::<u64>(), 60 * 64);
    assert_eq!(bench.worker.counters.sampled_packets.get(), 0, "its steps are not counted");
    assert!(!bench.worker.out.watch.is_on);
}

#[test]
fn packets_that_are_dropped_have_no_latency() {
    let mut bench = Bench::new(1, QueueFull::Drop, Capabilities::NONE);
    bench.outputs[2].lock().unwrap().room = 10;
    bench.source(0, &[2; 60], (60, 64), Offload::NONE);
    for _ in 0..4 {
        bench.worker.round();
    }
    assert_eq!((sampled(&bench, 2), bench.drops(DropReason::QueueFull)), (10, 54));
}
