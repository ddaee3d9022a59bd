//! Floods and scans: memory stays bounded, and connections that exist stay.

use crate::{ACK, Lab, SYN, commit, look, v4};
use conntrack::bits::{ESTABLISHED, NEW, REPLY};
use conntrack::{Config, Refused, Request, Timeouts, Timer, Tuple, sample};

const LIMIT: usize = 20_000;

fn limited() -> Lab {
    Lab::with(&Config { limit: LIMIT, ..Config::default() })
}

fn client(n: u32) -> Tuple {
    Tuple::new((n.to_be_bytes().into(), [10, 0, 0, 2].into()), 6, 0).with_ports(5000, 80)
}

fn open(lab: &Lab, tuple: &Tuple) {
    lab.send(&sample::tcp(tuple, SYN, (100, 0), &[]), &commit());
    lab.send(&sample::tcp(&tuple.reversed(), SYN | ACK, (900, 101), &[]), &look());
    let last = lab.bits(&sample::tcp(tuple, ACK, (101, 901), &[]), &look());
    assert_eq!(last, ESTABLISHED);
}

#[test]
fn a_flood_of_syns_replaces_itself_and_no_open_connection() {
    let lab = limited();
    (0..1000).for_each(|n| open(&lab, &client(n)));
    for n in 0..3 * LIMIT as u32 {
        lab.send(&sample::tcp(&client(1 << 24 | n), SYN, (n, 0), &[]), &commit());
    }
    assert!(lab.tracker.len() <= LIMIT);
    assert!(lab.tracker.len() > LIMIT * 9 / 10, "{}", lab.tracker.len());
    assert!(lab.tracker.evicted() > 0, "others without reply");
    for n in 0..1000 {
        let answer = sample::tcp(&client(n).reversed(), ACK, (901, 101), &[1]);
        assert_eq!(lab.bits(&answer, &look()), ESTABLISHED | REPLY, "{n}");
    }
    // A new client gets in.
    open(&lab, &client(5000));
}

#[test]
fn a_scan_of_all_ports_adds_nothing_without_commit_and_ends_with_its_timeouts() {
    let mut lab = limited();
    let probe = |port: u16| sample::tcp(&v4(6).with_ports(40_000, port), SYN, (1, 0), &[]);
    (1..=u16::MAX).for_each(|port| assert_eq!(lab.bits(&probe(port), &look()), NEW));
    assert!(lab.tracker.is_clean());
    (1..=u16::MAX).for_each(|port| assert_eq!(lab.bits(&probe(port), &commit()), NEW));
    assert!(lab.tracker.len() <= LIMIT);
    lab.wait(30);
    lab.tracker.sweep(lab.now, 4 * 1024);
    assert!(lab.tracker.is_clean(), "{:?}", lab.tracker);
}

#[test]
fn a_full_table_of_open_connections_refuses_new_ones() {
    let lab = Lab::with(&Config { limit: 100, ..Config::default() });
    (0..100).for_each(|n| open(&lab, &client(n)));
    assert_eq!(lab.bits(&sample::tcp(&client(100), SYN, (1, 0), &[]), &commit()), NEW);
    assert_eq!(lab.tracker.len(), 100);
    let answer = sample::tcp(&client(100).reversed(), SYN | ACK, (1, 2), &[]);
    assert_ne!(lab.bits(&answer, &look()) & ESTABLISHED, ESTABLISHED, "it was not added");
}

#[test]
fn a_zone_is_limited() {
    let lab = Lab::with(&Config { zone_limit: Some(3), zones: [(2, 5)].into(), ..Config::default() });
    for (zone, expected) in [(1, 3), (2, 5)] {
        for port in 1..10 {
            let packet = sample::udp(&v4(17).with_ports(port, 53), &[]);
            assert_eq!(lab.bits(&packet, &Request { zone, ..commit() }), NEW);
        }
        assert_eq!(lab.tracker.zone_len(zone), expected);
    }
}

#[test]
fn a_port_that_floods_has_its_share_and_the_others_have_the_rest() {
    let lab = Lab::with(&Config { limit: 100, port_limit: Some(60), ..Config::default() });
    let send = |n: u16, port| {
        let packet = sample::udp(&v4(17).with_ports(1000 + n, 53), &[]);
        lab.bits(&packet, &Request { port, ..commit() })
    };
    (0..500).for_each(|n| assert_eq!(send(n, 7), NEW));
    assert_eq!((lab.tracker.len(), lab.tracker.port_len(7)), (60, 60));
    (500..540).for_each(|n| assert_eq!(send(n, 8), NEW));
    assert_eq!((lab.tracker.port_len(7), lab.tracker.port_len(8)), (60, 40));
    assert_eq!(lab.tracker.refused(), Refused { port: 440, ..Refused::default() });
    lab.tracker.flush(None);
    assert_eq!((lab.tracker.port_len(7), lab.tracker.port_len(8)), (0, 0));
}

#[test]
fn limits_and_timeouts_change_while_packets_pass() {
    let mut lab = Lab::with(&Config { limit: 100, ..Config::default() });
    let packet = |n: u16| sample::udp(&v4(17).with_ports(1000 + n, 53), &[]);
    lab.send(&packet(0), &commit());
    let timeouts = Timeouts::default().with(Timer::UdpFirst, 3);
    lab.tracker.configure(&Config { zone_limit: Some(2), timeouts, ..Config::default() });
    (1..5).for_each(|n| assert_eq!(lab.bits(&packet(n), &commit()), NEW));
    assert_eq!((lab.tracker.len(), lab.tracker.refused().zone), (2, 3));
    lab.wait(4);
    assert_eq!(lab.tracker.connections(lab.now).count(), 1, "the first one has its earlier timeout");
}

#[test]
fn a_reset_from_elsewhere_ends_no_connection() {
    let lab = limited();
    open(&lab, &client(1));
    for sequence in (0..u32::MAX).step_by(1 << 16) {
        if sequence.abs_diff(901) > 1 {
            lab.send(&sample::tcp(&client(1).reversed(), 4, (sequence, 0), &[]), &look());
        }
    }
    let answer = sample::tcp(&client(1).reversed(), ACK, (901, 101), &[1]);
    assert_eq!(lab.bits(&answer, &look()), ESTABLISHED | REPLY);
    assert!(lab.tracker.connections(lab.now).next().unwrap().is_assured);
}

#[test]
fn workers_track_connections_at_the_same_time() {
    let lab = limited();
    let run = |worker: u32| {
        for n in 0..3000 {
            // Both workers get packets of both directions.
            let tuple = client(n / 2 * 2 + worker % 2 * u32::from(n % 3 == 0));
            let (there, back) = (sample::udp(&udp(&tuple), &[]), sample::udp(&udp(&tuple).reversed(), &[]));
            lab.send(&there, &commit());
            assert_eq!(lab.bits(&back, &look()), ESTABLISHED | REPLY);
            lab.tracker.sweep(lab.now, 2);
        }
    };
    std::thread::scope(|scope| {
        (0..2).for_each(|worker| drop(scope.spawn(move || run(worker))));
    });
    assert_eq!(lab.tracker.connections(lab.now).count(), lab.tracker.len());
    lab.tracker.flush(None);
    assert!(lab.tracker.is_clean());
}

fn udp(tuple: &Tuple) -> Tuple {
    Tuple::new((tuple.source(), tuple.destination()), 17, 0).with_ports(5000, 53)
}
