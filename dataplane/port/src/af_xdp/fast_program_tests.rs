//! Runs the loaded program in the kernel (`BPF_PROG_TEST_RUN`).

use super::super::assembler::Instruction;
use super::super::fast_key::{FastKey, Headers, Pair};
use super::super::fast_path::{ConnectionEpoch, Edits, FastPath, Target};
use super::super::program::{Action, compile};
use super::super::rules::Rule;
use super::super::sys;
use super::REDIRECT;
use crate::PortId;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use std::net::IpAddr;
use std::sync::Arc;
use wire::MacAddress;
use wire::checksum::Sum;

const FROM: PortId = PortId(3);
const TO: PortId = PortId(5);
/// The loopback interface: redirection is decided, but not executed, in a test run.
const LOOPBACK: u32 = 1;
const NO_PRIVILEGE: &str = "SKIPPED: this process may not load XDP programs; run the tests as root";
const SOCKET: u32 = Action::Drop as u32;

fn mac(last: u8) -> MacAddress {
    MacAddress::new([2, 0, 0, 0, 0, last])
}

/// A program in slot 0 of a fast path, with one pair from station 1 to station 2. The socket is missing, which shows as
/// [`SOCKET`].
struct Setup {
    path: Arc<FastPath>,
    program: OwnedFd,
    pair: FastKey,
    _held: Box<dyn std::any::Any>,
}

fn code(path: &FastPath, sockets: &sys::Map, rules: &[Rule]) -> Vec<Instruction> {
    compile(rules, Some(path.lane(0)), sockets.as_fd().as_raw_fd(), Action::Drop)
}

fn setup(rules: &[&str]) -> Setup {
    let path = match FastPath::new() {
        Err(rustix::io::Errno::PERM) => panic!("{NO_PRIVILEGE}"),
        path => Arc::new(path.unwrap()),
    };
    let ports = ["a", "b"].map(|name| path.clone().open(name, LOOPBACK, 1514).unwrap());
    let sockets = sys::create_map(1).unwrap();
    let rules: Vec<Rule> = rules.iter().map(|rule| rule.parse().unwrap()).collect();
    let code = code(&path, &sockets, &rules);
    let program = sys::load(&code, false).unwrap_or_else(|_| panic!("{}", sys::explain(&code, false)));
    let pair = Pair { slot: 0, source: mac(1), destination: mac(2) }.into();
    let setup = Setup { path, program, pair, _held: Box::new((ports, sockets)) };
    setup.install();
    setup
}

impl Setup {
    fn install(&self) {
        self.install_as(&self.pair, Edits::default(), None);
    }

    fn install_as(&self, key: &FastKey, edits: Edits, connection: Option<ConnectionEpoch>) {
        let stamp = self.path.stamp(FROM, TO, connection);
        let target = Target { stamp, from: FROM, to: TO, slot: 1, edits, connection };
        self.path.install(key, &target).unwrap();
    }

    /// Runs the program on a frame, which becomes what the program made of it.
    fn run(&self, frame: &mut [u8]) -> u32 {
        sys::test_run(self.program.as_fd(), frame).unwrap()
    }

    fn is_fast(&self, frame: &[u8]) -> bool {
        self.run(&mut frame.to_vec()) == REDIRECT as u32
    }

    fn packets(&self) -> u64 {
        self.path.counts(&self.pair).map_or(0, |counts| counts.packets)
    }
}

fn frame(ethertype: u16, rest: &[u8]) -> Vec<u8> {
    let addresses = [mac(2), mac(1)].map(MacAddress::octets).concat();
    [&addresses[..], &ethertype.to_be_bytes(), rest].concat()
}

/// A frame with a TCP or UDP packet, and the correct value of its checksum. Its own is partial.
fn packet(version: u8, protocol: u8, payload: &[u8]) -> (Vec<u8>, usize, [u8; 2]) {
    let header = if protocol == 6 { 20 } else { 8 };
    let len = header + payload.len();
    let addresses: Vec<u8> = (1..if version == 4 { 9 } else { 33 }).collect();
    let mut ip = if version == 4 {
        let [high, low] = (20 + len as u16).to_be_bytes();
        vec![0x45, 0, high, low, 0, 0, 0x40, 0, 64, protocol, 0, 0]
    } else {
        let [high, low] = (len as u16).to_be_bytes();
        vec![0x60, 0, 0, 0, high, low, protocol, 64]
    };
    ip.extend(&addresses);
    ip.extend(vec![0x11; header]);
    let mut frame = frame(if version == 4 { 0x0800 } else { 0x86dd }, &ip);
    let transport = frame.len() - header;
    frame.extend(payload);
    let at = transport + if protocol == 6 { 16 } else { 6 };
    frame[at..at + 2].fill(0);
    let pseudo = Sum::pseudo(&addresses, protocol, len as u32);
    let mut all = pseudo;
    all.add(&frame[transport..]);
    frame[at..at + 2].copy_from_slice(&pseudo.partial());
    (frame, at, all.finish_nonzero())
}

