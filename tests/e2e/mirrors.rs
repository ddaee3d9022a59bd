//! Mirrors: a third namespace captures what two others exchange, over a learning bridge and over flow tables.

use std::path::Path;
use std::time::Duration;

use linerate_tests::capture::fields;
use linerate_tests::netns::Netns;
use linerate_tests::switch::Switch;
use linerate_tests::{folder, wait};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(20);
const PINGS: u64 = 5;
/// Bytes of an echo message with its Ethernet header.
const ECHO: u64 = 98;

/// The namespaces of the TAP ports `left` and `right`, with addresses, and of `probe`.
struct Three {
    left: Netns,
    right: Netns,
    probe: Netns,
    switch: Switch,
}

impl Three {
    /// Starts a switch with a bridge of this section; `keys` are more lines of each port.
    fn start(folder: &Path, bridge: &str, keys: [&str; 3], more: &str) -> Self {
        let [left, right, probe] = [(), (), ()].map(|()| Netns::new());
        let namespaces = [("left", &left), ("right", &right), ("probe", &probe)];
        let ports = namespaces.iter().zip(keys).map(|((name, netns), keys)| {
            let netns = netns.name();
            format!("[[port]]\nname = \"{name}\"\nkind = \"tap\"\ninterface = \"eth0\"\nnetns = \"{netns}\"\n{keys}\n")
        });
        let text = format!("[[bridge]]\nname = \"lan\"\n{bridge}{}{more}", ports.collect::<String>());
        let switch = Switch::start_from(folder, &text);
        for (name, netns) in namespaces {
            netns.wait_link("eth0", true, LIMIT);
            // Nothing but the test sends packets.
            netns.ip("link set eth0 addrgenmode none");
            netns.ip("link set eth0 up");
            switch.wait_state(name, "connected", LIMIT);
        }
        for (n, netns) in [(1, &left), (2, &right)] {
            netns.ip(&format!("address add 10.9.0.{n}/24 dev eth0"));
        }
        Self { left, right, probe, switch }
    }

    /// Captures at `probe` while `left` pings `right`. Returns the VLAN, type and captured length of each echo message,
    /// whose copies have `bytes` bytes.
    fn capture(&self, folder: &Path, bytes: u64) -> Vec<[String; 3]> {
        let file = folder.join("probe.pcap");
        let path = file.to_str().expect("a path in UTF-8");
        // Under its own user tcpdump may not write to the folder.
        let options = ["-Z", "root", "-U", "--immediate-mode", "-i", "eth0", "-w", path];
        let messages = ["icmp or (vlan and icmp)"];
        let mut capture =
            self.probe.spawn(folder, "tcpdump", "tcpdump", &[&options[..], &messages[..]].concat());
        capture.wait_for("listening on", 0, LIMIT);
        self.left.ping("10.9.0.2", PINGS as u32, &[]);
        // The header of the file, and of each packet.
        let expected = 24 + 2 * PINGS * (16 + bytes);
        let is_written = || std::fs::metadata(&file).is_ok_and(|file| file.len() >= expected);
        assert!(wait::until(LIMIT, || is_written().then_some(())).is_some(), "copies arrive");
        assert!(capture.terminate(LIMIT).success());
        let packets = fields(&file, "icmp", &["vlan.id", "icmp.type", "frame.cap_len"]);
        packets.into_iter().map(|packet| packet.try_into().expect("three fields")).collect()
    }

    /// Packets of `left`, sent packets of `probe`, and copies of the mirror `m`, when no packet is on its way. Workers add
    /// to the counters of mirrors later than to those of ports.
    fn counts(&self) -> [u64; 3] {
        wait::settled(Duration::from_secs(1), LIMIT, || {
            let counters = ["left", "probe"].map(|name| self.switch.counters(name));
            let copied = self.mirror("m")["packets"].as_u64().expect("a number");
            [counters[0].rx_packets + counters[0].tx_packets, counters[1].tx_packets, copied]
        })
    }

    fn mirror(&self, name: &str) -> Value {
        self.switch.ask(&["mirrors", "show", name]).expect("the mirror is there")
    }
}

