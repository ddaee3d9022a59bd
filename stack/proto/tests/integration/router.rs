//! A router that answers address resolution for every address beyond the link.

use super::packet::{ETHERNET, Packet, ROUTER_MAC, icmp_frame};
use stack::Address;

/// The answer of a router to a request for its Ethernet address (RFC 826, RFC 4861).
pub(crate) fn resolve(frame: &[u8], mac: [u8; 6]) -> Option<Vec<u8>> {
    if frame.get(12..14)? == [0x08, 0x06] {
        return resolve_v4(frame, mac);
    }
    let packet = Packet::decode(frame)?;
    let target =
        packet.transport.get(8..24).filter(|_| packet.protocol == 58 && packet.transport[0] == 135)?;
    if packet.source.is_unspecified() {
        return None; // Duplicate address detection: no host has the address.
    }
    let target = Address::v6(target.try_into().expect("16 bytes"));
    // Advertisement: router, solicited, override; with the target's link-layer address.
    let message = [&[136, 0, 0, 0, 0xe0, 0, 0, 0], target.wire(), &[2, 1], &ROUTER_MAC].concat();
    let mut reply = icmp_frame(mac, ROUTER_MAC, (target, packet.source), &message);
    reply[ETHERNET + 7] = 255;
    Some(reply)
}

fn resolve_v4(frame: &[u8], mac: [u8; 6]) -> Option<Vec<u8>> {
    let request = wire::Arp::new(&frame[ETHERNET..])?;
    let is_probe = request.sender_ip().is_unspecified() || frame[28..32] == frame[38..42];
    if request.operation() != wire::Arp::REQUEST || is_probe {
        return None;
    }
    let mut reply = [&mac[..], &ROUTER_MAC, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 2], &ROUTER_MAC].concat();
    reply.extend(&frame[38..42]);
    reply.extend(mac);
    reply.extend(&frame[28..32]);
    Some(reply)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

    fn address(text: &str) -> Address {
        text.parse::<IpAddr>().unwrap().into()
    }

    #[test]
    fn routers_answer_requests_and_not_probes() {
        let header = [&[0xff; 6][..], &MAC, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1], &MAC].concat();
        let request = |sender: [u8; 4]| [&header, &sender[..], &[0; 6], &[192, 168, 0, 254]].concat();
        assert_eq!(resolve(&request([0; 4]), MAC), None);
        let reply = resolve(&request([192, 168, 0, 1]), MAC).unwrap();
        let view = wire::Arp::new(&reply[ETHERNET..]).unwrap();
        assert_eq!((view.operation(), view.sender_mac().octets()), (wire::Arp::REPLY, ROUTER_MAC));
        let (local, all) = (address("fd3d:a0b:17d6::1"), address("ff02::1:ff00:fe"));
        let message = [&[135, 0, 0, 0, 0, 0, 0, 0], address("fe80::7").wire()].concat();
        let reply = resolve(&icmp_frame([2; 6], MAC, (local, all), &message), MAC).unwrap();
        let packet = Packet::decode(&reply).unwrap().check().unwrap();
        assert_eq!((packet.source, packet.transport[0], packet.network[7]), (address("fe80::7"), 136, 255));
        assert_eq!(resolve(&icmp_frame([2; 6], MAC, (address("::"), all), &message), MAC), None);
    }
}
