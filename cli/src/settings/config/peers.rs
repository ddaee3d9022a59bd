//! Validates patch ports against their peers.

use crate::settings::kinds::PortKind;
use crate::settings::kinds::patch::Patch;
use crate::settings::reader::notes::{Findings, Section};
use crate::settings::reader::words::exists;
use crate::settings::topology::{PortSettings, Topology};

/// Validates one end of a patch against earlier ports. The peer may be missing, because ports are added to a running
/// switch one at a time.
pub(super) fn validate(topology: &Topology, index: usize, notes: &mut Findings) {
    let own = &topology.ports[index];
    let PortKind::Patch(patch) = &own.kind else { return };
    let wrong = topology.ports[..index].iter().find_map(|other| against(patch, own, other));
    if let Some((reason, remedy)) = wrong {
        notes.wrong((Section::Port(index), "peer"), reason, remedy);
    }
}

/// Validates that the peer of each patch port of a file exists and is a patch port.
pub(super) fn complete(topology: &Topology, notes: &mut Findings) {
    if (0..topology.ports.len()).any(|i| notes.is_spoiled((Section::Port(i), "name"))) {
        return;
    }
    for (index, port) in topology.ports.iter().enumerate() {
        let PortKind::Patch(patch) = &port.kind else { continue };
        let peer = topology.ports.iter().find(|other| other.name == patch.peer);
        let place = (Section::Port(index), "peer");
        match peer.map(|peer| &peer.kind) {
            None => {
                let others = topology.ports.iter().map(|other| other.name.as_str());
                let others = others.filter(|name| *name != port.name);
                let reason = format!("there is no port \"{}\"", patch.peer);
                let remedy = exists("port", others, &patch.peer, notes);
                notes.wrong(place, reason, remedy);
            }
            Some(PortKind::Patch(_)) => {}
            Some(_) => {
                let (reason, remedy) = unpaired(&patch.peer, &port.name);
                notes.wrong(place, reason, remedy);
            }
        }
    }
}

/// Error for a port `there` that is not the peer of `here`, with its remedy.
fn unpaired(there: &str, here: &str) -> (String, String) {
    let reason = format!("port \"{there}\" is not paired with this one");
    (reason, format!("write kind = \"patch\" and peer = \"{here}\" there"))
}

/// Returns the conflict between the end `own` of a patch and the earlier port `other`, with its remedy.
fn against(patch: &Patch, own: &PortSettings, other: &PortSettings) -> Option<(String, String)> {
    let (there, here) = (&other.name, &own.name);
    let names_us = matches!(&other.kind, PortKind::Patch(pair) if pair.peer == *here);
    match (patch.peer == *there, names_us) {
        (false, true) => Some((
            format!("port \"{there}\" is paired with this one, and this one with \"{}\"", patch.peer),
            format!("write peer = \"{there}\", or change the peer of \"{there}\""),
        )),
        (true, false) => Some(unpaired(there, here)),
        (true, true) if other.bridge == own.bridge => Some((
            format!("both ends are on bridge \"{}\", where frames would loop", own.bridge),
            "put one end on another bridge".into(),
        )),
        (false, false) | (true, true) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(name: &str, peer: &str, bridge: &str) -> PortSettings {
        let kind = PortKind::Patch(Patch { peer: peer.into() });
        PortSettings { bridge: bridge.into(), ..PortSettings::named(name, kind) }
    }

    /// Error of the second port because of the first.
    fn said(first: &PortSettings, second: &PortSettings) -> Option<String> {
        let PortKind::Patch(pair) = &second.kind else { return None };
        against(pair, second, first).map(|(reason, remedy)| format!("{reason} ({remedy})"))
    }

    #[test]
    fn patch_ends_name_each_other_on_different_bridges() {
        assert_eq!(said(&end("a", "b", "one"), &end("b", "a", "two")), None);
        assert_eq!(said(&end("a", "b", "one"), &end("c", "d", "one")), None);
        let told = |first: &PortSettings, second: &PortSettings| said(first, second).unwrap();
        let loops = told(&end("a", "b", "one"), &end("b", "a", "one"));
        assert!(loops.starts_with("both ends are on bridge \"one\""), "{loops}");
        let spurned = told(&end("a", "c", "one"), &end("b", "a", "two"));
        assert_eq!(
            spurned,
            "port \"a\" is not paired with this one (write kind = \"patch\" and peer = \"b\" there)"
        );
        let elsewhere = told(&end("a", "b", "one"), &end("b", "c", "two"));
        assert!(elsewhere.contains("(write peer = \"a\", or change the peer of \"a\")"), "{elsewhere}");
    }
}
