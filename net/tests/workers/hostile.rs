//! A guest that breaks its ring loses its own port, with a reason, and nobody else notices.

use crate::guest::{Ending, Guest, Limit};
use crate::rig::{Rig, assert_sums_agree};
use ring::driver::{DriverRing, Packed, Split};
use std::sync::atomic::{AtomicBool, Ordering};

const CALM: [&str; 2] = ["left", "right"];

/// Ring `spoiled` of the third guest is broken while all send to all.
fn story<R: DriverRing>(packed: bool, spoiled: u64) {
    let rig = Rig::new();
    let done = AtomicBool::new(false);
    CALM.iter().chain(&["bad"]).for_each(|name| {
        rig.add(name);
    });
    std::thread::scope(|s| {
        let _ending = Ending(&done);
        for n in 0..2u8 {
            let guest = Guest::<R>::plug_in(&rig.socket(CALM[usize::from(n)]), n, packed);
            let done = &done;
            s.spawn(move || guest.live(&[1 - n, 2], done));
        }
        let mut bad = Guest::<R>::plug_in(&rig.socket("bad"), 2, packed);
        let limit = Limit::new();
        while rig.port("bad").unwrap().tx_packets < 1_000 {
            limit.check("traffic before the break");
            bad.step(&[0, 1]);
        }
        // Descriptors that were read already do not count, and a packed ring's are written anew each time.
        while !bad.front.is_closed() {
            limit.check("the end of the port");
            bad.memory.spoil(spoiled);
            bad.step(&[0, 1]);
        }
        let fault = rig.wait("bad", "a fault", |port| port.fault.is_some()).fault.unwrap();
        assert!(fault.contains("the guest broke its virtqueue"), "{fault}");
        rig.wait_for_traffic(&CALM, 5_000);
        for name in CALM {
            let port = rig.port(name).unwrap();
            assert_eq!((port.fault, port.state.as_str(), port.connects), (None, "connected", 1), "{name}");
        }
        done.store(true, Ordering::Relaxed);
    });
    let now = rig.engine.snapshot();
    assert_sums_agree(&now);
    rig.engine.stop().unwrap();
}

#[test]
fn a_broken_split_ring_stops_its_own_port_only() {
    (0..4).for_each(|ring| story::<Split>(false, ring));
}

#[test]
fn a_broken_packed_ring_stops_its_own_port_only() {
    (0..4).for_each(|ring| story::<Packed>(true, ring));
}
