//! Floods: SYNs, ICMP errors, connections in TIME-WAIT, and ports.

use super::*;
use crate::packet::icmp_error;
use stack::tcp::State;
use stack::{Address, Closed, ConnectError};

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

/// A connection that both sides have closed gives way at the limit: a peer that never acknowledges the last FIN keeps
/// no others out. Connections in other states stay, and keep new ones out.
#[test]
fn hostile_peers_that_do_not_acknowledge_a_fin_keep_no_others_out() {
    let limits = Limits { connections: 100, ..Limits::default() };
    let mut victim = Victim::new(limits, Options::default());
    let mut open = victim.connect(1000);
    for port in 1001..1100 {
        let (_, connection) = victim.connect_and_close(port);
        if port == 1001 {
            victim.send(connection, b"answer");
        }
        victim.host.stack.close(connection);
        victim.wait(1);
        victim.host.sent.clear();
    }
    let states = |victim: &Victim, state| victim.info().iter().filter(|info| info.state == state).count();
    assert_eq!((states(&victim, State::LastAck), victim.info().len()), (99, 100));
    let mut newcomers = Vec::new();
    for port in 2000..2098 {
        newcomers.push(victim.connect(port));
        assert_eq!(victim.info().len(), 100);
    }
    assert_eq!(victim.host.stack.counters().tcp_last_ack_evicted, 98);
    // The remaining connections have data in flight or are open.
    let syn = victim.segment(3000, flag::SYN, (0, 0));
    let refused = (0..10).all(|_| victim.inject(&syn) == 0);
    assert!(refused && states(&victim, State::LastAck) == 1, "{:?}", victim.info());
    let connections = victim.accepted();
    victim.works(&mut open, connections[0]);
    victim.works(&mut newcomers[0], connections[100]);
}

/// The connection that waited longest gives way, and its peer learns that it will not receive the FIN again.
#[test]
fn the_longest_in_last_ack_gives_way_with_a_reset() {
    let limits = Limits { connections: 3, ..Limits::default() };
    let mut victim = Victim::new(limits, Options::default());
    for port in [1002, 1000, 1001] {
        let (_, connection) = victim.connect_and_close(port);
        victim.host.stack.close(connection);
        victim.wait(10);
    }
    victim.host.sent.clear();
    victim.inject(&victim.segment(2000, flag::SYN, (IRS, 0)));
    let sent: Vec<_> = victim.host.sent.iter().map(|(_, s)| (s.destination.port, s.flags)).collect();
    assert_eq!(sent, [(1002, flag::RST), (2000, flag::SYN | flag::ACK)]);
    let closed = |event: &Event<_>| matches!(event, Event::Closed { reason: Closed::Normally, .. });
    assert_eq!(victim.host.events.iter().filter(|event| closed(event)).count(), 1);
}

/// Answers without a connection wait for the link before connections that have more to send than it takes.
#[test]
fn answers_do_not_wait_behind_connections() {
    let mut victim = Victim::new(Limits::default(), Options::default());
    for port in 1000..1064 {
        victim.connect(port);
    }
    victim.host.sent.clear();
    victim.host.set_room(0);
    for connection in victim.accepted() {
        victim.send(connection, b"answer");
    }
    let refused = Segment {
        destination: Endpoint::new(victim.host.local, PORT + 1),
        ..victim.segment(1000, flag::SYN, (IRS, 0))
    };
    victim.inject(&refused);
    victim.host.set_room(2);
    victim.wait(1);
    let sent: Vec<_> = victim.host.sent.iter().map(|(_, s)| (s.source.port, s.flags)).collect();
    assert_eq!(sent, [(PORT + 1, flag::RST | flag::ACK), (PORT, flag::PSH | flag::ACK)]);
}

/// Connections that end as they should leave no more places behind than there are connections.
#[test]
fn ended_connections_give_way_to_none() {
    let limits = Limits { connections: 2, ..Limits::default() };
    let mut victim = Victim::new(limits, Options::default());
    let mut open = victim.connect(1000);
    for port in 1001..1301 {
        let (peer, connection) = victim.connect_and_close(port);
        victim.host.stack.close(connection);
        victim.wait(1);
        victim.inject(&victim.segment(port, flag::ACK, (peer.snd + 1, peer.rcv + 1)));
        assert_eq!(victim.info().len(), 1);
    }
    victim.connect(2000);
    let syn = victim.segment(3000, flag::SYN, (0, 0));
    assert!((0..10).all(|_| victim.inject(&syn) == 0));
    assert_eq!(victim.host.stack.counters().tcp_last_ack_evicted, 0);
    let connections = victim.accepted();
    victim.works(&mut open, connections[0]);
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
