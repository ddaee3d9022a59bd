//! Random tables and frames of all protocols: a worker with caches does the same as one without.
//!
//! Matches, actions and frames have few values, so that frames find flows and flows overlap.

use crate::pipeline::fuzz::fuzz_script;
use proptest::prelude::*;
use proptest::sample::select;
use std::fmt::Write;

/// What a frame of some kind has: matches, and actions that fit it.
struct Kind {
    matches: &'static [&'static str],
    actions: &'static [&'static str],
}

const ETHERNET: Kind = Kind {
    matches: &[
        "",
        "in_port=1",
        "in_port=2",
        "dl_dst=02:00:00:00:00:02",
        "dl_dst=01:00:00:00:00:00/01:00:00:00:00:00",
        "dl_src=02:00:00:00:00:01",
        "dl_vlan=5",
        "dl_vlan=5,dl_vlan_pcp=1",
        "vlan_tci=0x1000/0x1000",
        "vlan_tci=0/0x1fff",
        "reg0=1",
        "metadata=1/1",
        "dl_type=0x88b5",
        "ct_state=-trk",
        "conj_id=1",
    ],
    actions: &[
        "output:1",
        "output:2",
        "output:3",
        "output:9",
        "in_port",
        "all",
        "flood",
        "normal",
        "local",
        "controller",
        "controller(max_len=20,id=3)",
        "drop",
        "exit",
        "mod_dl_dst:02:00:00:00:00:03",
        "mod_vlan_vid:5",
        "strip_vlan",
        "push_vlan:0x8100",
        "push_vlan:0x88a8",
        "push_mpls:0x8847",
        "push_pbb:0x88e7",
        "load:1->NXM_NX_REG0[]",
        "move:NXM_OF_IN_PORT[0..1]->NXM_NX_REG0[0..1]",
        "output:NXM_NX_REG0[0..2]",
        "push:NXM_NX_REG0[]",
        "pop:NXM_NX_REG0[]",
        "resubmit(,1)",
        "resubmit(2,2)",
        "clone(mod_dl_src:02:00:00:00:00:04,output:4)",
        "group:1",
        "group:2",
        "group:3",
        "meter:1",
        "set_queue:1,output:2,pop_queue",
        "note:01",
        "learn(table=1,priority=9,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],output:NXM_OF_IN_PORT[])",
        "learn(table=2,dl_type=0x88b5,load:1->NXM_NX_REG0[])",
    ],
};

/// Instructions after the actions.
const INSTRUCTIONS: &[&str] = &[
    "",
    "",
    "",
    "clear_actions",
    "write_actions(output:2,mod_dl_src:02:00:00:00:00:07)",
    "write_actions(group:1,push_vlan:0x8100)",
    "write_metadata:1/1",
    "goto_table:1",
    "goto_table:2",
    "write_actions(output:4),goto_table:1",
    "write_metadata:1/1,goto_table:2",
];

const TRANSPORT: &[&str] = &[
    "mod_nw_src:10.0.0.3",
    "mod_nw_dst:10.0.0.1",
    "mod_nw_tos:4",
    "mod_nw_ecn:1",
    "mod_nw_ttl:2",
    "dec_ttl",
    "dec_ttl(1,2)",
    "ct(table=1)",
    "ct(commit,zone=1)",
    "ct(commit,zone=1,table=1,exec(load:7->NXM_NX_CT_MARK[]))",
    "ct(commit,nat(dst=10.0.0.3),table=1)",
    "ct(table=2,zone=1,nat)",
    "ct_clear",
    "fin_timeout(idle_timeout=1)",
    "move:NXM_OF_IP_SRC[]->NXM_NX_REG1[]",
];

