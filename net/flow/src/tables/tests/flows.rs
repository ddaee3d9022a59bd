//! Additions, modifications, deletions, checks, limits and snapshots.

use super::*;
use crate::key::Key;
use crate::tables::{ActionError, Change, FlowModError, InstructionError, RemovedReason, TableConfig};

#[test]
fn an_added_flow_replaces_the_same_one_with_its_counters() {
    let mut tables = with(&[add(port(1), 5)]);
    only(&tables).entry().count(3, 300, now(1));
    let mut again = FlowMod { cookie: 7, ..add(port(1), 5) };
    let changes = tables.apply(&again, now(2)).unwrap();
    assert_eq!(changes.removed[0].reason, RemovedReason::Replaced);
    assert!(!changes.removed[0].is_reported());
    let entry = only(&tables).entry();
    assert_eq!((entry.counts(), entry.created(), entry.cookie()), ((3, 300), now(2), 7));
    again.flags.reset_counts = true;
    tables.apply(&again, now(3)).unwrap();
    assert_eq!(only(&tables).entry().counts(), (0, 0));
    tables.apply(&add(port(1), 6), now(3)).unwrap();
    assert_eq!(tables.len(TABLE), 2);
}

#[test]
fn overlaps_are_refused_on_request() {
    let mut tables = with(&[add(network(0x0a00_0000, 8), 5)]);
    let mut other = add(network(0x0a01_0000, 16), 5);
    other.flags.check_overlap = true;
    assert_eq!(tables.apply(&other, now(0)).unwrap_err(), FlowModError::Overlap);
    other.matching = port(1);
    assert_eq!(tables.apply(&other, now(0)).unwrap_err(), FlowModError::Overlap);
    other.matching = network(0x0b00_0000, 8);
    tables.apply(&other, now(0)).unwrap();
    other.matching = network(0x0a01_0000, 16);
    other.priority = 6;
    tables.apply(&other, now(0)).unwrap();
    other.flags.check_overlap = false;
    other.priority = 5;
    tables.apply(&other, now(0)).unwrap();
}

#[test]
fn modifications_keep_cookie_counters_and_timeouts() {
    let first = FlowMod { cookie: 9, idle_timeout: 4, ..add(network(0x0a01_0000, 16), 5) };
    let mut tables = with(&[first]);
    only(&tables).entry().count(1, 64, now(1));
    let mut modify = change(FlowCommand::Modify, network(0x0a00_0000, 8), 0);
    modify.instructions = apply(&[output(2)]);
    let changes = tables.apply(&modify, now(2)).unwrap();
    assert_eq!((changes.modified.len(), changes.added.len(), changes.removed.len()), (1, 0, 0));
    let flow = only(&tables);
    assert_eq!(flow.instructions().apply, [output(2)]);
    let entry = flow.entry();
    assert_eq!((entry.cookie(), entry.counts(), entry.created()), (9, (1, 64), now(0)));
    assert_eq!(entry.timeouts(), (4, 0));
    modify.flags.reset_counts = true;
    tables.apply(&modify, now(2)).unwrap();
    assert_eq!(only(&tables).entry().counts(), (0, 0));
}

#[test]
fn strict_modifications_need_the_same_match_and_priority() {
    let mut tables = with(&[add(network(0x0a01_0000, 16), 5)]);
    for (matching, priority, modified) in
        [(network(0x0a00_0000, 8), 5, 0), (network(0x0a01_0000, 16), 6, 0), (network(0x0a01_0000, 16), 5, 1)]
    {
        let modify = change(FlowCommand::ModifyStrict, matching, priority);
        assert_eq!(tables.apply(&modify, now(0)).unwrap().modified.len(), modified);
    }
    assert_eq!(tables.len(TABLE), 1);
}

