//! VLANs of a port: `vlan` of a `[[port]]` or `[[bond]]`.

use super::database::Row;
use super::document::{Section, list, table};
use super::findings::Findings;
use std::collections::BTreeSet;

/// Writes the VLANs of a port. `named` are those that ports of its bridge name.
pub(super) fn write(section: &mut Section, port: &Row, named: &BTreeSet<i64>, findings: &mut Findings) {
    let tag = port.integer("tag").filter(|tag| (1..=4094).contains(tag));
    let (mode, trunks) = (port.text("vlan_mode"), port.integers("trunks"));
    match mode {
        "" if port.integer("tag").is_some() => access(section, port, tag, findings),
        "access" => access(section, port, tag, findings),
        "dot1q-tunnel" => {
            access(section, port, tag, findings);
            let reason = "802.1ad tunnels are not supported: frames with a tag are dropped";
            let remedy = "use flows with `push_vlan:0x88a8` on an OpenFlow bridge";
            findings.add(section, (port, "vlan_mode"), reason, remedy);
        }
        "native-tagged" | "native-untagged" => native(section, port, (tag, &trunks, named), findings),
        _ => trunk(section, port, &trunks, findings),
    }
}

fn access(section: &mut Section, port: &Row, tag: Option<i64>, findings: &mut Findings) {
    section.set_some("vlan", tag);
    if tag.is_none() {
        let reason = "VLAN 0 alone cannot be selected: the port also carries the tagged frames of all VLANs";
        findings.add(section, (port, "tag"), reason, "write `vlan` with a VLAN from 1 to 4094");
    }
}

fn trunk(section: &mut Section, port: &Row, trunks: &[i64], findings: &mut Findings) {
    let carried = carried(trunks);
    if !carried.is_empty() {
        section.set("vlan", table([("trunk", Some(list(carried.clone())))]));
    }
    if trunks.contains(&0) && carried.is_empty() {
        let reason = "VLAN 0 alone cannot be selected: the port also carries the tagged frames of all VLANs";
        findings.add(section, (port, "trunks"), reason, "write `vlan` with a VLAN from 1 to 4094");
    } else if trunks.contains(&0) {
        let reason = "a trunk has no VLAN 0: its untagged frames are dropped";
        findings.add(section, (port, "trunks"), reason, "write `native` with the VLAN of untagged frames");
    }
}

fn native(
    section: &mut Section,
    port: &Row,
    (tag, trunks, named): (Option<i64>, &[i64], &BTreeSet<i64>),
    findings: &mut Findings,
) {
    let mut vlans: BTreeSet<i64> = carried(trunks).into_iter().chain(tag).collect();
    if trunks.is_empty() {
        vlans.extend(named);
        let reason = "a port with a native VLAN cannot carry all VLANs: it carries those that ports of the bridge name";
        findings.add(section, (port, "trunks"), reason, "add the missing VLANs to `trunk`");
    }
    if vlans.is_empty() {
        let reason = "the native VLAN 0 cannot be selected: the port carries all VLANs";
        return findings.add(section, (port, "tag"), reason, "write `vlan` with VLANs from 1 to 4094");
    }
    let is_tagged = port.text("vlan_mode") == "native-tagged";
    if is_tagged {
        let reason = "frames of a native VLAN are sent untagged or not at all: untagged frames are dropped";
        let remedy = "write `native` if the other end may receive its frames untagged";
        findings.add(section, (port, "vlan_mode"), reason, remedy);
    }
    let own = tag.filter(|_| !is_tagged);
    section.set("vlan", table([("trunk", Some(list(vlans))), ("native", own.map(Into::into))]));
}

/// VLANs of a list that a trunk can carry, in order and once.
fn carried(trunks: &[i64]) -> Vec<i64> {
    let valid = trunks.iter().copied().filter(|vlan| (1..=4094).contains(vlan));
    valid.collect::<BTreeSet<_>>().into_iter().collect()
}
