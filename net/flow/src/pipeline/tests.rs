//! Workers with caches, over one bridge of four ports.

mod ct;
mod learn;
mod packet_out;

use super::*;
use crate::action::{Action, Instructions};
use crate::modify::{Band, FlowCommand, FlowMod, MeterCommand, MeterFlags, MeterMod, PortNo, TableId};
use crate::tables::Modification;
use crate::trace::{DropCause, TracedPacket, Verdict};
use crate::translate::ControllerOperation;
use crate::{Field, Match};
use port::{
    Burst, Context, DropReason, Now, Passes, Pipeline, Pipelines, PortId, PuntReason, Punted, Punts, Verdicts,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Stands for the learning bridge: sends everything to port 9.
struct Normal;

impl Pipelines for Normal {
    fn worker(&self, _: usize) -> Box<dyn Pipeline> {
        Box::new(ToNine)
    }
}

struct ToNine;

impl Pipeline for ToNine {
    fn process(&mut self, burst: &mut Burst, _: &Context, verdicts: &mut Verdicts) {
        verdicts.emit_run(0..burst.len(), PortId(9), port::EditId::NONE);
    }
}

#[derive(Default)]
struct Controllers(Vec<Punted>);

impl Punts for Controllers {
    fn have_room(&self, _: PortId) -> bool {
        true
    }

    fn push(&mut self, packet: Punted) -> bool {
        self.0.push(packet);
        true
    }
}

/// What happened to the packets of a burst.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    /// Frames, by output port, in order.
    sent: BTreeMap<u16, Vec<Vec<u8>>>,
    drops: BTreeMap<&'static str, u64>,
    punted: Vec<(Vec<u8>, u64)>,
    /// Ingress ports of punted packets, if they differ from that of the burst.
    in_ports: Vec<u128>,
}

struct Lab {
    switch: FlowSwitch,
    worker: Box<dyn Pipeline>,
    now: Now,
}

fn flow(priority: u16, matching: &Match, apply: Vec<Action>) -> Modification {
    in_table(0, priority, matching, Instructions { apply, ..Instructions::default() })
}

fn in_table(table: u8, priority: u16, matching: &Match, instructions: Instructions) -> Modification {
    Modification::Flow(Box::new(FlowMod {
        table: TableId(table),
        cookie: priority.into(),
        instructions,
        ..FlowMod::new(FlowCommand::Add, matching, priority)
    }))
}

fn output(port: u32) -> Action {
    Action::Output { port: PortNo(port), max_len: 0xffff }
}

fn set(field: Field, value: u128) -> Action {
    Action::SetField { field, value, mask: field.full() }
}

fn to_controller() -> Action {
    Action::Output { port: PortNo::CONTROLLER, max_len: 0xffff }
}

/// A UDP packet over IPv4, with valid checksums.
fn udp(source: u8, destination: u8, ports: (u16, u16), ttl: u8) -> Vec<u8> {
    let mut frame = [[2, 0, 0, 0, 0, destination], [2, 0, 0, 0, 0, source]].concat();
    frame.extend([8, 0, 0x45, 0, 0, 46, 0, 1, 0, 0, ttl, 17, 0, 0, 10, 0, 0, source, 10, 0, 0, destination]);
    let header = wire::checksum::Sum::of(&frame[14..34]).finish();
    frame[24..26].copy_from_slice(&header);
    frame.extend(ports.0.to_be_bytes().into_iter().chain(ports.1.to_be_bytes()));
    frame.extend([0, 26, 0, 0]);
    frame.extend([7; 18]);
    frame
}

fn by_port(port: u128) -> Match {
    Match::any().with(Field::InPort, port)
}

fn ip() -> Match {
    Match::any().with(Field::EthType, 0x0800)
}

impl Lab {
    /// Ports of the engine 0 to 3 are the ports 1 to 4 of the bridge.
    fn new(changes: &[Modification]) -> Self {
        let switch = FlowSwitch::new(Arc::new(Normal));
        switch.add_bridge("br0").unwrap();
        for port in 0..4 {
            assert_eq!(switch.add_port(PortId(port), "br0", None).unwrap(), PortNo(u32::from(port) + 1));
        }
        let worker = switch.worker(0);
        let lab = Self { switch, worker, now: Now(1_000_000_000) };
        lab.change(changes);
        lab
    }