#[test]
fn deletions_select_by_match_cookie_port_and_group() {
    let mut tables = Tables::new(1);
    super::groups::add_group(&mut tables, 4, &[output(9)]);
    for (i, actions) in [[output(1)], [output(2)], [Action::Group(4)], [output(3)]].iter().enumerate() {
        let instructions = apply(actions);
        let cookie = i as u64;
        let flow = FlowMod { cookie, instructions, ..add(network((i as u128) << 24, 8), i as u16) };
        tables.apply(&flow, now(0)).unwrap();
    }
    let all = change(FlowCommand::Delete, Match::any(), 0);
    let strict = change(FlowCommand::DeleteStrict, Match::any(), 0);
    assert_eq!(tables.apply(&strict, now(0)).unwrap().removed.len(), 0);
    let by_port = FlowMod { out_port: Some(PortNo(2)), ..all.clone() };
    tables.apply(&by_port, now(0)).unwrap();
    assert_eq!(priorities(&tables), [0, 2, 3]);
    let by_group = FlowMod { out_group: Some(4), ..all.clone() };
    tables.apply(&by_group, now(0)).unwrap();
    assert_eq!(priorities(&tables), [0, 3]);
    let by_cookie = FlowMod { cookie: 0, cookie_mask: 1, ..all.clone() };
    let changes = tables.apply(&by_cookie, now(0)).unwrap();
    assert_eq!(priorities(&tables), [3]);
    assert_eq!(changes.removed[0].reason, RemovedReason::Delete);
    assert!(changes.removed[0].is_reported());
    let everywhere = FlowMod { table: TableId::ALL, ..all };
    tables.apply(&everywhere, now(0)).unwrap();
    assert!(tables.is_empty(TABLE));
}

#[test]
fn invalid_instructions_are_refused() {
    let goto = |to| Instructions { goto: Some(TableId(to)), ..Instructions::default() };
    let set = |field, value| apply(&[Action::SetField { field, value, mask: field.full() }]);
    let tcp = network(0x0a00_0000, 8).with(Field::IpProto, 6);
    let inconsistent = ActionError::Inconsistent("tcp_dst", Field::TcpDst.info().requires.describe());
    let cases: Vec<(Match, Instructions, FlowModError)> = vec![
        (tcp, goto(0), InstructionError::Goto { from: TABLE, to: TABLE }.into()),
        (tcp, goto(255), InstructionError::Goto { from: TABLE, to: TableId::ALL }.into()),
        (tcp, apply(&[Action::Group(7)]), ActionError::OutGroup(7).into()),
        (tcp, Instructions { meter: Some(7), ..Instructions::default() }, ActionError::Meter(7).into()),
        (port(1), set(Field::TcpDst, 80), inconsistent.into()),
        (tcp, set(Field::EthType, 1), ActionError::SetType("eth_type").into()),
        (tcp, set(Field::IpDscp, 64), ActionError::SetArgument("ip_dscp").into()),
        (tcp, apply(&[output(PortNo::TABLE.0)]), ActionError::OutPort(PortNo::TABLE).into()),
        (tcp, apply(&[output(0)]), ActionError::OutPort(PortNo(0)).into()),
        (tcp, apply(&[Action::PushVlan(0x800)]), ActionError::Argument("push_vlan").into()),
    ];
    for (matching, instructions, error) in cases {
        let mut tables = Tables::new(1);
        let flow = FlowMod { instructions, ..add(matching, 1) };
        assert_eq!(tables.apply(&flow, now(0)).unwrap_err(), error);
        assert!(tables.is_empty(TABLE));
    }
    let everywhere = FlowMod { table: TableId::ALL, ..add(tcp, 1) };
    assert_eq!(Tables::new(1).apply(&everywhere, now(0)).unwrap_err(), FlowModError::BadTable(TableId::ALL));
}

#[test]
fn actions_change_what_later_actions_may_set() {
    let set = |field: Field| Action::SetField { field, value: 1, mask: field.full() };
    let push = [Action::PushMpls(0x8847), set(Field::MplsLabel)];
    with(&[FlowMod { instructions: apply(&push), ..add(port(1), 1) }]);
    let hidden = [Action::PushMpls(0x8847), set(Field::Ipv4Dst)];
    let flow = FlowMod { instructions: apply(&hidden), ..add(network(0, 8), 1) };
    let error = Tables::new(1).apply(&flow, now(0)).unwrap_err();
    assert!(matches!(error, FlowModError::Action(ActionError::Inconsistent("nw_dst", _))));
}

#[test]
fn conjunctions_stand_alone() {
    let conjunction = |clause, clauses| Action::Conjunction { id: 1, clause, clauses };
    for (actions, valid) in [
        (vec![conjunction(0, 2), conjunction(1, 2)], true),
        (vec![conjunction(0, 2), output(1)], false),
        (vec![conjunction(2, 2)], false),
        (vec![conjunction(0, 1)], false),
        (vec![conjunction(0, 65)], false),
    ] {
        let flow = FlowMod { instructions: apply(&actions), ..add(port(1), 1) };
        assert_eq!(Tables::new(1).apply(&flow, now(0)).is_ok(), valid, "{actions:?}");
    }
}

