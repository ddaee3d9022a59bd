//! OpenFlow bridges: flows decide which namespaces communicate.

use std::time::Duration;

use linerate_tests::guest::{Guest, number};
use linerate_tests::netns::Netns;
use linerate_tests::switch::Switch;
use linerate_tests::{folder, wait};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(20);

/// Two namespaces at the TAP ports `left` and `right` of an OpenFlow bridge.
pub(crate) struct Pair {
    pub(crate) left: Netns,
    pub(crate) right: Netns,
    pub(crate) switch: Switch,
}

/// Starts a switch with an OpenFlow bridge and namespaces at TAP ports with these names; the n-th has 10.9.0.n.
/// `more` are further sections.
fn start(folder: &std::path::Path, ports: &[(&str, &Netns)], more: &str) -> Switch {
    let port = |(name, netns): &(&str, &Netns)| {
        let netns = netns.name();
        format!("[[port]]\nname = \"{name}\"\nkind = \"tap\"\ninterface = \"eth0\"\nnetns = \"{netns}\"\n")
    };
    let bridge = "[[bridge]]\nname = \"flows\"\npipeline = \"openflow\"\n";
    let text = format!("{bridge}{}{more}", ports.iter().map(port).collect::<String>());
    let switch = Switch::start_from(folder, &text);
    for (n, (name, netns)) in (1..).zip(ports) {
        netns.wait_link("eth0", true, LIMIT);
        netns.configure("eth0", &[&format!("10.9.0.{n}/24")]);
        switch.wait_state(name, "connected", LIMIT);
    }
    switch
}

impl Pair {
    pub(crate) fn start(folder: &std::path::Path) -> Self {
        Self::start_with(folder, "")
    }

    /// [`Pair::start`] with more sections in the configuration.
    pub(crate) fn start_with(folder: &std::path::Path, more: &str) -> Self {
        let (left, right) = (Netns::new(), Netns::new());
        let switch = start(folder, &[("left", &left), ("right", &right)], more);
        Self { left, right, switch }
    }

