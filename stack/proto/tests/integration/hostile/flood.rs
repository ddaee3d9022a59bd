//! Floods: SYNs, ICMP errors, connections in TIME-WAIT, and ports.

use super::*;
use crate::packet::icmp_error;
use stack::tcp::State;
use stack::{Address, ConnectError};

/// A source address without a host.
fn spoofed(number: u32) -> Address {
    Address::v4((0xcb00_7100 + number).to_be_bytes())
}

#[test]
fn hostile_syns_are_answered_by_cookies_and_leave_established_connections_alone() {
    let limits = Limits { half_open: 64, connections: 200, paths: 16, ..Limits::default() };
    let mut victim = Victim::new(limits, Options::default());
    let mut peer = victim.connect(1000);
    let connection = victim.accepted()[0];
    for number in 0..10_000 {
        let source = Endpoint::new(spoofed(number), number as u16 | 1);
        let syn = Segment { source, ..victim.segment(1, flag::SYN, (number, 0)) };
        assert_eq!(victim.inject(&syn), 1, "one SYN-ACK");
        victim.host.sent.clear();
    }
    let half_open =
        |victim: &Victim| victim.info().iter().filter(|info| info.state == State::SynReceived).count();
    assert_eq!((half_open(&victim), victim.info().len()), (64, 65));
    victim.works(&mut peer, connection);
    victim.connect(2000);
    assert_eq!(victim.accepted().len(), 2, "a cookie opens a connection");
    // Each half-open connection repeats its SYN-ACK a few times and ends without an event.
    victim.host.sent.clear();
    let (events, sent) = (victim.host.events.len(), victim.wait(300 * SECOND));
    assert!(sent <= 64 * 6, "{sent} retransmissions and resets");
    assert_eq!((victim.info().len(), victim.host.events.len()), (2, events));
}

/// Acknowledgements that guess a cookie: each costs one hash and at most one reset within the limit.
#[test]
fn hostile_guesses_of_cookies_open_nothing() {
    let limits = Limits { half_open: 1, errors: 100, ..Limits::default() };
    let mut victim = Victim::new(limits, Options::default());
    for number in 0..2 {
        victim.inject(&victim.segment(2000 + number, flag::SYN, (number.into(), 0)));
    }
    let mut resets = 0;
    for guess in 0..5000_u32 {
        let ack = victim.segment(3000, flag::ACK, (5, guess.wrapping_mul(0x9e37_79b9)));
        resets += victim.inject(&ack);
    }
    assert!(resets <= 100, "{resets} resets");
    assert!(victim.accepted().is_empty());
}

/// RFC 5927: reports that quote no segment in flight neither end a connection nor change its segment size, and none
/// causes an answer.
#[test]
fn hostile_icmp_errors_change_nothing() {
    let mut victim = Victim::new(Limits::default(), Options::default());
    let mut peer = victim.connect(1000);
    let connection = victim.accepted()[0];
    victim.works(&mut peer, connection);
    let before = victim.info()[0].segment;
    let quoted = |seq| Segment {
        source: Endpoint::new(victim.host.local, PORT),
        destination: Endpoint::new(victim.host.remote, 1000),
        payload: vec![0; 1000],
        ..victim.segment(1000, flag::ACK, (seq, IRS))
    };
    let frames: Vec<_> = (0..2000_u32)
        .flat_map(|guess| {
            let frame = Host::frame(&quoted(guess.wrapping_mul(2_147_000)));
            [(3, 4, 68), (3, 4, 600), (3, 3, 0), (3, 1, 0), (11, 0, 0)]
                .map(|(kind, code, mtu)| icmp_error(&frame, victim.host.remote, (kind, code), mtu))
        })
        .collect();
    for frame in frames {
        victim.host.receive(&frame);
        victim.host.sent.clear();
        victim.host.pump();
        assert!(victim.host.sent.is_empty(), "an answer to an error");
    }
    victim.works(&mut peer, connection);
    assert_eq!(victim.info()[0].segment, before);
}

/// Connections that a peer opens and leaves in TIME-WAIT here: the oldest entries end.
#[test]
fn hostile_closes_are_held_in_a_limited_number_of_entries() {
    let limits = Limits { time_wait: 50, ..Limits::default() };
    let mut victim = Victim::new(limits, Options::default());
    for port in 1000..1300 {
        let mut peer = victim.connect(port);
        let connection = *victim.accepted().last().unwrap();
        victim.host.stack.close(connection);
        victim.host.pump();
        peer.rcv += 1;
        victim.inject(&victim.segment(port, flag::FIN | flag::ACK, (peer.snd, peer.rcv)));
        victim.host.sent.clear();
        victim.host.events.retain(|event| matches!(event, Event::Accepted { .. }));
        assert!(victim.host.stack.time_waits() <= 50 && victim.info().is_empty());
    }
    assert_eq!(victim.host.stack.time_waits(), 50);
    victim.wait(61 * SECOND);
    assert_eq!(victim.host.stack.time_waits(), 0);
}

/// Ports of connections to one destination are used up, are reported as such, and return.
#[test]
fn exhausted_ports_are_an_error_and_return() {
    let mut victim = Victim::new(Limits::default(), Options::default());
    let (now, local) = (victim.host.now, Endpoint::new(victim.host.local, 0));
    let remote = Endpoint::new(victim.host.remote, 443);
    let connect = |victim: &mut Victim| victim.host.stack.connect(local, remote, Options::default(), now);
    let all: Vec<_> = (49_152..=65_535).map(|_| connect(&mut victim).unwrap()).collect();
    assert_eq!(connect(&mut victim), Err(ConnectError::InUse));
    victim.host.stack.abort(all[5000]);
    assert!(connect(&mut victim).is_ok());
}
