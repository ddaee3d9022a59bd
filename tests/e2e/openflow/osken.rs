//! Applications of os-ken.

use super::*;
use linerate_tests::capture::fields;
use serde_json::json;
use std::collections::BTreeMap;
use std::net::UdpSocket;

/// A bridge whose controller is an application. `rest` is the address that it serves, if it does.
fn lab(folder: &Path, application: &str, rest: &str) -> (Process, Lab) {
    need::program("osken-manager");
    let address = free_address();
    let (ip, port) = address.split_once(':').expect("an address with a port");
    let application = format!("{}/e2e/openflow/{application}", env!("CARGO_MANIFEST_DIR"));
    let rest = format!("REST={rest}");
    let words =
        [&*rest, "osken-manager", "--ofp-tcp-listen-port", port, "--ofp-listen-host", ip, &application];
    let manager = Process::spawn(folder, "manager", "env", &words);
    let keys = format!(
        "datapath_id = \"00000000000000ab\"\ncontrollers = [\"tcp:{address}\"]\nmax_backoff = \"1s\""
    );
    let lab = Lab::start(folder, &keys);
    lab.wait_controller("connected", false);
    (manager, lab)
}

#[test]
#[ignore = "needs root and os-ken: run by `cargo xtask test`"]
fn an_application_of_os_ken_learns_addresses() {
    let folder = folder();
    let (_manager, lab) = lab(folder.path(), "learning.py", &free_address());
    lab.wait_ping();
    // A flow of each direction takes the packets from the controller.
    let flows = || lab.ofctl("OpenFlow13", &["dump-flows", BRIDGE]);
    let learned = wait::until(LIMIT, || (flows().matches("dl_dst=").count() == 2).then_some(()));
    assert!(learned.is_some(), "{}", flows());
    lab.left.ping("10.9.0.2", 3, &[]);
    lab.switch.stop();
}

/// Statistics and changes of the bridge over HTTP.
struct Rest {
    address: String,
}

impl Rest {
    fn http(&self, words: &[&str], path: &str) -> Value {
        let url = format!("http://{}/stats/{path}", self.address);
        let words = [&["--silent", "--show-error", "--fail", "--max-time", "10"], words, &[&url]].concat();
        let Output { status, stdout, stderr } =
            Command::new("curl").args(&words).output().expect("curl runs");
        assert!(status.success(), "{path}: {}", String::from_utf8_lossy(&stderr));
        serde_json::from_slice(&stdout).expect("JSON")
    }

    /// Changes the bridge; `body` is an object.
    fn post(&self, path: &str, mut body: Value) {
        body["dpid"] = json!(171);
        self.http(&["--data", &body.to_string()], path);
    }

    fn get(&self, name: &str) -> Value {
        self.http(&[], &format!("{name}/171"))["171"].clone()
    }
}

/// A bridge whose controller is the application `rest.py`.
fn rest(folder: &Path) -> (Process, Lab, Rest) {
    need::program("curl");
    let address = free_address();
    let (manager, lab) = lab(folder, "rest.py", &address);
    let rest = Rest { address };
    assert_eq!(rest.http(&[], "switches"), json!([171]));
    (manager, lab, rest)
}

fn mac(netns: &Netns) -> String {
    netns.link("eth0").expect("a link")["address"].as_str().expect("a MAC").to_owned()
}

/// MAC address of the router.
const ROUTER: &str = "02:00:00:00:00:fe";

