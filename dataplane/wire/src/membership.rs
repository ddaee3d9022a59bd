//! Multicast group membership: IGMP (RFC 2236, RFC 3376) for IPv4 and MLD (RFC 2710, RFC 3810) for IPv6.
//!
//! Source lists are not read: hosts that do not filter by source answer such a query like one for the group.

use crate::checksum::Sum;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::time::Duration;

const IGMP_QUERY: u8 = 0x11;
const IGMP_REPORT_2: u8 = 0x16;
const IGMP_LEAVE: u8 = 0x17;
const IGMP_REPORT_3: u8 = 0x22;
const MLD_QUERY: u8 = 130;
const MLD_REPORT_1: u8 = 131;
const MLD_DONE: u8 = 132;
const MLD_REPORT_2: u8 = 143;

/// A message of a router or of another host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Membership {
    /// A query for all groups, or for one.
    Query {
        /// The group; `None` for all groups.
        group: Option<IpAddr>,
        /// Maximum delay of the answer.
        delay: Duration,
        /// Whether the querier has an older version than IGMP version 3 or MLD version 2.
        is_old: bool,
    },
    /// A report of IGMP version 2 or MLD version 1 for one group.
    Report(IpAddr),
}

impl Membership {
    /// Parses an IGMP message. Returns `None` if checksum or length is invalid, or for another type.
    pub fn igmp(message: &[u8]) -> Option<Self> {
        let [kind, code, _, _, group @ ..] = message else { return None };
        let group = Ipv4Addr::from(*group.first_chunk()?);
        let is_old = message.len() < 12;
        match *kind {
            _ if Sum::of(message).finish() != [0, 0] => None,
            IGMP_REPORT_2 => group.is_multicast().then_some(Self::Report(group.into())),
            IGMP_QUERY => query(group.into(), 100 * igmp_code(*code, is_old), is_old),
            _ => None,
        }
    }

    /// Parses an MLD message, which starts at the ICMPv6 type; its checksum is valid. Returns `None` if the length is
    /// invalid, or for another type.
    pub fn mld(message: &[u8]) -> Option<Self> {
        let [kind, _, _, _, high, low, _, _, group @ ..] = message else { return None };
        let group = Ipv6Addr::from(*group.first_chunk()?);
        let (code, is_old) = (u16::from_be_bytes([*high, *low]), message.len() < 28);
        match *kind {
            MLD_REPORT_1 => group.is_multicast().then_some(Self::Report(group.into())),
            MLD_QUERY => query(group.into(), mld_code(code, is_old), is_old),
            _ => None,
        }
    }
}

fn query(group: IpAddr, milliseconds: u32, is_old: bool) -> Option<Membership> {
    let is_general = group.is_unspecified();
    let delay = Duration::from_millis(milliseconds.into());
    let group = (!is_general).then_some(group);
    (is_general || group.is_some_and(|group| group.is_multicast())).then_some(Membership::Query {
        group,
        delay,
        is_old,
    })
}

/// Tenths of a second (RFC 3376 section 4.1.1). Version 1 has no code, and ten seconds (RFC 2236 section 4).
fn igmp_code(code: u8, is_old: bool) -> u32 {
    match code {
        0 if is_old => 100,
        128.. if !is_old => (u32::from(code) & 0x0f | 0x10) << ((code >> 4 & 7) + 3),
        code => code.into(),
    }
}

/// Milliseconds (RFC 3810 section 5.1.3).
fn mld_code(code: u16, is_old: bool) -> u32 {
    match code {
        0x8000.. if !is_old => (u32::from(code) & 0x0fff | 0x1000) << ((code >> 12 & 7) + 3),
        code => code.into(),
    }
}

/// Type of a record without sources (RFC 3376 section 4.2.12, RFC 3810 section 5.2.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupRecord {
    /// The host receives the group (`MODE_IS_EXCLUDE`).
    Member = 2,
    /// The host left the group (`CHANGE_TO_INCLUDE_MODE`).
    Left = 3,
    /// The host joined the group (`CHANGE_TO_EXCLUDE_MODE`).
    Joined = 4,
}

/// An IGMP version 3 or MLD version 2 report, without checksum. All groups must be of the given version.
pub fn membership_report(is_v4: bool, records: &[(GroupRecord, IpAddr)]) -> Vec<u8> {
    let kind = if is_v4 { IGMP_REPORT_3 } else { MLD_REPORT_2 };
    let mut message = [kind, 0, 0, 0, 0, 0].to_vec();
    message.extend_from_slice(&(records.len() as u16).to_be_bytes());
    for (record, group) in records {
        message.extend_from_slice(&[*record as u8, 0, 0, 0]);
        extend(&mut message, *group);
    }
    message
}

