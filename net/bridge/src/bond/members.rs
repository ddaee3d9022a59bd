//! Which members of a bond are enabled, and which one is active: links, delays and what LACP permits.

use super::config::{BondConfig, MemberConfig};
use port::PortId;

/// A member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) port: PortId,
    pub(super) is_primary: bool,
    /// Whether its link is up.
    pub(super) is_up: bool,
    /// Whether it is used.
    pub(super) is_enabled: bool,
    /// When it changes between both, in nanoseconds.
    pub(super) changes_at: Option<u64>,
}

/// The members of a bond.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Members {
    pub(super) list: Vec<Member>,
    pub(super) active: Option<PortId>,
}

impl Members {
    pub(super) fn add(&mut self, port: PortId, is_primary: bool, is_up: bool) {
        self.list.push(Member { port, is_primary, is_up, is_enabled: false, changes_at: None });
    }

    /// Changes which members are primary, and their order.
    pub(super) fn configure(&mut self, members: &[(PortId, MemberConfig)]) {
        let place = |port: PortId| members.iter().position(|(member, _)| *member == port);
        for member in &mut self.list {
            member.is_primary = place(member.port).is_some_and(|at| members[at].1.is_primary);
        }
        self.list.sort_by_key(|member| place(member.port).unwrap_or(usize::MAX));
    }

    pub(super) fn remove(&mut self, port: PortId) {
        self.list.retain(|member| member.port != port);
        self.active = self.active.filter(|active| *active != port);
    }

    pub(super) fn set_up(&mut self, port: PortId, is_up: bool) {
        let own = self.list.iter_mut().filter(|member| member.port == port);
        own.for_each(|member| member.is_up = is_up);
    }

    /// The members that are used.
    pub(super) fn enabled(&self) -> Vec<PortId> {
        self.list.iter().filter(|member| member.is_enabled).map(|member| member.port).collect()
    }

    /// Enables and disables members whose delay has passed. `may_enable` says whether a member whose link is up may be
    /// used. Returns whether another member is active than before.
    pub(super) fn update(
        &mut self,
        config: &BondConfig,
        now: u64,
        may_enable: impl Fn(PortId) -> bool,
    ) -> bool {
        // A partner delays by LACP.
        let delay = |is_up: bool| match (&config.lacp, is_up) {
            (Some(_), _) => 0,
            (None, true) => config.up_delay.as_nanos() as u64,
            (None, false) => config.down_delay.as_nanos() as u64,
        };
        for member in &mut self.list {
            let should = member.is_up && may_enable(member.port);
            if should == member.is_enabled {
                member.changes_at = None;
                continue;
            }
            let at = *member.changes_at.get_or_insert(now.saturating_add(delay(should)));
            if now >= at {
                (member.is_enabled, member.changes_at) = (should, None);
            }
        }
        let before = self.active;
        self.choose();
        self.active != before
    }

    /// Chooses the active member. If no member is enabled, the first one whose delay would end is enabled at once.
    fn choose(&mut self) {
        let usable = || self.list.iter().filter(|member| member.is_enabled);
        let preferred = usable()
            .find(|member| member.is_primary)
            .or_else(|| usable().find(|member| self.active == Some(member.port)))
            .or_else(|| usable().next());
        self.active = preferred.map(|member| member.port);
        if self.active.is_some() {
            return;
        }
        let waiting = self.list.iter_mut().filter(|m| m.is_up && !m.is_enabled && m.changes_at.is_some());
        if let Some(member) = waiting.min_by_key(|member| member.changes_at) {
            (member.is_enabled, member.changes_at) = (true, None);
            self.active = Some(member.port);
        }
    }

    /// When a delay ends.
    pub(super) fn deadline(&self) -> Option<u64> {
        self.list.iter().filter_map(|member| member.changes_at).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const A: PortId = PortId(1);
    const B: PortId = PortId(2);

    fn config(up_delay: u64, down_delay: u64) -> BondConfig {
        let [up_delay, down_delay] = [up_delay, down_delay].map(Duration::from_nanos);
        BondConfig { up_delay, down_delay, ..BondConfig::default() }
    }

    fn two() -> Members {
        let mut members = Members::default();
        members.add(A, false, true);
        members.add(B, false, true);
        members
    }

    #[test]
    fn the_active_member_changes_only_when_it_fails() {
        let (mut members, config) = (two(), config(0, 0));
        assert!(members.update(&config, 0, |_| true) && members.active == Some(A));
        members.set_up(A, false);
        assert!(members.update(&config, 1, |_| true) && members.active == Some(B));
        members.set_up(A, true);
        assert!(!members.update(&config, 2, |_| true) && members.active == Some(B));
        members.list[0].is_primary = true;
        assert!(members.update(&config, 3, |_| true) && members.active == Some(A));
        members.set_up(A, false);
        members.set_up(B, false);
        assert!(members.update(&config, 4, |_| true) && members.active.is_none());
    }

    #[test]
    fn delays_hide_short_changes() {
        let (mut members, config) = (two(), config(100, 50));
        members.set_up(B, false);
        members.update(&config, 0, |_| true);
        assert_eq!(members.active, Some(A), "the first member does not wait");
        members.set_up(B, true);
        members.update(&config, 10, |_| true);
        assert_eq!((members.enabled(), members.deadline()), (vec![A], Some(110)));
        members.update(&config, 110, |_| true);
        assert_eq!(members.enabled(), [A, B]);
        members.set_up(A, false);
        members.update(&config, 200, |_| true);
        assert_eq!((members.active, members.deadline()), (Some(A), Some(250)));
        members.set_up(A, true);
        members.update(&config, 240, |_| true);
        assert_eq!(members.deadline(), None, "the link was down for less than the delay");
        members.set_up(A, false);
        members.update(&config, 300, |_| true);
        assert!(members.update(&config, 350, |_| true) && members.active == Some(B));
    }

    #[test]
    fn members_without_partner_are_not_enabled() {
        let (mut members, config) = (two(), config(0, 0));
        members.update(&config, 0, |port| port == B);
        assert_eq!((members.enabled(), members.active), (vec![B], Some(B)));
        members.update(&config, 1, |_| false);
        assert_eq!((members.enabled(), members.active), (vec![], None));
    }
}
