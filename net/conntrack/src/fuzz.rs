//! Fuzz target of packets against a tracker, also replayed by ordinary tests.

use crate::{Config, Direction, Helper, Nat, Request, State, Tracker, Tuple, bits, sample};
use std::net::IpAddr;

/// Connections of the tracker.
const LIMIT: usize = 8;
/// Bytes of a script for each packet: what it is, its ends, what is done with it, changes.
const STEP: usize = 8;

/// Passes packets through connection tracking: a few of few hosts, some of them with changed bytes.
///
/// # Panics
/// If a state contradicts itself, a limit is exceeded, or something is left after all connections were removed.
pub fn fuzz_packets(script: &[u8]) {
    let tracker = Tracker::new(&Config { limit: LIMIT, ..Config::default() });
    let (mut now, mut before) = (1, State::default());
    for step in script.as_chunks::<STEP>().0 {
        let [what, ends, action, seconds, at, change, place, byte] = *step;
        now += u64::from(seconds) << 28;
        let mut packet = packet(what, ends, u32::from(at));
        let len = packet.len();
        packet[usize::from(place) % len] ^= byte;
        packet.truncate(if change & 1 == 0 { len } else { usize::from(at) % len });
        let request = request(action);
        if let Ok(outcome) = tracker.track(&packet, &before, &request, now) {
            check(outcome.state);
            // Some packets pass more than once.
            before = if change & 2 == 0 { State::default() } else { outcome.state };
        }
        assert!(tracker.len() <= LIMIT, "{}", tracker.len());
        assert!(tracker.connections(now).count() <= tracker.len());
        tracker.sweep(now, usize::from(change >> 2));
    }
    tracker.flush(None);
    assert!(tracker.is_clean(), "{tracker:?}");
}

fn check(state: State) {
    let of = |bits: u32| state.bits & bits;
    assert_ne!(of(bits::TRACKED), 0, "{state:?}");
    let kinds = of(bits::NEW | bits::ESTABLISHED | bits::INVALID);
    // An error is related, and nothing else.
    assert!(kinds.is_power_of_two() || kinds == 0 && of(bits::RELATED) != 0, "{state:?}");
}

pub(crate) fn packet(what: u8, ends: u8, number: u32) -> Vec<u8> {
    let address = |n: u8| match what & 0x80 {
        0 => IpAddr::from([10, 0, 0, n]),
        _ => IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, u16::from(n)]),
    };
    let ends = (address(ends & 1), address(ends >> 1 & 3));
    let port = 20 + u16::from(what >> 4 & 3);
    let tuple = |protocol| Tuple::new(ends, protocol, 0);
    let (icmp, request, reply) = if what & 0x80 == 0 { (1, 8, 0) } else { (58, 128, 129) };
    match what & 15 {
        0..4 => sample::udp(&tuple(17).with_ports(port, 21), &[0, 1, 0]),
        4 => sample::message(&tuple(icmp).with_message(request, port)),
        5 => sample::message(&tuple(icmp).with_message(reply, port)),
        6 => sample::error(ends.0, &sample::udp(&tuple(17).with_ports(port, 21), &[])),
        7 => sample::other(&tuple(47)),
        8 => {
            let [first, rest] =
                sample::fragments(&sample::udp(&tuple(17).with_ports(port, 21), &[0; 40]), 16, 7);
            if number & 1 == 0 { first } else { rest }
        }
        9 => sample::tcp(&tuple(6).with_ports(21, port), 0x18, (number, 1), b"227 ok (10,0,0,1,0,23)\r\n"),
        10 => sample::tcp(&tuple(6).with_ports(port, 21), 0x18, (number, 1), b"PORT 10,0,0,1,0,20\r\n"),
        flags => sample::tcp(
            &tuple(6).with_ports(port, 21),
            [2, 0x12, 0x10, 0x11, 4][usize::from(flags - 11)],
            (number, 1),
            &[],
        ),
    }
}

pub(crate) fn request(action: u8) -> Request {
    let direction =
        [None, Some(Direction::Source), Some(Direction::Destination), None][usize::from(action >> 2 & 3)];
    let addresses = direction.map(|_| (IpAddr::from([10, 0, 0, 2]), IpAddr::from([10, 0, 0, 3])));
    let nat = Nat { direction, addresses, ports: (action & 16 != 0).then_some((20, 23)), ..Nat::default() };
    Request {
        zone: u16::from(action >> 7),
        commit: action & 1 != 0,
        force: action & 3 == 3,
        nat: (action & 32 == 0).then_some(nat),
        mark: (action.into(), 0xff),
        label: (0, 0),
        helper: [Helper::Ftp, Helper::Tftp][usize::from(action >> 6 & 1)],
        port: u16::from(action >> 5),
    }
}

impl Tracker {
    /// Whether the tracker has no connection, and nothing that belongs to one.
    pub fn is_clean(&self) -> bool {
        self.is_empty() && self.shards.iter().all(|shard| shard.lock().is_empty())
    }
}
