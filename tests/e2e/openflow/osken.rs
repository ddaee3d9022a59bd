//! Applications of os-ken.

use super::*;

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

/// MAC address of the router.
const ROUTER: &str = "02:00:00:00:00:fe";

/// The bridge as a router between two networks, by flows that are added over HTTP, and every statistic over HTTP.
#[test]
#[ignore = "needs root and os-ken: run by `cargo xtask test`"]
fn a_rest_application_of_os_ken_makes_a_router() {
    need::program("curl");
    let (folder, rest) = (folder(), free_address());
    let (_manager, lab) = lab(folder.path(), "rest.py", &rest);
    let http = |words: &[&str], path: &str| -> Value {
        let url = format!("http://{rest}/stats/{path}");
        let words = [&["--silent", "--show-error", "--fail", "--max-time", "10"], words, &[&url]].concat();
        let Output { status, stdout, stderr } =
            Command::new("curl").args(&words).output().expect("curl runs");
        assert!(status.success(), "{path}: {}", String::from_utf8_lossy(&stderr));
        serde_json::from_slice(&stdout).expect("JSON")
    };
    let post = |path: &str, body: &Value| http(&["--data", &body.to_string()], path);
    let get = |name: &str| http(&[], &format!("{name}/171"))["171"].clone();
    assert_eq!(http(&[], "switches"), serde_json::json!([171]));
    lab.right.ip("address flush dev eth0");
    lab.right.ip("address add 10.9.1.2/24 dev eth0");
    let mac =
        |netns: &Netns| netns.link("eth0").expect("a link")["address"].as_str().expect("a MAC").to_owned();
    post(
        "meterentry/add",
        &serde_json::json!({
            "dpid": 171, "meter_id": 1, "flags": ["KBPS"], "bands": [{"type": "DROP", "rate": 100_000}],
        }),
    );
    for (n, (netns, gateway, network)) in
        [(&lab.left, "10.9.0.254", "10.9.0.0/24"), (&lab.right, "10.9.1.254", "10.9.1.0/24")]
            .into_iter()
            .enumerate()
    {
        netns.ip(&format!("neigh replace {gateway} lladdr {ROUTER} dev eth0"));
        netns.ip(&format!("route replace default via {gateway}"));
        post(
            "groupentry/add",
            &serde_json::json!({
                "dpid": 171, "type": "INDIRECT", "group_id": n + 1, "buckets": [{"actions": [
                    {"type": "DEC_NW_TTL"},
                    {"type": "SET_FIELD", "field": "eth_src", "value": ROUTER},
                    {"type": "SET_FIELD", "field": "eth_dst", "value": mac(netns)},
                    {"type": "OUTPUT", "port": n + 1},
                ]}],
            }),
        );
        post(
            "flowentry/add",
            &serde_json::json!({
                "dpid": 171, "priority": 10, "match": {"eth_type": 0x800, "ipv4_dst": network, "eth_dst": ROUTER},
                "actions": [{"type": "METER", "meter_id": 1}, {"type": "GROUP", "group_id": n + 1}],
            }),
        );
    }
    let routed = wait::until(LIMIT, || {
        let answered = lab.left.attempt("ping", &["-c", "1", "-W", "1", "10.9.1.2"]).ok()?;
        answered.contains("ttl=63").then_some(())
    });
    assert!(routed.is_some(), "{}", get("flow"));
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
    post("flowentry/delete", &serde_json::json!({"dpid": 171, "match": {"eth_type": 0x800}}));
    let ended = wait::until(LIMIT, || (get("aggregateflow")[0]["flow_count"] == 0).then_some(()));
    assert!(ended.is_some(), "{}", get("flow"));
    lab.switch.stop();
}