#[test]
fn frames_of_a_pair_are_redirected_and_counted() {
    let setup = setup(&[]);
    let arp = frame(0x0806, &[0; 46]);
    assert!(setup.is_fast(&arp) && setup.is_fast(&arp));
    let counts = setup.path.counts(&setup.pair).unwrap();
    assert_eq!((counts.packets, counts.bytes), (2, 120));
    let mut other = arp.clone();
    other[11] = 9;
    assert!(!setup.is_fast(&other), "another source");
    other = arp.clone();
    other[5] = 9;
    assert!(!setup.is_fast(&other), "another destination");
    assert_eq!(setup.path.remove(&setup.pair).map(|counts| counts.packets), Some(2));
    assert!(!setup.is_fast(&arp) && setup.path.remove(&setup.pair).is_none());
}

#[test]
fn entry_ends_with_any_of_its_epochs() {
    let setup = setup(&[]);
    let frame = frame(0x0806, &[0; 46]);
    for changed in [None, Some(FROM), Some(TO)] {
        setup.install();
        assert!(setup.is_fast(&frame));
        setup.path.invalidate(Some(PortId(4)));
        assert!(setup.is_fast(&frame), "another port has changed");
        setup.path.invalidate(changed);
        assert!(!setup.is_fast(&frame), "{changed:?}");
        assert_eq!(setup.packets(), 2, "a frame for the socket is not counted");
    }
}

#[test]
fn frames_that_user_space_may_change_or_drop_go_to_the_socket() {
    let setup = setup(&[]);
    assert!(setup.is_fast(&frame(0x88b5, &[0; 1500])));
    assert!(!setup.is_fast(&frame(0x88b5, &[0; 1501])), "longer than the output takes");
    assert!(!setup.is_fast(&frame(0x88b5, &[0; 19])), "too short to be parsed");
    for tag in [0x8100, 0x88a8] {
        assert!(!setup.is_fast(&frame(tag, &[0; 60])), "a VLAN tag");
    }
    for next in [0, 43, 44, 60, 132] {
        let mut packet = packet(6, 17, &[]).0;
        packet[20] = next;
        assert!(!setup.is_fast(&packet), "next header {next}");
    }
    let mut padded = packet(4, 17, &[7; 10]).0;
    padded.extend([0; 6]);
    assert!(!setup.is_fast(&padded), "a partial checksum with bytes behind the packet");
    for version in [4, 6] {
        for protocol in [6, 17] {
            let whole = packet(version, protocol, &[]).0;
            let short = &whole[..whole.len() - 1];
            assert!(!setup.is_fast(short), "a truncated header, IPv{version}, {protocol}");
        }
    }
    assert_eq!(setup.packets(), 1);
}

#[test]
fn complete_checksums_and_other_packets_are_not_changed() {
    let setup = setup(&[]);
    let (mut complete, at, sum) = packet(4, 17, &[7; 30]);
    complete[at..at + 2].copy_from_slice(&sum);
    let (mut fragment, ..) = packet(4, 17, &[7; 30]);
    fragment[20] = 0x20;
    let mut icmp = packet(4, 17, &[7; 30]).0;
    icmp[23] = 1;
    for sent in [complete, fragment, icmp, packet(6, 58, &[7; 30]).0, frame(0x0806, &[7; 50])] {
        let mut frame = sent.clone();
        assert_eq!((setup.run(&mut frame), &frame), (REDIRECT as u32, &sent));
    }
}

#[test]
fn partial_checksum_of_every_length_is_completed() {
    let setup = setup(&[]);
    for len in (0..80).chain([1400, 1439, 1440]) {
        for (version, protocol) in [(4, 6), (4, 17), (6, 6), (6, 17)] {
            let payload: Vec<u8> = (0..len).map(|i| (i * 7 + len) as u8).collect();
            let (mut frame, at, sum) = packet(version, protocol, &payload);
            assert_eq!(setup.run(&mut frame), REDIRECT as u32, "{len} bytes, IPv{version}, {protocol}");
            assert_eq!(frame[at..at + 2], sum, "{len} bytes, IPv{version}, {protocol}");
        }
    }
}

#[test]
fn rules_for_the_kernel_come_first() {
    let setup = setup(&["arp", "tcp 22"]);
    assert_eq!(setup.run(&mut frame(0x0806, &[0; 46])), Action::Pass as u32);
    assert!(setup.is_fast(&packet(4, 17, &[0; 20]).0));
    assert_eq!(setup.packets(), 1);
}

