use super::*;
use crate::vhost::message::MAX_TABLE;

#[test]
fn invalid_regions_are_rejected_without_effect() {
    let mut bench = Bench::negotiated(SPLIT);
    let region = |guest, user, len, offset| RegionSpec { guest, user, len, offset };
    for bad in [
        vec![region(0, 0, 0, 0)],
        vec![region(u64::MAX - 10, 0, 0x1000, 0)],
        vec![region(0, u64::MAX - 10, 0x1000, 0)],
        vec![region(0, 0, 0x1000, u64::MAX - 10)],
        vec![region(0, 0, u64::MAX, 0)],
        vec![region(0, 0, LEN + 1, 0)],
        vec![region(0, 0, 0x1000, LEN)],
        vec![region(0, 0, 1 << 62, 0); 2],
        vec![REGION, REGION],
        vec![REGION, region(GUEST + LEN - 1, 0, 0x1000, 0)],
        vec![REGION; MAX_TABLE],
    ] {
        bench.refuses(&Request::SetMemTable(bad.clone()));
        assert_eq!(bench.session.memory_use(), (1, LEN), "{bad:?}");
        assert!(matches!(bench.fails(&Request::SetMemTable(bad)), text if text.contains("protocol")));
    }
    bench.refuses(&Request::AddMemReg(region(GUEST, USER, LEN - 1, 0)));
    bench.refuses(&Request::AddMemReg(region(0, 0, u64::MAX, 0)));
    bench.refuses(&Request::RemMemReg(region(GUEST, USER, LEN - 1, 0)));
    let not_memory = bench.send(&Request::AddMemReg(region(0, 0, 4096, 0)), vec![eventfd()], true);
    assert_eq!(not_memory, Ok(Some(Reply::U64(1))));
    assert_eq!(bench.session.memory_use(), (1, LEN));
}

#[test]
fn memory_above_the_limit_is_rejected() {
    let mut bench = Bench::negotiated(SPLIT);
    let sparse = memory(8 << 40);
    let huge = RegionSpec { guest: 0, user: 0, len: 5 << 40, offset: 0 };
    assert_eq!(bench.send(&Request::AddMemReg(huge), vec![sparse], true), Ok(Some(Reply::U64(1))));
}

#[test]
fn regions_are_added_and_removed_while_a_ring_runs() {
    let mut bench = Bench::running(SPLIT, 1, 0);
    let before = bench.engine.refreshes;
    let more = RegionSpec { guest: GUEST + LEN, user: USER + LEN, len: 0x1000, offset: 0x1000 };
    bench.accepts(&Request::AddMemReg(more));
    assert_eq!(bench.session.memory_use(), (2, LEN + 0x1000));
    let stray = bench.send(&Request::RemMemReg(more), vec![eventfd()], true);
    assert_eq!(stray, Ok(Some(Reply::U64(0))), "a stray descriptor is accepted and closed");
    assert_eq!(bench.engine.refreshes, before + 2);
    assert!(bench.runs(1) && bench.engine.faults.is_empty());
    bench.accepts(&Request::SetMemTable(vec![]));
    assert_eq!(bench.engine.faults, [PortFault::RingOutside("descriptor")], "the queue lost its ring");
}

/// As QEMU before 8.1 does with several queue pairs.
#[test]
fn region_added_twice_is_mapped_once() {
    let mut bench = Bench::running(SPLIT, 1, 0);
    let more = RegionSpec { guest: GUEST + LEN, user: USER + LEN, len: 0x1000, offset: 0x1000 };
    for regions in [2, 2] {
        bench.accepts(&Request::AddMemReg(more));
        assert_eq!(bench.session.memory_use().0, regions);
    }
    for regions in [1, 1] {
        bench.accepts(&Request::RemMemReg(more));
        assert_eq!(bench.session.memory_use().0, regions);
    }
    assert!(bench.runs(1) && bench.engine.faults.is_empty());
    bench.refuses(&Request::AddMemReg(RegionSpec { offset: 0x1000, ..REGION }));
    bench.refuses(&Request::RemMemReg(RegionSpec { guest: GUEST + 0x1000, ..REGION }));
    assert_eq!(bench.session.memory_use(), (1, LEN));
}

#[test]
fn region_count_is_limited_to_the_advertised_slots() {
    let mut bench = Bench::new();
    bench.accepts(&Request::SetProtocolFeatures(PROTOCOL));
    assert_eq!(bench.reply_to(&Request::GetMaxMemSlots), Reply::U64(509));
    for n in 0..=509 {
        let region = RegionSpec { guest: n << 12, user: n << 12, len: 4096, offset: 0 };
        if n < 509 {
            bench.accepts(&Request::AddMemReg(region));
        } else {
            bench.refuses(&Request::AddMemReg(region));
        }
    }
    assert_eq!(bench.session.memory_use().0, 509);
}
