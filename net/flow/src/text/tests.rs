//! Text as ovs-ofctl reads and prints it. Examples are from ovs-actions(7), ovs-fields(7) and the tests of Open
//! vSwitch.

use super::examples::{ACTIONS, MATCHES};
use super::fuzz::fuzz_text;
use super::*;
use crate::arbitrary::{
    Names, any_actions, any_deletion, any_flow, any_group, any_instructions, any_match, any_meter,
};
use crate::{Field, TableId};
use proptest::prelude::*;
use std::time::Duration;

fn expected<'a>((text, printed): (&'a str, &'a str)) -> &'a str {
    if printed.is_empty() { text } else { printed }
}

#[test]
fn matches_are_printed_as_ovs_ofctl_prints_them() {
    for &row in MATCHES {
        let found = parse_match(row.0, &NoNames).unwrap_or_else(|error| panic!("{}: {error}", row.0));
        assert_eq!(show(&found, &NoNames).to_string(), expected(row), "{}", row.0);
    }
}

#[test]
fn actions_are_printed_as_ovs_ofctl_prints_them() {
    let tcp = parse_match("tcp", &NoNames).unwrap();
    for &row in ACTIONS {
        let found =
            parse_instructions(row.0, &tcp, &NoNames).unwrap_or_else(|error| panic!("{}: {error}", row.0));
        assert_eq!(show(&found, &NoNames).to_string(), expected(row), "{}", row.0);
    }
}

#[test]
fn actions_depend_on_the_match() {
    let print = |matching: &str, actions: &str| {
        let found = parse_instructions(actions, &parse_match(matching, &NoNames).unwrap(), &NoNames);
        show(&found.unwrap(), &NoNames).to_string()
    };
    assert_eq!(print("udp", "mod_tp_src:7,set_field:8->tp_dst"), "set_field:7->udp_src,set_field:8->udp_dst");
    assert_eq!(print("dl_vlan=9", "mod_vlan_vid:7"), "set_field:4103->vlan_vid");
    assert_eq!(
        print("dl_vlan=9", "pop_vlan,mod_vlan_vid:7,mod_vlan_pcp:1"),
        "pop_vlan,push_vlan:0x8100,set_field:4103->vlan_vid,set_field:1->vlan_pcp"
    );
    assert!(parse_actions("mod_tp_src:7", &Match::any(), &NoNames).is_err());
}

#[test]
fn flows_are_read_with_their_properties() {
    let text = "cookie=0x123456789abcdef hard_timeout=10 idle_timeout=5 table=3 priority=60000 send_flow_rem \
                importance=7 check_overlap duration=3s n_packets=5 tcp,in_port=red actions=output:red,output:3";
    let flow = parse_flow(text, None, &Names).unwrap();
    assert_eq!((flow.cookie, flow.table, flow.priority), (0x0123_4567_89ab_cdef, TableId(3), 60000));
    assert_eq!(flow.matching.exact(Field::InPort), Some(1));
    let printed = "cookie=0x123456789abcdef, table=3, idle_timeout=5, hard_timeout=10, send_flow_rem check_overlap \
                   importance=7, priority=60000,tcp,in_port=red actions=output:red,output:\"a b,\\\"(c\"";
    assert_eq!(show(&flow, &Names).to_string(), printed);
    let counters = FlowCounters { duration: Duration::from_micros(1_500_100), packets: Some(5), bytes: None };
    let stats = FlowStats { flow: &flow, counters };
    let printed = "cookie=0x123456789abcdef, duration=1.5001s, table=3, n_packets=5, n_bytes=?, idle_timeout=5, \
                   hard_timeout=10, send_flow_rem check_overlap importance=7, priority=60000,tcp,in_port=1 \
                   actions=output:1,output:3";
    assert_eq!(show(&stats, &NoNames).to_string(), printed);
}

