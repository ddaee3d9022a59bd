//! Effects of one guest on the station table.

use crate::harness::{BROADCAST, Lab, frame};
use bridge::{BridgeConfig, PortConfig, Rate};

/// Sends full bursts from the source addresses in `stations`. Returns the number of lost packets.
fn attack(lab: &mut Lab, port: u16, stations: std::ops::Range<u64>) -> u64 {
    let all: Vec<u64> = stations.collect();
    let lost = all.chunks(64).map(|chunk| {
        let frames: Vec<_> = chunk.iter().map(|station| frame(*station, BROADCAST - 1, None)).collect();
        lab.send(port, &frames).lost.values().sum::<u64>()
    });
    lost.sum()
}

fn small() -> BridgeConfig {
    BridgeConfig { capacity: 1000, ..BridgeConfig::default() }
}

#[test]
fn address_flood_evicts_no_other_port() {
    let mut lab = Lab::configured(small(), (0..4).map(|port| (port, PortConfig::default())));
    for station in 0..200 {
        lab.send(1, &[frame(station, BROADCAST, None)]);
    }
    attack(&mut lab, 0, 1_000..101_000);
    let attacker = lab.switch.statistics()[0].ports[0].clone();
    // Eight stations per burst of 64 are learned, while there is space.
    assert_eq!((attacker.learned, attacker.max_macs), (250, 250));
    assert_eq!((attacker.deferred, attacker.refused), (56 * 31, 100_000 - 250 - 56 * 31));
    for station in 0..200 {
        assert_eq!(lab.ports(0, frame(1_000, station, None)), [1], "station {station}");
    }
    for station in 200..400 {
        lab.send(2, &[frame(station, BROADCAST, None)]);
        assert_eq!(lab.ports(1, frame(0, station, None)), [2], "new stations of others are learned");
    }
    let ports = &lab.switch.statistics()[0].ports;
    assert_eq!((ports[1].learned, ports[1].refused), (200, 0));
    assert_eq!((ports[2].learned, ports[2].refused), (200, 0));
}

#[test]
fn full_table_evicts_nothing_and_learns_first_stations_per_port() {
    let greedy = PortConfig { max_macs: Some(u32::MAX), ..PortConfig::default() };
    let mut lab = Lab::configured(small(), (0..3).map(|port| (port, greedy.clone())));
    attack(&mut lab, 0, 0..20_000);
    let statistics = &lab.switch.statistics()[0];
    assert_eq!((statistics.stations, statistics.ports[0].learned), (1000, 1000));
    assert_eq!(lab.ports(1, frame(5_000, 64, None)), [0]);
    assert_eq!(lab.ports(2, frame(6_000, 5_000, None)), [1]);
    attack(&mut lab, 1, 7_000..7_200);
    let statistics = &lab.switch.statistics()[0];
    assert_eq!((statistics.stations, statistics.ports[1].learned), (1017, 16));
    assert_eq!(lab.ports(2, frame(6_000, 7_199, None)), [0, 1], "station 7199 found no room");
}

#[test]
fn flooding_caused_by_an_attacker_is_limited_at_its_port() {
    let limited = PortConfig { unknown_limit: Rate::new(1000, 100), ..PortConfig::default() };
    let mut lab = Lab::configured(small(), [(0, limited), (1, PortConfig::default())]);
    assert_eq!(attack(&mut lab, 0, 0..10_000), 9_900);
}

#[test]
fn port_without_learning_forwards() {
    let mute = PortConfig { learn: false, ..PortConfig::default() };
    let mut lab = Lab::with([(0, mute), (1, PortConfig::default()), (2, PortConfig::default())]);
    lab.send(1, &[frame(2, BROADCAST, None)]);
    assert_eq!(lab.ports(0, frame(1, 2, None)), [1]);
    assert_eq!(lab.ports(1, frame(2, 1, None)), [0, 2]);
}

#[test]
fn a_burst_of_new_addresses_takes_the_tables_lock_eight_times() {
    let mut lab = Lab::configured(small(), (0..2).map(|port| (port, PortConfig::default())));
    attack(&mut lab, 0, 0..64);
    let port = &lab.switch.statistics()[0].ports[0];
    assert_eq!((port.learned, port.deferred), (8, 56));
    let frames: Vec<_> = (0..64).map(|_| frame(99, BROADCAST, None)).collect();
    assert!(lab.send(0, &frames).lost.is_empty(), "what is not learned is still forwarded");
}
