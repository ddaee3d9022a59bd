//! XDP program that runs for each received frame and decides between the kernel and the socket of the receive queue.
//!
//! Frames that match a [`Rule`] are passed to the kernel. All others are redirected through the socket map by receive
//! queue number, or passed to the kernel if the map has no socket for the queue. The program parses headers only as far
//! as the rules require, and not at all without rules. With a kernel fast path, frames of installed pairs of stations
//! are redirected to other interfaces before (`fast_program`).

use super::assembler::{Assembler, Instruction, Label, Register, Width};
use super::fast_program::{self, Lane};
use super::rules::Rule;

/// Return code of a program (`enum xdp_action`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Drops the frame. Only for a test, to distinguish it from the others.
    #[cfg(test)]
    Drop = 1,
    /// Passes the frame to the kernel.
    Pass = 2,
}

/// Number of `bpf_redirect_map` in `enum bpf_func_id`.
pub(super) const REDIRECT_MAP: i32 = 51;

// Offsets in `struct xdp_md`.
pub(super) const DATA: i16 = 0;
pub(super) const DATA_END: i16 = 4;
const QUEUE: i16 = 16;

// Register allocation. Registers 6 to 9 are preserved across calls.
pub(super) const CONTEXT: Register = Register::of(6);
const FRAME: Register = Register::of(2);
const END: Register = Register::of(3);
/// First byte after the Ethernet header and its VLAN tags.
const NETWORK: Register = Register::of(4);
const TYPE: Register = Register::of(5);
const SCRATCH: Register = Register::of(1);
const PROTOCOL: Register = Register::of(7);
const TRANSPORT: Register = Register::of(8);

pub(super) const IPV4: u16 = 0x0800;
pub(super) const IPV6: u16 = 0x86dd;
pub(super) const TAGS: [u16; 2] = [0x8100, 0x88a8];

/// Compiles the program for the socket map `map`, with a fast path if there is a `lane`. `missing` is the action for
/// queues without a socket.
pub(super) fn compile(rules: &[Rule], lane: Option<Lane>, map: i32, missing: Action) -> Vec<Instruction> {
    let mut a = Assembler::default();
    let (pass, redirect) = (a.label(), a.label());
    a.copy(CONTEXT, Register::CONTEXT);
    if !rules.is_empty() {
        match_frames(&mut a, rules, pass, redirect);
    }
    a.place(redirect);
    if let Some(lane) = lane {
        fast_program::add(&mut a, lane);
    }
    a.load_map(Register::of(1), map).load(Width::Word, Register::of(2), CONTEXT, QUEUE);
    a.set(Register::of(3), missing as i32).call(REDIRECT_MAP).exit();
    if !rules.is_empty() {
        a.place(pass).set(Register::RESULT, Action::Pass as i32).exit();
    }
    a.finish()
}

/// A number in network byte order, as a little-endian load reads it.
pub(super) const fn wire(number: u16) -> i32 {
    number.to_be() as i32
}

fn match_frames(a: &mut Assembler, rules: &[Rule], pass: Label, redirect: Label) {
    a.load(Width::Word, FRAME, CONTEXT, DATA).load(Width::Word, END, CONTEXT, DATA_END);
    a.copy(NETWORK, FRAME).add(NETWORK, 14).jump_if_above(NETWORK, END, redirect);
    a.load(Width::Half, TYPE, FRAME, 12);
    for _ in 0..2 {
        skip_tag(a, redirect);
    }
    for rule in rules {
        if let Rule::EtherType(number) = rule {
            a.jump_if_equal(TYPE, wire(*number), pass);
        }
    }
    if rules.iter().any(|rule| !matches!(rule, Rule::EtherType(_))) {
        match_packets(a, rules, pass, redirect);
    }
}

/// If the EtherType is a VLAN tag, advances past the tag.
fn skip_tag(a: &mut Assembler, redirect: Label) {
    let (tagged, behind) = (a.label(), a.label());
    a.jump_if_equal(TYPE, wire(TAGS[0]), tagged).jump_unless_equal(TYPE, wire(TAGS[1]), behind);
    a.place(tagged).copy(FRAME, NETWORK).add(NETWORK, 4).jump_if_above(NETWORK, END, redirect);
    a.load(Width::Half, TYPE, FRAME, 2).place(behind);
}

