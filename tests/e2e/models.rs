//! The same switch in every execution model: flows keep their order, every lost packet is counted, and adding a stage
//! while packets flow loses none.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use linerate_tests::iperf::transfer;
use linerate_tests::netns::Netns;
use linerate_tests::process::Process;
use linerate_tests::switch::{Switch, assert_sums_agree};
use linerate_tests::testpmd::{Ring, Testpmd, VirtioUser};
use linerate_tests::{binary, folder, scope, wait};
use serde_json::Value;

const TIMEOUT: Duration = Duration::from_mins(1);
const MIN_FRAMES: u64 = 20_000;
/// Number of frames after which a generator is known to run.
const FLOWING: u64 = 1_000;
const NAMES: [&str; 2] = ["red", "blue"];
/// Number of flows, each with its own sequence numbers, so that the meter detects reordering within a flow.
const FLOWS: u16 = 24;
const ADDRESSES: [&str; 2] = ["10.63.0.1", "10.63.0.2"];

/// `[worker]` sections for two CPUs.
const MODELS: [(&str, &str); 7] = [
    ("run-to-completion", "work = [0, 1]"),
    ("software RSS", "work = [0, 1]\nrss_mode = \"software\""),
    ("one CPU for everything", "model = \"pipeline\"\nrx = [0]\nwork = [0]\ntx = [0]"),
    ("Rx and Tx together", "model = \"pipeline\"\nrx = [0]\nwork = [1]\ntx = [0]\nwrite_unit = 16"),
    ("Rx apart", "model = \"pipeline\"\nrx = [0]\nwork = [1]\ntx = [1]"),
    (
        "everything twice",
        "model = \"pipeline\"\nrx = [0, 1]\nwork = [0, 1]\ntx = [0, 1]\nring = 256\nfull = \"drop\"",
    ),
    (
        "by port",
        "model = \"pipeline\"\nrx = [0]\nwork = [0, 1]\ntx = [1]\norder = \"port\"\nread_unit = 8\nfull = \"drop\"",
    ),
];

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("no {key} in {value}"))
}

fn start(folder: &Path, workers: &str) -> Switch {
    let mut text = format!("[worker]\n{workers}\n[[bridge]]\nname = \"lan\"\n");
    for name in NAMES {
        let socket = folder.join(name);
        // Writing to a String cannot fail.
        let _ = write!(text, "[[port]]\nname = \"{name}\"\nsocket = \"{}\"\n", socket.display());
    }
    Switch::start_from(folder, &text)
}

/// Starts a generator between both ports, with its streams in a file.
fn generator(folder: &Path, rate: &str, seconds: u32) -> Process {
    let mut text = String::new();
    for name in NAMES {
        let socket = folder.join(name);
        let _ = write!(text, "[[port]]\nkind = \"virtio-user\"\nsocket = \"{}\"\n", socket.display());
    }
    for flow in 0..FLOWS {
        let _ =
            write!(text, "[[stream]]\nname = \"{flow}\"\nsize = \"imix\"\nsource_port = {}\n", 1000 + flow);
    }
    let file = folder.join("streams.toml");
    std::fs::write(&file, text).unwrap_or_else(|error| panic!("cannot write streams: {error}"));
    let (file, time) = (file.display().to_string(), format!("{seconds}s"));
    let words = ["gen", &file, "--rate", rate, "--duration", &time, "--no-baseline", "-o", "json"];
    Process::spawn(folder, "generator", binary::linerate(), &words)
}

/// Returns the generator's JSON output at its end.
fn report(generator: &mut Process) -> Value {
    assert!(generator.finish(TIMEOUT).success(), "{}", generator.output());
    let output = generator.output();
    let json = output.find("\n{").map_or(output.as_str(), |at| &output[at..]);
    serde_json::from_str(json).unwrap_or_else(|error| panic!("no JSON ({error}): {output}"))
}

/// Checks that every flow is in order, without duplicates.
fn assert_in_order(model: &str, report: &Value) {
    let streams = report["streams"].as_array().unwrap_or_else(|| panic!("no streams in {report}"));
    assert_eq!(streams.len(), usize::from(FLOWS));
    for stream in streams {
        assert!(number(stream, "received") > 0, "{model}: {stream}");
        assert_eq!((number(stream, "duplicates"), number(stream, "reordered")), (0, 0), "{model}: {stream}");
    }
}

#[test]
#[ignore = "needs two CPUs: run by `cargo xtask test`"]
fn flows_keep_their_order_and_the_sums_agree_in_every_model() {
    for (model, workers) in scope::pick(MODELS.to_vec(), scope::sample(&MODELS[1..4])) {
        println!("{model}");
        let folder = folder();
        let switch = start(folder.path(), workers);
        let report = report(&mut generator(folder.path(), "max", 1));
        assert_in_order(model, &report);
        let counted = switch.settled(&NAMES);
        assert_sums_agree(&counted);
        assert!(counted[1].tx_packets >= number(&report, "received"), "{model}: {report}");
        switch.stop();
    }
}

/// Number of workers of a role that received packets.
fn at_work(switch: &Switch, role: &str) -> usize {
    let report = switch.ask(&["workers", "show"]).unwrap_or_else(|error| panic!("no workers: {error}"));
    let workers = report["workers"].as_array().unwrap_or_else(|| panic!("no workers in {report}"));
    workers.iter().filter(|worker| worker["role"] == role && number(worker, "packets") > 0).count()
}

