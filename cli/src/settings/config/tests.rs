//! Every error has a case here, with its line and the exact words.

mod bonds;
mod fast_path;
mod grants;
mod links;
mod multicast;
mod openflow;
mod security;
mod syntax;

use super::*;
use crate::settings::kinds::socket::{Mode, SocketSettings};
use crate::settings::kinds::virtio_user::VirtioUser;
use crate::settings::kinds::{self, PortKind};
use crate::settings::topology::{Polling, PortSettings, QueueFull};
use crate::settings::vlan::Vlan;
use console::Span;
use port::virtio_user::RingKind;
use std::time::Duration;

pub(super) fn host() -> Host {
    Host::of(&[0, 1, 2, 3], &[0, 1])
}

/// `line: error (remedy)` for every error.
fn errors(text: &str) -> Vec<String> {
    let Err(errors) = parse(text, &host(), None) else { return Vec::new() };
    let told = |m: Diagnostic| format!("{}: {} ({})", m.line.unwrap_or(0), m.headline(), m.remedy);
    errors.into_iter().map(told).collect()
}

#[track_caller]
pub(super) fn only(text: &str, expected: &str) {
    assert_eq!(errors(text), [expected]);
}

pub(super) const PORT: &str = "[[port]]\nname = \"a\"\nsocket = \"/tmp/lr-a.sock\"\n";

/// A port with one more line, which is line 4.
#[track_caller]
fn port_line(line: &str, expected: &str) {
    only(&format!("{PORT}{line}\n"), expected);
}

#[test]
fn a_full_file_becomes_a_topology() {
    let text = r#"
        [switch]
        name = "rack-1"
        [[worker]]
        cpu = 1
        polling = "busy"
        queue_full = "wait"
        [[bridge]]
        name = "red"
        ageing = "1m"
        table = 1_000_000
        max_macs_per_port = 10
        forward_reserved = true
        static = [{ mac = "02:00:00:00:00:01", port = "a", vlan = 10 }]
        [[bridge]]
        name = "blue"
        [[port]]
        name = "a"
        kind = "vhost-user"
        socket = "/tmp/lr-a.sock"
        mode = "client"
        queue_pairs = 2
        mtu = 9000
        bridge = "red"
        vlan = { trunk = [10, 20], native = 1 }
        broadcast_limit = 1000
        unknown_limit = 2000
        max_macs = 5
        [[port]]
        name = "b"
        socket = "/tmp/lr-b.sock"
        bridge = "blue"
        vlan = 7
    "#;
    let topology = parse(text, &host(), None).unwrap();
    let (worker, red, a) = (&topology.workers[0], &topology.bridges[0], &topology.ports[0]);
    assert_eq!((worker.cpu, worker.polling, worker.queue_full), (Some(1), Polling::Busy, QueueFull::Wait));
    assert_eq!(
        (red.ageing, red.table, red.max_macs_per_port, red.forward_reserved),
        (Span(Duration::from_mins(1)), 1_000_000, Some(10), true)
    );
    assert_eq!((red.statics[0].port.as_str(), red.statics[0].vlan), ("a", 10));
    assert_eq!(a.kind.to_string(), "vhost-user client at /tmp/lr-a.sock");
    assert_eq!((a.queue_pairs, a.mtu), (2, Some(9000)));
    assert_eq!(a.policy.vlan, Some(Vlan::Trunk { trunk: vec![10, 20], native: Some(1) }));
    assert_eq!(
        (a.policy.broadcast_limit, a.policy.unknown_limit, a.policy.security.max_macs),
        (Some(1000), Some(2000), Some(5))
    );
    assert_eq!(topology.ports[1].policy.vlan, Some(Vlan::Access(7)));
}

const UPLINK: &str = "[[port]]\nname = \"up\"\nsocket = \"/tmp/lr-up.sock\"\nkind = \"virtio-user\"\n";

/// A virtio-user port with one more line, which is line 5.
#[track_caller]
fn uplink_line(line: &str, expected: &str) {
    only(&format!("{UPLINK}{line}\n"), expected);
}

