//! Multicast groups that this host receives, and their reports: IGMP version 3 (RFC 3376) with fallback to version 2
//! (RFC 2236), MLD version 2 (RFC 3810) with fallback to version 1 (RFC 2710).
//!
//! Groups are received from any source. Must not hold more groups than the limit allows, besides those of own
//! addresses, and must not answer queries more often than once in [`MIN_DELAY`] for each group.

mod member;
mod querier;

use super::interface::{Interface, is_link_local};
use super::{InterfaceId, Ip};
use crate::control::Control;
use crate::random::Random;
use crate::{Address, Config, Counters, Payload, Time};
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;
use member::Member;
use querier::Queriers;
use wire::{GroupRecord, Membership, membership_report, old_membership_report};

/// Minimum delay of an answer.
const MIN_DELAY: Duration = Duration::from_millis(10);
/// Records of one report: they fit into the minimum MTU of IPv6.
const RECORDS: usize = 60;

const IGMP_ROUTERS: Address = Address::v4([224, 0, 0, 22]);
const ALL_ROUTERS_4: Address = Address::v4([224, 0, 0, 2]);
const MLD_ROUTERS: Address = Address::v6([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x16]);
const ALL_ROUTERS_6: Address = Address::v6([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);

/// The groups of all interfaces.
pub(crate) struct Groups {
    members: Vec<Member>,
    queriers: Queriers,
    random: Random,
    limit: usize,
}

impl Groups {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            members: Vec::new(),
            queriers: Queriers::default(),
            random: Random::new(&config.secret, "groups", 0),
            limit: config.limits.groups as usize,
        }
    }

    /// Receives a group on an interface; counted, one [`Groups::leave`] for each. Returns false if the limit of groups
    /// is reached.
    pub(crate) fn join(&mut self, interface: InterfaceId, group: Address, now: Time) -> bool {
        if let Some(member) = self.find(interface, group) {
            member.join(now);
            return true;
        }
        let limited = || self.members.iter().enumerate().filter(|(_, member)| !member.is_reserved);
        if limited().count() >= self.limit {
            // A group that was left is only held for the repetition of its report.
            let Some((left, _)) = limited().find(|(_, member)| !member.is_joined()) else { return false };
            self.members.swap_remove(left);
        }
        self.members.push(Member::new((interface, group), false, now));
        true
    }

    /// [`Groups::join`] for a group that an own address needs. It does not count in the limit, because an address whose
    /// group is not received cannot be resolved; the limits of addresses apply.
    pub(crate) fn join_reserved(&mut self, interface: InterfaceId, group: Address, now: Time) {
        if let Some(member) = self.find(interface, group) {
            member.is_reserved = true;
            return member.join(now);
        }
        self.members.push(Member::new((interface, group), true, now));
    }

    /// Undoes one [`Groups::join`] or [`Groups::join_reserved`].
    pub(crate) fn leave(&mut self, interface: InterfaceId, group: Address, now: Time) {
        if let Some(member) = self.find(interface, group) {
            member.leave(now);
        }
        self.members.retain(|member| !member.is_done());
    }

    /// Whether packets to the group are received on the interface.
    pub(crate) fn is_joined(&self, interface: InterfaceId, group: Address) -> bool {
        self.members.iter().any(|member| member.is(interface, group) && member.is_joined())
    }

    fn find(&mut self, interface: InterfaceId, group: Address) -> Option<&mut Member> {
        self.members.iter_mut().find(|member| member.is(interface, group))
    }

    /// Processes an IGMP message, which is the payload of an IPv4 packet, or an MLD message, which starts at the ICMPv6
    /// type and whose checksum is valid. Returns whether it is valid.
    pub(crate) fn receive(
        &mut self,
        interface: InterfaceId,
        source: Address,
        hop_limit: u8,
        message: &[u8],
        now: Time,
    ) -> bool {
        let is_v4 = source.is_v4();
        let parsed = if is_v4 { Membership::igmp(message) } else { Membership::mld(message) };
        // RFC 3376 section 4, RFC 3810 section 5.1.14.
        let is_from_link = hop_limit == 1 && (is_v4 || matches!(source.octets(), [0xfe, 0x80..=0xbf, ..]));
        match parsed.filter(|_| is_from_link) {
            Some(Membership::Query { group, delay, is_old }) => {
                // IGMP counts general queries only (RFC 3376 section 7.2.1), MLD all (RFC 3810 section 8.2.1).
                let counts = is_old && (group.is_none() || !is_v4);
                if counts && self.queriers.see_old(interface, is_v4, now) {
                    self.cancel((interface, is_v4));
                }
                self.answer((interface, is_v4), group.map(Into::into), delay, now);
                true
            }
            Some(Membership::Report(group)) => {
                let is_old = self.queriers.is_old(interface, is_v4, now);
                if let Some(member) = self.find(interface, group.into()).filter(|_| is_old) {
                    member.suppress();
                }
                true
            }
            None => false,
        }
    }

    /// The version changed: reports that are scheduled are not sent (RFC 3376 section 7.2.1, RFC 3810 section 8.2.1).
    fn cancel(&mut self, link: (InterfaceId, bool)) {
        self.members.iter_mut().filter(|member| member.is_on(link.0, link.1)).for_each(Member::cancel);
        self.members.retain(|member| !member.is_done());
    }

    /// Schedules the answers to a query: one time for all groups, or separate times for an older version, so that the
    /// report of another host can make ours unnecessary.
    fn answer(&mut self, link: (InterfaceId, bool), group: Option<Address>, delay: Duration, now: Time) {
        let is_old = self.queriers.is_old(link.0, link.1, now);
        let common = self.random.delay(delay);
        for member in self.members.iter_mut().filter(|member| member.is_on(link.0, link.1)) {
            if group.is_none_or(|group| member.is(link.0, group)) {
                let chosen = if is_old { self.random.delay(delay) } else { common };
                member.answer(now.after(chosen.max(MIN_DELAY)));
            }
        }
    }

    /// Next report that is due. `source` gives the source address of reports: that of the interface for IPv4, its
    /// link-local address for IPv6, or the unspecified address. Call until it returns `None`.
    pub(crate) fn poll(
        &mut self,
        now: Time,
        source: impl Fn(InterfaceId, bool) -> Address,
    ) -> Option<(InterfaceId, Control)> {
        let due = self.members.iter().find(|member| member.deadline() <= now)?;
        let (interface, is_v4) = due.link();
        let source = source(interface, is_v4);
        let control = if self.queriers.is_old(interface, is_v4, now) {
            self.report_old((interface, is_v4), source, now)?
        } else {
            self.report((interface, is_v4), source, now)
        };
        self.members.retain(|member| !member.is_done());
        Some((interface, control))
    }

    /// A report of all groups of an interface and version that are due.
    fn report(&mut self, link: (InterfaceId, bool), source: Address, now: Time) -> Control {
        let mut records: Vec<(GroupRecord, IpAddr)> = Vec::new();
        for member in self.members.iter_mut().filter(|member| member.is_on(link.0, link.1)) {
            if member.deadline() <= now && records.len() < RECORDS {
                records.push((member.take_record(now, false, &mut self.random), member.group().ip()));
            }
        }
        let to = if link.1 { IGMP_ROUTERS } else { MLD_ROUTERS };
        control(source, to, &mut membership_report(link.1, &records))
    }

    /// A report or leave message of the older version for one group.
    fn report_old(&mut self, link: (InterfaceId, bool), source: Address, now: Time) -> Option<Control> {
        let mut all = self.members.iter_mut().filter(|member| member.is_on(link.0, link.1));
        let member = all.find(|member| member.deadline() <= now)?;
        let is_leaving = member.take_record(now, true, &mut self.random) == GroupRecord::Left;
        let to = match is_leaving {
            true if link.1 => ALL_ROUTERS_4,
            true => ALL_ROUTERS_6,
            false => member.group(),
        };
        Some(control(source, to, &mut old_membership_report(member.group().ip(), is_leaving)))
    }

    /// Time of the next call of [`Groups::poll`].
    pub(crate) fn deadline(&self) -> Time {
        self.members.iter().map(Member::deadline).min().unwrap_or(Time::NEVER)
    }
}

