//! The generator between two ports of a running switch: at a low rate no packet is lost, and both count the same.

use std::path::Path;
use std::time::Duration;

use linerate_tests::folder;
use linerate_tests::netns::Netns;
use linerate_tests::process::Process;
use linerate_tests::switch::{Port, Switch, assert_sums_agree, configuration};
use serde_json::Value;

const SWITCH_CPU: usize = 0;
const GENERATOR_CPU: &str = "1";
/// Of a run; the generator and its ports use their CPUs all the time.
const DURATION: &str = "300ms";
const TIMEOUT: Duration = Duration::from_mins(1);

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("no {key} in {value}"))
}

fn vhost<'a>(name: &'a str, socket: &'a Path) -> Port<'a> {
    Port { name, socket, client: false, pairs: 1 }
}

/// Returns the JSON output of `linerate gen`.
fn generate(switch: &Switch, sockets: [&Path; 2], more: &[&str]) -> Value {
    let ports = sockets.map(|socket| format!("kind=virtio-user,socket={}", socket.display()));
    let words = ["gen", "--port", &ports[0], "--port", &ports[1], "--cpu", GENERATOR_CPU, "--warm-up", "0s"];
    switch.ask(&[&words[..], more].concat()).unwrap_or_else(|error| panic!("the generator failed: {error}"))
}

#[test]
#[ignore = "needs two CPUs: run by `cargo xtask test`"]
fn generator_and_switch_count_the_same() {
    let folder = folder();
    let (red, blue) = (folder.path().join("red"), folder.path().join("blue"));
    let switch = Switch::start(folder.path(), SWITCH_CPU, &[vhost("red", &red), vhost("blue", &blue)]);
    for (size, flows) in [("60", "1"), ("imix", "100"), ("64,9000", "7")] {
        let before = switch.settled(&["red", "blue"]);
        let more = ["--rate", "2kpps", "--size", size, "--flows", flows, "--duration", DURATION];
        let report = generate(&switch, [&red, &blue], &more);
        let counted = switch.settled(&["red", "blue"]);
        let sent = number(&report, "sent");
        assert!(sent > 300, "{report}");
        assert_eq!((number(&report, "received"), number(&report, "lost")), (sent, 0), "{report}");
        let stream = &report["streams"][0];
        assert_eq!((number(stream, "duplicates"), number(stream, "reordered")), (0, 0), "{report}");
        assert_eq!(counted[0].rx_packets - before[0].rx_packets, sent, "{report}");
        assert_eq!(counted[1].tx_packets - before[1].tx_packets, sent, "{report}");
        // The receiver announced its address once.
        assert_eq!(counted[1].rx_packets - before[1].rx_packets, 1, "{report}");
        assert!(report["baseline"]["most_pps"].as_f64().is_some_and(|most| most > 0.0), "{report}");
    }
    switch.assert_sums_agree(&["red", "blue"]);
    switch.stop();
}

#[test]
#[ignore = "needs two CPUs: run by `cargo xtask test`"]
fn coalesced_frames_are_sent_in_order_without_loss() {
    let folder = folder();
    let (red, blue) = (folder.path().join("red"), folder.path().join("blue"));
    for tx_coalesce in ["{ frames = 1 }", "{ frames = 256, delay = \"300us\" }", "{ frames = 200 }"] {
        let base = configuration(&[SWITCH_CPU], &[vhost("red", &red), vhost("blue", &blue)]);
        let switch = Switch::start_from(folder.path(), &format!("{base}tx_coalesce = {tx_coalesce}\n"));
        let more = ["--rate", "5kpps", "--size", "64,1514,9000", "--flows", "7", "--duration", DURATION];
        let report = generate(&switch, [&red, &blue], &more);
        let counted = switch.settled(&["red", "blue"]);
        let (sent, stream) = (number(&report, "sent"), &report["streams"][0]);
        assert!(sent > 300, "{report}");
        assert_eq!(
            (number(&report, "received"), number(&report, "lost")),
            (sent, 0),
            "{tx_coalesce}: {report}"
        );
        assert_eq!(
            (number(stream, "duplicates"), number(stream, "reordered")),
            (0, 0),
            "{tx_coalesce}: {report}"
        );
        assert_sums_agree(&counted);
        switch.stop();
    }
}

