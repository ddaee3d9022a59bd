//! DPDK's virtio-user driver as the guest of our switch: frames circulate between two ports of one guest through the
//! bridge. Covers every ring kind, mergeable and not, both socket modes, one and two queue pairs, and every size; after
//! each run every packet is accounted for on both sides.

use std::path::{Path, PathBuf};
use std::time::Duration;

use linerate_tests::switch::{Port, Switch};
use linerate_tests::testpmd::{Ring, Testpmd, Vhost, VirtioUser};
use linerate_tests::{folder, scope};

use super::circulation::{NAMES, account, carry, keep_carrying};

const MACS: [u8; 2] = [1, 2];
/// Sizes at boundaries: the shortest frame, the head that a burst copies, the longest without and with a tag.
const SIZES: [usize; 8] = [60, 64, 127, 128, 129, 590, 1514, 1518];
const REACTION: Duration = Duration::from_secs(30);
const SWITCH_CPU: usize = 0;
const GUEST_CPU: usize = 1;

/// Configuration of a guest.
#[derive(Clone, Copy, Debug)]
struct Case {
    ring: Ring,
    mergeable: bool,
    /// Whether the guest listens and the switch connects.
    guest_listens: bool,
    pairs: u16,
    size: u16,
}

impl Case {
    fn new(ring: Ring, mergeable: bool) -> Case {
        Case { ring, mergeable, guest_listens: false, pairs: 1, size: 256 }
    }

    fn sockets(folder: &Path) -> [PathBuf; 2] {
        NAMES.map(|name| folder.join(name))
    }

    fn switch(self, folder: &Path) -> Switch {
        let sockets = Case::sockets(folder);
        let port = |side: usize| Port {
            name: NAMES[side],
            socket: &sockets[side],
            client: self.guest_listens,
            pairs: self.pairs,
        };
        Switch::start(folder, SWITCH_CPU, &[port(0), port(1)])
    }

    fn guest(self, folder: &Path, name: &str) -> Testpmd {
        let sockets = Case::sockets(folder);
        let port = |side: usize| VirtioUser {
            socket: &sockets[side],
            server: self.guest_listens,
            mac: MACS[side],
            ring: self.ring,
            mergeable: self.mergeable,
            pairs: self.pairs,
            size: self.size,
        };
        let mut guest = Testpmd::guest(folder, name, GUEST_CPU, &[port(0), port(1)]);
        guest.ready();
        guest
    }

    /// Checks that the negotiated features are those of the case, without fallback to another ring.
    fn check_negotiated(self, switch: &Switch, name: &str) {
        let packed = matches!(self.ring, Ring::Packed | Ring::PackedVec);
        let in_order = matches!(self.ring, Ring::SplitInOrder | Ring::PackedVec);
        let wanted = [("ring-packed", packed), ("in-order", in_order), ("mrg-rxbuf", self.mergeable)];
        for (feature, wanted) in wanted {
            let port = switch.port(name);
            assert_eq!(switch.has_feature(name, feature), wanted, "{feature} of {name}: {port}");
        }
    }

    /// DPDK does not wait for the switch to start its rings; earlier frames are dropped as intended.
    fn wait_running(self, switch: &Switch) {
        for name in NAMES {
            switch.wait_running(name, self.pairs.into(), REACTION);
        }
    }

    /// Carries frames of every size and accounts for every packet.
    fn check_sizes(self, sizes: &[usize]) {
        println!("{self:?}");
        let folder = folder();
        let switch = self.switch(folder.path());
        let mut guest = self.guest(folder.path(), "guest");
        self.wait_running(&switch);
        for size in sizes {
            carry(&mut guest, *size);
        }
        for name in NAMES {
            self.check_negotiated(&switch, name);
        }
        guest.drain();
        account(&switch, &guest.counters());
        guest.quit();
        check_disconnected(&switch);
        switch.stop();
    }
}

/// Checks that both ports wait for a guest because the last one disconnected, and that no ring fault was reported.
fn check_disconnected(switch: &Switch) {
    for name in NAMES {
        switch.wait_state(name, "waiting", REACTION);
        let port = switch.port(name);
        let events = port["history"].as_array().expect("a history");
        let last = events.iter().rposition(|event| event["state"] == "connected").expect("it was connected");
        assert_eq!(events[last + 1]["reason"], "guest disconnected", "{port}");
        // A port that connects waits for another reason when the guest's socket is gone.
        assert!(events[last + 1..].iter().all(|event| event["state"] == "waiting"), "{events:?}");
        assert!(events.iter().all(|event| event["state"] != "faulted"), "{events:?}");
    }
}

