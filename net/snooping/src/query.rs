//! Queries as frames: IGMP version 3 (RFC 3376, section 4.1) and MLD version 2 (RFC 3810, section 5.1), which hosts of
//! older versions answer as well.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;
use wire::checksum::{Sum, protocol::ICMPV6};
use wire::{EtherType, MacAddress, ipv6_header, write_ethernet};

use crate::message::{IGMP, IGMP_QUERY, MLD_QUERY};

const ALL_HOSTS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const ALERT_4: [u8; 4] = [148, 4, 0, 0];
/// Hop-by-Hop Options header with the option for MLD and padding (RFC 2711).
const ALERT_6: [u8; 8] = [ICMPV6, 0, 5, 2, 0, 0, 1, 0];
/// Robustness variable (RFC 3376, section 8.1).
pub(crate) const ROBUSTNESS: u32 = 2;
const MIN_FRAME: usize = 60;

/// Content of a query.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Content {
    /// The group; the unspecified address for all groups.
    pub(crate) group: IpAddr,
    /// Maximum delay of reports.
    pub(crate) delay: Duration,
    pub(crate) interval: Duration,
}

/// An untagged frame.
pub(crate) fn frame(mac: MacAddress, source: IpAddr, content: Content) -> Box<[u8]> {
    let (ethertype, destination, packet) = match (source, content.group) {
        (IpAddr::V4(source), IpAddr::V4(group)) => ipv4(source, group, content),
        (IpAddr::V6(source), IpAddr::V6(group)) => ipv6(source, group, content),
        // Callers give addresses of one family.
        _ => return Box::default(),
    };
    let mut frame = vec![0; wire::HEADER_LEN];
    let _ = write_ethernet(&mut frame, destination, mac, None, ethertype);
    frame.extend_from_slice(&packet);
    frame.resize(frame.len().max(MIN_FRAME), 0);
    frame.into()
}

fn ipv4(source: Ipv4Addr, group: Ipv4Addr, content: Content) -> (EtherType, MacAddress, Vec<u8>) {
    let tenths = u32::try_from(content.delay.as_millis() / 100).unwrap_or(u32::MAX);
    let mut message = [&[IGMP_QUERY, code(tenths), 0, 0][..], &group.octets(), &tail(content)].concat();
    let sum = Sum::of(&message).finish();
    message[2..4].copy_from_slice(&sum);
    let to = if group.is_unspecified() { ALL_HOSTS } else { group };
    let mut packet = [0x46, 0xc0, 0, 0, 0, 0, 0x40, 0, 1, IGMP, 0, 0].to_vec();
    packet[3] = 24 + message.len() as u8;
    packet.extend([source.octets(), to.octets(), ALERT_4].concat());
    let sum = Sum::of(&packet).finish();
    packet[10..12].copy_from_slice(&sum);
    packet.extend(message);
    let [_, b, c, d] = to.octets();
    (EtherType::IPV4, MacAddress::new([1, 0, 0x5e, b & 0x7f, c, d]), packet)
}

fn ipv6(source: Ipv6Addr, group: Ipv6Addr, content: Content) -> (EtherType, MacAddress, Vec<u8>) {
    // Below 32768 the code is the number itself.
    let delay = (content.delay.as_millis() as u16).min(0x7fff).to_be_bytes();
    let mut message =
        [&[MLD_QUERY, 0, 0, 0, delay[0], delay[1], 0, 0][..], &group.octets(), &tail(content)].concat();
    let to = if group.is_unspecified() { ALL_NODES } else { group };
    let header = ipv6_header((ALERT_6.len() + message.len()) as u16, 0, 1, source, to);
    let mut sum = Sum::pseudo(&header[8..], ICMPV6, message.len() as u32);
    sum.add(&message);
    message[2..4].copy_from_slice(&sum.finish());
    let [.., a, b, c, d] = to.octets();
    let packet = [&header[..], &ALERT_6, &message].concat();
    (EtherType::IPV6, MacAddress::new([0x33, 0x33, a, b, c, d]), packet)
}

/// Robustness, interval and the empty list of sources.
fn tail(content: Content) -> [u8; 4] {
    let seconds = u32::try_from(content.interval.as_secs()).unwrap_or(u32::MAX);
    [ROBUSTNESS as u8, code(seconds), 0, 0]
}

/// A number as a code with an exponent, rounded down (RFC 3376, section 4.1.1); at most 31744.
fn code(number: u32) -> u8 {
    if number < 128 {
        return number as u8;
    }
    let number = number.min(31_744);
    let exponent = number.ilog2() - 7;
    let mantissa = number >> (exponent + 3) & 15;
    0x80 | (exponent as u8) << 4 | mantissa as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Body, Message};
    use proptest::prelude::*;
    use wire::Ethernet;

    #[test]
    fn queries_are_valid_messages() {
        let four = (IpAddr::from([10, 0, 0, 1]), [IpAddr::from([0; 4]), IpAddr::from([239, 1, 2, 3])]);
        let link_local = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
        let group = Ipv6Addr::new(0xff05, 0, 0, 0, 0, 0, 0, 7);
        let six = (IpAddr::from(link_local), [IpAddr::from([0; 16]), IpAddr::from(group)]);
        for (source, groups) in [four, six] {
            for group in groups {
                let delay = Duration::from_secs(10);
                let content = Content { group, delay, interval: Duration::from_secs(125) };
                let bytes = frame(MacAddress::from_u64(2), source, content);
                let view = Ethernet::new(&bytes).unwrap();
                let message = Message::parse(view.ethertype(), view.payload()).unwrap();
                let asked = (!group.is_unspecified()).then_some(group);
                let query = Body::Query { group: asked, delay, is_suppressed: false };
                let version = if group.is_ipv4() { 3 } else { 2 };
                assert_eq!(message, Message { source, version, body: query });
            }
        }
    }

    proptest! {
        #[test]
        fn codes_are_close_to_their_numbers(number in 0u32..31_745) {
            let code = u32::from(code(number));
            let decoded = if code < 128 { code } else { (code & 15 | 16) << ((code >> 4 & 7) + 3) };
            prop_assert!(decoded <= number && number - decoded <= number / 16);
        }
    }
}
