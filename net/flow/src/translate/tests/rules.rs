//! Single rules of the specification, and how narrow masks are.

use super::execute::Ports;
use super::random::add;
use crate::action::{
    Action, Bucket, ConnectionTracking, Instructions, Learn, LearnSpec, LearnValue, Resubmit, Subfield,
};
use crate::field::Field;
use crate::key::Key;
use crate::matching::Match;
use crate::modify::{GroupCommand, GroupKind, GroupMod, PortNo, TableId};
use crate::tables::Tables;
use crate::translate::{
    Operation, TranslateError, Translation, limits, reason, resume, translate, translate_actions,
};
use port::Now;

const IN_PORT: PortNo = PortNo(1);

fn output(port: PortNo) -> Action {
    Action::Output { port, max_len: 100 }
}

fn set(field: Field, value: u128) -> Action {
    Action::SetField { field, value, mask: field.full() }
}

fn resubmit(table: u8) -> Action {
    Action::Resubmit(Resubmit { in_port: None, table: Some(TableId(table)), ct: false })
}

fn apply(actions: Vec<Action>) -> Instructions {
    Instructions { apply: actions, ..Instructions::default() }
}

fn tcp() -> Match {
    Match::any().with(Field::EthType, 0x800).with(Field::IpProto, 6)
}

fn packet() -> Key {
    let mut key = *tcp().key();
    for (field, value) in
        [(Field::EthDst, 2), (Field::Ipv4Src, 1), (Field::Ipv4Dst, 2), (Field::TcpDst, 80), (Field::IpTtl, 9)]
    {
        key.set(field, value);
    }
    key
}

fn tables(flows: Vec<(u8, u16, Match, Instructions)>) -> Tables {
    let mut tables = Tables::new(1);
    for (table, priority, matching, instructions) in flows {
        tables.apply(&add(TableId(table), priority, matching, instructions), Now(0)).unwrap();
    }
    tables
}

/// The translation of a TCP packet by one flow with these actions.
fn actions(actions: Vec<Action>) -> Translation {
    translate(&tables(vec![(0, 1, tcp(), apply(actions))]), &packet(), IN_PORT, &Ports)
}

fn outputs(ports: &[u32]) -> Vec<Operation> {
    ports.iter().map(|port| Operation::Output(PortNo(*port))).collect()
}

#[test]
fn packets_return_by_in_port_only() {
    let found = actions(vec![output(IN_PORT), output(PortNo(2)), output(PortNo::IN_PORT)]);
    assert_eq!(found.operations, outputs(&[2, 1]));
    assert_eq!(found.mask.get(Field::InPort), Field::InPort.full());
}

#[test]
fn reserved_ports_are_operations() {
    let ports = [PortNo::ALL, PortNo::FLOOD, PortNo::NORMAL, PortNo::LOCAL];
    let found = actions(ports.map(output).to_vec());
    let expected = [
        Operation::All { except: IN_PORT },
        Operation::Flood { except: IN_PORT },
        Operation::Normal { in_port: IN_PORT },
        Operation::Output(PortNo::LOCAL),
    ];
    assert_eq!(found.operations, expected);
}

#[test]
fn controllers_get_reason_table_cookie_and_metadata() {
    let miss = Instructions { apply: vec![output(PortNo::CONTROLLER)], ..Instructions::default() };
    let first = Instructions { metadata: Some((5, 0xff)), goto: Some(TableId(7)), ..Instructions::default() };
    let tables = tables(vec![(0, 1, tcp(), first), (7, 0, Match::any(), miss)]);
    let found = translate(&tables, &packet(), IN_PORT, &Ports);
    let [Operation::Controller(sent)] = &found.operations[..] else { panic!("{found:?}") };
    assert_eq!((sent.reason, sent.table, sent.cookie, sent.max_len), (reason::NO_MATCH, TableId(7), 7, 100));
    let metadata = (sent.pipeline.key().get(Field::Metadata), sent.pipeline.mask().get(Field::Metadata));
    assert_eq!(metadata, (5, 0xff));
    assert!(found.visited(TableId(0)) && found.visited(TableId(7)) && !found.visited(TableId(1)));
    assert_eq!(found.flows.len(), 2);
}

