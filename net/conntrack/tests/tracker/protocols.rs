//! States of each protocol.

use crate::{ACK, FIN, Lab, RST, SYN, commit, look, v4, v6};
use conntrack::bits::{ESTABLISHED, INVALID, NEW, RELATED, REPLY, TRACKED};
use conntrack::{Config, Phase, Request, Timeouts, Timer, Tuple, sample};

#[test]
fn a_connection_exists_from_its_commit_on() {
    for tuple in [v4(17), v6(17)] {
        let (lab, tuple) = (Lab::new(), tuple.with_ports(5000, 53));
        let (there, back) = (sample::udp(&tuple, &[]), sample::udp(&tuple.reversed(), &[]));
        assert_eq!([lab.bits(&there, &look()), lab.bits(&back, &look())], [NEW, NEW]);
        assert_eq!([lab.bits(&there, &commit()), lab.bits(&there, &look())], [NEW, NEW]);
        assert_eq!(lab.bits(&back, &look()), ESTABLISHED | REPLY);
        assert_eq!(lab.bits(&there, &commit()), ESTABLISHED);
        assert_eq!((lab.tracker.len(), lab.tracker.zone_len(0)), (1, 1));
        let state = lab.send(&back, &look()).state;
        assert_eq!(state.original, Some(tuple));
        let other = Request { zone: 1, ..look() };
        assert_eq!(lab.bits(&back, &other), NEW, "zones are separate");
    }
}

#[test]
fn a_tcp_connection_opens_and_closes() {
    let (lab, tuple) = (Lab::new(), v4(6).with_ports(5000, 80));
    let there = |flags, numbers| lab.bits(&sample::tcp(&tuple, flags, numbers, &[]), &commit());
    let back = |flags, numbers| lab.bits(&sample::tcp(&tuple.reversed(), flags, numbers, &[]), &look());
    assert_eq!(back(SYN | ACK, (900, 101)), INVALID, "nothing was sent");
    assert_eq!(there(SYN, (100, 0)), NEW);
    assert_eq!(back(SYN | ACK, (900, 101)), ESTABLISHED | REPLY);
    assert_eq!(there(ACK, (101, 901)), ESTABLISHED);
    assert_eq!(back(RST, (5000, 0)), INVALID, "not at the expected place");
    let phases = |lab: &Lab| lab.tracker.connections(lab.now).next().unwrap().phases;
    assert_eq!(phases(&lab), Some((Phase::Established, Phase::Established)));
    assert_eq!(there(FIN | ACK, (101, 901)), ESTABLISHED);
    assert_eq!(back(FIN | ACK, (901, 102)), ESTABLISHED | REPLY);
    assert_eq!(there(ACK, (102, 902)), ESTABLISHED);
    assert_eq!(phases(&lab), Some((Phase::FinWait, Phase::FinWait)));
    assert_eq!(there(SYN, (7000, 0)), NEW, "the ports are used again");
    assert_eq!((phases(&lab), lab.tracker.len()), (Some((Phase::SynSent, Phase::Closed)), 1));
}

#[test]
fn echo_requests_have_replies() {
    for tuple in [v4(1).with_message(8, 7), v6(58).with_message(128, 7)] {
        let lab = Lab::new();
        let (request, reply) = (sample::message(&tuple), sample::message(&tuple.reversed()));
        assert_eq!(lab.bits(&reply, &commit()), INVALID, "a reply begins nothing");
        assert_eq!([lab.bits(&request, &commit()), lab.bits(&request, &look())], [NEW, NEW]);
        assert_eq!(
            [lab.bits(&reply, &look()), lab.bits(&request, &look())],
            [ESTABLISHED | REPLY, ESTABLISHED]
        );
        let opposite = Tuple::new((tuple.destination(), tuple.source()), tuple.protocol(), 0)
            .with_message(tuple.message().unwrap(), 7);
        assert_eq!(lab.bits(&sample::message(&opposite), &look()), NEW, "requests of both sides are two");
    }
}

#[test]
fn errors_are_related_to_the_connection_of_the_quoted_packet() {
    let cases = [
        (v4(17).with_ports(5000, 53), std::net::IpAddr::from([192, 0, 2, 9])),
        (v6(17).with_ports(5000, 53), "fd00::9".parse().unwrap()),
    ];
    for (tuple, router) in cases {
        let lab = Lab::new();
        let sent = sample::udp(&tuple, &[1; 30]);
        let error = sample::error(router, &sent);
        assert_eq!(lab.bits(&error, &look()), INVALID);
        lab.send(&sent, &commit());
        assert_eq!(lab.bits(&error, &look()), RELATED | REPLY);
        let answer = sample::udp(&tuple.reversed(), &[]);
        assert_eq!(lab.bits(&answer, &look()), ESTABLISHED | REPLY);
        assert_eq!(lab.bits(&sample::error(router, &answer), &look()), RELATED);
        // To another host than the sender of the quoted packet.
        let mut astray = error;
        let last = if tuple.is_v6() { 39 } else { 19 };
        astray[last] ^= 1;
        assert_eq!(lab.bits(&astray, &look()), INVALID);
    }
}