    fn change(&self, changes: &[Modification]) {
        self.switch.modify("br0", changes, self.now).unwrap();
    }

    fn send(&mut self, from: u16, frames: &[Vec<u8>]) -> Outcome {
        send(self.worker.as_mut(), from, frames, self.now)
    }

    /// Output ports of one frame.
    fn ports(&mut self, from: u16, frame: &[u8]) -> Vec<u16> {
        self.send(from, &[frame.to_vec()]).sent.into_keys().collect()
    }

    fn counts(&mut self) -> (u64, u64, u64) {
        // Workers report once a millisecond.
        self.now = Now(self.now.0 + 1_000_000);
        self.worker.tick(self.now);
        let CacheCounts { head, megaflow, tables, .. } = self.switch.cache_counts("br0").unwrap();
        (head, megaflow, tables)
    }
}

fn send(worker: &mut dyn Pipeline, from: u16, frames: &[Vec<u8>], now: Now) -> Outcome {
    run(worker, &Context::received(PortId(from), now), frames)
}

fn run(worker: &mut dyn Pipeline, context: &Context, frames: &[Vec<u8>]) -> Outcome {
    let (mut burst, mut verdicts, mut punts) = (Burst::new(), Verdicts::new(16), Controllers::default());
    burst.begin(0);
    for frame in frames {
        assert!(burst.push_own(frame));
    }
    Passes::default().run(worker, &mut burst, context, &mut verdicts, &mut punts);
    let mut outcome = Outcome::default();
    for batch in verdicts.batches() {
        for (place, &i) in batch.indices().as_slice().iter().enumerate() {
            let mut made = Burst::new();
            made.begin_from(&burst);
            made.push_edited(&burst, i.into(), verdicts.edits(), batch.edit(place)).unwrap();
            outcome.sent.entry(batch.port().0).or_default().push(made.head(0).to_vec());
        }
    }
    for reason in DropReason::ALL {
        let n = verdicts.dropped().map_or(0, |dropped| dropped.drops[reason as usize]);
        (n > 0).then(|| outcome.drops.insert(reason.name(), n));
    }
    let note = |punted: &Punted| punted.note.clone()?.downcast::<ControllerOperation>().ok();
    let cookie = |punted: &Punted| note(punted).map_or(0, |note| note.cookie);
    let in_port = |punted: &Punted| note(punted)?.pipeline.exact(Field::InPort);
    outcome.in_ports = punts.0.iter().filter_map(in_port).collect();
    outcome.punted = punts.0.iter().map(|punted| (punted.frame.to_vec(), cookie(punted))).collect();
    let sent: usize = outcome.sent.values().map(Vec::len).sum();
    let dropped = verdicts.dropped().map_or(0, |dropped| dropped.lost);
    let out = sent as u64 + dropped + verdicts.punted();
    assert_eq!(frames.len() as u64 + verdicts.replicated(), out, "the sums agree");
    outcome
}

#[test]
fn a_flow_is_found_in_the_tables_once_and_in_the_head_cache_then() {
    let mut lab = Lab::new(&[flow(1, &by_port(1).with(Field::EthType, 0x800), vec![output(2)])]);
    let frames: Vec<_> = (0..10).map(|n| udp(1, 2, (n, 53), 64)).collect();
    assert_eq!(lab.send(0, &frames).sent[&1], frames);
    assert_eq!(lab.counts(), (0, 9, 1), "one megaflow for all, and a head for each");
    assert_eq!(lab.send(0, &frames).sent[&1], frames);
    assert_eq!(lab.counts(), (10, 9, 1));
    let outcome = lab.send(1, &frames);
    assert_eq!(outcome.drops["no-flow"], 10);
}