#[test]
fn a_miss_drops_what_was_written_but_not_what_was_applied() {
    let first = Instructions {
        apply: vec![output(PortNo(2))],
        write: vec![output(PortNo(3))],
        goto: Some(TableId(1)),
        ..Instructions::default()
    };
    let found = translate(&tables(vec![(0, 1, tcp(), first)]), &packet(), IN_PORT, &Ports);
    assert_eq!(found.operations, outputs(&[2]));
}

#[test]
fn sets_do_not_widen_the_mask_and_are_omitted_if_they_change_nothing() {
    let found = actions(vec![set(Field::EthDst, 2), set(Field::IpTtl, 9), output(PortNo(2))]);
    assert_eq!((found.mask.get(Field::EthDst), found.mask.get(Field::IpTtl)), (0, 0));
    assert_eq!(found.operations.len(), 3);
    // Two flows on the address: now the packets agree in it, and the first set has no effect.
    let matching = tcp().with(Field::EthDst, 2);
    let list = vec![set(Field::EthDst, 2), output(PortNo(2)), set(Field::EthDst, 3), output(PortNo(3))];
    let found = translate(&tables(vec![(0, 1, matching, apply(list))]), &packet(), IN_PORT, &Ports);
    let changed = Operation::Set { field: Field::EthDst, value: 3, mask: Field::EthDst.full() };
    let expected = [Operation::Output(PortNo(2)), changed, Operation::Output(PortNo(3))];
    assert_eq!(found.operations, expected);
}

#[test]
fn fields_without_an_output_are_not_set() {
    let found = actions(vec![output(PortNo(2)), set(Field::IpTtl, 1), set(Field::Reg0, 1)]);
    assert_eq!(found.operations, outputs(&[2]));
}

#[test]
fn a_time_to_live_is_decremented_for_all_values_at_once() {
    let found = actions(vec![Action::DecNwTtl([0].into()), output(PortNo(2))]);
    assert_eq!(found.operations[0], Operation::DecNwTtl([0].into()));
    assert_eq!(found.mask.get(Field::IpTtl), 0);
}

#[test]
fn moves_widen_the_mask_by_what_they_read() {
    let from = Subfield { field: Field::Ipv4Src, offset: 0, bits: 8 };
    let to = Subfield { field: Field::Ipv4Dst, offset: 8, bits: 8 };
    let found = actions(vec![Action::Move { from, to }, output(PortNo(2))]);
    assert_eq!((found.mask.get(Field::Ipv4Src), found.mask.get(Field::Ipv4Dst)), (0xff, 0));
    let moved = Operation::Set { field: Field::Ipv4Dst, value: 0x100, mask: 0xff00 };
    assert_eq!(found.operations[0], moved);
}

#[test]
fn registers_connect_tables_without_widening_the_mask() {
    let first = vec![set(Field::Reg0, 7), resubmit(1)];
    let second = Match::any().with(Field::Reg0, 7);
    let flows = vec![(0, 1, tcp(), apply(first)), (1, 1, second, apply(vec![output(PortNo(2))]))];
    let found = translate(&tables(flows), &packet(), IN_PORT, &Ports);
    assert_eq!((found.operations, found.mask.get(Field::Reg0)), (outputs(&[2]), 0));
}

#[test]
fn clones_and_buckets_do_not_affect_later_actions() {
    let list = [set(Field::EthDst, 9), output(PortNo(2))];
    let found = actions(vec![Action::Clone(list.into()), output(PortNo(3))]);
    let [Operation::Clone(inner), Operation::Output(PortNo(3))] = &found.operations[..] else {
        panic!("{found:?}")
    };
    assert_eq!(inner.len(), 2);
    let plain = actions(vec![Action::Clone([output(PortNo(2))].into()), output(PortNo(3))]);
    assert_eq!(plain.operations, outputs(&[2, 3]));
}

#[test]
fn exit_ends_all_lists_but_not_the_action_set() {
    let first = Instructions {
        apply: vec![resubmit(1), output(PortNo(2))],
        write: vec![output(PortNo(3))],
        ..Instructions::default()
    };
    let second = Instructions {
        apply: vec![output(PortNo(4)), Action::Exit],
        write: vec![output(PortNo(5))],
        ..Instructions::default()
    };
    let found = translate(
        &tables(vec![(0, 1, tcp(), first), (1, 0, Match::any(), second)]),
        &packet(),
        IN_PORT,
        &Ports,
    );
    assert_eq!(found.operations, outputs(&[4]));
}

