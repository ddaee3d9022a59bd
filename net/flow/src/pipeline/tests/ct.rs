//! Connection tracking in flows: firewalls and translation, as in ovs-actions(7) and the tutorial of Open vSwitch.

use super::*;
use crate::text::{NoNames, parse_flow};
use conntrack::{Tuple, sample};
use std::net::IpAddr;

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
const RST: u8 = 0x04;

/// Port 1 may begin connections to port 2.
const FIREWALL: [&str; 6] = [
    "table=0,priority=100,ip,ct_state=-trk,actions=ct(table=1)",
    "table=1,priority=9,in_port=1,ip,ct_state=+trk+new,actions=ct(commit),output:2",
    "table=1,priority=9,in_port=1,ip,ct_state=+trk+est,actions=output:2",
    "table=1,priority=9,in_port=2,ip,ct_state=+trk+est,actions=output:1",
    "table=1,priority=9,in_port=2,ip,ct_state=+trk+rel,actions=output:1",
    "table=1,priority=1,ip,actions=drop",
];

pub(super) fn lab(flows: &[&str]) -> Lab {
    let parse = |text: &&str| parse_flow(text, Some(FlowCommand::Add), &NoNames).unwrap();
    Lab::new(&flows.iter().map(parse).map(Box::new).map(Modification::Flow).collect::<Vec<_>>())
}

/// A frame with an IP packet.
pub(super) fn frame(packet: &[u8]) -> Vec<u8> {
    let kind = if packet[0] >> 4 == 4 { [8, 0] } else { [0x86, 0xdd] };
    [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1][..], &kind, packet].concat()
}

/// Host 1, behind port 1, to host 2, behind port 2.
fn v4(protocol: u8) -> Tuple {
    Tuple::new(([10, 0, 0, 1].into(), [10, 0, 0, 2].into()), protocol, 0)
}

fn v6(protocol: u8) -> Tuple {
    let host = |n| [0xfd00, 0, 0, 0, 0, 0, 0, n].into();
    Tuple::new((host(1), host(2)), protocol, 0)
}

/// A TCP segment between the ports 5000 and 80.
fn segment(tuple: &Tuple, flags: u8, numbers: (u32, u32)) -> Vec<u8> {
    frame(&sample::tcp(tuple, flags, numbers, &[]))
}

#[test]
fn a_firewall_admits_connections_of_one_side() {
    for tuple in [v4(6).with_ports(5000, 80), v6(6).with_ports(5000, 80)] {
        let kind = if tuple.is_v6() { ",ipv6," } else { ",ip," };
        let flows = FIREWALL.map(|flow| flow.replace(",ip,", kind));
        let mut lab = lab(&flows.each_ref().map(String::as_str));
        let back = tuple.reversed();
        assert_eq!(lab.send(1, &[segment(&back, SYN, (1, 0))]).drops["flow-drop"], 1, "from outside");
        let syn = segment(&tuple, SYN, (100, 0));
        assert_eq!(lab.send(0, std::slice::from_ref(&syn)).sent[&1], [syn]);
        assert_eq!(lab.ports(1, &segment(&back, SYN | ACK, (900, 101))), [0]);
        assert_eq!(lab.ports(0, &segment(&tuple, ACK, (101, 901))), [1]);
        assert_eq!(lab.ports(1, &segment(&back, RST, (50_000, 0))), [] as [u16; 0], "out of the window");
        assert_eq!(lab.ports(1, &segment(&back, ACK, (901, 101))), [0]);
        let now = lab.now;
        assert_eq!(lab.switch.connections(now).count(), 1);
        assert_eq!(lab.switch.flush_connections(Some(0)), 1);
        assert_eq!(lab.ports(1, &segment(&back, SYN | ACK, (900, 101))), [] as [u16; 0], "flushed");
    }
}

