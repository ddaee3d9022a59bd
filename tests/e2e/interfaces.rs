//! Ports over Linux interfaces, by `AF_XDP` and by packet sockets: network namespaces communicate through the switch,
//! including cases with missing or unsuitable interfaces.
//!
//! The switch's ends of the cables are in a separate namespace, so that each end-to-end test also shows that a port
//! finds an interface in another namespace.
#![allow(clippy::unwrap_used, reason = "a failure here is the test's")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use linerate_tests::iperf::{iperf, received, transfer};
use linerate_tests::netns::Netns;
use linerate_tests::noise::{self, Noise};
use linerate_tests::switch::{Switch, assert_sums_agree};
use linerate_tests::testpmd::Testpmd;
use linerate_tests::{binary, folder, wait};

mod fast_path;
mod faults;

const LIMIT: Duration = Duration::from_secs(20);
/// MTU of frames of 9216 bytes, including their Ethernet header and without their checksum.
const JUMBO: u32 = 9202;

/// Two stations, and the namespace with the switch's ends of their cables.
struct Site {
    host: Netns,
    left: Netns,
    right: Netns,
}

impl Site {
    /// Creates cables with this number of queues, and packets of at most `mtu` bytes.
    fn new(queues: u16, mtu: u32) -> Site {
        let site = Site { host: Netns::new(), left: Netns::new(), right: Netns::new() };
        for (station, number) in [(&site.left, 1), (&site.right, 2)] {
            let ends = format!("numtxqueues {queues} numrxqueues {queues}");
            let peer = format!("peer name eth0 netns {}", station.name());
            site.host.ip(&format!("link add lan{number} {ends} type veth {peer} {ends}"));
            site.host.ip(&format!("link set lan{number} mtu {mtu} up"));
            station.set_mtu("eth0", mtu);
            let addresses = [format!("10.9.0.{number}/24"), format!("fd09::{number}/64")];
            station.configure("eth0", &[&addresses[0], &addresses[1]]);
        }
        site
    }

    /// Returns the section of a switch port on the cable to station `number`.
    fn port(&self, number: u8, kind: &str, more: &str) -> String {
        let host = self.host.name();
        format!(
            "[[port]]\nname = \"p{number}\"\nkind = \"{kind}\"\ninterface = \"lan{number}\"\nnetns = \"{host}\"\n{more}\n"
        )
    }

    /// Starts a switch with a port of this kind on both cables.
    fn switch(&self, folder: &Path, kind: &str, more: &str) -> Switch {
        start(folder, &[self.port(1, kind, more), self.port(2, kind, more)])
    }
}

/// Starts a switch with these ports on one bridge.
fn start(folder: &Path, ports: &[String]) -> Switch {
    write(folder, ports);
    Switch::restart(folder)
}

fn write(folder: &Path, ports: &[String]) {
    let text = format!("[[worker]]\n[[bridge]]\nname = \"lan\"\n{}", ports.concat());
    fs::write(folder.join("switch.toml"), text).unwrap();
}

/// Runs `linerate run` with invalid ports and returns its error output: exit code 2 if the file is invalid, 1 if the
/// machine does not match it.
#[track_caller]
fn refused(code: i32, ports: &[String]) -> String {
    let folder = folder();
    write(folder.path(), ports);
    let mut command = Command::new(binary::linerate());
    command.arg("--control").arg(folder.path().join("control.sock"));
    command.arg("run").arg(folder.path().join("switch.toml"));
    let Output { status, stderr, .. } = command.output().unwrap();
    let said = String::from_utf8_lossy(&stderr).into_owned();
    assert_eq!(status.code(), Some(code), "{said}");
    assert!(!folder.path().join("control.sock").exists());
    said
}

