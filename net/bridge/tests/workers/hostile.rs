//! A guest that corrupts its ring loses only its own port, with a reason.

use crate::calm::{self, BAD};
use crate::guest::{Behavior, Guest, Limit};
use ring::driver::{DriverRing, Packed, Split};

/// Ring `spoiled` of the third guest is corrupted while all guests send to each other.
fn scenario<R: DriverRing>(packed: bool, spoiled: u64) {
    calm::beside::<R>(packed, Behavior::default(), |calm| {
        let rig = calm.rig;
        let mut bad = Guest::<R>::plug_in(&rig.socket("bad"), BAD, packed);
        let limit = Limit::new();
        while rig.port("bad").unwrap().tx_packets < 1_000 {
            limit.check("traffic before the break");
            bad.step(&[0, 1]);
        }
        // Repeated, because descriptors already read are not affected, and those of a packed ring are rewritten.
        while !bad.front.is_closed() {
            limit.check("the end of the port");
            bad.memory.spoil(spoiled);
            bad.step(&[0, 1]);
        }
        let port = rig.wait("bad", "a fault", |port| port.reason.is_some());
        let reason = port.reason.as_ref().unwrap();
        assert!(reason.contains("the guest violated the virtqueue protocol"), "{reason}");
        assert_eq!(port.history.last().unwrap().reason.as_ref(), Some(reason));
        assert!(port.details.contains_key("ring_faults"), "{port:?}");
        calm.go_on(2_500);
    });
}

#[test]
fn a_broken_split_ring_stops_its_own_port_only() {
    (0..4).for_each(|ring| scenario::<Split>(false, ring));
}

#[test]
fn a_broken_packed_ring_stops_its_own_port_only() {
    (0..4).for_each(|ring| scenario::<Packed>(true, ring));
}