const KINDS: [Kind; 9] = [
    ETHERNET,
    Kind {
        matches: &[
            "ip",
            "ip,nw_src=10.0.0.1",
            "ip,nw_dst=10.0.0.0/30",
            "ip,nw_dst=10.0.0.2",
            "ip,nw_ttl=1",
            "ip,nw_tos=4",
            "ip,nw_ecn=1",
            "ip,nw_frag=first",
            "ip,nw_frag=later",
            "ip,nw_frag=no",
            "ip,nw_proto=47",
            "ip,ct_state=+trk+new",
            "ip,ct_state=+trk+est",
            "ip,ct_state=+trk+rpl,ct_zone=1",
            "ip,ct_mark=7",
            "ip,ct_state=+inv",
        ],
        actions: TRANSPORT,
    },
    Kind {
        matches: &[
            "udp,tp_dst=53",
            "udp,tp_src=1/1",
            "tcp,tp_dst=80",
            "tcp,tcp_flags=+syn",
            "tcp,tcp_flags=+fin",
            "tcp,ct_state=+trk+est,ct_tp_dst=80",
            "sctp,tp_src=1",
            "udp6,tp_dst=53",
            "tcp6,tp_dst=80",
        ],
        actions: &["mod_tp_dst:81", "mod_tp_src:2", "output:2", "dec_ttl", "ct(commit,alg=ftp,table=1)"],
    },
    Kind {
        matches: &["icmp,icmp_type=8", "icmp,icmp_type=3,icmp_code=1", "icmp6,icmp_type=128"],
        actions: &["set_field:0->icmp_type", "set_field:1->icmp_code", "output:3", "ct(commit,table=1)"],
    },
    Kind {
        matches: &[
            "ipv6",
            "ipv6,ipv6_src=fd00::1",
            "ipv6,ipv6_dst=fd00::/126",
            "ipv6,ipv6_label=5",
            "ipv6,nw_frag=later",
            "ipv6,nw_ttl=1",
            "ipv6,ct_state=+trk+new",
        ],
        actions: &[
            "set_field:fd00::3->ipv6_src",
            "set_field:fd00::2->ipv6_dst",
            "set_field:6->ipv6_label",
            "dec_ttl",
            "ct(table=1)",
            "ct(commit,zone=1)",
        ],
    },
    Kind {
        matches: &[
            "icmp6,icmp_type=135,icmp_code=0,nd_target=fd00::2",
            "icmp6,icmp_type=135,icmp_code=0,nd_sll=02:00:00:00:00:01",
            "icmp6,icmp_type=136,icmp_code=0,nd_target=fd00::2",
        ],
        actions: &["set_field:fd00::5->nd_target", "output:1", "controller"],
    },
    Kind {
        matches: &["arp", "arp,arp_op=1", "arp,arp_tpa=10.0.0.0/30", "arp,arp_sha=02:00:00:00:00:01"],
        actions: &[
            "set_field:2->arp_op",
            "set_field:10.0.0.9->arp_spa",
            "move:NXM_OF_ETH_SRC[]->NXM_NX_ARP_THA[]",
            "output:1",
        ],
    },
    Kind {
        matches: &["mpls", "mpls,mpls_label=1", "mpls,mpls_bos=1", "mpls,mpls_ttl=1"],
        actions: &[
            "pop_mpls:0x0800",
            "pop_mpls:0x8847",
            "pop_mpls:0x0800,resubmit(,1)",
            "pop_mpls:0x0800,dec_ttl,output:2",
            "dec_mpls_ttl",
            "set_mpls_ttl:9",
            "set_field:3->mpls_label",
            "copy_ttl_in",
            "copy_ttl_out",
        ],
    },
    Kind {
        matches: &["dl_type=0x88e7", "dl_type=0x88e7,pbb_isid=5"],
        actions: &["set_field:6->pbb_isid", "pop_pbb", "pop_pbb,resubmit(,1)"],
    },
];

/// A match with actions that fit it.
fn matching() -> impl Strategy<Value = (String, Vec<&'static str>, &'static str)> {
    (0..KINDS.len()).prop_flat_map(|kind| {
        let kind = &KINDS[kind];
        let action = prop_oneof![2 => select(ETHERNET.actions), 1 => select(kind.actions)];
        let second = prop_oneof![3 => Just(""), 1 => select(ETHERNET.matches)];
        let actions = prop::collection::vec(action, 1..5);
        (select(kind.matches), second, actions, select(INSTRUCTIONS)).prop_map(
            |(first, second, actions, instructions)| {
                let mut parts = vec![first, second];
                parts.retain(|part| !part.is_empty());
                parts.dedup();
                (parts.join(","), actions, instructions)
            },
        )
    })
}

fn added(table: u8, priority: u16, matching: &str, actions: &[&str]) -> String {
    let actions = actions.iter().filter(|action| !action.is_empty()).copied().collect::<Vec<_>>().join(",");
    let separator = if matching.is_empty() { "" } else { "," };
    format!("flow add table={table},priority={priority}{separator}{matching},actions={actions}")
}

