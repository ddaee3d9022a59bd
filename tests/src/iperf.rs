//! iperf3 between two network namespaces: a TCP or UDP stream, and the counts of both ends.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::netns::Netns;

const START_TIMEOUT: Duration = Duration::from_secs(10);
const PORT: u16 = 5201;

static RUNS: AtomicU32 = AtomicU32::new(0);

/// Runs a client in `from` against a server in `to`, which has `address`; `more` are options of the client. Returns
/// the client's report. Panics if it fails.
pub fn iperf(folder: &Path, from: &Netns, to: &Netns, address: &str, more: &[&str]) -> Value {
    let name = format!("iperf-{}", RUNS.fetch_add(1, Ordering::Relaxed));
    let port = PORT.to_string();
    let mut server =
        to.spawn(folder, &name, "iperf3", &["--server", "--one-off", "--port", &port, "--bind", address]);
    to.await_listener(PORT, &server);
    let words =
        [&["--client", address, "--port", &port, "--json", "--connect-timeout", "5000"], more].concat();
    let said = from.run("iperf3", &words);
    server.finish(START_TIMEOUT);
    let report: Value =
        serde_json::from_str(&said).unwrap_or_else(|error| panic!("iperf3 said {said}: {error}"));
    assert!(report["error"].is_null(), "iperf3 failed: {report}");
    report
}

/// Sends `mebibytes` over TCP and checks that they arrived.
#[track_caller]
pub fn transfer(folder: &Path, from: &Netns, to: &Netns, address: &str, mebibytes: u64, more: &[&str]) {
    let bytes = format!("{mebibytes}M");
    // The receiver stops to count when the sender has written everything. The window bounds what is on its way then:
    // each stream has two socket buffers of 256 KiB and a block of 128 KiB.
    let words = [&["--bytes", &bytes, "--window", "128K"], more].concat();
    let report = iperf(folder, from, to, address, &words);
    let streams = report["start"]["test_start"]["num_streams"].as_u64().expect("iperf3 reports its streams");
    assert!(received(&report) >= (mebibytes - streams) << 20, "{address}: {report}");
}

/// Bytes received, as counted by the receiver.
pub fn received(report: &Value) -> u64 {
    let end = &report["end"];
    let sum = if end["sum_received"].is_object() { &end["sum_received"] } else { &end["sum"] };
    sum["bytes"].as_u64().unwrap_or_else(|| panic!("nothing received in {end}"))
}