    pub(crate) fn add(&self, flows: &[&str]) {
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
    pair.switch.assert_sums_agree(&["left", "right"]);
    pair.switch.stop();
}

#[test]
#[ignore = "starts a switch: run by `cargo xtask test`"]
fn frames_of_a_guest_match_the_flows_of_their_ports_only() {
    let folder = folder();
    let sockets = ["a", "b"].map(|name| folder.path().join(name));
    let port = |name, socket: &std::path::Path| {
        format!("[[port]]\nname = \"{name}\"\nsocket = \"{}\"\nmode = \"client\"\n", socket.display())
    };
    let bridge = "[[bridge]]\nname = \"flows\"\npipeline = \"openflow\"\n";
    let text = format!("{bridge}{}{}", port("a", &sockets[0]), port("b", &sockets[1]));
    let switch = Switch::start_from(folder.path(), &text);
    let flow = |from: usize, to: usize, n: u32| {
        format!("in_port={from},udp,tp_src={},tp_dst={},actions=output:{to}", n % 65_536, n / 65_536 + 1)
    };
    let flows: Vec<_> = (0..4).flat_map(|n| [flow(1, 2, n), flow(2, 1, n)]).collect();
    let flows = flows.iter().map(String::as_str);
    switch.tell(&["flows", "add"].into_iter().chain(flows).collect::<Vec<_>>()).expect("the flows are valid");
    let both: Vec<_> = sockets.iter().map(std::path::PathBuf::as_path).collect();
    let more = ["--flows", "4", "--in-flight", "16", "--warm-up", "1ms"];
    let guest = Guest::endless(folder.path(), "guest", "--listen", &both, &more);
    let counted = || {
        let shown = switch.ask(&["flows", "show"]).expect("the switch runs");
        let flows = shown["flows"].as_array().expect("a list").clone();
        flows.iter().all(|flow| flow["packets"].as_u64().is_some_and(|packets| packets > 0)).then_some(())
    };
    assert!(wait::until(LIMIT, counted).is_some(), "{:?}", switch.ask(&["flows", "show"]));
    let devices = guest.end();
    assert!(devices.iter().all(|device| number(device, "rx_packets") > 0), "{devices:?}");
    for name in ["a", "b"] {
        assert_eq!(switch.port(name)["drops"]["no-flow"].as_u64().unwrap_or(0), 0, "{}", switch.port(name));
    }
    switch.stop();
}

/// A capture file with one UDP packet from 10.9.0.1 to 10.9.0.2.
fn capture() -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 28, 0, 1, 0, 0, 64, 17, 0, 0];
    frame.extend([10, 9, 0, 1, 10, 9, 0, 2, 0, 9, 0, 53, 0, 8, 0, 0]);
    let len = u32::try_from(frame.len()).expect("a short frame");
    let words = [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 1, 0, 0, len, len];
    [words.map(u32::to_le_bytes).concat(), frame].concat()
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn a_trace_agrees_with_what_happens_to_packets_and_rates_name_the_busy_flow() {
    let folder = folder();
    let pair = Pair::start(folder.path());
    pair.add(&[
        "priority=1,arp,actions=FLOOD",
        "priority=5,ip,in_port=left,actions=dec_ttl,resubmit(,1)",
        "table=1,priority=3,icmp,actions=output:right",
        "priority=5,ip,in_port=right,actions=output:left",
        "table=1,priority=2,tcp,tp_dst=81,actions=drop",
    ]);
    let trace = |flow: &str| pair.switch.ask(&["trace", "--flow", flow]).expect("the flow is valid");
    let sent = trace("in_port=left,icmp,nw_src=10.9.0.1,nw_dst=10.9.0.2,icmp_type=8");
    let pass = &sent["passes"][0];
    assert_eq!(
        (pass["operations"].as_str(), pass["dropped"].as_bool()),
        (Some("dec_ttl,output:right"), Some(false))
    );
    let steps: Vec<_> =
        pass["steps"].as_array().unwrap().iter().map(|step| step["text"].as_str().unwrap()).collect();
    let table = "table 1: icmp, priority 3, cookie 0x0";
    assert_eq!(steps[1..], ["dec_ttl", "resubmit(,1)", table, "output:right"]);
    assert_eq!(pass["steps"][1]["changes"][0], "nw_ttl 64 -> 63");
    pair.left.ping("10.9.0.2", 3, &[]);
    let dropped = trace("in_port=left,udp,nw_dst=10.9.0.2,tp_dst=53");
    let verdict = dropped["passes"][0]["verdict"].as_str().unwrap();
    assert!(verdict.starts_with("dropped, flow-drop: no flow of table 1 matches"), "{verdict}");
    // The same packet as a frame of a file.
    let file = folder.path().join("udp.pcap");
    std::fs::write(&file, capture()).unwrap();
    let file = file.display().to_string();
    let captured = pair.switch.ask(&["trace", "--pcap", &file, "--in-port", "left"]).unwrap();
    assert_eq!(captured["passes"][0]["verdict"], dropped["passes"][0]["verdict"]);
    let missing =
        pair.switch.tell(&["trace", "--pcap", &file, "--packet", "2", "--in-port", "left"]).unwrap_err();
    assert!(missing.contains("has 1 packets") && missing.contains("remedy: "), "{missing}");
    // Packets in the background while rates are measured.
    let words = ["-q", "-i", "0.05", "10.9.0.2"];
    let _busy = pair.left.spawn(folder.path(), "ping", "ping", &words);
    let hot = || {
        let hot = pair.switch.ask(&["flows", "show", "--hot", "--interval", "1s", "ip"]).ok()?;
        let flows = hot["flows"].as_array()?;
        let is_sorted = flows.is_sorted_by_key(|flow| -flow["rate"]["packets"].as_f64().unwrap_or(0.0));
        assert!(is_sorted && flows.iter().all(|flow| flow["match"] != "tcp,tp_dst=81"), "{hot}");
        (!flows.is_empty()).then_some(())
    };
    assert!(wait::until(LIMIT, hot).is_some(), "counters of packets are credited within half a second");
    let counted = || {
        let status = pair.switch.ask(&["status"]).ok()?;
        let counts = &status["bridges"][0]["flows"];
        let found = ["head", "megaflow", "tables"].map(|place| counts[place].as_u64().unwrap_or(0));
        (found[2] > 0 && found.iter().sum::<u64>() >= 10 && counts["flows"] == 5).then_some(())
    };
    assert!(wait::until(LIMIT, counted).is_some(), "{:?}", pair.switch.ask(&["status"]));
    pair.switch.stop();
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn flows_and_access_lists_of_the_file_decide_from_the_first_packet_on() {
    let folder = folder();
    let rules = "[[acl]]\naction = \"allow\"\nprotocol = \"arp\"\n\
        [[acl]]\naction = \"deny\"\nprotocol = \"icmp\"\ndestination = \"10.9.0.3\"\n\
        [[acl]]\naction = \"allow\"\nfrom = \"left\"\nto = \"right\"\nsource = \"10.9.0.0/24\"\n\
        [[flow]]\nflow = [\"priority=9,icmp,in_port=right,actions=output:left\"]\n";
    let pair = Pair::start_with(folder.path(), rules);
    pair.left.ping("10.9.0.2", 3, &[]);
    pair.left.ip("neigh add 10.9.0.3 lladdr 02:00:00:00:00:33 dev eth0");
    assert!(pair.left.attempt("ping", &["-c", "1", "-W", "1", "10.9.0.3"]).is_err());
    let denied = || {
        let status = pair.switch.ask(&["status"]).ok()?;
        let drops = status["bridges"][0]["flows"]["drops"].as_array()?;
        drops.iter().any(|drop| drop["table"] == 0 && drop["reason"] == "flow-drop").then_some(())
    };
    assert!(wait::until(LIMIT, denied).is_some(), "{:?}", pair.switch.ask(&["status"]));
    let flows = pair.flows();
    let priorities: Vec<_> = flows.iter().map(|flow| flow["priority"].as_u64().unwrap()).collect();
    assert_eq!(priorities, [60_000, 59_999, 59_998, 9]);
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

/// MAC learning by flows, as in ovs-actions(7).
#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn flows_learn_addresses() {
    let (folder, hosts) = (folder(), [Netns::new(), Netns::new(), Netns::new()]);
    let [one, two, three] = &hosts;
    let switch = start(folder.path(), &[("one", one), ("two", two), ("three", three)], "");
    let learn = "table=0,actions=learn(table=1,hard_timeout=300,priority=9,NXM_OF_VLAN_TCI[0..11],\
                 NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],output:NXM_OF_IN_PORT[]),resubmit(,1)";
    switch.tell(&["flows", "add", learn, "table=1,priority=1,actions=flood"]).expect("the flows are valid");
    one.ping("10.9.0.2", 2, &[]);
    one.ping("10.9.0.3", 2, &[]);
    let learned = || {
        let shown = switch.ask(&["flows", "show"]).ok()?;
        // Every host has sent a packet, and none is learned twice.
        (shown["flows"].as_array()?.len() == 5).then_some(())
    };
    assert!(wait::until(LIMIT, learned).is_some(), "{:?}", switch.ask(&["flows", "show"]));
    // Packets of two hosts do not reach the third one, but for a few of discovery.
    let before = three.statistic("eth0", "rx_packets");
    one.ping("10.9.0.2", 50, &[]);
    let flooded = three.statistic("eth0", "rx_packets") - before;
    assert!(flooded < 25, "{flooded} of 100 packets were flooded");
    switch.assert_sums_agree(&["one", "two", "three"]);
    switch.stop();
}
