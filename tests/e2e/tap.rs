//! TAP ports: network namespaces communicate through a switch, by every system call method, with ordinary and jumbo
//! frames, over IPv4 and IPv6; interfaces and namespaces are deleted and come back.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use linerate_tests::iperf::{iperf, received, transfer};
use linerate_tests::netns::Netns;
use linerate_tests::noise::{self, Noise};
use linerate_tests::switch::{Switch, assert_sums_agree};
use linerate_tests::{binary, folder, wait};

const LIMIT: Duration = Duration::from_secs(20);
const CONNECTED: &str = "connected";
/// MTU of frames of 9216 bytes, including their Ethernet header and without their checksum.
const JUMBO: u32 = 9202;
const FOUR: [&str; 2] = ["10.9.0.1", "10.9.0.2"];
const SIX: [&str; 2] = ["fd09::1", "fd09::2"];

/// A port of a switch: name, namespace of its interface, and more lines of its section.
struct Tap<'a> {
    name: &'a str,
    netns: &'a str,
    more: &'a str,
}

fn configuration(workers: usize, taps: &[Tap]) -> String {
    let mut text = String::new();
    for cpu in 0..workers {
        let _ = writeln!(text, "[[worker]]\ncpu = {cpu}");
    }
    text.push_str("[[bridge]]\nname = \"lan\"\n");
    for Tap { name, netns, more } in taps {
        let _ = write!(
            text,
            "[[port]]\nname = \"{name}\"\nbridge = \"lan\"\nkind = \"tap\"\ninterface = \"eth0\"\nnetns = \"{netns}\"\n{more}\n"
        );
    }
    text
}

/// Two namespaces at two ports of one switch.
struct Pair {
    left: Netns,
    right: Netns,
    switch: Switch,
}

impl Pair {
    fn start(folder: &Path, workers: usize, more: &str) -> Pair {
        let (left, right) = (Netns::new(), Netns::new());
        let taps = [
            Tap { name: "left", netns: left.name(), more },
            Tap { name: "right", netns: right.name(), more },
        ];
        let switch = Switch::start_from(folder, &configuration(workers, &taps));
        configure(&left, 0);
        configure(&right, 1);
        for port in ["left", "right"] {
            switch.wait_state(port, CONNECTED, LIMIT);
        }
        Pair { left, right, switch }
    }

    fn ping(&self) {
        self.left.ping(FOUR[1], 5, &[]);
        self.right.ping(SIX[0], 5, &[]);
    }

    fn assert_sums_agree(&self) {
        let counters = self.switch.settled(&["left", "right"]);
        assert!(counters.iter().all(|port| port.rx_packets > 0 && port.tx_packets > 0), "{counters:?}");
        assert_sums_agree(&counters);
    }
}

fn configure(netns: &Netns, side: usize) {
    netns.wait_link("eth0", true, LIMIT);
    netns.configure("eth0", &[&format!("{}/24", FOUR[side]), &format!("{}/64", SIX[side])]);
}

/// Traffic over both IP versions and both transports, in both directions.
fn talk(workers: usize, more: &str, mtu: u32) {
    let folder = folder();
    let folder = folder.path();
    let pair = Pair::start(folder, workers, &format!("mtu = {mtu}\n{more}"));
    let Pair { left, right, switch } = &pair;
    assert_eq!(left.link("eth0").expect("it was just there")["mtu"], mtu);
    for offload in ["CSUM", "TSO4", "TSO6", "TSO_ECN", "USO"] {
        assert!(switch.has_feature("left", offload), "{}", switch.port("left"));
    }
    pair.ping();
    let before = switch.settled(&["left"])[0].rx_bytes;
    let whole = (mtu - 28).to_string();
    left.ping(FOUR[1], 2, &["-M", "do", "-s", &whole]);
    let grown = switch.settled(&["left"])[0].rx_bytes - before;
    // Each frame also has an Ethernet header.
    assert!(grown >= 2 * u64::from(mtu + 14), "{grown} bytes");
    for address in [FOUR[1], SIX[1]] {
        for more in [&[][..], &["--reverse"]] {
            transfer(folder, left, right, address, 16, more);
        }
        let datagrams = ["--udp", "--bitrate", "20M", "--length", "1200", "--bytes", "1M"];
        let flood = iperf(folder, right, left, if address == SIX[1] { SIX[0] } else { FOUR[0] }, &datagrams);
        assert!(received(&flood) > 0, "{address}");
    }
    pair.assert_sums_agree();
    let Pair { left, switch, .. } = pair;
    switch.stop();
    left.wait_link("eth0", false, LIMIT);
}

