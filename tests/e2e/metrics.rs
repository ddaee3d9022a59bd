//! `/metrics` of a running switch, read by the parsers of the Prometheus client for Python.

use std::process::{Command, Stdio};
use std::time::Duration;

use linerate_tests::switch::Switch;
use linerate_tests::{folder, need, wait};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(20);
/// The Python of the system, which has the package.
const PYTHON: &str = "/usr/bin/python3";
/// Prints the names of the families and of the samples.
const PARSE: &str = "import sys
try:
    from prometheus_client.parser import text_string_to_metric_families as plain
    from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
except ImportError:
    sys.exit(77)
parse = openmetrics if sys.argv[1] == 'openmetrics' else plain
for family in parse(sys.stdin.read()):
    print('family', family.name, family.type, family.unit)
    for sample in family.samples:
        print('sample', sample.name, float(sample.value), sorted(sample.labels.items()))
";

/// The head of the answer, and the lines of [`PARSE`].
fn parsed(switch: &Switch, accept: &str, parser: &str) -> (String, String) {
    let answer = switch.request(&format!("GET /metrics HTTP/1.0\r\nAccept: {accept}\r\n\r\n"));
    let (head, body) = answer.split_once("\r\n\r\n").expect("an answer");
    let mut python = Command::new(PYTHON)
        .args(["-c", PARSE, parser])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("python3 runs");
    std::io::Write::write_all(&mut python.stdin.take().expect("a pipe"), body.as_bytes()).expect("is read");
    let output = python.wait_with_output().expect("python3 ends");
    if output.status.code() == Some(77) {
        need::skip("python3-prometheus-client is not installed");
    }
    assert!(output.status.success(), "{}\n{body}", String::from_utf8_lossy(&output.stderr));
    (head.to_ascii_lowercase(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
#[ignore = "needs python3-prometheus-client: run by `cargo xtask test`"]
fn prometheus_parses_both_formats() {
    need::program("python3");
    let folder = folder();
    let port = |name: &str| format!("[[port]]\nname = \"{name}\"\nkind = \"null\"\n");
    let text = format!("[switch]\nname = \"lab\"\n{}", port("sink"));
    let switch = Switch::start_from(folder.path(), &text);
    let accept = "application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5";
    let (head, text) = parsed(&switch, accept, "openmetrics");
    assert!(head.contains("content-type: application/openmetrics-text; version=1.0.0"), "{head}");
    for line in [
        "family linerate_port_received_bytes counter bytes",
        "sample linerate_port_received_bytes_total 0.0 [('port', 'sink')]",
        "family linerate_worker_hung gauge ",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is missing in\n{text}");
    }
    let (head, text) = parsed(&switch, "text/plain", "plain");
    assert!(head.contains("content-type: text/plain; version=0.0.4"), "{head}");
    assert!(text.contains("sample linerate_port_received_bytes_total 0.0"), "{text}");
    switch.stop();
}

/// A capture of broadcasts, a millisecond apart.
fn write_capture(path: &std::path::Path) {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
    let mut bytes = words(&[0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 1]);
    for at in 0..10 {
        bytes.extend(words(&[0, at * 1000, 60, 60]));
        bytes.extend([0xff; 6].iter().chain(&[2, 0, 0, 0, 0, 1, 8, 0]).chain(&[0; 46]));
    }
    std::fs::write(path, bytes).expect("a capture is written");
}

#[test]
#[ignore = "needs python3-prometheus-client: run by `cargo xtask test`"]
fn latencies_steps_and_history_are_those_of_sampled_packets() {
    need::program("python3");
    let folder = folder();
    let file = folder.path().join("source.pcap");
    write_capture(&file);
    let text = format!(
        "[[port]]\nname = \"source\"\nkind = \"pcap\"\nread = \"{}\"\nrepeat = \"forever\"\n\
         [[port]]\nname = \"sink\"\nkind = \"null\"\n",
        file.display()
    );
    let switch = Switch::start_from(folder.path(), &text);
    let history = wait::until(LIMIT, || {
        let answer = switch.request("GET /v1/history?port=sink HTTP/1.0\r\n\r\n");
        let body: Value = serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()?;
        let rates = body["ports"]["sink"]["tx"].as_array()?.clone();
        (!rates.is_empty()).then_some(rates)
    });
    let history = history.expect("a sample of the history");
    assert!(history[0].as_f64().is_some_and(|rate| rate > 1.0), "{history:?}");

    let (_, text) = parsed(&switch, "application/openmetrics-text", "openmetrics");
    assert!(text.contains("family linerate_port_latency_seconds histogram seconds"), "{text}");
    let value = |start: &str| {
        let line = text.lines().find(|line| line.starts_with(&format!("sample {start} ")));
        let value = line.and_then(|line| line.split(' ').nth(2)?.parse::<f64>().ok());
        value.unwrap_or_else(|| panic!("no {start} in\n{text}"))
    };
    assert!(value("linerate_port_latency_seconds_count") > 0.0);
    assert!(value("linerate_port_latency_seconds_sum") > 0.0);
    assert!(value("linerate_port_receive_depth_packets_count") > 0.0);
    assert!(value("linerate_worker_step_cycles_total") > 0.0);

    let shown = String::from_utf8(switch.tell(&["ports", "show", "sink"]).expect("the port")).expect("text");
    assert!(shown.contains("latency") && shown.contains("sampled packets"), "{shown}");
    let top = switch.ask(&["top", "--once"]).expect("rates");
    let sink =
        top["ports"].as_array().and_then(|ports| ports.iter().find(|port| port["name"] == "sink").cloned());
    let sink = sink.expect("the port");
    assert!(sink["latency_p50_ns"].as_u64() <= sink["latency_p99_ns"].as_u64(), "{sink}");
    assert!(sink["latency_p99_ns"].is_u64() && top["workers"][0]["steps"]["pipeline"].is_f64(), "{top}");
    switch.stop();
}