#[test]
fn packets_of_a_burst_pass_in_order_and_from_the_caches() {
    let mut lab = lab(&FIREWALL);
    let tuple = v4(17).with_ports(5000, 53);
    let (there, back) = (frame(&sample::udp(&tuple, &[])), frame(&sample::udp(&tuple.reversed(), &[])));
    assert_eq!(lab.send(0, &vec![there.clone(); 5]).sent[&1].len(), 5);
    assert_eq!(lab.send(1, &vec![back.clone(); 5]).sent[&0].len(), 5);
    lab.send(0, &vec![there.clone(); 5]);
    let (_, _, before) = lab.counts();
    assert_eq!(lab.send(0, &vec![there; 60]).sent[&1].len(), 60);
    assert_eq!(lab.send(1, &vec![back; 60]).sent[&0].len(), 60);
    let (head, megaflow, tables) = lab.counts();
    assert_eq!(tables, before, "all results were known");
    assert_eq!(head + megaflow + tables, 5 + 5 + 5 + 60 + 60, "continuations are not counted");
}

#[test]
fn packets_with_the_state_of_those_before_continue_without_a_search() {
    let whole = FIREWALL.map(|flow| flow.replace("priority=100,ip,ct_state=-trk", "priority=100"));
    for flows in [FIREWALL, whole.each_ref().map(String::as_str)] {
        for tuple in [v4(17).with_ports(5000, 53), v4(6).with_ports(5000, 80)] {
            let mut lab = lab(&flows);
            let packet = |tuple: &Tuple, flags, numbers| match tuple.protocol() {
                17 => frame(&sample::udp(tuple, &[])),
                _ => segment(tuple, flags, numbers),
            };
            let back = tuple.reversed();
            lab.send(0, &[packet(&tuple, SYN, (100, 0))]);
            lab.send(1, &[packet(&back, SYN | ACK, (900, 101))]);
            let (there, back) = (packet(&tuple, ACK, (101, 901)), packet(&back, ACK, (901, 101)));
            for _ in 0..2 {
                lab.send(0, &vec![there.clone(); 3]);
                lab.send(1, &vec![back.clone(); 3]);
            }
            lab.counts();
            let before = lab.switch.cache_counts("br0").unwrap().probes;
            assert_eq!(lab.send(0, &vec![there; 60]).sent[&1].len(), 60);
            assert_eq!(lab.send(1, &vec![back; 60]).sent[&0].len(), 60);
            lab.counts();
            assert_eq!(lab.switch.cache_counts("br0").unwrap().probes, before);
            let established = lab.switch.bridge("br0").unwrap().tables.current();
            let counted = established.flows(TableId(1)).map(|flow| flow.entry().counts().0);
            (1..40).for_each(|n| _ = lab.worker.tick(Now(lab.now.0 + n * 20_000_000)));
            assert_eq!(counted.sum::<u64>(), 2 + 12 + 120);
        }
    }
}

#[test]
fn packets_with_another_state_than_those_before_take_another_way() {
    let mut lab = lab(&FIREWALL);
    change(&lab, 0, false);
    change(&lab, 2, false);
    let tuple = v4(17).with_ports(5000, 53);
    let (there, back) = (frame(&sample::udp(&tuple, &[])), frame(&sample::udp(&tuple.reversed(), &[])));
    lab.send(0, std::slice::from_ref(&there));
    for _ in 0..4 {
        assert_eq!(lab.ports(1, &back), [0]);
    }
    change(&lab, 1, false);
    lab.send(0, &[there]);
    assert_eq!(lab.ports(1, &back), [2], "the connection has a mark now");
    let tuple = v4(6).with_ports(5000, 80);
    let back = tuple.reversed();
    lab.send(0, &[segment(&tuple, SYN, (100, 0))]);
    lab.send(1, &[segment(&back, SYN | ACK, (900, 101))]);
    for _ in 0..4 {
        assert_eq!(lab.ports(0, &segment(&tuple, ACK, (101, 901))), [1]);
    }
    let burst = [(ACK, 101), (RST, 50_000), (ACK, 101)].map(|(flags, at)| segment(&tuple, flags, (at, 901)));
    let sent = lab.send(0, &burst).sent;
    assert_eq!([&sent[&1], &sent[&3]].map(Vec::len), [2, 1], "one is outside of the window");
}

/// Flows that come and go: marks, another way for what is invalid, translation.
const CHANGES: [&str; 5] = [
    "table=1,priority=20,in_port=2,ip,ct_state=+trk+est,ct_mark=1,actions=output:3",
    "table=0,priority=200,in_port=1,udp,ct_state=-trk,actions=ct(commit,table=1,exec(set_field:1->ct_mark))",
    "table=1,priority=30,ip,ct_state=+trk+inv,actions=output:4",
    "table=0,priority=300,in_port=1,tcp,ct_state=-trk,tp_dst=81,actions=ct(commit,table=1,nat(src=192.0.2.1))",
    "table=1,priority=40,tcp,ct_state=+trk+est,ct_tp_dst=80,tcp_flags=+fin,actions=output:4",
];

