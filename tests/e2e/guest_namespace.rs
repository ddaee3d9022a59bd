//! A QEMU guest at a vhost-user port and a network namespace at a TAP port: both send packets with checksum and
//! segmentation offload, and each receives the other's without software completion; a guest without offloads receives
//! completed packets.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use linerate_tests::netns::Netns;
use linerate_tests::noise::{self, Noise};
use linerate_tests::switch::{Switch, assert_sums_agree};
use linerate_tests::vm::{GuestNic, Image, Vm};
use linerate_tests::{folder, scope};
use serde_json::Value;

const PING: Duration = Duration::from_mins(1);
const TRANSFER: Duration = Duration::from_mins(3);
const REACTION: Duration = Duration::from_secs(30);
const GUEST: [&str; 2] = ["10.0.0.1", "fd00::1"];
const OTHER: [&str; 2] = ["10.0.0.9", "fd00::9"];

/// MTU of frames of 9216 bytes, including their Ethernet header and without their checksum.
const JUMBO: u16 = 9202;

fn image() -> Image {
    Image::with(&[&["iperf3", "ping"], &noise::PROGRAMS[..]].concat(), &[])
}

/// The switch, a guest and a namespace.
struct Stage {
    switch: Switch,
    guest: Vm,
    netns: Netns,
}

impl Stage {
    /// `offloads`: whether the guest's network card offers offloads.
    fn start(folder: &Path, image: &Image, offloads: bool) -> Stage {
        let (netns, socket) = (Netns::new(), folder.join("guest"));
        let text = format!(
            "[[worker]]\n[[port]]\nname = \"guest\"\nsocket = \"{}\"\noffloads = {offloads}\n\
             [[port]]\nname = \"host\"\nkind = \"tap\"\ninterface = \"eth0\"\nnetns = \"{}\"\n",
            socket.display(),
            netns.name()
        );
        fs::write(folder.join("switch.toml"), text).expect("the test's own folder");
        let switch = Switch::restart(folder);
        let plug = GuestNic { socket: &socket, server: false, packed: false, number: 1 };
        let mut guest = Vm::start(folder, "guest", image, &plug);
        switch.wait_state("host", "connected", REACTION);
        for address in OTHER {
            let prefix = if address.contains(':') { 64 } else { 24 };
            netns.ip(&format!("address add {address}/{prefix} dev eth0"));
        }
        guest.ready();
        guest.succeed(&format!("ip -6 address add {}/64 dev eth0", GUEST[1]), PING);
        Stage { switch, guest, netns }
    }

    /// Pings with unfragmented packets of MTU size, and checks that the switch counts the frames' bytes.
    fn ping_whole(&mut self, mtu: u16) {
        self.set_mtu(mtu);
        // 20 bytes of IPv4 and 8 of ICMP, or 40 and 8.
        for (address, headers) in OTHER.into_iter().zip([28, 48]) {
            let before = self.switch.settled(&["guest"])[0].rx_bytes;
            self.ping_one(address, mtu - headers);
            let grown = self.switch.settled(&["guest"])[0].rx_bytes - before;
            assert!(grown >= 3 * (u64::from(mtu) + 14), "{grown} bytes of frames with MTU {mtu}");
        }
    }

    fn set_mtu(&mut self, mtu: u16) {
        self.netns.ip(&format!("link set eth0 mtu {mtu}"));
        self.guest.succeed(&format!("ip link set eth0 mtu {mtu}"), PING);
    }

    /// Pings both addresses with packets of this size.
    fn ping(&mut self, size: u16) {
        for address in OTHER {
            self.ping_one(address, size);
        }
    }

    fn ping_one(&mut self, address: &str, size: u16) {
        let once =
            format!("for i in $(seq 30); do ping -c 1 -W 1 {address} && exit 0; sleep 1; done; exit 1");
        self.guest.succeed(&format!("({once})"), PING);
        // Not busybox's: iputils' ping never sends fragments here.
        let large = format!("/usr/bin/ping -n -q -M do -c 3 -i 0.2 -s {size} -W 5 {address}");
        self.guest.succeed(&large, PING);
    }

