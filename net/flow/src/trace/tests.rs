//! Traces with the flows, packets and results of Open vSwitch's tests/ofproto-dpif.at, and what traces add to them.

use super::*;
use crate::tables::Modification;
use crate::text::{NoNames, parse_flow, parse_group, parse_match, show};
use crate::{FlowCommand, GroupCommand};
use conntrack::{Request, State, Tracker, sample};
use port::Now;

struct Ports;

impl Environment for Ports {
    fn is_live(&self, port: PortNo) -> bool {
        port.0 < 11
    }
}

const ICMP: &str = "in_port=1,dl_src=50:54:00:00:00:05,dl_dst=50:54:00:00:00:07,dl_type=0x0800,nw_src=192.168.0.1,\
    nw_dst=192.168.0.2,nw_proto=1,nw_tos=0,nw_ttl=128,nw_frag=no,icmp_type=8,icmp_code=0";

fn tables(groups: &[&str], flows: &[&str]) -> Tables {
    let mut tables = Tables::new(1);
    for text in groups {
        tables.apply_group(&parse_group(text, GroupCommand::Add, &NoNames).unwrap()).unwrap();
    }
    for text in flows {
        let flow = parse_flow(text, Some(FlowCommand::Add), &NoNames).unwrap();
        tables.apply(&flow, Now(0)).unwrap_or_else(|e| panic!("{text}: {e}"));
    }
    tables
}

fn packet(text: &str) -> TracedPacket {
    TracedPacket::from_match(&parse_match(text, &NoNames).unwrap()).unwrap()
}

fn traced(tables: &Tables, text: &str) -> Trace {
    trace_unconnected(tables, &packet(text))
}

/// A trace without connections.
fn trace_unconnected(tables: &Tables, packet: &TracedPacket) -> Trace {
    let tracker = Tracker::new(&conntrack::Config::default());
    trace(tables, packet, &Ports, &mut Connections::new(&tracker, Now(0), &[]))
}

/// Operations of the first pass.
fn operations(trace: &Trace) -> String {
    show(trace.passes[0].translation.operations.as_slice(), &NoNames).to_string()
}

fn megaflow(trace: &Trace) -> String {
    show(&trace.passes[0].megaflow(), &NoNames).to_string()
}

fn outputs(ports: impl IntoIterator<Item = u32>) -> String {
    ports.into_iter().map(|port| format!("output:{port}")).collect::<Vec<_>>().join(",")
}

/// Steps and changes of a pass, indented.
fn lines(pass: &Pass) -> Vec<String> {
    let step = |step: &Step| {
        let changes = step.changes().into_iter().map(|change| format!(" [{}]", show(&change, &NoNames)));
        "  ".repeat(step.depth) + &show(&step.event, &NoNames).to_string() + &changes.collect::<String>()
    };
    pass.steps.iter().map(step).collect()
}

#[test]
fn resubmits_are_followed_in_order() {
    let flows = [
        "table=0 in_port=1 priority=1000 icmp actions=output(10),resubmit(2),output(19),resubmit(3),output(21)",
        "table=0 in_port=2 priority=1500 icmp actions=output(11),resubmit(,1),output(16),resubmit(2,1),output(18)",
        "table=0 in_port=3 priority=2000 icmp actions=output(20)",
        "table=1 in_port=1 priority=1000 icmp actions=output(12),resubmit(4,1),output(13),resubmit(3),output(15)",
        "table=1 in_port=2 priority=1500 icmp actions=output(17),resubmit(,2)",
        "table=1 in_port=3 priority=1500 icmp actions=output(14),resubmit(,2)",
    ];
    let trace = traced(&tables(&[], &flows), ICMP);
    assert_eq!(operations(&trace), outputs(10..=21));
    assert_eq!(trace.passes[0].final_flow(), None);
    assert_eq!(trace.passes[0].verdict, Verdict::Sent);
    let lines = lines(&trace.passes[0]);
    assert_eq!(lines[0], "table 0: icmp,in_port=1, priority 1000, cookie 0x0");
    let missed: Vec<_> =
        lines.iter().filter(|line| line.contains("no flow")).map(|line| line.trim()).collect();
    assert_eq!(missed, ["table 1: no flow", "table 2: no flow", "table 2: no flow"]);
}

