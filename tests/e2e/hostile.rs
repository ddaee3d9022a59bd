//! Guests that attack the switch, beside a calm pair of guests: the switch survives, every frame is forwarded or
//! counted under a named reason, the counters of the calm pair agree with those of the switch, and an attacker that
//! breaks a rule is disconnected or its frames are dropped under a named reason. No check depends on time.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use linerate_tests::switch::{Counters, Switch, assert_sums_agree};
use linerate_tests::{binary, folder, process::Process, scope};
use serde_json::Value;

const LIMIT: Duration = Duration::from_mins(1);
const PORTS: [&str; 4] = ["calm-a", "calm-b", "attacker", "receiver"];
const RINGS: [&str; 4] = ["split", "split-inorder", "packed", "packed-inorder"];
/// Minimum number of frames that the calm receiver gets, of tens of thousands.
const MIN_FRAMES: u64 = 1_000;

/// Required trace of a rule-breaking attack at its port.
#[derive(Clone, Copy, PartialEq)]
enum Trace {
    /// No trace: the attack stays within the rules, or its frames are counted elsewhere.
    None,
    /// A closed connection, or frames dropped for a reason other than a full queue.
    Named,
}

const ATTACKS: [(&str, Trace); 35] = [
    ("greedy", Trace::None),
    ("tso-pieces", Trace::Named),
    ("tso-pieces-broadcast", Trace::Named),
    ("tso-segments", Trace::None),
    ("tso-segments-broadcast", Trace::None),
    ("long-frames", Trace::None),
    ("chains", Trace::Named),
    ("indirect", Trace::Named),
    ("tiny-buffers", Trace::Named),
    ("no-drain", Trace::None),
    ("mac-theft", Trace::None),
    ("random-macs", Trace::None),
    ("bad-mss", Trace::Named),
    ("bad-headers", Trace::Named),
    ("uso", Trace::None),
    ("kicks", Trace::None),
    ("reconnect", Trace::None),
    ("memif-chains", Trace::None),
    ("memif-long", Trace::None),
    ("memif-pieces", Trace::None),
    ("memif-empty", Trace::Named),
    ("memif-loop", Trace::Named),
    ("memif-offsets", Trace::Named),
    ("memif-index", Trace::Named),
    ("memif-tiny-buffers", Trace::Named),
    ("backend-long", Trace::None),
    ("backend-segments", Trace::None),
    ("backend-no-drain", Trace::None),
    ("backend-ids", Trace::Named),
    ("backend-lengths", Trace::Named),
    ("backend-index", Trace::Named),
    ("backend-buffers", Trace::Named),
    ("backend-headers", Trace::Named),
    ("backend-calls", Trace::None),
    ("stream-long", Trace::None),
];

/// Returns the port kind that an attack targets.
fn kind(attack: &str) -> &str {
    match attack.split_once('-') {
        Some(("backend", _)) => "virtio-user",
        Some((kind @ ("memif" | "stream"), _)) => kind,
        _ => "vhost-user",
    }
}

/// Side that listens for the connections of an end-to-end test.
#[derive(Clone, Copy, PartialEq)]
enum Listens {
    Switch,
    Guests,
}

/// Configuration of an attack.
#[derive(Clone, Copy)]
struct AttackConfig {
    ring: &'static str,
    listens: Listens,
    /// The switch's worker sections.
    workers: &'static str,
}

impl AttackConfig {
    const fn of(ring: &'static str) -> Self {
        Self { ring, listens: Listens::Switch, workers: "[[worker]]\n" }
    }

    /// Returns the faults of all attacks; empty if there are none.
    fn faults<'a>(self, attacks: impl IntoIterator<Item = &'a (&'a str, Trace)>) -> String {
        let of = |(name, trace): &(&str, Trace)| faults(name, *trace, self);
        attacks.into_iter().flat_map(of).collect::<Vec<_>>().join("\n")
    }
}

/// Starts a switch whose attacker port has the kind that the attack needs, with these rings if the switch chooses them.
fn start(folder: &Path, attack: &str, scene: AttackConfig) -> Switch {
    let AttackConfig { ring, listens, workers } = scene;
    let mode = if listens == Listens::Switch { "server" } else { "client" };
    let mut text = workers.to_owned();
    for name in PORTS {
        let kind = if name == "attacker" { kind(attack) } else { "vhost-user" };
        let rings = if kind == "virtio-user" { format!("ring = \"{ring}\"\n") } else { String::new() };
        let socket = folder.join(name).display().to_string();
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "[[port]]\nname = \"{name}\"\nkind = \"{kind}\"\nsocket = \"{socket}\"\nmode = \"{mode}\"\n{rings}"
        );
    }
    Switch::start_from(folder, &text)
}

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("no {key} in {value}"))
}

