//! Pairs of stations, and flows, that may be forwarded outside the workers.

use super::*;
use crate::text::{NoNames, parse_flow};
use crate::{FastRequest, FastResult};
use port::af_xdp::{Edits, Headers};
use std::sync::Mutex;
use wire::MacAddress;

const A: PortId = PortId(0);
const TO_B: &str = "priority=1,dl_dst=02:00:00:00:00:02,actions=output:2";

fn mac(last: u8) -> MacAddress {
    MacAddress::new([2, 0, 0, 0, 0, last])
}

fn parsed(text: &str) -> Modification {
    Modification::Flow(Box::new(parse_flow(text, Some(FlowCommand::Add), &NoNames).unwrap()))
}

fn request(from: PortId, destination: MacAddress, headers: Option<&Headers>) -> FastRequest<'_> {
    FastRequest { from, source: mac(1), destination, headers }
}

/// Output port of frames from station 1, behind port 1, to station 2.
fn pair(switch: &FlowSwitch) -> Option<u16> {
    switch.fast(&request(A, mac(2), None), Now(0)).map(|pair| pair.to.0)
}

/// A flow of these stations.
fn headers(protocol: u8, ports: (u16, u16)) -> Headers {
    let (source, destination) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    Headers { source, destination, protocol, traffic_class: 0xb8, ports }
}

fn fast(lab: &Lab, headers: &Headers) -> Option<FastResult> {
    lab.switch.fast(&request(A, mac(2), Some(headers)), lab.now)
}

#[test]
fn results_that_depend_on_addresses_alone_are_pairs() {
    for flows in [
        &[TO_B][..],
        &["actions=output:2"],
        &[TO_B, "priority=0,ip,actions=drop"],
        &["in_port=1,dl_src=02:00:00:00:00:01,actions=resubmit(,1)", "table=1,actions=output:2"],
        &["priority=9,vlan_tci=0x1000/0x1000,actions=drop", TO_B],
    ] {
        let lab = Lab::new(&flows.iter().map(|flow| parsed(flow)).collect::<Vec<_>>());
        assert_eq!(pair(&lab.switch), Some(1), "{flows:?}");
    }
}

#[test]
fn other_results_are_no_pairs() {
    for flows in [
        &[][..],
        &["actions=drop"],
        &["actions=in_port"],
        &["actions=NORMAL"],
        &["actions=output:2,output:3"],
        &["actions=dec_ttl,output:2"],
        &["actions=mod_vlan_vid:5,output:2"],
        &["actions=controller"],
        &["priority=2,arp,actions=drop", TO_B],
        &["priority=2,tcp,tp_dst=80,actions=drop", TO_B],
        &["actions=learn(table=1,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[]),output:2"],
        &["actions=set_queue:1,output:2"],
    ] {
        let lab = Lab::new(&flows.iter().map(|flow| parsed(flow)).collect::<Vec<_>>());
        assert_eq!(pair(&lab.switch), None, "{flows:?}");
    }
    let lab = Lab::new(&[parsed("actions=output:2")]);
    assert!(lab.switch.fast(&request(A, MacAddress::BROADCAST, None), lab.now).is_none());
    assert!(lab.switch.fast(&request(PortId(8), mac(2), None), lab.now).is_none(), "a port of no bridge");
    lab.switch.set_standalone("br0", true).unwrap();
    assert_eq!(pair(&lab.switch), None, "the learning bridge decides");
}

#[test]
fn packets_of_a_pair_are_those_of_its_flow() {
    let mut lab = Lab::new(&[parsed(TO_B)]);
    let frame = udp(1, 2, (1, 2), 64);
    assert_eq!(lab.ports(0, &frame), [1]);
    lab.switch.fast(&request(A, mac(2), None), lab.now).unwrap().count(10, 600, Now(5));
    let tables = lab.switch.tables("br0").unwrap();
    let counted = || tables.flows(TableId(0)).next().unwrap().entry().counts();
    // The worker reports its own packet within half a second.
    for _ in 0..1000 {
        lab.counts();
    }
    assert_eq!(counted(), (11, 600 + frame.len() as u64));
}

#[test]
fn each_change_is_told_for_all_ports_of_the_bridge() {
    let lab = Lab::new(&[parsed(TO_B)]);
    let told = Arc::new(Mutex::new(Vec::new()));
    let list = told.clone();
    lab.switch.watch_results(move |port| list.lock().unwrap().push(port.0));
    let tells = |change: &dyn Fn()| {
        told.lock().unwrap().clear();
        change();
        assert!([0, 1, 2, 3].iter().all(|port| told.lock().unwrap().contains(port)), "{told:?}");
    };
    tells(&|| drop(lab.switch.modify("br0", &[parsed("priority=9,ip,actions=drop")], lab.now).unwrap()));
    assert_eq!(pair(&lab.switch), None);
    tells(&|| lab.switch.set_live(PortId(1), false));
    tells(&|| lab.switch.set_standalone("br0", true).unwrap());
    tells(&|| lab.switch.remove_port(PortId(1)));
}

