//! Tables of another process: everything that a controller can see is the same.

use super::{TABLE, add, apply, now, output};
use crate::action::Action;
use crate::modify::{FlowFlags, FlowMod, TableId};
use crate::tables::{Control, Modification, RestoreError, SavedTables, TableConfig};
use crate::text::{NoNames, parse_flow, parse_group, parse_meter, parse_option};
use crate::{GroupCommand, Match, MeterCommand, OptionChange};

const FLOWS: [&str; 6] = [
    "table=0,priority=5,cookie=0x7,idle_timeout=60,hard_timeout=600,importance=3,tcp,tp_dst=80,actions=group:7",
    "table=0,priority=5,check_overlap,udp,actions=meter:3,output:2",
    "table=0,priority=4,ct_state=-trk,ip,actions=ct(table=1,zone=5)",
    "table=1,priority=4,ct_state=+trk+new,ip,actions=ct(commit,zone=5,exec(set_field:9->ct_mark)),goto_table:2",
    "table=2,tun_metadata0=0x9,actions=learn(table=9,cookie=0x5,limit=4,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],output:NXM_OF_IN_PORT[])",
    "table=9,cookie=0x5,dl_dst=02:00:00:00:00:01,actions=output:1",
];

/// Tables with options, meters, a chain of groups, and flows that use them.
fn control() -> Control {
    let mut control = Control::new(1);
    let options = OptionChange::Add(vec![parse_option("{class=1,type=2,len=4}->tun_metadata0").unwrap()]);
    let meter = parse_meter("meter=3,kbps,bands=type=drop,rate=1000", MeterCommand::Add).unwrap();
    let group = |text| parse_group(text, GroupCommand::Add, &NoNames).unwrap();
    let mut changes = vec![
        Modification::Options(options),
        Modification::Meter(meter),
        Modification::Group(group("group_id=9,type=indirect,bucket=output:3")),
        Modification::Group(group("group_id=7,type=all,bucket=bucket_id:4,group:9,bucket=output:2")),
    ];
    let flows = FLOWS.map(|text| Modification::Flow(Box::new(parse_flow(text, None, &NoNames).unwrap())));
    changes.extend(flows);
    for (i, change) in changes.iter().enumerate() {
        control.apply(change, now(i as u64)).unwrap();
    }
    control.tables_mut().configure(TableId(9), TableConfig { limit: 5, eviction: true });
    control.tables_mut().drop_fragments(true);
    control
}

/// Everything, in an order that does not depend on the seed of the hashes.
fn sorted(control: &Control) -> SavedTables {
    let mut saved = control.tables().save();
    saved.flows.sort_by_key(|saved| format!("{saved:?}"));
    saved.groups.sort_by_key(|(group, _)| group.id);
    saved
}

#[test]
fn another_process_has_the_same_tables() {
    let one = control();
    for flow in one.tables().all_flows() {
        flow.entry().count(3, 300, now(100));
    }
    let saved = one.tables().save();
    let mut other = Control::new(2);
    other.apply(&Modification::Flow(Box::new(add(Match::any(), 1))), now(0)).unwrap();
    let flows = other.restore(&saved, now(101)).unwrap();
    assert_eq!(sorted(&other), sorted(&one));
    assert_eq!(flows.len(), saved.flows.len());
    for (flow, saved) in flows.iter().zip(&saved.flows) {
        assert_eq!((flow.entry().cookie(), flow.entry().counts()), (saved.flow.cookie, (3, 300)));
    }
    // The flow with timeouts expires at the same time: it had a packet at 100 s.
    assert_eq!(other.next_deadline().map(|at| at <= now(160)), Some(true));
    assert!(other.expire(now(159)).removed.is_empty());
    assert_eq!(other.expire(now(160)).removed.len(), 1);
}

#[test]
fn what_is_not_valid_is_named() {
    let saved = control().tables().save();
    let invalid = FlowMod { table: TABLE, instructions: apply(&[Action::Group(77)]), ..add(Match::any(), 9) };
    let mut wrong = saved.clone();
    wrong.flows[2].flow = invalid;
    assert!(matches!(Control::new(2).restore(&wrong, now(0)), Err(RestoreError::Flow(2, _))));
    let mut wrong = saved;
    wrong.groups.retain(|(group, _)| group.id != 9);
    let refused = Control::new(2).restore(&wrong, now(0)).unwrap_err();
    assert!(matches!(refused, RestoreError::Group(_)), "{refused}");
}

#[test]
fn flows_that_overlap_are_not_refused_again() {
    let mut one = Control::new(1);
    let flags = FlowFlags { check_overlap: true, ..FlowFlags::default() };
    let first = FlowMod { flags, ..add(Match::any(), 1) };
    let later = FlowMod { instructions: apply(&[output(2)]), ..add(super::port(3), 1) };
    for change in [first, later] {
        one.apply(&Modification::Flow(Box::new(change)), now(0)).unwrap();
    }
    let mut other = Control::new(2);
    assert_eq!(other.restore(&one.tables().save(), now(0)).unwrap().len(), 2);
    assert_eq!(sorted(&other), sorted(&one));
}
