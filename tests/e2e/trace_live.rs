//! `linerate trace --live`: packets of running ports with their steps, on a learning bridge and on an OpenFlow bridge.

use std::fs;
use std::path::Path;
use std::time::Duration;

use linerate_tests::process::Process;
use linerate_tests::switch::Switch;
use linerate_tests::{binary, folder};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(30);

/// A capture of UDP packets to 02:00:00:00:00:02, a millisecond apart.
fn write_capture(path: &Path) {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
    let mut bytes = words(&[0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 1]);
    for at in 0..10 {
        bytes.extend(words(&[0, at * 1000, 60, 60]));
        bytes.extend([2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
        bytes.extend([0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        bytes.extend([0, 7, 0, 9, 0, 26, 0, 0]);
        bytes.extend([0; 18]);
    }
    fs::write(path, bytes).expect("a capture is written");
}

fn start(folder: &Path, bridge: &str, workers: &str) -> Switch {
    let file = folder.join("source.pcap");
    write_capture(&file);
    let port = |name: &str, rest: &str| format!("[[port]]\nname = \"{name}\"\nbridge = \"lan\"\n{rest}\n");
    let read = format!("kind = \"pcap\"\nread = \"{}\"\nrepeat = \"forever\"", file.display());
    let text = format!(
        "{workers}\n[[bridge]]\nname = \"lan\"\n{bridge}\n{}{}{}",
        port("source", &read),
        port("sink", "kind = \"null\""),
        port("other", "kind = \"null\"")
    );
    Switch::start_from(folder, &text)
}

/// Steps of the first packets, each a line of JSON, in order.
fn steps(folder: &Path, words: &[&str]) -> Vec<Value> {
    let control = folder.join("control.sock").display().to_string();
    let words = [&["--control", &control, "trace", "--live", "-o", "json"], words].concat();
    // It has the steps of an earlier trace, if there was one.
    let _ = fs::remove_file(folder.join("trace.log"));
    let mut trace = Process::spawn(folder, "trace", binary::linerate(), &words);
    assert!(trace.finish(LIMIT).success(), "{}", trace.output());
    trace
        .output()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
        .collect()
}

fn of<'a>(steps: &'a [Value], number: u64, step: &str) -> Vec<&'a Value> {
    steps.iter().filter(|own| own["number"] == number && own["step"] == step).collect()
}

#[test]
#[ignore = "needs a switch: run by `cargo xtask test`"]
fn a_flooded_packet_is_received_once_and_sent_twice() {
    floods("");
}

#[test]
#[ignore = "needs a switch: run by `cargo xtask test`"]
fn packets_are_followed_through_the_stages_of_a_pipeline() {
    let workers = "[worker]\nmodel = \"pipeline\"\nrx = [0]\nwork = [1]\ntx = [0]\n";
    floods(workers);
    // A packet's head is read at the last stage, too.
    let folder = folder();
    let switch = start(folder.path(), "", workers);
    let control = folder.path().join("control.sock").display().to_string();
    let words = ["--control", &control, "capture", "sink", "--direction", "out", "--filter", "udp port 9"];
    let words = [&words[..], &["--limit", "3", "-w", "/dev/null"]].concat();
    let mut capture = Process::spawn(folder.path(), "capture", binary::linerate(), &words);
    assert!(capture.finish(LIMIT).success(), "{}", capture.output());
    switch.stop();
}

#[test]
#[ignore = "needs a switch: run by `cargo xtask test`"]
fn packets_are_followed_to_the_worker_of_their_flow() {
    floods("[worker]\nrss_mode = \"software\"\nwork = [0, 1]\n");
}

fn floods(workers: &str) {
    let folder = folder();
    let switch = start(folder.path(), "", workers);
    let steps = steps(folder.path(), &["--limit", "3", "--rate", "20", "--ports", "source"]);
    for number in 1..=3 {
        let received = of(&steps, number, "received");
        assert_eq!((received.len(), &received[0]["port"]), (1, &"source".into()), "{steps:?}");
        assert!(
            received[0]["packet"].as_str().is_some_and(|text| text.contains("10.0.0.1:7 > 10.0.0.2:9 UDP"))
        );
        assert_eq!(received[0]["simulated"]["ports"].as_array().map(Vec::len), Some(0), "{received:?}");
        let sent = of(&steps, number, "sent");
        let mut ports: Vec<_> = sent.iter().filter_map(|step| step["port"].as_str()).collect();
        ports.sort_unstable();
        assert_eq!(ports, ["other", "sink"], "{steps:?}");
        for step in sent {
            assert!(
                step["since_ns"].as_u64() >= step["verdict_ns"].as_u64()
                    && step["since_ns"].as_u64() > Some(0)
            );
        }
    }
    assert!(
        steps.iter().any(|step| step["skipped"].as_u64() > Some(0)),
        "a thousand arrive in a second: {steps:?}"
    );
    // Nothing is left behind, and text is for people.
    let text = switch.tell(&["trace", "--live", "--limit", "1", "--ports", "source"]).expect("a packet");
    let text = String::from_utf8(text).expect("text");
    assert!(
        text.contains("received at source: 60 B") && text.contains("not in the forwarding table"),
        "{text}"
    );
    assert!(
        switch.tell(&["trace", "--live", "--ports", "nowhere"]).is_err_and(|error| error.contains("nowhere"))
    );
    switch.stop();
}

/// Number of the first packet that was received and has this end. A capture may miss steps on a busy machine.
fn whole(steps: &[Value], end: &str) -> u64 {
    let has = |number, step| !of(steps, number, step).is_empty();
    let number = (1..=9).find(|number| has(*number, "received") && has(*number, end));
    number.unwrap_or_else(|| panic!("no packet was received and {end}: {steps:?}"))
}

#[test]
#[ignore = "needs a switch: run by `cargo xtask test`"]
fn flow_tables_edit_and_drop_followed_packets() {
    let folder = folder();
    let switch = start(folder.path(), "pipeline = \"openflow\"", "");
    switch
        .tell(&["flows", "add", "in_port=source,udp,actions=set_field:9000->udp_dst,output:sink"])
        .expect("a flow");
    let found = steps(folder.path(), &["--limit", "9"]);
    let number = whole(&found, "sent");
    let (received, sent) = (of(&found, number, "received"), of(&found, number, "sent"));
    assert!(received[0]["simulated"]["passes"][0]["steps"].to_string().contains("table 0"), "{received:?}");
    assert_eq!((sent.len(), &sent[0]["port"]), (1, &"sink".into()), "{found:?}");
    assert!(sent[0]["packet"].as_str().is_some_and(|text| text.contains("10.0.0.2:9000")), "{sent:?}");

    switch.tell(&["flows", "remove", "in_port=source"]).expect("no flows");
    let found = steps(folder.path(), &["--limit", "9"]);
    let dropped = of(&found, whole(&found, "dropped"), "dropped");
    assert_eq!((dropped.len(), &dropped[0]["port"]), (1, &"source".into()), "{found:?}");
    assert!(dropped[0]["reason"].is_string(), "{dropped:?}");
    switch.stop();
}