/// Runs an attack beside the calm pair; returns the guests' report.
fn attack(folder: &Path, name: &str, AttackConfig { ring, listens, .. }: AttackConfig) -> Value {
    let path = |port: &str| folder.join(port).display().to_string();
    let (own, receiver) = (path("attacker"), path("receiver"));
    let (a, b) = (path("calm-a"), path("calm-b"));
    let mut words = vec!["guest", "--hostile", name, "--ring", ring, "--duration", "200ms", "-o", "json"];
    let side = if listens == Listens::Switch { "--connect" } else { "--listen" };
    words.extend([side, &own, side, &receiver, "--calm", &a, "--calm", &b]);
    let mut guest = Process::spawn(folder, &format!("guest-{name}-{ring}"), binary::linerate(), &words);
    assert!(guest.finish(LIMIT).success(), "{name}, {ring}: {}", guest.output());
    let output = guest.output();
    let json = output.find('{').map_or("", |at| &output[at..]);
    serde_json::from_str(json).unwrap_or_else(|error| panic!("no JSON ({error}): {output}"))
}

/// Number of connections closed by the switch.
fn refused(report: &Value) -> u64 {
    let devices = report["devices"].as_array().unwrap_or_else(|| panic!("no devices in {report}"));
    devices.iter().map(|device| number(device, "refused")).sum()
}

/// Number of connections closed by the switch, and of frames of either device dropped under a named reason.
fn traces(report: &Value, counted: &[Counters]) -> u64 {
    refused(report) + counted[2].other_drops + counted[3].other_drops
}

/// Runs an attack; returns its effects on the switch and the calm pair, empty if there are none.
fn faults(name: &str, trace: Trace, scene: AttackConfig) -> Vec<String> {
    let folder = folder();
    let switch = start(folder.path(), name, scene);
    let report = attack(folder.path(), name, scene);
    let counted = switch.settled(&PORTS);
    assert_sums_agree(&counted);
    let mut faults = Vec::new();
    let mut check = |holds: bool, what: &str| {
        if !holds {
            faults.push(format!("{name}, {}, {}: {what}", scene.ring, scene.workers.escape_default()));
        }
    };
    let (mut received, mut stolen) = (0, 0);
    for phase in ["fast", "paced"] {
        let phase = &report["calm"][phase];
        assert_eq!(number(phase, "sent"), number(phase, "received") + number(phase, "lost"), "{phase}");
        received += number(phase, "received");
        stolen += number(phase, "stolen");
    }
    assert!(counted[1].tx_packets >= received, "{name}: {counted:?}, {report}");
    check(received >= MIN_FRAMES, &format!("the calm receiver got {received} frames"));
    check(name == "random-macs" || stolen == 0, &format!("{stolen} frames went to the attacker"));
    // A separate receiver announces itself; a device that only reconnects or only kicks sends nothing else.
    let attacked = number(&report["devices"][0], "sent") + number(&report["devices"][0], "refused");
    check(attacked > 0 || ["kicks", "reconnect"].contains(&name), "the attacker sent nothing");
    let traces = traces(&report, &counted);
    check(trace == Trace::None || traces > 0, "nothing names what the attacker broke");
    let is_logged =
        switch.log().lines().any(|line| line.contains("\"stopped\"") && line.contains("\"reason\""));
    check(refused(&report) == 0 || is_logged, "the end of a connection is not logged with its reason");
    switch.stop();
    faults
}

/// Attacks that depend on the ring format.
const OF_RINGS: [&str; 10] = [
    "tso-pieces",
    "chains",
    "indirect",
    "tiny-buffers",
    "backend-long",
    "backend-ids",
    "backend-lengths",
    "backend-index",
    "backend-buffers",
    "backend-calls",
];

/// Attacks of the gate on split rings: one for each kind of port and each way in which the switch reacts.
const SAMPLE: [&str; 9] = [
    "greedy",
    "tso-pieces-broadcast",
    "chains",
    "no-drain",
    "bad-headers",
    "reconnect",
    "memif-index",
    "backend-ids",
    "stream-long",
];

fn all(ring: &'static str) {
    let faults = AttackConfig::of(ring).faults(ATTACKS.iter().filter(|(name, _)| OF_RINGS.contains(name)));
    assert!(faults.is_empty(), "{faults}");
}

