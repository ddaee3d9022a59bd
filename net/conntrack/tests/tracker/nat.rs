//! Translation of addresses and ports.

use crate::{ACK, Lab, SYN, commit, look, v4, v6};
use conntrack::bits::{DNAT, ESTABLISHED, NEW, RELATED, REPLY, SNAT, TRACKED};
use conntrack::{Direction, Effort, Exhausted, Nat, Outcome, Request, Rewrite, Tuple, sample};
use proptest::prelude::*;
use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

fn request(nat: Nat) -> Request {
    Request { nat: Some(nat), ..commit() }
}

/// Translation of known connections only.
fn known() -> Request {
    Request { nat: Some(Nat::default()), ..look() }
}

fn source(first: IpAddr, last: IpAddr) -> Nat {
    Nat { direction: Some(Direction::Source), addresses: Some((first, last)), ..Nat::default() }
}

fn rewritten(outcome: &Outcome) -> Tuple {
    let Some(Rewrite::Packet(tuple)) = outcome.rewrite else { panic!("{outcome:?}") };
    tuple
}

#[test]
fn a_source_is_translated_and_replies_back() {
    let public = IpAddr::from([192, 0, 2, 1]);
    let (lab, tuple) = (Lab::new(), v4(6).with_ports(5000, 80));
    let sent = lab.send(&sample::tcp(&tuple, SYN, (1, 0), &[]), &request(source(public, public)));
    assert_eq!(sent.state.bits, NEW | SNAT | TRACKED);
    let there = rewritten(&sent);
    assert_eq!((there.source(), there.ports()), (public, (5000, 80)));
    let reply = sample::tcp(&there.reversed(), SYN | ACK, (9, 2), &[]);
    let back = lab.send(&reply, &known());
    assert_eq!(back.state.bits, ESTABLISHED | REPLY | DNAT | TRACKED);
    assert_eq!((rewritten(&back), back.state.original), (tuple.reversed(), Some(tuple)));
    assert_eq!(lab.send(&reply, &look()).rewrite, None, "without `nat`, nothing is translated");
    let next = lab.send(&sample::tcp(&tuple, ACK, (2, 10), &[]), &known());
    assert_eq!((next.state.bits, rewritten(&next)), (ESTABLISHED | SNAT | TRACKED, there));
    // The packet passes again, with its translated addresses.
    let passed = lab.tracker.track(&sample::tcp(&there, ACK, (2, 10), &[]), &next.state, &known(), lab.now);
    let passed = passed.unwrap();
    assert_eq!((passed.state, passed.rewrite), (next.state, None));
    assert_eq!((lab.tracker.flush(None), lab.tracker.is_clean()), (1, true));
}

#[test]
fn errors_about_translated_packets_are_translated() {
    let cases = [
        (v4(17), IpAddr::from([192, 0, 2, 1]), IpAddr::from([198, 51, 100, 1])),
        (v6(17), "fd01::1".parse().unwrap(), "fd02::1".parse().unwrap()),
    ];
    for (tuple, public, router) in cases {
        let (lab, tuple) = (Lab::new(), tuple.with_ports(5000, 53));
        let there = rewritten(&lab.send(&sample::udp(&tuple, &[]), &request(source(public, public))));
        let error = lab.send(&sample::error(router, &sample::udp(&there, &[])), &known());
        assert_eq!(error.state.bits, RELATED | REPLY | DNAT | TRACKED);
        let destination = Some(tuple.source());
        assert_eq!(error.rewrite, Some(Rewrite::Error { source: None, destination, quoted: tuple }));
        let back = rewritten(&lab.send(&sample::udp(&there.reversed(), &[]), &known()));
        let error = lab.send(&sample::error(tuple.source(), &sample::udp(&back, &[])), &known());
        let quoted = there.reversed();
        assert_eq!(error.rewrite, Some(Rewrite::Error { source: Some(public), destination: None, quoted }));
    }
}

#[test]
fn connections_of_one_port_get_different_ones_until_none_is_free() {
    let public = IpAddr::from([192, 0, 2, 1]);
    let nat = Nat { ports: Some((4000, 4003)), ..source(public, public) };
    let lab = Lab::new();
    let mut seen = HashSet::new();
    let client = |n: u16| v4(17).with_ports(n, 53);
    for n in 1..=4 {
        let outcome = lab.send(&sample::udp(&client(n), &[]), &request(nat));
        assert!(seen.insert(rewritten(&outcome)), "{outcome:?}");
        assert!(outcome.effort.added == 1 && (1..=5).contains(&outcome.effort.tried), "{outcome:?}");
    }
    let later = lab.send(&sample::udp(&client(1), &[]), &request(nat));
    assert_eq!(later.effort, Effort::default());
    let refused = lab.try_send(&sample::udp(&client(5), &[]), &request(nat));
    assert_eq!(refused, Err(Exhausted { tried: 5 }), "the selected port, and all of the range");
    assert_eq!(lab.tracker.len(), 4, "the refused one is not counted");
    assert_eq!(lab.tracker.flush_tuple(&client(2)), 1);
    assert!(lab.try_send(&sample::udp(&client(5), &[]), &request(nat)).is_ok());
}