/// Tuple space explosion (Csikor et al., `CoNEXT` 2019): each field of an allowed packet is excluded by as many prefixes as
/// it has bits, so that packets that differ from it in chosen bits need a mask for each combination.
#[test]
fn a_sender_of_many_masks_costs_a_bounded_number_of_probes() {
    let udp_to = |field: Field, value: u128| ip().with(Field::IpProto, 17).with(field, value);
    let mut lab = Lab::new(&[
        flow(9, &udp_to(Field::UdpDst, 0x50), vec![output(2)]),
        flow(8, &ip().with(Field::Ipv4Src, 0x0a00_0001), vec![output(3)]),
        flow(7, &udp_to(Field::UdpSrc, 0x3039), vec![output(4)]),
    ]);
    let mut packets = 0;
    for (source, destination) in (0..16).flat_map(|s| (0..16).map(move |d| (s, d))) {
        let frames =
            (0..8).map(|bit| udp(1 ^ 1 << bit, 2, (0x3039 ^ 1 << source, 0x50 ^ 1 << destination), 64));
        let frames: Vec<_> = frames.collect();
        packets += frames.len() as u64;
        assert_eq!(lab.send(0, &frames).drops["no-flow"], 8);
    }
    lab.counts();
    let hostile = lab.switch.cache_counts("br0").unwrap();
    assert!(hostile.evicted_masks > 0, "{hostile:?}");
    assert!(hostile.probes <= 32 * packets && hostile.tables > packets / 2, "{hostile:?}");
    // A usual packet is found in the head cache from its second time on, without a probe.
    for _ in 0..10 {
        assert_eq!(lab.ports(0, &udp(1, 2, (1, 80), 64)), [1]);
    }
    lab.counts();
    let usual = lab.switch.cache_counts("br0").unwrap();
    assert_eq!((usual.head - hostile.head, usual.tables - hostile.tables), (9, 1));
    assert!(usual.probes - hostile.probes <= 32);
}

#[test]
fn packets_are_not_looked_at_as_long_as_results_depend_on_the_ingress_port_only() {
    let mut lab = Lab::new(&[flow(1, &by_port(1), vec![output(2)])]);
    let frames: Vec<_> = (0..10).map(|n| udp(1, 2, (n, 53), 64)).chain([vec![0; 14]]).collect();
    lab.send(0, &frames[..1]);
    assert_eq!(lab.send(0, &frames).sent[&1], frames);
    assert_eq!(lab.counts(), (11, 0, 1));
    assert_eq!(lab.send(1, &frames).drops["no-flow"], 11, "another port");
    lab.change(&[flow(2, &ip(), vec![output(3)])]);
    let outcome = lab.send(0, &frames);
    assert_eq!((&outcome.sent[&2][..], &outcome.sent[&1][..]), (&frames[..10], &frames[10..]));
    lab.switch.remove_port(PortId(1));
    assert!(lab.ports(0, &frames[10]).is_empty());
}

#[test]
fn dropped_packets_are_counted_by_table_when_their_megaflow_is_credited() {
    let goto = Instructions { goto: Some(TableId(4)), ..Instructions::default() };
    let drop = in_table(4, 1, &ip(), Instructions::default());
    let mut lab = Lab::new(&[in_table(0, 1, &by_port(1), goto), drop]);
    let frames = vec![udp(1, 2, (1, 53), 64); 3];
    assert_eq!(lab.send(0, &frames).drops["flow-drop"], 3);
    assert_eq!(lab.send(1, &frames).drops["no-flow"], 3);
    for _ in 0..1024 {
        lab.now = Now(lab.now.0 + 1_000_000);
        lab.worker.tick(lab.now);
    }
    let expected = [
        TableDrops { table: TableId(0), no_flow: 3, flow_drop: 0 },
        TableDrops { table: TableId(4), no_flow: 0, flow_drop: 3 },
    ];
    assert_eq!(lab.switch.table_drops("br0").unwrap(), expected);
    let packet = TracedPacket::from_frame(&frames[0], frames[0].len(), PortNo(1));
    let trace = lab.switch.trace("br0", &packet).unwrap();
    assert_eq!(trace.passes[0].verdict, Verdict::Dropped(DropCause::NoOutput));
    assert_eq!(lab.switch.trace("x", &packet).unwrap_err(), UnknownBridge("x".to_owned()));
}

#[test]
fn a_time_to_live_is_part_of_the_head_once_a_flow_reads_it() {
    let mut lab = Lab::new(&[
        flow(2, &ip().with(Field::IpTtl, 1), vec![output(3)]),
        flow(1, &Match::any(), vec![output(2)]),
    ]);
    for _ in 0..3 {
        assert_eq!(lab.ports(0, &udp(1, 2, (1, 2), 64)), [1]);
        assert_eq!(lab.ports(0, &udp(1, 2, (1, 2), 1)), [2]);
    }
    assert!(lab.counts().0 > 0, "{:?}", lab.counts());
}

