//! Text as ovs-ofctl reads and prints it. Examples are from ovs-actions(7), ovs-fields(7) and the tests of Open vSwitch.

use super::*;
use crate::arbitrary::{
    Names, any_actions, any_deletion, any_flow, any_group, any_instructions, any_match, any_meter,
};
use crate::{Field, TableId};
use proptest::prelude::*;
use std::time::Duration;

/// Matches, and how they are printed; an empty string for the same text.
const MATCHES: &[(&str, &str)] = &[
    ("", ""),
    ("tcp,tp_src=123", ""),
    ("in_port=LOCAL dl_vlan=9 dl_src=00:0A:E4:25:6B:B0", "in_port=LOCAL,dl_vlan=9,dl_src=00:0a:e4:25:6b:b0"),
    ("udp dl_vlan_pcp=7", "udp,dl_vlan_pcp=7"),
    ("tcp,nw_src=192.168.0.3,tp_dst=80", ""),
    ("nw_dst=192.168.0.3,tp_dst=80,tcp", "tcp,nw_dst=192.168.0.3,tp_dst=80"),
    ("ip,nw_proto=2", ""),
    ("ip,nw_proto=6", "tcp"),
    ("dl_type=0x800,ip_proto=17,udp_dst=53", "udp,tp_dst=53"),
    ("dl_type=0x88cc", ""),
    ("tcp,tp_src=0x1230/0xfff0,tun_id=0x1234", "tcp,tun_id=0x1234,tp_src=0x1230/0xfff0"),
    ("tcp,tp_src[5]=1", "tcp,tp_src=0x20/0x20"),
    ("tcp,tp_src[6..10]=19", "tcp,tp_src=0x4c0/0x7c0"),
    ("tun_id=0x1234000056780000/0xffff0000ffff0000", ""),
    ("metadata=0x1234ffff5678ffff/0xffff0000ffff0000", "metadata=0x1234000056780000/0xffff0000ffff0000"),
    ("metadata=0", ""),
    ("mpls,mpls_label=5,mpls_tc=1,mpls_ttl=1,mpls_bos=0", ""),
    (
        "ip,ct_state=+trk,ct_label=0x1234567890abcdef12345678",
        "ct_state=+trk,ct_label=0x1234567890abcdef12345678,ip",
    ),
    ("ct_state=+trk-new,ip", "ct_state=-new+trk,ip"),
    ("ct_state=trk|est", "ct_state=est|trk"),
    (
        "ct_state=+trk,ct_zone=7,ct_mark=0,tcp,ct_nw_proto=6,ct_nw_src=10.0.0.0/8,ct_tp_dst=80",
        "ct_state=+trk,ct_zone=7,ct_mark=0,ct_nw_src=10.0.0.0/8,ct_nw_proto=6,ct_tp_dst=80,tcp",
    ),
    ("reg0=5,reg1=0x10/0xf0,xreg1=0x500000006", "reg0=0x5,reg1=0x10/0xf0,reg2=0x5,reg3=0x6"),
    ("pkt_mark=0xbb", ""),
    ("conj_id=12345", ""),
    ("vlan_tci=0", "vlan_tci=0x0000"),
    ("dl_vlan=0xffff", "vlan_tci=0x0000"),
    ("vlan_tci=0x1123/0x1fff", "dl_vlan=291"),
    ("vlan_tci=0x1000/0x1000", ""),
    ("vlan_vid=0x1000/0x1000", "vlan_tci=0x1000/0x1000"),
    ("vlan_tci=0x0123/0x0fff", ""),
    ("dl_vlan_pcp=3,dl_vlan=5", "dl_vlan=5,dl_vlan_pcp=3"),
    ("dl_dst=01:00:00:00:00:00/01:00:00:00:00:00", ""),
    ("ip,nw_dst=10.1.2.3/255.255.0.0", "ip,nw_dst=10.1.0.0/16"),
    ("ip,nw_dst=10.1.2.3/255.0.255.0", "ip,nw_dst=10.0.2.0/255.0.255.0"),
    (
        "ipv6,ipv6_src=2001:db8:3c4d:1:2:3:4:5,ipv6_dst=2001:DB8::/32",
        "ipv6,ipv6_src=2001:db8:3c4d:1:2:3:4:5,ipv6_dst=2001:db8::/32",
    ),
    ("ipv6,ipv6_dst=::1/::ffff:ffff", "ipv6,ipv6_dst=::1/::255.255.255.255"),
    ("ipv6,ipv6_label=0x2", "ipv6,ipv6_label=0x00002"),
    ("tcp6,tcp_dst=80", "tcp6,tp_dst=80"),
    (
        "icmp6,icmp_type=135,icmp_code=0,nd_target=2001:db8::1,nd_sll=00:01:02:03:04:05",
        "icmp6,icmp_type=135,icmp_code=0,nd_target=2001:db8::1,nd_sll=00:01:02:03:04:05",
    ),
    ("icmp,icmp_type=8,icmp_code=0", ""),
    ("icmp,tp_src=8", "icmp,icmp_type=8"),
    (
        "arp,nw_src=192.0.2.1,nw_proto=1,arp_sha=00:01:02:03:04:05",
        "arp,arp_spa=192.0.2.1,arp_op=1,arp_sha=00:01:02:03:04:05",
    ),
    ("rarp,arp_tpa=192.0.2.0/24", ""),
    ("ip,nw_tos=252,nw_ecn=2,nw_ttl=64", ""),
    ("ip,ip_dscp=63", "ip,nw_tos=252"),
    ("ip,ip_frag=not_later", "ip,nw_frag=not_later"),
    ("ip,nw_frag=first", ""),
    ("tcp,tcp_flags=+syn-ack", ""),
    ("tcp,tcp_flags=ack|syn", "tcp,tcp_flags=syn|ack"),
    ("tcp,tcp_flags=0x12/0x3f", "tcp,tcp_flags=-fin+syn-rst-psh+ack-urg"),
    ("tcp,tcp_flags=0", ""),
    ("sctp6,tp_dst=0x10/0xff", "sctp6,tp_dst=0x10/0xff"),
    (
        "tun_src=192.0.2.1,tun_dst=192.0.2.0/24,tun_flags=oam,tunnel_id=7",
        "tun_id=0x7,tun_src=192.0.2.1,tun_dst=192.0.2.0/24,tun_flags=0x1/0xffff",
    ),
    ("actset_output=CONTROLLER", ""),
];

