//! Pairs of stations that may be forwarded outside the workers.

use super::*;
use crate::text::{NoNames, parse_flow};
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

/// Output port of frames from station 1, behind port 1, to station 2.
fn pair(switch: &FlowSwitch) -> Option<u16> {
    switch.pair(A, mac(1), mac(2)).map(|pair| pair.to.0)
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
        &["actions=mod_dl_src:02:00:00:00:00:09,output:2"],
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
    assert!(lab.switch.pair(A, mac(1), MacAddress::BROADCAST).is_none());
    assert!(lab.switch.pair(PortId(8), mac(1), mac(2)).is_none(), "a port of no bridge");
    lab.switch.set_standalone("br0", true).unwrap();
    assert!(lab.switch.pair(A, mac(1), mac(2)).is_none(), "the learning bridge decides");
}

#[test]
fn packets_of_a_pair_are_those_of_its_flow() {
    let mut lab = Lab::new(&[parsed(TO_B)]);
    let frame = udp(1, 2, (1, 2), 64);
    assert_eq!(lab.ports(0, &frame), [1]);
    lab.switch.pair(A, mac(1), mac(2)).unwrap().count(10, 600, Now(5));
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
    lab.switch.watch_pairs(move |port| list.lock().unwrap().push(port.0));
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