#[test]
fn a_virtio_user_port_connects_and_has_a_driver_of_its_own() {
    let at = |mode| SocketSettings { path: "/tmp/lr-up.sock".into(), mode, ..SocketSettings::default() };
    let topology = parse(UPLINK, &host(), None).unwrap();
    let usual = VirtioUser { socket: at(Mode::Client), ..VirtioUser::default() };
    assert_eq!(topology.ports[0].kind, PortKind::VirtioUser(usual));
    let text = format!(
        "{UPLINK}mode = \"server\"\nring = \"packed-inorder\"\nqueue_size = 300\nmergeable = false\n"
    );
    let topology = parse(&text, &host(), None).unwrap();
    let socket = at(Mode::Server);
    let (ring, queue_size) = (RingKind::PackedInOrder, 300);
    let driver = VirtioUser { ring, queue_size, mergeable: false, socket, offloads: true };
    assert_eq!(topology.ports[0].kind, PortKind::VirtioUser(driver));
    let told = topology.to_string();
    let expected =
        "port up: virtio-user server at /tmp/lr-up.sock, packed-inorder rings of 300, 1 queue pair";
    assert!(told.ends_with(expected), "{told}");
}

#[test]
fn port_settings_survive_the_control_api() {
    for text in [PORT, UPLINK] {
        let port = parse(text, &host(), None).unwrap().ports.remove(0);
        let json = serde_json::to_value(&port).unwrap();
        assert_eq!(json["kind"], port.kind.name());
        assert_eq!(serde_json::from_value::<PortSettings>(json).unwrap(), port);
    }
}

#[test]
fn invalid_driver_settings_are_rejected_with_a_remedy() {
    let words = "\"split\", \"split-inorder\", \"packed\" or \"packed-inorder\"";
    uplink_line(
        "ring = \"round\"",
        &format!("5: port \"up\": invalid value \"round\" for `ring`: expected {words} (write {words})"),
    );
    uplink_line(
        "queue_size = 64",
        "5: port \"up\": invalid value 64 for `queue_size`: expected 128 to 4096 (give 128 to 4096 entries)",
    );
    uplink_line(
        "queue_size = 300",
        "5: port \"up\": `queue_size` is 300, and split rings require a power of two (write 256 or 512, or ring = \"packed\")",
    );
    uplink_line(
        "mergeable = 1",
        "5: port \"up\": `mergeable` is an integer, not true or false (write true or false)",
    );
    uplink_line(
        "queue_size = 4096\nqueue_pairs = 128\nmtu = 65535",
        "1: port \"up\": its rings and buffers need 65946 MiB, and the maximum is 1024 MiB (lower `queue_pairs`, `queue_size` or `mtu`)",
    );
    uplink_line("queuesize = 1", "5: port \"up\": unknown key `queuesize` (did you mean `queue_size`?)");
    let remedy = "remove it; the guest negotiates it, and only ports of kind \"virtio-user\" are drivers";
    port_line(
        "ring = \"packed\"",
        &format!("4: port \"a\": `ring` is an option of a driver, and this port is a back end ({remedy})"),
    );
}

#[test]
fn a_file_of_ports_alone_gets_one_worker_and_one_bridge() {
    let topology = parse(PORT, &host(), None).unwrap();
    let expected = "\
switch linerate
├─ worker 0: any cpu, sleeps when idle, drops when a queue is full
└─ bridge main: 65536 addresses, aged out after 5m
   └─ port a: vhost-user server at /tmp/lr-a.sock, 1 queue pair";
    assert_eq!(topology.to_string(), expected);
}

