//! Tests of the database alone: size, limits, concurrency.

use super::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;
use wire::MacAddress;

fn database(capacity: usize) -> Fdb {
    Fdb::new(&BridgeConfig { capacity, mac_moves: MacMoves::Free, ..BridgeConfig::default() }, 16)
}

/// Like [`database`], with ports 0 to 3 open and moves guarded.
fn guarded() -> Fdb {
    let fdb = Fdb::new(&BridgeConfig { capacity: 1000, ..BridgeConfig::default() }, 16);
    (0..4).for_each(|port| fdb.open(PortId(port), 100, false));
    fdb
}

fn key(mac: u64) -> Key {
    Key::new(MacAddress::from_u64(0x5254_0000_0000 + mac), 0)
}

fn teach(fdb: &Fdb, mac: u64, port: u16, second: u32) -> Source {
    seen(fdb, mac, port, second, &mut 1)
}

/// Learning result for a packet, as in a worker.
fn seen(fdb: &Fdb, mac: u64, port: u16, second: u32, budget: &mut u32) -> Source {
    let (key, places, port) = (key(mac), fdb.places(key(mac)), PortId(port));
    if fdb.confirm(key, places, port, second) {
        Source::Known
    } else {
        fdb.learn(key, places, port, second, budget)
    }
}

fn find(fdb: &Fdb, mac: u64, second: u32) -> Option<u16> {
    fdb.destination(key(mac), fdb.places(key(mac)), second).map(|port| port.0)
}

#[test]
fn a_million_addresses_are_learned_and_found() {
    const STATIONS: u64 = 1_000_000;
    let fdb = database(STATIONS as usize);
    fdb.open(PortId(1), STATIONS as u32, false);
    let start = Instant::now();
    assert!((0..STATIONS).all(|mac| teach(&fdb, mac, 1, 5) == Source::Learned));
    let learned = start.elapsed();
    assert!((0..STATIONS).all(|mac| find(&fdb, mac, 6) == Some(1)));
    let found = start.elapsed().saturating_sub(learned);
    assert!((STATIONS..2 * STATIONS).all(|mac| find(&fdb, mac, 6).is_none()));
    assert_eq!(teach(&fdb, STATIONS, 1, 6), Source::Refused);
    println!(
        "load {:.3} of {} slots ({} bytes), {} moved; learning {learned:?}, finding one by one {found:?}",
        STATIONS as f64 / (f64::from(fdb.table.buckets()) * 4.0),
        fdb.table.buckets() * 4,
        fdb.bytes(),
        fdb.table.displaced(),
    );
    assert_eq!(fdb.stations(6).len(), STATIONS as usize);
    fdb.close(PortId(1));
    assert_eq!((fdb.len(), fdb.stations(6).len()), ((0, 0), 0));
}

#[test]
fn silent_station_ages_and_is_swept() {
    let fdb = database(1000);
    fdb.open(PortId(1), 1000, false);
    (0..100).for_each(|mac| assert_eq!(teach(&fdb, mac, 1, 10), Source::Learned));
    assert_eq!(teach(&fdb, 7, 1, 200), Source::Known);
    assert_eq!((find(&fdb, 3, 309), find(&fdb, 3, 310), find(&fdb, 7, 499)), (Some(1), None, Some(1)));
    assert_eq!((fdb.len().0, fdb.stations(310).len()), (100, 1));
    let before = fdb.changes(PortId(1));
    while fdb.sweep(310) {}
    assert_eq!(fdb.len().0, 1);
    assert!(fdb.changes(PortId(1)) > before, "remembered answers must be asked for again");
}

#[test]
fn aged_station_is_learned_again() {
    let fdb = database(100);
    fdb.open(PortId(1), 100, false);
    teach(&fdb, 1, 1, 0);
    assert_eq!(find(&fdb, 1, 300), None);
    assert_eq!(teach(&fdb, 1, 1, 300), Source::Known);
    assert_eq!((find(&fdb, 1, 599), fdb.len().0), (Some(1), 1));
}

#[test]
fn sweep_covers_the_table_four_times_per_ageing_time() {
    let fdb = database(50_000);
    fdb.open(PortId(1), 50_000, false);
    (0..50_000).for_each(|mac| assert_eq!(teach(&fdb, mac, 1, 0), Source::Learned));
    for second in 300..=375 {
        while fdb.sweep(second) {}
    }
    assert_eq!(fdb.len().0, 0);
}