#[test]
fn a_full_table_refuses_flows_or_evicts_the_least_important() {
    let flow = |i: u16, importance| FlowMod { importance, ..add(port(i.into()), i) };
    let mut tables = Tables::new(1);
    tables.configure(TABLE, TableConfig { limit: 2, eviction: false });
    for (i, importance) in [(1, 5), (2, 3)] {
        tables.apply(&flow(i, importance), now(0)).unwrap();
    }
    assert_eq!(tables.apply(&flow(3, 9), now(1)).unwrap_err(), FlowModError::TableFull(TABLE));
    tables.apply(&flow(2, 3), now(1)).unwrap();
    tables.configure(TABLE, TableConfig { limit: 2, eviction: true });
    let changes = tables.apply(&flow(3, 4), now(1)).unwrap();
    assert_eq!(changes.removed[0].reason, RemovedReason::Eviction);
    assert_eq!(priorities(&tables), [1, 3]);
    assert_eq!(tables.apply(&flow(4, 3), now(1)).unwrap_err(), FlowModError::TableFull(TABLE));
}

#[test]
fn the_oldest_of_equal_importance_is_evicted() {
    let mut tables = Tables::new(1);
    tables.configure(TABLE, TableConfig { limit: 2, eviction: true });
    for i in [3, 1, 2] {
        tables.apply(&add(port(i.into()), i), now(i.into())).unwrap();
    }
    assert_eq!(priorities(&tables), [2, 3]);
}

#[test]
fn snapshots_keep_their_content_and_know_what_changed() {
    let mut tables = with(&[add(port(1), 1)]);
    let first = tables.seal();
    tables.apply(&add(port(2), 2), now(0)).unwrap();
    tables.apply(&change(FlowCommand::Delete, port(1), 0), now(0)).unwrap();
    let second = tables.seal();
    assert_eq!((priorities(&first), priorities(&second)), (vec![1], vec![2]));
    assert_eq!(second.version(), first.version() + 1);
    let changes = second.changes_since(first.version()).unwrap();
    let matches: Vec<_> = changes
        .map(|change| match change {
            Change::Flow(entry) => entry.matching(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(matches, [port(2), port(1)]);
    assert_eq!(second.changes_since(second.version()).unwrap().count(), 0);
}

/// The bits that a lookup of `key` in `tables` depends on.
fn bits(tables: &Tables, fields: &[(Field, u128)]) -> Key {
    let (mut key, mut bits) = (Key::ZERO, Key::ZERO);
    for (field, value) in fields {
        key.set(*field, *value);
    }
    tables.find(TABLE, &key, &mut bits);
    bits
}

#[test]
fn masks_are_narrow() {
    let host = network(0x0a00_0001, 32);
    let web = network(0x0a00_0000, 8).with(Field::IpProto, 6).with(Field::TcpDst, 80);
    let tables = with(&[add(host, 2), add(web, 1)]);
    let ip = [(Field::EthType, 0x800), (Field::IpProto, 6), (Field::TcpDst, 0x8000)];
    // Another network differs in its first bit; nothing else matters.
    let other = bits(&tables, &[ip[0], (Field::Ipv4Dst, 0xc0a8_0001), ip[1], ip[2]]);
    assert_eq!((other.get(Field::Ipv4Dst), other.get(Field::TcpDst)), (0x8000_0000, 0));
    assert_eq!(other.get(Field::EthType), 0);
    // In the network, the first bit of the port tells that it is another one.
    let same = bits(&tables, &[ip[0], (Field::Ipv4Dst, 0x0a80_0001), ip[1], ip[2]]);
    assert_eq!((same.get(Field::Ipv4Dst), same.get(Field::TcpDst)), (0xff80_0000, 0x8000));
    // A packet of another kind fails in an early stage.
    let arp = bits(&tables, &[(Field::EthType, 0x806), (Field::Ipv4Dst, 0x0a00_0001)]);
    assert_eq!((arp.get(Field::EthType), arp.get(Field::Ipv4Dst)), (0xffff, 0));
}

#[test]
fn a_better_flow_excludes_later_masks() {
    let tables = with(&[add(port(1), 9), add(network(0x0a00_0000, 8), 5)]);
    let bits = bits(&tables, &[(Field::InPort, 1), (Field::EthType, 0x800)]);
    assert_eq!((bits.get(Field::InPort), bits.get(Field::EthType)), (0xffff_ffff, 0));
}
