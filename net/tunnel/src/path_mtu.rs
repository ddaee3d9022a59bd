//! Path MTUs of the underlay: reports of routers about outer packets that are too long (RFC 1191, RFC 8201).
//!
//! A report is easy to forge. It therefore lowers the MTU of one destination only, never below the minimum of its IP
//! version, and for ten minutes (RFC 1191 section 6.3). Each change discards all cached results of the flow tables, so
//! that changes are limited to [`CHANGES`] in a second, and destinations to [`MAX_DESTINATIONS`].

use crate::kind::{GRE, IPV4, IPV6, UDP};
use stack::Time;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;
use wire::checksum::{Sum, protocol};
use wire::{EtherType, Ethernet, Icmp, IcmpKind, Ipv4, Ipv6, Version};

/// Time after which a larger packet is tried.
const LIFE: Duration = Duration::from_mins(10);
/// Destinations with a lowered MTU.
const MAX_DESTINATIONS: usize = 1024;
/// Changes in a second.
const CHANGES: u32 = 16;
/// Minimum of IPv4: every host accepts packets of this length (RFC 791 section 3.1).
const MIN_V4: u16 = 576;
/// Minimum of IPv6 (RFC 8200 section 5).
const MIN_V6: u16 = 1280;

/// A report of a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    /// Source of the outer packet: an address of the switch, or the report is forged.
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    /// Maximum length of an IP packet in bytes, as the router says; 0 if it does not.
    mtu: u32,
}

impl Report {
    /// Reads the report in a frame. Returns `None` for other frames, and for reports about packets of no tunnel.
    pub(crate) fn read(frame: &[u8]) -> Option<Self> {
        let view = Ethernet::new(frame).ok()?;
        let (version, message) = match view.inner_ethertype() {
            EtherType::IPV4 => (Version::V4, message4(view.payload())?),
            EtherType::IPV6 => (Version::V6, message6(view.payload())?),
            _ => return None,
        };
        let icmp = Icmp::new(version, message)?;
        let IcmpKind::TooBig(mtu) = icmp.kind() else { return None };
        let quoted = icmp.quoted().filter(|quoted| [UDP, GRE, IPV4, IPV6].contains(&quoted.protocol))?;
        Some(Self { source: quoted.source, destination: quoted.destination, mtu })
    }

    /// The MTU within the bounds of its IP version. IPv6 routers never report less than the minimum (RFC 8201
    /// section 4).
    fn mtu(&self) -> Option<u16> {
        let mtu = u16::try_from(self.mtu).unwrap_or(u16::MAX);
        if self.destination.is_ipv4() { Some(mtu.max(MIN_V4)) } else { (mtu >= MIN_V6).then_some(mtu) }
    }
}

/// The ICMP message in an IPv4 packet, if its checksum is valid.
fn message4(packet: &[u8]) -> Option<&[u8]> {
    let view = Ipv4::new(packet).filter(|view| view.protocol() == protocol::ICMP && !view.is_fragment())?;
    let message = packet.get(view.header_len()..usize::from(view.total_len()))?;
    (Sum::of(message).finish() == [0, 0]).then_some(message)
}

/// The ICMPv6 message in an IPv6 packet, if its checksum is valid.
fn message6(packet: &[u8]) -> Option<&[u8]> {
    let view = Ipv6::new(packet)?;
    let upper =
        view.upper_layer().filter(|upper| upper.protocol == protocol::ICMPV6 && !upper.is_fragment)?;
    let message = packet.get(upper.at..wire::IPV6_HEADER + usize::from(view.payload_len()))?;
    let mut sum = Sum::pseudo(packet.get(8..40)?, protocol::ICMPV6, message.len() as u32);
    sum.add(message);
    (sum.finish() == [0, 0]).then_some(message)
}

/// Lowered path MTUs by destination.
#[derive(Debug, Default)]
pub(crate) struct PathMtus {
    /// With the time at which the MTU of the link is used again.
    lowered: BTreeMap<IpAddr, (u16, Time)>,
    /// Start of a second, and the changes in it.
    changes: (Time, u32),
}

impl PathMtus {
    /// Notes a report. `mtu` is that of the link. Returns whether the path MTU is another one then.
    pub(crate) fn note(&mut self, report: &Report, mtu: u16, now: Time) -> bool {
        let Some(reported) = report.mtu().filter(|reported| *reported < mtu) else { return false };
        let known = self.lowered.get(&report.destination).map(|(mtu, _)| *mtu);
        if known.is_some_and(|known| known <= reported) {
            return false;
        }
        let has_room = known.is_some() || self.lowered.len() < MAX_DESTINATIONS;
        let may_change = has_room && self.may_change(now);
        if may_change {
            self.lowered.insert(report.destination, (reported, now.after(LIFE)));
        }
        may_change
    }

    fn may_change(&mut self, now: Time) -> bool {
        let (since, count) = &mut self.changes;
        if now >= since.after(Duration::from_secs(1)) {
            (*since, *count) = (now, 0);
        }
        *count += 1;
        *count <= CHANGES
    }

    /// Removes what is over. Returns whether anything was.
    pub(crate) fn expire(&mut self, now: Time) -> bool {
        let before = self.lowered.len();
        self.lowered.retain(|_, (_, until)| now < *until);
        self.lowered.len() != before
    }

    /// All lowered path MTUs.
    pub(crate) fn all(&self) -> BTreeMap<IpAddr, u16> {
        self.lowered.iter().map(|(destination, (mtu, _))| (*destination, *mtu)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(destination: [u8; 4], mtu: u32) -> Report {
        Report { source: [192, 0, 2, 1].into(), destination: destination.into(), mtu }
    }

    #[test]
    fn reports_lower_within_bounds_and_for_ten_minutes() {
        let mut mtus = PathMtus::default();
        let remote = [203, 0, 113, 5];
        assert!(!mtus.note(&report(remote, 1500), 1500, Time(0)), "the link already");
        assert!(mtus.note(&report(remote, 1400), 1500, Time(0)));
        assert!(!mtus.note(&report(remote, 1450), 1500, Time(0)), "more than before");
        assert!(mtus.note(&report(remote, 0), 1500, Time(0)), "a router that gives none");
        assert_eq!(mtus.all(), BTreeMap::from([(remote.into(), MIN_V4)]));
        assert!(!mtus.expire(Time(599_000_000_000)));
        assert!(mtus.expire(Time(600_000_000_000)) && mtus.all().is_empty());
        let destination = "2001:db8::5".parse().unwrap();
        assert!(!mtus.note(&Report { destination, ..report(remote, 1279) }, 1500, Time(0)));
        assert!(mtus.note(&Report { destination, ..report(remote, 1280) }, 1500, Time(0)));
    }

    #[test]
    fn forged_reports_change_little() {
        let mut mtus = PathMtus::default();
        let note = |mtus: &mut PathMtus, n: u32, second: u64| {
            mtus.note(&report(n.to_be_bytes(), 600), 1500, Time(second * 1_000_000_000))
        };
        let changed = (0..1000).filter(|n| note(&mut mtus, *n, 1)).count();
        assert_eq!(changed, CHANGES as usize);
        let changed = (0..200_000).filter(|n| note(&mut mtus, *n, 2 + u64::from(*n) / 1000)).count();
        assert_eq!((changed, mtus.all().len()), (MAX_DESTINATIONS - CHANGES as usize, MAX_DESTINATIONS));
    }
}