#[test]
fn fields_are_set_with_checksums() {
    let changes = vec![set(Field::Ipv4Dst, 0x0a00_0009), set(Field::UdpDst, 99), output(2)];
    let matching = ip().with(Field::IpProto, 17);
    let mut lab = Lab::new(&[flow(1, &matching, changes)]);
    let mut expected = udp(1, 2, (5, 99), 64);
    expected[33] = 9;
    expected[24..26].copy_from_slice(&[0, 0]);
    let header = wire::checksum::Sum::of(&expected[14..34]).finish();
    expected[24..26].copy_from_slice(&header);
    for _ in 0..2 {
        assert_eq!(lab.send(0, &[udp(1, 2, (5, 6), 64)]).sent[&1], [expected.clone()]);
    }
}

#[test]
fn a_change_applies_from_the_next_burst_on_and_keeps_other_results() {
    let host = |last: u128| ip().with(Field::Ipv4Dst, 0x0a00_0000 + last);
    let mut lab = Lab::new(&[flow(1, &host(2), vec![output(2)]), flow(1, &host(3), vec![output(3)])]);
    assert_eq!(
        (lab.ports(0, &udp(1, 2, (1, 1), 9)), lab.ports(0, &udp(1, 3, (1, 1), 9))),
        (vec![1], vec![2])
    );
    assert_eq!(lab.counts(), (0, 0, 2));
    lab.change(&[flow(1, &host(2), vec![output(4)])]);
    assert_eq!(
        (lab.ports(0, &udp(1, 2, (1, 1), 9)), lab.ports(0, &udp(1, 3, (1, 1), 9))),
        (vec![3], vec![2])
    );
    assert_eq!(lab.counts(), (1, 0, 3), "only the changed flow is translated again");
    // A flow of higher priority overlaps both.
    lab.change(&[flow(2, &ip(), vec![])]);
    assert_eq!(lab.send(0, &[udp(1, 2, (1, 1), 9), udp(1, 3, (1, 1), 9)]).drops["flow-drop"], 2);
}

#[test]
fn a_later_table_sees_changed_fields_and_metadata() {
    let first = Instructions {
        apply: vec![set(Field::EthDst, 0x0200_0000_0009)],
        metadata: Some((7, 0xff)),
        goto: Some(TableId(1)),
        ..Instructions::default()
    };
    let second = Match::any().with(Field::EthDst, 0x0200_0000_0009).with_masked(Field::Metadata, 7, 0xff);
    let mut lab = Lab::new(&[
        in_table(0, 1, &Match::any(), first),
        in_table(1, 1, &second, Instructions { write: vec![output(3)], ..Instructions::default() }),
    ]);
    let outcome = lab.send(0, &[udp(1, 2, (1, 1), 9)]);
    assert_eq!(outcome.sent[&2][0][..6], [2, 0, 0, 0, 0, 9]);
    lab.change(&[in_table(1, 2, &Match::any(), Instructions::default())]);
    assert_eq!(lab.send(0, &[udp(1, 2, (1, 1), 9)]).drops["flow-drop"], 1);
}

#[test]
fn controllers_get_the_packet_as_it_is_at_the_action() {
    let actions = vec![to_controller(), set(Field::EthDst, 5), to_controller(), output(2)];
    let mut lab = Lab::new(&[flow(8, &Match::any(), actions)]);
    let frame = udp(1, 2, (1, 1), 9);
    let outcome = lab.send(0, std::slice::from_ref(&frame));
    let changed = [&[0, 0, 0, 0, 0, 5], &frame[6..]].concat();
    assert_eq!(outcome.punted, [(frame, 8), (changed.clone(), 8)]);
    assert_eq!(outcome.sent[&1], [changed]);
}

#[test]
fn an_expired_time_to_live_goes_to_controllers() {
    let mut lab = Lab::new(&[flow(1, &ip(), vec![Action::DecNwTtl(Box::new([0])), output(2)])]);
    let outcome = lab.send(0, &[udp(1, 2, (1, 1), 1), udp(1, 2, (1, 1), 2)]);
    assert_eq!((outcome.punted.len(), outcome.sent[&1][0][22]), (1, 1));
}