#[test]
fn endless_resubmits_drop_the_packet() {
    let found = actions(vec![output(PortNo(2)), resubmit(0)]);
    assert_eq!((found.error, found.operations.len()), (Some(TranslateError::TooDeep), 0));
    // Each level looks up the next one twice.
    let flows = (0..40).map(|table| (table, 0, Match::any(), apply(vec![resubmit(table + 1); 2]))).collect();
    let found = translate(&tables(flows), &packet(), IN_PORT, &Ports);
    assert_eq!(found.error, Some(TranslateError::TooManyLookups));
    let found = actions(vec![output(PortNo(2)); limits::OPERATIONS + 1]);
    assert_eq!(found.error, Some(TranslateError::TooManyOperations));
}

#[test]
fn a_removed_label_recirculates_only_if_the_fields_below_are_needed() {
    let mpls = Match::any().with(Field::EthType, 0x8847);
    let mut key = *mpls.key();
    key.set(Field::MplsBos, 1);
    let pop = Action::PopMpls(0x800);
    let flows = vec![(0, 1, mpls, apply(vec![pop.clone(), output(PortNo(2))]))];
    let found = translate(&tables(flows), &key, IN_PORT, &Ports);
    assert_eq!(found.operations, [Operation::PopMpls(0x800), Operation::Output(PortNo(2))]);
    let flows = vec![
        (0, 1, mpls, apply(vec![pop, set(Field::Reg0, 4), resubmit(1), output(PortNo(3))])),
        (1, 1, tcp().with(Field::Reg0, 4), apply(vec![output(PortNo(2))])),
    ];
    let tables = tables(flows);
    let found = translate(&tables, &key, IN_PORT, &Ports);
    let [Operation::PopMpls(0x800), Operation::Recirculate(rest)] = &found.operations[..] else {
        panic!("{found:?}")
    };
    let mut key = packet();
    key.set(Field::InPort, 1);
    let found = resume(&tables, &key, rest, &Ports);
    assert_eq!((found.operations, found.mask.get(Field::Reg0)), (outputs(&[2, 3]), 0));
}

#[test]
fn an_action_set_has_the_cookie_of_its_flow_after_a_recirculation() {
    let mpls = Match::any().with(Field::EthType, 0x8847);
    let written = vec![output(PortNo::CONTROLLER)];
    let first = Instructions { write: written, goto: Some(TableId(1)), ..Instructions::default() };
    let flows = vec![
        (0, 1, mpls, first),
        (1, 7, mpls, apply(vec![Action::PopMpls(0x800), resubmit(2), Action::Exit])),
        (2, 1, tcp(), apply(vec![output(PortNo(2))])),
    ];
    let tables = tables(flows);
    let found = translate(&tables, mpls.key(), IN_PORT, &Ports);
    let [Operation::PopMpls(0x800), Operation::Recirculate(rest)] = &found.operations[..] else {
        panic!("{found:?}")
    };
    // Without a flow in the last table.
    let mut key = Key::ZERO;
    key.set(Field::InPort, 1);
    let found = resume(&tables, &key, rest, &Ports);
    let [Operation::Controller(sent)] = &found.operations[..] else { panic!("{found:?}") };
    assert_eq!((sent.table, sent.cookie), (TableId(1), 7 << 8 | 1));
}

#[test]
fn connection_tracking_continues_with_a_copy() {
    let tracking = ConnectionTracking {
        commit: true,
        force: false,
        zone: LearnValue::Field(Subfield::whole(Field::Reg0)),
        table: Some(TableId(1)),
        helper: 0,
        nat: None,
        actions: vec![set(Field::CtMark, 8)],
    };
    let list = vec![set(Field::Reg0, 3), Action::Ct(Box::new(tracking)), output(PortNo(2))];
    let established = Match::any().with_masked(Field::CtState, 2, 2);
    let flows = vec![(0, 1, tcp(), apply(list)), (1, 1, established, apply(vec![output(PortNo(3))]))];
    let tables = tables(flows);
    let found = translate(&tables, &packet(), IN_PORT, &Ports);
    let [Operation::Clone(copy), Operation::Output(PortNo(2))] = &found.operations[..] else {
        panic!("{found:?}")
    };
    let [Operation::Ct(ct), Operation::Recirculate(rest)] = &copy[..] else { panic!("{copy:?}") };
    assert_eq!((ct.zone, ct.commit, ct.mark), (3, true, (8, 0xffff_ffff)));
    assert!(found.mask.get(Field::CtState) == 0 && !found.visited(TableId(1)));
    let mut key = packet();
    key.set(Field::InPort, 1);
    key.set(Field::CtState, 2);
    assert_eq!(resume(&tables, &key, rest, &Ports).operations, outputs(&[3]));
}