#[test]
fn program_with_maximum_rules_is_accepted() {
    let setup = setup(&[]);
    let rules: Vec<Rule> = (1..=64).map(|port| Rule::Port { protocol: 17, port }).collect();
    let sockets = sys::create_map(1).unwrap();
    let code = code(&setup.path, &sockets, &rules);
    assert!(sys::load(&code, false).is_ok(), "{}", sys::explain(&code, false));
}

#[test]
fn verifier_log_names_the_reason() {
    let sockets = match sys::create_map(1) {
        Err(rustix::io::Errno::PERM) => panic!("{NO_PRIVILEGE}"),
        sockets => sockets.unwrap(),
    };
    let mut code = compile(&[], None, sockets.as_fd().as_raw_fd(), Action::Pass);
    // Without its last instruction the program does not exit.
    code.pop();
    assert!(sys::load(&code, false).is_err());
    assert!(
        sys::explain(&code, false).contains("last insn is not an exit"),
        "{}",
        sys::explain(&code, false)
    );
}

/// A slot that becomes free may soon be that of another interface.
#[test]
fn closed_port_ends_all_entries() {
    let setup = setup(&[]);
    let port = setup.path.clone().open("c", LOOPBACK, 1514).unwrap();
    assert_eq!(setup.path.slot("c"), Some(2));
    assert!(setup.is_fast(&frame(0x0806, &[0; 46])));
    drop(port);
    assert_eq!(setup.path.slot("c"), None);
    assert!(!setup.is_fast(&frame(0x0806, &[0; 46])));
}

/// One of 64 frames on average: 4,000 frames leave none with a probability of less than 10^-27.
#[test]
fn frames_without_an_entry_become_candidates() {
    let setup = setup(&[]);
    setup.path.remove(&setup.pair).unwrap();
    for _ in 0..4000 {
        assert!(!setup.is_fast(&frame(0x0806, &[0; 46])));
    }
    assert_eq!(setup.path.take_candidates(), [setup.pair]);
    assert_eq!(setup.path.take_candidates(), []);
}

/// The program's answer is one of both, and it changes nothing but a checksum.
#[test]
fn arbitrary_packets_are_forwarded_unchanged_or_left_to_the_socket() {
    let setup = setup(&[]);
    let ethertypes = prop::sample::select(vec![0x0800_u16, 0x86dd, 0x0806]);
    let packets = (ethertypes, prop::collection::vec(any::<u8>(), 20..200));
    let run = |(ethertype, rest): (u16, Vec<u8>)| {
        let sent = frame(ethertype, &rest);
        let mut frame = sent.clone();
        let answer = setup.run(&mut frame);
        prop_assert!([SOCKET, REDIRECT as u32].contains(&answer));
        // The sum of the pseudo header equals a random field for one packet in 65536, which is then completed.
        let changed = frame.iter().zip(&sent).filter(|(now, before)| now != before).count();
        prop_assert!(changed <= 2);
        Ok(())
    };
    TestRunner::default().run(&packets, run).unwrap();
}

/// The flow of [`packet`].
fn flow(version: u8, protocol: u8) -> FastKey {
    let address = |first: u8| match version {
        4 => IpAddr::from(std::array::from_fn::<u8, 4, _>(|i| first + i as u8)),
        _ => IpAddr::from(std::array::from_fn::<u8, 16, _>(|i| first + i as u8)),
    };
    let (source, destination) = (address(1), address(if version == 4 { 5 } else { 17 }));
    let headers = Headers { source, destination, protocol, traffic_class: 0, ports: (0x1111, 0x1111) };
    let pair = Pair { slot: 0, source: mac(1), destination: mac(2) };
    FastKey { pair, headers: Some(headers) }
}

/// A packet that a station sends: its TCP header has a length, and no control bits.
fn sent(version: u8, protocol: u8) -> Vec<u8> {
    let (mut frame, at, _) = packet(version, protocol, &[7; 40]);
    if protocol == 6 {
        frame[at - 4..at - 2].copy_from_slice(&[0x50, 0x10]);
    }
    frame[at..at + 2].copy_from_slice(&[1, 2]);
    frame
}

/// A fast path whose only entries are flows.
fn flows() -> Setup {
    let setup = setup(&[]);
    setup.path.remove(&setup.pair).unwrap();
    setup
}