#[test]
fn commands_allow_different_words() {
    let delete = parse_flow("delete table=1,cookie=5/-1,out_port=3,tcp", None, &NoNames).unwrap();
    assert_eq!(delete.command, FlowCommand::Delete);
    assert_eq!((delete.cookie, delete.cookie_mask, delete.out_port), (5, u64::MAX, Some(PortNo(3))));
    let all = parse_flow("", Some(FlowCommand::Delete), &NoNames).unwrap();
    assert_eq!((all.table, all.matching), (TableId::ALL, Match::any()));
    for text in [
        "delete actions=drop",
        "delete cookie=5",
        "add cookie=5/3,actions=drop",
        "add out_port=1,actions=drop",
        "tcp",
        "delete priority=5",
        "modify importance=5,actions=drop",
    ] {
        assert!(parse_flow(text, None, &NoNames).is_err(), "{text}");
    }
}

#[test]
fn groups_are_printed_as_ovs_ofctl_prints_them() {
    for (text, printed) in [
        ("group_id=1234,type=all,bucket=output:10", "group_id=1234,type=all,bucket=actions=output:10"),
        (
            "group_id=1,type=select bucket=weight:100,watch_port:1,actions=output:1,output:2,bucket=weight:1,actions=drop",
            "group_id=1,type=select,bucket=weight:100,watch_port:1,actions=output:1,output:2,bucket=actions=drop",
        ),
        (
            "group_id=1,type=ff,bucket=bucket_id:7,watch_group:5,set_field:1->reg0,output:3",
            "group_id=1,type=ff,bucket=bucket_id:7,watch_group:5,actions=set_field:0x1->reg0,output:3",
        ),
    ] {
        let group = parse_group(text, GroupCommand::Add, &NoNames).unwrap();
        assert_eq!(show(&group, &NoNames).to_string(), printed);
    }
    for text in [
        "group_id=1",
        "type=all",
        "group_id=1,type=any",
        "group_id=1,type=all,bucket=weight:5,actions=drop",
        "group_id=1,type=ff,bucket=actions=drop",
        "group_id=1,type=indirect",
        "group_id=1,type=all,bucket=weight",
        "group_id=1,type=all,bucket=actions=drop,output:1",
        "group_id=1,type=all,bucket=",
    ] {
        assert!(parse_group(text, GroupCommand::Add, &NoNames).is_err(), "{text}");
    }
    assert_eq!(parse_group("", GroupCommand::Delete, &NoNames).unwrap().id, 0xffff_fffc);
}

#[test]
fn meters_are_printed_as_ovs_ofctl_prints_them() {
    let text = "meter=1,kbps,burst,stats,bands=type=drop,rate=1000,burst_size=100,type=dscp_remark,rate=5,\
                burst_size=1,prec_level=2";
    let printed = "meter=1 kbps burst stats bands=\ntype=drop rate=1000 burst_size=100\n\
                   type=dscp_remark rate=5 burst_size=1 prec_level=2";
    let meter = parse_meter(text, MeterCommand::Add).unwrap();
    assert_eq!(show(&meter, &NoNames).to_string(), printed);
    for text in [
        "meter=0,bands=type=drop,rate=1",
        "meter=1",
        "meter=1,pktps,bands=rate=5",
        "meter=1,bands=type=drop",
        "meter=1,bands=type=drop,rate=1,burst_size=5",
        "meter=1,bands=type=dscp_remark,rate=1",
        "bands=type=drop,rate=1",
    ] {
        assert!(parse_meter(text, MeterCommand::Add).is_err(), "{text}");
    }
}

