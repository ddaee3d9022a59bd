//! Actions on packets and headers of tunnels compared with Scapy: the vectors that unit tests replay are those that the
//! installed Scapy prints.

use std::path::Path;
use std::process::Command;

use linerate_tests::need;

use crate::preload::PYTHON;

const ACTIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../net/flow/tests/integration/packet/scapy");
const TUNNELS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../net/tunnel/tests/tunnel/scapy");

#[test]
#[ignore = "needs Scapy; run by `cargo xtask test`"]
fn vectors_of_packet_actions_are_those_of_scapy() {
    compare(ACTIONS);
}

#[test]
#[ignore = "needs Scapy; run by `cargo xtask test`"]
fn vectors_of_tunnels_are_those_of_scapy() {
    compare(TUNNELS);
}

/// Compares the stored vectors of a folder with those that its script prints.
fn compare(folder: &str) {
    if !Command::new(PYTHON).args(["-c", "import scapy"]).status().is_ok_and(|status| status.success()) {
        need::skip("python3-scapy is not installed");
    }
    let script = Path::new(folder).join("vectors.py");
    let output = Command::new(PYTHON).arg(script).output().expect("Python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (printed, stored) =
        (String::from_utf8(output.stdout).expect("text"), format!("{folder}/vectors.txt"));
    let stored = std::fs::read_to_string(&stored).unwrap_or_else(|error| panic!("{stored}: {error}"));
    for (line, (printed, stored)) in (1..).zip(printed.lines().zip(stored.lines())) {
        assert_eq!(printed, stored, "line {line} of vectors.txt");
    }
    assert_eq!(printed.lines().count(), stored.lines().count());
}
