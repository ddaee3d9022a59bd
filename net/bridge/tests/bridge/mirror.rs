//! Mirrors of a learning bridge.

use crate::harness::{BROADCAST, Lab, access, frame, mac, raw_frame, trunk, vlan};
use bridge::{MirrorConfig, MirrorError, MirrorOutput, MirrorStatistics, PortConfig};
use port::PortId;
use std::collections::BTreeMap;
use wire::MacAddress;

/// A mirror of nothing to port 3.
fn mirror(name: &str) -> MirrorConfig {
    MirrorConfig {
        name: name.to_owned(),
        sources: Vec::new(),
        destinations: Vec::new(),
        all: false,
        vlans: None,
        output: Some(MirrorOutput::Port(PortId(3))),
        snap_length: None,
    }
}

fn of_both(name: &str, ports: &[u16]) -> MirrorConfig {
    let ports: Vec<_> = ports.iter().copied().map(PortId).collect();
    MirrorConfig { sources: ports.clone(), destinations: ports, ..mirror(name) }
}

impl Lab {
    fn set(&self, mirrors: &[MirrorConfig]) {
        self.switch.set_mirrors("br0", mirrors).expect("valid mirrors");
    }

    fn counts(&self) -> Vec<(String, u64, u64)> {
        let all = self.switch.mirrors("br0").expect("the bridge is there");
        all.into_iter().map(|MirrorStatistics { name, packets, bytes, .. }| (name, packets, bytes)).collect()
    }

    /// The frames of one packet, by output port.
    fn sent(&mut self, from: u16, frame: Vec<u8>) -> BTreeMap<u16, Vec<u8>> {
        self.send(from, &[frame]).sent.remove(0)
    }
}

#[test]
fn received_and_sent_packets_of_a_port_are_copied_once() {
    let mut lab = Lab::plain(4);
    lab.set(&[of_both("m", &[0])]);
    assert_eq!(lab.ports(0, frame(1, 2, None)), [1, 2, 3], "received by port 0, and not flooded to port 3");
    assert_eq!(lab.ports(1, frame(2, 1, None)), [0, 3], "sent by port 0");
    assert_eq!(lab.ports(2, frame(3, 2, None)), [1], "not selected");
    assert_eq!(lab.ports(2, frame(3, BROADCAST, None)), [0, 1, 3], "sent by port 0 among others");
    assert_eq!(lab.counts(), [("m".to_owned(), 3, 180)]);
    lab.set(&[MirrorConfig { all: true, ..mirror("m") }]);
    for _ in 0..3 {
        // From the second time on, the bridge answers from its caches.
        assert_eq!(lab.ports(0, frame(1, 2, None)), [1, 3]);
    }
    assert_eq!(lab.counts(), [("m".to_owned(), 6, 360)], "the mirror of this name keeps its counters");
    lab.set(&[]);
    assert_eq!(lab.ports(0, frame(1, BROADCAST, None)), [1, 2, 3]);
}

#[test]
fn packets_keep_their_order() {
    let mut lab = Lab::plain(4);
    lab.set(&[MirrorConfig { all: true, ..mirror("m") }]);
    let frames: Vec<_> = (1..=20).map(|n| frame(n, 30 - n % 7, None)).collect();
    let outcome = lab.send(0, &frames);
    for (packet, expected) in outcome.sent.iter().zip(&frames) {
        assert_eq!(packet.get(&3), Some(expected));
    }
}

#[test]
fn dropped_packets_are_copied() {
    let mut lab = Lab::plain(4);
    lab.set(&[of_both("m", &[0])]);
    let bad = raw_frame(MacAddress::from_u64(BROADCAST), mac(2), None);
    let outcome = lab.send(0, std::slice::from_ref(&bad));
    assert_eq!((outcome.lost["bad-source"], &outcome.sent[0][&3]), (1, &bad));
}

#[test]
fn the_output_port_is_reserved() {
    let mut lab = Lab::plain(4);
    lab.switch.add_static("br0", mac(9), None, PortId(3)).expect("an entry");
    assert_eq!(lab.ports(0, frame(1, 9, None)), [3]);
    lab.set(&[of_both("m", &[1])]);
    assert_eq!(lab.loss(3, frame(9, 1, None)), Some("mirror-port"));
    assert_eq!(lab.loss(0, frame(1, 9, None)), Some("mirror-port"));
    let outcome = lab.send(1, &[frame(2, 9, None)]);
    assert_eq!((outcome.lost["mirror-port"], outcome.sent[0].len()), (1, 1), "its copy is sent");
    lab.switch.remove_port(PortId(3)).expect("a port");
    assert!(!lab.switch.mirrors("br0").expect("the bridge is there")[0].is_active);
    assert_eq!(lab.ports(1, frame(2, 1, None)), [0]);
    lab.switch.add_port(PortId(3), "br0", &PortConfig::default()).expect("a port");
    assert_eq!(lab.ports(1, frame(2, 1, None)), [0, 3]);
}

