//! `linerate upgrade` of an OpenFlow bridge: another process has its flows, groups, meters and connections.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use linerate_tests::{folder, tcp, wait};
use serde_json::Value;

use crate::flows::Pair;

const LIMIT: Duration = Duration::from_secs(20);
const PORT: u16 = 7000;
/// Only `left` begins connections. Its source is translated.
const FIREWALL: [&str; 5] = [
    "table=0,priority=2,arp,actions=NORMAL",
    "table=0,priority=1,cookie=0x1234,ip,in_port=left,actions=ct(commit,zone=3,exec(set_field:0x77->ct_mark)),output:right",
    "table=0,priority=1,ip,in_port=right,actions=ct(table=1,zone=3)",
    "table=1,priority=9,cookie=0x99,ip,ct_state=+trk+est,ct_mark=0x77,idle_timeout=300,actions=output:left",
    "table=1,priority=1,cookie=0x98,ip,ct_state=+trk+new,actions=drop",
];

fn flows(pair: &Pair) -> Vec<Value> {
    let shown = pair.switch.ask(&["flows", "show"]).expect("the switch runs");
    shown["flows"].as_array().expect("a list").clone()
}

/// Cookie, match and actions of each flow.
fn rules(pair: &Pair) -> Vec<String> {
    let rule =
        |flow: &Value| ["table", "priority", "cookie", "match", "actions"].map(|key| flow[key].to_string());
    let mut rules: Vec<_> = flows(pair).iter().map(|flow| rule(flow).join(" ")).collect();
    rules.sort();
    rules
}

fn packets(pair: &Pair, cookie: &str) -> u64 {
    let flows = flows(pair);
    let flow = flows.iter().find(|flow| flow["cookie"] == cookie).expect("a flow with this cookie");
    flow["packets"].as_u64().expect("a number")
}

/// Sends bytes on a connection to an echo and reads them back.
fn exchange(stream: &mut TcpStream, round: u8) {
    let sent = [round; 3000];
    stream.write_all(&sent).expect("the connection is open");
    let mut read = [0; 3000];
    stream.read_exact(&mut read).expect("the connection is open");
    assert_eq!(sent, read);
}

fn can_connect(pair: &Pair) -> bool {
    let address = SocketAddr::from(([10, 9, 0, 1], PORT));
    pair.right.enter(move || TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok())
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn a_connection_through_a_stateful_firewall_continues() {
    let folder = folder();
    let mut pair = Pair::start(folder.path());
    pair.add(&FIREWALL);
    tcp::listen(&pair.right, PORT, tcp::echo);
    tcp::listen(&pair.left, PORT, tcp::echo);
    let mut stream = pair.left.enter(|| tcp::connect("10.9.0.2", PORT, LIMIT));
    stream.set_read_timeout(Some(LIMIT)).expect("a valid time");
    exchange(&mut stream, 0);
    assert!(!can_connect(&pair), "the other side begins no connection");
    let connections = |pair: &Pair| pair.switch.ask(&["ct", "show", "--zone", "3"]).expect("connections");
    let before = rules(&pair);
    for round in 1..4 {
        let known = connections(&pair)["total"].clone();
        let counted = packets(&pair, "0x99");
        let report = pair.switch.upgrade(&[]).expect("nothing is lost");
        assert_eq!(report["lost"], serde_json::json!([]), "{report}");
        println!("gap of {} us", report["gap_us"]);
        assert_eq!(connections(&pair)["total"], known);
        assert!(packets(&pair, "0x99") >= counted);
        exchange(&mut stream, round);
        assert!(!can_connect(&pair), "the other side begins no connection");
        let more = wait::until(LIMIT, || (packets(&pair, "0x99") > counted).then_some(()));
        assert!(more.is_some(), "the flow of replies counts on");
    }
    assert_eq!(rules(&pair), before);
    let shown = connections(&pair);
    let is_open = |entry: &Value| entry["mark"] == 0x77 && entry["state"] == "established/established";
    assert!(shown["connections"].as_array().expect("a list").iter().any(is_open), "{shown}");
    // A connection that began in an earlier process ends as any other one.
    drop(stream);
    pair.left.enter(|| tcp::exchange("10.9.0.2", PORT, (1, 1 << 20), LIMIT));
    pair.switch.stop();
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn a_translated_connection_and_options_of_tunnels_stay() {
    let folder = folder();
    let mut pair = Pair::start(folder.path());
    pair.switch
        .tell(&["tunnels", "options", "add", "{class=1,type=2,len=4}->tun_metadata0"])
        .expect("an option");
    pair.add(&[
        "priority=2,arp,actions=NORMAL",
        "table=0,priority=1,in_port=left,ip,actions=ct(commit,zone=1,nat(src=10.9.0.100:20000-20099)),output:right",
        "table=0,priority=1,in_port=right,ip,actions=ct(table=1,zone=1,nat)",
        "table=1,priority=1,in_port=right,ip,ct_state=+trk+est,actions=output:left",
        "table=2,tun_metadata0=0x7,actions=drop",
    ]);
    let hardware =
        pair.left.link("eth0").expect("the interface")["address"].as_str().expect("text").to_owned();
    pair.right.ip(&format!("neigh add 10.9.0.100 lladdr {hardware} dev eth0"));
    tcp::listen(&pair.right, PORT, tcp::echo);
    let mut stream = pair.left.enter(|| tcp::connect("10.9.0.2", PORT, LIMIT));
    stream.set_read_timeout(Some(LIMIT)).expect("a valid time");
    let before = rules(&pair);
    for round in 0..3 {
        exchange(&mut stream, round);
        pair.switch.upgrade(&[]).expect("nothing is lost");
    }
    exchange(&mut stream, 9);
    let options = pair.switch.ask(&["tunnels", "options", "show"]).expect("options");
    assert_eq!((rules(&pair), options.as_array().map(Vec::len)), (before, Some(1)), "{options}");
    pair.switch.stop();
}
