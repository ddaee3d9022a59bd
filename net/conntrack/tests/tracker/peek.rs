//! Packets that are examined.

use crate::{ACK, FIN, Lab, SECOND, SYN, commit, look, v4, v6};
use conntrack::bits::{ESTABLISHED, INVALID, NEW, RELATED, REPLY, SNAT, TRACKED};
use conntrack::{Direction, Examined, Helper, Nat, Outcome, Request, State, sample};
use proptest::prelude::*;
use std::net::IpAddr;

fn peek(lab: &Lab, packet: &[u8], request: &Request) -> Outcome {
    lab.tracker.peek(Examined::Head(packet), &State::default(), request, lab.now)
}

/// Packets of few connections, which also arrive as fragments and as errors.
fn packets() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let tuple = (any::<bool>(), any::<bool>(), prop::sample::select(vec![1_u8, 17, 47]), 1..4_u16);
    (tuple, 0..3_u8).prop_map(|((is_v6, is_reversed, protocol, port), form)| {
        let tuple = match (is_v6, protocol) {
            (false, 1) => v4(1).with_message(8, port),
            (true, 1) => v6(58).with_message(128, port),
            (is_v6, protocol) => {
                let tuple = if is_v6 { v6(protocol) } else { v4(protocol) };
                if protocol == 17 { tuple.with_ports(port, 53) } else { tuple }
            }
        };
        let tuple = if is_reversed { tuple.reversed() } else { tuple };
        let packet = match tuple.protocol() {
            17 => sample::udp(&tuple, &[1; 16]),
            47 => sample::other(&tuple),
            _ => sample::message(&tuple),
        };
        match form {
            0 => vec![packet],
            1 => vec![sample::error(tuple.destination(), &packet)],
            _ => sample::fragments(&packet, 8, port.into()).to_vec(),
        }
    })
}

proptest! {
    /// Nothing is said about TCP segments, which are compared with sequence numbers.
    #[test]
    fn examined_packets_have_the_outcome_of_tracked_ones(
        packets in prop::collection::vec((packets(), any::<(bool, bool)>(), 0..20_u64), 1..50),
    ) {
        let mut lab = Lab::new();
        for (packets, (commit, force), wait) in packets {
            lab.now += wait * SECOND;
            for packet in packets {
                let request = Request { commit, force, ..Request::default() };
                let peeked = [peek(&lab, &packet, &request), peek(&lab, &packet, &request)];
                let outcome = lab.send(&packet, &request);
                prop_assert_eq!(peeked[0], peeked[1]);
                prop_assert_eq!(peeked[0].state, outcome.state);
            }
        }
    }
}

#[test]
fn segments_are_valid_if_their_connection_is_known() {
    let (lab, tuple) = (Lab::new(), v4(6).with_ports(5000, 21));
    let bits = |examined: Examined<'_>| {
        lab.tracker.peek(examined, &State::default(), &look(), lab.now).state.bits & !TRACKED
    };
    assert_eq!(bits(Examined::Tuple(tuple)), NEW);
    assert_eq!(bits(Examined::Head(&sample::tcp(&tuple, SYN | FIN, (1, 0), &[]))), INVALID);
    assert_eq!(bits(Examined::Head(&[])), INVALID);
    lab.send(&sample::tcp(&tuple, SYN, (100, 0), &[]), &Request { helper: Helper::Ftp, ..commit() });
    assert_eq!(
        (bits(Examined::Tuple(tuple)), bits(Examined::Tuple(tuple.reversed()))),
        (NEW, ESTABLISHED | REPLY)
    );
    lab.send(&sample::tcp(&tuple.reversed(), SYN | ACK, (900, 101), &[]), &look());
    lab.send(&sample::tcp(&tuple, ACK, (101, 901), &[]), &look());
    assert_eq!(bits(Examined::Tuple(tuple)), ESTABLISHED);
    // The end of the connection is examined, and does not happen.
    let end = sample::tcp(&tuple, 0x04, (101, 901), &[]);
    assert_eq!([bits(Examined::Head(&end)), bits(Examined::Tuple(tuple))], [ESTABLISHED; 2]);
    lab.send(&sample::tcp(&tuple.reversed(), 0x18, (901, 101), b"227 (10,0,0,2,4,1)\r\n"), &look());
    assert_eq!(bits(Examined::Tuple(v4(6).with_ports(6000, 1025))), NEW | RELATED);
    assert_eq!(lab.tracker.len(), 1);
}

#[test]
fn translations_of_known_connections_are_told() {
    let (lab, tuple) = (Lab::new(), v4(17).with_ports(5000, 53));
    let public = IpAddr::from([192, 0, 2, 1]);
    let nat = Nat { direction: Some(Direction::Source), addresses: Some((public, public)), ..Nat::default() };
    let nat = Request { nat: Some(nat), ..commit() };
    assert_eq!(peek(&lab, &sample::udp(&tuple, &[]), &nat).rewrite, None);
    let sent = lab.send(&sample::udp(&tuple, &[]), &nat);
    let peeked = peek(&lab, &sample::udp(&tuple, &[]), &nat);
    assert_eq!((peeked.state.bits, peeked.rewrite), (NEW | SNAT | TRACKED, sent.rewrite));
    assert_eq!(peek(&lab, &sample::udp(&tuple, &[]), &look()).rewrite, None);
    // It passes again, with its new addresses.
    let Some(conntrack::Rewrite::Packet(there)) = sent.rewrite else { panic!("{sent:?}") };
    let again = lab.tracker.peek(Examined::Tuple(there), &peeked.state, &nat, lab.now);
    assert_eq!((again.state, again.rewrite), (peeked.state, None));
}