/// Adds one of [`CHANGES`] or removes it.
fn change(lab: &Lab, which: usize, is_removed: bool) {
    let flow = parse_flow(CHANGES[which], Some(FlowCommand::Add), &NoNames).unwrap();
    let command = if is_removed { FlowCommand::DeleteStrict } else { FlowCommand::Add };
    lab.change(&[Modification::Flow(Box::new(FlowMod { command, ..flow }))]);
}

/// A packet of one of four connections.
#[derive(Clone, Debug)]
struct AnyPacket {
    is_tcp: bool,
    number: u16,
    /// Whether its direction is not the one that its port sends.
    is_odd: bool,
    flags: u8,
    numbers: (u32, u32),
}

impl AnyPacket {
    fn any() -> impl Strategy<Value = Self> {
        let flags = prop_oneof![1 => Just(SYN), 4 => Just(ACK), 1 => Just(SYN | ACK), 1 => Just(RST), 1 => Just(ACK | 1)];
        let number = prop_oneof![4 => Just(0_u16), 1 => Just(1)];
        // One of them is outside of the window.
        let at = prop_oneof![3 => 0..3_u32, 1 => Just(50_000)];
        (any::<bool>(), number, prop::bool::weighted(0.1), flags, (at, 0..3_u32)).prop_map(
            |(is_tcp, number, is_odd, flags, numbers)| Self { is_tcp, number, is_odd, flags, numbers },
        )
    }

    fn frame(&self, from: u16) -> Vec<u8> {
        let tuple = v4(if self.is_tcp { 6 } else { 17 }).with_ports(5000, 80 + self.number);
        let tuple = if (from == 1) == self.is_odd { tuple } else { tuple.reversed() };
        if self.is_tcp { segment(&tuple, self.flags, self.numbers) } else { frame(&sample::udp(&tuple, &[])) }
    }
}

/// [`FIREWALL`] with actions that change nothing, so that the executor executes the results.
fn executed() -> Lab {
    let neutral = "push_vlan:0x8100,pop_vlan";
    let flows = FIREWALL.map(|flow| {
        let first = flow.replace("actions=ct(table", &format!("actions={neutral},ct(table"));
        first.replace("ct(commit),", &format!("ct(commit),{neutral},"))
    });
    lab(&flows.each_ref().map(String::as_str))
}

proptest! {
    /// A worker that continues packets as those before them, without an executor, does the same as one that has never
    /// seen a packet, with an executor, over the same connections.
    #[test]
    fn continuations_agree_with_tables(
        steps in prop::collection::vec(
            (
                prop::option::of((0..CHANGES.len(), any::<bool>())),
                prop_oneof![8 => Just(0_u64), 4 => Just(1), 1 => Just(40), 1 => Just(100)],
                prop::bool::weighted(0.05),
                0..2_u16,
                prop::collection::vec(AnyPacket::any(), 1..4),
                1..4_usize,
            ),
            1..14,
        )
    ) {
        let (mut continuing, mut fresh) = (lab(&FIREWALL), executed());
        for (changed, seconds, is_flushed, from, packets, times) in steps {
            for lab in [&mut continuing, &mut fresh] {
                lab.now = Now(lab.now.0 + seconds * 1_000_000_000);
                if let Some((which, is_removed)) = changed {
                    change(lab, which, is_removed);
                }
                is_flushed.then(|| lab.switch.flush_connections(None));
            }
            let packets: Vec<_> = packets.iter().flat_map(|packet| vec![packet.frame(from); times]).collect();
            let mut expected = Outcome::default();
            for packet in &packets {
                let outcome = send(fresh.switch.worker(1).as_mut(), from, std::slice::from_ref(packet), fresh.now);
                for (port, frames) in outcome.sent {
                    expected.sent.entry(port).or_default().extend(frames);
                }
                for (port, classes) in outcome.classes {
                    expected.classes.entry(port).or_default().extend(classes);
                }
                for (reason, n) in outcome.drops {
                    *expected.drops.entry(reason).or_default() += n;
                }
            }
            prop_assert_eq!(continuing.send(from, &packets), expected);
        }
    }
}