#[test]
fn other_protocols_have_connections_by_address() {
    let lab = Lab::new();
    assert_eq!(lab.bits(&sample::other(&v4(47)), &commit()), NEW);
    assert_eq!(lab.bits(&sample::other(&v4(47).reversed()), &look()), ESTABLISHED | REPLY);
}

#[test]
fn malformed_packets_are_invalid() {
    let lab = Lab::new();
    let udp = sample::udp(&v4(17).with_ports(5000, 53), &[]);
    for len in 0..udp.len() {
        assert_eq!(lab.bits(&udp[..len], &commit()), INVALID, "{len} bytes");
    }
    let mut corrupt = udp.clone();
    corrupt[10] ^= 1;
    assert_eq!(lab.bits(&corrupt, &commit()), INVALID, "the header's checksum is wrong");
    assert_eq!(lab.bits(&sample::udp(&v4(17).with_ports(0, 53), &[]), &commit()), INVALID, "port 0");
    assert_eq!(lab.bits(&sample::tcp(&v4(6).with_ports(1, 2), SYN | FIN, (1, 1), &[]), &commit()), INVALID);
    assert!(lab.tracker.is_clean());
}

#[test]
fn connections_end_after_their_timeouts() {
    let timeouts = Timeouts::default().with(Timer::UdpMultiple, 5);
    let mut lab = Lab::with(&Config { timeouts, ..Config::default() });
    let tuple = v4(17).with_ports(5000, 53);
    let (there, back) = (sample::udp(&tuple, &[]), sample::udp(&tuple.reversed(), &[]));
    lab.send(&there, &commit());
    lab.wait(59);
    assert_eq!(lab.bits(&back, &look()), ESTABLISHED | REPLY);
    assert_eq!(lab.tracker.connections(lab.now).next().unwrap().timeout, 5);
    lab.wait(5);
    assert_eq!(lab.tracker.connections(lab.now).count(), 0);
    assert_eq!(lab.bits(&back, &look()), NEW);
    assert!(lab.tracker.is_clean(), "found, and removed");
    lab.send(&there, &commit());
    lab.wait(60);
    lab.tracker.sweep(lab.now, 1024);
    assert!(lab.tracker.is_clean(), "removed by the sweep");
}

#[test]
fn marks_and_labels_are_set_by_mask() {
    let lab = Lab::new();
    let packet = sample::udp(&v4(17).with_ports(5000, 53), &[]);
    let set = |mark, label| Request { mark, label, ..commit() };
    let state = lab.send(&packet, &set((0x12, 0xff), (1 << 100, u128::MAX))).state;
    assert_eq!((state.mark, state.label), (0x12, 1 << 100));
    let state = lab.send(&packet, &set((0xff00, 0xf000), (5, 7))).state;
    assert_eq!((state.mark, state.label), (0xf012, 1 << 100 | 5));
    assert_eq!(lab.send(&packet, &look()).state.mark, 0xf012);
}

#[test]
fn force_removes_a_connection_of_the_opposite_direction() {
    let lab = Lab::new();
    let tuple = v4(17).with_ports(5000, 53);
    lab.send(&sample::udp(&tuple, &[]), &commit());
    let force = Request { force: true, ..commit() };
    let state = lab.send(&sample::udp(&tuple.reversed(), &[]), &force).state;
    assert_eq!((state.bits, state.original), (NEW | TRACKED, Some(tuple.reversed())));
    assert_eq!(lab.tracker.len(), 1);
}

#[test]
fn connections_are_flushed_by_zone_and_by_tuple() {
    let lab = Lab::new();
    for (zone, port) in [(0, 1), (0, 2), (0, 3), (7, 1)] {
        let packet = sample::udp(&v4(17).with_ports(port, 53), &[]);
        lab.send(&packet, &Request { zone, ..commit() });
    }
    assert_eq!(lab.tracker.flush_tuple(&v4(17).with_ports(2, 53).reversed()), 1);
    assert_eq!((lab.tracker.flush(Some(0)), lab.tracker.zone_len(7)), (2, 1));
    assert_eq!(lab.tracker.flush(None), 1);
    assert!(lab.tracker.is_clean());
}

#[test]
fn later_fragments_follow_the_first() {
    for tuple in [v4(17), v6(17)] {
        let (mut lab, tuple) = (Lab::new(), tuple.with_ports(5000, 53));
        let [first, rest] = sample::fragments(&sample::udp(&tuple, &[1; 40]), 16, 77);
        assert_eq!(lab.bits(&rest, &commit()), INVALID, "the first one is not known");
        assert_eq!([lab.bits(&first, &look()), lab.bits(&rest, &commit())], [NEW, NEW]);
        assert!(lab.tracker.is_empty(), "a later fragment begins nothing");
        assert_eq!([lab.bits(&first, &commit()), lab.bits(&rest, &look())], [NEW, NEW]);
        lab.send(&sample::udp(&tuple.reversed(), &[]), &look());
        assert_eq!([lab.bits(&first, &look()), lab.bits(&rest, &look())], [ESTABLISHED, ESTABLISHED]);
        lab.wait(15);
        assert_eq!(lab.bits(&rest, &look()), INVALID, "forgotten");
    }
}
