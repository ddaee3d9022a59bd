//! DPDK's memif driver at the other end of our memif ports, in both roles: frames circulate between two of its ports
//! through the bridge, every packet is accounted for on both sides, and the port of a killed guest waits for the next
//! guest. Also covers paired ports of one switch, and a program beside the switch that uses our library.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use linerate_tests::process::Process;
use linerate_tests::switch::{Switch, assert_sums_agree};
use linerate_tests::testpmd::{Memif, Ring, Testpmd, VirtioUser};
use linerate_tests::{binary, folder, scope, wait};

use super::circulation::{CARRIED, NAMES, TIMEOUT, account, carry};

/// Sizes around buffer boundaries, and frames of several buffers.
const SIZES: [usize; 6] = [60, 64, 128, 129, 1514, 2000];
/// A jumbo frame, of five buffers. Used only with rings that hold all circulating frames: if a frame needs one buffer
/// more than are free, DPDK's sender (22.11, `eth_memif_tx`) takes a buffer that is not free and then overruns the
/// ring.
const JUMBO: usize = 9216;
const REACTION: Duration = Duration::from_secs(30);
const SWITCH_CPU: usize = 0;
const GUEST_CPU: usize = 1;

/// Configuration of a guest's two ports.
#[derive(Clone, Copy, Debug)]
struct Case {
    /// Whether the guest listens and the switch connects.
    guest_listens: bool,
    pairs: u16,
    /// Additional lines of each port's section.
    ours: &'static str,
    /// Additional arguments of each device.
    theirs: &'static str,
    /// Whether the sockets are abstract.
    is_abstract: bool,
}

const PLAIN: Case = Case { guest_listens: false, pairs: 1, ours: "", theirs: "", is_abstract: false };

impl Case {
    fn sockets(self, folder: &Path) -> [PathBuf; 2] {
        let sign = if self.is_abstract { "@" } else { "" };
        NAMES.map(|name| format!("{sign}{}", folder.join(name).display()).into())
    }

    fn switch(self, folder: &Path) -> Switch {
        let sockets = self.sockets(folder);
        let mut text = format!("[[worker]]\ncpu = {SWITCH_CPU}\n");
        for (name, socket) in NAMES.iter().zip(&sockets) {
            let mode = if self.guest_listens { "client" } else { "server" };
            // Writing to a String cannot fail.
            let _ = write!(
                text,
                "\n[[port]]\nname = \"{name}\"\nkind = \"memif\"\nsocket = \"{}\"\nmode = \"{mode}\"\nqueue_pairs = {}\n{}",
                socket.display(),
                self.pairs,
                self.ours
            );
        }
        Switch::start_from(folder, &text)
    }

    fn guest(self, folder: &Path, name: &str) -> Testpmd {
        let sockets = self.sockets(folder);
        let port = |side: usize| Memif {
            socket: &sockets[side],
            server: self.guest_listens,
            mac: side as u8 + 1,
            more: self.theirs,
        };
        let mut guest = Testpmd::memif(folder, name, GUEST_CPU, &[port(0), port(1)], self.pairs);
        guest.ready();
        guest
    }

    /// Carries frames of every size and accounts for every packet.
    fn check_sizes(self, sizes: &[usize]) {
        println!("{self:?}");
        let folder = folder();
        // A driver that connects does so once, when it starts.
        let switch = self.switch(folder.path());
        let mut guest = self.guest(folder.path(), "guest");
        for name in NAMES {
            switch.wait_running(name, self.pairs.into(), REACTION);
        }
        for size in sizes {
            carry(&mut guest, *size);
        }
        guest.drain();
        account(&switch, &guest.counters());
        guest.quit();
        for name in NAMES {
            switch.wait_state(name, "waiting", REACTION);
        }
        switch.stop();
    }
}

#[test]
#[ignore = "needs dpdk: run by `cargo xtask test`"]
fn dpdk_memif_client_carries_every_size_in_both_directions() {
    let ours = "id = 7\nsecret = \"abc\"\nring_size = 256\n";
    let chained = Case { ours, theirs: ",id=7,secret=abc,bsize=512", ..PLAIN };
    for (case, sizes) in scope::last(&[
        (PLAIN, &[&SIZES[..], &[JUMBO]].concat()[..]),
        (Case { is_abstract: true, ..PLAIN }, &[64]),
        (chained, &SIZES),
    ]) {
        case.check_sizes(sizes);
    }
    Case { pairs: 2, ..PLAIN }.check_sizes(&[1514, JUMBO]);
}

#[test]
#[ignore = "needs dpdk: run by `cargo xtask test`"]
fn guest_without_the_secret_is_rejected_with_a_reason() {
    let case = Case { ours: "secret = \"abc\"\n", ..PLAIN };
    let folder = folder();
    let switch = case.switch(folder.path());
    let guest = case.guest(folder.path(), "guest");
    for name in NAMES {
        switch.wait_state(name, "faulted", REACTION);
        let fault = switch.port(name)["reason"].to_string();
        assert!(fault.contains("it does not know the secret"), "{fault}");
    }
    drop(guest);
    switch.stop();
}