#[test]
fn tables_follow_each_other_at_one_depth() {
    let first = "table=0 in_port=1 actions=output(10),goto_table(1)".to_owned();
    let next = (1..64).map(|i| format!("table={i} actions=goto_table({})", i + 1));
    let flows: Vec<_> =
        std::iter::once(first).chain(next).chain(["table=64 actions=output(11)".to_owned()]).collect();
    let flows: Vec<_> = flows.iter().map(String::as_str).collect();
    let trace = traced(&tables(&[], &flows), ICMP);
    assert_eq!(operations(&trace), outputs([10, 11]));
    assert_eq!(trace.passes[0].steps.iter().filter(|step| step.depth == 0).count(), 65);
}

#[test]
fn written_actions_are_a_step_after_the_tables() {
    let flows = [
        "table=0 in_port=1,ip actions=output(10),write_actions(set_field:192.168.3.90->ip_src,output(12)),goto_table(1)",
        "table=1 ip actions=write_actions(output(13)),goto_table(2)",
        "table=2 ip actions=set_field:192.168.3.91->ip_src,output(11)",
    ];
    let trace = traced(&tables(&[], &flows), ICMP);
    let expected =
        "output:10,set_field:192.168.3.91->ip_src,output:11,set_field:192.168.3.90->ip_src,output:13";
    assert_eq!(operations(&trace), expected);
    // Sets do not widen the mask here, so that `nw_src` and `nw_frag` of Open vSwitch's megaflow are not needed.
    assert_eq!(megaflow(&trace), "recirc_id=0,ip,in_port=1");
    let lines = lines(&trace.passes[0]);
    let place = lines.iter().position(|line| line == "action set").expect("the action set");
    assert_eq!(lines[place + 1], "  set_field:192.168.3.90->ip_src [nw_src 192.168.3.91 -> 192.168.3.90]");
    let last = trace.passes[0].final_flow().expect("the packet was changed");
    assert!(show(&last, &NoNames).to_string().contains("nw_src=192.168.3.90,nw_dst=192.168.0.2"));
}

#[test]
fn cleared_actions_are_not_executed() {
    let flows = [
        "table=0 in_port=1,ip actions=output(10),write_actions(set_field:192.168.3.90->ip_src,output(12)),goto_table(1)",
        "table=1 tcp actions=set_field:91->tp_src,output(11),clear_actions",
    ];
    let packet = "in_port=1,dl_src=50:54:00:00:00:05,dl_dst=50:54:00:00:00:07,dl_type=0x0800,nw_src=192.168.0.1,\
        nw_dst=192.168.0.2,nw_proto=6,nw_tos=0,nw_ttl=128,nw_frag=no,tp_src=8,tp_dst=9";
    let trace = traced(&tables(&[], &flows), packet);
    assert_eq!(operations(&trace), "output:10,set_field:91->tcp_src,output:11");
}

#[test]
fn groups_show_the_buckets_that_get_the_packet() {
    let groups = [
        "group_id=123,type=all,bucket=output:10",
        "group_id=1234,type=all,bucket=set_field:192.168.3.90->ip_src,group:123,bucket=output:11",
        "group_id=5,type=ff,bucket=watch_port:11,output:11,bucket=watch_port:10,output:10",
    ];
    let trace = traced(&tables(&groups, &["ip actions=group:1234"]), ICMP);
    // Open vSwitch restores the address for the second bucket instead of copying the packet for the first.
    assert_eq!(operations(&trace), "clone(set_field:192.168.3.90->ip_src,output:10),output:11");
    let expected = [
        "table 0: ip, priority 32768, cookie 0x0",
        "  group:1234",
        "    bucket 0",
        "      set_field:192.168.3.90->ip_src [nw_src 192.168.0.1 -> 192.168.3.90]",
        "      group:123",
        "        bucket 0",
        "          output:10",
        "    bucket 1",
        "      output:11",
    ];
    assert_eq!(lines(&trace.passes[0]), expected);
    let trace = traced(&tables(&groups, &["ip actions=write_actions(group:5)"]), ICMP);
    assert_eq!(operations(&trace), "output:10");
    assert!(lines(&trace.passes[0]).contains(&"    bucket 1".to_owned()), "the first one that is live");
}