#[test]
fn the_tree_shows_every_bridge_with_its_ports_limits_and_static_entries() {
    let text = format!(
        "{PORT}bridge = \"red\"\nvlan = 5\nbroadcast_limit = 10\nmax_macs = 3\n[[bridge]]\nname = \"red\"\n\
         static = [{{ mac = \"02:00:00:00:00:01\", port = \"a\", vlan = 5 }}]\n[[bridge]]\nname = \"blue\"\n"
    );
    let expected = "\
switch linerate
├─ worker 0: any cpu, sleeps when idle, drops when a queue is full
├─ bridge red: 65536 addresses, aged out after 5m
│  ├─ port a: vhost-user server at /tmp/lr-a.sock, 1 queue pair, access VLAN 5, at most 10 broadcasts/s, at most 3 addresses
│  └─ static 02:00:00:00:00:01 at port a, VLAN 5
└─ bridge blue: 65536 addresses, aged out after 5m";
    assert_eq!(parse(&text, &host(), None).unwrap().to_string(), expected);
}

#[test]
fn tx_coalesce_accepts_1_to_256_frames_and_up_to_a_second() {
    let remedy =
        "write \"immediate\", or how many frames are sent together: { frames = 32, delay = \"20us\" }";
    port_line(
        "tx_coalesce = 32",
        &format!("4: port \"a\": `tx_coalesce` is an integer, not {} ({remedy})", &remedy[6..]),
    );
    port_line(
        "tx_coalesce = { frames = 257 }",
        "4: port \"a\": invalid value 257 for `frames`: expected 1 to 256 (give 1 to 256 frames)",
    );
    for delay in ["0s", "1s 1us"] {
        port_line(
            &format!("tx_coalesce = {{ frames = 32, delay = \"{delay}\" }}"),
            &format!("4: port \"a\": invalid value {delay} for `delay`: expected 1us to 1s (give 1us to 1s)"),
        );
    }
}

#[test]
fn rates_of_a_policer_must_fit_its_kind() {
    let rate = "expected a rate from 8kbit/s to 1000Gbit/s (write cir = \"100Mbit/s\")";
    for (line, expected) in [
        ("policer = {}", "`cir` is missing (write cir = \"100Mbit/s\")".to_owned()),
        ("policer = { cir = \"10kpps\" }", format!("invalid value \"10kpps\" for `cir`: {rate}")),
        (
            "policer = { cir = \"1Mbit/s\", ebs = 9 }",
            "invalid value 9 for `ebs`: expected 1514 to 1099511627776 (give 1514 to 1099511627776 bytes)"
                .to_owned(),
        ),
        (
            "policer = { cir = \"1Mbit/s\", pir = \"2Mbit/s\" }",
            "`pir` is not a key of kind = \"srtcm\" (remove `pir`, or write kind = \"trtcm\")".to_owned(),
        ),
        (
            "policer = { kind = \"trtcm\", cir = \"3Mbit/s\", pir = \"2Mbit/s\" }",
            "invalid value 2Mbit/s for `pir`: expected at least `cir` (write at least 3Mbit/s)".to_owned(),
        ),
        (
            "policer = { cir = \"1Mbit/s\", violate = 64 }",
            "invalid value 64 for `violate`: expected 0 to 63 (give 0 to 63 as a DSCP)".to_owned(),
        ),
    ] {
        port_line(line, &format!("4: port \"a\": {expected}"));
    }
}

#[test]
fn classes_of_queues_must_fit_each_other() {
    let example = "[\"0 rate=900Mbit/s\", \"1 rate=100Mbit/s priority=0 dscp=46\"]";
    for (classes, expected) in [
        ("\"1 rate=1Mbit/s\"", "the default queue 0 is not a class without children"),
        ("\"0 rate=1Mbit/s\", \"0 rate=2Mbit/s\"", "queue 0 is configured twice"),
        ("\"0 rate=2Mbit/s ceil=1Mbit/s\"", "queue 0: its `ceil` is below its `rate`"),
        ("\"0 rate=1Mbit/s parent=7\"", "queue 0: no class before it is its parent"),
        (
            "\"0 rate=6Mbit/s\", \"1 rate=5Mbit/s\"",
            "the rates of the classes of the port are 11Mbit/s together, above its 10Mbit/s",
        ),
        (
            "\"1 rate=1Mbit/s\", \"0 rate=2Mbit/s parent=1\"",
            "the rates of the classes of queue 1 are 2Mbit/s together, above its 1Mbit/s",
        ),
    ] {
        let line = format!("queues = {{ rate = \"10Mbit/s\", classes = [{classes}] }}");
        port_line(&line, &format!("4: port \"a\": {expected} (write classes such as {example})"));
    }
}

