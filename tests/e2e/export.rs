//! sFlow and IPFIX: tshark and the tools of nfdump decode what a switch exports about the traffic of two namespaces.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use linerate_tests::netns::Netns;
use linerate_tests::process::Process;
use linerate_tests::switch::{Counters, Switch, assert_sums_agree};
use linerate_tests::{folder, need, wait};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(30);
const NAMES: [&str; 2] = ["left", "right"];
const PINGS: usize = 5;

/// Two namespaces with TAP ports of one bridge, and a capture of the datagrams for a collector.
struct Lab {
    left: Netns,
    _right: Netns,
    switch: Switch,
    capture: Process,
    file: PathBuf,
    /// Without a receiver there would be ICMP errors.
    _collector: UdpSocket,
    port: u16,
}

/// A free UDP port of the loopback interface.
fn bound(address: &str) -> (UdpSocket, u16) {
    let socket = UdpSocket::bind((address, 0)).expect("a free port");
    let port = socket.local_addr().expect("an address").port();
    (socket, port)
}

impl Lab {
    /// `bridge` returns the lines of the bridge for the port of the collector on `address`.
    fn start(folder: &Path, address: &str, keys: &str, bridge: impl Fn(u16) -> String) -> Self {
        let (collector, port) = bound(address);
        let file = folder.join("export.pcap");
        let path = file.to_str().expect("a path in UTF-8");
        let options = ["-Z", "root", "-U", "--immediate-mode", "-i", "lo", "-w", path];
        let filter = format!("udp dst port {port}");
        let mut capture = Process::spawn(folder, "tcpdump", "tcpdump", &[&options[..], &[&filter]].concat());
        capture.wait_for("listening on", 0, LIMIT);
        let [left, right] = [(), ()].map(|()| Netns::new());
        // Nothing but the test sends packets.
        left.disable_ipv6();
        right.disable_ipv6();
        let ports = NAMES.iter().zip([&left, &right]).map(|(name, netns)| {
            let netns = netns.name();
            format!("[[port]]\nname = \"{name}\"\nkind = \"tap\"\ninterface = \"eth0\"\nnetns = \"{netns}\"\n{keys}\n")
        });
        let text = format!("[[bridge]]\nname = \"lan\"\n{}{}", bridge(port), ports.collect::<String>());
        let switch = Switch::start_from(folder, &text);
        for (n, (name, netns)) in (1..).zip(NAMES.iter().zip([&left, &right])) {
            netns.wait_link("eth0", true, LIMIT);
            netns.configure("eth0", &[&format!("10.9.0.{n}/24")]);
            switch.wait_state(name, "connected", LIMIT);
        }
        // Without ARP, no packet follows those of the test.
        for (n, netns, other) in [(2, &left, &right), (1, &right, &left)] {
            let link = other.link("eth0").expect("an interface");
            let mac = link["address"].as_str().expect("an address");
            netns.ip(&format!("neighbor replace 10.9.0.{n} lladdr {mac} dev eth0 nud permanent"));
        }
        Self { left, _right: right, switch, capture, file, _collector: collector, port }
    }

    fn exporter(&self) -> Value {
        self.switch.ask(&["export", "show"]).expect("a report")["exporters"][0].clone()
    }

    /// Waits until all packets are sampled, and stops the switch, which sends what waits. Returns the counters of
    /// ports.
    fn finish(mut self) -> (Vec<Counters>, Capture) {
        let counters = self.switch.settled(&NAMES);
        assert_sums_agree(&counters);
        let exporter = self.exporter();
        let received: u64 = counters.iter().map(|counters| counters.rx_packets).sum();
        assert_eq!((exporter["packets"].as_u64(), exporter["dropped"].as_u64()), (Some(received), Some(0)));
        // Without packets, only counters and templates are sent.
        let sent = || self.exporter()["collectors"][0]["datagrams"].as_u64();
        let before = sent();
        if exporter["protocol"] == "sflow" {
            let later = || (sent() >= before.map(|sent| sent + 3)).then_some(());
            assert!(wait::until(LIMIT, later).is_some(), "counters are polled: {}", self.exporter());
        }
        self.switch.stop();
        assert!(self.capture.terminate(LIMIT).success());
        (counters, Capture { file: self.file, port: self.port })
    }
}

/// Captured datagrams.
struct Capture {
    file: PathBuf,
    port: u16,
}

impl Capture {
    /// Values of a field in all datagrams that match a filter, as tshark decodes them.
    fn values(&self, decoder: &str, filter: &str, field: &str) -> Vec<String> {
        need::program("tshark");
        let decode = format!("udp.port=={},{decoder}", self.port);
        let mut command = Command::new("timeout");
        command.args(["60", "tshark", "-n", "-d", &decode, "-Y", filter, "-T", "fields", "-e", field, "-r"]);
        let done = command.arg(&self.file).output().expect("timeout runs");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let text = String::from_utf8_lossy(&done.stdout).into_owned();
        let values = text.lines().flat_map(|line| line.split(',')).filter(|value| !value.is_empty());
        values.map(str::to_owned).collect()
    }

