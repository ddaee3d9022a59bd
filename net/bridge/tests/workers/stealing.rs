//! Work stealing between workers' queues: all scenarios of the other models pass, and flows keep their order.

use crate::guest::{Ending, Guest, Limit, PAIRS};
use crate::rig::{Rig, assert_sums_agree};
use crate::{churn, moving, sleep, swap};
use engine::Model;
use port::virtio_user::RingKind;
use ring::driver::{DriverRing, Packed, Split};
use std::sync::atomic::{AtomicBool, Ordering};

fn rig() -> Rig {
    Rig::in_model(&Model::Stealing, 2)
}

#[test]
fn ports_are_added_and_removed_with_work_stealing() {
    churn::scenario::<Split>(rig(), false);
    churn::scenario::<Packed>(Rig::in_model(&Model::Stealing, 3), true);
}

#[test]
fn memory_table_change_loses_no_stolen_packet() {
    swap::scenario::<Split>(rig(), false);
    swap::scenario::<Packed>(rig(), true);
}

#[test]
fn sleeping_workers_are_woken() {
    sleep::scenario::<Split>(rig(), rig(), RingKind::Split, true);
    sleep::scenario::<Packed>(rig(), rig(), RingKind::Packed, false);
}

#[test]
fn moved_queues_lose_and_reorder_nothing_with_work_stealing() {
    moving::scenario::<Split>(rig(), false);
}

/// One worker has all queues; the other only steals.
fn scenario<R: DriverRing>(packed: bool) {
    let (rig, names) = (rig(), ["left", "right"]);
    let ids = names.map(|name| rig.add(name));
    let done = AtomicBool::new(false);
    let guests = std::thread::scope(|s| {
        let _ending = Ending(&done);
        let runs: Vec<_> = (0..2u8)
            .map(|n| {
                let guest = Guest::<R>::plug_in(&rig.socket(names[usize::from(n)]), n, packed);
                let done = &done;
                s.spawn(move || guest.live(&[1 - n], done))
            })
            .collect();
        rig.wait_for_traffic(&names, 200);
        for (id, pair) in ids.iter().flat_map(|id| (0..PAIRS).map(move |pair| (*id, pair))) {
            rig.engine.move_queue(id, pair, 0).unwrap();
        }
        let (limit, before) = (Limit::new(), rig.engine.snapshot().workers[1].steals);
        while rig.engine.snapshot().workers[1].steals < before + 200 {
            limit.check("bursts that were stolen");
            std::thread::yield_now();
        }
        done.store(true, Ordering::Relaxed);
        runs.into_iter().map(|run| run.join().unwrap()).collect::<Vec<_>>()
    });
    let now = rig.engine.snapshot();
    assert_eq!((now.workers[0].queues, now.workers[1].queues), (4, 0));
    for (guest, name) in guests.iter().zip(names) {
        let port = now.ports.iter().find(|port| port.name == name).unwrap();
        assert_eq!((port.rx_packets, port.tx_packets), (guest.counts.sent, guest.counts.received), "{name}");
        assert_eq!(port.reason, None);
    }
    let served: u64 = rig.engine.queues().unwrap().iter().map(|queue| queue.packets).sum();
    assert!(served > 0 && served <= now.workers.iter().map(|worker| worker.packets).sum());
    assert_sums_agree(&now);
    rig.engine.stop().unwrap();
}

#[test]
fn idle_worker_steals_bursts_with_split_rings() {
    scenario::<Split>(false);
}

#[test]
fn idle_worker_steals_bursts_with_packed_rings() {
    scenario::<Packed>(true);
}