#[test]
#[ignore = "needs two CPUs: run by `cargo xtask test`"]
fn adding_stages_to_a_running_pipeline_loses_no_packet() {
    let folder = folder();
    let switch = start(folder.path(), "model = \"pipeline\"\nrx = [0]\nwork = [1]\ntx = [0]");
    let mut generator = generator(folder.path(), "5kpps", 3);
    let flows = wait::until(TIMEOUT, || (switch.counters("blue").tx_packets >= FLOWING).then_some(()));
    assert!(flows.is_some(), "nothing passes: {}", generator.output());
    for role in ["work", "tx", "rx", "work"] {
        let added = switch.tell(&["workers", "add", "--role", role]);
        assert!(added.is_ok(), "{role} was not added: {added:?}");
    }
    let report = report(&mut generator);
    assert_in_order("stages added", &report);
    assert_eq!(number(&report, "lost"), 0, "{report}");
    let counted = switch.settled(&NAMES);
    assert_sums_agree(&counted);
    assert_eq!((at_work(&switch, "rx"), at_work(&switch, "work"), at_work(&switch, "tx")), (1, 3, 1));
    let status = switch.ask(&["status"]).unwrap_or_else(|error| panic!("no status: {error}"));
    assert_eq!(
        (&status["model"], number(&status["roles"], "work")),
        (&Value::from("pipeline"), 3),
        "{status}"
    );
    let refused = switch.tell(&["workers", "add", "--role", "work", "--cpu", "1"]).unwrap_err();
    assert!(refused.contains("CPU 1 is already assigned to worker"), "{refused}");
    switch.stop();
}

/// The kernel leaves checksums and segmentation of a TCP stream to be completed, so most packets are longer than a
/// buffer of a handoff queue.
#[test]
#[ignore = "needs root and iperf3; run by `cargo xtask test`"]
fn unsegmented_stream_passes_pipeline_stages() {
    for (model, workers) in scope::sample(&MODELS[1..4]) {
        println!("{model}");
        let (folder, ends) = (folder(), [Netns::new(), Netns::new()]);
        let mut text = format!("[worker]\n{workers}\n[[bridge]]\nname = \"lan\"\n");
        for (name, netns) in NAMES.iter().zip(&ends) {
            let (place, netns) = ("kind = \"tap\"\ninterface = \"eth0\"", netns.name());
            // Writing to a String cannot fail.
            let _ = write!(text, "[[port]]\nname = \"{name}\"\n{place}\nnetns = \"{netns}\"\n");
        }
        let switch = Switch::start_from(folder.path(), &text);
        for (netns, address) in ends.iter().zip(ADDRESSES) {
            netns.wait_link("eth0", true, TIMEOUT);
            netns.configure("eth0", &[&format!("{address}/24")]);
        }
        for name in NAMES {
            switch.wait_state(name, "connected", TIMEOUT);
        }
        ends[0].ping(ADDRESSES[1], 5, &[]);
        for more in [&[][..], &["--reverse"]] {
            transfer(folder.path(), &ends[0], &ends[1], ADDRESSES[1], 64, more);
        }
        let counted = switch.settled(&NAMES);
        assert_sums_agree(&counted);
        let lost = |name| switch.port(name)["drops"]["handoff-full"].clone();
        assert_eq!(NAMES.map(lost), [Value::Null, Value::Null], "{model}: lost between stages");
        let [bytes, packets] =
            [counted[0].rx_bytes + counted[1].rx_bytes, counted[0].rx_packets + counted[1].rx_packets];
        assert!(bytes / packets > 4_000, "{model}: few large packets: {counted:?}");
        switch.stop();
    }
}

/// DPDK's guest has a port at either end, and frames circulate between them.
#[test]
#[ignore = "needs dpdk: run by `cargo xtask test`"]
fn frames_of_a_dpdk_guest_return_from_a_pipeline() {
    for (model, workers) in scope::sample(&[MODELS[2], MODELS[5], MODELS[3]]) {
        println!("{model}");
        let folder = folder();
        let switch = start(folder.path(), workers);
        let sockets = NAMES.map(|name| folder.path().join(name));
        let port = |side: usize| VirtioUser {
            socket: &sockets[side],
            server: false,
            mac: side as u8 + 1,
            ring: Ring::ALL[side],
            mergeable: true,
            pairs: 1,
            size: 256,
        };
        let mut guest = Testpmd::guest(folder.path(), "guest", 1, &[port(0), port(1)]);
        guest.ready();
        for name in NAMES {
            switch.wait_running(name, 1, TIMEOUT);
        }
        guest.circulate(64, 4);
        let back = |guest: &mut Testpmd| guest.counters().iter().map(|port| port.rx_packets).min();
        let flows = wait::until(TIMEOUT, || back(&mut guest).filter(|packets| *packets >= MIN_FRAMES));
        assert!(flows.is_some(), "{model}: frames stopped circulating: {:?}", guest.counters());
        guest.stop();
        guest.drain();
        let (theirs, ours) = (guest.counters(), switch.settled(&NAMES));
        assert_sums_agree(&ours);
        for (ours, theirs) in ours.iter().zip(&theirs) {
            let (came, went) = (theirs.tx_packets, theirs.rx_packets);
            assert_eq!((ours.rx_packets, ours.tx_packets), (came, went), "{model}: {ours:?}");
        }
        guest.quit();
        switch.stop();
    }
}