#[test]
#[ignore = "needs two CPUs: run by `cargo xtask test`"]
fn generator_reports_after_the_switch_is_killed() {
    let folder = folder();
    let (red, blue) = (folder.path().join("red"), folder.path().join("blue"));
    let switch = Switch::start(folder.path(), SWITCH_CPU, &[vhost("red", &red), vhost("blue", &blue)]);
    let ports = [&red, &blue].map(|socket| format!("kind=virtio-user,socket={}", socket.display()));
    let words =
        ["gen", "--port", &ports[0], "--port", &ports[1], "--no-baseline", "--duration", "2s", "-o", "json"];
    let binary = linerate_tests::binary::linerate();
    let mut generator = Process::spawn(folder.path(), "generator", binary, &words);
    generator.wait_for("Mpps sent", 0, TIMEOUT);
    switch.kill();
    assert_eq!(generator.finish(TIMEOUT).code(), Some(1), "{}", generator.output());
    for said in ["\"received\"", "stopped after", "remedy: see the messages of the switch"] {
        assert!(generator.output().contains(said), "{}", generator.output());
    }
}

/// A port of the generator, and the switch's port connected to it.
struct PortPair {
    generator: String,
    switch: String,
}

fn socket(kinds: [&str; 2], path: &Path, more: [&str; 2]) -> PortPair {
    let [generator, switch] = kinds;
    let path = path.display();
    PortPair {
        generator: format!("kind={generator},socket={path}{}", more[0]),
        switch: format!("kind = \"{switch}\"\nsocket = \"{path}\"\n{}\n", more[1]),
    }
}

/// Checks that packets pass between two ports of the generator over these ports of a switch.
fn passes(folder: &Path, name: &str, ends: &[PortPair; 2]) {
    let ports = ["red", "blue"].into_iter().zip(ends);
    let ports = ports.map(|(port, end)| format!("[[port]]\nname = \"{port}\"\n{}", end.switch));
    let head = format!("[[worker]]\ncpu = {SWITCH_CPU}\n[[bridge]]\nname = \"lan\"\n");
    let text = head + &ports.collect::<String>();
    let switch = Switch::start_from(folder, &text);
    let words = ["gen", "--port", &ends[0].generator, "--port", &ends[1].generator, "--cpu", GENERATOR_CPU];
    let more = ["--rate", "2kpps", "--size", "60,594,1514", "--duration", DURATION, "--no-baseline"];
    let report = switch.ask(&[&words[..], &more].concat()).unwrap_or_else(|error| panic!("{name}: {error}"));
    let sent = number(&report, "sent");
    assert!(sent > 300, "{name}: {report}");
    assert_eq!((number(&report, "received"), number(&report, "lost")), (sent, 0), "{name}: {report}");
    let stream = &report["streams"][0];
    assert_eq!((number(stream, "duplicates"), number(stream, "reordered")), (0, 0), "{name}: {report}");
    switch.assert_sums_agree(&["red", "blue"]);
    switch.stop();
}

#[test]
#[ignore = "needs root and two CPUs: run by `cargo xtask test`"]
fn the_generator_drives_every_kind_of_port() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    let vhost = |name: &str| socket(["vhost-user", "virtio-user"], &at(name), ["", "mode = \"client\""]);
    passes(folder.path(), "vhost-user", &[vhost("v1"), vhost("v2")]);
    let memif = |name: &str| socket(["memif", "memif"], &at(name), [",mode=client", "mode = \"server\""]);
    passes(folder.path(), "memif", &[memif("m1"), memif("m2")]);
    // Packet sockets hold frames for as many milliseconds as they have blocks, and this machine may pause for longer.
    for (kind, [more, lines]) in [("af_packet", [",blocks=256", "blocks = 256\n"]), ("af_xdp", ["", ""])] {
        let (generator, host) = (Netns::new(), Netns::new());
        let cable = |n: u8| {
            let (here, there) = (format!("gen{n}"), format!("lan{n}"));
            generator.cable(&here, &host, &there);
            let place = |interface: &str, netns: &Netns| (interface.to_owned(), netns.name().to_owned());
            let ((own, inside), (other, outside)) = (place(&here, &generator), place(&there, &host));
            PortPair {
                generator: format!("kind={kind},interface={own},netns={inside}{more}"),
                switch: format!("kind = \"{kind}\"\ninterface = \"{other}\"\nnetns = \"{outside}\"\n{lines}"),
            }
        };
        passes(folder.path(), kind, &[cable(1), cable(2)]);
    }
    let netns = Netns::new();
    let tap = |n: u8| {
        netns.ip(&format!("tuntap add gen{n} mode tap"));
        PortPair {
            generator: format!("kind=tap,interface=gen{n},netns={}", netns.name()),
            switch: format!("kind = \"af_packet\"\ninterface = \"gen{n}\"\nnetns = \"{}\"\n", netns.name()),
        }
    };
    passes(folder.path(), "tap", &[tap(1), tap(2)]);
}
