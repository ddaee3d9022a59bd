//! DPDK's vhost library as the switch for our own guest: what one side counted as sent, the other counted as
//! received, on both ring kinds, whichever side listens and however frames lie in descriptors.

use std::path::{Path, PathBuf};
use std::time::Duration;

use linerate_tests::guest::Guest;
use linerate_tests::testpmd::{Testpmd, Vhost};
use linerate_tests::{folder, wait};
use serde_json::Value;

const SWITCH_CPU: usize = 1;
const RINGS: [&str; 4] = ["split", "split-inorder", "packed", "packed-inorder"];
/// How long a guest runs; long enough to connect and to move frames on the slowest machine.
const SECONDS: u32 = 5;
/// How long where only the shape of what is carried matters.
const SHORT: u32 = 2;
/// `linerate guest`'s ring, unless told otherwise.
const RING: u64 = 1024;
const CARRIED: u64 = 1000;

/// Which side makes the socket.
#[derive(Clone, Copy, Debug)]
enum Listener {
    Guest,
    Switch,
}

struct Stage {
    listener: Listener,
    ring: &'static str,
    descriptors: &'static str,
    size: &'static str,
    /// How long the guest that sends runs.
    seconds: u32,
}

impl Stage {
    fn new(ring: &'static str, size: &'static str) -> Self {
        Self { listener: Listener::Switch, ring, descriptors: "single", size, seconds: SECONDS }
    }

    fn guest(&self, folder: &Path, socket: &Path, name: &str, mode: &str, seconds: u32) -> Guest {
        let side = match self.listener {
            Listener::Guest => "--listen",
            Listener::Switch => "--connect",
        };
        let more =
            ["--ring", self.ring, "--descriptors", self.descriptors, "--mode", mode, "--size", self.size];
        Guest::start(folder, name, side, socket, seconds, &more)
    }

    fn switch(&self, folder: &Path, sockets: &[PathBuf]) -> Testpmd {
        let client = matches!(self.listener, Listener::Guest);
        let ports: Vec<Vhost> = sockets.iter().map(|socket| Vhost { socket, client, pairs: 1 }).collect();
        let mut switch = Testpmd::switch(folder, "switch", SWITCH_CPU, &ports);
        switch.ready();
        switch
    }

    /// One guest sends, the other one receives. The receiver lives longer, so that nothing is on its way when
    /// the counters are read.
    fn one_way(&self) {
        println!("{:?} listens, {}, {}, {} B", self.listener, self.ring, self.descriptors, self.size);
        let folder = folder();
        let sockets = ["from", "to"].map(|name| folder.path().join(name));
        let mut switch = self.switch(folder.path(), &sockets);
        switch.say("set fwd io");
        switch.say("start");
        let receiver = self.guest(folder.path(), &sockets[1], "receiver", "rxonly", 2 * self.seconds);
        let sender = self.guest(folder.path(), &sockets[0], "sender", "txonly", self.seconds);
        let (sent, received) = (sender.report(), receiver.report());
        let counters = switch.counters();
        assert!(number(&received, "rx_packets") >= CARRIED, "{sent} {received}");
        // The sender counts what came back used, and ends with at most a whole ring on its way.
        let used = number(&sent, "tx_packets");
        assert!((used..=used + RING).contains(&counters[0].rx_packets), "{sent} {counters:?}");
        assert_eq!(number(&received, "rx_packets"), counters[1].tx_packets, "switch to receiver");
        switch.quit();
    }

    /// Frames that the switch made go round between it and one guest.
    fn round(&self, mode: &str) {
        println!("{:?} listens, {}, {mode}", self.listener, self.ring);
        let folder = folder();
        let sockets = [folder.path().join("loop")];
        let mut switch = self.switch(folder.path(), &sockets);
        let guest = self.guest(folder.path(), &sockets[0], "guest", mode, self.seconds);
        let limit = Duration::from_secs(self.seconds.into());
        // What is sent before the guest is there is lost, so the start is repeated until something comes back.
        let carried = wait::until(limit, || {
            let back = switch.counters()[0].rx_packets;
            if back == 0 {
                switch.say("stop");
                switch.circulate(64, 2);
            }
            (back >= CARRIED).then_some(())
        });
        let report = guest.report();
        assert!(carried.is_some(), "frames did not go round: {report} {:?}", switch.counters());
        assert!(number(&report, "tx_packets") >= CARRIED, "{report}");
        switch.quit();
    }
}

fn number(report: &Value, key: &str) -> u64 {
    report[key].as_u64().unwrap_or_else(|| panic!("no {key} in {report}"))
}

#[test]
#[ignore = "needs dpdk: run by `cargo xtask test`"]
fn what_our_guest_sends_arrives_at_the_other_guest_of_dpdks_switch() {
    for ring in RINGS {
        Stage::new(ring, "64").one_way();
    }
    Stage::new("split", "1514").one_way();
    Stage::new("packed", "mix").one_way();
}

#[test]
#[ignore = "needs dpdk: run by `cargo xtask test`"]
fn dpdks_switch_carries_chains_and_indirect_tables_of_our_guest() {
    for ring in ["split", "packed"] {
        for descriptors in ["chain", "indirect"] {
            Stage { descriptors, seconds: SHORT, ..Stage::new(ring, "mix") }.one_way();
        }
    }
}

#[test]
#[ignore = "needs dpdk: run by `cargo xtask test`"]
fn our_guest_listens_for_dpdks_switch() {
    for ring in ["split", "packed"] {
        Stage { listener: Listener::Guest, ..Stage::new(ring, "64") }.one_way();
    }
}

#[test]
#[ignore = "needs dpdk: run by `cargo xtask test`"]
fn our_guest_sends_back_what_dpdks_switch_sends() {
    for ring in RINGS {
        Stage::new(ring, "64").round("macswap");
    }
    Stage::new("split", "64").round("io");
}