#[test]
fn learned_flows_are_made_from_the_packet() {
    let whole = Subfield::whole;
    let learn = Learn {
        table: TableId(1),
        priority: 5,
        cookie: 6,
        idle_timeout: 7,
        hard_timeout: 8,
        fin_idle_timeout: 0,
        fin_hard_timeout: 0,
        flags: 1,
        limit: 0,
        result: None,
        specs: vec![
            LearnSpec::Match(LearnValue::Field(whole(Field::EthSrc)), whole(Field::EthDst)),
            LearnSpec::Load(LearnValue::Constant(9, 32), whole(Field::Reg1)),
            LearnSpec::Output(whole(Field::InPort)),
        ],
    };
    let mut key = packet();
    key.set(Field::EthSrc, 0x33);
    let flows = tables(vec![(0, 1, tcp(), apply(vec![Action::Learn(Box::new(learn))]))]);
    let found = translate(&flows, &key, IN_PORT, &Ports);
    let learned = &found.learned[0].flow;
    assert_eq!(learned.matching, Match::any().with(Field::EthDst, 0x33));
    let expected = [set(Field::Reg1, 9), Action::Output { port: IN_PORT, max_len: 0 }];
    assert_eq!(learned.instructions.apply, expected);
    assert_eq!((learned.idle_timeout, learned.hard_timeout, learned.flags.send_removed), (7, 8, true));
    assert_eq!(found.mask.get(Field::EthSrc), Field::EthSrc.full());
}

#[test]
fn packet_outs_enter_the_tables() {
    let tables = tables(vec![(0, 1, tcp(), apply(vec![output(PortNo(2))]))]);
    let list = [output(PortNo(3)), output(PortNo::TABLE)];
    let found = translate_actions(&tables, &packet(), PortNo::CONTROLLER, &list, &Ports);
    assert_eq!(found.operations, outputs(&[3, 2]));
}

#[test]
fn select_groups_do_not_narrow_the_mask_and_keep_both_directions_together() {
    let mut tables = tables(Vec::new());
    let bucket = |id, port| Bucket {
        id,
        weight: 1,
        watch_port: None,
        watch_group: None,
        actions: vec![output(PortNo(port))],
    };
    let buckets = vec![bucket(0, 2), bucket(1, 3)];
    let group = GroupMod { command: GroupCommand::Add, kind: GroupKind::Select, id: 1, buckets };
    tables.apply_group(&group).unwrap();
    let flow = add(TableId(0), 1, tcp(), apply(vec![Action::Group(1)]));
    tables.apply(&flow, Now(0)).unwrap();
    let found = translate(&tables, &packet(), IN_PORT, &Ports);
    assert_eq!((found.mask.get(Field::Ipv4Src), found.mask.get(Field::TcpDst)), (0, 0));
    let [Operation::Select(selection)] = &found.operations[..] else { panic!("{found:?}") };
    let mut seen = std::collections::HashSet::new();
    for source in 0..64 {
        let mut key = packet();
        key.set(Field::Ipv4Src, source);
        key.set(Field::TcpSrc, 1000 + source);
        let there = selection.operations(&key).to_vec();
        for (a, b) in [(Field::Ipv4Src, Field::Ipv4Dst), (Field::TcpSrc, Field::TcpDst)] {
            let (x, y) = (key.get(a), key.get(b));
            key.set(a, y);
            key.set(b, x);
        }
        assert_eq!(selection.operations(&key), there);
        seen.insert(format!("{there:?}"));
    }
    assert_eq!(seen.len(), 2);
}

#[test]
fn ports_in_fields_may_be_reserved_ones_of_16_bits() {
    let whole = Subfield::whole(Field::Reg0);
    for (number, expected) in [
        (7, outputs(&[7])),
        (0xfffe, vec![Operation::Output(PortNo::LOCAL)]),
        (0xffff, Vec::new()),
        (0xffff_fffe, vec![Operation::Output(PortNo::LOCAL)]),
    ] {
        let list = vec![set(Field::Reg0, number), Action::OutputField { from: whole, max_len: 0 }];
        assert_eq!(actions(list).operations, expected);
    }
}