fn match_packets(a: &mut Assembler, rules: &[Rule], pass: Label, redirect: Label) {
    let (six, transport) = (a.label(), a.label());
    a.jump_if_equal(TYPE, wire(IPV6), six).jump_unless_equal(TYPE, wire(IPV4), redirect);
    // IPv4 (RFC 791): the header length is variable; only packets with fragment offset 0 have ports.
    reach(a, NETWORK, 20, redirect);
    a.load(Width::Byte, PROTOCOL, NETWORK, 9);
    match_protocols(a, rules, pass);
    a.load(Width::Half, SCRATCH, NETWORK, 6)
        .and(SCRATCH, wire(0x1fff))
        .jump_unless_equal(SCRATCH, 0, redirect);
    a.load(Width::Byte, SCRATCH, NETWORK, 0).and(SCRATCH, 15).shift_left(SCRATCH, 2);
    a.copy(TRANSPORT, NETWORK).add_register(TRANSPORT, SCRATCH).jump(transport);
    // IPv6 (RFC 8200).
    a.place(six);
    reach(a, NETWORK, 40, redirect);
    a.load(Width::Byte, PROTOCOL, NETWORK, 6);
    match_protocols(a, rules, pass);
    a.copy(TRANSPORT, NETWORK).add(TRANSPORT, 40).place(transport);
    match_ports(a, rules, pass, redirect);
}

/// Continues only if at least `n` bytes follow `at`; otherwise jumps to `redirect`.
fn reach(a: &mut Assembler, at: Register, n: i32, redirect: Label) {
    a.copy(SCRATCH, at).add(SCRATCH, n).jump_if_above(SCRATCH, END, redirect);
}

fn match_protocols(a: &mut Assembler, rules: &[Rule], pass: Label) {
    for rule in rules {
        if let Rule::Protocol(number) = rule {
            a.jump_if_equal(PROTOCOL, i32::from(*number), pass);
        }
    }
}

/// TCP and UDP have the destination port at the same offset.
fn match_ports(a: &mut Assembler, rules: &[Rule], pass: Label, redirect: Label) {
    let ports: Vec<_> = rules
        .iter()
        .filter_map(|rule| match *rule {
            Rule::Port { protocol, port } => Some((protocol, port)),
            _ => None,
        })
        .collect();
    if ports.is_empty() {
        return;
    }
    reach(a, TRANSPORT, 4, redirect);
    a.load(Width::Half, SCRATCH, TRANSPORT, 2);
    for (protocol, port) in ports {
        let next = a.label();
        a.jump_unless_equal(PROTOCOL, i32::from(protocol), next);
        a.jump_if_equal(SCRATCH, wire(port), pass).place(next);
    }
}

#[cfg(test)]
mod tests {
    use super::super::sys;
    use super::*;
    use rustix::fd::{AsFd, AsRawFd};

    use Verdict::{Kernel, Socket};

    #[derive(Debug, PartialEq, Eq, Clone, Copy)]
    enum Verdict {
        Socket,
        Kernel,
    }

    /// Runs the program for `rules` on `frames`. Returns `None` if this process may not load programs.
    fn run(rules: &[&str], frames: &[Vec<u8>]) -> Option<Vec<Verdict>> {
        let rules: Vec<Rule> = rules.iter().map(|rule| rule.parse().unwrap()).collect();
        let map = match sys::create_map(4) {
            Err(rustix::io::Errno::PERM) => return None,
            map => map.unwrap(),
        };
        // The map has no sockets, so redirected frames get the action for a missing socket.
        let code = compile(&rules, None, map.as_fd().as_raw_fd(), Action::Drop);
        let program = sys::load(&code, false).unwrap();
        let answer = |frame: &Vec<u8>| match sys::test_run(program.as_fd(), &mut frame.clone()).unwrap() {
            1 => Verdict::Socket,
            2 => Verdict::Kernel,
            other => panic!("the program answered {other}"),
        };
        Some(frames.iter().map(answer).collect())
    }

    fn validate(rules: &[&str], frame: Vec<u8>, expected: Verdict) {
        if let Some(answers) = run(rules, &[frame]) {
            assert_eq!(answers, [expected], "{rules:?}");
        }
    }