#[test]
#[ignore = "needs dpdk: run by `cargo xtask test`"]
fn killed_guest_reconnects_to_the_same_ports() {
    for &guest_listens in scope::first(&[false, true]) {
        let case = Case { guest_listens, ..PLAIN };
        let folder = folder();
        let switch = case.switch(folder.path());
        for name in ["first", "second", "third"] {
            for socket in PLAIN.sockets(folder.path()).iter().filter(|_| guest_listens) {
                // DPDK's driver does not replace the socket of a killed process.
                let _ = std::fs::remove_file(socket);
            }
            let mut guest = case.guest(folder.path(), name);
            for name in NAMES {
                switch.wait_running(name, 1, REACTION);
            }
            carry(&mut guest, 64);
            guest.kill();
            for port in NAMES {
                let gone = || (switch.running(port) == 0).then_some(());
                assert!(wait::until(REACTION, gone).is_some(), "{}", switch.port(port));
            }
        }
        switch.assert_sums_agree(&NAMES);
        switch.stop();
    }
}

#[test]
#[ignore = "needs dpdk: run by `cargo xtask test`"]
fn guest_survives_restart_of_a_killed_switch() {
    for &guest_listens in scope::first(&[false, true]) {
        let case = Case { guest_listens, ..PLAIN };
        let folder = folder();
        let first = case.switch(folder.path());
        let mut guest = case.guest(folder.path(), "guest");
        for name in NAMES {
            first.wait_running(name, 1, REACTION);
        }
        carry(&mut guest, 64);
        first.kill();
        let second = Switch::restart(folder.path());
        if !guest_listens {
            // DPDK's client connects only when its port is started.
            guest.say("port stop all");
            guest.say("port start all");
        }
        for name in NAMES {
            second.wait_running(name, 1, REACTION);
        }
        carry(&mut guest, 1514);
        second.assert_sums_agree(&NAMES);
        guest.quit();
        second.stop();
    }
}

#[test]
#[ignore = "needs dpdk: run by `cargo xtask test`"]
fn frames_circulate_during_upgrades_of_the_switch() {
    for &guest_listens in scope::first(&[false, true]) {
        let case = Case { guest_listens, ..PLAIN };
        let folder = folder();
        let mut switch = case.switch(folder.path());
        let mut guest = case.guest(folder.path(), "guest");
        for name in NAMES {
            switch.wait_running(name, 1, REACTION);
        }
        guest.circulate(1514, 2);
        for _ in 0..3 {
            switch.upgrade(&[]).expect("an upgrade");
            let before = guest.counters()[0].rx_packets;
            let carried = || (guest.counters()[0].rx_packets - before >= CARRIED).then_some(());
            assert!(wait::until(TIMEOUT, carried).is_some(), "{:?}", guest.counters());
        }
        guest.stop();
        guest.drain();
        account(&switch, &guest.counters());
        guest.quit();
        switch.stop();
    }
}

#[test]
#[ignore = "needs dpdk: run by `cargo xtask test`"]
fn memif_and_vhost_user_meet_on_one_bridge() {
    let folder = folder();
    let [left, right] = PLAIN.sockets(folder.path());
    let text = format!(
        "[[worker]]\ncpu = {SWITCH_CPU}\n\n\
         [[port]]\nname = \"left\"\nkind = \"memif\"\nsocket = \"{}\"\n\n\
         [[port]]\nname = \"right\"\nsocket = \"{}\"\n",
        left.display(),
        right.display()
    );
    let switch = Switch::start_from(folder.path(), &text);
    let memif = Memif { socket: &left, server: false, mac: 1, more: "" };
    let virtio = VirtioUser {
        socket: &right,
        server: false,
        mac: 2,
        ring: Ring::Packed,
        mergeable: true,
        pairs: 1,
        size: 256,
    };
    let mut guest = Testpmd::mixed(folder.path(), "guest", GUEST_CPU, &memif, &virtio);
    guest.ready();
    for name in NAMES {
        switch.wait_running(name, 1, REACTION);
    }
    for size in [64, 1514] {
        carry(&mut guest, size);
    }
    guest.drain();
    account(&switch, &guest.counters());
    guest.quit();
    switch.stop();
}

