//! Open vSwitch with DPDK as the switch for our own guest, and for a linerate connected to it. Frames circulate, then
//! Open vSwitch drops them, and the counters of both sides agree, to the byte.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use linerate_tests::guest::{Guest, number};
use linerate_tests::ovs::{Ovs, Received, Side};
use linerate_tests::switch::{Counters, Switch, assert_sums_agree};
use linerate_tests::{folder, scope, wait};
use serde_json::Value;

const SWITCH_CPU: usize = 0;
const OVS_CPU: usize = 1;
const RINGS: [&str; 4] = ["split", "split-inorder", "packed", "packed-inorder"];
const REACTION: Duration = Duration::from_secs(30);
/// Number of received frames after which they count as carried.
const CARRIED: u64 = 10_000;
/// Addresses of the guests.
const LEFT: [u8; 6] = [2, 0, 0, 0, 0, 1];
const RIGHT: [u8; 6] = [2, 0, 0, 0, 0, 2];
const SIZES: [usize; 4] = [60, 128, 590, 1514];
const COPIES: usize = 16;
/// Number of injected frames.
const INJECTED: u64 = (SIZES.len() * COPIES) as u64;

/// Circulates frames of several sizes between the guests behind two ports, each of which returns its frames, until
/// enough have been received; then drops them. Returns the frames received from each port.
fn circulate(ovs: &Ovs, ports: [&str; 2]) -> [Received; 2] {
    ovs.open(&ports);
    let before = ovs.handled();
    for size in SIZES {
        ovs.inject(ports[0], &frame(size), COPIES);
    }
    let carried = wait::until(REACTION, || (ovs.handled() >= before + CARRIED).then_some(()));
    assert!(carried.is_some(), "frames do not go round: {}", ovs.describe());
    ovs.close(&ports);
    let all = ovs.handled() - before;
    let counted = wait::until(REACTION, || {
        let came_in = ports.map(|port| ovs.came_in(port));
        (came_in[0].packets + came_in[1].packets == all).then_some(came_in)
    });
    let [left, right] = counted.unwrap_or_else(|| panic!("not {all} packets: {}", ovs.describe()));
    // Frames dropped on the left were not received on the right.
    assert!((right.packets..=right.packets + INJECTED).contains(&left.packets), "{left:?} {right:?}");
    [left, right]
}

/// A frame for the left guest, which forwards it to the right one.
fn frame(size: usize) -> Vec<u8> {
    let mut frame = [LEFT, RIGHT].concat();
    // EtherType for experiments (IEEE 802).
    frame.extend([0x88, 0xb5]);
    frame.resize(size, 0);
    frame
}

/// Waits until Open vSwitch runs `pairs` queue pairs of a port.
fn plugged(ovs: &Ovs, port: &str, socket: &Path, pairs: usize) {
    let all = wait::until(REACTION, || (ovs.running(port, socket) == pairs).then_some(()));
    assert!(all.is_some(), "{port} does not run {pairs} pairs of queues: {}", ovs.describe());
}

/// Two ports of Open vSwitch, and the sockets of one guest's two devices.
struct Stage {
    ports: [&'static str; 2],
    side: &'static str,
    sockets: [PathBuf; 2],
}

impl Stage {
    fn new(ovs: &Ovs, folder: &Path, guest_listens: bool) -> Stage {
        let (side, ports) =
            if guest_listens { ("--listen", ["one", "two"]) } else { ("--connect", ["left", "right"]) };
        let sockets = ports.map(|port| {
            let own = folder.join(port);
            ovs.add_port(port, if guest_listens { Side::Connects(&own) } else { Side::Listens })
        });
        Stage { ports, side, sockets }
    }

    fn tell(&self, ovs: &Ovs, folder: &Path, ring: &str, pairs: usize, mergeable: bool) {
        println!("{}, {ring}, {pairs} pairs of queues, mergeable {mergeable}", self.side);
        let count = pairs.to_string();
        let mut more = vec!["--ring", ring, "--queue-pairs", &count];
        more.extend((!mergeable).then_some("--no-mergeable"));
        let sockets = self.sockets.each_ref().map(PathBuf::as_path);
        let guest = Guest::endless(folder, "guest", self.side, &sockets, &more);
        self.plugged(ovs, pairs);
        let came_in = circulate(ovs, self.ports);
        for (device, came_in) in guest.end().iter().zip(came_in) {
            assert_same(device, came_in);
        }
        self.plugged(ovs, 0);
    }

