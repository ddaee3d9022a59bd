//! Timeouts of flows that a TCP connection ends.

use super::*;
use linerate_tests::tcp;

const PORT: u16 = 7000;

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn a_flow_with_fin_timeout_ends_with_its_connection_in_every_version() {
    let folder = folder();
    let lab = Lab::start(folder.path(), "");
    tcp::listen(&lab.right, PORT, tcp::echo);
    for version in VERSIONS {
        let run = |words: &[&str]| lab.ofctl(version, words);
        let flows = || run(&["dump-flows", BRIDGE, "tcp"]);
        run(&["del-flows", BRIDGE]);
        run(&["add-flow", BRIDGE, "priority=1,actions=NORMAL"]);
        let timeouts = "fin_timeout(idle_timeout=1,hard_timeout=300)";
        run(&[
            "add-flow",
            BRIDGE,
            &format!("priority=5,tcp,in_port=1,idle_timeout=600,actions={timeouts},output:2"),
        ]);
        let before = flows();
        assert!(before.contains("idle_timeout=600") && before.contains(timeouts), "{before}");
        lab.left.enter(|| tcp::exchange("10.9.0.2", PORT, (1, 1 << 20), LIMIT));
        let gone = wait::until(LIMIT, || (!flows().contains("fin_timeout")).then_some(()));
        assert!(gone.is_some(), "{version}: {}", flows());
        let refused =
            lab.attempt(version, &["add-flow", BRIDGE, &format!("ip,actions={timeouts}")]).unwrap_err();
        assert!(!refused.is_empty(), "it needs TCP");
    }
    lab.switch.stop();
}
