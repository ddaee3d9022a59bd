//! Kernel offloads across two switches joined by virtio-user: TCP between a namespace at each switch, with offloads
//! passed through if both sides support them, and completed in software if the back end does not.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use linerate_tests::iperf::{iperf, received};
use linerate_tests::netns::Netns;
use linerate_tests::switch::Switch;
use linerate_tests::testpmd::{Testpmd, Vhost};
use linerate_tests::{folder, scope};

const LIMIT: Duration = Duration::from_secs(20);
const FOUR: [&str; 2] = ["10.9.0.1", "10.9.0.2"];
const SIX: [&str; 2] = ["fd09::1", "fd09::2"];
/// Bytes of the longest frame without segmentation.
const FRAME: u64 = 1514;
const MEBIBYTES: u64 = 24;

/// A namespace at its own switch, whose other port leads to the other switch.
struct Side {
    netns: Netns,
    switch: Switch,
    /// Port that leads to the other switch.
    trunk: &'static str,
}

impl Side {
    /// Starts a side; `number` is 0 or 1, and `more` are lines of the trunk's section.
    fn start(folder: &Path, number: usize, trunk: &'static str, more: &str) -> Side {
        let (netns, own) = (Netns::new(), folder.join(format!("side-{number}")));
        fs::create_dir(&own).unwrap_or_else(|error| panic!("cannot make {}: {error}", own.display()));
        let text = format!(
            "[[worker]]\ncpu = {number}\n[[port]]\nname = \"tap\"\nkind = \"tap\"\ninterface = \"eth0\"\n\
             netns = \"{}\"\n[[port]]\nname = \"{trunk}\"\n{more}\n",
            netns.name()
        );
        let switch = Switch::start_from(&own, &text);
        netns.wait_link("eth0", true, LIMIT);
        let addresses = [format!("{}/24", FOUR[number]), format!("{}/64", SIX[number])];
        netns.configure("eth0", &[&addresses[0], &addresses[1]]);
        Side { netns, switch, trunk }
    }

    fn wait_running(&self) {
        self.switch.wait_running(self.trunk, 1, LIMIT);
    }

    /// Packets and bytes sent through the trunk.
    fn sent(&self) -> (u64, u64) {
        let counters = self.switch.counters(self.trunk);
        (counters.tx_packets, counters.tx_bytes)
    }

    fn stop(self) {
        self.switch.assert_sums_agree(&["tap", self.trunk]);
        self.switch.stop();
    }
}

fn shell(line: &str) {
    let status = Command::new("sh").args(["-ec", line]).status();
    assert!(status.is_ok_and(|status| status.success()), "{line} failed");
}

/// Transfers a file from one side to the other; returns the mean packet size on the sender's trunk in bytes.
fn carry(folder: &Path, from: &Side, to: &Side, address: &str) -> u64 {
    let (file, copy) = (folder.join("file"), folder.join("copy"));
    shell(&format!("head --bytes={MEBIBYTES}M /dev/urandom > {}", file.display()));
    let receive = format!("exec busybox nc -l -p 5000 > {}", copy.display());
    let mut server = to.netns.spawn(folder, "receive", "sh", &["-c", &receive]);
    to.netns.await_listener(5000, &server);
    let before = from.sent();
    from.netns.run("sh", &["-c", &format!("busybox nc {address} 5000 < {}", file.display())]);
    server.finish(LIMIT);
    let after = from.sent();
    assert_eq!(fs::metadata(&copy).expect("it was received").len(), MEBIBYTES << 20);
    shell(&format!("cmp {} {}", file.display(), copy.display()));
    (after.1 - before.1) / (after.0 - before.0)
}