/// Actions and instructions after `tcp`, and how they are printed.
const ACTIONS: &[(&str, &str)] = &[
    ("", "drop"),
    ("drop", ""),
    ("flood", "FLOOD"),
    ("strip_vlan output:0", "pop_vlan,output:0"),
    ("set_queue:37,output:1", ""),
    ("pop_queue,output:1", ""),
    ("controller", "CONTROLLER:65535"),
    ("controller:100,CONTROLLER:200", "CONTROLLER:100,CONTROLLER:200"),
    ("note:41.42.43,note:00.01,note", "note:41.42.43,note:00.01,note:"),
    ("set_field:10.4.3.77->ip_src,mod_nw_ecn:2", "set_field:10.4.3.77->ip_src,set_field:2->nw_ecn"),
    ("resubmit:0", ""),
    ("resubmit:1,resubmit(2),resubmit(,3),resubmit(2,3)", "resubmit:1,resubmit:2,resubmit(,3),resubmit(2,3)"),
    ("resubmit(,5,ct)", ""),
    ("ct(nat)", ""),
    ("ct(commit,nat(dst))", ""),
    ("ct(commit,nat(src=10.0.0.240,random))", ""),
    ("ct(commit,nat(src=10.0.0.240:32768-65535,random))", ""),
    ("ct(commit,nat(dst=10.0.0.128-10.0.0.254,hash))", ""),
    ("ct(commit,nat(src=10.0.0.240-10.0.0.254:32768-65535,persistent))", ""),
    ("ct(commit,nat(src=fe80::20c:29ff:fe88:1-fe80::20c:29ff:fe88:a18b,random))", ""),
    ("ct(commit,nat(src=[fe80::20c:29ff:fe88:1]-[fe80::20c:29ff:fe88:a18b]:255-4096,random))", ""),
    ("ct(commit,nat(src=10.1.1.240-10.1.1.255),alg=ftp)", ""),
    ("ct(commit,force,zone=5,table=3)", "ct(commit,force,table=3,zone=5)"),
    ("ct(zone=NXM_NX_REG0[4..19],table=25)", "ct(table=25,zone=NXM_NX_REG0[4..19])"),
    ("ct(commit,exec(load(1->NXM_NX_CT_MARK[])))", "ct(commit,exec(set_field:0x1->ct_mark))"),
    (
        "ct(commit,exec(load(0x1234567890ABCDEF->ct_label[32..95])))",
        "ct(commit,exec(set_field:0x1234567890abcdef00000000/0xffffffffffffffff00000000->ct_label))",
    ),
    ("ct(commit,exec(set_field(0x1->ct_label)))", "ct(commit,exec(set_field:0x1->ct_label))"),
    ("ct(commit,exec(move:NXM_NX_REG0[]->NXM_NX_CT_MARK[]))", ""),
    ("ct_clear", ""),
    ("in_port,output:in_port", "IN_PORT,IN_PORT"),
    ("local,normal,all,table", "LOCAL,NORMAL,ALL,TABLE"),
    ("mod_vlan_vid:7,mod_vlan_pcp:2", "push_vlan:0x8100,set_field:4103->vlan_vid,set_field:2->vlan_pcp"),
    ("push_vlan:0x88a8,set_field:4097->vlan_vid", ""),
    ("mod_tp_dst:1234", "set_field:1234->tcp_dst"),
    (
        "mod_nw_src:10.1.1.2,mod_nw_dst:192.168.10.1,mod_nw_ttl:1,mod_nw_tos:16",
        "set_field:10.1.1.2->ip_src,set_field:192.168.10.1->ip_dst,mod_nw_ttl:1,set_field:4->ip_dscp",
    ),
    (
        "mod_dl_src:11:22:33:44:55:66,mod_dl_dst:10:20:30:40:50:60",
        "set_field:11:22:33:44:55:66->eth_src,set_field:10:20:30:40:50:60->eth_dst",
    ),
    (
        "set_field:00:01:02:03:04:05/ff:ff:ff:00:00:00->eth_src",
        "set_field:00:01:02:00:00:00/ff:ff:ff:00:00:00->eth_src",
    ),
    ("set_field:0xaa->pkt_mark", ""),
    ("set_field:0->reg0", "set_field:0x0->reg0"),
    ("set_tunnel:0x1234,set_tunnel64:0x123456789", "set_field:0x1234->tun_id,set_field:0x123456789->tun_id"),
    (
        "output:1,output:NXM_NX_REG0,output:reg1[16..31]",
        "output:1,output:NXM_NX_REG0[],output:NXM_NX_REG1[16..31]",
    ),
    ("output:1,exit,output:2", ""),
    (
        "controller(max_len=123,reason=invalid_ttl,id=555)",
        "controller(reason=invalid_ttl,max_len=123,id=555)",
    ),
    ("controller(userdata=01.02.03.04.05)", ""),
    ("enqueue:1:5,enqueue(2,7)", "set_queue:5,output:1,pop_queue,set_queue:7,output:2,pop_queue"),
    (
        "set_mpls_label(10),set_mpls_tc(3),set_mpls_ttl(200)",
        "set_field:10->mpls_label,set_field:3->mpls_tc,set_mpls_ttl(200)",
    ),
    ("dec_mpls_ttl,push_mpls:0x8847,pop_mpls:0x800", "dec_mpls_ttl,push_mpls:0x8847,pop_mpls:0x0800"),
    ("dec_ttl,dec_ttl(32768,12345,90)", "dec_ttl,dec_ttl(32768,12345,90)"),
    ("push:NXM_NX_REG2[1..5],pop:NXM_OF_IN_PORT[]", ""),
    ("move:NXM_OF_IN_PORT[0..15]->NXM_OF_VLAN_TCI[]", ""),
    ("load:0xf009->NXM_OF_VLAN_TCI[]", "set_field:0xf009->vlan_tci"),
    ("load:5->reg1[4..7]", "set_field:0x50/0xf0->reg1"),
    ("conjunction(1234,2/3),note:41", "conjunction(1234,2/3),note:41"),
    ("clone(push_vlan:0x8100,set_field:5->vlan_vid,output:10),output:2", ""),
    ("clone(drop)", ""),
    ("group:5", ""),
    (
        "learn(table=2,idle_timeout=10,NXM_OF_VLAN_TCI[0..11],NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],load:NXM_OF_IN_PORT[0..15]->NXM_NX_REG0[16..31])",
        "",
    ),
    (
        "learn(NXM_OF_VLAN_TCI[0..11],output:NXM_OF_IN_PORT[])",
        "learn(table=1,NXM_OF_VLAN_TCI[0..11],output:NXM_OF_IN_PORT[])",
    ),
    (
        "learn(table=1,hard_timeout=10,priority=1,cookie=0xfedcba9876543210,in_port=99,eth_dst=00:01:02:03:04:05,load:0x5->NXM_NX_REG0[])",
        "",
    ),
    (
        "learn(fin_idle_timeout=5,send_flow_rem,delete_learned,limit=4096,result_dst=reg0[8],eth_type=0x800,nw_proto=6,NXM_OF_TCP_SRC[]=NXM_OF_TCP_DST[])",
        "learn(table=1,fin_idle_timeout=5,send_flow_rem,delete_learned,limit=4096,result_dst=NXM_NX_REG0[8],eth_type=0x800,nw_proto=6,NXM_OF_TCP_SRC[]=NXM_OF_TCP_DST[])",
    ),
    (
        "meter:5,output:1,clear_actions,write_actions(set_queue:1,output:2),write_metadata:0xabc/0xfff,goto_table:7",
        "",
    ),
    ("write_metadata:0xfedcba9876543210", ""),
    ("goto_table:254", ""),
    ("copy_ttl_out,copy_ttl_in,push_pbb:0x88e7,pop_pbb", ""),
];

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
        "ip,nw_proto=1/1",
    ] {
        assert!(parse_match(text, &NoNames).is_err(), "{text}");
    }
    for text in [
        "output",
        "output:",
        "output:x",
        "output(port=1,max_len=100)",
        "set_field:1->eth_type",
        "set_field:1->frob",
        "set_field:1",
        "move:reg0->xreg0",
        "load:1->ct_state[0]",
        "ct(frob)",
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

/// Parses `text` as everything, and checks that what is read is printed so that it is read again.
fn read_as_everything(text: &str) -> Result<(), TestCaseError> {
    if let Ok(found) = parse_match(text, &Names) {
        prop_assert_eq!(parse_match(&show(&found, &Names).to_string(), &Names), Ok(found));
    }
    if let Ok(found) = parse_instructions(text, &Match::any(), &Names) {
        let printed = show(&found, &Names).to_string();
        prop_assert_eq!(parse_instructions(&printed, &Match::any(), &Names), Ok(found));
    }
    let _ = parse_flow(text, None, &Names);
    let _ = parse_flow(text, Some(FlowCommand::Delete), &Names);
    let _ = parse_group(text, GroupCommand::Add, &Names);
    let _ = parse_meter(text, MeterCommand::Add);
    Ok(())
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
        read_as_everything(&text)?;
    }
}
