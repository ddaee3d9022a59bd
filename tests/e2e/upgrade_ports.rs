//! `linerate upgrade` of ports other than those of guests and TAP interfaces: the generator sends numbered packets
//! through two ports of each kind while the process is replaced, and none is lost.

use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use linerate_tests::capture::fields;
use linerate_tests::netns::Netns;
use linerate_tests::switch::Switch;
use linerate_tests::{binary, folder, scope};
use serde_json::Value;

const SWITCH_CPU: usize = 0;
const GENERATOR_CPU: &str = "1";
const REACTION: Duration = Duration::from_secs(10);
/// Pause before and between upgrades, so that packets pass in each process.
const PAUSE: Duration = Duration::from_millis(300);
const NAMES: [&str; 2] = ["red", "blue"];

/// A port of the generator, and the switch's port connected to it.
struct PortPair {
    generator: String,
    switch: String,
}

/// Ports of these kinds at a socket. `client` is whether the switch's port connects.
fn sockets(folder: &Path, [generator, switch]: [&str; 2], client: bool, lines: &str) -> [PortPair; 2] {
    let [own, other] = if client { ["client", "server"] } else { ["server", "client"] };
    NAMES.map(|name| {
        let path = folder.join(name).display().to_string();
        PortPair {
            generator: format!("kind={generator},socket={path},mode={other}"),
            switch: format!("kind = \"{switch}\"\nsocket = \"{path}\"\nmode = \"{own}\"\n{lines}\n"),
        }
    })
}

fn start(folder: &Path, ends: &[PortPair; 2]) -> Switch {
    let ports = NAMES.iter().zip(ends);
    let ports = ports.map(|(name, end)| format!("[[port]]\nname = \"{name}\"\n{}\n", end.switch));
    let head = format!("[[worker]]\ncpu = {SWITCH_CPU}\n[[bridge]]\nname = \"lan\"\n");
    Switch::start_from(folder, &(head + &ports.collect::<String>()))
}

/// Sends from the first port to the second one while `meanwhile` runs. Returns the report of the generator.
fn under_load(switch: &mut Switch, ends: &[PortPair; 2], meanwhile: impl FnOnce(&mut Switch)) -> Value {
    let words = ["gen", "--port", &ends[0].generator, "--port", &ends[1].generator, "--cpu", GENERATOR_CPU];
    let more = ["-o", "json", "--warm-up", "300ms", "--rate", "2kpps", "--size", "60,594,1514"];
    let words = [&words[..], &more, &["--duration", "3s", "--no-baseline"]].concat();
    thread::scope(|scope| {
        let load = scope.spawn(|| Command::new(binary::linerate()).args(&words).output().expect("a program"));
        for name in NAMES {
            switch.wait_running(name, 1, REACTION);
        }
        thread::sleep(PAUSE);
        meanwhile(switch);
        let output = load.join().expect("the generator ends");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {text}"))
    })
}

/// Checks that the receiver got each packet once and in order.
fn assert_complete(name: &str, report: &Value) {
    let (sent, stream) = (report["sent"].as_u64().unwrap_or_default(), &report["streams"][0]);
    assert!(sent > 1000 && report["received"] == sent && report["lost"] == 0, "{name}: {report}");
    assert!(stream["duplicates"] == 0 && stream["reordered"] == 0, "{name}: {report}");
}

/// Replaces a switch with these ports three times under load, and then connects to the ports again.
fn loses_nothing(name: &str, ends: &[PortPair; 2]) {
    let folder = folder();
    let mut switch = start(folder.path(), ends);
    let report = under_load(&mut switch, ends, |switch| {
        for _ in 0..3 {
            let report = switch.upgrade(&[]).expect("an upgrade");
            assert_eq!((&report["ports"], &report["lost"]), (&2.into(), &Value::Array(vec![])), "{report}");
            println!("{name}: gap of {} us", report["gap_us"]);
            thread::sleep(PAUSE);
        }
    });
    assert_complete(name, &report);
    switch.assert_sums_agree(&NAMES);
    // The counters are those of all processes.
    let [red, blue] = &switch.settled(&NAMES)[..] else { panic!("two ports") };
    assert!(Some(red.rx_packets) >= report["sent"].as_u64(), "{name}: {red:?} {report}");
    assert_eq!(blue.queue_full, 0, "{name}: {blue:?}");
    assert_complete(name, &under_load(&mut switch, ends, |_| ()));
    switch.stop();
}