/// Transfers a file in each direction over each IP version; returns the mean packet sizes on the trunks.
fn talk(folder: &Path, left: &Side, right: &Side) -> [u64; 4] {
    left.wait_running();
    right.wait_running();
    left.netns.ping(FOUR[1], 3, &[]);
    right.netns.ping(SIX[0], 3, &[]);
    let means = [
        carry(folder, left, right, FOUR[1]),
        carry(folder, right, left, FOUR[0]),
        carry(folder, left, right, SIX[1]),
        carry(folder, right, left, SIX[0]),
    ];
    println!("mean packets: {means:?}");
    let datagrams = ["--udp", "--bitrate", "20M", "--length", "1200", "--bytes", "1M"];
    let flood = iperf(folder, &left.netns, &right.netns, FOUR[1], &datagrams);
    assert!(received(&flood) > 0, "{flood}");
    means
}

/// Tests two switches, joined by a virtio-user port on the left and a vhost-user port on the right.
fn two_switches(up: &str, down: &str) -> ([u64; 4], Vec<bool>) {
    println!("uplink: {up:?}, downlink: {down:?}");
    let folder = folder();
    let folder = folder.path();
    let socket = folder.join("trunk").display().to_string();
    let right = Side::start(folder, 1, "downlink", &format!("socket = \"{socket}\"\n{down}"));
    let up = format!("kind = \"virtio-user\"\nsocket = \"{socket}\"\n{up}");
    let left = Side::start(folder, 0, "uplink", &up);
    let means = talk(folder, &left, &right);
    let features = ["csum", "host-tso4", "guest-csum", "guest-tso4"];
    let has = features.iter().map(|name| left.switch.has_feature("uplink", name)).collect();
    left.stop();
    right.stop();
    (means, has)
}

#[test]
#[ignore = "needs root and iperf3; run by `cargo xtask test`"]
fn offloads_pass_two_switches() {
    for &ring in scope::last(&["split", "split-inorder", "packed", "packed-inorder"]) {
        let (means, has) = two_switches(&format!("ring = \"{ring}\""), "");
        assert_eq!(has, [true; 4]);
        assert!(means.iter().all(|mean| *mean > FRAME), "{ring}: {means:?}");
    }
}

#[test]
#[ignore = "needs root and iperf3; run by `cargo xtask test`"]
fn offloads_are_completed_if_either_side_lacks_them() {
    for (up, down) in [("offloads = false", ""), ("", "offloads = false")] {
        let (means, has) = two_switches(up, down);
        assert_eq!(has, [false; 4]);
        assert!(means.iter().all(|mean| *mean <= FRAME), "{means:?}");
    }
}

#[test]
#[ignore = "needs root and iperf3; run by `cargo xtask test`"]
fn unsegmented_packets_need_mergeable_buffers() {
    let (means, has) = two_switches("mergeable = false", "");
    assert_eq!(has, [true, true, true, false]);
    let [out, home, out_six, home_six] = means;
    assert!(out.min(out_six) > FRAME && home.max(home_six) <= FRAME, "{means:?}");
}

/// DPDK's switch without offloads. The gate has two linerates of which one lacks them.
mod every {
    use super::*;

    #[test]
    #[ignore = "needs root, iperf3 and dpdk; run by `cargo xtask test --all`"]
    fn offloads_are_completed_for_dpdk_switch() {
        for ring in ["split", "packed"] {
            let folder = folder();
            let folder = folder.path();
            let sockets = [folder.join("left-trunk"), folder.join("right-trunk")];
            let vhost = |socket| Vhost { socket, client: false, pairs: 1 };
            let mut peer = Testpmd::switch(folder, "peer", 1, &[vhost(&sockets[0]), vhost(&sockets[1])]);
            peer.ready();
            peer.say("set fwd io");
            peer.say("start");
            let side = |number: usize| {
                let socket = sockets[number].display();
                let more = format!("kind = \"virtio-user\"\nsocket = \"{socket}\"\nring = \"{ring}\"");
                Side::start(folder, number, "uplink", &more)
            };
            let (left, right) = (side(0), side(1));
            let means = talk(folder, &left, &right);
            assert!(means.iter().all(|mean| *mean <= FRAME), "{ring}: {means:?}");
            assert!(!left.switch.has_feature("uplink", "host-tso4"), "{}", left.switch.port("uplink"));
            left.stop();
            right.stop();
            peer.quit();
        }
    }
}
