//! Access, trunk and transparent ports in all combinations, and the resulting bytes.

use crate::harness::{BROADCAST, Lab, frame, mac, trunk, vlan};
use crate::harness::{access, raw_frame};
use bridge::{PortConfig, StaticError};
use port::PortId;

/// Port 0: access 10. 1: access 20. 2: trunk 10, 20. 3: trunk 10 with native 20. 4: transparent.
fn lab() -> Lab {
    let transparent = PortConfig::default();
    let ports = [access(10), access(20), trunk("10,20", None), trunk("10", Some(20)), transparent];
    Lab::with((0..).zip(ports))
}

/// Output ports and egress tags of a broadcast received with `tag`.
fn reached(from: u16, tag: Option<u16>) -> Result<Vec<(u16, Option<u16>)>, &'static str> {
    let fate = lab().send(from, &[frame(1, BROADCAST, tag)]);
    if let Some(reason) = fate.lost.into_keys().next() {
        return Err(reason);
    }
    Ok(fate.sent[0].iter().map(|(port, bytes)| (*port, tag_of(bytes))).collect())
}

/// Tag of a frame; checks that all other bytes are unchanged.
fn tag_of(bytes: &[u8]) -> Option<u16> {
    let tag = (bytes[12..14] == [0x81, 0]).then(|| u16::from_be_bytes([bytes[14], bytes[15]]));
    assert_eq!(bytes, frame(1, BROADCAST, tag), "nothing but the tag changes");
    tag
}

#[test]
fn broadcast_reaches_ports_of_its_vlan_tagged_as_configured() {
    let ten = |from: u16| {
        let all = [(0, None), (2, Some(10)), (3, Some(10)), (4, Some(10))];
        Ok(all.into_iter().filter(|(port, _)| *port != from).collect::<Vec<_>>())
    };
    let twenty = |from: u16| {
        let all = [(1, None), (2, Some(20)), (3, None), (4, Some(20))];
        Ok(all.into_iter().filter(|(port, _)| *port != from).collect::<Vec<_>>())
    };
    let denied = Err("vlan-denied");
    assert_eq!([reached(0, None), reached(0, Some(0))], [ten(0), ten(0)]);
    assert_eq!([reached(0, Some(10)), reached(0, Some(20))], [denied.clone(), denied.clone()]);
    assert_eq!([reached(1, None), reached(1, Some(10))], [twenty(1), denied.clone()]);
    assert_eq!([reached(2, Some(10)), reached(2, Some(20))], [ten(2), twenty(2)]);
    assert_eq!(
        [reached(2, None), reached(2, Some(0)), reached(2, Some(30))],
        [(); 3].map(|()| denied.clone())
    );
    assert_eq!(
        [reached(3, Some(10)), reached(3, None), reached(3, Some(20))],
        [ten(3), twenty(3), twenty(3)]
    );
    assert_eq!([reached(4, Some(10)), reached(4, Some(20))], [ten(4), twenty(4)]);
    assert_eq!([reached(4, None), reached(4, Some(30))], [(); 2].map(|()| Err("no-destination")));
    assert_eq!(reached(4, Some(4095)), denied);
}

#[test]
fn tag_priority_is_kept_and_priority_tags_are_removed() {
    assert_eq!(reached(2, Some(0xb00a)), Ok(vec![(0, None), (3, Some(0xb00a)), (4, Some(0xb00a))]));
    assert_eq!(reached(0, Some(0xa000)), Ok(vec![(2, Some(0xa00a)), (3, Some(0xa00a)), (4, Some(0xa00a))]));
}

#[test]
fn address_is_learned_per_vlan() {
    let mut lab = lab();
    lab.send(0, &[frame(1, BROADCAST, None)]);
    lab.send(1, &[frame(1, BROADCAST, None)]);
    assert_eq!(lab.ports(2, frame(2, 1, Some(10))), [0]);
    assert_eq!(lab.ports(2, frame(2, 1, Some(20))), [1]);
    let fate = lab.send(2, &[frame(2, 1, Some(10)), frame(2, 1, Some(20)), frame(2, 1, Some(10))]);
    assert_eq!(fate.sent.iter().map(|ports| *ports.keys().next().unwrap()).collect::<Vec<_>>(), [0, 1, 0]);
    assert_eq!(fate.sent[1][&1], frame(2, 1, None));
}

