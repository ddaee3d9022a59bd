//! Linux guests in QEMU: ping, file transfer, restart of a guest, and restart of the switch.

use std::path::Path;
use std::time::Duration;

use linerate_tests::folder;
use linerate_tests::switch::{Port, Switch};
use linerate_tests::testpmd::{Testpmd, Vhost};
use linerate_tests::vm::{GuestNic, Image, Vm};

const REACTION: Duration = Duration::from_secs(30);
const NAMES: [&str; 2] = ["left", "right"];

/// The two guests of an end-to-end test, connected to the sockets `left` and `right` of its folder.
struct Pair {
    image: Image,
    server: bool,
    packed: bool,
}

impl Pair {
    fn start(&self, folder: &Path, side: usize) -> Vm {
        let socket = folder.join(NAMES[side]);
        let plug =
            GuestNic { socket: &socket, server: self.server, packed: self.packed, number: side as u8 + 1 };
        Vm::start(folder, &format!("guest-{}", NAMES[side]), &self.image, &plug)
    }

    fn start_both(&self, folder: &Path) -> [Vm; 2] {
        [0, 1].map(|side| self.start(folder, side))
    }
}

/// Starts a switch with both ports of a pair, in the mode opposite to the guests'.
fn switch_for(folder: &Path, pair: &Pair) -> Switch {
    let sockets = NAMES.map(|name| folder.join(name));
    let port =
        |side: usize| Port { name: NAMES[side], socket: &sockets[side], client: pair.server, pairs: 1 };
    Switch::start(folder, 0, &[port(0), port(1)])
}

/// Ping, file transfer, kill and restart of one guest, ping; then the counters must agree.
fn visit(pair: &Pair) {
    let folder = folder();
    let switch = switch_for(folder.path(), pair);
    let mut guests = pair.start_both(folder.path());
    guests.iter_mut().for_each(Vm::ready);
    for name in NAMES {
        assert_eq!(switch.has_feature(name, "ring-packed"), pair.packed, "{}", switch.port(name));
    }
    guests[0].ping(2);
    let [left, right] = &mut guests;
    left.send_file(right);
    let [mut left, right] = guests;
    right.kill();
    switch.wait_state("right", "waiting", REACTION);
    switch.wait_state("left", "connected", REACTION);
    let mut right = pair.start(folder.path(), 1);
    right.ready();
    left.ping(2);
    right.ping(1);
    switch.assert_sums_agree(&NAMES);
    drop((left, right));
    switch.stop();
}

#[test]
#[ignore = "needs QEMU and a kernel: run by `cargo xtask test`"]
fn linux_guests_with_packed_rings_exchange_files_and_reconnect() {
    visit(&Pair { image: Image::make(), server: false, packed: true });
}

/// Starts both guests and pings; then the switch is killed and restarted, and QEMU reconnects by itself.
fn restarted(folder: &Path, packed: bool) -> (Switch, [Vm; 2]) {
    let pair = Pair { image: Image::make(), server: false, packed };
    let first = switch_for(folder, &pair);
    let mut guests = pair.start_both(folder);
    guests.iter_mut().for_each(Vm::ready);
    guests[0].ping(2);
    first.kill();
    let second = Switch::restart(folder);
    for name in NAMES {
        second.wait_state(name, "connected", REACTION);
    }
    (second, guests)
}

fn talk_again(switch: Switch, mut guests: [Vm; 2]) {
    guests[1].ping(1);
    let [left, right] = &mut guests;
    left.send_file(right);
    switch.assert_sums_agree(&NAMES);
    drop(guests);
    switch.stop();
}

/// The guests' kernels notice only lost packets.
#[test]
#[ignore = "needs QEMU and a kernel: run by `cargo xtask test`"]
fn linux_guests_survive_restart_of_a_killed_switch() {
    let folder = folder();
    let (switch, guests) = restarted(folder.path(), false);
    talk_again(switch, guests);
}

/// Other modes of the guests and rings, and DPDK as the switch.
mod every {
    use super::*;

    #[test]
    #[ignore = "needs QEMU, a kernel and DPDK: run by `cargo xtask test --all`"]
    fn the_guests_and_this_harness_work_with_dpdks_own_vhost_library() {
        let folder = folder();
        let sockets = NAMES.map(|name| folder.path().join(name));
        let ports = [0, 1].map(|side| Vhost { socket: &sockets[side], client: false, pairs: 1 });
        let mut switch = Testpmd::switch(folder.path(), "testpmd", 0, &ports);
        switch.ready();
        switch.say("set fwd io");
        switch.say("start");
        let pair = Pair { image: Image::make(), server: false, packed: false };
        let mut guests = pair.start_both(folder.path());
        guests.iter_mut().for_each(Vm::ready);
        guests[0].ping(2);
        let [left, right] = &mut guests;
        left.send_file(right);
    }

    #[test]
    #[ignore = "needs QEMU and a kernel: run by `cargo xtask test --all`"]
    fn linux_guests_with_split_rings_exchange_files_and_reconnect() {
        visit(&Pair { image: Image::make(), server: false, packed: false });
    }

    #[test]
    #[ignore = "needs QEMU and a kernel: run by `cargo xtask test --all`"]
    fn listening_linux_guests_exchange_files_and_reconnect() {
        visit(&Pair { image: Image::make(), server: true, packed: false });
    }

    /// Kills the switch under traffic, several times.
    fn survive_kills(packed: bool) {
        let folder = folder();
        let (mut switch, mut guests) = restarted(folder.path(), packed);
        // The shell of a guest is its first process, and ends if an orphan does while it waits for a command.
        let traffic = "((ping -A -w 20 10.0.0.2 >/dev/null; sleep 1000) &) ; sleep 0.2";
        guests[0].succeed(traffic, REACTION);
        for _ in 0..5 {
            switch = Switch::restart(&switch.kill());
            for name in NAMES {
                switch.wait_state(name, "connected", REACTION);
            }
            guests[1].ping(1);
        }
        talk_again(switch, guests);
    }

    #[test]
    #[ignore = "needs QEMU and a kernel: run by `cargo xtask test --all`"]
    fn linux_guests_with_split_rings_survive_kills_of_the_switch() {
        survive_kills(false);
    }

    /// The guest's memory does not contain the position of the back end in a packed ring; the switch keeps it in a file.
    #[test]
    #[ignore = "needs QEMU and a kernel: run by `cargo xtask test --all`"]
    fn linux_guests_with_packed_rings_survive_kills_of_the_switch() {
        survive_kills(true);
    }
}
