//! Ports of a spanning tree: their states, and protocol frames for control.

use crate::harness::{BROADCAST, Lab, SECOND, access, frame, mac, raw_frame, trunk};
use bridge::{LinkEvent, PortConfig, PortState, Selection};
use engine::{Context, Pipelines};
use port::{Now, PortId, Punted};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use wire::MacAddress;

const BPDUS: MacAddress = MacAddress::new([0x01, 0x80, 0xc2, 0, 0, 0]);
const LLDP: MacAddress = MacAddress::new([0x01, 0x80, 0xc2, 0, 0, 0x0e]);

fn tree(config: PortConfig) -> PortConfig {
    PortConfig { stp: true, ..config }
}

/// Three ports of a tree, which forward.
fn lab() -> Lab {
    let mut lab = Lab::with((0..3).map(|port| (port, tree(PortConfig::default()))));
    (0..3).for_each(|port| set(&mut lab, port, PortState::Forwarding));
    lab
}

fn set(lab: &mut Lab, port: u16, state: PortState) {
    lab.switch.set_states("br0", [(PortId(port), state)].into_iter());
}

/// An 802.3 frame with LLC, as BPDUs are.
pub(crate) fn bpdu(tag: Option<u16>) -> Vec<u8> {
    let mut frame = raw_frame(mac(7), BPDUS, tag);
    let at = frame.len() - 48;
    frame[at..at + 5].copy_from_slice(&[0, 39, 0x42, 0x42, 3]);
    frame
}

/// Number of packets of a burst that go to control.
fn punted(lab: &mut Lab, from: u16, frames: &[Vec<u8>]) -> u64 {
    lab.send(from, frames);
    lab.punted()
}

#[test]
fn a_new_port_discards_until_it_learns_and_forwards() {
    let mut lab = Lab::with([(0, PortConfig::default()), (1, tree(PortConfig::default()))]);
    assert_eq!(lab.loss(1, frame(10, BROADCAST, None)), Some("stp-blocked"));
    assert_eq!(lab.loss(0, frame(11, BROADCAST, None)), Some("no-destination"), "no port forwards");
    assert_eq!(lab.switch.stations("br0", Now(0)).unwrap().len(), 1, "only that of port 0");
    set(&mut lab, 1, PortState::Learning);
    assert_eq!(lab.loss(1, frame(10, BROADCAST, None)), Some("stp-blocked"));
    assert_eq!(lab.switch.stations("br0", Now(0)).unwrap().len(), 2);
    assert_eq!(lab.loss(0, frame(11, 10, None)), Some("stp-blocked"), "known behind a port that only learns");
    set(&mut lab, 1, PortState::Forwarding);
    assert_eq!((lab.ports(1, frame(10, 11, None)), lab.ports(0, frame(11, 10, None))), (vec![0], vec![1]));
}

#[test]
fn cached_answers_end_when_a_port_stops_forwarding() {
    let mut lab = lab();
    lab.ports(1, frame(10, BROADCAST, None));
    for _ in 0..3 {
        assert_eq!(lab.ports(0, frame(11, 10, None)), [1]);
        assert_eq!(lab.ports(0, frame(11, BROADCAST, None)), [1, 2]);
    }
    set(&mut lab, 1, PortState::Discarding);
    assert_eq!(lab.loss(0, frame(11, 10, None)), Some("stp-blocked"));
    assert_eq!(lab.ports(0, frame(11, BROADCAST, None)), [2]);
    assert_eq!(lab.ports(0, frame(11, 99, None)), [2], "unknown");
    let flushed = lab.switch.flush_ports("br0", &BTreeSet::from([PortId(1)]));
    assert_eq!(flushed, Ok(1));
    assert_eq!(lab.ports(0, frame(11, 10, None)), [2]);
    assert_eq!(lab.ports(2, frame(10, 11, None)), [0], "the station is learned elsewhere");
    assert_eq!(lab.switch.flush("br0", Selection::default()), Ok(2));
}

#[test]
fn states_of_other_ports_and_bridges_are_not_changed() {
    let mut lab = Lab::plain(2);
    set(&mut lab, 1, PortState::Discarding);
    lab.switch.set_states("br1", [(PortId(0), PortState::Discarding)].into_iter());
    assert_eq!(lab.ports(0, frame(11, BROADCAST, None)), [1]);
}

#[test]
fn bpdus_go_to_control_in_every_state_and_vlan_mode() {
    for config in [PortConfig::default(), access(10), trunk("20", None)] {
        let guarded = PortConfig { macs: vec![mac(10)], ..config.clone() };
        for config in [config, guarded] {
            let mut lab = Lab::with([(0, tree(config)), (1, PortConfig::default())]);
            for state in [PortState::Discarding, PortState::Learning, PortState::Forwarding] {
                set(&mut lab, 0, state);
                assert_eq!(punted(&mut lab, 0, &[bpdu(None)]), 1, "{state:?}");
            }
        }
    }
    let mut lab = lab();
    assert_eq!(punted(&mut lab, 0, &[bpdu(Some(5))]), 0, "BPDUs have no tag");
    assert_eq!(lab.loss(0, raw_frame(mac(7), LLDP, None)), Some("no-destination"), "LLDP is off");
    let mut plain = Lab::plain(2);
    assert_eq!(plain.loss(0, bpdu(None)), Some("no-destination"));
}

#[test]
fn a_flood_of_bpdus_is_limited_by_its_port() {
    let mut lab = lab();
    let flood = vec![bpdu(None); 60];
    assert_eq!(punted(&mut lab, 0, &flood), 50);
    assert_eq!(lab.loss(0, bpdu(None)), Some("protocol-limit"));
    assert_eq!(punted(&mut lab, 1, &[bpdu(None)]), 1, "another port");
    lab.now += SECOND;
    assert_eq!(punted(&mut lab, 0, &flood), 50);
}

#[test]
fn control_sends_on_a_port_that_discards() {
    let mut lab = lab();
    set(&mut lab, 2, PortState::Discarding);
    assert_eq!(lab.transmit(2, bpdu(None)), [2]);
}

#[test]
fn control_learns_of_links_and_frames() {
    let (lab, events) = (lab(), Arc::new(Mutex::new(Vec::new())));
    let log = events.clone();
    lab.switch.listen(move |event| log.lock().unwrap().push(event));
    let mut observer = lab.switch.observer().unwrap();
    observer.changed(PortId(1), true, Now(0));
    let context = Context::received(PortId(2), Now(0));
    let frame = Box::from(&[1, 2][..]);
    observer.punted(Punted { context, reason: engine::PuntReason::Protocol, note: None, frame });
    let events = events.lock().unwrap();
    assert!(matches!(events[..], [
        LinkEvent::Changed(PortId(1), true),
        LinkEvent::Received(PortId(2), ref frame)
    ] if **frame == [1, 2]));
}