#[test]
fn move_needs_quota_at_the_new_port_and_frees_it_at_the_old() {
    let fdb = database(100);
    fdb.open(PortId(1), 10, false);
    fdb.open(PortId(2), 1, false);
    (0..10).for_each(|mac| assert_eq!(teach(&fdb, mac, 1, 0), Source::Learned));
    assert_eq!(teach(&fdb, 10, 1, 0), Source::Refused);
    assert_eq!(teach(&fdb, 0, 2, 0), Source::Moved);
    assert_eq!(teach(&fdb, 1, 2, 0), Source::Refused);
    assert_eq!((find(&fdb, 0, 0), find(&fdb, 1, 0)), (Some(2), Some(1)));
    assert_eq!(teach(&fdb, 10, 1, 0), Source::Learned);
    assert_eq!((fdb.share(PortId(1)).learned, fdb.share(PortId(2)).learned), (10, 1));
}

#[test]
fn static_entry_does_not_move_age_or_count_as_learned() {
    let fdb = database(100);
    fdb.open(PortId(1), 1, false);
    fdb.open(PortId(2), 1, false);
    assert_eq!(teach(&fdb, 1, 1, 0), Source::Learned);
    assert!(fdb.pin(key(1), PortId(2)));
    assert_eq!(teach(&fdb, 1, 1, 0), Source::Elsewhere);
    assert_eq!(teach(&fdb, 1, 2, 0), Source::Known);
    assert_eq!(find(&fdb, 1, 1_000_000), Some(2));
    fdb.flush(|_| true);
    assert_eq!((fdb.share(PortId(1)).learned, fdb.share(PortId(2)).learned, fdb.len()), (0, 0, (1, 1)));
    assert!(fdb.unpin(key(1)) && !fdb.unpin(key(1)));
    assert_eq!((find(&fdb, 1, 0), fdb.len()), (None, (0, 0)));
}

#[test]
fn closed_port_learns_nothing_and_is_flushed() {
    let fdb = database(5000);
    fdb.open(PortId(1), 5000, false);
    fdb.open(PortId(2), 5000, false);
    (0..2000).for_each(|mac| assert_eq!(teach(&fdb, mac, 1 + (mac % 2) as u16, 0), Source::Learned));
    assert!(fdb.pin(key(9000), PortId(1)));
    fdb.close(PortId(1));
    assert_eq!((fdb.len(), fdb.share(PortId(1)).learned), ((1000, 0), 0));
    assert!((0..2000).all(|mac| find(&fdb, mac, 0) == (mac % 2 == 1).then_some(2)));
    assert_eq!(teach(&fdb, 1, 1, 0), Source::Refused);
    assert_eq!(find(&fdb, 9000, 0), None);
}

