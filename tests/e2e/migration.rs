//! Live migration of a guest in QEMU from a port of one switch to a port of another, under traffic.

mod moving;

use std::fs;
use std::net::UdpSocket;
use std::time::Duration;

use linerate_tests::{data, scope, wait};
use moving::{GUEST, LIMIT, Moving, PEER, Pace, is_same_memory};
use serde_json::Value;

/// Rate of the stream, which lasts longer than the migration.
const RATE: &str = "tbf rate 60mbit burst 64k latency 50ms";
/// With the down time that QEMU permits if it is not told another one.
const FAST: Pace = Pace { downtime: 300, holds: false };
/// Waits for a step of the test, after which only what is marked is copied. For an idle guest: QEMU before 9.0
/// copies not all that a guest writes meanwhile if it emulates the CPU ("physmem: Fix migration dirty bitmap coherency
/// with TCG memory access").
const HELD: Pace = Pace { downtime: 20, holds: true };
/// Fewer than a ring has buffers.
const DATAGRAMS: u64 = 100;

/// The guest receives a file, whose checksum is compared, and returns numbered datagrams.
fn moves_under_traffic(packed: bool) {
    let mut moving = Moving::start(packed, &[]);
    moving.netns.run("tc", &format!("qdisc add dev peer0 root {RATE}").split(' ').collect::<Vec<_>>());
    let noise = moving.folder.path().join("noise");
    fs::write(&noise, data::bytes(1, scope::pick(96 << 20, 48 << 20))).expect("a file of the test");
    let served = moving.folder.path().display().to_string();
    let server = moving.server(8080, "busybox", &["httpd", "-f", "-p", "8080", "-h", &served]);
    let numbered = moving.numbered();
    let fetch = format!("(wget -q -O - http://{PEER}:8080/noise | sha256sum >/tmp/sum) & sleep 1");
    moving.guest.succeed(&fetch, LIMIT);

    let report = moving.go(&FAST, |_| {}, None);
    let sum = moving.guest.succeed("while ! [ -s /tmp/sum ]; do sleep 0.2; done; cat /tmp/sum", LIMIT);
    let outcome = numbered.stop();
    println!("{report}; {outcome}");
    let expected = moving.netns.run("sha256sum", &[&noise]);
    assert_eq!(sum.split(' ').next(), expected.split(' ').next(), "the stream is complete and unchanged");
    assert!(outcome.lost < outcome.sent / 2 && outcome.repeated == 0, "{outcome}");
    drop(server);
    moving.end();
}

/// Nothing limits the streams in both directions: pages are written as fast as this guest can receive, and all buffers
/// that it has offered after it was stopped.
fn converges_at_full_load(packed: bool) {
    let mut moving = Moving::start(packed, &["iperf3"]);
    let server = moving.server(5201, "iperf3", &["--server", "--one-off"]);
    let numbered = moving.numbered();
    let load = format!("(iperf3 -c {PEER} --bidir -t 25 -J >/tmp/load; echo $? >/tmp/code) & sleep 2");
    moving.guest.succeed(&load, LIMIT);

    let report = moving.go(&FAST, |_| {}, Some(is_same_memory));
    assert_ne!(moving.guest.run("[ -e /tmp/code ]", LIMIT).0, 0, "the load has ended before the migration");
    let ended = "while ! [ -s /tmp/code ]; do sleep 0.2; done; [ $(cat /tmp/code) = 0 ] && cat /tmp/load";
    let said = moving.guest.succeed(ended, LIMIT);
    // The shell says first which command has ended.
    let report_at = said.find('{').expect("iperf3 reports");
    let load: Value = serde_json::from_str(&said[report_at..]).expect("iperf3 reports in JSON");
    let outcome = numbered.stop();
    let rates = ["sum_received", "sum_received_bidir_reverse"]
        .map(|name| load["end"][name]["bits_per_second"].as_f64().unwrap_or(0.0) / 1e6);
    println!("{report}; {outcome}, with the comparison; from and to the guest {rates:.0?} Mbit/s");
    assert!(rates.iter().all(|rate| *rate > 0.0) && outcome.repeated == 0, "{load}");
    drop(server);
    moving.end();
}

/// Nothing but the marks of the switch says that these pages were written: the guest neither reads nor writes them.
fn unread_packets_arrive(packed: bool) {
    let mut moving = Moving::start(packed, &[]);
    moving.netns.ip(&format!("neigh replace {GUEST} lladdr 02:00:00:00:01:01 dev peer0 nud permanent"));
    // The driver stops to look at its ring, whose buffers remain available to the device.
    moving.guest.succeed("ip link set eth0 down", LIMIT);
    let written = |moving: &Moving| moving.switches[0].counters("guest").tx_packets;
    let fill = |moving: &Moving| {
        let before = written(moving);
        moving.netns.enter(send_datagrams);
        let arrived = wait::until(LIMIT, || (written(moving) >= before + DATAGRAMS).then_some(()));
        assert!(arrived.is_some(), "{} of {DATAGRAMS} datagrams", written(moving) - before);
    };
    let report = moving.go(&HELD, fill, Some(is_same_memory));
    println!("{report}");
    moving.guest.succeed("ip link set eth0 up", LIMIT);
    moving.guest.succeed(&format!("ping -c 3 -w 20 {PEER}"), LIMIT);
    moving.end();
}

/// Sends datagrams that fill most of the ring of a guest.
fn send_datagrams() {
    let socket = UdpSocket::bind(("0.0.0.0", 0)).expect("a free port");
    for _ in 0..DATAGRAMS {
        socket.send_to(&[0xa5; 1000], (GUEST, 9)).expect("a route to the guest");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
#[ignore = "needs QEMU, a kernel and root: run by `cargo xtask test`"]
fn a_guest_moves_to_another_switch_under_traffic() {
    moves_under_traffic(false);
}

mod every {
    use super::*;

    #[test]
    #[ignore = "needs QEMU, a kernel and root: run by `cargo xtask test --all`"]
    fn a_guest_with_packed_rings_moves_to_another_switch_under_traffic() {
        moves_under_traffic(true);
    }

    #[test]
    #[ignore = "needs QEMU, iperf3, a kernel and root: run by `cargo xtask test --all`"]
    fn a_migration_at_full_load_converges_to_the_same_memory() {
        converges_at_full_load(false);
    }

    #[test]
    #[ignore = "needs QEMU, iperf3, a kernel and root: run by `cargo xtask test --all`"]
    fn a_migration_at_full_load_with_packed_rings_converges_to_the_same_memory() {
        converges_at_full_load(true);
    }

    #[test]
    #[ignore = "needs QEMU, a kernel and root: run by `cargo xtask test --all`"]
    fn unread_packets_arrive() {
        super::unread_packets_arrive(false);
    }

    #[test]
    #[ignore = "needs QEMU, a kernel and root: run by `cargo xtask test --all`"]
    fn unread_packets_in_packed_rings_arrive() {
        super::unread_packets_arrive(true);
    }
}