    fn numbers(&self, decoder: &str, field: &str) -> Vec<u64> {
        let number = |text: String| {
            let parsed = match text.strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16),
                None => text.parse(),
            };
            parsed.unwrap_or_else(|_| panic!("{field} is {text}"))
        };
        self.values(decoder, decoder, field).into_iter().map(number).collect()
    }

    /// All datagrams are decoded, and none is malformed.
    fn assert_valid(&self, decoder: &str) {
        let malformed =
            self.values(decoder, "_ws.malformed || _ws.expert.severity >= 6291456", "frame.number");
        assert_eq!(malformed, Vec::<String>::new());
        let others =
            self.values(decoder, &format!("udp.dstport == {} && !{decoder}", self.port), "frame.number");
        assert_eq!(others, Vec::<String>::new());
    }
}

/// Number of equal items.
fn counted<T: Ord>(items: impl IntoIterator<Item = T>) -> BTreeMap<T, u64> {
    items.into_iter().fold(BTreeMap::new(), |mut counts, item| {
        *counts.entry(item).or_default() += 1;
        counts
    })
}

/// A collector of nfdump, which writes flows to a folder.
fn nfdump_collector(folder: &Path, program: &str) -> (Process, u16, PathBuf) {
    let (socket, port) = bound("127.0.0.1");
    drop(socket);
    let flows = folder.join("flows");
    std::fs::create_dir(&flows).expect("a new folder");
    let port_text = port.to_string();
    let path = flows.to_str().expect("a path in UTF-8");
    let mut collector =
        Process::spawn(folder, program, program, &["-b", "127.0.0.1", "-p", &port_text, "-w", path]);
    collector.wait_for("Startup", 0, LIMIT);
    (collector, port, flows)
}

