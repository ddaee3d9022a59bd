//! Ports are added and removed under traffic.

use crate::guest::{Ending, Guest};
use crate::rig::{Rig, assert_sums_agree};
use crate::scope::pick;
use engine::Snapshot;
use ring::driver::{DriverRing, Packed, Split};
use std::sync::atomic::{AtomicBool, Ordering};

/// Guests 0 and 1 send to each other and to successive guests, at a port that is repeatedly removed and added.
const CALM: [&str; 2] = ["left", "right"];
const COMING: [u8; 6] = [10, 11, 12, 13, 14, 15];
/// Frames that must arrive between two changes.
const MIN_FRAMES: u64 = 500;

/// Runs the scenario and returns the final counters.
pub(crate) fn scenario<R: DriverRing>(rig: Rig, packed: bool) -> Snapshot {
    let done = AtomicBool::new(false);
    let calm: Vec<_> = CALM.iter().map(|name| rig.add(name)).collect();
    let mut guests = std::thread::scope(|s| {
        let _ending = Ending(&done);
        let runs: Vec<_> = (0..2u8)
            .map(|n| {
                let guest = Guest::<R>::plug_in(&rig.socket(CALM[usize::from(n)]), n, packed);
                let done = &done;
                let peers = [&[1 - n], &COMING[..]].concat();
                s.spawn(move || guest.live(&peers, done))
            })
            .collect();
        for &number in pick(&COMING[..], &COMING[..2]) {
            rig.wait_for_traffic(&CALM, MIN_FRAMES);
            let (port, gone) = (rig.add("guest"), AtomicBool::new(false));
            std::thread::scope(|inner| {
                let _ending = Ending(&gone);
                let guest = Guest::<R>::plug_in(&rig.socket("guest"), number, packed);
                let gone = &gone;
                // The guest continues until its port is removed; its rings just stop.
                inner.spawn(move || comes_and_goes(guest, gone));
                rig.wait_for_traffic(&["guest"], MIN_FRAMES);
                rig.remove(port);
                gone.store(true, Ordering::Relaxed);
            });
            assert!(rig.port("guest").is_none(), "guest {number}");
        }
        done.store(true, Ordering::Relaxed);
        runs.into_iter().map(|run| run.join().unwrap()).collect::<Vec<_>>()
    });
    let now = rig.settled();
    assert_sums_agree(&now);
    // Frames in flight at the end have arrived since.
    for guest in &mut guests {
        guest.drain(5);
    }
    for (guest, name) in guests.iter().zip(CALM) {
        let port = now.ports.iter().find(|port| port.name == name).unwrap();
        assert_eq!((port.rx_packets, port.tx_packets), (guest.counts.sent, guest.counts.received), "{name}");
        assert_eq!(port.reason, None);
    }
    let served: Vec<_> = now.workers.iter().map(|worker| worker.packets).collect();
    // A stage may have no packets, if few flows are distributed over many stages.
    let whole = now.workers.iter().all(|worker| worker.role == "all");
    assert!(!whole || served.iter().all(|&packets| packets > 0), "both workers carried packets: {served:?}");
    assert!(now.removed.rx_packets > 0 && now.removed.tx_packets > 0, "{:?}", now.removed);
    for id in calm {
        rig.remove(id);
    }
    let now = rig.settled();
    assert_sums_agree(&now);
    rig.engine.stop().unwrap();
    now
}

fn comes_and_goes<R: DriverRing>(mut guest: Guest<R>, gone: &AtomicBool) {
    while !gone.load(Ordering::Relaxed) {
        guest.step(&[0, 1]);
    }
}

#[test]
fn the_sums_agree_while_ports_with_split_rings_come_and_go() {
    scenario::<Split>(Rig::new(), false);
}

#[test]
fn the_sums_agree_while_ports_with_packed_rings_come_and_go() {
    scenario::<Packed>(Rig::new(), true);
}