#[test]
#[ignore = "runs the binary: run by `cargo xtask test`"]
fn calm_pair_survives_attacks_on_split_rings() {
    let wanted = |name: &&str| scope::is_all() || SAMPLE.contains(name);
    let faults = AttackConfig::of(RINGS[0]).faults(ATTACKS.iter().filter(|(name, _)| wanted(name)));
    assert!(faults.is_empty(), "{faults}");
}

#[test]
#[ignore = "takes a minute: run by `cargo xtask test`"]
fn calm_pair_survives_attacks_by_a_listening_back_end() {
    let scene = AttackConfig { listens: Listens::Guests, ..AttackConfig::of(RINGS[2]) };
    let faults = scene.faults(&[("backend-long", Trace::None), ("backend-ids", Trace::Named)]);
    assert!(faults.is_empty(), "{faults}");
}

/// The attacks of the other tests over the other rings and execution models.
mod every {
    use super::*;

    #[test]
    #[ignore = "takes a minute: run by `cargo xtask test --all`"]
    fn calm_pair_survives_attacks_on_split_in_order_rings() {
        all(RINGS[1]);
    }

    #[test]
    #[ignore = "takes a minute: run by `cargo xtask test --all`"]
    fn calm_pair_survives_attacks_on_packed_rings() {
        all(RINGS[2]);
    }

    #[test]
    #[ignore = "takes a minute: run by `cargo xtask test --all`"]
    fn calm_pair_survives_attacks_on_packed_in_order_rings() {
        all(RINGS[3]);
    }

    #[test]
    #[ignore = "takes a minute: run by `cargo xtask test --all`"]
    fn calm_pair_survives_attacks_in_every_execution_model() {
        let attacks = ["tso-pieces-broadcast", "chains", "tiny-buffers", "bad-headers"];
        for workers in [
            "[[worker]]\n[[worker]]\n",
            "[worker]\nmodel = \"stealing\"\nwork = [0, 1]\n",
            "[worker]\nmodel = \"pipeline\"\nrx = [0]\nwork = [1]\ntx = [0]\n",
        ] {
            let scene = AttackConfig { workers, ..AttackConfig::of(RINGS[0]) };
            let faults = scene.faults(ATTACKS.iter().filter(|(name, _)| attacks.contains(name)));
            assert!(faults.is_empty(), "{faults}");
        }
    }
}

#[test]
#[ignore = "runs the binary: run by `cargo xtask test`"]
fn attack_without_offered_features_is_rejected() {
    let folder = folder();
    let socket = folder.path().join("port");
    let text = format!(
        "[[worker]]\n[[port]]\nname = \"port\"\nsocket = \"{}\"\noffloads = false\n",
        socket.display()
    );
    let switch = Switch::start_from(folder.path(), &text);
    let socket = socket.display().to_string();
    let words = ["guest", "--hostile", "tso-pieces-broadcast", "--connect", &socket, "--duration", "200ms"];
    let mut guest = Process::spawn(folder.path(), "guest", binary::linerate(), &words);
    assert_eq!(guest.finish(LIMIT).code(), Some(2), "{}", guest.output());
    assert!(guest.output().contains("does not offer checksum offload"), "{}", guest.output());
    let words = [&words[..], &["--anyway"]].concat();
    let mut guest = Process::spawn(folder.path(), "anyway", binary::linerate(), &words);
    assert!(guest.finish(LIMIT).success(), "{}", guest.output());
    switch.stop();
}

#[test]
#[ignore = "runs the binary: run by `cargo xtask test`"]
fn missing_arguments_of_an_attack_are_named() {
    let folder = folder();
    let run = |name: &str, words: &[&str], expected: &str| {
        let words = [&["guest", "--connect", "/nonexistent"], words].concat();
        let mut guest = Process::spawn(folder.path(), name, binary::linerate(), &words);
        assert_eq!(guest.finish(LIMIT).code(), Some(2), "{}", guest.output());
        assert!(guest.output().contains(expected), "{}", guest.output());
    };
    run("tiny", &["--hostile", "tiny-buffers"], "needs a second device");
    run("greedy", &["--hostile", "greedy"], "the destination of its frames");
    run("theft", &["--hostile", "mac-theft"], "the address to spoof");
    run("calm", &["--hostile", "kicks", "--calm", "/nonexistent"], "give it twice");
    run("unknown", &["--hostile", "polite"], "possible values: greedy");
}
