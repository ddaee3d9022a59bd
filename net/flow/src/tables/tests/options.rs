//! The map of options: which flows and groups use its fields, and the form of matches with them.

use super::*;
use crate::options::{Mapping, OptionChange, OptionMapError};
use crate::tables::{ActionError, Changes, Control, FlowModError, Modification, ModificationError};
use crate::text::{NoNames, parse_flow, parse_group, parse_option, show};
use crate::{GroupCommand, OptionError};

fn bind(texts: &[&str]) -> Modification {
    Modification::Options(OptionChange::Add(texts.iter().map(|text| parse_option(text).unwrap()).collect()))
}

fn free(n: u8) -> Modification {
    Modification::Options(OptionChange::Delete(vec![n]))
}

fn flow(text: &str) -> Modification {
    Modification::Flow(Box::new(parse_flow(text, None, &NoNames).unwrap()))
}

fn group(command: GroupCommand, text: &str) -> Modification {
    Modification::Group(parse_group(text, command, &NoNames).unwrap())
}

/// Tables with `tun_metadata0` (4 bytes), `1` (8 bytes) and `2` (4 bytes).
fn bound() -> Control {
    let mut control = Control::new(1);
    let options = [
        "{class=0x102,type=0x80,len=4}->tun_metadata0",
        "{class=0x102,type=1,len=8}->tun_metadata1",
        "{class=0x102,type=2,len=4}->tun_metadata2",
    ];
    control.apply(&bind(&options), now(0)).unwrap();
    control
}

fn does(control: &mut Control, change: &Modification) -> Changes {
    control.apply(change, now(0)).unwrap_or_else(|error| panic!("{error} in {change:?}"))
}

fn is_used(control: &mut Control, n: u8) -> bool {
    let mut copy = control.tables().clone();
    let clear = copy.apply_options(&OptionChange::Clear);
    let found = control.tables().clone().apply_options(&OptionChange::Delete(vec![n]));
    assert_eq!(found.is_err(), clear == Err(OptionMapError::Used(n)), "{found:?} {clear:?}");
    found.is_err()
}

#[test]
fn every_reference_keeps_a_field() {
    for (text, n) in [
        ("tun_metadata0,actions=drop", 0),
        ("tun_metadata1=5/0xf,actions=drop", 1),
        ("actions=set_field:5->tun_metadata0", 0),
        ("actions=delete_field:tun_metadata2", 2),
        ("actions=move:tun_metadata0[0..15]->reg0[0..15]", 0),
        ("actions=move:reg0->tun_metadata2", 2),
        ("actions=push:tun_metadata1", 1),
        ("actions=pop:tun_metadata1[0..3]", 1),
        ("actions=output:tun_metadata2", 2),
        ("actions=clone(set_field:5->tun_metadata0)", 0),
        ("actions=write_actions(set_field:5->tun_metadata0)", 0),
        ("actions=learn(tun_metadata2)", 2),
        ("actions=learn(table=2,reg0=tun_metadata2)", 2),
        ("actions=learn(load:reg0->tun_metadata2)", 2),
        ("actions=learn(output:tun_metadata2)", 2),
        ("actions=learn(table=2,result_dst=tun_metadata2[0])", 2),
        ("ip,actions=ct(commit,zone=tun_metadata2[0..15])", 2),
        ("ip,actions=ct(commit,exec(move:tun_metadata2->ct_mark))", 2),
    ] {
        let mut control = bound();
        assert!(!is_used(&mut control, n));
        does(&mut control, &flow(text));
        assert!(is_used(&mut control, n), "{text}");
        assert_eq!(control.apply(&free(n), now(0)).unwrap_err(), OptionMapError::Used(n).into());
        does(&mut control, &flow(&format!("delete {}", text.split("actions").next().unwrap())));
        assert!(!is_used(&mut control, n), "{text}");
        does(&mut control, &free(n));
    }
}

#[test]
fn other_instructions_expiry_and_groups_release_a_field() {
    let mut control = bound();
    does(&mut control, &flow("reg0=1,actions=set_field:5->tun_metadata0"));
    does(&mut control, &flow("modify reg0=1,actions=drop"));
    assert!(!is_used(&mut control, 0));
    does(&mut control, &flow("reg0=1,actions=set_field:5->tun_metadata0"));
    does(&mut control, &flow("reg0=1,actions=drop"));
    assert!(!is_used(&mut control, 0));
    does(&mut control, &flow("idle_timeout=1,tun_metadata0=7,actions=drop"));
    assert!(is_used(&mut control, 0));
    assert_eq!(control.expire(now(5)).removed.len(), 1);
    assert!(!is_used(&mut control, 0));
    let bucket = "group_id=1,type=all,bucket=set_field:5->tun_metadata0,output:1";
    does(&mut control, &group(GroupCommand::Add, bucket));
    assert!(is_used(&mut control, 0));
    does(&mut control, &group(GroupCommand::Modify, "group_id=1,type=all,bucket=output:1"));
    assert!(!is_used(&mut control, 0));
    does(&mut control, &group(GroupCommand::Modify, bucket));
    does(&mut control, &group(GroupCommand::Delete, "group_id=1"));
    assert!(!is_used(&mut control, 0));
}

