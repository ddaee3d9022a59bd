//! Causes at bonds and at controllers of bridges.

use super::super::evidence::Evidence;
use super::super::findings::Found;
use crate::dataplane::bond_report::{BondState, MemberState};
use crate::dataplane::report::ControllerState;

fn is_usable(bond: &BondState) -> bool {
    bond.members.iter().any(|member| member.enabled)
}

fn described(member: &MemberState) -> String {
    let link = if member.up { "up" } else { "down" };
    let lacp = member.lacp.as_ref().map(|lacp| format!("; LACP: {}, {}", lacp.receive, lacp.mux));
    format!("member {}: its link is {link}{}", member.port, lacp.unwrap_or_default())
}

pub(super) fn bond_down(evidence: &Evidence) -> Vec<Found> {
    let down = evidence.bonds.iter().filter(|(_, bond)| !is_usable(bond));
    down.map(|(name, bond)| Found::of(format!("bond {name}"), bond.members.iter().map(described))).collect()
}

pub(super) fn bond_member(evidence: &Evidence) -> Vec<Found> {
    let used = evidence.bonds.iter().filter(|(_, bond)| is_usable(bond));
    let found = used.filter_map(|(name, bond)| {
        let unused: Vec<_> = bond.members.iter().filter(|member| !member.enabled).map(described).collect();
        (!unused.is_empty()).then(|| Found::of(format!("bond {name}"), unused))
    });
    found.collect()
}

pub(super) fn controller_away(evidence: &Evidence) -> Vec<Found> {
    let away = |state| matches!(state, ControllerState::Connecting | ControllerState::Waiting);
    let found = evidence.bridges.iter().flat_map(|bridge| {
        let controllers = bridge.openflow.iter().flat_map(|openflow| &openflow.controllers);
        controllers.filter(|controller| away(controller.state)).map(|controller| {
            let error = controller.last_error.as_ref().map(|error| format!(": {error}"));
            let error = error.unwrap_or_default();
            let evidence = format!("{} for {} s{error}", controller.target, controller.seconds);
            Found::of(format!("bridge {}", bridge.name), [evidence])
        })
    });
    found.collect()
}