    fn frame(tags: &[u16], ethertype: u16, packet: &[u8]) -> Vec<u8> {
        let mut frame = vec![2; 12];
        for tag in tags {
            frame.extend_from_slice(&tag.to_be_bytes());
            frame.extend_from_slice(&[0, 7]);
        }
        frame.extend_from_slice(&ethertype.to_be_bytes());
        frame.extend_from_slice(packet);
        frame
    }

    fn v4(protocol: u8, port: u16, options: usize, fragment: u16) -> Vec<u8> {
        let mut packet = vec![0; 20 + options];
        packet[0] = 0x40 | (5 + options / 4) as u8;
        packet[6..8].copy_from_slice(&fragment.to_be_bytes());
        packet[9] = protocol;
        packet.extend_from_slice(&[0x30, 0x39]);
        packet.extend_from_slice(&port.to_be_bytes());
        packet.extend_from_slice(&[0; 16]);
        frame(&[], IPV4, &packet)
    }

    fn v6(next: u8, port: u16) -> Vec<u8> {
        let mut packet = vec![0; 40];
        (packet[0], packet[6]) = (0x60, next);
        packet.extend_from_slice(&[0x30, 0x39]);
        packet.extend_from_slice(&port.to_be_bytes());
        packet.extend_from_slice(&[0; 16]);
        frame(&[], IPV6, &packet)
    }

    const ALL: &[&str] = &["arp", "ethertype 0x88cc", "tcp 22", "udp 67", "icmpv6"];

    #[test]
    fn no_rules_redirect_all_frames() {
        validate(&[], frame(&[], 0x0806, &[0; 46]), Socket);
        validate(&[], v4(6, 22, 0, 0), Socket);
    }

    #[test]
    fn ethertype_rules_match_behind_up_to_two_tags() {
        for tags in [&[][..], &[0x8100], &[0x88a8, 0x8100]] {
            validate(ALL, frame(tags, 0x0806, &[0; 46]), Kernel);
            validate(ALL, frame(tags, 0x88cc, &[0; 46]), Kernel);
            validate(ALL, frame(tags, 0x88f7, &[0; 46]), Socket);
        }
        validate(ALL, frame(&[0x8100; 3], 0x0806, &[0; 46]), Socket);
    }

    #[test]
    fn port_rules_match_protocol_and_destination_only() {
        validate(ALL, v4(6, 22, 0, 0), Kernel);
        validate(ALL, v4(17, 22, 0, 0), Socket);
        validate(ALL, v4(17, 67, 0, 0), Kernel);
        validate(ALL, v4(6, 67, 0, 0), Socket);
        validate(ALL, v4(6, 2222, 0, 0), Socket);
        // 12345 is the source port.
        validate(&["tcp 12345"], v4(6, 22, 0, 0), Socket);
        validate(ALL, v6(6, 22), Kernel);
        validate(ALL, v6(17, 68), Socket);
        validate(ALL, v6(58, 0), Kernel);
        validate(ALL, v4(58, 0, 0, 0), Kernel);
    }

    #[test]
    fn ip_options_are_skipped_and_later_fragments_have_no_ports() {
        validate(ALL, v4(6, 22, 40, 0), Kernel);
        validate(ALL, v4(6, 22, 0, 0x2000), Kernel);
        validate(ALL, v4(6, 22, 0, 0x2001), Socket);
        validate(ALL, v4(6, 22, 0, 0x4000), Kernel);
    }

    #[test]
    fn truncated_headers_are_redirected() {
        for len in 14..42 {
            let mut short = v4(6, 22, 0, 0);
            short.truncate(len);
            validate(ALL, short, if len < 38 { Socket } else { Kernel });
        }
        for len in 14..60 {
            let mut short = v6(17, 67);
            short.truncate(len);
            validate(ALL, short, if len < 58 { Socket } else { Kernel });
        }
    }

    #[test]
    fn program_with_maximum_rules_is_accepted() {
        let rules: Vec<Rule> = (1..=64).map(|port| Rule::Port { protocol: 17, port }).collect();
        if let Ok(map) = sys::create_map(1) {
            assert!(sys::load(&compile(&rules, None, map.as_fd().as_raw_fd(), Action::Pass), true).is_ok());
        }
    }
}
