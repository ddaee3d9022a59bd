//! Switches joined by virtio-user: linerate connects, like a guest, to DPDK's vhost library and to another linerate.
//! Each side's sent packets equal the other side's received packets; the port of a dead peer waits for the next peer.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

use linerate_tests::guest::{Guest, number};
use linerate_tests::switch::{Switch, assert_sums_agree};
use linerate_tests::testpmd::{Testpmd, Vhost};
use linerate_tests::{folder, scope, wait};

const SWITCH_CPU: usize = 0;
const PEER_CPU: usize = 1;
const RINGS: [&str; 4] = ["split", "split-inorder", "packed", "packed-inorder"];
const REACTION: Duration = Duration::from_secs(20);
const CARRIED: u64 = 10_000;

/// Starts a linerate in its own folder with these port sections.
fn linerate(folder: &Path, name: &str, cpu: usize, ports: &[&str]) -> Switch {
    let own = folder.join(name);
    let mut text = format!("[[worker]]\ncpu = {cpu}\n");
    for port in ports {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n[[port]]\n{port}\n");
    }
    let written = fs::create_dir(&own).and_then(|()| fs::write(own.join("switch.toml"), text));
    written.unwrap_or_else(|error| panic!("cannot write into {}: {error}", own.display()));
    Switch::restart(&own)
}

fn port(name: &str, socket: &Path, more: &str) -> String {
    format!("name = \"{name}\"\nsocket = \"{}\"\n{more}", socket.display())
}

fn uplink(socket: &Path, ring: &str, mode: &str) -> String {
    let more = format!("kind = \"virtio-user\"\nring = \"{ring}\"\nmode = \"{mode}\"\n");
    port("uplink", socket, &more)
}

/// Chains a guest, linerate, DPDK's switch and another guest; with `outwards`, the first guest sends.
fn through_dpdk(ring: &str, mode: &str, size: &str, outwards: bool) {
    println!("{ring}, {mode}, {size} B, outwards {outwards}");
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    let (near, middle, far) = (path("near"), path("middle"), path("far"));
    let switch = linerate(
        folder.path(),
        "linerate",
        SWITCH_CPU,
        &[&port("near", &near, ""), &uplink(&middle, ring, mode)],
    );
    let vhost = |socket, client| Vhost { socket, client, pairs: 1 };
    let ports = [vhost(&middle, mode == "server"), vhost(&far, false)];
    let mut peer = Testpmd::switch(folder.path(), "peer", PEER_CPU, &ports);
    peer.ready();
    peer.say("set fwd io");
    peer.say("start");
    switch.wait_running("uplink", 1, REACTION);
    let (from, to) = if outwards { (&near, &far) } else { (&far, &near) };
    let guest = |socket: &Path, name, mode| {
        Guest::endless(folder.path(), name, "--connect", &[socket], &["--mode", mode, "--size", size])
    };
    let receiver = guest(to, "receiver", "rxonly");
    let sender = guest(from, "sender", "txonly");
    let arrived = |peer: &mut Testpmd| {
        if outwards { peer.counters()[1].tx_packets } else { switch.counters("near").tx_packets }
    };
    let carried = wait::until(REACTION, || (arrived(&mut peer) >= CARRIED).then_some(()));
    assert!(carried.is_some(), "nothing arrives: {:?} {}", peer.counters(), switch.port("uplink"));
    let sent = sender.end();
    both_count_the_same(&switch, &mut peer);
    let received = receiver.end().swap_remove(0);
    let last = if outwards { peer.counters()[1].tx_packets } else { switch.counters("near").tx_packets };
    assert_eq!(number(&received, "rx_packets"), last, "{sent:?}");
    assert_eq!(switch.has_feature("uplink", "ring-packed"), ring.starts_with("packed"));
    peer.quit();
    switch.stop();
}

/// Checks that both sides counted the same packets on the uplink.
fn both_count_the_same(switch: &Switch, peer: &mut Testpmd) {
    let counters = switch.settled(&["near", "uplink"]);
    let (ours, theirs) = (&counters[1], peer.counters()[0]);
    let (sent, received) = ((ours.tx_packets, ours.tx_bytes), (ours.rx_packets, ours.rx_bytes));
    assert_eq!((theirs.rx_packets, theirs.rx_bytes), sent, "to DPDK");
    assert_eq!((theirs.tx_packets, theirs.tx_bytes), received, "from DPDK");
    assert_sums_agree(&counters);
}

#[test]
#[ignore = "needs dpdk: run by `cargo xtask test`"]
fn uplink_to_dpdk_switch_works_on_every_ring() {
    for &ring in scope::last(&RINGS) {
        for &outwards in scope::last(&[true, false]) {
            through_dpdk(ring, "client", "64", outwards);
        }
    }
    for &(ring, size, outwards) in scope::first(&[("split", "1514", true), ("packed", "mix", false)]) {
        through_dpdk(ring, "client", size, outwards);
    }
}