#[test]
fn errors_name_place_reason_and_remedy() {
    let message = |text: &str| {
        let error = parse_flow(text, None, &NoNames).unwrap_err();
        format!("{}: {error}", &text[error.range.clone()])
    };
    for (text, expected) in [
        (
            "tcp_dst=80,actions=drop",
            "tcp_dst: invalid `tcp_dst`: field `tcp_dst` requires another one: nw_proto 6, and not \
                                     a later fragment; add it, for example as `ip`, `tcp`, `udp6` or `arp`",
        ),
        (
            "tcp,nw_sorce=1.2.3.4,actions=drop",
            "nw_sorce: invalid `nw_sorce`: unknown keyword; the nearest is `nw_src`",
        ),
        ("actions=outptu:1", "outptu: invalid `outptu`: unknown action or port; the nearest is `output`"),
        (
            "actions=drop,output:1",
            "drop: invalid `drop`: `drop` must be the only action; remove it or the others",
        ),
        (
            "actions=multipath(1)",
            "multipath: invalid `multipath`: the action is not supported; see ovs-actions(7) for \
                                  actions with a similar effect",
        ),
        ("tcp,udp,actions=drop", "udp: invalid `udp`: it contradicts an earlier word; remove one of them"),
        (
            "tcp,tp_dst=65536,actions=drop",
            "65536: invalid `65536`: expected a number from 0 to 65535 (0xffff), decimal or \
                                           with 0x, without leading zeros",
        ),
        (
            "actions=load:16->reg0[0..3]",
            "16: invalid `16`: the value does not fit in 4 bits; use a smaller one or a wider \
                                         field",
        ),
        (
            "actions=output:1,meter:1,goto_table:1,output:2",
            "output: invalid `output`: wrong order; write meter, actions, \
                                                    clear_actions, write_actions, write_metadata, goto_table, each once",
        ),
    ] {
        assert_eq!(message(text), expected);
    }
}

#[test]
fn invalid_text_is_refused() {
    for text in [
        "nw_dst=1.2.3",
        "ip,nw_dst=1.2.3.4/33",
        "ipv6,ipv6_dst=::/129",
        "dl_src=1:2:3:4:5",
        "dl_src=1:2:3:4:5:6:7",
        "dl_vlan=4096",
        "vlan_tci=0x10000",
        "ip,nw_tos=3",
        "ct_state=+bad",
        "ct_state=+trk-trk",
        "ip,nw_frag=maybe",
        "in_port=nowhere",
        "nw_proto=6,ip,tp_dst=",
        "reg0[32]=1",
        "reg0[0..3]=16",
        "reg0=1,reg0=2",
        "eth_type=0x800/0xf00",
        "tp_dst=80",
        "tcp6,nw_dst=1.2.3.4",
        "tcp,nw_frag=later,tp_dst=80",
        "reg0=010",
        "frob",
        "tcp(",
        "tcp=5",
        "ip,nw_proto=1/1",
    ] {
        assert!(parse_match(text, &NoNames).is_err(), "{text}");
    }
    for text in [
        "output",
        "output:",
        "output:x",
        "output:xxreg0[]",
        "output:xxreg0[0..64]",
        "output(port=1,max_len=100)",
        "set_field:1->eth_type",
        "set_field:1->frob",
        "set_field:1",
        "move:reg0->xreg0",
        "load:1->ct_state[0]",
        "ct(frob)",
        "ct(commit=1)",
        "drop:1",
        "dec_ttl(1=2)",
        "ct(force)",
        "ct(nat(hash))",
        "ct(nat(src=1.2.3.4-::1))",
        "ct(nat(src,dst))",
        "ct(commit,nat(src=1.2.3.4,hash,random))",
        "ct(exec(output:1))",
        "ct(exec(load:1->reg0))",
        "load:1->ct_mark",
        "resubmit(,)",
        "resubmit(1,2,3)",
        "conjunction(1,3/2)",
        "conjunction(1,0/2)",
        "conjunction(1,1/65)",
        "push_vlan:0x800",
        "push_mpls:0x800",
        "exit:1",
        "note:123",
        "apply_actions(drop)",
        "goto_table:255",
        "learn(table=255)",
        "learn(result_dst=reg0)",
        "learn(load:1)",
        "write_actions(goto_table:1)",
        "clone(clone(",
        "mod_nw_tos:3",
        "enqueue:1",
        "pop_queue:1",
        "ct(zone=reg0)",
        "set_field:5->vlan_vid",
    ] {
        let tcp = parse_match("tcp", &NoNames).unwrap();
        assert!(parse_instructions(text, &tcp, &NoNames).is_err(), "{text}");
    }
}

