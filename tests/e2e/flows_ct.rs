//! Connection tracking of OpenFlow bridges: TCP of two kernels through a stateful firewall, and through translation.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use linerate_tests::{folder, tcp, wait};
use serde_json::Value;

use crate::flows::Pair;

const LIMIT: Duration = Duration::from_secs(20);
const PORT: u16 = 7000;
/// Bytes of an exchange: enough for segments of many lengths, and for the windows of both sides.
const BYTES: usize = 4 << 20;

fn ports(pair: &Pair) {
    pair.add(&[
        "priority=2,arp,in_port=left,actions=output:right",
        "priority=2,arp,in_port=right,actions=output:left",
    ]);
}

/// Connections of the switch.
fn connections(pair: &Pair, filter: &[&str]) -> Vec<Value> {
    let shown = pair.switch.ask(&[&["ct", "show"], filter].concat()).expect("the switch runs");
    shown["connections"].as_array().expect("a list").clone()
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn a_firewall_admits_connections_of_one_side() {
    let folder = folder();
    let pair = Pair::start(folder.path());
    ports(&pair);
    pair.add(&[
        "table=0,priority=1,ip,actions=ct(table=1)",
        "table=1,priority=9,in_port=left,ip,ct_state=+trk+new,actions=ct(commit),output:right",
        "table=1,priority=9,in_port=left,ip,ct_state=+trk+est,actions=output:right",
        "table=1,priority=9,in_port=right,ip,ct_state=+trk+est,actions=output:left",
        "table=1,priority=1,ip,actions=drop",
    ]);
    tcp::listen(&pair.left, PORT, tcp::echo);
    tcp::listen(&pair.right, PORT, tcp::echo);
    pair.left.ping("10.9.0.2", 3, &[]);
    for seed in 0..4 {
        pair.left.enter(move || tcp::exchange("10.9.0.2", PORT, (seed, BYTES), LIMIT));
    }
    let shown = connections(&pair, &[]);
    assert!(
        shown.iter().any(|entry| entry["protocol"] == 6 && entry["reply"]["source"] == "10.9.0.2"),
        "{shown:?}"
    );
    // Each echo was of a connection that the trace finds, and a trace can be told another state.
    let end = |entry: &Value, name: &str| entry["original"][name].to_string().replace('"', "");
    let known = shown.iter().find(|entry| entry["protocol"] == 6).expect("a connection");
    let reply = format!(
        "in_port=right,tcp,nw_src=10.9.0.2,nw_dst=10.9.0.1,tp_src={PORT},tp_dst={}",
        end(known, "source_port")
    );
    let verdict = |flow: &str, more: &[&str]| {
        let words = [&["trace", "--flow", flow], more].concat();
        pair.switch.ask(&words).expect("the flow is valid")["passes"][1]["verdict"].clone()
    };
    assert_eq!(verdict(&reply, &[]), "sent");
    assert_ne!(verdict(&reply, &["--ct-next", "trk,new"]), "sent");
    let other = "in_port=right,tcp,nw_src=10.9.0.2,nw_dst=10.9.0.1,tp_src=1,tp_dst=2";
    assert_ne!(verdict(other, &[]), "sent");
    assert_eq!(verdict(other, &["--ct-next", "trk,est"]), "sent");
    let connects = || {
        TcpStream::connect_timeout(&SocketAddr::from(([10, 9, 0, 1], PORT)), Duration::from_secs(1)).is_ok()
    };
    assert!(!pair.right.enter(connects), "the other side begins no connection");
    assert!(pair.right.attempt("ping", &["-c", "1", "-W", "1", "10.9.0.1"]).is_err());
    pair.switch.assert_sums_agree(&["left", "right"]);
    pair.switch.stop();
}

/// Tells a client its address.
fn tell_peer(mut stream: TcpStream) {
    let peer = stream.peer_addr().expect("a connection").ip().to_canonical();
    let _ = stream.write_all(peer.to_string().as_bytes());
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn connections_pass_through_translation_of_their_source() {
    let folder = folder();
    let pair = Pair::start(folder.path());
    ports(&pair);
    pair.add(&[
        "table=0,priority=1,in_port=left,ip,actions=ct(commit,zone=1,nat(src=10.9.0.100:20000-20099)),output:right",
        "table=0,priority=1,in_port=right,ip,actions=ct(table=1,zone=1,nat)",
        "table=1,priority=1,in_port=right,ip,ct_state=+trk+est,actions=output:left",
    ]);
    let hardware =
        pair.left.link("eth0").expect("the interface")["address"].as_str().expect("text").to_owned();
    pair.right.ip(&format!("neigh add 10.9.0.100 lladdr {hardware} dev eth0"));
    tcp::listen(&pair.right, PORT, tell_peer);
    tcp::listen(&pair.right, PORT + 1, tcp::echo);
    let told = pair.left.enter(|| {
        let mut said = String::new();
        tcp::connect("10.9.0.2", PORT, LIMIT).read_to_string(&mut said).expect("the server closes");
        said
    });
    assert_eq!(told, "10.9.0.100");
    let shown = connections(&pair, &["--zone", "1"]);
    let is_translated = |entry: &Value| entry["reply"]["destination"] == "10.9.0.100";
    assert!(!shown.is_empty() && shown.iter().all(is_translated), "{shown:?}");
    assert!(connections(&pair, &["--zone", "2"]).is_empty());
    for seed in 0..4 {
        pair.left.enter(move || tcp::exchange("10.9.0.2", PORT + 1, (seed, BYTES), LIMIT));
    }
    pair.left.ping("10.9.0.2", 3, &[]);
    pair.switch.tell(&["ct", "flush"]).expect("the switch runs");
    assert!(connections(&pair, &[]).is_empty());
    pair.switch.assert_sums_agree(&["left", "right"]);
    pair.switch.stop();
}

/// Whether the host of this namespace can connect to a port.
fn connects(address: [u8; 4]) -> bool {
    TcpStream::connect_timeout(&SocketAddr::from((address, PORT)), Duration::from_secs(1)).is_ok()
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn a_stateful_access_list_admits_connections_of_one_side_with_their_replies_and_errors() {
    let folder = folder();
    let rule = |lines: &str| format!("[[acl]]\naction = \"allow\"\n{lines}\n");
    let of_left = |protocol: &str| {
        rule(&format!("from = \"left\"\nto = \"right\"\nprotocol = \"{protocol}\"\nstateful = true"))
    };
    let rules = [rule("protocol = \"arp\""), of_left("tcp"), of_left("udp"), of_left("icmp")].concat();
    let pair = Pair::start_with(folder.path(), &rules);
    tcp::listen(&pair.left, PORT, tcp::echo);
    tcp::listen(&pair.right, PORT, tcp::echo);
    pair.left.ping("10.9.0.2", 3, &[]);
    for seed in 0..4 {
        pair.left.enter(move || tcp::exchange("10.9.0.2", PORT, (seed, BYTES), LIMIT));
    }
    // Nothing listens: the ICMP error of the other host is related to the connection.
    let refused = pair.left.enter(|| {
        let socket = UdpSocket::bind("10.9.0.1:0").expect("a free port");
        socket.connect("10.9.0.2:9").expect("an address");
        socket.set_read_timeout(Some(LIMIT)).expect("a valid time");
        socket.send(b"x").expect("a route");
        socket.recv(&mut [0; 8]).expect_err("there is no answer").kind()
    });
    assert_eq!(refused, std::io::ErrorKind::ConnectionRefused);
    assert!(!pair.right.enter(|| connects([10, 9, 0, 1])), "the other side begins no connection");
    assert!(pair.right.attempt("ping", &["-c", "1", "-W", "1", "10.9.0.1"]).is_err());
    let marks: Vec<_> = connections(&pair, &[]).iter().map(|entry| entry["mark"].as_u64()).collect();
    assert!(marks.contains(&Some(2)) && marks.contains(&Some(4)), "the numbers of the rules: {marks:?}");
    pair.switch.assert_sums_agree(&["left", "right"]);
    pair.switch.stop();
}

#[test]
#[ignore = "needs root: run by `cargo xtask test`"]
fn a_guest_that_opens_many_connections_has_its_share() {
    let folder = folder();
    let sections = "[conntrack]\nmax_per_port = 20\nzones = { 7 = 1000 }\n";
    let pair = Pair::start_with(folder.path(), sections);
    ports(&pair);
    pair.add(&[
        "priority=1,in_port=left,ip,actions=ct(commit),output:right",
        "priority=1,in_port=right,ip,actions=ct(commit),output:left",
    ]);
    pair.left.enter(|| {
        for _ in 0..200 {
            let socket = UdpSocket::bind("10.9.0.1:0").expect("a free port");
            socket.send_to(b"x", "10.9.0.2:9").expect("a route");
        }
    });
    let limits = || pair.switch.ask(&["ct", "limits", "show"]).expect("the switch runs");
    let of_port = |name: &str| {
        let limits = limits();
        let ports = limits["ports"].as_array().expect("a list").clone();
        ports.iter().find(|port| port["port"] == name).and_then(|port| port["connections"].as_u64())
    };
    let refused = || limits()["refused"]["port"].as_u64().filter(|refused| *refused >= 100);
    assert!(wait::until(LIMIT, refused).is_some(), "{}", limits());
    assert!(of_port("left").is_some_and(|connections| connections <= 20), "{}", limits());
    // The other guest is not affected.
    pair.right.ping("10.9.0.1", 1, &[]);
    assert!(of_port("right").is_some_and(|connections| connections > 0), "{}", limits());
    assert_eq!(limits()["zones"].as_array().expect("a list").last().expect("a zone")["max"], 1000);
    let set = ["ct", "limits", "set", "max_per_port=1000", "zones.3=5", "timeouts.udp_first=1s"];
    pair.switch.tell(&set).expect("valid limits");
    let changed = limits();
    assert_eq!((&changed["max_per_port"], &changed["timeouts"]["udp_first"]), (&1000.into(), &"1s".into()));
    assert_eq!(changed["zones"].as_array().expect("a list").len(), 3, "{changed}");
    let said = pair.switch.tell(&["ct", "limits", "set", "max=0"]).unwrap_err();
    assert!(said.contains("expected 1 to 100000000") && said.contains("remedy: "), "{said}");
    pair.switch.stop();
}