#[test]
fn copies_are_as_received_and_as_sent() {
    let ports = [(0, access(10)), (1, trunk("10,20", None)), (2, access(20)), (3, PortConfig::default())];
    let mut lab = Lab::with(ports);
    lab.set(&[MirrorConfig { sources: vec![PortId(0)], ..mirror("m") }]);
    let sent = lab.sent(0, frame(1, 2, None));
    assert_eq!((&sent[&1], &sent[&3]), (&frame(1, 2, Some(10)), &frame(1, 2, None)));
    lab.set(&[MirrorConfig { destinations: vec![PortId(1)], ..mirror("m") }]);
    let sent = lab.sent(0, frame(1, 2, None));
    assert_eq!((&sent[&1], &sent[&3]), (&frame(1, 2, Some(10)), &frame(1, 2, Some(10))));
    lab.set(&[MirrorConfig { all: true, vlans: Some("20".parse().expect("a list")), ..mirror("m") }]);
    assert_eq!(lab.ports(0, frame(1, 2, None)), [1]);
    assert_eq!(lab.ports(2, frame(3, 4, None)), [1, 3]);
    assert_eq!(lab.ports(1, frame(4, 3, Some(20))), [2, 3]);
}

#[test]
fn copies_for_a_vlan_have_its_tag() {
    let ports = [
        (0, access(10)),
        (1, trunk("10,99", None)),
        (2, trunk("99", None)),
        (3, access(99)),
        (4, trunk("20,99", Some(99))),
    ];
    let mut lab = Lab::with(ports);
    let output = Some(MirrorOutput::Vlan(vlan(99)));
    lab.set(&[MirrorConfig { output, ..of_both("m", &[0]) }]);
    let sent = lab.sent(1, frame(2, BROADCAST, Some(10)));
    assert_eq!(sent[&0], frame(2, BROADCAST, None));
    let (tagged, untagged) = (frame(2, BROADCAST, Some(99)), frame(2, BROADCAST, None));
    let copies = [&tagged, &tagged, &untagged, &untagged];
    assert_eq!([&sent[&1], &sent[&2], &sent[&3], &sent[&4]], copies, "also to the port that it came from");
    lab.set(&[MirrorConfig { output, ..of_both("m", &[1]) }]);
    let sent = lab.sent(1, frame(2, BROADCAST, Some(10)));
    assert_eq!([&sent[&1], &sent[&2], &sent[&3], &sent[&4]], copies, "the tag was replaced");
    assert_eq!(lab.ports(1, frame(5, 6, Some(99))), [2, 3, 4], "what is in the VLAN already is not copied");
    let group = MacAddress::new([1, 0x80, 0xc2, 0, 0, 0]);
    assert!(lab.ports(1, raw_frame(mac(5), group, Some(10))).is_empty(), "nor are reserved groups");
    assert_eq!(lab.counts(), [("m".to_owned(), 2, 124)]);
}

#[test]
fn copies_are_truncated() {
    let mut lab = Lab::plain(4);
    lab.set(&[MirrorConfig { snap_length: Some(40), ..of_both("m", &[0]) }]);
    for len in [60, 500] {
        let mut long = frame(1, BROADCAST, None);
        long.resize(len, 7);
        let sent = lab.sent(0, long.clone());
        assert_eq!((&sent[&1], &sent[&3][..]), (&long, &long[..40]));
    }
    assert_eq!(lab.counts(), [("m".to_owned(), 2, 560)]);
}

#[test]
fn mirrors_with_one_output_copy_a_packet_once() {
    let mut lab = Lab::plain(5);
    let other = MirrorConfig { output: Some(MirrorOutput::Port(PortId(4))), ..of_both("c", &[1]) };
    lab.set(&[of_both("a", &[0]), of_both("b", &[0, 1]), other]);
    assert_eq!(lab.ports(0, frame(1, BROADCAST, None)), [1, 2, 3, 4]);
    let counts: Vec<_> = lab.counts().into_iter().map(|(_, packets, _)| packets).collect();
    assert_eq!(counts, [1, 0, 1]);
}

#[test]
fn invalid_mirrors_are_refused() {
    let lab = Lab::plain(4);
    let set = |mirrors: &[MirrorConfig]| lab.switch.set_mirrors("br0", mirrors);
    assert!(matches!(set(&[mirror("a"), mirror("a")]), Err(MirrorError::Exists(..))));
    let many: Vec<_> = (0..33).map(|n| mirror(&n.to_string())).collect();
    assert!(matches!(set(&many), Err(MirrorError::TooMany(_))));
    assert!(matches!(
        set(&[MirrorConfig { snap_length: Some(13), ..mirror("a") }]),
        Err(MirrorError::SnapLength(..))
    ));
    assert!(matches!(lab.switch.set_mirrors("br9", &[]), Err(MirrorError::Unknown(_))));
    assert!(lab.counts().is_empty());
}
