//! Changes of the members of bonds as log lines.
//!
//! A bond changes in its bridge, which logs nothing. An observer looks at all bonds again and again; a member that
//! changes twice between two looks is not seen, which also limits the lines that a link can cause.

use super::bond_report::{BondState, MemberState};
use std::collections::BTreeMap;
use tracing::{info, warn};

/// A member by its bond and its port.
type Member = (String, String);

/// The members at the last look: whether each is enabled.
#[derive(Debug, Default)]
pub(crate) struct BondChanges {
    enabled: BTreeMap<Member, bool>,
    active: BTreeMap<String, Option<String>>,
}

impl BondChanges {
    /// Logs what has changed since the last call.
    pub(crate) fn observe(&mut self, bonds: &BTreeMap<String, BondState>) {
        let is_member = |(bond, port): &Member| {
            bonds.get(bond).is_some_and(|state| state.members.iter().any(|member| member.port == *port))
        };
        self.enabled.retain(|member, _| is_member(member));
        self.active.retain(|bond, _| bonds.contains_key(bond));
        for (bond, state) in bonds {
            state.members.iter().for_each(|member| self.observe_member(bond, member));
            let before = self.active.insert(bond.clone(), state.active.clone());
            match &state.active {
                _ if before.as_ref() == Some(&state.active) => {}
                Some(active) => info!(bond, active, "active member"),
                None => warn!(bond, "no member can be used"),
            }
        }
    }

    fn observe_member(&mut self, bond: &str, member: &MemberState) {
        let key = (bond.to_owned(), member.port.clone());
        let (port, up) = (&member.port, member.up);
        match (self.enabled.insert(key, member.enabled), member.enabled) {
            (None | Some(false), true) => info!(port, bond, "member is used"),
            (Some(true), false) => warn!(port, bond, up, "member is no longer used"),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataplane::bond_report::LacpStatus;
    use crate::event_log::{EventLog, Recorder};
    use std::sync::Arc;
    use tracing_subscriber::prelude::*;

    fn bond(enabled: bool) -> BTreeMap<String, BondState> {
        let member = MemberState {
            port: "a".to_owned(),
            up: true,
            enabled,
            changes_in: None,
            buckets: 256,
            load: 0,
            lacp: None,
        };
        let state = BondState {
            lacp: LacpStatus::Off,
            active: enabled.then(|| "a".to_owned()),
            members: vec![member],
            buckets: Vec::new(),
            rebalance_in: None,
            moves: 0,
        };
        [("up".to_owned(), state)].into()
    }

    #[test]
    fn each_change_is_one_event() {
        let events = Arc::<EventLog>::default();
        let layer = tracing_subscriber::registry().with(Recorder(events.clone()));
        tracing::subscriber::with_default(layer, || {
            let mut changes = BondChanges::default();
            for bonds in [bond(true), bond(true), bond(false), BTreeMap::new(), bond(true)] {
                changes.observe(&bonds);
            }
        });
        let events = events.after(0, 99).events;
        let found: Vec<_> = events.iter().map(|event| event.message.as_str()).collect();
        let (used, active) = ("member is used", "active member");
        assert_eq!(found, [used, active, "member is no longer used", "no member can be used", used, active]);
        assert_eq!(events[0].subject.as_deref(), Some("port a"));
    }
}
