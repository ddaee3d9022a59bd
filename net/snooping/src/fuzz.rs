//! Arbitrary bytes as membership messages.
//!
//! Invariants: nothing panics, limits hold, a table has only ports of the snooper, and a worker passes on every valid
//! message to control.

use crate::config::{Config, PortConfig, Querier};
use crate::message::Message;
use crate::snooper::Snooper;
use crate::traffic::Traffic;
use std::net::Ipv4Addr;
use std::time::Duration;
use wire::{EtherType, Ethernet, MacAddress};

const GROUPS: usize = 4;
const PER_PORT: usize = 3;

/// `script` is a sequence of packets: port and time, length, bytes.
///
/// # Panics
/// If an invariant is violated.
pub fn fuzz_messages(script: &[u8]) {
    let config = Config {
        max_groups: GROUPS,
        max_groups_per_port: PER_PORT,
        querier: Some(Querier { address: Ipv4Addr::UNSPECIFIED }),
        ..Config::default()
    };
    let mut snooper = Snooper::new(config, MacAddress::from_u64(2));
    let port = PortConfig { untagged: Some(0), ..PortConfig::default() };
    (0..4).for_each(|number| snooper.add_port(number, port, Duration::ZERO));
    let (mut rest, mut now) = (script, Duration::ZERO);
    while let [step, len, after @ ..] = rest {
        let (packet, next) = after.split_at(usize::from(*len).min(after.len()));
        (rest, now) = (next, now + Duration::from_secs(u64::from(step >> 2)));
        receive(&mut snooper, u16::from(step & 3), packet, now);
    }
    assert!(snooper.tick(now + Duration::from_hours(1)).is_some(), "the querier goes on");
    assert_eq!(snooper.group_count(), 0, "memberships end");
}

fn receive(snooper: &mut Snooper, port: u16, packet: &[u8], now: Duration) {
    let is_v6 = packet.first().is_some_and(|byte| byte >> 4 == 6);
    let ethertype = if is_v6 { EtherType::IPV6 } else { EtherType::IPV4 };
    let frame = [&[1; 12][..], &ethertype.0.to_be_bytes(), packet].concat();
    if let (Ok(_), Ok(frame)) = (Message::parse(ethertype, packet), Ethernet::new(&frame)) {
        assert!(matches!(Traffic::of(&frame), Traffic::Report | Traffic::Query), "{packet:?}");
    }
    snooper.receive(port, 0, ethertype, packet, now);
    assert!(snooper.tick(now).is_none_or(|next| next > now));
    assert!(snooper.group_count() <= GROUPS);
    for port in 0..4 {
        assert!(snooper.groups(now).filter(|group| group.port == port).count() <= PER_PORT);
    }
    let table = snooper.take_table().unwrap_or_default();
    assert!(table.groups.values().flatten().all(|port| *port < 4));
    snooper.take_queries();
}