/// The bridge as a router between two networks, by flows that are added over HTTP, and every statistic over HTTP.
#[test]
#[ignore = "needs root and os-ken: run by `cargo xtask test`"]
fn a_rest_application_of_os_ken_makes_a_router() {
    let folder = folder();
    let (_manager, lab, rest) = rest(folder.path());
    let get = |name| rest.get(name);
    lab.separate();
    rest.post(
        "meterentry/add",
        json!({
            "meter_id": 1, "flags": ["KBPS"], "bands": [{"type": "DROP", "rate": 100_000}],
        }),
    );
    for (n, (netns, gateway, network)) in
        [(&lab.left, "10.9.0.254", "10.9.0.0/24"), (&lab.right, "10.9.1.254", "10.9.1.0/24")]
            .into_iter()
            .enumerate()
    {
        netns.ip(&format!("neigh replace {gateway} lladdr {ROUTER} dev eth0"));
        netns.ip(&format!("route replace default via {gateway}"));
        rest.post(
            "groupentry/add",
            json!({
                "type": "INDIRECT", "group_id": n + 1, "buckets": [{"actions": [
                    {"type": "DEC_NW_TTL"},
                    {"type": "SET_FIELD", "field": "eth_src", "value": ROUTER},
                    {"type": "SET_FIELD", "field": "eth_dst", "value": mac(netns)},
                    {"type": "OUTPUT", "port": n + 1},
                ]}],
            }),
        );
        rest.post(
            "flowentry/add",
            json!({
                "priority": 10, "match": {"eth_type": 0x800, "ipv4_dst": network, "eth_dst": ROUTER},
                "actions": [{"type": "METER", "meter_id": 1}, {"type": "GROUP", "group_id": n + 1}],
            }),
        );
    }
    assert!(lab.is_routed(), "{}", get("flow"));
    // Counters are at most half a second old.
    let counted = wait::until(LIMIT, || {
        let (flows, group) = (get("flow"), get("group"));
        let flows = flows.as_array()?;
        let is_counted = |entry: &Value| entry["packet_count"].as_u64() >= Some(1);
        (flows.len() == 2 && flows.iter().all(is_counted) && is_counted(&group[0])).then_some(())
    });
    assert!(counted.is_some(), "{} {}", get("flow"), get("group"));
    assert_eq!(get("aggregateflow")[0]["flow_count"], 2);
    assert_eq!(get("groupdesc")[1]["buckets"][0]["actions"][0], "DEC_NW_TTL");
    assert_eq!(get("meterconfig")[0]["bands"][0]["rate"], 100_000);
    assert_eq!(get("meter")[0]["flow_count"], 2);
    assert_eq!(get("table")[0]["active_count"], 2);
    assert_eq!(get("portdesc")[0]["name"], "left");
    assert!(get("port")[0]["rx_packets"].as_u64() >= Some(1));
    assert_eq!(get("role")[0]["role"], "EQUAL");
    for name in ["desc", "tablefeatures", "groupfeatures", "meterfeatures"] {
        assert!(
            get(name).as_object().map(serde_json::Map::len).or(get(name).as_array().map(Vec::len)) > Some(0),
            "{name}"
        );
    }
    for name in ["queue", "queueconfig"] {
        assert!(get(name).is_array(), "{name}");
    }
    rest.post("flowentry/delete", json!({"match": {"eth_type": 0x800}}));
    let ended = wait::until(LIMIT, || (get("aggregateflow")[0]["flow_count"] == 0).then_some(()));
    assert!(ended.is_some(), "{}", get("flow"));
    lab.switch.stop();
}

/// A third namespace at the port `third` (3), with the addresses of the right one.
fn twin(lab: &Lab) -> Netns {
    let (third, mac) = (Netns::new(), mac(&lab.right));
    let netns = format!("netns={}", third.name());
    let words = ["ports", "add", "third", "--bridge", BRIDGE, "--kind", "tap", "--set", "interface=eth0"];
    lab.switch.tell(&[&words[..], &["--set", &netns]].concat()).expect("the settings are valid");
    third.wait_link("eth0", true, LIMIT);
    third.ip(&format!("link set eth0 address {mac}"));
    third.configure("eth0", &["10.9.0.2/24"]);
    lab.switch.wait_state("third", "connected", LIMIT);
    lab.left.ip(&format!("neigh replace 10.9.0.2 lladdr {mac} dev eth0"));
    for netns in [&lab.right, &third] {
        netns.ip(&format!("neigh replace 10.9.0.1 lladdr {} dev eth0", self::mac(&lab.left)));
    }
    third
}

/// Buckets for the ports 2 and 3, the first with three times the weight.
fn buckets() -> Value {
    let bucket = |port: u32, weight: u32| json!({"weight": weight, "watch_port": port, "actions": [{"type": "OUTPUT", "port": port}]});
    json!([bucket(2, 3), bucket(3, 1)])
}

/// Sends five datagrams of each of 200 flows, and returns the flows with the number of datagrams at each receiver.
fn spread(left: &Netns, receivers: [&Netns; 2]) -> [BTreeMap<u16, usize>; 2] {
    const PORT: u16 = 9000;
    let sockets = receivers.map(|netns| {
        netns.enter(|| {
            let socket = UdpSocket::bind(("10.9.0.2", PORT)).expect("an address");
            socket.set_read_timeout(Some(Duration::from_millis(100))).expect("a timeout");
            socket
        })
    });
    let bind = || (0..200).map(|_| UdpSocket::bind("10.9.0.1:0").expect("a port")).collect::<Vec<_>>();
    let (flows, mut found) = (left.enter(bind), [BTreeMap::new(), BTreeMap::new()]);
    for _ in 0..5 {
        for flow in &flows {
            flow.send_to(&[7], ("10.9.0.2", PORT)).expect("it is sent");
        }
        // A socket has room for one datagram of each flow.
        for (socket, found) in sockets.iter().zip(&mut found) {
            while let Ok((_, from)) = socket.recv_from(&mut [0]) {
                *found.entry(from.port()).or_default() += 1;
            }
        }
    }
    found
}