/// Workers come, change and go under traffic, and the configuration file has the last one.
fn change_workers(io: &str) {
    println!("{io}");
    let folder = folder();
    let folder = folder.path();
    let pair = Pair::start(folder, 1, io);
    pair.ping();
    let Pair { left, switch, .. } = &pair;
    let words = ["-n", "-q", "-i", "0.01", "-W", "5", "-c", "300", FOUR[1]];
    let mut echoes = left.spawn(folder, "echoes", "ping", &words);
    for change in [
        &["add"][..],
        &["set", "1", "polling=busy"],
        &["set", "0", "--unset", "cpu"],
        &["remove", "0"],
        &["add", "--cpu", "0"],
        &["set", "1", "polling=adaptive"],
        &["remove", "1"],
    ] {
        std::thread::sleep(Duration::from_millis(200));
        let done = switch.tell(&[&["workers"], change, &["--save"]].concat());
        done.unwrap_or_else(|error| panic!("{change:?}: {error}"));
    }
    let last = switch.tell(&["workers", "remove", "0"]).expect_err("no worker is left");
    assert!(last.contains("the last one"), "{last}");
    assert!(echoes.finish(3 * LIMIT).success(), "{}", echoes.output());
    assert!(echoes.output().contains(" 300 received"), "{}", echoes.output());
    pair.ping();
    pair.assert_sums_agree();
    let Pair { switch, left: _left, right: _right } = pair;
    switch.stop();
    let text = fs::read_to_string(folder.join("switch.toml")).expect("the file of the switch");
    assert!(text.contains("[[worker]]\ncpu = 0\npolling = \"busy\"\n"), "{text}");
    let switch = Switch::restart(folder);
    let workers = switch.ask(&["workers", "show"]).unwrap_or_else(|error| panic!("no workers: {error}"));
    assert_eq!(workers["workers"].as_array().map(Vec::len), Some(1), "{workers}");
    switch.stop();
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn workers_change_without_a_lost_echo() {
    ["", "io = \"calls\"", "io = \"uring\""].into_iter().for_each(change_workers);
}

#[test]
#[ignore = "needs root and iperf3; run by `cargo xtask test`"]
fn namespaces_exchange_traffic_by_default_io() {
    talk(1, "", 1500);
}

#[test]
#[ignore = "needs root and iperf3; run by `cargo xtask test`"]
fn namespaces_exchange_traffic_by_system_calls() {
    talk(1, "io = \"calls\"", 1500);
}

#[test]
#[ignore = "needs root and iperf3; run by `cargo xtask test`"]
fn namespaces_exchange_traffic_by_io_uring() {
    talk(1, "io = \"uring\"", 1500);
}

#[test]
#[ignore = "needs root and iperf3; run by `cargo xtask test`"]
fn namespaces_exchange_traffic_by_sqpoll() {
    talk(1, "io = \"uring-sqpoll\"", 1500);
}

#[test]
#[ignore = "needs root and iperf3; run by `cargo xtask test`"]
fn jumbo_frames_pass() {
    talk(1, "", JUMBO);
    talk(1, "io = \"calls\"", JUMBO);
}

#[test]
#[ignore = "needs root and iperf3; run by `cargo xtask test`"]
fn several_workers_share_interfaces_with_several_queues() {
    talk(2, "queue_pairs = 2", 1500);
    talk(2, "queue_pairs = 2\nio = \"calls\"", 1500);
}

#[test]
#[ignore = "needs root and iperf3; run by `cargo xtask test`"]
fn several_workers_share_one_queue() {
    talk(2, "", 1500);
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn large_file_arrives_unchanged() {
    let folder = folder();
    let folder = folder.path();
    let pair = Pair::start(folder, 1, "");
    Noise::make(folder, noise::large()).send(folder, &pair.left, &pair.right, FOUR[0]);
    let sent = pair.switch.counters("left").rx_bytes;
    assert!(sent > noise::large(), "{sent} bytes went through the switch");
    pair.assert_sums_agree();
    pair.switch.stop();
}

/// Adds a third namespace whose ping to the left one must not be affected by the right one.
fn three(folder: &Path) -> (Pair, Netns) {
    let pair = Pair::start(folder, 1, "");
    let third = Netns::new();
    let settings = [format!("netns={}", third.name()), "interface=eth0".to_owned()];
    let add = [
        "ports",
        "add",
        "third",
        "--kind",
        "tap",
        "--bridge",
        "lan",
        "--set",
        &settings[0],
        "--set",
        &settings[1],
    ];
    pair.switch.tell(&add).unwrap_or_else(|error| panic!("no third port: {error}"));
    third.wait_link("eth0", true, LIMIT);
    third.configure("eth0", &["10.9.0.3/24"]);
    third.ping(FOUR[0], 2, &[]);
    (pair, third)
}

/// Waits until a port has connected `connects` times, without a reason, and checks that its history has `reason`.
fn wait_back(switch: &Switch, port: &str, connects: u64, reason: &str) {
    let back = wait::until(LIMIT, || {
        let live = switch.port(port);
        (live["state"] == CONNECTED && live["connects"] == connects).then_some(live)
    });
    let live = back.unwrap_or_else(|| panic!("{port} did not come back: {}", switch.port(port)));
    assert!(live["reason"].is_null(), "{live}");
    let events = live["history"].as_array().expect("a history");
    let named = events.iter().any(|event| event["reason"].as_str().is_some_and(|said| said.contains(reason)));
    assert!(named, "{events:?}");
    switch.wait_logged(&[&format!("\"port\":\"{port}\""), "WARN", reason], LIMIT);
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn deleted_tap_is_recreated_while_others_run() {
    let folder = folder();
    let (pair, third) = three(folder.path());
    pair.ping();
    pair.right.ip("link delete eth0");
    wait_back(&pair.switch, "right", 2, "the interface cannot be used: it was deleted");
    third.ping(FOUR[0], 5, &[]);
    assert_eq!(pair.switch.port("left")["connects"], 1);
    configure(&pair.right, 1);
    // The interface has another MAC address, which the kernel would find out after half a minute.
    pair.left.ip("neigh flush all");
    pair.ping();
    pair.switch.stop();
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn port_waits_while_its_namespace_is_deleted() {
    let folder = folder();
    let (pair, third) = three(folder.path());
    let Pair { left, right, switch } = pair;
    let name = right.name().to_owned();
    let right = right.replace(|| {
        let fault = format!("its network namespace {name} is gone");
        let gone = wait::until(LIMIT, || {
            let live = switch.port("right");
            let said = live["reason"].as_str().unwrap_or_default();
            (live["state"] == "faulted" && (said.contains(&fault) || said.contains("ip netns add")))
                .then_some(())
        });
        assert!(gone.is_some(), "{}", switch.port("right"));
        third.ping(FOUR[0], 5, &[]);
    });
    wait_back(&switch, "right", 2, "there is no network namespace");
    configure(&right, 1);
    left.ip("neigh flush all");
    left.ping(FOUR[1], 5, &[]);
    switch.stop();
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn a_port_waits_while_its_interface_is_down() {
    let folder = folder();
    let pair = Pair::start(folder.path(), 1, "");
    pair.ping();
    pair.right.ip("link set eth0 down");
    pair.switch.wait_state("right", "waiting", LIMIT);
    let _ = pair.left.attempt("ping", &["-c", "3", "-i", "0.1", "-W", "1", FOUR[1]]);
    let live = pair.switch.port("right");
    assert!(live["reason"].as_str().is_some_and(|reason| reason.ends_with("is down")), "{live}");
    assert!(live["drops"]["port-down"].as_u64().is_some_and(|lost| lost > 0), "{live}");
    configure(&pair.right, 1);
    pair.switch.wait_state("right", CONNECTED, LIMIT);
    pair.ping();
    pair.assert_sums_agree();
    pair.switch.stop();
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn existing_and_persistent_taps_are_kept() {
    let folder = folder();
    let (left, right) = (Netns::new(), Netns::new());
    left.ip("tuntap add dev eth0 mode tap");
    let taps = [
        Tap { name: "left", netns: left.name(), more: "mtu = 2000" },
        Tap { name: "right", netns: right.name(), more: "persist = true" },
    ];
    let switch = Switch::start_from(folder.path(), &configuration(1, &taps));
    configure(&left, 0);
    configure(&right, 1);
    left.ping(FOUR[1], 2, &[]);
    switch.stop();
    assert_eq!(left.link("eth0").expect("it was there before")["mtu"], 2000);
    assert!(right.link("eth0").is_some());
    let switch = Switch::restart(folder.path());
    left.ping(FOUR[1], 2, &[]);
    switch.stop();
}

/// Runs `linerate run` with an invalid configuration; returns its exit code and error output.
fn refused(folder: &Path, text: &str) -> (i32, String) {
    let file = folder.join("refused.toml");
    fs::write(&file, text).unwrap_or_else(|error| panic!("cannot write: {error}"));
    let control = folder.join("refused.sock");
    let words = [Path::new("--control"), &control, Path::new("run"), &file];
    let output = Command::new("timeout").arg("20").arg(binary::linerate()).args(words).output();
    let Output { status, stderr, .. } = output.unwrap_or_else(|error| panic!("cannot run linerate: {error}"));
    (status.code().unwrap_or(-1), String::from_utf8_lossy(&stderr).into_owned())
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn missing_namespace_affects_only_its_port() {
    let folder = folder();
    let here = Netns::new();
    let taps = [
        Tap { name: "left", netns: here.name(), more: "" },
        Tap { name: "right", netns: "linerate-nowhere", more: "" },
    ];
    let switch = Switch::start_from(folder.path(), &configuration(1, &taps));
    switch.wait_state("left", "connected", LIMIT);
    let why = switch.port("right")["reason"].to_string();
    assert!(why.contains("there is no network namespace /run/netns/linerate-nowhere"), "{why}");
    switch.stop();
    let (code, said) = refused(folder.path(), &configuration(1, &taps[1..]));
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("port \"right\": there is no network namespace"), "{said}");
    assert!(said.contains("remedy: make it first (`ip netns add`)"), "{said}");
}

#[test]
#[ignore = "needs root; run by `cargo xtask test`"]
fn existing_interface_of_another_kind_is_rejected_and_kept() {
    let folder = folder();
    let (left, right) = (Netns::new(), Netns::new());
    right.ip("link add eth0 type veth peer name eth1");
    let taps = [
        Tap { name: "left", netns: left.name(), more: "" },
        Tap { name: "right", netns: right.name(), more: "" },
    ];
    let (code, said) = refused(folder.path(), &configuration(1, &taps[1..]));
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("port \"right\": the interface eth0 exists and is no TAP interface"), "{said}");
    let switch = Switch::start_from(folder.path(), &configuration(1, &taps));
    switch.wait_state("right", "faulted", LIMIT);
    assert_eq!(right.link("eth0").expect("it exists")["linkinfo"]["info_kind"], "veth");
    right.ip("link delete eth0");
    switch.wait_state("right", "connected", LIMIT);
    switch.stop();
    let both = [
        Tap { name: "one", netns: left.name(), more: "" },
        Tap { name: "two", netns: left.name(), more: "" },
    ];
    let (code, said) = refused(folder.path(), &configuration(1, &both));
    assert!(code == 2 && said.contains("is already used by port \"one\""), "{said}");
}