/// Carries every size with and without mergeable buffers.
fn check_ring(ring: Ring) {
    for mergeable in [true, false] {
        Case::new(ring, mergeable).check_sizes(&SIZES);
    }
}

#[test]
#[ignore = "needs dpdk: run by `cargo xtask test`"]
fn split_rings_carry_every_size_in_both_directions() {
    check_ring(Ring::Split);
}

#[test]
#[ignore = "needs dpdk: run by `cargo xtask test`"]
fn packed_in_order_rings_carry_every_size_in_both_directions() {
    check_ring(Ring::PackedVec);
}

#[test]
#[ignore = "needs dpdk: run by `cargo xtask test`"]
fn a_switch_connects_to_guests_that_listen() {
    for &ring in scope::first(&Ring::ALL) {
        for (pairs, mergeable) in [(1, false), (2, true)] {
            Case { guest_listens: true, pairs, ..Case::new(ring, mergeable) }.check_sizes(&[64, 1518]);
        }
    }
}

#[test]
#[ignore = "needs dpdk: run by `cargo xtask test`"]
fn both_queue_pairs_of_a_guest_are_used() {
    for &ring in scope::last(&Ring::ALL) {
        for &mergeable in scope::first(&[true, false]) {
            Case { pairs: 2, ..Case::new(ring, mergeable) }.check_sizes(&[64, 1518]);
        }
    }
}

#[test]
#[ignore = "needs dpdk: run by `cargo xtask test`"]
fn crashed_guest_reconnects_to_the_same_ports() {
    let case = Case::new(Ring::Packed, true);
    let folder = folder();
    let switch = case.switch(folder.path());
    for name in ["first", "second", "third"] {
        let mut guest = case.guest(folder.path(), name);
        case.wait_running(&switch);
        carry(&mut guest, 64);
        guest.kill();
        for port in NAMES {
            switch.wait_state(port, "waiting", REACTION);
        }
    }
    switch.assert_sums_agree(&NAMES);
    switch.stop();
}

#[test]
#[ignore = "needs dpdk: run by `cargo xtask test`"]
fn listening_guest_survives_restart_of_a_killed_switch() {
    for &ring in scope::first(&[Ring::Packed, Ring::Split, Ring::PackedVec, Ring::SplitInOrder]) {
        let case = Case { guest_listens: true, ..Case::new(ring, true) };
        let folder = folder();
        let first = case.switch(folder.path());
        let mut guest = case.guest(folder.path(), "guest");
        case.wait_running(&first);
        keep_carrying(&mut guest, 64);
        first.kill();
        let second = Switch::restart(folder.path());
        case.wait_running(&second);
        guest.stop();
        carry(&mut guest, 1514);
        second.assert_sums_agree(&NAMES);
        guest.quit();
        second.stop();
    }
}

/// The other rings, and DPDK as the switch.
mod every {
    use super::*;

    #[test]
    #[ignore = "needs dpdk: run by `cargo xtask test --all`"]
    fn the_guest_and_this_harness_work_with_dpdks_own_vhost_library() {
        for ring in Ring::ALL {
            let case = Case { guest_listens: true, pairs: 2, ..Case::new(ring, true) };
            println!("{case:?}");
            let folder = folder();
            let sockets = Case::sockets(folder.path());
            let ports = [0, 1].map(|side| Vhost { socket: &sockets[side], client: true, pairs: case.pairs });
            let mut switch = Testpmd::switch(folder.path(), "switch", SWITCH_CPU, &ports);
            switch.ready();
            switch.say("set fwd io");
            switch.say("start");
            let mut guest = case.guest(folder.path(), "guest");
            for size in SIZES {
                carry(&mut guest, size);
            }
            guest.drain();
            guest.quit();
            switch.quit();
        }
    }

    #[test]
    #[ignore = "needs dpdk: run by `cargo xtask test --all`"]
    fn split_in_order_rings_carry_every_size_in_both_directions() {
        check_ring(Ring::SplitInOrder);
    }

    #[test]
    #[ignore = "needs dpdk: run by `cargo xtask test --all`"]
    fn packed_rings_carry_every_size_in_both_directions() {
        check_ring(Ring::Packed);
    }
}
