//! OpenFlow bridges: flows decide which namespaces communicate.

use std::time::Duration;

use linerate_tests::netns::Netns;
use linerate_tests::switch::{Switch, assert_sums_agree};
use linerate_tests::{folder, wait};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(20);

/// Two namespaces at the TAP ports `left` and `right` of an OpenFlow bridge.
struct Pair {
    left: Netns,
    right: Netns,
    switch: Switch,
}

impl Pair {
    fn start(folder: &std::path::Path) -> Self {
        let (left, right) = (Netns::new(), Netns::new());
        let port = |name: &str, netns: &Netns| {
            let netns = netns.name();
            format!(
                "[[port]]\nname = \"{name}\"\nkind = \"tap\"\ninterface = \"eth0\"\nnetns = \"{netns}\"\n"
            )
        };
        let bridge = "[[bridge]]\nname = \"flows\"\npipeline = \"openflow\"\n";
        let text = format!("{bridge}{}{}", port("left", &left), port("right", &right));
        let switch = Switch::start_from(folder, &text);
        for (netns, address) in [(&left, "10.9.0.1/24"), (&right, "10.9.0.2/24")] {
            netns.wait_link("eth0", true, LIMIT);
            netns.configure("eth0", &[address]);
        }
        for port in ["left", "right"] {
            switch.wait_state(port, "connected", LIMIT);
        }
        Self { left, right, switch }
    }

    fn add(&self, flows: &[&str]) {
        self.switch.tell(&[&["flows", "add"], flows].concat()).expect("the flows are valid");
    }

    fn can_ping(&self) -> bool {
        self.left.attempt("ping", &["-c", "1", "-W", "1", "10.9.0.2"]).is_ok()
    }

    fn flows(&self) -> Vec<Value> {
        let shown = self.switch.ask(&["flows", "show"]).expect("the switch runs");
        shown["flows"].as_array().expect("a list").clone()
    }
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn flows_forward_edit_and_drop_packets_of_namespaces() {
    let folder = folder();
    let pair = Pair::start(folder.path());
    assert!(!pair.can_ping(), "without flows, packets are dropped");
    let drops = pair.switch.port("left")["drops"]["no-flow"].as_u64();
    assert!(drops.is_some_and(|drops| drops > 0), "{}", pair.switch.port("left"));
    pair.add(&[
        "priority=1,in_port=left,actions=output:right",
        "priority=1,in_port=right,actions=output:left",
    ]);
    pair.left.ping("10.9.0.2", 5, &[]);
    // Credited within half a second.
    let counted = || {
        let flows = pair.flows();
        flows.iter().all(|flow| flow["packets"].as_u64().is_some_and(|packets| packets >= 5)).then_some(())
    };
    assert!(wait::until(LIMIT, counted).is_some(), "{:?}", pair.flows());
    // Requests for another address are sent to the right one, and its replies come back under the other one.
    pair.left.ip("neigh add 10.9.0.3 lladdr 02:00:00:00:00:33 dev eth0");
    let hardware = pair.right.link("eth0").expect("the interface")["address"].as_str().unwrap().to_owned();
    pair.add(&[
        &format!(
            "priority=5,ip,in_port=left,nw_dst=10.9.0.3,actions=set_field:10.9.0.2->ip_dst,set_field:{hardware}->eth_dst,output:right"
        ),
        "priority=5,icmp,in_port=right,nw_src=10.9.0.2,icmp_type=0,actions=set_field:10.9.0.3->ip_src,output:left",
    ]);
    pair.left.ping("10.9.0.3", 5, &[]);
    pair.switch.tell(&["flows", "remove", "in_port=right,icmp,nw_src=10.9.0.2,icmp_type=0"]).unwrap();
    pair.left.ping("10.9.0.2", 2, &[]);
    pair.add(&["priority=9,icmp,actions=drop"]);
    assert!(!pair.can_ping());
    let drops = pair.switch.port("left")["drops"]["flow-drop"].as_u64();
    assert!(drops.is_some_and(|drops| drops > 0), "{}", pair.switch.port("left"));
    assert_sums_agree(&pair.switch.settled(&["left", "right"]));
    pair.switch.stop();
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn a_flow_expires_and_a_bad_one_adds_nothing() {
    let folder = folder();
    let pair = Pair::start(folder.path());
    pair.add(&["priority=1,in_port=left,hard_timeout=1,actions=output:right"]);
    assert_eq!(pair.flows().len(), 1);
    let gone = || pair.flows().is_empty().then_some(());
    assert!(wait::until(LIMIT, gone).is_some(), "{:?}", pair.flows());
    let added =
        pair.switch.tell(&["flows", "add", "in_port=left,actions=drop", "in_port=nobody,actions=drop"]);
    let said = added.unwrap_err();
    assert!(said.contains("nobody") && said.contains("remedy: "), "{said}");
    assert!(pair.flows().is_empty(), "all or none");
    pair.switch.stop();
}