/// A line that adds or removes a flow.
fn flow() -> impl Strategy<Value = String> {
    let place = (select(vec![0_u8, 0, 0, 1, 1, 2]), 2..24_u16);
    let usual =
        (place.clone(), matching()).prop_map(|((table, priority), (matching, actions, instructions))| {
            added(table, priority, &matching, &[&actions[..], &[instructions]].concat())
        });
    let conjunction =
        (place.clone(), matching(), 1..3_u8).prop_map(|((table, priority), (matching, ..), clause)| {
            added(table, priority, &matching, &[&format!("conjunction(1,{clause}/2)")])
        });
    let removed = (place, matching()).prop_map(|((table, _), (matching, ..))| {
        format!("flow delete table={table}{}{matching}", if matching.is_empty() { "" } else { "," })
    });
    prop_oneof![16 => usual, 1 => conjunction, 2 => removed]
}

/// The flow of a table for packets without another one.
fn last(table: u8) -> impl Strategy<Value = String> {
    matching().prop_map(move |(_, actions, instructions)| {
        // Actions of any packet.
        let fits = |action: &&str| ETHERNET.actions.contains(action);
        let actions: Vec<_> = actions.into_iter().filter(fits).chain(["output:2", instructions]).collect();
        added(table, 0, "", &actions)
    })
}

/// Bytes after the tags of a frame: the EtherType and what follows.
fn body() -> impl Strategy<Value = Vec<u8>> {
    let hosts = (1..4_u8, 1..4_u8);
    let ports = (select(vec![1_u16, 2, 53]), select(vec![21_u16, 53, 80]));
    let ip = (hosts, ports, select(vec![1_u8, 2, 64]), select(vec![0_u8, 4, 5]), any::<bool>(), 0..8_u8);
    let wrapped = (0..4_u8, any::<bool>());
    (ip, wrapped).prop_map(|((hosts, ports, ttl, tos, is_v6, what), (outer, is_bottom))| {
        let packet = match what {
            6 => arp(hosts),
            7 => vec![0x88, 0xb5, 1, 2, 3, 4],
            what => ip_packet(is_v6, hosts, (ttl, tos), &transport(what, is_v6, hosts, ports)),
        };
        match outer {
            0 => {
                let bottom = if is_bottom { vec![] } else { vec![0, 0, 0x21, 7] };
                let first = [0x88, 0x47, 0, 0, 0x10 | u8::from(is_bottom), ttl];
                [&first[..], &bottom, &packet[2..]].concat()
            }
            1 => [&[0x88, 0xe7, 0, 0, 0, 5, 2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1][..], &packet].concat(),
            _ => packet,
        }
    })
}

/// Protocol and bytes of a transport header.
fn transport(what: u8, is_v6: bool, hosts: (u8, u8), ports: (u16, u16)) -> (u8, Vec<u8>) {
    let ends = [ports.0.to_be_bytes(), ports.1.to_be_bytes()].concat();
    let flags = [0x02, 0x12, 0x10, 0x11][usize::from(hosts.0 ^ hosts.1)];
    match (what, is_v6) {
        (0, _) => (17, [&ends[..], &[0, 12, 0, 0, 7, 7, 7, 7]].concat()),
        (1, _) => (6, [&ends[..], &[0, 0, 0, 1, 0, 0, 0, 1, 0x50, flags, 9, 9, 0, 0, 0, 0]].concat()),
        (2, _) => (132, [&ends[..], &[0, 0, 0, 1, 0, 0, 0, 0, 3, 0, 0, 4]].concat()),
        (3, false) => (1, vec![8, 0, 0, 0, 0, 9, 0, 1, 7, 7]),
        (3, true) => (58, vec![128, 0, 0, 0, 0, 9, 0, 1, 7, 7]),
        (4, true) => {
            let mut message = vec![135 + (hosts.0 & 1), 0, 0, 0, 0, 0, 0, 0];
            message.extend(address(true, hosts.1));
            message.extend([1, 1, 2, 0, 0, 0, 0, 1]);
            (58, message)
        }
        _ => (47, vec![0, 0, 8, 0, 0x45, 0, 0, 0]),
    }
}

fn address(is_v6: bool, host: u8) -> Vec<u8> {
    let first: &[u8] = if is_v6 { &[0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0] } else { &[10, 0, 0] };
    [first, &[host]].concat()
}

fn ip_packet(
    is_v6: bool,
    hosts: (u8, u8),
    (ttl, tos): (u8, u8),
    (protocol, payload): &(u8, Vec<u8>),
) -> Vec<u8> {
    let addresses = [address(is_v6, hosts.0), address(is_v6, hosts.1)].concat();
    // Some are fragments.
    let fragment = [0, 0, 0, 0x20, 2][usize::from(hosts.0 + hosts.1 - 2)];
    if is_v6 {
        let len = payload.len() as u8;
        return [&[0x86, 0xdd, 0x60, tos << 4, 0, 5, 0, len, *protocol, ttl][..], &addresses, payload]
            .concat();
    }
    let (high, low) = if fragment == 2 { (0, 2) } else { (fragment, 0) };
    let len = 20 + payload.len() as u8;
    let mut packet = vec![8, 0, 0x45, tos, 0, len, 0, 1, high, low, ttl, *protocol, 0, 0];
    packet.extend(addresses);
    let sum = wire::checksum::Sum::of(&packet[2..]).finish();
    packet[12..14].copy_from_slice(&sum);
    [packet, payload.clone()].concat()
}