/// Sends a file from one station to the other, and compares the received copy.
fn send_file(folder: &Path, from: &Netns, to: &Netns, address: &str) {
    let (sent, arrived) = (folder.join("sent"), folder.join("arrived"));
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    fs::write(&sent, &bytes).unwrap();
    let listen = format!("busybox nc -l -p 7777 > {}", arrived.display());
    let mut server = to.spawn(folder, "nc", "sh", &["-c", &listen]);
    to.await_listener(7777, &server);
    from.run("sh", &["-c", &format!("busybox nc -w 20 {address} 7777 < {}", sent.display())]);
    server.finish(LIMIT);
    assert!(fs::read(&arrived).unwrap() == bytes, "the file changed on its way");
}

/// Runs all kinds of traffic between two stations.
fn exchange(site: &Site, folder: &Path, switch: &Switch) {
    let (left, right) = (&site.left, &site.right);
    left.ping("10.9.0.2", 3, &[]);
    right.ping("fd09::1", 3, &[]);
    // Packets of every size up to the largest.
    let mtu = left.link("eth0").unwrap()["mtu"].as_u64().unwrap();
    let before = switch.settled(&["p1"])[0].rx_bytes;
    left.ping("10.9.0.2", 2, &["-M", "do", "-s", &(mtu - 28).to_string()]);
    let grown = switch.settled(&["p1"])[0].rx_bytes - before;
    assert!(grown >= 2 * (mtu + 14), "{grown} bytes of frames with MTU {mtu}");
    for address in ["10.9.0.2", "fd09::2"] {
        transfer(folder, left, right, address, 20, &["--parallel", "4"]);
    }
    let udp = iperf(folder, right, left, "10.9.0.1", &["--udp", "--bitrate", "20M", "--bytes", "2M"]);
    // Datagrams may be lost, but the loss of most indicates a broken path.
    assert!(received(&udp) > 1 << 20, "{udp}");
    send_file(folder, right, left, "10.9.0.1");
    let counters = switch.settled(&["p1", "p2"]);
    assert!(counters.iter().all(|c| c.rx_packets > 100 && c.tx_packets > 100), "{counters:?}");
    assert_sums_agree(&counters);
    assert!(switch.port("p1")["details"]["missed"].is_string(), "what the kernel had no place for is told");
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn af_xdp_ports_exchange_traffic() {
    let (folder, site) = (folder(), Site::new(1, 1500));
    let switch = site.switch(folder.path(), "af_xdp", "");
    assert!(switch.has_feature("p1", "native") && switch.has_feature("p1", "copy"));
    exchange(&site, folder.path(), &switch);
    switch.stop();
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn packets_longer_than_a_frame_cross_over_af_xdp() {
    let (folder, site) = (folder(), Site::new(1, JUMBO));
    let switch = site.switch(folder.path(), "af_xdp", "");
    assert!(switch.has_feature("p1", "multi-buffer"));
    exchange(&site, folder.path(), &switch);
    switch.stop();
}

/// Memory for ordinary packets is divided into frames that hold one packet each, and the socket is bound without
/// multi-buffer support.
#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn packets_above_the_mtu_are_counted_at_the_output() {
    let (folder, site) = (folder(), Site::new(1, 1500));
    site.host.set_mtu("lan1", JUMBO);
    site.left.set_mtu("eth0", JUMBO);
    let switch = site.switch(folder.path(), "af_xdp", "");
    assert!(switch.has_feature("p1", "multi-buffer") && !switch.has_feature("p2", "multi-buffer"));
    site.left.ping("10.9.0.2", 2, &[]);
    let long = ["-n", "-q", "-c", "3", "-i", "0.1", "-W", "1", "-M", "do", "-s", "9174", "10.9.0.2"];
    assert!(site.left.attempt("ping", &long).is_err(), "no packet of 9202 bytes fits the other interface");
    let drops = switch.port("p2")["drops"].clone();
    assert!(drops["buffer-too-small"].as_u64().is_some_and(|lost| lost >= 3), "{drops}");
    site.left.ping("10.9.0.2", 2, &["-M", "do", "-s", "1472"]);
    switch.assert_sums_agree(&["p1", "p2"]);
    switch.stop();
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn large_file_arrives_unchanged_over_af_xdp() {
    let (folder, site) = (folder(), Site::new(1, 1500));
    let switch = site.switch(folder.path(), "af_xdp", "");
    Noise::make(folder.path(), noise::large()).send(folder.path(), &site.left, &site.right, "10.9.0.1");
    let sent = switch.counters("p1").rx_bytes;
    assert!(sent > noise::large(), "{sent} bytes went through the switch");
    switch.assert_sums_agree(&["p1", "p2"]);
    switch.stop();
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn queues_have_separate_sockets_and_one_umem() {
    let (folder, site) = (folder(), Site::new(2, 1500));
    let switch = site.switch(folder.path(), "af_xdp", "queue_pairs = 2\nframes = 512");
    for name in ["p1", "p2"] {
        switch.wait_running(name, 2, LIMIT);
    }
    let memory = switch.port("p1")["memory_bytes"].clone();
    exchange(&site, folder.path(), &switch);
    assert!(memory.to_string().contains(&(2 * 1024 * 2048).to_string()), "{memory}");
    switch.stop();
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn the_generic_hook_and_busy_polling_do_the_same() {
    let (folder, site) = (folder(), Site::new(1, 1500));
    // With a program in the driver the peer segments long packets; the generic hook would get them unsegmented.
    site.left.run("ethtool", &["-K", "eth0", "tso", "off", "gso", "off"]);
    let ports = [
        site.port(1, "af_xdp", "attach = \"generic\"\nmode = \"copy\""),
        site.port(2, "af_xdp", "busy_poll = true"),
    ];
    let switch = start(folder.path(), &ports);
    assert!(switch.has_feature("p1", "generic") && switch.has_feature("p2", "busy-poll"));
    exchange(&site, folder.path(), &switch);
    switch.stop();
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn af_packet_ports_exchange_traffic() {
    let (folder, site) = (folder(), Site::new(1, 1500));
    let switch = site.switch(folder.path(), "af_packet", "");
    exchange(&site, folder.path(), &switch);
    switch.stop();
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn several_packet_sockets_share_an_interface_with_long_packets() {
    let (folder, site) = (folder(), Site::new(1, JUMBO));
    let switch = site.switch(folder.path(), "af_packet", "queue_pairs = 2");
    assert!(switch.has_feature("p1", "fanout"));
    exchange(&site, folder.path(), &switch);
    switch.stop();
}

/// Offloads left by a container are completed in software on the way to an AF_XDP socket, and pass through to a packet
/// socket.
#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn af_xdp_and_af_packet_ports_exchange_traffic() {
    let (folder, site) = (folder(), Site::new(1, 1500));
    let switch = start(folder.path(), &[site.port(1, "af_xdp", ""), site.port(2, "af_packet", "")]);
    exchange(&site, folder.path(), &switch);
    switch.stop();
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn two_workers_send_to_the_same_rings() {
    let (folder, site) = (folder(), Site::new(1, 1500));
    let ports = [site.port(1, "af_xdp", ""), site.port(2, "af_xdp", "")].concat();
    fs::write(folder.path().join("switch.toml"), format!("[[worker]]\n[[worker]]\n{ports}")).unwrap();
    let switch = Switch::restart(folder.path());
    exchange(&site, folder.path(), &switch);
    switch.stop();
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn frames_selected_by_rules_go_to_the_kernel() {
    let (folder, site) = (folder(), Site::new(1, 1500));
    // The switch's end of the cable is a station for frames that are left to the kernel.
    site.host.configure("lan1", &["10.9.0.254/24"]);
    let rules = "to_kernel = [\"arp\", \"tcp 5201\", \"ethertype 0x88cc\"]";
    let switch = start(folder.path(), &[site.port(1, "af_xdp", rules), site.port(2, "af_xdp", "")]);
    assert!(switch.has_feature("p1", "to-kernel"));
    transfer(folder.path(), &site.left, &site.host, "10.9.0.254", 2, &[]);
    let neighbours = site.host.ip("neighbour show dev lan1");
    assert!(neighbours.contains("10.9.0.1 lladdr"), "the kernel never saw who has 10.9.0.1: {neighbours}");
    // ICMP is not in the rules, so the host's kernel does not receive it and cannot answer.
    let ping = ["-n", "-q", "-c", "2", "-i", "0.2", "-W", "1", "10.9.0.254"];
    assert!(site.left.attempt("ping", &ping).is_err());
    let counters = switch.settled(&["p1", "p2"]);
    assert!(counters[0].rx_packets >= 2, "the switch has what the kernel did not get: {counters:?}");
    assert_sums_agree(&counters);
    switch.stop();
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn vlan_tags_are_preserved() {
    for kind in ["af_xdp", "af_packet"] {
        let (near, far) = (folder(), folder());
        let site = Site::new(1, 1500);
        site.host.ip("link add trunk1 type veth peer name trunk2");
        let trunk = |number: u8| {
            let host = site.host.name();
            site.host.ip(&format!("link set trunk{number} up"));
            format!(
                "[[port]]\nname = \"trunk\"\nkind = \"{kind}\"\ninterface = \"trunk{number}\"\nnetns = \"{host}\"\n\
                 vlan = {{ trunk = [10, 20] }}\n"
            )
        };
        // Tagged on the cable between the switches, and nowhere else.
        let switches = [
            start(near.path(), &[site.port(1, kind, "vlan = 10"), trunk(1)]),
            start(far.path(), &[site.port(2, kind, "vlan = 10"), trunk(2)]),
        ];
        site.left.ping("10.9.0.2", 3, &[]);
        site.left.ping("10.9.0.2", 2, &["-s", "1400"]);
        transfer(near.path(), &site.left, &site.right, "10.9.0.2", 5, &["--set-mss", "1400"]);
        for (switch, port) in switches.iter().zip(["p1", "p2"]) {
            let counters = switch.settled(&[port, "trunk"]);
            assert_sums_agree(&counters);
        }
        switches.into_iter().for_each(Switch::stop);
    }
}

/// DPDK's AF_XDP driver at the other ends of the cables.
#[test]
#[ignore = "needs root and dpdk: run by `cargo xtask test`"]
fn frames_circulate_between_testpmd_and_af_xdp_ports() {
    let (folder, site) = (folder(), Site::new(1, 1500));
    // One testpmd has both ends.
    let dpdk = Netns::new();
    let mut macs = Vec::new();
    for number in [1, 2] {
        let station = if number == 1 { &site.left } else { &site.right };
        station.ip(&format!("link set eth0 netns {} name dpdk{number}", dpdk.name()));
        dpdk.ip(&format!("link set dpdk{number} up"));
        macs.push(dpdk.link(&format!("dpdk{number}")).unwrap()["address"].as_str().unwrap().to_owned());
    }
    let switch = site.switch(folder.path(), "af_xdp", "");
    let devices = [1, 2].map(|number| format!("net_af_xdp{number},iface=dpdk{number}"));
    let peers = [format!("--eth-peer=0,{}", macs[1]), format!("--eth-peer=1,{}", macs[0])];
    let mut testpmd = Testpmd::inside(folder.path(), "testpmd", &dpdk, 1, &devices, &peers);
    testpmd.ready();
    testpmd.circulate(64, 4);
    let moved = || (switch.counters("p1").rx_packets > 10_000).then_some(());
    assert!(wait::until(LIMIT, moved).is_some(), "{:?}", switch.counters("p1"));
    testpmd.stop();
    testpmd.quit();
    switch.assert_sums_agree(&["p1", "p2"]);
    switch.stop();
}