#[test]
fn a_refused_bundle_restores_the_map_and_its_uses() {
    let mut control = bound();
    does(&mut control, &flow("tun_metadata0=7,actions=drop"));
    let changes = [
        flow("delete tun_metadata0"),
        free(0),
        bind(&["{class=9,type=9,len=4}->tun_metadata0", "{class=9,type=8,len=4}->tun_metadata7"]),
        flow("tun_metadata7,actions=drop"),
        free(7),
    ];
    let refused = control.bundle(&changes, now(0)).unwrap_err();
    assert_eq!(refused, (4, ModificationError::Options(OptionMapError::Used(7))));
    assert!(is_used(&mut control, 0));
    let first = Mapping { class: 0x102, kind: 0x80, len: 4 };
    let entries: Vec<_> = control.tables().options().iter().map(|(n, mapping)| (n, mapping.kind)).collect();
    assert_eq!((entries, first.kind), (vec![(0, 0x80), (1, 1), (2, 2)], 0x80));
    assert!(control.bundle(&changes[..4], now(0)).is_ok());
    assert!(is_used(&mut control, 7) && !is_used(&mut control, 0));
}

#[test]
fn matches_of_a_whole_option_are_the_same_flow() {
    let mut control = bound();
    does(&mut control, &flow("tun_metadata0=7,actions=output:1"));
    does(&mut control, &flow("tun_metadata0=7/0xffffffff,actions=output:2"));
    let found = only(control.tables());
    assert_eq!(show(&found.entry().matching(), &NoNames).to_string(), "tun_metadata0=0x7");
    let strict = does(&mut control, &flow("delete_strict tun_metadata0[0..31]=7"));
    assert_eq!(strict.removed.len(), 1);
    does(&mut control, &flow("tun_metadata0=7,actions=output:1"));
    assert!(does(&mut control, &flow("delete tun_metadata2")).removed.is_empty());
    assert_eq!(does(&mut control, &flow("delete tun_metadata0")).removed.len(), 1);
}

#[test]
fn learned_flows_with_options_are_learned_once() {
    use crate::tables::{LearnedFlow, Learning};
    let mut control = bound();
    let text = "table=1,tun_metadata0[0..31]=7,actions=drop";
    let mut learned = parse_flow(text, None, &NoNames).unwrap();
    learned.matching = control.tables().options().normal(&learned.matching).unwrap();
    let learned = LearnedFlow { flow: learned, limit: 0, parent: None };
    assert_eq!(control.learn(&learned, now(1), now(1)).unwrap().added.len(), 1);
    assert!(matches!(control.tables().learning(&learned, now(2)), Learning::Known(_)));
    assert!(control.learn(&learned, now(2), now(2)).unwrap().is_empty());
}

#[test]
fn fields_that_are_not_bound_and_values_that_are_too_long_are_refused() {
    let unbound = |n: &'static str| OptionError::Unbound(n);
    let long = OptionError::Len("tun_metadata0");
    let mut control = bound();
    for (text, error) in [
        ("tun_metadata3,actions=drop", FlowModError::Option(unbound("tun_metadata3"))),
        ("delete tun_metadata3=1", FlowModError::Option(unbound("tun_metadata3"))),
        ("tun_metadata0=0x100000000,actions=drop", FlowModError::Option(long)),
        ("actions=set_field:1->tun_metadata3", ActionError::Option(unbound("tun_metadata3")).into()),
        ("actions=delete_field:tun_metadata3", ActionError::Option(unbound("tun_metadata3")).into()),
        ("actions=learn(tun_metadata3)", ActionError::Option(unbound("tun_metadata3")).into()),
        ("actions=set_field:0x100000000->tun_metadata0", ActionError::Option(long).into()),
        ("actions=move:tun_metadata0->xreg0", ActionError::Option(long).into()),
        ("actions=load:1->tun_metadata0[32]", ActionError::Option(long).into()),
    ] {
        assert_eq!(control.apply(&flow(text), now(0)).unwrap_err(), error.into(), "{text}");
    }
    let packet = Modification::Packet([Action::DeleteField(Field::TunMetadata7)].into());
    let expected = ActionError::Option(unbound("tun_metadata7")).into();
    assert_eq!(control.apply(&packet, now(0)).unwrap_err(), expected);
    let bucket = group(GroupCommand::Add, "group_id=1,type=all,bucket=set_field:5->tun_metadata7");
    assert!(control.apply(&bucket, now(0)).is_err());
    assert!(control.tables().is_empty(TABLE));
}