#[test]
fn a_connection_that_looks_like_a_translated_one_is_refused() {
    let public = IpAddr::from([192, 0, 2, 1]);
    let lab = Lab::new();
    let tuple = v4(17).with_ports(5000, 53);
    let there = rewritten(&lab.send(&sample::udp(&tuple, &[]), &request(source(public, public))));
    assert_eq!(lab.try_send(&sample::udp(&there, &[]), &commit()), Err(Exhausted { tried: 0 }));
    assert_eq!((lab.tracker.len(), lab.tracker.flush(None)), (1, 1));
    assert!(lab.tracker.is_clean());
}

#[test]
fn echo_requests_of_two_clients_get_different_identifiers() {
    let public = IpAddr::from([192, 0, 2, 1]);
    let lab = Lab::new();
    let client = |n| {
        let ends = ([10, 0, 1, n].into(), [10, 0, 0, 2].into());
        Tuple::new(ends, 1, 0).with_message(8, 700)
    };
    let ids: HashSet<_> = (1..20)
        .map(|n| {
            let sent = lab.send(&sample::message(&client(n)), &request(source(public, public)));
            let there = rewritten(&sent);
            let back = lab.send(&sample::message(&there.reversed()), &known());
            assert_eq!(rewritten(&back), client(n).reversed());
            there.ports()
        })
        .collect();
    assert_eq!(ids.len(), 19);
}

#[test]
fn a_persistent_client_keeps_its_address() {
    let nat = Nat { is_persistent: true, ..source([192, 0, 2, 0].into(), [192, 0, 2, 255].into()) };
    let lab = Lab::new();
    let address =
        |port| rewritten(&lab.send(&sample::udp(&v4(17).with_ports(port, 53), &[]), &request(nat))).source();
    let addresses: HashSet<_> = (1..50).map(address).collect();
    assert_eq!(addresses.len(), 1);
}

fn any_nat() -> impl Strategy<Value = (Nat, bool)> {
    let v4 = any::<(Ipv4Addr, Ipv4Addr)>().prop_map(|(a, b)| (IpAddr::V4(a.min(b)), IpAddr::V4(a.max(b))));
    let v6 = any::<(Ipv6Addr, Ipv6Addr)>().prop_map(|(a, b)| (IpAddr::V6(a.min(b)), IpAddr::V6(a.max(b))));
    let ports = prop::option::of((1..=u16::MAX, 1..=u16::MAX).prop_map(|(a, b)| (a.min(b), a.max(b))));
    (any::<[bool; 5]>(), v4, v6, ports).prop_map(
        |([is_v6, is_source, has_addresses, is_random, is_persistent], v4, v6, ports)| {
            let addresses = has_addresses.then_some(if is_v6 { v6 } else { v4 });
            let direction = Some(if is_source { Direction::Source } else { Direction::Destination });
            (Nat { direction, addresses, ports, is_random, is_persistent }, is_v6)
        },
    )
}

proptest! {
    /// The reply of a translated packet becomes the reply of the original packet, for all connections at once.
    #[test]
    fn a_translated_reply_is_the_reply_of_the_original(
        (nat, is_v6) in any_nat(),
        ports in prop::collection::hash_set((1..=u16::MAX, 1..100_u16), 1..40),
        kinds in prop::collection::vec(0..3_u8, 40),
    ) {
        let lab = Lab::new();
        let base = if is_v6 { v6 } else { v4 };
        let (mut translated, mut sent) = (HashSet::new(), Vec::new());
        for ((source, destination), kind) in ports.into_iter().zip(kinds) {
            let tuple = match kind {
                0 => base(17).with_ports(source, destination),
                1 => base(6).with_ports(source, destination),
                _ if is_v6 => base(58).with_message(128, source),
                _ => base(1).with_message(8, source),
            };
            // Another one with the same identifier is the same connection.
            let outcome = lab.try_send(&packet(&tuple, SYN), &request(nat));
            let Ok(outcome) = outcome else { continue };
            let there = rewritten(&outcome);
            if translated.insert(there) {
                sent.push((tuple, there));
            }
        }
        for (tuple, there) in sent {
            let back = lab.send(&packet(&there.reversed(), SYN | ACK), &known());
            prop_assert_eq!(rewritten(&back), tuple.reversed());
            prop_assert_eq!(back.state.original, Some(tuple));
            let again = lab.send(&packet(&tuple, ACK), &known());
            prop_assert_eq!(rewritten(&again), there);
        }
        lab.tracker.flush(None);
        prop_assert!(lab.tracker.is_clean());
    }
}

fn packet(tuple: &Tuple, flags: u8) -> Vec<u8> {
    match tuple.protocol() {
        6 => sample::tcp(tuple, flags, (1, 2), &[]),
        17 => sample::udp(tuple, &[]),
        _ => sample::message(tuple),
    }
}
