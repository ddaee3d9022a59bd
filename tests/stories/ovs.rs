//! Open vSwitch with DPDK as the switch: for our own guest, and for a linerate that plugs into it. Frames go round, then
//! Open vSwitch is told to drop them, and what one side counted is what the other side counted, to the byte.

use std::path::{Path, PathBuf};
use std::time::Duration;

use linerate_tests::guest::{Guest, number};
use linerate_tests::ovs::{CameIn, Ovs, Side};
use linerate_tests::{folder, wait};
use serde_json::Value;

const OVS_CPU: usize = 1;
const RINGS: [&str; 4] = ["split", "split-inorder", "packed", "packed-inorder"];
const REACTION: Duration = Duration::from_secs(30);
/// So many frames must come in before they count as carried.
const CARRIED: u64 = 10_000;
/// The guests' addresses.
const LEFT: [u8; 6] = [2, 0, 0, 0, 0, 1];
const RIGHT: [u8; 6] = [2, 0, 0, 0, 0, 2];
const SIZES: [usize; 4] = [60, 128, 590, 1514];
const COPIES: usize = 16;
/// Frames put into circulation.
const INJECTED: u64 = (SIZES.len() * COPIES) as u64;

/// Lets frames of several sizes go round between the guests behind two ports, of whom each returns what it gets, until
/// enough have come out of both; then drops them.
fn circulate(ovs: &Ovs, ports: [&str; 2]) {
    ovs.open(&ports);
    let before = ovs.handled();
    for size in SIZES {
        ovs.inject(ports[0], &frame(size), COPIES);
    }
    let carried = wait::until(REACTION, || (ovs.handled() >= before + CARRIED).then_some(()));
    assert!(carried.is_some(), "frames do not go round: {}", ovs.describe());
    ovs.close(&ports);
}

/// A frame for the left guest, which sends it on to the right one.
fn frame(size: usize) -> Vec<u8> {
    let mut frame = [LEFT, RIGHT].concat();
    // An EtherType for experiments (IEEE 802).
    frame.extend([0x88, 0xb5]);
    frame.resize(size, 0);
    frame
}

/// Waits until Open vSwitch runs so many pairs of queues of a port.
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
        circulate(ovs, self.ports);
        both_count_the_same(ovs, self.ports, &guest.end());
        self.plugged(ovs, 0);
    }

    fn plugged(&self, ovs: &Ovs, pairs: usize) {
        for (port, socket) in self.ports.iter().zip(&self.sockets) {
            plugged(ovs, port, socket, pairs);
        }
    }
}

/// What Open vSwitch took from a device is what that device sent; and because a device sends all that it gets, that is
/// also what it received, to the byte. Of the frames put in on the left, none is missing.
fn both_count_the_same(ovs: &Ovs, ports: [&str; 2], devices: &[Value]) {
    let ours = || devices.iter().map(counted);
    let theirs = || ports.map(|port| ovs.came_in(port));
    let _ = wait::until(REACTION, || theirs().into_iter().eq(ours()).then_some(()));
    let [left, right] = theirs();
    assert!([left, right].into_iter().eq(ours()), "{devices:?} {left:?} {right:?}");
    for device in devices {
        assert_eq!(number(device, "rx_packets"), number(device, "tx_packets"), "{device}");
    }
    // Those that were dropped on the left did not come in on the right.
    assert!((right.packets..=right.packets + INJECTED).contains(&left.packets), "{left:?} {right:?}");
    assert!(right.packets >= CARRIED / 4, "{left:?} {right:?}");
}

fn counted(device: &Value) -> CameIn {
    CameIn { packets: number(device, "tx_packets"), bytes: number(device, "rx_bytes") }
}

#[test]
#[ignore = "needs Open vSwitch: run by `cargo xtask test`"]
fn our_guests_frames_go_round_through_open_vswitch() {
    let folder = folder();
    let ovs = Ovs::start(folder.path(), OVS_CPU);
    for guest_listens in [false, true] {
        let stage = Stage::new(&ovs, folder.path(), guest_listens);
        for ring in RINGS {
            // Not mergeable where DPDK has special code for that.
            stage.tell(&ovs, folder.path(), ring, 1, !guest_listens);
        }
        stage.tell(&ovs, folder.path(), "split", 2, false);
        stage.tell(&ovs, folder.path(), "packed", 2, true);
    }
}