#[test]
fn a_select_group_marks_the_bucket_of_the_packet() {
    let groups = ["group_id=1,type=select,bucket=output:2,bucket=output:3,bucket=output:4"];
    let trace = traced(&tables(&groups, &["ip actions=group:1"]), ICMP);
    let selected = trace.passes[0].steps.iter().filter_map(|step| match step.event {
        Event::Bucket { position, is_selected } => Some((position, is_selected)),
        _ => None,
    });
    let selected: Vec<_> = selected.collect();
    assert_eq!(selected.iter().filter(|(_, is_selected)| *is_selected).count(), 1, "{selected:?}");
    let [crate::translate::Operation::Select(selection)] = &trace.passes[0].translation.operations[..] else {
        panic!("{}", operations(&trace))
    };
    let expected = selected.iter().position(|(_, is_selected)| *is_selected).unwrap() as u32 + 2;
    let executed = selection.operations(&trace.passes[0].packet);
    assert_eq!(show(executed, &NoNames).to_string(), format!("output:{expected}"));
}

#[test]
fn registers_lead_to_outputs() {
    let flows = [
        "in_port=1 actions=resubmit:2,resubmit:3,resubmit:4,resubmit:5,resubmit:6,resubmit:7,resubmit:8",
        "in_port=2 actions=output:9",
        "in_port=3 actions=load:55->NXM_NX_REG0[],output:NXM_NX_REG0[],load:66->NXM_NX_REG1[]",
        "in_port=4 actions=output:10,output:NXM_NX_REG0[],output:NXM_NX_REG1[],output:11",
        "in_port=5 actions=load:77->NXM_NX_REG0[0..15],load:88->NXM_NX_REG0[16..31]",
        "in_port=6 actions=output:NXM_NX_REG0[0..15],output:NXM_NX_REG0[16..31]",
        "in_port=7 actions=load:0x110000ff->NXM_NX_REG0[],output:NXM_NX_REG0[]",
        "in_port=8 actions=1,9,load:9->NXM_OF_IN_PORT[],1,9",
    ];
    let trace = traced(&tables(&[], &flows), ICMP);
    // Port 0x110000ff is beyond the ports of Open vSwitch, and possible here.
    assert_eq!(operations(&trace), outputs([9, 55, 10, 55, 66, 11, 77, 88, 0x1100_00ff, 9, 1]));
}

#[test]
fn the_output_of_the_action_set_can_be_matched() {
    let groups = ["group_id=5,type=all,bucket=output:1"];
    let flows = [
        "table=0,actions=write_actions(output(2)),goto_table(1)",
        "table=1,priority=20,actset_output=2 actions=4,goto_table(8)",
        "table=1,priority=10 actions=5,goto_table(8)",
        "table=8,actions=clear_actions,write_actions(output(3),output(2)),goto_table(9)",
        "table=9,priority=20,actset_output=2 actions=12",
        "table=9,priority=10 actions=13",
    ];
    let trace = traced(&tables(&groups, &flows), ICMP);
    assert_eq!(operations(&trace), outputs([4, 12, 2]));
}

#[test]
fn an_expired_time_to_live_ends_the_packet() {
    let flows = [
        "table=0 in_port=1 actions=dec_ttl,output:2,resubmit(1,1),output:4",
        "table=1 in_port=1 actions=dec_ttl,output:3",
    ];
    let tables = tables(&[], &flows);
    let at = |ttl: u8| traced(&tables, &format!("ip,in_port=1,nw_proto=111,nw_ttl={ttl}"));
    let trace = at(3);
    assert_eq!(operations(&trace), "dec_ttl,output:2,dec_ttl,output:3,output:4");
    assert_eq!(trace.passes[0].verdict, Verdict::Sent);
    let lines = lines(&trace.passes[0]);
    assert_eq!(lines[1], "  dec_ttl [nw_ttl 3 -> 2]");
    assert_eq!(at(2).passes[0].verdict, Verdict::Expired);
    // One megaflow for all times to live; Open vSwitch has one for each.
    assert_eq!(megaflow(&trace), "recirc_id=0,ip,in_port=1");
}