#[test]
fn normal_packets_and_other_ports_go_to_the_bridge() {
    let normal = Action::Output { port: PortNo::NORMAL, max_len: 0 };
    let mut lab = Lab::new(&[flow(1, &Match::any(), vec![set(Field::EthDst, 5), normal])]);
    let outcome = lab.send(0, &[udp(1, 2, (1, 1), 1)]);
    assert_eq!(outcome.sent[&9][0][..6], [0, 0, 0, 0, 0, 5]);
    assert_eq!(lab.ports(7, &udp(1, 2, (1, 1), 1)), [9], "the port is on no OpenFlow bridge");
}

#[test]
fn flooded_packets_leave_by_the_other_ports() {
    let flood = Action::Output { port: PortNo::FLOOD, max_len: 0 };
    let mut lab = Lab::new(&[flow(1, &Match::any(), vec![flood])]);
    lab.switch.set_flooded(PortId(3), false);
    assert_eq!(lab.ports(0, &udp(1, 2, (1, 1), 1)), [1, 2]);
}

#[test]
fn flows_are_credited_by_the_sweep() {
    let mut lab = Lab::new(&[flow(1, &by_port(1), vec![output(2)])]);
    let frame = udp(1, 2, (1, 1), 9);
    lab.send(0, &[frame.clone(), frame.clone(), frame]);
    lab.worker.tick(Now(lab.now.0 + 20_000_000)).expect("another sweep");
    let tables = lab.switch.tables("br0").unwrap();
    assert_eq!(tables.flows(TableId(0)).next().unwrap().entry().counts(), (3, 180));
}

#[test]
fn packets_above_the_rate_of_a_meter_are_dropped() {
    let flags = MeterFlags { packets: true, burst: true, stats: false };
    let bands = vec![Band { rate: 10, burst: 3, remark: None }];
    let meter = MeterMod { command: MeterCommand::Add, flags, id: 1, bands };
    let instructions = Instructions { meter: Some(1), apply: vec![output(2)], ..Instructions::default() };
    let mut lab = Lab::new(&[Modification::Meter(meter), in_table(0, 1, &Match::any(), instructions)]);
    let outcome = lab.send(0, &vec![udp(1, 2, (1, 1), 9); 10]);
    assert_eq!((outcome.sent[&1].len(), outcome.drops["metered"]), (3, 7));
}

#[test]
fn a_stripped_label_reveals_fields_for_the_rest_of_the_pipeline() {
    let first = Instructions {
        apply: vec![Action::PopMpls(0x0800)],
        goto: Some(TableId(1)),
        ..Instructions::default()
    };
    let mut lab = Lab::new(&[
        in_table(0, 1, &Match::any().with(Field::EthType, 0x8847), first),
        in_table(
            1,
            1,
            &ip().with(Field::Ipv4Dst, 0x0a00_0002),
            Instructions { apply: vec![output(3)], ..Instructions::default() },
        ),
    ]);
    let frame = udp(1, 2, (1, 1), 9);
    let labelled = [&frame[..12], &[0x88, 0x47, 0, 1, 1, 64], &frame[14..]].concat();
    for _ in 0..3 {
        assert_eq!(lab.send(0, std::slice::from_ref(&labelled)).sent[&2], std::slice::from_ref(&frame));
    }
}

#[test]
fn a_refused_change_changes_nothing() {
    let lab = Lab::new(&[]);
    let bad =
        in_table(3, 1, &Match::any(), Instructions { goto: Some(TableId(1)), ..Instructions::default() });
    let changes = [flow(1, &Match::any(), vec![]), bad];
    assert!(matches!(lab.switch.modify("br0", &changes, lab.now), Err(ChangeError::Invalid(1, _))));
    assert!(lab.switch.tables("br0").unwrap().is_empty(TableId(0)));
    assert!(matches!(lab.switch.modify("br1", &[], lab.now), Err(ChangeError::Bridge(_))));
}