    /// Runs iperf3 from the guest to the namespace, or in reverse; returns the bytes that arrived.
    fn iperf(&mut self, folder: &Path, address: &str, more: &str) -> u64 {
        let mut server = self.netns.spawn(folder, "iperf", "iperf3", &["-s", "-1", "-B", address]);
        self.netns.await_listener(5201, &server);
        // The window bounds what is on its way, and not counted, when everything is written.
        let window = if more.contains("-u") { "" } else { "-w 128K" };
        let client = format!("iperf3 -c {address} -J -n 4M {window} {more}");
        let said = self.guest.succeed(&client, TRANSFER);
        server.finish(REACTION);
        let from = said.find('{').expect("iperf3 reports");
        let report: Value = serde_json::from_str(&said[from..]).expect("iperf3 reports in JSON");
        let end = &report["end"];
        let sum = if end["sum_received"].is_object() { &end["sum_received"] } else { &end["sum"] };
        sum["bytes"].as_u64().expect("bytes were counted")
    }

    /// The guest downloads a file of noise.
    fn fetch(&mut self, folder: &Path, bytes: u64) {
        let noise = Noise::make(folder, bytes);
        let mut server = noise.offer(folder, &self.netns);
        let before = Instant::now();
        noise.assert_arrived(&self.guest.succeed(&noise::fetch(OTHER[0]), TRANSFER));
        println!("{bytes} bytes in {:?}", before.elapsed());
        server.finish(REACTION);
    }

    fn end(self) {
        let counters = self.switch.settled(&["guest", "host"]);
        assert_sums_agree(&counters);
        drop(self.guest);
        self.switch.stop();
    }
}

#[test]
#[ignore = "needs QEMU, a kernel, iperf3 and root: run by `cargo xtask test`"]
fn guest_and_namespace_exchange_ipv4_ipv6_and_jumbo_frames() {
    let (folder, image) = (folder(), image());
    let folder = folder.path();
    let mut stage = Stage::start(folder, &image, true);
    for feature in ["csum", "host-tso4", "guest-tso4"] {
        assert!(stage.switch.has_feature("guest", feature), "{}", stage.switch.port("guest"));
    }
    stage.ping(1400);
    stage.fetch(folder, scope::pick(noise::large(), 16 << 20));
    for (mtu, address) in [(1500, OTHER[0]), (JUMBO, OTHER[1])] {
        stage.ping_whole(mtu);
        for &address in scope::pick(&OTHER[..], &[address]) {
            for more in ["", "-R", "-u -b 20M -l 1200"] {
                let bytes = stage.iperf(folder, address, more);
                assert!(bytes > 1 << 20, "{bytes} bytes over {address} with MTU {mtu} {more}");
            }
        }
    }
    let large = stage.switch.counters("guest");
    assert!(large.rx_bytes / large.rx_packets > 1514 / 4, "segments were left to be cut: {large:?}");
    stage.end();
}

#[test]
#[ignore = "needs QEMU, a kernel, iperf3 and root: run by `cargo xtask test`"]
fn guest_without_offloads_gets_complete_packets() {
    let (folder, image) = (folder(), image());
    let folder = folder.path();
    let mut stage = Stage::start(folder, &image, false);
    assert!(!stage.switch.has_feature("guest", "csum"), "{}", stage.switch.port("guest"));
    stage.ping(1400);
    // Every segment is sent separately, which is slow in an emulated machine.
    stage.fetch(folder, scope::pick(128 << 20, 4 << 20));
    for address in OTHER {
        let bytes = stage.iperf(folder, address, "-R");
        assert!(bytes > 1 << 20, "{bytes} bytes over {address}");
    }
    let counters = stage.switch.counters("host");
    assert!(counters.replicated > 100, "packets of the namespace were cut here: {counters:?}");
    stage.ping_whole(JUMBO);
    stage.end();
}