#[test]
fn a_cpu_has_to_exist_to_be_allowed_and_to_be_free() {
    only("[[worker]]\ncpu = 9\n", "2: worker 0: CPU 9 is not online (choose one of 0, 1)");
    let remedy = "choose one of 0, 1, or start linerate with a wider mask (taskset)";
    only(
        "[[worker]]\ncpu = 3\n",
        &format!("2: worker 0: CPU 3 is outside this process's affinity mask ({remedy})"),
    );
    let expected =
        "4: worker 1: CPU 1 is already assigned to worker 0 (line 2) (give each worker a CPU of its own)";
    only("[[worker]]\ncpu = 1\n[[worker]]\ncpu = 1\n", expected);
    let expected =
        "2: worker 0: invalid value -1 for `cpu`: expected 0 to 65535 (give 0 to 65535 as a CPU's number)";
    only("[[worker]]\ncpu = -1\n", expected);
}

#[test]
fn vlans_are_numbered_1_to_4094() {
    port_line(
        "vlan = 4095",
        "4: port \"a\": invalid value 4095 for `vlan`: expected 1 to 4094 (give 1 to 4094 as a VLAN)",
    );
    let form = "write { trunk = [10, 20], native = 1 }, or a number for an access port";
    port_line("vlan = { native = 1 }", &format!("4: port \"a\": `vlan` has no list called `trunk` ({form})"));
    port_line("vlan = { trunk = [] }", "4: port \"a\": `trunk` is empty (list at least one VLAN)");
    port_line("vlan = { trunk = [7, 7] }", "4: port \"a\": `trunk` lists VLAN 7 twice (list it once)");
    port_line(
        "vlan = { trunk = [1], nativ = 2 }",
        "4: port \"a\": unknown key `nativ` (did you mean `native`?)",
    );
    let expected =
        "4: port \"a\": invalid value 0 for `native`: expected 1 to 4094 (give 1 to 4094 as a VLAN)";
    port_line("vlan = { trunk = [1], native = 0 }", expected);
    let expected = [
        "4: port \"a\": invalid value 0 in `trunk`: expected 1 to 4094 (list VLANs from 1 to 4094)",
        "4: port \"a\": `trunk` lists a string, not an integer (list VLANs from 1 to 4094)",
    ];
    assert_eq!(errors(&format!("{PORT}vlan = {{ trunk = [1, 0, \"x\"] }}\n")), expected);
    let expected = "4: port \"a\": `vlan` is a string, not a VLAN, or { trunk = [10, 20], native = 1 } \
        (write a VLAN, or { trunk = [10, 20], native = 1 })";
    port_line("vlan = \"all\"", expected);
}