fn arp(hosts: (u8, u8)) -> Vec<u8> {
    let mut packet = vec![8, 6, 0, 1, 8, 0, 6, 4, 0, 1 + (hosts.0 & 1), 2, 0, 0, 0, 0, hosts.0];
    packet.extend(address(false, hosts.0));
    packet.extend([0; 6]);
    packet.extend(address(false, hosts.1));
    packet
}

/// A line that sends a frame, which may be cut off or have a changed byte.
fn sent() -> impl Strategy<Value = String> {
    let tag = select(vec![[0x81, 0, 0, 5], [0x81, 0, 0x20, 5], [0x88, 0xa8, 0, 6]]);
    let tags = prop_oneof![
        4 => Just(Vec::new()),
        3 => prop::collection::vec(tag, 1..4),
    ];
    let cut = prop::option::weighted(0.15, any::<prop::sample::Index>());
    let changed = prop::option::weighted(0.15, (any::<prop::sample::Index>(), 1..=255_u8));
    (0..3_u8, 1..4_u8, select(vec![1_u8, 2, 3]), tags, body(), cut, changed).prop_map(
        |(port, source, destination, tags, body, cut, changed)| {
            let group = destination & 1;
            let mut frame = [[2 | group, 0, 0, 0, 0, destination], [2, 0, 0, 0, 0, source]].concat();
            frame.extend(tags.concat());
            frame.extend(body);
            if let Some((at, bits)) = changed {
                let at = at.index(frame.len());
                frame[at] ^= bits;
            }
            if let Some(cut) = cut {
                frame.truncate(14 + cut.index(frame.len() - 13));
            }
            let hex = frame.iter().fold(String::new(), |mut hex, byte| {
                write!(hex, "{byte:02x}").unwrap();
                hex
            });
            format!("send {port} {hex}")
        },
    )
}

/// Groups and a meter, of which flows may use none.
const SETUP: &str = "meter meter=1,kbps,band=type=drop,rate=1\n\
    group group_id=1,type=all,bucket=output:2,bucket=mod_dl_dst:02:00:00:00:00:05,output:3\n\
    group group_id=2,type=indirect,bucket=push_vlan:0x8100,output:1\n\
    group group_id=3,type=ff,bucket=watch_port:9,output:9,bucket=watch_port:2,output:2\n";

/// A script.
fn script() -> impl Strategy<Value = String> {
    let step = prop_oneof![
        1 => flow(),
        4 => sent(),
        1 => (0..3000_u16).prop_map(|millis| format!("wait {millis}")),
    ];
    let flows = (last(0), last(1), prop::collection::vec(flow(), 1..25));
    (flows, prop::collection::vec(step, 1..60)).prop_map(|((first, second, flows), steps)| {
        // The second time, results are cached.
        let again = steps.iter().filter(|line| line.starts_with("send")).cloned().collect();
        SETUP.to_owned() + &[vec![first, second], flows, steps, again].concat().join("\n")
    })
}

proptest! {
    #[test]
    fn caches_agree_with_tables_for_all_protocols(script in script()) {
        fuzz_script(script.as_bytes());
    }
}

/// What the generator writes is read, except for what does not fit the match of its flow.
#[test]
fn scripts_are_read() {
    use crate::text::{NoNames, parse_flow, parse_group, parse_match};
    for kind in &KINDS {
        for matching in kind.matches {
            parse_match(matching, &NoNames).unwrap_or_else(|e| panic!("{matching}: {e}"));
        }
        for action in ETHERNET.actions.iter().chain(kind.actions) {
            let read = |matching: &&str| {
                let matching = if matching.is_empty() { String::new() } else { format!("{matching},") };
                parse_flow(&format!("add table=0,{matching}actions={action}"), None, &NoNames).is_ok()
            };
            assert!(kind.matches.iter().any(read), "{action}");
        }
    }
    for line in SETUP.lines().filter_map(|line| line.strip_prefix("group ")) {
        parse_group(line, crate::GroupCommand::Add, &NoNames).unwrap();
    }
}