#[test]
fn frames_of_a_flow_are_redirected_and_others_are_not() {
    let setup = flows();
    for (version, protocol) in [(4, 6), (4, 17), (6, 6), (6, 17)] {
        let (key, sent) = (flow(version, protocol), sent(version, protocol));
        assert!(!setup.is_fast(&sent), "IPv{version}, {protocol}");
        setup.install_as(&key, Edits::default(), None);
        let mut frame = sent.clone();
        assert_eq!((setup.run(&mut frame), &frame), (REDIRECT as u32, &sent), "IPv{version}, {protocol}");
        let ip = if version == 4 { 34 } else { 54 };
        // Traffic class, length, next header, addresses, ports, and the length of the TCP header.
        let [len, next, source] = if version == 4 { [17, 23, 29] } else { [19, 20, 37] };
        let others = vec![15, len, next, source, ip - 1, ip + 1, ip + 3];
        let mut others: Vec<_> = others.into_iter().map(|at| (at, 0x80)).collect();
        // Shorter than a TCP header.
        others.extend((protocol == 6).then_some((ip + 12, 0x40)));
        for (at, bits) in others {
            let mut other = sent.clone();
            other[at] ^= bits;
            assert!(!setup.is_fast(&other), "IPv{version}, {protocol}: byte {at}");
        }
        for len in 0..sent.len() {
            assert!(len < 14 || !setup.is_fast(&sent[..len]), "IPv{version}, {protocol}: {len} bytes");
        }
        assert_eq!(setup.path.remove(&key).unwrap().packets, 1);
    }
    setup.install_as(&flow(4, 17), Edits::default(), None);
    for (at, bits) in [(14, 3), (20, 0x20), (21, 1)] {
        let mut other = sent(4, 17);
        other[at] ^= bits;
        assert!(!setup.is_fast(&other), "options or a fragment: byte {at}");
    }
}

#[test]
fn entries_of_flows_edit_addresses_and_time_to_live() {
    let setup = flows();
    let addresses = Some([mac(8), mac(9)]);
    for (version, at) in [(4, 22), (6, 21)] {
        setup.install_as(&flow(version, 17), Edits { addresses, decrements_ttl: true }, None);
        for ttl in 0..=255_u8 {
            let mut frame = sent(version, 17);
            frame[at] = ttl;
            checksum(version, &mut frame);
            let before = frame.clone();
            let is_fast = setup.run(&mut frame) == REDIRECT as u32;
            assert_eq!(is_fast, ttl > 1, "IPv{version}, {ttl}");
            let mut expected = before.clone();
            if is_fast {
                expected[..12].copy_from_slice(&[mac(8).octets(), mac(9).octets()].concat());
                expected[at] = ttl - 1;
                checksum(version, &mut expected);
            }
            assert_eq!(frame, expected, "IPv{version}, {ttl}");
        }
    }
    setup.install_as(&flow(4, 17), Edits { addresses, decrements_ttl: false }, None);
    let (mut frame, before) = (sent(4, 17), sent(4, 17));
    assert_eq!((setup.run(&mut frame), &frame[14..]), (REDIRECT as u32, &before[14..]));
    assert_eq!(frame[..6], mac(8).octets());
}

/// Sets the header checksum of an IPv4 packet.
fn checksum(version: u8, frame: &mut [u8]) {
    if version == 4 {
        frame[24..26].fill(0);
        let mut sum = Sum::default();
        sum.add(&frame[14..34]);
        let sum = sum.finish();
        frame[24..26].copy_from_slice(&sum);
    }
}

#[test]
fn connection_ends_with_its_epoch_and_keeps_control_bits_in_user_space() {
    let setup = flows();
    for version in [4, 6] {
        let (key, connection) = (flow(version, 6), ConnectionEpoch::of(9));
        setup.install_as(&key, Edits::default(), connection);
        let sent = sent(version, 6);
        let flags = if version == 4 { 47 } else { 67 };
        for bits in 0..=255_u8 {
            let mut frame = sent.clone();
            frame[flags] = bits;
            assert_eq!(setup.is_fast(&frame), bits & 7 == 0, "IPv{version}, {bits:#x}");
        }
        setup.path.end_connection(ConnectionEpoch::of(8).unwrap());
        assert!(setup.is_fast(&sent));
        setup.path.end_connection(connection.unwrap());
        assert!(!setup.is_fast(&sent));
        setup.install_as(&flow(version, 17), Edits::default(), connection);
        assert!(setup.is_fast(&self::sent(version, 17)), "UDP has no control bits");
    }
}

#[test]
fn candidates_have_the_headers_of_flows() {
    let setup = flows();
    let (other, sent) = (frame(0x0806, &[0; 46]), sent(4, 6));
    for _ in 0..4000 {
        assert!(!setup.is_fast(&sent) && !setup.is_fast(&other));
    }
    let mut found = setup.path.take_candidates();
    found.sort();
    assert_eq!(found, [setup.pair, flow(4, 6)]);
}
