//! Tests of the ring's accesses and of the simulated rates.

use super::*;
use crate::recorder::{Area, Recorder, of_code, touches};
use mem::record::record;

/// Real accesses to an area that holds `bytes` and is accessed first by `f`.
fn area(f: impl FnOnce(), bytes: usize, to: Address) -> Area {
    let ((), accesses) = record(f);
    (accesses[0].address, bytes, to)
}

#[test]
fn a_ring_touches_the_same_lines_as_the_real_one() {
    type Entry = [u64; ENTRY as usize / 8];
    let ring = Handoff::new(0, 0, ENTRY);
    let (mut memory, mut to, mut from) = (Recorder::new(RING), ring.end(), ring.end());
    let (mut producer, mut consumer) = ring::spsc::ring::<Entry>(SLOTS as usize);
    let pair = PAIR as usize;
    let room = || {
        producer.room(usize::MAX);
    };
    let head = area(room, pair, ring.at + PAIR);
    let ready = || {
        consumer.ready(usize::MAX);
    };
    let tail = area(ready, pair, ring.at);
    // The first slot is written, and read to leave it empty; the model continues there.
    let slots = area(|| producer.push([0; 4]).unwrap(), (SLOTS * ENTRY) as usize, ring.slot(0));
    consumer.pop();
    (to.next, from.next, from.seen) = (1, 1, 1);
    memory.store(ring.at + PAIR, Eight, 1);
    for burst in 0..3 * SLOTS / BURST {
        memory.take();
        // Senders of the engine ask for two bursts.
        to.room(&mut memory, 2 * BURST);
        for _ in 0..BURST {
            to.write(&mut memory);
        }
        to.publish(&mut memory);
        assert_eq!(from.ready(&mut memory), BURST);
        for _ in 0..BURST {
            from.read(&mut memory);
        }
        from.give_back(&mut memory);
        let ((), accesses) = record(|| {
            producer.room(2 * BURST as usize);
            producer.push_all(&mut std::iter::repeat_n([0; 4], BURST as usize));
            consumer.drain(BURST as usize).for_each(drop);
        });
        let code = of_code(&accesses, &[head, tail, slots]);
        assert_eq!(touches(&memory.take()), touches(&code), "burst {burst}");
    }
}

fn pps(cores: Cores, work: u32) -> f64 {
    one(&Profile::study(), cores, work, [1_024, 2_048]).expect("every thread comes to its end").pps
}

#[test]
fn three_workers_do_three_times_as_much_as_one() {
    let ratio = pps(Cores::ThreeRunToCompletion, 500) / pps(Cores::RunToCompletion, 500);
    assert!((2.8..3.1).contains(&ratio), "{ratio}");
}

#[test]
fn under_heavy_work_a_model_reaches_the_rate_of_its_working_core() {
    let most = Profile::study().frequency.value * 1e9 / 2_000.0;
    for cores in [Cores::RunToCompletion, Cores::Pipeline, Cores::Inline] {
        let pps = pps(cores, 2_000);
        assert!(pps < most && pps > most * 0.8, "{}: {pps} of {most}", cores.name());
    }
    assert!(pps(Cores::Pipeline, 2_000) > pps(Cores::Inline, 2_000), "it has Rx and Tx elsewhere");
}