#[test]
fn numbers_have_ranges() {
    let expected =
        "4: port \"a\": invalid value 0 for `queue_pairs`: expected 1 to 128 (give 1 to 128 pairs)";
    port_line("queue_pairs = 0", expected);
    port_line(
        "mtu = 70000",
        "4: port \"a\": invalid value 70000 for `mtu`: expected 68 to 65535 (give 68 to 65535 bytes)",
    );
    let range = "expected 1 to 4294967295 (give 1 to 4294967295 packets a second)";
    port_line(
        "broadcast_limit = 0",
        &format!("4: port \"a\": invalid value 0 for `broadcast_limit`: {range}"),
    );
    port_line("unknown_limit = -1", &format!("4: port \"a\": invalid value -1 for `unknown_limit`: {range}"));
    let expected = "4: port \"a\": invalid value 99999999 for `max_macs`: expected 1 to 16777216 (give 1 to 16777216 addresses)";
    port_line("max_macs = 99999999", expected);
    let bridge = |line: &str, expected: &str| only(&format!("[[bridge]]\nname = \"x\"\n{line}\n"), expected);
    bridge(
        "ageing = \"1s\"",
        "3: bridge \"x\": invalid value 1s for `ageing`: expected 10s to 11days 13h 46m 40s (give 10s to 11days 13h 46m 40s)",
    );
    bridge(
        "table = 3",
        "3: bridge \"x\": invalid value 3 for `table`: expected 16 to 16777216 (give 16 to 16777216 addresses)",
    );
    let limit = "give 1 to 100 addresses, at most the size of the table";
    let reason = "invalid value 101 for `max_macs_per_port`: expected 1 to 100";
    let expected = format!("3: bridge \"x\": {reason} ({limit})");
    bridge("max_macs_per_port = 101\ntable = 100", &expected);
}

#[test]
fn names_fit_into_commands_and_urls() {
    let remedy =
        "write 1 to 32 letters, digits, dots, dashes or underscores, and begin with a letter or digit";
    only("[switch]\nname = \"a b\"\n", &format!("2: switch: `name` \"a b\" contains ' ' ({remedy})"));
    only("[[bridge]]\nname = \"\"\n", &format!("2: bridge \"\": `name` is empty ({remedy})"));
    let port = PORT.replace("\"a\"", "\"-a\"");
    only(&port, &format!("2: port \"-a\": `name` begins with '-' ({remedy})"));
    let long = "x".repeat(100);
    let place = format!("port \"{}...\"", "x".repeat(32));
    let port = format!("[[port]]\nname = \"{long}\"\nsocket = \"/tmp/lr-a.sock\"\n");
    only(&port, &format!("2: {place}: `name` has 100 characters; the maximum is 32 ({remedy})"));
}

#[test]
fn a_port_joins_a_bridge_that_exists() {
    let two = "[[bridge]]\nname = \"red\"\n[[bridge]]\nname = \"blue\"\n";
    let missing = "5: port \"a\": `bridge` is missing, and there are several bridges (add a line: bridge = \"red\" or \"blue\")";
    only(&format!("{two}{PORT}"), missing);
    let near = "8: port \"a\": there is no bridge \"bleu\" (did you mean \"blue\"?)";
    only(&format!("{two}{PORT}bridge = \"bleu\"\n"), near);
    let far = "8: port \"a\": there is no bridge \"x\" (name \"red\" or \"blue\", or add a [[bridge]] section with this name)";
    only(&format!("{two}{PORT}bridge = \"x\"\n"), far);
    let twice = "4: bridge \"red\": a bridge of this name already exists (line 2) (rename one of them)";
    only("[[bridge]]\nname = \"red\"\n[[bridge]]\nname = \"red\"\n", twice);
}

#[test]
fn more_than_1024_ports_are_rejected() {
    let port = |i: usize| format!("[[port]]\nname = \"p{i}\"\nsocket = \"/tmp/lr-p{i}.sock\"\n");
    let text: String = (0..1025).map(port).collect();
    let expected = "3073: port \"p1024\": there are 1025 ports, and the maximum is 1024 \
        (move some of them to a second switch)";
    only(&text, expected);
}

#[test]
fn the_web_page_needs_a_loopback_address_and_an_absolute_token_file() {
    let expected = "2: switch: invalid value \"192.0.2.1:9102\" for `web`: expected a loopback address with a port, \
        because the page has no TLS (write 127.0.0.1 or [::1] with a port; other machines reach it by `ssh -L` or a \
        proxy with TLS)";
    only("[switch]\nweb = \"192.0.2.1:9102\"\n", expected);
    let expected = "3: switch: `web_token_file` token: the path is not absolute (begin it with /)";
    only("[switch]\nweb = \"127.0.0.1:9102\"\nweb_token_file = \"token\"\n", expected);
}