/// Their heads do not tell of which connection they are.
#[test]
fn errors_about_two_connections_with_one_head_have_the_results_of_their_own() {
    let mut lab = lab(&[
        "table=0,ip,ct_state=-trk,actions=ct(commit,table=1)",
        "table=1,priority=9,ip,ct_state=+trk+rel,ct_tp_dst=53,actions=output:3",
        "table=1,priority=1,ip,actions=output:4",
    ]);
    let of = |port| sample::udp(&v4(17).with_ports(5000, port), &[1; 20]);
    let error = |port| frame(&sample::error([192, 0, 2, 9].into(), &of(port)));
    for port in 54..700 {
        lab.send(0, &[frame(&of(53))]);
        for _ in 0..3 {
            assert_eq!(lab.ports(1, &error(53)), [2]);
        }
        // One connection of 1024 has the place of the first.
        lab.switch.flush_connections(None);
        lab.send(0, &[frame(&of(port))]);
        assert_eq!(lab.ports(1, &error(port)), [3]);
        lab.switch.flush_connections(None);
    }
}

#[test]
fn errors_about_a_connection_are_admitted() {
    let mut lab = lab(&FIREWALL);
    let sent = sample::udp(&v4(17).with_ports(5000, 53), &[1; 20]);
    let error = frame(&sample::error([192, 0, 2, 9].into(), &sent));
    assert_eq!(lab.ports(1, &error), [] as [u16; 0]);
    lab.send(0, &[frame(&sent)]);
    assert_eq!(lab.send(1, std::slice::from_ref(&error)).sent[&0], [error]);
}

#[test]
fn marks_are_matched_in_the_next_table() {
    let mut lab = lab(&[
        "table=0,priority=9,in_port=1,ip,actions=ct(commit,zone=7,exec(set_field:0x5->ct_mark,set_field:0x6->ct_label)),output:2",
        "table=0,priority=9,in_port=2,ip,actions=ct(zone=7,table=1)",
        "table=1,priority=9,ip,ct_state=+trk,ct_zone=7,ct_mark=5,ct_label=6,ct_nw_src=10.0.0.1,ct_nw_proto=17,ct_tp_dst=53,actions=output:1",
        "table=1,priority=1,ip,actions=ct_clear,resubmit(,2)",
        "table=2,priority=9,ip,ct_state=-trk,ct_mark=0,actions=output:4",
    ]);
    let tuple = v4(17).with_ports(5000, 53);
    let back = frame(&sample::udp(&tuple.reversed(), &[]));
    assert_eq!(lab.ports(1, &back), [3], "no connection");
    assert_eq!(lab.ports(0, &frame(&sample::udp(&tuple, &[]))), [1]);
    assert_eq!(lab.ports(1, &back), [0]);
}

#[test]
fn a_packet_without_connection_is_invalid() {
    let mut lab = lab(&[
        "table=0,priority=1,actions=ct(table=1)",
        "table=1,priority=1,ct_state=+inv+trk,actions=output:3",
        "table=1,priority=0,actions=output:4",
    ]);
    let mut arp = frame(&[0; 46]);
    arp[12..14].copy_from_slice(&[8, 6]);
    assert_eq!(lab.ports(0, &arp), [2]);
    assert_eq!(lab.ports(0, &segment(&v4(6).with_ports(1, 2), SYN | ACK, (1, 1))), [2]);
    assert_eq!(lab.ports(0, &segment(&v4(6).with_ports(1, 2), SYN, (1, 1))), [3]);
}

/// Makes a packet of a direction.
type Make = fn(&Tuple) -> Vec<u8>;

/// Port 1 leaves through 192.0.2.1.
const NAT: [&str; 4] = [
    "table=0,priority=9,in_port=1,ip,actions=ct(commit,zone=1,nat(src=192.0.2.1)),output:2",
    "table=0,priority=9,in_port=2,ip,ct_state=-trk,actions=ct(table=1,zone=1,nat)",
    "table=1,priority=9,in_port=2,ip,ct_state=+trk+est,ct_zone=1,actions=output:1",
    "table=1,priority=9,in_port=2,ip,ct_state=+trk+rel+dnat,ct_zone=1,actions=output:1",
];