/// Ends a collector of nfdump. Returns the sums of packets by these columns.
fn nfdump_flows(mut collector: Process, flows: &Path, columns: &str) -> BTreeMap<String, u64> {
    assert!(collector.terminate(LIMIT).success());
    let format = format!("fmt:{columns} %pkt");
    let done = Command::new("nfdump").arg("-R").arg(flows).args(["-q", "-N", "-o", &format]).output();
    let done = done.expect("nfdump runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    let rows = text.lines().filter_map(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        let (packets, key) = words.split_last()?;
        // Versions differ in whether they print the name of a protocol.
        Some((key.join(" ").replace("ICMP", "1"), packets.parse::<u64>().ok()?))
    });
    rows.fold(BTreeMap::new(), |mut sums, (key, packets)| {
        *sums.entry(key).or_default() += packets;
        sums
    })
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn sflow_of_a_learning_bridge_is_decoded_with_the_right_values() {
    need::program("sfcapd");
    let folder = folder();
    let (second, second_port, flows) = nfdump_collector(folder.path(), "sfcapd");
    let lab = Lab::start(folder.path(), "127.0.0.1", "vlan = 10", |port| {
        format!(
            "sflow = {{ collectors = [\"127.0.0.1:{port}\", \"127.0.0.1:{second_port}\"], sampling = 1, polling = \
             \"1s\", header = 64, agent = \"10.1.2.3\" }}\n"
        )
    });
    lab.left.ping("10.9.0.2", PINGS as u32, &[]);
    let (counters, capture) = lab.finish();
    capture.assert_valid("sflow");
    let numbers = |field: &str| capture.numbers("sflow", field);
    assert!(capture.values("sflow", "sflow", "sflow_245.agent").iter().all(|agent| agent == "10.1.2.3"));
    assert!(
        numbers("sflow_245.sequence_number")
            .into_iter()
            .eq(1..=numbers("sflow_245.sequence_number").len() as u64)
    );
    assert!(numbers("sflow.flow_sample.sampling_rate").iter().all(|rate| *rate == 1));
    // Each packet is sampled, with the interface that received it, and a pool that counts all before it.
    let inputs = counted(numbers("sflow.flow_sample.input_interface"));
    let received: BTreeMap<u64, u64> =
        (1..).zip(counters.iter().map(|counters| counters.rx_packets)).collect();
    assert_eq!(inputs, received);
    let pool = numbers("sflow.flow_sample.sample_pool").into_iter().max();
    assert_eq!(pool, received.values().copied().max());
    let pairs = numbers("sflow.flow_sample.input_interface")
        .into_iter()
        .zip(numbers("sflow.flow_sample.output_interface"));
    let pairs = counted(pairs);
    let forwarded = [(1, 2), (2, 1)].map(|pair| pairs.get(&pair).copied().unwrap_or_default());
    assert_eq!(forwarded, [counters[1].tx_packets, counters[0].tx_packets], "{pairs:?}");
    for field in ["sflow_245.vlan.in", "sflow_245.vlan.out"] {
        let vlans = counted(numbers(field));
        assert!(vlans.get(&10).is_some_and(|packets| *packets >= 2 * PINGS as u64), "{vlans:?}");
    }
    let lengths = counted(numbers("sflow_245.header.frame_length"));
    assert!(lengths[&102] >= 2 * PINGS as u64, "echoes with their frame check sequence: {lengths:?}");
    // The last counters of each interface are those of the port.
    let interfaces = numbers("sflow_245.ifindex");
    let last = |field: &str, interface: u64| {
        let mut values = interfaces.iter().zip(numbers(field));
        values.rfind(|(index, _)| **index == interface).map(|(_, value)| value)
    };
    for (interface, counters) in (1..).zip(&counters) {
        let Counters { rx_packets, tx_packets, .. } = *counters;
        let found = ["sflow_245.ifinpkt", "sflow_245.ifoutpkt"].map(|field| last(field, interface));
        assert_eq!(found, [Some(rx_packets), Some(tx_packets)]);
    }
    let echoes = nfdump_flows(second, &flows, "%sa %da %pr");
    assert!(echoes["10.9.0.1 10.9.0.2 1"] >= PINGS as u64, "{echoes:?}");
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn ipfix_of_flow_tables_is_decoded_with_the_right_values() {
    need::program("nfcapd");
    let folder = folder();
    let (second, second_port, flows) = nfdump_collector(folder.path(), "nfcapd");
    let lab = Lab::start(folder.path(), "::1", "", |port| {
        format!(
            "pipeline = \"openflow\"\nipfix = {{ collectors = [\"[::1]:{port}\", \"127.0.0.1:{second_port}\"], \
             sampling = 1, domain = 7, point = 9, cache_active_timeout = \"2s\", cache_idle_timeout = \"1s\" }}\n"
        )
    });
    // The learning bridge sends the packets in a later pass.
    lab.switch.tell(&["flows", "add", "actions=NORMAL"]).expect("a flow");
    lab.left.ping("10.9.0.2", PINGS as u32, &[]);
    let (counters, capture) = lab.finish();
    capture.assert_valid("cflow");
    let numbers = |field: &str| capture.numbers("cflow", field);
    assert!(numbers("cflow.od_id").iter().all(|domain| *domain == 7));
    assert!(numbers("cflow.sampling_population").iter().all(|rate| *rate == 1));
    let packets = counted_by(&capture, "cflow.inputint", "cflow.packets");
    let received: BTreeMap<u64, u64> =
        (1..).zip(counters.iter().map(|counters| counters.rx_packets)).collect();
    assert_eq!(packets, received);
    let frames = counted_by(&capture, "cflow.inputint", "cflow.layer2_octet_delta_count");
    let bytes: BTreeMap<u64, u64> = (1..).zip(counters.iter().map(|counters| counters.rx_bytes)).collect();
    assert_eq!(frames, bytes);
    let echoes = nfdump_flows(second, &flows, "%sa %da %pr %in %out");
    for key in ["10.9.0.1 10.9.0.2 1 1 2", "10.9.0.2 10.9.0.1 1 2 1"] {
        assert!(echoes.get(key).is_some_and(|packets| *packets >= PINGS as u64), "{echoes:?}");
    }
}

/// Sums of a field of flow records by another one.
fn counted_by(capture: &Capture, key: &str, field: &str) -> BTreeMap<u64, u64> {
    let (keys, values) = (capture.numbers("cflow", key), capture.numbers("cflow", field));
    assert_eq!(keys.len(), values.len());
    keys.into_iter().zip(values).fold(BTreeMap::new(), |mut sums, (key, value)| {
        *sums.entry(key).or_default() += value;
        sums
    })
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn one_in_n_packets_is_sampled_and_an_unreachable_collector_is_counted() {
    let folder = folder();
    let lab = Lab::start(folder.path(), "127.0.0.1", "", |port| {
        // Nothing listens at port 1.
        let collectors = format!("collectors = [\"127.0.0.1:{port}\", \"127.0.0.1:1\"]");
        format!("sflow = {{ {collectors}, sampling = 10, polling = \"1s\" }}\n")
    });
    lab.left.ping("10.9.0.2", 1000, &["-i", "0.002"]);
    let counters = lab.switch.settled(&NAMES);
    let received: u64 = counters.iter().map(|counters| counters.rx_packets).sum();
    let refused = || lab.exporter()["collectors"][1]["errors"].as_u64().filter(|errors| *errors > 0);
    assert!(wait::until(LIMIT, refused).is_some(), "{}", lab.exporter());
    let exporter = lab.exporter();
    let samples = exporter["samples"].as_u64().expect("a number");
    // The standard deviation of the number of samples is below 10.
    assert!(received >= 2000 && samples.abs_diff(received / 10) < 100, "{samples} of {received}");
    let (_, capture) = lab.finish();
    capture.assert_valid("sflow");
    assert_eq!(capture.numbers("sflow", "sflow.flow_sample.sampling_rate").len() as u64, samples);
}