/// Station `mac` is only at ports `mac % 4` and `mac % 4 + 4`.
#[test]
fn lookup_returns_only_ports_where_the_station_was() {
    const STATIONS: u64 = 900;
    let fdb = database(1000);
    (0..8).for_each(|port| fdb.open(PortId(port), 1000, false));
    let done = AtomicBool::new(false);
    let found = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    for mac in 0..STATIONS {
                        let Some(port) = find(&fdb, mac, 0) else { continue };
                        assert_eq!(u64::from(port % 4), mac % 4, "station {mac} at port {port}");
                        found.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        let mut round = 0;
        while round < 60 || found.load(Ordering::Relaxed) < STATIONS {
            for mac in 0..STATIONS {
                teach(&fdb, mac, (mac % 4) as u16 + 4 * (round % 2), 0);
            }
            round += 1;
            match round % 10 {
                4 => _ = fdb.flush(|entry| entry.port.0 % 2 == 0),
                9 => _ = fdb.flush(|_| true),
                _ => {}
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(found.into_inner() >= STATIONS);
}

/// Two workers learn the same stations at different ports while the control thread pins, flushes and lists.
#[test]
fn counts_agree_with_the_table_after_several_writers() {
    let fdb = database(1000);
    (0..4).for_each(|port| fdb.open(PortId(port), 400, false));
    std::thread::scope(|scope| {
        for port in 0..2 {
            let fdb = &fdb;
            scope.spawn(move || {
                for round in 0..40 {
                    (0..700).for_each(|mac| _ = teach(fdb, mac, port + round % 2 * 2, 0));
                }
            });
        }
        for mac in 0..200 {
            assert!(fdb.pin(key(mac), PortId(3)));
            assert!(fdb.stations(0).windows(2).all(|pair| pair[0].key.mac() < pair[1].key.mac()));
            assert!(fdb.unpin(key(mac)));
        }
    });
    let stations = fdb.stations(0);
    assert_eq!(fdb.len(), (stations.len(), 0));
    for port in 0..4 {
        let here = stations.iter().filter(|entry| entry.port == PortId(port)).count();
        let share = fdb.share(PortId(port));
        assert_eq!((here, share.pinned), (share.learned as usize, 0), "port {port}");
        assert!(here <= 400);
    }
}

#[test]
fn active_station_is_not_evicted() {
    let fdb = guarded();
    assert_eq!(teach(&fdb, 1, 1, 10), Source::Learned);
    assert_eq!(teach(&fdb, 1, 2, 309), Source::Contested(PortId(1)));
    assert_eq!(find(&fdb, 1, 309), Some(1));
    assert_eq!(teach(&fdb, 1, 2, 310), Source::Moved);
}

#[test]
fn stopped_port_releases_only_its_earlier_entries() {
    let fdb = guarded();
    (1..3).for_each(|mac| assert_eq!(teach(&fdb, mac, 1, 10), Source::Learned));
    fdb.release(PortId(1), 10);
    assert_eq!(teach(&fdb, 1, 2, 10), Source::Moved);
    assert_eq!(teach(&fdb, 2, 1, 11), Source::Known, "a peer came back to the old port and speaks there");
    assert_eq!(teach(&fdb, 2, 2, 11), Source::Contested(PortId(1)));
}

#[test]
fn stations_move_between_trusted_ports_and_not_from_or_to_one() {
    let fdb = guarded();
    (0..2).for_each(|port| fdb.open(PortId(port), 100, true));
    assert_eq!((teach(&fdb, 1, 0, 0), teach(&fdb, 1, 1, 0)), (Source::Learned, Source::Moved));
    assert_eq!(teach(&fdb, 1, 2, 0), Source::Contested(PortId(1)));
    assert_eq!((teach(&fdb, 2, 2, 0), teach(&fdb, 2, 0, 0)), (Source::Learned, Source::Contested(PortId(2))));
}

#[test]
fn refused_move_uses_no_budget() {
    let fdb = guarded();
    teach(&fdb, 1, 1, 0);
    fdb.open(PortId(2), 0, false);
    let mut budget = 0;
    assert_eq!(seen(&fdb, 1, 2, 0, &mut budget), Source::Contested(PortId(1)));
    assert_eq!(seen(&fdb, 9, 1, 0, &mut budget), Source::Deferred, "a new station takes the lock");
}

#[test]
fn announced_station_moves_unless_static_or_reserved() {
    let fdb = guarded();
    (1..4).for_each(|mac| _ = teach(&fdb, mac, 1, 0));
    assert!(fdb.pin(key(2), PortId(1)));
    let reserve = |port| fdb.reserve_all(&[key(3).mac()], PortId(port));
    reserve(1).unwrap();
    let announce = |mac| fdb.announce(key(mac), PortId(2), 0, &mut 1);
    assert_eq!([1, 2, 3].map(announce), [Source::Moved, Source::Elsewhere, Source::Elsewhere]);
    assert_eq!(reserve(2), Err((key(3).mac(), PortId(1))));
    fdb.close(PortId(1));
    assert_eq!((reserve(2), announce(3)), (Ok(()), Source::Learned));
}

#[test]
fn changes_of_one_port_keep_cached_lookups_of_others() {
    let fdb = guarded();
    (1..3).for_each(|port| _ = teach(&fdb, u64::from(port), port, 0));
    let others = || [1, 2].map(|port| fdb.changes(PortId(port)));
    let before = others();
    (100..250).for_each(|mac| _ = teach(&fdb, mac, 3, 0));
    fdb.flush(|entry| entry.port == PortId(3));
    assert_eq!(others(), before);
    assert!(fdb.changes(PortId(3)) >= 100);
    fdb.forget(key(1), |_| true);
    assert_eq!(others(), [before[0] + 1, before[1]]);
}