#[test]
#[ignore = "needs root and os-ken: run by `cargo xtask test`"]
fn groups_of_a_rest_application_spread_flows_and_fail_over() {
    let folder = folder();
    let (_manager, lab, rest) = rest(folder.path());
    let third = twin(&lab);
    rest.post("groupentry/add", json!({"type": "SELECT", "group_id": 1, "buckets": buckets()}));
    for (port, action) in [
        (1, json!({"type": "GROUP", "group_id": 1})),
        (2, json!({"type": "OUTPUT", "port": 1})),
        (3, json!({"type": "OUTPUT", "port": 1})),
    ] {
        rest.post("flowentry/add", json!({"priority": 5, "match": {"in_port": port}, "actions": [action]}));
    }
    lab.wait_ping();
    let [right, other] = spread(&lab.left, [&lab.right, &third]);
    assert!(
        right.values().chain(other.values()).all(|n| *n == 5),
        "each flow has one way: {right:?} {other:?}"
    );
    assert_eq!(right.len() + other.len(), 200);
    // A quarter of 200 is 50, with a deviation of 6.
    assert!((20..=80).contains(&other.len()), "{}", other.len());
    // Counters are at most half a second old, and the ping was counted too.
    let counted = wait::until(LIMIT, || {
        let buckets = rest.get("group")[0]["bucket_stats"].clone();
        let packets = [0, 1].map(|at| buckets[at]["packet_count"].as_u64().unwrap_or_default());
        let sent = [right.len(), other.len()].map(|flows| 5 * flows as u64);
        (packets[0] >= sent[0] && packets[1] >= sent[1] && packets[0] + packets[1] < 1_100).then_some(())
    });
    assert!(counted.is_some(), "{}", rest.get("group"));

    rest.post("groupentry/modify", json!({"type": "FF", "group_id": 1, "buckets": buckets()}));
    assert_eq!(rest.get("groupdesc")[0]["type"], "FF");
    lab.left.ping("10.9.0.2", 1, &[]);
    let [right, other] = spread(&lab.left, [&lab.right, &third]);
    assert_eq!((right.len(), other.len()), (200, 0), "the first bucket is live");
    lab.right.ip("link set eth0 down");
    lab.wait_ping();
    let [right, other] = spread(&lab.left, [&lab.right, &third]);
    assert_eq!((right.len(), other.len()), (0, 200), "the second one takes over");
    lab.switch.stop();
}

#[test]
#[ignore = "needs root and os-ken: run by `cargo xtask test`"]
fn a_meter_of_a_rest_application_remarks_and_a_slave_changes_nothing() {
    let folder = folder();
    let (_manager, lab, rest) = rest(folder.path());
    let band = json!({"type": "DSCP_REMARK", "rate": 10, "burst_size": 10, "prec_level": 1});
    rest.post("meterentry/add", json!({"meter_id": 1, "flags": ["PKTPS", "BURST"], "bands": [band]}));
    let arp = |port: u32, to: u32| json!({"priority": 1, "match": {"in_port": port}, "actions": [{"type": "OUTPUT", "port": to}]});
    for flow in [arp(1, 2), arp(2, 1)] {
        rest.post("flowentry/add", flow);
    }
    let metered = json!([{"type": "METER", "meter_id": 1}, {"type": "OUTPUT", "port": 2}]);
    let metered = json!({"priority": 5, "match": {"in_port": 1, "eth_type": 0x800}, "actions": metered});
    let count = || rest.get("aggregateflow")[0]["flow_count"].as_u64();
    rest.post("role/modify", json!({"role": "SLAVE"}));
    assert_eq!(rest.get("role")[0]["role"], "SLAVE");
    rest.post("flowentry/add", metered.clone());
    assert_eq!(count(), Some(2), "a slave adds no flow");
    rest.post("role/modify", json!({"role": "MASTER"}));
    rest.post("flowentry/add", metered);
    assert_eq!(count(), Some(3));

    let file = folder.path().join("remarked.pcap");
    let path = file.to_str().expect("a path in UTF-8");
    let words = ["-Z", "root", "-U", "--immediate-mode", "-i", "eth0", "-w", path, "icmp"];
    let mut capture = lab.right.spawn(folder.path(), "tcpdump", "tcpdump", &words);
    capture.wait_for("listening on", 0, LIMIT);
    // AF11. All arrive: remarking drops nothing.
    lab.left.ping("10.9.0.2", 100, &["-Q", "0x28", "-i", "0.005"]);
    let marks = || fields(&file, "icmp.type == 8", &["ip.dsfield"]).concat();
    let arrived = wait::until(LIMIT, || Some(marks()).filter(|marks| marks.len() >= 100));
    let marks = arrived.unwrap_or_else(|| panic!("{:?}", marks()));
    assert!(capture.terminate(LIMIT).success());
    let with = |mark: &str| marks.iter().filter(|found| *found == mark).count();
    assert_eq!(with("0x28") + with("0x30"), marks.len(), "AF11 or AF12: {marks:?}");
    assert!(with("0x28") >= 10 && with("0x30") >= 10, "{marks:?}");
    lab.switch.stop();
}