#[test]
#[ignore = "needs two CPUs: run by `cargo xtask test`"]
fn stream_ports_lose_no_packet() {
    let folder = folder();
    for &client in scope::first(&[false, true]) {
        loses_nothing("stream", &sockets(folder.path(), ["stream", "stream"], client, ""));
    }
    let ends = ["127.0.0.1:47113", "127.0.0.1:47114"].map(|address| PortPair {
        generator: format!("kind=stream,address={address},mode=client"),
        switch: format!("kind = \"stream\"\naddress = \"{address}\"\nmode = \"server\"\n"),
    });
    loses_nothing("stream over TCP", &ends);
}

#[test]
#[ignore = "needs two CPUs: run by `cargo xtask test`"]
fn memif_ports_lose_no_packet() {
    let folder = folder();
    for client in [false, true] {
        loses_nothing("memif", &sockets(folder.path(), ["memif", "memif"], client, ""));
    }
}

#[test]
#[ignore = "needs two CPUs: run by `cargo xtask test`"]
fn virtio_user_ports_lose_no_packet() {
    let folder = folder();
    for (client, ring) in scope::last(&[(true, "split"), (false, "packed-inorder"), (true, "packed")]) {
        let lines = format!("ring = \"{ring}\"");
        loses_nothing(ring, &sockets(folder.path(), ["vhost-user", "virtio-user"], *client, &lines));
    }
}

#[test]
#[ignore = "needs root and two CPUs: run by `cargo xtask test`"]
fn packet_sockets_lose_no_packet() {
    let (generator, host) = (Netns::new(), Netns::new());
    // A packet socket holds frames for as many milliseconds as it has blocks, and this machine may pause for longer.
    let cable = |n: u8| {
        let (here, there) = (format!("gen{n}"), format!("lan{n}"));
        generator.cable(&here, &host, &there);
        let (inside, outside) = (generator.name(), host.name());
        PortPair {
            generator: format!("kind=af_packet,interface={here},netns={inside},blocks=256"),
            switch: format!(
                "kind = \"af_packet\"\ninterface = \"{there}\"\nnetns = \"{outside}\"\nblocks = 256\n"
            ),
        }
    };
    loses_nothing("af_packet", &[cable(1), cable(2)]);
}

#[test]
#[ignore = "needs tshark and two CPUs: run by `cargo xtask test`"]
fn captures_and_traces_continue_in_their_files() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    let lines = format!(
        "capture = {{ file = \"{}\", snap = 64 }}\ntrace = {{ file = \"{}\" }}",
        path("red.pcapng").display(),
        path("red.txt").display()
    );
    let mut ends = sockets(folder.path(), ["stream", "stream"], false, "");
    ends[0].switch += &lines;
    let mut switch = start(folder.path(), &ends);
    let report = under_load(&mut switch, &ends, |switch| {
        for _ in 0..3 {
            switch.upgrade(&[]).expect("an upgrade");
            thread::sleep(PAUSE);
        }
    });
    assert_complete("capture", &report);
    let [red, _] = switch.settled(&NAMES)[..] else { panic!("two ports") };
    switch.stop();
    let passed = (red.rx_packets + red.tx_packets) as usize;
    let times = fields(&path("red.pcapng"), "frame", &["frame.time_epoch"]);
    assert_eq!(times.len(), passed);
    assert!(times.is_sorted(), "packets of all processes are in order");
    let trace = std::fs::read_to_string(path("red.txt")).expect("a trace");
    assert_eq!(trace.lines().count(), passed);
}
