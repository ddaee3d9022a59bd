//! One group on one interface.

use crate::ip::InterfaceId;
use crate::random::Random;
use crate::{Address, Time};
use core::time::Duration;
use wire::GroupRecord;

/// Times that a change is reported (robustness variable, RFC 3376 section 8.1, RFC 3810 section 9.1).
const REPORTS: u8 = 2;
/// Maximum interval between these reports (RFC 3376 section 8.11, RFC 3810 section 9.11).
const INTERVAL: Duration = Duration::from_secs(1);
/// The same for a querier of an older version (RFC 2236 section 8.10, RFC 2710 section 7.10).
const OLD_INTERVAL: Duration = Duration::from_secs(10);

/// A group that is joined, or was left and is still reported.
pub(super) struct Member {
    interface: InterfaceId,
    group: Address,
    /// Number of joins without leave.
    joins: u32,
    /// Whether an own address needs or needed it, so that it does not count in the limit of groups.
    pub(super) is_reserved: bool,
    /// Reports of the last change that are left, and time of the next one.
    reports: u8,
    report_at: Time,
    /// Time of the answer to a query.
    answer_at: Time,
}

impl Member {
    pub(super) fn new((interface, group): (InterfaceId, Address), is_reserved: bool, now: Time) -> Self {
        let (reports, report_at, answer_at) = (0, Time::NEVER, Time::NEVER);
        let mut member = Self { interface, group, joins: 0, is_reserved, reports, report_at, answer_at };
        member.join(now);
        member
    }

    pub(super) fn is(&self, interface: InterfaceId, group: Address) -> bool {
        (self.interface, self.group) == (interface, group)
    }

    pub(super) fn is_on(&self, interface: InterfaceId, is_v4: bool) -> bool {
        self.link() == (interface, is_v4)
    }

    /// Interface, and whether it is a group of IPv4.
    pub(super) fn link(&self) -> (InterfaceId, bool) {
        (self.interface, self.group.is_v4())
    }

    pub(super) fn group(&self) -> Address {
        self.group
    }

    pub(super) fn is_joined(&self) -> bool {
        self.joins > 0
    }

    /// Whether the group was left, and nothing remains to be reported.
    pub(super) fn is_done(&self) -> bool {
        self.joins == 0 && self.reports == 0
    }

    pub(super) fn join(&mut self, now: Time) {
        self.joins = self.joins.saturating_add(1);
        if self.joins == 1 {
            self.change(now);
        }
    }

    pub(super) fn leave(&mut self, now: Time) {
        if self.joins == 1 {
            self.change(now);
            self.answer_at = Time::NEVER;
        }
        self.joins = self.joins.saturating_sub(1);
    }

    fn change(&mut self, now: Time) {
        if !is_unreported(self.group) {
            (self.reports, self.report_at) = (REPORTS, now);
        }
    }

    /// Schedules the answer to a query, no later than one that is scheduled.
    pub(super) fn answer(&mut self, at: Time) {
        if self.is_joined() && !is_unreported(self.group) {
            self.answer_at = self.answer_at.min(at);
        }
    }

    /// Another host has reported the group to a querier of an older version.
    pub(super) fn suppress(&mut self) {
        if self.is_joined() {
            self.cancel();
        }
    }

    /// Sends none of the reports that are scheduled.
    pub(super) fn cancel(&mut self) {
        (self.reports, self.report_at, self.answer_at) = (0, Time::NEVER, Time::NEVER);
    }

    pub(super) fn deadline(&self) -> Time {
        self.report_at.min(self.answer_at)
    }

    /// The record that is due. A report of a change also answers a query. The leave message of an older version
    /// (`is_old`) is not repeated (RFC 2236 section 3, RFC 2710 section 4).
    pub(super) fn take_record(&mut self, now: Time, is_old: bool, random: &mut Random) -> GroupRecord {
        if self.answer_at <= now {
            self.answer_at = Time::NEVER;
        }
        if self.report_at > now {
            return GroupRecord::Member;
        }
        let is_last = is_old && !self.is_joined();
        self.reports = if is_last { 0 } else { self.reports.saturating_sub(1) };
        let interval = if is_old { OLD_INTERVAL } else { INTERVAL };
        self.report_at = if self.reports > 0 { now.after(random.delay(interval)) } else { Time::NEVER };
        if self.is_joined() { GroupRecord::Joined } else { GroupRecord::Left }
    }
}

/// Whether the group is never reported: all nodes, and IPv6 groups of a smaller scope than the link (RFC 3376 section
/// 5, RFC 3810 section 6).
fn is_unreported(group: Address) -> bool {
    match group.octets() {
        [0xff, flags, ..] if flags & 0x0f < 2 => true,
        [0xff, flags, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1] => flags & 0x0f == 2,
        _ => group == Address::v4([224, 0, 0, 1]),
    }
}