#[test]
#[ignore = "needs dpdk: run by `cargo xtask test`"]
fn dpdks_switch_connects_to_linerate() {
    for ring in scope::last(&["split", "packed"]) {
        through_dpdk(ring, "server", "64", true);
    }
}

#[test]
#[ignore = "needs dpdk: run by `cargo xtask test`"]
fn port_reconnects_to_a_restarted_dpdk_switch() {
    let folder = folder();
    let socket = folder.path().join("middle");
    let near = folder.path().join("near");
    let ports = [port("near", &near, ""), uplink(&socket, "split", "client")];
    let switch = linerate(folder.path(), "linerate", SWITCH_CPU, &[&ports[0], &ports[1]]);
    for n in 1..=2 {
        let vhost = [Vhost { socket: &socket, client: false, pairs: 1 }];
        let mut peer = Testpmd::switch(folder.path(), &format!("peer-{n}"), PEER_CPU, &vhost);
        peer.ready();
        peer.say("set fwd rxonly");
        peer.say("start");
        switch.wait_running("uplink", 1, REACTION);
        Guest::start(folder.path(), "sender", "--connect", &near, 1, &["--mode", "txonly"]).report();
        let received = wait::until(REACTION, || (peer.counters()[0].rx_packets >= CARRIED).then_some(()));
        assert!(received.is_some(), "nothing arrived at peer {n}: {:?}", peer.counters());
        peer.kill();
        let gone = wait::until(REACTION, || (switch.port("uplink")["memory_bytes"] == 0).then_some(()));
        assert!(gone.is_some(), "memory stays shared with a dead peer: {}", switch.port("uplink"));
        // A killed process leaves its socket behind, and DPDK does not replace it.
        let _ = fs::remove_file(&socket);
    }
    switch.assert_sums_agree(&["near", "uplink"]);
    switch.stop();
}

/// Circulates frames between two guests, each on its own linerate.
fn through_another_linerate(ring: &str, mode: &str) {
    println!("{ring}, {mode}");
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    let (left, middle, right) = (path("left"), path("middle"), path("right"));
    let other = if mode == "client" { "server" } else { "client" };
    let down = port("downlink", &middle, &format!("mode = \"{other}\"\n"));
    let one =
        linerate(folder.path(), "one", SWITCH_CPU, &[&port("left", &left, ""), &uplink(&middle, ring, mode)]);
    let mut two = linerate(folder.path(), "two", PEER_CPU, &[&down, &port("right", &right, "")]);
    for again in [false, true] {
        if again {
            two = Switch::restart(&two.kill());
        }
        one.wait_running("uplink", 1, REACTION);
        two.wait_running("downlink", 1, REACTION);
        let (a, b) = ("02:00:00:00:00:0a", "02:00:00:00:00:0b");
        let guest = |socket: &Path, name, own, peer, packets| {
            let more = ["--mac", own, "--peer", peer, "--in-flight", packets, "--ring", ring];
            Guest::endless(folder.path(), name, "--connect", &[socket], &more)
        };
        // Frames sent before the other guest is connected are lost, and none would circulate.
        let far = guest(&right, "right-guest", b, a, "0");
        two.wait_running("right", 1, REACTION);
        let near = guest(&left, "left-guest", a, b, "128");
        let before = one.counters("left").tx_packets;
        let carried = || (one.counters("left").tx_packets >= before + CARRIED).then_some(());
        assert!(wait::until(REACTION, carried).is_some(), "frames do not go round: {}", one.port("uplink"));
        let (near, far) = (near.end(), far.end());
        for report in [&near[0], &far[0]] {
            assert!(number(report, "rx_packets") >= CARRIED, "{near:?} {far:?}");
        }
        nothing_is_lost_between(&one, &two, !again);
    }
    two.stop();
    one.stop();
}

/// Checks the sums on both sides, and across both if they have run equally long.
fn nothing_is_lost_between(one: &Switch, two: &Switch, from_the_beginning: bool) {
    let (ours, theirs) = (one.settled(&["left", "uplink"]), two.settled(&["downlink", "right"]));
    assert_sums_agree(&ours);
    assert_sums_agree(&theirs);
    if from_the_beginning {
        assert_eq!(ours[1].tx_packets, theirs[0].rx_packets, "over the uplink");
        assert_eq!(ours[1].rx_packets, theirs[0].tx_packets, "over the downlink");
        assert_eq!(ours[1].tx_bytes, theirs[0].rx_bytes, "over the uplink");
    }
    assert_eq!(ours[1].other_drops + theirs[0].other_drops, 0, "{ours:?} {theirs:?}");
}

#[test]
#[ignore = "needs two processors: run by `cargo xtask test`"]
fn uplink_to_linerate_works_on_every_ring() {
    for &ring in scope::last(&RINGS) {
        through_another_linerate(ring, "client");
    }
    through_another_linerate("split", "server");
}
