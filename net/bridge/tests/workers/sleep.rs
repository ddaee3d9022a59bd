//! Two idle switches joined by a virtio-user port: all workers sleep. One frame wakes every worker on its path, with
//! `EVENT_IDX` and with flags.

use crate::guest::{Ending, Guest, Limit, PAIRS};
use crate::rig::{Rig, assert_sums_agree};
use crate::scope::pick;
use port::virtio_user::RingKind;
use ring::driver::{DriverRing, Packed, Split};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

fn sleeps(rig: &Rig) -> Vec<u64> {
    rig.engine.snapshot().workers.iter().map(|worker| worker.sleeps).collect()
}

/// Waits until all workers of both switches sleep.
fn wait_for_silence(rigs: [&Rig; 2]) {
    let limit = Limit::new();
    while !rigs.iter().all(|rig| rig.engine.snapshot().workers.iter().all(|worker| worker.sleeping)) {
        limit.check("sleeping workers");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Sends one frame per pair; if the other guest is already learned, waits until it has received them.
fn pass<R: DriverRing>(from: &mut Guest<R>, to: &mut Guest<R>, known: bool) {
    let before = to.counts.received;
    from.step_with(&[to.number], 1);
    let limit = Limit::new();
    while known && to.counts.received < before + u64::from(PAIRS) {
        limit.check("a frame that passes two switches which sleep");
        to.step(&[]);
        from.step(&[]);
        std::thread::yield_now();
    }
}

pub(crate) fn scenario<R: DriverRing>(near: Rig, far: Rig, ring: RingKind, event_idx: bool) {
    let done = AtomicBool::new(false);
    let _ending = Ending(&done);
    near.add("guest");
    near.add("trunk");
    far.add("guest");
    far.add_uplink("uplink", &near.socket("trunk"), ring);
    let packed = ring.is_packed();
    let mut a = Guest::<R>::plug_in_with(&near.socket("guest"), 0, packed, event_idx);
    let mut b = Guest::<R>::plug_in_with(&far.socket("guest"), 1, packed, event_idx);
    let uplink = far.wait("uplink", "its back end", |p| p.features.iter().any(|f| f == "event-idx"));
    assert_eq!(uplink.state, "connected");
    // Frames sent before both ends run are lost, and the ends start independently.
    for (rig, port) in [(&near, "trunk"), (&far, "uplink")] {
        rig.wait(port, "its queues", |p| {
            p.queues.iter().filter(|q| q.rx_running && q.tx_running).count() == 2
        });
    }
    // Frames that each guest sends while all workers sleep.
    let frames = pick(40, 8);
    for n in 0..frames {
        wait_for_silence([&near, &far]);
        pass(&mut a, &mut b, n > 0);
        wait_for_silence([&near, &far]);
        pass(&mut b, &mut a, n > 0);
    }
    for rig in [&near, &far] {
        assert!(sleeps(rig).iter().sum::<u64>() >= frames, "{:?}", rig.engine.snapshot().workers);
    }
    a.drain(50);
    b.drain(50);
    for rig in [near, far] {
        assert_sums_agree(&rig.settled());
        rig.engine.stop().unwrap();
    }
}

#[test]
fn sleeping_switches_are_woken_over_split_rings() {
    for ring in [RingKind::Split, RingKind::SplitInOrder] {
        for event_idx in [false, true] {
            scenario::<Split>(Rig::new(), Rig::new(), ring, event_idx);
        }
    }
}

#[test]
fn sleeping_switches_are_woken_over_packed_rings() {
    for ring in [RingKind::Packed, RingKind::PackedInOrder] {
        for event_idx in [false, true] {
            scenario::<Packed>(Rig::new(), Rig::new(), ring, event_idx);
        }
    }
}