#[test]
fn a_drop_names_its_table_and_cause() {
    let verdict = |flows: &[&str]| traced(&tables(&[], flows), ICMP).passes[0].verdict.to_string();
    assert_eq!(verdict(&["udp,actions=output:2"]), "dropped, no-flow: no flow of table 0 matches");
    assert_eq!(verdict(&["icmp,actions=drop"]), "dropped, flow-drop: the flows have no output");
    let missed = "dropped, flow-drop: no flow of table 7 matches, and earlier ones have no output";
    assert_eq!(verdict(&["icmp,actions=goto_table:7"]), missed);
    let deep = "dropped, flow-drop: resubmits, clones or groups are nested too deeply";
    assert_eq!(verdict(&["icmp,actions=output:2,resubmit(,0)"]), deep);
}

/// A frame with a label on an IPv4 packet, whose addresses no key has before the label is removed.
fn labelled() -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0x47, 0, 0, 0x11, 64];
    frame.extend([0x45, 0, 0, 20, 0, 1, 0, 0, 9, 111, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    let header = wire::checksum::Sum::of(&frame[18..38]).finish();
    frame[28..30].copy_from_slice(&header);
    frame.resize(60, 0);
    frame
}

#[test]
fn a_frame_continues_after_a_removed_label_with_what_is_below_it() {
    let flows = [
        "mpls,mpls_label=1,actions=pop_mpls:0x0800,load:7->NXM_NX_REG3[],goto_table:1",
        "table=1,ip,reg3=7,nw_dst=10.0.0.2,actions=dec_ttl,output:3",
    ];
    let (tables, frame) = (tables(&[], &flows), labelled());
    let trace = trace_unconnected(&tables, &TracedPacket::from_frame(&frame, frame.len(), PortNo(1)));
    assert_eq!((trace.passes.len(), trace.omitted), (2, 0));
    assert_eq!(operations(&trace), "pop_mpls:0x0800,recirculate");
    assert_eq!(lines(&trace.passes[0]).last().unwrap().trim(), "recirculation");
    let second = &trace.passes[1];
    assert_eq!(show(second.translation.operations.as_slice(), &NoNames).to_string(), "dec_ttl,output:3");
    assert!(show(&second.flow(), &NoNames).to_string().contains("nw_src=10.0.0.1,nw_dst=10.0.0.2"));
    assert_eq!(lines(second)[1], "  dec_ttl [nw_ttl 9 -> 8]");
    assert_eq!(second.verdict, Verdict::Sent);
}

#[test]
fn records_and_passes_are_bounded() {
    let many = format!("ip,actions={}", vec!["set_field:1->reg0"; 2000].join(","));
    let trace = traced(&tables(&[], &[&many]), ICMP);
    assert_eq!((trace.passes[0].steps.len(), trace.passes[0].omitted), (1000, 1001));
    let again = "ip,actions=ct(table=0)";
    let trace = traced(&tables(&[], &[again]), ICMP);
    assert_eq!((trace.passes.len(), trace.omitted), (32, 1));
    let state = trace.passes[1].packet.get(Field::CtState);
    assert_eq!(state, u128::from(crate::ct_state::TRACKED | crate::ct_state::NEW));
}

#[test]
fn a_made_up_packet_needs_an_ingress_port() {
    let found = parse_match("ip", &NoNames).unwrap();
    assert_eq!(TracedPacket::from_match(&found).unwrap_err(), MissingPort);
}

#[test]
fn a_check_finds_what_a_bridge_would_refuse() {
    let change = |text: &str| {
        Modification::Flow(Box::new(parse_flow(text, Some(FlowCommand::Add), &NoNames).unwrap()))
    };
    assert_eq!(crate::check_changes(&[change("ip,actions=output:1")]), Ok(()));
    let refused = crate::check_changes(&[change("ip,actions=output:1"), change("ip,actions=group:1")]);
    assert!(matches!(refused, Err(crate::ChangeError::Invalid(1, _))), "{refused:?}");
}

#[test]
fn options_of_tunnels_are_shown_with_their_actions() {
    use crate::{OptionChange, text::parse_option};
    let mut tables = Tables::new(1);
    let options = ["{class=1,type=1,len=4}->tun_metadata0", "{class=1,type=2,len=8}->tun_metadata1"];
    let options = options.map(|text| parse_option(text).unwrap());
    tables.apply_options(&OptionChange::Add(options.to_vec())).unwrap();
    let flow =
        "in_port=1,tun_metadata0=5,actions=set_field:7->tun_metadata1,delete_field:tun_metadata0,output:2";
    tables.apply(&parse_flow(flow, None, &NoNames).unwrap(), Now(0)).unwrap();
    let packet =
        TracedPacket::from_match(&parse_match("in_port=1,tun_metadata0=5", &NoNames).unwrap()).unwrap();
    let trace = trace_unconnected(&tables, &packet);
    let operations = show(&trace.passes[0].translation.operations[..], &NoNames).to_string();
    assert_eq!(
        operations,
        "set_field:0->tun_metadata0,set_field:0x7->tun_metadata1,delete_field:tun_metadata0,output:2"
    );
    let megaflow = show(&trace.passes[0].megaflow(), &NoNames).to_string();
    assert_eq!(megaflow, "recirc_id=0,tun_metadata0=0x5,in_port=1");
    let without = TracedPacket::from_match(&parse_match("in_port=1", &NoNames).unwrap()).unwrap();
    let absent = trace_unconnected(&tables, &without);
    let megaflow = show(&absent.passes[0].megaflow(), &NoNames).to_string();
    assert_eq!(megaflow, "recirc_id=0,tun_metadata0=NP,in_port=1");
}

/// The firewall of ovs-actions(7): replies pass.
const FIREWALL: [&str; 4] = [
    "ip,ct_state=-trk,actions=ct(table=1,nat)",
    "table=1,in_port=1,ip,ct_state=+new,actions=ct(commit,nat(src=192.0.2.1)),output:2",
    "table=1,in_port=1,ip,ct_state=+est,actions=output:2",
    "table=1,in_port=2,ip,ct_state=+est+rpl,nw_dst=10.0.0.1,tcp,tp_dst=5000,actions=output:1",
];

#[test]
fn connections_are_looked_up_and_translated() {
    let tables = tables(&[], &FIREWALL);
    let tracker = Tracker::new(&conntrack::Config::default());
    let trace = |packet: &TracedPacket, states: &[u32]| {
        trace(&tables, packet, &Ports, &mut Connections::new(&tracker, Now(5), states))
    };
    let reply = "in_port=2,tcp,nw_src=10.0.0.2,nw_dst=192.0.2.1,tp_src=80,tp_dst=5000";
    let unknown = trace(&packet(reply), &[]);
    assert!(show(&unknown.passes[1].flow(), &NoNames).to_string().contains("ct_state=new|trk"));
    assert!(matches!(unknown.passes[1].verdict, Verdict::Dropped(DropCause::NoFlow(TableId(1)))));
    let ends = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let tuple = conntrack::Tuple::new(ends, 6, 0).with_ports(5000, 80);
    let address = std::net::IpAddr::from([192, 0, 2, 1]);
    let direction = Some(conntrack::Direction::Source);
    let nat = conntrack::Nat { direction, addresses: Some((address, address)), ..conntrack::Nat::default() };
    let request = Request { commit: true, nat: Some(nat), ..Request::default() };
    tracker.track(&sample::tcp(&tuple, 2, (1, 0), &[]), &State::default(), &request, 5).unwrap();
    // Made up, and as a frame.
    let there = tuple.with_ports(5000, 80).reversed();
    let there = conntrack::Tuple::new((there.source(), address), 6, 0).with_ports(80, 5000);
    let ip = sample::tcp(&there, 0x12, (9, 2), &[]);
    let frame = [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0][..], &ip].concat();
    for packet in [packet(reply), TracedPacket::from_frame(&frame, frame.len(), PortNo(2))] {
        let trace = trace(&packet, &[]);
        assert_eq!(trace.passes[1].verdict, Verdict::Sent);
        let flow = show(&trace.passes[1].flow(), &NoNames).to_string();
        assert!(flow.contains("ct_state=est|rpl|trk|dnat") && flow.contains("ct_nw_src=10.0.0.1"), "{flow}");
    }
    // Given states have precedence.
    let trace = trace(&packet(reply), &[crate::ct_state::INVALID]);
    assert!(show(&trace.passes[1].flow(), &NoNames).to_string().contains("ct_state=inv|trk"));
    assert_eq!(tracker.len(), 1);
}

#[test]
fn packets_without_a_place_in_a_connection_are_invalid() {
    let tables = tables(&[], &["actions=ct(table=1)", "table=1,ct_state=+inv+trk,actions=output:2"]);
    let trace = traced(&tables, "in_port=1,arp");
    assert_eq!(trace.passes[1].verdict, Verdict::Sent);
}