    fn plugged(&self, ovs: &Ovs, pairs: usize) {
        for (port, socket) in self.ports.iter().zip(&self.sockets) {
            plugged(ovs, port, socket, pairs);
        }
    }
}

/// Checks that Open vSwitch received from a device all frames that it sent and, because a device returns all frames,
/// all that it received, to the byte.
fn assert_same(device: &Value, came_in: Received) {
    assert_eq!(number(device, "tx_packets"), came_in.packets, "{device}");
    let received = (number(device, "rx_packets"), number(device, "rx_bytes"));
    assert_eq!(received, (came_in.packets, came_in.bytes), "{device}");
}

const BRIDGED: [&str; 2] = ["near", "uplink"];
/// File name of the uplink's socket, which a shell and Open vSwitch must quote.
const UPLINK: &str = "it's an [uplink]: {1, 2}";

/// Starts a linerate with a guest port and an uplink to Open vSwitch with `pairs` queue pairs.
fn linerate(folder: &Path, ring: &str, pairs: usize) -> Switch {
    let [near, uplink] = ["near", UPLINK].map(|name| folder.join(name).display().to_string());
    let text = format!(
        "[[worker]]\ncpu = {SWITCH_CPU}\n\n[[port]]\nname = \"near\"\nsocket = \"{near}\"\n\n\
         [[port]]\nname = \"uplink\"\nkind = \"virtio-user\"\nsocket = \"{uplink}\"\nmode = \"server\"\n\
         ring = \"{ring}\"\nqueue_pairs = {pairs}\n"
    );
    let file = folder.join("switch.toml");
    fs::write(&file, text).unwrap_or_else(|error| panic!("cannot write {}: {error}", file.display()));
    Switch::restart(folder)
}

/// Chains a guest, linerate, Open vSwitch and another guest; Open vSwitch crashes halfway.
fn through_the_uplink(ring: &str, pairs: usize) {
    println!("{ring}, {pairs} pairs of queues");
    let folder = folder();
    let [near, uplink, far] = ["near", UPLINK, "far"].map(|name| folder.path().join(name));
    let mut ovs = Ovs::start(folder.path(), OVS_CPU);
    let switch = linerate(folder.path(), ring, pairs);
    ovs.paste(&switch.snippet("uplink", "ovs"));
    ovs.add_port("far", Side::Connects(&far));
    let left = Guest::endless(folder.path(), "left", "--connect", &[&near], &[]);
    let right = Guest::endless(folder.path(), "right", "--listen", &[&far], &[]);
    let mut lives = Vec::new();
    for again in [false, true] {
        if again {
            ovs.crash_and_return(|| memory_is_given_back(&switch));
        }
        switch.wait_running("near", 1, REACTION);
        switch.wait_running("uplink", pairs, REACTION);
        plugged(&ovs, "uplink", &uplink, pairs);
        plugged(&ovs, "far", &far, 1);
        lives.push(circulate(&ovs, ["uplink", "far"]));
    }
    let counters = switch.settled(&BRIDGED);
    let both = |port: usize| Received {
        packets: lives.iter().map(|life| life[port].packets).sum(),
        bytes: lives.iter().map(|life| life[port].bytes).sum(),
    };
    everything_is_counted(&counters, both(0));
    assert_same(&left.end()[0], both(0));
    assert_same(&right.end()[0], both(1));
    assert_eq!(switch.has_feature("uplink", "ring-packed"), ring.starts_with("packed"));
    assert_eq!(switch.has_feature("uplink", "in-order"), ring.ends_with("inorder"));
    switch.stop();
}

/// Checks that all frames crossed the uplink and the other port in both directions, and that Open vSwitch counted them.
fn everything_is_counted(counters: &[Counters], came_in: Received) {
    assert_sums_agree(counters);
    for port in counters {
        assert_eq!(port.queue_full + port.other_drops, 0, "{counters:?}");
        assert_eq!((port.tx_packets, port.tx_bytes), (came_in.packets, came_in.bytes), "{counters:?}");
        assert_eq!((port.rx_packets, port.rx_bytes), (came_in.packets, came_in.bytes), "{counters:?}");
    }
}

fn memory_is_given_back(switch: &Switch) {
    let gone = wait::until(REACTION, || (switch.port("uplink")["memory_bytes"] == 0).then_some(()));
    assert!(gone.is_some(), "memory stays shared with a dead switch: {}", switch.port("uplink"));
}

#[test]
#[ignore = "needs Open vSwitch: run by `cargo xtask test`"]
fn uplink_to_open_vswitch_survives_its_crash() {
    for &(ring, pairs) in scope::last(&[(RINGS[0], 2), (RINGS[1], 1), (RINGS[2], 2), (RINGS[3], 1)]) {
        through_the_uplink(ring, pairs);
    }
}

/// Our guests of either mode. The gate has a guest behind the uplink above.
mod every {
    use super::*;

    #[test]
    #[ignore = "needs Open vSwitch: run by `cargo xtask test --all`"]
    fn frames_circulate_through_open_vswitch() {
        let folder = folder();
        let ovs = Ovs::start(folder.path(), OVS_CPU);
        for guest_listens in [false, true] {
            let stage = Stage::new(&ovs, folder.path(), guest_listens);
            for ring in RINGS {
                stage.tell(&ovs, folder.path(), ring, 1, !guest_listens);
            }
            stage.tell(&ovs, folder.path(), if guest_listens { "packed" } else { "split" }, 2, guest_listens);
        }
    }
}