fn matching() -> impl Strategy<Value = Match> {
    (any::<[bool; 7]>(), 1..4_u128, 1..4_u128, 1..4_u128, 0..3_u128).prop_map(|(has, a, b, c, ttl)| {
        let fields = [
            (Field::InPort, a % 2 + 1),
            (Field::EthSrc, 0x0200_0000_0000 + b),
            (Field::Ipv4Dst, 0x0a00_0000 + c),
            (Field::IpTtl, ttl),
            (Field::UdpDst, b),
            (Field::UdpSrc, c),
        ];
        let is_ip = has[0] || has[3] || has[4] || has[5] || has[6];
        let base = if is_ip { ip() } else { Match::any() };
        let base = if has[5] || has[6] { base.with(Field::IpProto, 17) } else { base };
        fields.iter().zip(&has[1..]).filter(|(_, has)| **has).fold(base, |all, ((field, value), _)| {
            if *field == Field::Ipv4Dst && a == 1 {
                all.with_masked(*field, *value & !3, 0xffff_fffc)
            } else {
                all.with(*field, *value)
            }
        })
    })
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let one = prop_oneof![
        (1..5_u32).prop_map(output),
        (1..4_u128).prop_map(|n| set(Field::EthDst, n)),
        Just(Action::DecNwTtl(Box::new([0]))),
        Just(Action::PushVlan(0x8100)),
        Just(to_controller()),
    ];
    prop::collection::vec(one, 0..4)
}