#[test]
fn a_socket_needs_a_short_absolute_path_in_a_directory_that_exists() {
    let port = |path: &str| PORT.replace("/tmp/lr-a.sock", path);
    let told = |path: &str, why: &str| format!("3: port \"a\": `socket` {path}: {why}");
    let relative = "the path is not absolute (begin it with /, so that guests use the same file)";
    only(&port("a.sock"), &told("a.sock", relative));
    let nowhere = "its directory does not exist (mkdir -p /lr-nowhere)";
    only(&port("/lr-nowhere/a"), &told("/lr-nowhere/a", nowhere));
    let long = format!("/tmp/{}", "x".repeat(103));
    let why = "the path has 108 bytes, and a Unix socket's has room for 107 (choose a shorter one)";
    only(&port(&long), &told(&long, why));
    assert_eq!(errors(&port(&long[..107])), [""; 0]);
    only(&port("/tmp"), &told("/tmp", "it exists and is not a socket (choose another path, or remove it)"));
}

#[test]
fn the_control_socket_is_validated_as_a_path_of_its_own() {
    let expected = "2: switch: `control` c.sock: the path is not absolute (begin it with /, so that guests use the same file)";
    only("[switch]\ncontrol = \"c.sock\"\n", expected);
    let expected = "5: port \"a\": `socket` is the control socket (give the port a path of its own)";
    only(&format!("[switch]\ncontrol = \"/tmp/lr-a.sock\"\n{PORT}"), expected);
}

#[test]
fn the_command_line_overrides_the_files_control_socket() {
    let topology = parse(PORT, &host(), Some(Path::new("/tmp/other.sock"))).unwrap();
    assert_eq!(topology.switch.control.as_deref(), Some(Path::new("/tmp/other.sock")));
}

#[test]
fn the_peer_of_a_patch_is_a_port_of_the_file() {
    let end = |name: &str, peer: &str, bridge: &str| {
        format!("[[port]]\nname = \"{name}\"\nkind = \"patch\"\npeer = \"{peer}\"\nbridge = \"{bridge}\"\n")
    };
    let bridges = "[[bridge]]\nname = \"one\"\n[[bridge]]\nname = \"two\"\n";
    let remedy = "add a [[port]] section with this name";
    let expected = format!("8: port \"a\": there is no port \"lost\" ({remedy})");
    only(&format!("{bridges}{}", end("a", "lost", "one")), &expected);
    let other = format!(
        "{bridges}{}[[port]]\nname = \"b\"\nkind = \"null\"\nbridge = \"two\"\n",
        end("a", "b", "one")
    );
    only(
        &other,
        "8: port \"a\": port \"b\" is not paired with this one (write kind = \"patch\" and peer = \"a\" there)",
    );
    let ends = format!("{bridges}{}{}", end("a", "b", "one"), end("b", "a", "two"));
    assert_eq!(errors(&ends), [""; 0]);
}

#[test]
fn a_text_that_was_valid_before_is_read_although_its_files_are_gone() {
    let file = |name: &str, kind: &str| format!("[[port]]\nname = \"{name}\"\n{kind}\n");
    let text = file("a", "socket = \"/nowhere/a.sock\"")
        + &file("b", "kind = \"pcap\"\nread = \"/nowhere/b.pcap\"")
        + &file("c", &format!("kind = \"pcap\"\nwrite = \"{}/Cargo.toml\"", env!("CARGO_MANIFEST_DIR")))
        + "[[bridge]]\nname = \"main\"\npipeline = \"openflow\"\nmanagement = \"/nowhere/m.sock\"\n"
        + "[[worker]]\ncpu = 3\n";
    let errors = errors(&text);
    assert_eq!(errors.len(), 5, "{errors:?}");
    let past = parse_past(&text, &host(), None);
    let names: Vec<_> = past.ports.iter().map(|port| port.name.as_str()).collect();
    assert_eq!((names, past.workers[0].cpu), (vec!["a", "b", "c"], Some(3)));
    assert_eq!(past.ports, ports(&text));
}