#[test]
fn depth_and_length_are_limited() {
    let nested = |depth| format!("{}exit{}", "clone(".repeat(depth), ")".repeat(depth));
    assert!(parse_actions(&nested(MAX_DEPTH), &Match::any(), &NoNames).is_ok());
    let error = parse_actions(&nested(MAX_DEPTH + 1), &Match::any(), &NoNames).unwrap_err();
    assert_eq!(error.reason, Reason::TooDeep);
    assert!(parse_actions(&nested(10_000), &Match::any(), &NoNames).is_err());
    let error = parse_match(&",".repeat(MAX_LENGTH + 1), &NoNames).unwrap_err();
    assert_eq!(error.reason, Reason::TooLong);
}

/// Text from words of the syntax, so that it reaches deep.
fn any_text() -> impl Strategy<Value = String> {
    let words = [
        "ct(",
        "clone(",
        "learn(",
        "resubmit(",
        "nat(",
        "exec(",
        ")",
        ",",
        "=",
        ":",
        "->",
        "[",
        "]",
        "..",
        "/",
        "-",
        "0x",
        "1",
        "65536",
        "reg0",
        "tcp",
        "nw_dst",
        "10.0.0.1",
        "::1",
        "set_field:",
        "load:",
        "move:",
        "actions=",
        "output:",
        "bucket=",
        "bands=",
        "type=",
        "group_id=1",
        "meter=1",
        "\"",
        "\\",
        "+",
        "trk",
        "ct_state=",
        "dl_vlan=",
        "é",
        " ",
        "note:",
        "drop",
    ];
    let word =
        prop_oneof![4 => proptest::sample::select(words.to_vec()).prop_map(str::to_owned), 1 => ".{0,3}"];
    proptest::collection::vec(word, 0..40).prop_map(|words| words.concat())
}

proptest! {
    #[test]
    fn printed_matches_are_read_again(found in any_match()) {
        let text = show(&found, &Names).to_string();
        prop_assert_eq!(parse_match(&text, &Names), Ok(found), "{}", text);
    }

    #[test]
    fn printed_actions_are_read_again(actions in any_actions()) {
        let text = show(&actions[..], &Names).to_string();
        prop_assert_eq!(parse_actions(&text, &Match::any(), &Names), Ok(actions), "{}", text);
    }

    #[test]
    fn printed_instructions_are_read_again(found in any_instructions()) {
        let text = show(&found, &Names).to_string();
        prop_assert_eq!(parse_instructions(&text, &Match::any(), &Names), Ok(found), "{}", text);
    }

    #[test]
    fn printed_flows_are_read_again(flow in prop_oneof![any_flow(), any_deletion()]) {
        let text = show(&flow, &Names).to_string();
        prop_assert_eq!(parse_flow(&text, Some(flow.command), &Names), Ok(flow), "{}", text);
    }

    #[test]
    fn printed_groups_are_read_again(group in any_group()) {
        let text = show(&group, &Names).to_string();
        prop_assert_eq!(parse_group(&text, GroupCommand::Add, &Names), Ok(group), "{}", text);
    }

    #[test]
    fn printed_meters_are_read_again(meter in any_meter()) {
        let text = show(&meter, &Names).to_string();
        prop_assert_eq!(parse_meter(&text, MeterCommand::Add), Ok(meter), "{}", text);
    }

    #[test]
    fn any_text_is_read_or_refused(text in any_text()) {
        fuzz_text(text.as_bytes());
    }
}