#[test]
#[ignore = "needs dpdk: run by `cargo xtask test`"]
fn patch_ports_join_two_bridges() {
    let folder = folder();
    let [left, right] = PLAIN.sockets(folder.path());
    let port = |name: &str, bridge: &str, rest: &str| {
        format!("\n[[port]]\nname = \"{name}\"\nbridge = \"{bridge}\"\nkind = {rest}\n")
    };
    let memif = |socket: &Path| format!("\"memif\"\nsocket = \"{}\"", socket.display());
    let text = [
        "[[bridge]]\nname = \"west\"\n\n[[bridge]]\nname = \"east\"\n".to_owned(),
        port("left", "west", &memif(&left)),
        port("there", "west", "\"patch\"\npeer = \"back\""),
        port("back", "east", "\"patch\"\npeer = \"there\""),
        port("right", "east", &memif(&right)),
    ];
    let switch = Switch::start_from(folder.path(), &text.concat());
    let mut guest = PLAIN.guest(folder.path(), "guest");
    for name in ["left", "there", "back", "right"] {
        switch.wait_running(name, 1, REACTION);
    }
    for size in [64, 1514, 2000, JUMBO] {
        carry(&mut guest, size);
    }
    guest.drain();
    let all = switch.settled(&["left", "there", "back", "right"]);
    assert_sums_agree(&all);
    let [left, there, back, right] = all.as_slice() else { unreachable!("four were asked for") };
    assert_eq!((there.tx_packets, there.tx_bytes), (back.rx_packets, back.rx_bytes), "west to east");
    assert_eq!((back.tx_packets, back.tx_bytes), (there.rx_packets, there.rx_bytes), "east to west");
    assert_eq!(left.rx_packets, there.tx_packets + there.queue_full, "what left sent went on");
    assert!(right.tx_packets > CARRIED && left.tx_packets > CARRIED);
    guest.quit();
    switch.stop();
}

#[test]
#[ignore = "needs dpdk: run by `cargo xtask test`"]
fn library_program_returns_every_frame_and_survives_the_switch() {
    let folder = folder();
    let reflector = binary::example("reflector");
    let first = PLAIN.switch(folder.path());
    let [_, right] = PLAIN.sockets(folder.path());
    let mut program = Process::spawn(folder.path(), "reflector", reflector, &[&right]);
    first.wait_running("right", 1, REACTION);
    let mut guest = alone(folder.path(), "guest");
    first.wait_running("left", 1, REACTION);
    reflect(&mut guest);
    let counters = first.settled(&NAMES);
    assert_sums_agree(&counters);
    assert_eq!(counters[1].tx_packets, counters[1].rx_packets, "all that went in came back");
    // It prints its counters once a second.
    program.wait_for("returned", 0, TIMEOUT);
    guest.quit();
    first.kill();
    let second = Switch::restart(folder.path());
    second.wait_running("right", 1, REACTION);
    let mut guest = alone(folder.path(), "again");
    second.wait_running("left", 1, REACTION);
    reflect(&mut guest);
    guest.quit();
    assert!(program.ended().is_none(), "{}", program.output());
    second.stop();
}

#[test]
#[ignore = "builds an example: run by `cargo xtask test`"]
fn library_program_forwards_packets_inline() {
    let folder = folder();
    let place = folder.path().display().to_string();
    let mut program = Process::spawn(folder.path(), "merged", binary::example("inline"), &[&place]);
    assert!(program.finish(TIMEOUT).success(), "{}", program.output());
    let output = program.output();
    let numbers: Vec<u64> = output.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    assert!(matches!(numbers[..], [sent, received] if sent > 0 && received == sent), "{output}");
}

/// A guest with one port.
fn alone(folder: &Path, name: &str) -> Testpmd {
    let [left, _] = PLAIN.sockets(folder);
    let port = Memif { socket: &left, server: false, mac: 1, more: "" };
    let mut guest = Testpmd::memif(folder, name, GUEST_CPU, &[port], 1);
    guest.ready();
    guest
}

/// Circulates frames that come back with exchanged addresses.
fn reflect(guest: &mut Testpmd) {
    for size in [64, 1514] {
        let before = guest.counters()[0].rx_packets;
        guest.say("set fwd macswap");
        guest.say(&format!("set txpkts {size}"));
        guest.say("start tx_first 2");
        let carried = || (guest.counters()[0].rx_packets - before >= CARRIED).then_some(());
        assert!(wait::until(TIMEOUT, carried).is_some(), "{size} B: {:?}", guest.counters());
        guest.stop();
    }
    guest.drain();
}

/// The other mode of a memif port.
mod every {
    use super::*;

    #[test]
    #[ignore = "needs dpdk: run by `cargo xtask test --all`"]
    fn dpdk_memif_server_carries_every_size_in_both_directions() {
        let listens = Case { guest_listens: true, ..PLAIN };
        listens.check_sizes(&[&SIZES[..], &[JUMBO]].concat());
        Case { pairs: 2, ..listens }.check_sizes(&[64, 1514]);
        let ours = "id = 7\nsecret = \"abc\"\nbuffer_size = 512\n";
        Case { ours, theirs: ",id=7,secret=abc", ..listens }.check_sizes(&SIZES);
        Case { is_abstract: true, ..listens }.check_sizes(&[64]);
    }
}