/// Numbers of echo requests and replies.
fn echoes(packets: &[[String; 3]]) -> [usize; 2] {
    ["8", "0"].map(|kind| packets.iter().filter(|packet| packet[1] == kind).count())
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn a_port_gets_copies_of_received_and_sent_packets() {
    let folder = folder();
    let more = "[[mirror]]\nname = \"m\"\nsource_ports = [\"left\"]\ndestination_ports = [\"left\"]\noutput_port = \"probe\"\n";
    let three = Three::start(folder.path(), "", [""; 3], more);
    // Earlier copies may be of packets that left could not receive yet.
    let before = three.counts();
    let packets = three.capture(folder.path(), ECHO);
    assert_eq!(echoes(&packets), [PINGS as usize; 2], "{packets:?}");
    let mirror = three.mirror("m");
    assert_eq!((mirror["active"].as_bool(), mirror["output_port"].as_str()), (Some(true), Some("probe")));
    let after = three.counts();
    let counted: Vec<_> = after.iter().zip(before).map(|(after, before)| after - before).collect();
    assert!(counted[0] >= 2 * PINGS, "{before:?}, {after:?}");
    assert!(counted.iter().all(|n| *n == counted[0]), "{before:?}, {after:?}");
    // The output port is reserved.
    three.probe.ip("address add 10.9.0.3/24 dev eth0");
    assert!(three.probe.attempt("ping", &["-c", "1", "-W", "1", "10.9.0.1"]).is_err());
    let drops = || three.switch.port("probe")["drops"]["mirror-port"].as_u64().filter(|n| *n > 0);
    assert!(wait::until(LIMIT, drops).is_some(), "{}", three.switch.port("probe"));
    three.switch.assert_sums_agree(&["left", "right", "probe"]);
    three.switch.tell(&["mirrors", "remove", "m"]).expect("the mirror is there");
    three.right.ping("10.9.0.1", 2, &[]);
    assert_eq!(three.switch.ask(&["mirrors", "show"]).expect("a list"), serde_json::json!([]));
    three.switch.stop();
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn copies_for_a_vlan_are_tagged() {
    let folder = folder();
    let keys = ["vlan = 10", "vlan = { trunk = [10, 20], native = 10 }", "vlan = { trunk = [99] }"];
    let three = Three::start(folder.path(), "", keys, "");
    let add = ["mirrors", "add", "m", "--source-ports", "left", "--destination-ports", "left"];
    three.switch.tell(&[&add[..], &["--output-vlan", "99"]].concat()).expect("a mirror");
    let packets = three.capture(folder.path(), ECHO + 4);
    assert_eq!(echoes(&packets), [PINGS as usize; 2], "{packets:?}");
    assert!(packets.iter().all(|packet| packet[0] == "99"), "{packets:?}");
    three.switch.assert_sums_agree(&["left", "right", "probe"]);
    let refused = three.switch.tell(&[&add[..], &["--output-vlan", "98"]].concat()).unwrap_err();
    assert!(refused.contains("there is a mirror"), "{refused}");
    three.switch.stop();
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn packets_of_flow_tables_are_copied_also_if_they_are_dropped() {
    let folder = folder();
    let more = "[[mirror]]\nname = \"m\"\nall = true\noutput_port = \"probe\"\nsnap_length = 60\n";
    let three = Three::start(folder.path(), "pipeline = \"openflow\"\n", [""; 3], more);
    three.switch.tell(&["flows", "add", "priority=1,actions=NORMAL"]).expect("a flow");
    let packets = three.capture(folder.path(), 60);
    assert_eq!(echoes(&packets), [PINGS as usize; 2], "each packet once: {packets:?}");
    assert!(packets.iter().all(|packet| packet[2] == "60"), "{packets:?}");
    three.switch.tell(&["flows", "add", "priority=9,icmp,actions=drop"]).expect("a flow");
    let before = three.mirror("m")["packets"].as_u64().expect("a number");
    assert!(three.left.attempt("ping", &["-c", "3", "-i", "0.2", "-W", "1", "10.9.0.2"]).is_err());
    let copied = || three.mirror("m")["packets"].as_u64().filter(|packets| *packets >= before + 3);
    assert!(wait::until(LIMIT, copied).is_some(), "dropped packets are copied: {}", three.mirror("m"));
    three.switch.assert_sums_agree(&["left", "right", "probe"]);
    three.switch.stop();
}