/// A report of IGMP version 2 or MLD version 1, or with `is_leaving` a leave message or done message, without checksum.
pub fn old_membership_report(group: IpAddr, is_leaving: bool) -> Vec<u8> {
    let kind = match (group, is_leaving) {
        (IpAddr::V4(_), false) => IGMP_REPORT_2,
        (IpAddr::V4(_), true) => IGMP_LEAVE,
        (IpAddr::V6(_), false) => MLD_REPORT_1,
        (IpAddr::V6(_), true) => MLD_DONE,
    };
    let mut message = [kind, 0, 0, 0].to_vec();
    message.resize(if group.is_ipv4() { 4 } else { 8 }, 0);
    extend(&mut message, group);
    message
}

fn extend(message: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(address) => message.extend_from_slice(&address.octets()),
        IpAddr::V6(address) => message.extend_from_slice(&address.octets()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::prelude::v1::*;

    fn igmp(kind: u8, code: u8, group: [u8; 4], rest: &[u8]) -> Vec<u8> {
        let mut message = [&[kind, code, 0, 0][..], &group, rest].concat();
        let sum = Sum::of(&message).finish();
        message[2..4].copy_from_slice(&sum);
        message
    }

    fn parsed(message: &[u8]) -> Option<(Option<IpAddr>, u64, bool)> {
        let parsed =
            if message[0] == MLD_QUERY { Membership::mld(message) } else { Membership::igmp(message) };
        match parsed? {
            Membership::Query { group, delay, is_old } => Some((group, delay.as_millis() as u64, is_old)),
            Membership::Report(_) => None,
        }
    }

    #[test]
    fn queries_of_all_versions_are_parsed() {
        let group = [224, 1, 2, 3];
        assert_eq!(parsed(&igmp(0x11, 0, [0; 4], &[])), Some((None, 10_000, true)));
        assert_eq!(parsed(&igmp(0x11, 200, group, &[])), Some((Some(group.into()), 20_000, true)));
        assert_eq!(parsed(&igmp(0x11, 100, group, &[0; 4])), Some((Some(group.into()), 10_000, false)));
        assert_eq!(parsed(&igmp(0x11, 0x8f, [0; 4], &[0; 4])), Some((None, (31 << 3) * 100, false)));
        let mld = |code: u16, len| {
            let mut message = [&[130, 0, 0, 0][..], &code.to_be_bytes()].concat();
            message.resize(len, 0);
            message
        };
        assert_eq!(parsed(&mld(0x9001, 24)), Some((None, 0x9001, true)));
        assert_eq!(parsed(&mld(0x9001, 28)), Some((None, 0x1001 << 4, false)));
    }

    #[test]
    fn invalid_messages_are_rejected() {
        let mut wrong = igmp(0x11, 100, [0; 4], &[]);
        wrong[2] ^= 1;
        assert_eq!(Membership::igmp(&wrong), None);
        assert_eq!(Membership::igmp(&igmp(0x11, 100, [10, 0, 0, 1], &[])), None);
        assert_eq!(Membership::igmp(&igmp(0x17, 0, [224, 1, 2, 3], &[])), None);
        assert_eq!(Membership::igmp(&wrong[..7]), None);
    }

    #[test]
    fn reports_have_the_format_of_their_version() {
        let (four, six) = (IpAddr::from([224, 1, 2, 3]), IpAddr::from([0xff; 16]));
        let report = membership_report(true, &[(GroupRecord::Joined, four), (GroupRecord::Left, four)]);
        assert_eq!(report, [0x22, 0, 0, 0, 0, 0, 0, 2, 4, 0, 0, 0, 224, 1, 2, 3, 3, 0, 0, 0, 224, 1, 2, 3]);
        let report = membership_report(false, &[(GroupRecord::Member, six)]);
        assert_eq!((report.len(), &report[..12]), (28, &[143, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0][..]));
        assert_eq!(old_membership_report(four, true), [0x17, 0, 0, 0, 224, 1, 2, 3]);
        let report = old_membership_report(six, false);
        assert_eq!(Membership::mld(&report), Some(Membership::Report(six)));
    }

    proptest! {
        #[test]
        fn arbitrary_messages_do_not_panic(
            kind in prop_oneof![Just(0x11u8), Just(0x16), Just(130), Just(131)],
            rest in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            let message = [&[kind][..], &rest].concat();
            let _ = (Membership::igmp(&message), Membership::mld(&message));
        }
    }
}