#[test]
fn results_that_depend_on_headers_are_flows() {
    let (udp, tcp) = (headers(17, (5000, 53)), headers(6, (5000, 80)));
    let v6 = Headers {
        source: [0xfd00, 0, 0, 0, 0, 0, 0, 1].into(),
        destination: [0xfd00, 0, 0, 0, 0, 0, 0, 2].into(),
        ..udp
    };
    for (flow, headers) in [
        ("udp,nw_src=10.0.0.1,nw_dst=10.0.0.0/24,tp_src=5000,tp_dst=53", &udp),
        ("ip,nw_tos=0xb8,ip_frag=no", &udp),
        ("tcp,tp_dst=80", &tcp),
        ("udp6,ipv6_src=fd00::1,ipv6_dst=fd00::2,tp_dst=53", &v6),
    ] {
        let lab = Lab::new(&[parsed(&format!("{flow},actions=output:2"))]);
        assert_eq!(fast(&lab, headers).map(|found| found.to.0), Some(1), "{flow}");
        let other =
            Headers { ports: (1, 2), traffic_class: 0, protocol: 17 + 6 - headers.protocol, ..*headers };
        assert!(fast(&lab, &other).is_none(), "{flow}");
        assert_eq!(pair(&lab.switch), None, "{flow}");
    }
    for flow in ["tcp,tcp_flags=+ack,actions=output:2", "ip,nw_ttl=64,actions=output:2"] {
        assert!(fast(&Lab::new(&[parsed(flow)]), &tcp).is_none(), "{flow}");
    }
    assert!(fast(&Lab::new(&[parsed("ipv6,ipv6_label=0,actions=output:2")]), &v6).is_none());
}

#[test]
fn a_router_edits_addresses_and_time_to_live() {
    let route = "ip,nw_dst=10.0.0.2,actions=mod_dl_src:02:00:00:00:00:08,mod_dl_dst:02:00:00:00:00:09,\
                 dec_ttl,output:2";
    let lab = Lab::new(&[parsed(route)]);
    let edits = Edits { addresses: Some([mac(9), mac(8)]), decrements_ttl: true };
    assert_eq!(fast(&lab, &headers(17, (1, 2))).map(|found| found.edits), Some(edits));
    for other in [
        "ip,actions=dec_ttl,dec_ttl,output:2",
        "ip,actions=mod_nw_src:10.0.0.9,output:2",
        "ip,actions=output:2,dec_ttl,output:3",
        "ip,actions=mod_nw_tos:4,output:2",
    ] {
        assert!(fast(&Lab::new(&[parsed(other)]), &headers(17, (1, 2))).is_none(), "{other}");
    }
}

#[test]
fn open_connections_are_flows_until_they_change() {
    let flows = [
        "table=0,udp,actions=ct(table=1,zone=5)",
        "table=1,udp,ct_state=+trk+est,ct_mark=0,actions=output:2",
        "table=1,udp,ct_state=+trk+new,actions=ct(commit,zone=5),output:2",
    ];
    let mut lab = Lab::new(&flows.map(parsed));
    let ended = Arc::new(Mutex::new(Vec::new()));
    let list = ended.clone();
    lab.switch.tracker().on_end(move |number| list.lock().unwrap().push(number));
    let (there, back) = (udp(1, 2, (1, 2), 64), udp(2, 1, (2, 1), 64));
    let Headers { source, destination, .. } = headers(17, (1, 2));
    let flow = Headers { traffic_class: 0, ..headers(17, (1, 2)) };
    assert!(fast(&lab, &flow).is_none(), "there is no connection");
    assert_eq!(lab.ports(0, &there), [1]);
    assert!(fast(&lab, &flow).is_none(), "it is new");
    lab.ports(1, &back);
    let found = fast(&lab, &flow).unwrap();
    let tuple = conntrack::Tuple::new((source, destination), 17, 5).with_ports(1, 2);
    assert_eq!((found.to.0, found.connection), (1, Some((0, tuple))));
    assert!(lab.switch.tracker().watch(&tuple, 9, lab.now.0).is_some());
    assert_eq!(fast(&lab, &flow).unwrap().connection, Some((9, tuple)));
    let counted = || {
        let tables = lab.switch.tables("br0").unwrap();
        let counts = |table| tables.flows(TableId(table)).map(|flow| flow.entry().counts().0).sum::<u64>();
        (counts(0), counts(1))
    };
    let before = counted();
    found.count(10, 600, lab.now);
    assert_eq!(counted(), (before.0 + 10, before.1 + 10));
    assert!(ended.lock().unwrap().is_empty());
    assert_eq!(lab.switch.flush_connections(Some(5)), 1);
    assert_eq!(*ended.lock().unwrap(), [9]);
    assert!(fast(&lab, &flow).is_none());
}

#[test]
fn other_results_behind_connection_tracking_are_no_flows() {
    for (first, second) in [
        ("ct(table=1,zone=5,commit,exec(set_field:1->ct_mark))", "output:2"),
        ("ct(table=1,zone=5,commit,force)", "output:2"),
        ("ct(table=1,zone=5)", "output:2,output:3"),
        ("ct(table=1,zone=5)", "in_port"),
        ("ct(table=1,zone=5)", "ct(table=2,zone=6)"),
        ("output:3,ct(table=1,zone=5)", "output:2"),
    ] {
        let est = format!("table=1,udp,ct_state=+trk+est,actions={second}");
        let new = "table=1,udp,ct_state=+trk+new,actions=ct(commit,zone=5),output:2";
        let mut lab = Lab::new(&[parsed(&format!("udp,actions={first}")), parsed(&est), parsed(new)]);
        lab.ports(0, &udp(1, 2, (1, 2), 64));
        lab.ports(1, &udp(2, 1, (2, 1), 64));
        let flow = Headers { traffic_class: 0, ..headers(17, (1, 2)) };
        assert!(fast(&lab, &flow).is_none(), "{first}, {second}");
    }
}
