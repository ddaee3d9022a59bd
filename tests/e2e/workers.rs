//! Two workers on two CPUs, ports with two queue pairs, and different drivers at both ends: both workers forward
//! frames, a port is removed under load, and every packet is accounted for.

use std::path::Path;
use std::time::Duration;

use linerate_tests::guest::Guest;
use linerate_tests::switch::{Port, Switch, assert_sums_agree};
use linerate_tests::testpmd::{Ring, Testpmd, VirtioUser};
use linerate_tests::{folder, scope, wait};
use serde_json::Value;

const CPUS: [usize; 2] = [0, 1];
const PAIRS: u16 = 2;
const SECONDS: u32 = 1;
/// Entries of all rings of one sending guest: frames still in transit may not have been returned to it.
const ON_ITS_WAY: u64 = 2 * 1024;
const MIN_FRAMES: u64 = 20_000;
const TIMEOUT: Duration = Duration::from_secs(50);
const SETTLE_TIME: Duration = Duration::from_millis(500);

fn switch(folder: &Path, names: &[&str]) -> Switch {
    let sockets: Vec<_> = names.iter().map(|name| folder.join(name)).collect();
    let ports: Vec<_> = names
        .iter()
        .zip(&sockets)
        .map(|(name, socket)| Port { name, socket, client: false, pairs: PAIRS })
        .collect();
    Switch::start_on(folder, &CPUS, &ports)
}

fn guest(folder: &Path, name: &str, ring: &str, mode: &str, seconds: u32, macs: [&str; 2]) -> Guest {
    let more = ["--ring", ring, "--mode", mode, "--queue-pairs", "2", "--mac", macs[0], "--peer", macs[1]];
    Guest::start(folder, &format!("{name}-guest"), "--connect", &folder.join(name), seconds, &more)
}

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("no {key} in {value}"))
}

/// Checks the totals of the switch over all ports, including removed ones.
fn assert_status_agrees(switch: &Switch) {
    let read = || switch.ask(&["status"]).map(|status| status["traffic"].clone());
    let traffic =
        wait::settled(SETTLE_TIME, TIMEOUT, read).unwrap_or_else(|error| panic!("no status: {error}"));
    let reasons = traffic["drops"].as_object().unwrap_or_else(|| panic!("no drops in {traffic}"));
    let lost: u64 = reasons.values().filter_map(Value::as_u64).sum();
    let entered = number(&traffic, "rx_packets") + number(&traffic, "replicated");
    assert!(entered > 0, "nothing came in: {traffic}");
    assert_eq!(entered, number(&traffic, "tx_packets") + lost, "{traffic}");
}

/// Packets by worker.
fn carried(switch: &Switch) -> Vec<u64> {
    let report = switch.ask(&["workers", "show"]).unwrap_or_else(|error| panic!("no workers: {error}"));
    let workers = report["workers"].as_array().unwrap_or_else(|| panic!("no workers in {report}"));
    workers.iter().map(|worker| number(worker, "packets")).collect()
}

/// One guest sends on two queue pairs, one receives, and a third sends until its port is removed.
fn our_guests(ring: &str) {
    println!("{ring}");
    let folder = folder();
    let folder = folder.path();
    let switch = switch(folder, &["from", "to", "third"]);
    let [a, b, c] = ["02:00:00:00:01:00", "02:00:00:00:02:00", "02:00:00:00:03:00"];
    let receiver = guest(folder, "to", ring, "rxonly", 2 * SECONDS, [b, a]);
    let sender = guest(folder, "from", ring, "txonly", SECONDS, [a, b]);
    let third = guest(folder, "third", ring, "txonly", SECONDS, [c, b]);
    let flows = wait::until(TIMEOUT, || (switch.counters("third").rx_packets >= MIN_FRAMES).then_some(()));
    assert!(flows.is_some(), "the third guest sends nothing");
    let removed = switch.tell(&["ports", "remove", "third"]);
    assert!(removed.is_ok(), "not removed: {removed:?}");
    drop(third);
    let (sent, received) = (sender.report(), receiver.report());
    let ports = switch.settled(&["from", "to"]);
    assert!(ports[0].rx_packets >= MIN_FRAMES, "{sent}");
    let used = number(&sent, "tx_packets");
    assert!((used..=used + ON_ITS_WAY).contains(&ports[0].rx_packets), "{sent} {ports:?}");
    assert_eq!(number(&received, "rx_packets"), ports[1].tx_packets, "{received}");
    let carried = carried(&switch);
    assert!(carried.iter().all(|&packets| packets >= MIN_FRAMES / 4), "both workers: {carried:?}");
    assert_status_agrees(&switch);
    switch.stop();
}

#[test]
#[ignore = "needs two CPUs: run by `cargo xtask test`"]
fn guests_with_two_queue_pairs_use_both_workers() {
    for ring in scope::last(&["split", "packed"]) {
        our_guests(ring);
    }
}

/// DPDK's guest has two ports with two queue pairs each, and frames circulate between them.
fn dpdks_guest(ring: Ring) {
    println!("{ring:?}");
    let folder = folder();
    let names = ["left", "right"];
    let switch = switch(folder.path(), &names);
    let sockets = names.map(|name| folder.path().join(name));
    let port = |side: usize| VirtioUser {
        socket: &sockets[side],
        server: false,
        mac: side as u8 + 1,
        ring,
        mergeable: true,
        pairs: PAIRS,
        size: 256,
    };
    let mut guest = Testpmd::guest(folder.path(), "guest", CPUS[1], &[port(0), port(1)]);
    guest.ready();
    // DPDK does not wait for the switch to start its rings; earlier frames are dropped as intended.
    for name in names {
        switch.wait_running(name, PAIRS.into(), TIMEOUT);
    }
    guest.circulate(64, 4);
    let back = |guest: &mut Testpmd| guest.counters().iter().map(|port| port.rx_packets).min().unwrap_or(0);
    let flows = wait::until(TIMEOUT, || (back(&mut guest) >= MIN_FRAMES).then_some(()));
    assert!(flows.is_some(), "frames stopped circulating: {:?}", guest.counters());
    guest.stop();
    guest.drain();
    let (theirs, ours) = (guest.counters(), switch.settled(&names));
    assert_sums_agree(&ours);
    for ((name, ours), theirs) in names.iter().zip(&ours).zip(&theirs) {
        assert_eq!((ours.rx_packets, ours.tx_packets), (theirs.tx_packets, theirs.rx_packets), "{ours:?}");
        assert_eq!(ours.other_drops, 0, "{name}: {}", switch.port(name)["drops"]);
    }
    let carried = carried(&switch);
    assert!(carried.iter().all(|&packets| packets > 0), "both workers: {carried:?}");
    assert_status_agrees(&switch);
    guest.quit();
    switch.stop();
}

#[test]
#[ignore = "needs dpdk: run by `cargo xtask test`"]
fn dpdk_guest_with_two_queue_pairs_uses_both_workers() {
    for &ring in scope::last(&Ring::ALL) {
        dpdks_guest(ring);
    }
}
