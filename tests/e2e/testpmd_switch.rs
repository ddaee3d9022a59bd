//! DPDK's vhost library as the switch for our own guest: each side's sent packets equal the other side's received
//! packets, on every ring kind, with mergeable buffers and without, with one and two queue pairs, with either side
//! listening, and with every descriptor layout.

use std::path::{Path, PathBuf};
use std::time::Duration;

use linerate_tests::guest::{Guest, number};
use linerate_tests::testpmd::{Testpmd, Vhost};
use linerate_tests::{folder, scope, wait};

const SWITCH_CPU: usize = 1;
const RINGS: [&str; 4] = ["split", "split-inorder", "packed", "packed-inorder"];
const REACTION: Duration = Duration::from_secs(30);
/// Default ring size of `linerate guest`.
const RING: u64 = 1024;
const CARRIED: u64 = 10_000;

/// Side that creates the socket.
#[derive(Clone, Copy, Debug)]
enum Listener {
    Guest,
    Switch,
}

#[derive(Clone, Copy, Debug)]
struct Stage {
    listener: Listener,
    ring: &'static str,
    descriptors: &'static str,
    size: &'static str,
    pairs: u16,
    mergeable: bool,
}

impl Stage {
    fn new(ring: &'static str) -> Stage {
        Stage {
            listener: Listener::Switch,
            ring,
            descriptors: "single",
            size: "64",
            pairs: 1,
            mergeable: true,
        }
    }

    fn guest(&self, folder: &Path, socket: &Path, name: &str, mode: &str) -> Guest {
        let side = match self.listener {
            Listener::Guest => "--listen",
            Listener::Switch => "--connect",
        };
        let pairs = self.pairs.to_string();
        let mut more =
            vec!["--ring", self.ring, "--mode", mode, "--size", self.size, "--queue-pairs", &pairs];
        more.extend(["--descriptors", self.descriptors]);
        more.extend((!self.mergeable).then_some("--no-mergeable"));
        Guest::endless(folder, name, side, &[socket], &more)
    }

    fn switch(&self, folder: &Path, sockets: &[PathBuf]) -> Testpmd {
        let client = matches!(self.listener, Listener::Guest);
        let port = |socket| Vhost { socket, client, pairs: self.pairs };
        let ports: Vec<Vhost> = sockets.iter().map(|socket| port(socket)).collect();
        let mut switch = Testpmd::switch(folder, "switch", SWITCH_CPU, &ports);
        switch.ready();
        switch
    }

    /// One guest sends, the other one receives. The receiver ends later, so that no packet is in transit when the
    /// counters are read.
    fn one_way(&self) {
        println!("{self:?}");
        let folder = folder();
        let sockets = ["from", "to"].map(|name| folder.path().join(name));
        let mut switch = self.switch(folder.path(), &sockets);
        switch.say("set fwd io");
        switch.say("start");
        let receiver = self.guest(folder.path(), &sockets[1], "receiver", "rxonly");
        let sender = self.guest(folder.path(), &sockets[0], "sender", "txonly");
        let carried = wait::until(REACTION, || (switch.counters()[1].tx_packets >= CARRIED).then_some(()));
        assert!(carried.is_some(), "frames do not get through: {:?}", switch.counters());
        let sent = sender.end().swap_remove(0);
        let counters = switch.settled();
        let received = receiver.end().swap_remove(0);
        // The sender counts used buffers, and ends with at most its whole rings in transit.
        let used = number(&sent, "tx_packets");
        let most = used + RING * u64::from(self.pairs);
        assert!((used..=most).contains(&counters[0].rx_packets), "{sent} {counters:?}");
        assert_eq!(number(&received, "rx_packets"), counters[1].tx_packets, "switch to receiver");
        if self.pairs > 1 {
            let queues: Vec<_> = switch.stop_and_list().into_iter().filter(|queue| queue.0 == 0).collect();
            assert_eq!(queues.len(), usize::from(self.pairs), "{queues:?}");
            assert!(queues.iter().all(|queue| queue.1 > 0), "a queue of the sender was not used: {queues:?}");
        }
        switch.quit();
    }

    /// Circulates frames created by the switch between it and one guest.
    fn round(&self, mode: &str) {
        println!("{self:?}, {mode}");
        let folder = folder();
        let sockets = [folder.path().join("loop")];
        let mut switch = self.switch(folder.path(), &sockets);
        let guest = self.guest(folder.path(), &sockets[0], "guest", mode);
        // Frames sent before the guest is connected are lost, so the start is repeated until one comes back.
        let carried = wait::until(REACTION, || {
            let back = switch.counters()[0].rx_packets;
            if back == 0 {
                switch.say("stop");
                switch.circulate(64, 2);
            }
            (back >= CARRIED).then_some(())
        });
        let report = guest.end().swap_remove(0);
        assert!(carried.is_some(), "frames did not go round: {report} {:?}", switch.counters());
        assert!(number(&report, "tx_packets") >= CARRIED, "{report}");
        switch.quit();
    }
}

#[test]
#[ignore = "needs dpdk: run by `cargo xtask test`"]
fn frames_pass_between_our_guests_through_dpdk_switch() {
    for &ring in scope::last(&RINGS) {
        for &(size, mergeable) in scope::last(&[("64", true), ("mix", false)]) {
            Stage { size, mergeable, ..Stage::new(ring) }.one_way();
        }
    }
    for (ring, size) in scope::pick(&[("split", "1514"), ("packed", "1518")][..], &[]) {
        Stage { size, ..Stage::new(ring) }.one_way();
    }
}

#[test]
#[ignore = "needs dpdk: run by `cargo xtask test`"]
fn dpdks_switch_carries_chains_and_indirect_tables_of_our_guest() {
    let all = [("split", "chain"), ("split", "indirect"), ("packed", "chain"), ("packed", "indirect")];
    for &(ring, descriptors) in scope::pick(&all[..], &all[1..3]) {
        Stage { descriptors, size: "mix", ..Stage::new(ring) }.one_way();
    }
}

#[test]
#[ignore = "needs dpdk: run by `cargo xtask test`"]
fn our_guest_uses_two_pairs_of_queues_of_dpdks_switch() {
    for ring in scope::first(&RINGS) {
        for &mergeable in scope::first(&[false, true]) {
            Stage { pairs: 2, mergeable, size: "mix", ..Stage::new(ring) }.one_way();
        }
    }
}

#[test]
#[ignore = "needs dpdk: run by `cargo xtask test`"]
fn our_guest_listens_for_dpdks_switch() {
    for ring in scope::pick(&["split", "packed"][..], &[]) {
        Stage { listener: Listener::Guest, ..Stage::new(ring) }.one_way();
    }
    Stage { listener: Listener::Guest, pairs: 2, mergeable: false, ..Stage::new("packed") }.one_way();
}

#[test]
#[ignore = "needs dpdk: run by `cargo xtask test`"]
fn our_guest_returns_frames_of_dpdk_switch() {
    for &ring in scope::first(&RINGS) {
        for &mergeable in scope::last(&[true, false]) {
            Stage { mergeable, ..Stage::new(ring) }.round("macswap");
        }
    }
    Stage::new("split").round("io");
}