fn control(source: Address, to: Address, message: &mut [u8]) -> Control {
    if to.is_v4() { Control::igmp(source, to, message) } else { Control::icmpv6(source, to, true, message) }
}

impl<P: Payload> Ip<P> {
    /// Receives packets to a multicast group on an interface: [`Groups::join`].
    pub(crate) fn join(&mut self, interface: InterfaceId, group: Address, now: Time) -> bool {
        self.groups.join(interface, group, now)
    }

    /// Receives packets to the group of an own address: [`Groups::join_reserved`].
    pub(super) fn join_reserved(&mut self, interface: InterfaceId, group: Address, now: Time) {
        self.groups.join_reserved(interface, group, now);
    }

    /// Undoes one [`Ip::join`] or [`Ip::join_reserved`].
    pub(crate) fn leave(&mut self, interface: InterfaceId, group: Address, now: Time) {
        self.groups.leave(interface, group, now);
    }

    /// Sends reports that are due.
    pub(super) fn report_groups(&mut self, now: Time, counters: &mut Counters) {
        let interfaces = &self.interfaces;
        let source = |id, is_v4| {
            let routers = if is_v4 { IGMP_ROUTERS } else { MLD_ROUTERS };
            let own = interfaces.get(id).and_then(|interface: &Interface| interface.select_source(routers));
            // MLD messages come from a link-local address, or from none (RFC 3590).
            own.filter(|own| is_v4 || is_link_local(*own)).unwrap_or(unspecified(is_v4))
        };
        let mut due = Vec::new();
        while let Some(report) = self.groups.poll(now, source) {
            due.push(report);
        }
        for (id, report) in due {
            self.send_whole(id, report.destination, &report.packet, now, counters);
        }
    }
}

const fn unspecified(is_v4: bool) -> Address {
    if is_v4 { Address::v4([0; 4]) } else { Address::UNSPECIFIED }
}

#[cfg(test)]
mod tests;
