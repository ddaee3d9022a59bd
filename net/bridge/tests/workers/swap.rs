//! A guest changes its memory table while two workers send to all of its queues.

use crate::guest::{Ending, Guest, Limit};
use crate::memory::Memory;
use crate::rig::{Rig, assert_sums_agree};
use crate::scope::pick;
use mem::RegionSpec;
use port::virtio_user::SharedRegion;
use ring::driver::{DriverRing, Packed, Split};
use std::sync::atomic::{AtomicBool, Ordering};

const SENDERS: [&str; 2] = ["left", "right"];

/// One memory table change: split the region differently, restore it, or add or remove an unused region.
fn swap<R: DriverRing>(guest: &mut Guest<R>, more: &Memory, n: u64) {
    let spec = RegionSpec { guest: 1 << 40, user: 1 << 44, len: 4096, offset: 0 };
    let extra = SharedRegion { spec, ..more.whole()[0] };
    let Guest { front, memory, .. } = guest;
    match n % 4 {
        0 => front.share_table(&memory.halves(n)).unwrap(),
        1 => front.add_region(extra).unwrap(),
        2 => front.remove_region(spec).unwrap(),
        _ => front.share_table(&memory.whole()).unwrap(),
    }
}

pub(crate) fn scenario<R: DriverRing>(rig: Rig, packed: bool) {
    let done = AtomicBool::new(false);
    SENDERS.iter().chain(&["swapper"]).for_each(|name| {
        rig.add(name);
    });
    let mut swapper = std::thread::scope(|s| {
        let _ending = Ending(&done);
        for n in 0..2u8 {
            let guest = Guest::<R>::plug_in(&rig.socket(SENDERS[usize::from(n)]), n, packed);
            let done = &done;
            s.spawn(move || guest.live(&[2], done));
        }
        let (mut guest, more) =
            (Guest::<R>::plug_in(&rig.socket("swapper"), 2, packed), Memory::new(1, 8, false));
        for n in 0..pick(60, 12) {
            let (enough, limit) = (guest.counts.received + 200, Limit::new());
            while guest.counts.received < enough {
                limit.check("frames between two swaps");
                guest.step(&[0, 1]);
            }
            swap(&mut guest, &more, n);
        }
        let workers = rig.engine.snapshot().workers;
        let senders: Vec<_> = workers.iter().filter(|w| w.role == "all").map(|w| w.packets).collect();
        assert!(senders.iter().all(|&packets| packets > 0), "both workers send: {senders:?}");
        done.store(true, Ordering::Relaxed);
        guest.drain(50);
        guest
    });
    rig.settled();
    swapper.drain(5);
    let port = rig.port("swapper").unwrap();
    assert_eq!((port.reason, port.connects), (None, 1));
    assert_eq!((port.rx_packets, port.tx_packets), (swapper.counts.sent, swapper.counts.received));
    assert_sums_agree(&rig.settled());
    rig.engine.stop().unwrap();
}

#[test]
fn memory_table_change_under_two_workers_with_split_rings() {
    scenario::<Split>(Rig::new(), false);
}

#[test]
fn memory_table_change_under_two_workers_with_packed_rings() {
    scenario::<Packed>(Rig::new(), true);
}