fn change() -> impl Strategy<Value = Modification> {
    (0..4_u16, matching(), actions(), any::<bool>(), any::<bool>()).prop_map(
        |(priority, matching, mut apply, deletes, goes_on)| {
            if !matches!(matching.exact(Field::EthType), Some(0x0800)) {
                apply.retain(|action| !matches!(action, Action::DecNwTtl(_)));
            }
            let goto = goes_on.then_some(TableId(1));
            let instructions = Instructions { apply, goto, ..Instructions::default() };
            match in_table(u8::from(priority % 2 == 1 && !goes_on), priority, &matching, instructions) {
                Modification::Flow(change) if deletes => {
                    Modification::Flow(Box::new(FlowMod { command: FlowCommand::Delete, ..*change }))
                }
                other => other,
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// A worker with caches does the same as one that has never seen a packet, whatever changes in between.
    #[test]
    fn caches_agree_with_tables(steps in prop::collection::vec((prop::collection::vec(change(), 0..3), prop::collection::vec((0..2_u16, 1..4_u8, 1..4_u8, 1..4_u16, 1..4_u16, 0..3_u8), 1..12)), 1..12)) {
        let mut lab = Lab::new(&[]);
        for (changes, packets) in steps {
            for change in changes {
                // Some are refused, such as a second `goto`.
                let _ = lab.switch.modify("br0", &[change], lab.now);
            }
            for (from, source, destination, sport, dport, ttl) in packets {
                let frame = udp(source, destination, (sport, dport), ttl);
                let mut fresh = lab.switch.worker(1);
                let expected = send(fresh.as_mut(), from, std::slice::from_ref(&frame), lab.now);
                prop_assert_eq!(lab.send(from, &[frame]), expected);
            }
        }
    }
}

#[test]
fn reasons_of_punts_are_those_of_the_actions() {
    let switch = FlowSwitch::new(Arc::new(Normal));
    assert!(switch.take_punted().is_empty());
    let mut observer = switch.observer().unwrap();
    switch.add_bridge("br0").unwrap();
    switch.add_port(PortId(0), "br0", None).unwrap();
    let context = Context::received(PortId(0), Now(0));
    observer.punted(Punted { context, reason: PuntReason::Action, note: None, frame: Box::default() });
    assert_eq!(switch.take_punted().len(), 1);
}

/// A frame with valid lengths.
fn frame(is_v6: bool, is_tagged: bool, protocol: u8, payload: usize) -> Vec<u8> {
    let mut frame = vec![2; 12];
    if is_tagged {
        frame.extend([0x81, 0, 0x20, 5]);
    }
    if is_v6 {
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, payload as u8, protocol, 64]);
        frame.extend([7; 32]);
    } else {
        frame.extend([8, 0, 0x45, 0, 0, payload as u8 + 20, 0, 1, 0x40, 0, 64, protocol, 0, 0]);
        frame.extend([7; 8]);
    }
    frame.extend(vec![0x55; payload]);
    frame
}

fn key_of(frame: &[u8]) -> crate::Key {
    let mut key = crate::Key::ZERO;
    crate::packet::parse(&frame[..frame.len().min(port::HEAD)], frame.len(), &mut key);
    // The head caches compare the first only if a flow reads it, and have no results that depend on the second.
    key.set(Field::IpTtl, 0);
    key.set(Field::TcpFlags, 0);
    key
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// Frames that the head caches take for equal have the same key.
    #[test]
    fn equal_heads_have_equal_keys(
        (is_v6, is_tagged) in any::<(bool, bool)>(),
        protocol in prop_oneof![Just(1_u8), Just(6), Just(17), Just(58), Just(132), any::<u8>()],
        payload in 0..90_usize,
        changes in prop::collection::vec((0..150_usize, any::<u8>()), 0..4),
    ) {
        use crate::cache::{Shape, V6_WORDS, masked};
        let one = frame(is_v6, is_tagged, protocol, payload);
        let mut other = one.clone();
        for (at, byte) in changes {
            let len = other.len();
            other[at % len] = byte;
        }
        let head = |frame: &[u8]| {
            let head = &frame[..frame.len().min(port::HEAD)];
            let shape = Shape::of(head, frame.len())?;
            Some((shape, masked::<V6_WORDS>(head, &shape.mask(false))))
        };
        if let (Some(first), Some(second)) = (head(&one), head(&other))
            && first == second
        {
            prop_assert_eq!(key_of(&one), key_of(&other));
        }
    }
}

#[test]
fn a_second_lookup_of_the_first_table_makes_a_result_depend_on_changed_fields() {
    let again = Action::Resubmit(crate::Resubmit { in_port: None, table: Some(TableId(0)), ct: false });
    let changed = Match::any().with(Field::EthDst, 5);
    let mut lab = Lab::new(&[flow(1, &by_port(1), vec![set(Field::EthDst, 5), again])]);
    assert_eq!(lab.send(0, &[udp(1, 2, (1, 1), 9)]).drops.len(), 1);
    lab.change(&[flow(9, &changed, vec![output(3)])]);
    assert_eq!(lab.ports(0, &udp(1, 2, (1, 1), 9)), [2]);
}

#[test]
fn results_follow_changes_of_ports() {
    let mut lab = Lab::new(&[flow(1, &by_port(1), vec![output(2)])]);
    assert_eq!(lab.ports(0, &udp(1, 2, (1, 1), 9)), [1]);
    lab.switch.remove_port(PortId(1));
    assert_eq!(lab.send(0, &[udp(1, 2, (1, 1), 9)]).drops["no-destination"], 1);
    lab.switch.add_port(PortId(5), "br0", Some(PortNo(2))).unwrap();
    assert_eq!(lab.ports(0, &udp(1, 2, (1, 1), 9)), [5]);
}

#[test]
fn a_standalone_bridge_ignores_its_tables_and_keeps_them() {
    let mut lab = Lab::new(&[flow(1, &by_port(1), vec![output(2)])]);
    let frame = udp(1, 2, (1, 1), 9);
    assert_eq!(lab.ports(0, &frame), [1]);
    lab.switch.set_standalone("br0", true).unwrap();
    assert_eq!(lab.ports(0, &frame), [9]);
    lab.switch.set_standalone("br0", false).unwrap();
    assert_eq!(lab.ports(0, &frame), [1]);
    assert!(lab.switch.set_standalone("br1", true).is_err());
}

/// [`udp`] as TCP, with these control bits.
fn tcp(flags: u8) -> Vec<u8> {
    let mut frame = udp(1, 2, (1, 80), 64);
    (frame[23], frame[46], frame[47]) = (6, 0x50, flags);
    frame
}

#[test]
fn packets_of_one_burst_and_head_have_the_results_of_their_other_bytes() {
    let syn = ip().with(Field::IpProto, 6).with_masked(Field::TcpFlags, 2, 2);
    let low = ip().with(Field::IpTtl, 0);
    let mut lab = Lab::new(&[
        flow(3, &syn, vec![output(2)]),
        flow(2, &low, vec![output(4)]),
        flow(1, &Match::any(), vec![output(3)]),
    ]);
    for _ in 0..2 {
        let outcome = lab.send(0, &[tcp(2), tcp(16), tcp(16), tcp(2)]);
        assert_eq!([&outcome.sent[&1], &outcome.sent[&2]].map(Vec::len), [2, 2]);
    }
    let mut lab = Lab::new(&[flow(2, &low, vec![output(4)]), flow(1, &Match::any(), vec![output(3)])]);
    let packet = |ttl| udp(1, 2, (1, 2), ttl);
    for _ in 0..2 {
        let outcome = lab.send(0, &[packet(64), packet(0), packet(64)]);
        assert_eq!([&outcome.sent[&2], &outcome.sent[&3]].map(Vec::len), [2, 1]);
    }
}