#[test]
fn tag_behind_a_priority_tag_is_dropped_at_access_ports() {
    let mut lab = lab();
    let mut hidden = frame(1, BROADCAST, Some(0));
    hidden.splice(16..16, [0x81, 0x00, 0x00, 0x14]);
    assert_eq!(lab.loss(1, hidden.clone()), Some("vlan-denied"));
    hidden[13] = 0xa8;
    assert_ne!(lab.loss(1, hidden), Some("vlan-denied"), "an unknown type is payload");
}

#[test]
fn truncated_tag_is_dropped_on_vlan_bridges() {
    for cut in 14..18 {
        assert_eq!(lab().loss(0, frame(1, BROADCAST, Some(10))[..cut].to_vec()), Some("too-short"));
        assert_eq!(Lab::plain(2).ports(0, frame(1, BROADCAST, Some(10))[..cut].to_vec()), [1]);
    }
}

#[test]
fn bridge_without_vlans_ignores_tags() {
    let mut lab = Lab::plain(3);
    for tag in [Some(0), Some(10), Some(4095)] {
        let fate = lab.send(0, &[frame(1, BROADCAST, tag)]);
        assert_eq!(fate.sent[0].values().collect::<Vec<_>>(), [&frame(1, BROADCAST, tag); 2]);
    }
    assert_eq!(lab.ports(1, frame(2, 1, None)), [0], "one station for all tags");
    assert!(!lab.switch.statistics()[0].vlan_aware);
}

#[test]
fn vlan_processing_follows_ports_with_vlans() {
    let mut lab = Lab::plain(3);
    assert_eq!(lab.ports(0, frame(1, BROADCAST, Some(10))), [1, 2]);
    lab.switch.add_port(PortId(3), "br0", &access(20)).unwrap();
    assert_eq!(lab.ports(0, frame(1, BROADCAST, Some(10))), [1, 2]);
    assert_eq!(lab.ports(0, frame(1, BROADCAST, Some(20))), [1, 2, 3]);
    lab.switch.remove_port(PortId(3)).unwrap();
    assert_eq!(lab.ports(0, frame(1, BROADCAST, Some(4095))), [1, 2]);
}

#[test]
fn static_entry_defaults_to_the_vlan_of_its_port() {
    let mut lab = lab();
    let pin =
        |lab: &Lab, id: Option<u16>, port| lab.switch.add_static("br0", mac(7), id.map(vlan), PortId(port));
    pin(&lab, None, 0).unwrap();
    assert_eq!(lab.ports(2, frame(2, 7, Some(10))), [0]);
    assert!(matches!(pin(&lab, Some(20), 0), Err(StaticError::VlanDenied { vlan: 20, .. })));
    assert!(matches!(pin(&lab, None, 2), Err(StaticError::VlanMissing { .. })));
    pin(&lab, Some(20), 2).unwrap();
    assert_eq!(lab.ports(1, frame(3, 7, None)), [2]);
    assert_eq!(lab.loss(1, frame(7, BROADCAST, None)), Some("static-mac-violation"));
    assert!(matches!(pin(&Lab::plain(2), Some(20), 0), Err(StaticError::VlanDenied { .. })));
}

#[test]
fn burst_is_edited_for_each_port() {
    let mut lab = lab();
    let frames: Vec<_> =
        (0..64).map(|i| raw_frame(mac(i), mac(BROADCAST), Some([10, 20][i as usize % 2]))).collect();
    let fate = lab.send(2, &frames);
    for (i, ports) in fate.sent.iter().enumerate() {
        let untagged = raw_frame(mac(i as u64), mac(BROADCAST), None);
        let expected = if i % 2 == 0 { [(0, 0), (3, 1), (4, 1)] } else { [(1, 0), (3, 0), (4, 1)] };
        let expected = expected.map(|(port, tagged)| (port, [&untagged, &frames[i]][tagged].clone()));
        assert_eq!(ports.clone().into_iter().collect::<Vec<_>>(), expected);
    }
}
