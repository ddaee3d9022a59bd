//! Random packets against a list of connections that is searched from its start, with the rules of ovs-actions(7) and
//! of Open vSwitch's state machines written out; without windows.

use crate::{ACK, FIN, Lab, RST, SECOND, SYN, v4};
use conntrack::bits::{ESTABLISHED, INVALID, NEW, REPLY};
use conntrack::{Config, Request, Tuple, sample};
use proptest::prelude::*;

/// Combinations of control bits that a packet can have.
const LEGAL: [u8; 6] = [SYN, SYN | ACK, ACK, FIN | ACK, RST, RST | ACK];
const ILLEGAL: [u8; 3] = [0, FIN, SYN | FIN];

/// Phases of a side of TCP.
const CLOSED: u8 = 0;
const SYN_SENT: u8 = 1;
const OPEN: u8 = 2;
const CLOSING: u8 = 3;
const FIN_WAIT: u8 = 4;
const RESET: u8 = 5;

#[derive(Clone, Copy, Debug)]
struct Packet {
    tuple: Tuple,
    flags: u8,
    commit: bool,
    force: bool,
    wait: u64,
}

#[derive(Debug)]
struct Connection {
    tuple: Tuple,
    /// Of TCP; of others, whether side 0 or 1 has sent a second packet or a first reply.
    sides: [u8; 2],
    expires: u64,
}

#[derive(Default)]
struct Model {
    connections: Vec<Connection>,
    now: u64,
}

impl Model {
    fn send(&mut self, packet: &Packet) -> u32 {
        self.now += packet.wait;
        let now = self.now;
        self.connections.retain(|connection| connection.expires > now);
        if packet.tuple.protocol() == 6 && ILLEGAL.contains(&packet.flags) {
            let found = self.find(packet).filter(|(_, is_reply)| packet.force && *is_reply);
            if let Some((i, _)) = found {
                self.connections.remove(i);
            }
            return INVALID;
        }
        if let Some((i, is_reply)) = self.find(packet) {
            let is_over = packet.force && is_reply || self.connections[i].is_over(packet);
            if !is_over {
                return self.connections[i].update(packet, is_reply, now);
            }
            self.connections.remove(i);
        }
        self.begin(packet)
    }

    fn find(&self, packet: &Packet) -> Option<(usize, bool)> {
        let reverse = packet.tuple.reversed();
        let is_it = |found: &Connection| [packet.tuple, reverse].contains(&found.tuple);
        let i = self.connections.iter().position(is_it)?;
        Some((i, self.connections[i].tuple != packet.tuple))
    }

    fn begin(&mut self, packet: &Packet) -> u32 {
        let (tuple, flags) = (packet.tuple, packet.flags);
        let seconds = match tuple.protocol() {
            6 if flags == SYN | ACK => return INVALID,
            6 => 30,
            1 if tuple.message() != Some(8) => return INVALID,
            _ => 60,
        };
        if packet.commit {
            let sides = if tuple.protocol() == 6 { [SYN_SENT, CLOSED] } else { [0, 0] };
            self.connections.push(Connection { tuple, sides, expires: self.now + seconds });
        }
        NEW
    }
}

impl Connection {
    fn is_over(&self, packet: &Packet) -> bool {
        self.tuple.protocol() == 6 && packet.flags == SYN && self.sides.iter().all(|side| *side >= FIN_WAIT)
    }

    fn update(&mut self, packet: &Packet, is_reply: bool, now: u64) -> u32 {
        let established = ESTABLISHED | if is_reply { REPLY } else { 0 };
        let (bits, seconds) = match self.tuple.protocol() {
            6 => self.tcp(packet.flags, usize::from(is_reply), established),
            protocol => {
                self.sides[1] |= u8::from(is_reply);
                match (self.sides[1], protocol) {
                    (0, _) => (NEW, 60),
                    _ => (established, 30),
                }
            }
        };
        self.expires = now + seconds;
        bits
    }

    fn tcp(&mut self, flags: u8, from: usize, established: u32) -> (u32, u64) {
        let to = 1 - from;
        if flags == SYN && self.sides[from] <= SYN_SENT {
            self.sides[from] = SYN_SENT;
            return (NEW, 30);
        }
        self.sides[from] = self.sides[from].max(SYN_SENT);
        if flags & FIN != 0 {
            self.sides[from] = self.sides[from].max(CLOSING);
        }
        if flags & ACK != 0 && flags & RST == 0 {
            self.sides[to] = match self.sides[to] {
                SYN_SENT => OPEN,
                CLOSING => FIN_WAIT,
                side => side,
            };
        }
        if flags & RST != 0 {
            self.sides = [RESET, RESET];
        }
        let (first, last) = (self.sides[0].min(self.sides[1]), self.sides[0].max(self.sides[1]));
        let seconds = match (first, last) {
            (FIN_WAIT.. | CLOSED | SYN_SENT, _) => 30,
            (CLOSING, _) => 45,
            (_, CLOSING..) => 900,
            _ => 86_400,
        };
        (established, seconds)
    }
}

fn packet() -> impl Strategy<Value = Packet> {
    let flags = prop::sample::select([&LEGAL[..], &LEGAL[..], &ILLEGAL[..]].concat());
    let tuple =
        (0..4_u8, 1..3_u16, any::<(bool, bool)>()).prop_map(|(kind, port, (is_reply, is_request))| {
            let tuple = match kind {
                0 | 1 => v4(6).with_ports(port, 80),
                2 => v4(17).with_ports(port, 53),
                _ => v4(1).with_message(if is_request { 8 } else { 0 }, port),
            };
            if is_reply { tuple.reversed() } else { tuple }
        });
    let wait = prop_oneof![8 => Just(0_u64), 2 => 0..50_u64, 1 => 0..1000_u64];
    (tuple, flags, any::<bool>(), prop::bool::weighted(0.05), wait)
        .prop_map(|(tuple, flags, commit, force, wait)| Packet { tuple, flags, commit, force, wait })
}

proptest! {
    #[test]
    fn states_are_those_of_a_list_of_connections(packets in prop::collection::vec(packet(), 1..200)) {
        let mut lab = Lab::with(&Config { checks_window: false, ..Config::default() });
        let mut model = Model { now: lab.now / SECOND, ..Model::default() };
        for packet in &packets {
            let bytes = match packet.tuple.protocol() {
                6 => sample::tcp(&packet.tuple, packet.flags, (1, 1), &[]),
                17 => sample::udp(&packet.tuple, &[]),
                _ => sample::message(&packet.tuple),
            };
            lab.wait(packet.wait);
            let request = Request { commit: packet.commit, force: packet.force, ..Request::default() };
            prop_assert_eq!(lab.bits(&bytes, &request), model.send(packet), "{:?}", packet);
            lab.tracker.sweep(lab.now, 16);
            prop_assert_eq!(lab.tracker.connections(lab.now).count(), model.connections.len());
        }
    }
}