/// Source address 192.0.2.1.
fn public(tuple: &Tuple) -> Tuple {
    let ends = (IpAddr::from([192, 0, 2, 1]), tuple.destination());
    let made = Tuple::new(ends, tuple.protocol(), 0);
    match tuple.message() {
        Some(kind) => made.with_message(kind, tuple.ports().0),
        None => made.with_ports(tuple.ports().0, tuple.ports().1),
    }
}

#[test]
fn sources_are_translated_with_checksums() {
    let mut lab = lab(&NAT);
    let udp = v4(17).with_ports(5000, 53);
    let cases: [(Tuple, Make, Make); 3] = [
        (v4(6).with_ports(5000, 80), |t| segment(t, SYN, (100, 0)), |t| segment(t, SYN | ACK, (900, 101))),
        (udp, |t| frame(&sample::udp(t, &[1, 2, 3])), |t| frame(&sample::udp(t, &[4, 5]))),
        (v4(1).with_message(8, 700), |t| frame(&sample::message(t)), |t| frame(&sample::message(t))),
    ];
    for (tuple, there, back) in cases {
        assert_eq!(lab.send(0, &[there(&tuple)]).sent[&1], [there(&public(&tuple))]);
        let reply = back(&public(&tuple).reversed());
        assert_eq!(lab.send(1, &[reply]).sent[&0], [back(&tuple.reversed())]);
    }
    // Another host with the same port gets another one.
    let other = Tuple::new(([10, 0, 0, 7].into(), [10, 0, 0, 2].into()), 17, 0).with_ports(5000, 53);
    let sent = lab.send(0, &[frame(&sample::udp(&other, &[]))]).sent.remove(&1).unwrap();
    assert_eq!(sent, [frame(&sample::udp(&public(&other).with_ports(5001, 53), &[]))]);
}

#[test]
fn errors_about_translated_packets_are_translated() {
    let mut lab = lab(&NAT);
    let tuple = v4(17).with_ports(5000, 53);
    lab.send(0, &[frame(&sample::udp(&tuple, &[1; 20]))]);
    let router = IpAddr::from([198, 51, 100, 1]);
    let quoted = sample::udp(&public(&tuple), &[1; 20]);
    let mut own = sample::udp(&tuple, &[1; 20]);
    // The quoted checksum stays.
    own[26..28].copy_from_slice(&quoted[26..28]);
    let error = frame(&sample::error(router, &quoted));
    assert_eq!(lab.send(1, &[error]).sent[&0], [frame(&sample::error(router, &own))]);
}

#[test]
fn destinations_are_translated_over_ipv6() {
    let mut lab = lab(&[
        "table=0,priority=9,in_port=1,ipv6,actions=ct(commit,table=1,zone=2,nat(dst=[fd00::9]:8080))",
        "table=1,priority=9,in_port=1,ipv6,ct_state=+dnat,actions=output:2",
        "table=0,priority=9,in_port=2,ipv6,actions=ct(table=1,zone=2,nat)",
        "table=1,priority=9,in_port=2,ipv6,ct_state=+est+snat+rpl,actions=output:1",
    ]);
    let tuple = v6(6).with_ports(5000, 80);
    let server = [0xfd00, 0, 0, 0, 0, 0, 0, 9].into();
    let made = Tuple::new((tuple.source(), server), 6, 0).with_ports(5000, 8080);
    for _ in 0..2 {
        let sent = lab.send(0, &[segment(&tuple, SYN, (100, 0))]).sent.remove(&1).unwrap();
        assert_eq!(sent, [segment(&made, SYN, (100, 0))]);
    }
    let answer = segment(&made.reversed(), SYN | ACK, (900, 101));
    assert_eq!(lab.send(1, &[answer]).sent[&0], [segment(&tuple.reversed(), SYN | ACK, (900, 101))]);
}

#[test]
fn fragments_are_translated_with_the_first() {
    let mut lab = lab(&NAT);
    let tuple = v4(17).with_ports(5000, 53);
    let packet = |tuple: &Tuple| sample::fragments(&sample::udp(tuple, &[1; 60]), 24, 77);
    let sent = lab.send(0, &packet(&tuple).map(|part| frame(&part))).sent.remove(&1).unwrap();
    assert_eq!(sent, packet(&public(&tuple)).map(|part| frame(&part)));
}

#[test]
fn a_connection_without_free_address_is_dropped() {
    let mut lab = lab(&["priority=1,ip,actions=ct(commit,nat(src=192.0.2.1:4000)),output:2"]);
    let packet = |port| frame(&sample::udp(&v4(17).with_ports(port, 53), &[]));
    assert_eq!(lab.ports(0, &packet(1)), [1]);
    assert_eq!(lab.send(0, &[packet(2)]).drops["action-failed"], 1);
}

#[test]
fn a_loop_of_tables_ends() {
    let mut once = lab(&["priority=1,ip,actions=ct(table=0)"]);
    let packet = segment(&v4(6).with_ports(1, 2), SYN, (1, 1));
    assert_eq!(once.send(0, std::slice::from_ref(&packet)).drops["recirculation-limit"], 1);
    let mut thrice = lab(&["priority=1,ip,actions=ct(table=0),ct(table=0),ct(table=0)"]);
    let dropped = thrice.send(0, &vec![packet; 64]).drops["recirculation-limit"];
    assert!(dropped >= 64, "{dropped}");
}

#[test]
fn a_listed_packet_is_the_one_before_its_copies() {
    let mut lab = lab(&[
        "table=0,priority=1,ip,actions=ct(commit,table=1,nat(src=192.0.2.1)),output:3",
        "table=1,priority=1,ip,actions=output:2",
    ]);
    let tuple = v4(17).with_ports(5000, 53);
    let sent = lab.send(0, &[frame(&sample::udp(&tuple, &[]))]).sent;
    assert_eq!(sent[&1], [frame(&sample::udp(&public(&tuple), &[]))]);
    assert_eq!(sent[&2], [frame(&sample::udp(&tuple, &[]))]);
}

/// The meter of packets that continue with another code point, and so recirculate through the engine.
fn remarking() -> Modification {
    let bands = vec![Band { rate: 1, burst: 1, remark: Some(1) }];
    let flags = MeterFlags { packets: true, burst: true, stats: false };
    Modification::Meter(MeterMod { command: MeterCommand::Add, flags, id: 1, bands })
}

#[test]
fn a_translation_is_known_after_a_recirculation_by_the_engine() {
    let mut lab = Lab::new(&[remarking()]);
    for text in [
        "table=0,ip,actions=ct(commit,zone=1,nat(src=192.0.2.1)),meter:1,resubmit(,1)",
        "table=1,ip,nw_tos=0,actions=ct(commit,zone=1,nat(src=192.0.2.1)),output:2",
    ] {
        let flow = parse_flow(text, Some(FlowCommand::Add), &NoNames).unwrap();
        lab.change(&[Modification::Flow(Box::new(flow))]);
    }
    let tuple = v4(17).with_ports(5000, 53);
    for _ in 0..2 {
        let sent = lab.send(0, &[frame(&sample::udp(&tuple, &[]))]).sent.remove(&1).unwrap();
        assert_eq!(sent, [frame(&sample::udp(&public(&tuple), &[]))]);
    }
    assert_eq!(
        lab.switch.connections(lab.now).count(),
        1,
        "the second passage finds the connection of the first"
    );
}

/// Work units of one packet.
fn work(lab: &mut Lab, packet: &[u8]) -> u64 {
    let (mut burst, mut verdicts) = (Burst::new(), Verdicts::new(16));
    burst.begin(0);
    assert!(burst.push_own(packet));
    lab.worker.process(&mut burst, &Context::received(PortId(0), lab.now), &mut verdicts);
    verdicts.work()
}

#[test]
fn connections_and_searches_for_ports_are_charged_to_their_sender() {
    let mut lab = lab(&["priority=1,ip,actions=ct(commit,nat(src=192.0.2.1:4000-4100)),output:2"]);
    let packet = |port| frame(&sample::udp(&v4(17).with_ports(port, 53), &[]));
    work(&mut lab, &packet(1));
    let known = work(&mut lab, &packet(1));
    let new = work(&mut lab, &packet(2));
    assert!(new >= known + 300, "{new} {known}");
    for port in 3..300 {
        work(&mut lab, &packet(port));
    }
    let refused = work(&mut lab, &packet(300));
    assert!(refused >= known + 100 * 50, "all ports were tried: {refused} {known}");
}
