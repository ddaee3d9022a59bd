//! Rules as flows, and their contradictions.

use super::super::{FileFlows, texts};
use super::*;
use crate::host::Host;
use crate::settings::config;
use crate::settings::flows::FilePorts;
use crate::settings::topology::Topology;

const BRIDGE: &str = "[[bridge]]\nname = \"br0\"\npipeline = \"openflow\"\n\
    [[port]]\nname = \"red\"\nkind = \"null\"\n[[port]]\nname = \"blue\"\nkind = \"null\"\n";

fn parse(text: &str) -> Result<Topology, Vec<console::Diagnostic>> {
    config::parse(&format!("{BRIDGE}{text}"), &Host::of(&[0], &[0]), None)
}

fn flows(text: &str) -> Vec<String> {
    let topology = parse(text).unwrap_or_else(|e| panic!("{e:?} in\n{text}"));
    assert!(topology.flow_changes("br0").is_ok(), "{text}");
    let ports = FilePorts::new(["red", "blue"].into_iter(), None);
    texts(&topology.flows, "br0", &ports, zone(0)).into_iter().map(|(_, text)| text).collect()
}

fn refused(text: &str) -> String {
    format!("{:?}", parse(text).unwrap_err())
}

#[test]
fn rules_become_flows_in_the_order_of_the_file() {
    let text = "[[acl]]\naction = \"allow\"\nfrom = \"red\"\nto = \"blue\"\nprotocol = \"tcp\"\n\
        source = \"10.0.0.0/8\"\ndestination_ports = [\"80\", \"8080-8083\"]\n\
        [[acl]]\naction = \"deny\"\ndestination = \"2001:db8::/32\"\n\
        [[acl]]\naction = \"allow\"\nprotocol = \"arp\"\n[[acl]]\naction = \"deny\"\nprotocol = \"udp\"\n\
        [[acl]]\naction = \"allow\"\n";
    let expected = [
        "priority=60000,cookie=0xac100000,in_port=1,tcp,nw_src=10.0.0.0/8,tp_dst=0x50/0xffff,actions=output:2",
        "priority=60000,cookie=0xac100000,in_port=1,tcp,nw_src=10.0.0.0/8,tp_dst=0x1f90/0xfffc,actions=output:2",
        "priority=59999,cookie=0xac100001,ipv6,ipv6_dst=2001:db8::/32,actions=drop",
        "priority=59998,cookie=0xac100002,arp,actions=NORMAL",
        "priority=59997,cookie=0xac100003,udp,actions=drop",
        "priority=59997,cookie=0xac100003,udp6,actions=drop",
        "priority=59996,cookie=0xac100004,actions=NORMAL",
    ];
    assert_eq!(flows(text), expected);
}

#[test]
fn stateful_rules_admit_the_first_packets_of_connections_and_those_of_their_mark() {
    let text = "[[acl]]\naction = \"allow\"\nprotocol = \"nd\"\n\
        [[acl]]\naction = \"allow\"\nfrom = \"red\"\nprotocol = \"tcp\"\ndestination = \"10.0.0.0/8\"\n\
        destination_ports = [\"22\"]\nstateful = true\n";
    let flows = flows(text);
    let expected = [
        "priority=60001,cookie=0xac100001,ip,ct_state=-trk,actions=ct(table=0,zone=44032)",
        "priority=60001,cookie=0xac100001,ipv6,ct_state=-trk,actions=ct(table=0,zone=44032)",
    ];
    assert_eq!(flows[..2], expected);
    assert_eq!(flows[2], "priority=60000,cookie=0xac100000,icmp6,icmp_type=133,actions=NORMAL");
    let expected = [
        "priority=59999,cookie=0xac100001,in_port=1,tcp,nw_dst=10.0.0.0/8,tp_dst=0x16/0xffff,ct_state=+new+trk,\
         actions=ct(commit,zone=44032,exec(set_field:2->ct_mark)),NORMAL",
        "priority=60001,cookie=0xac100001,in_port=1,ip,ct_state=-new-inv-rpl+trk,ct_zone=44032,ct_mark=0x2,\
         actions=NORMAL",
        "priority=60001,cookie=0xac100001,ip,ct_state=-new-inv+rpl+trk,ct_zone=44032,ct_mark=0x2,actions=output:1",
    ];
    assert_eq!(flows[6..], expected);
}

#[test]
fn contradictions_are_refused_with_their_reasons() {
    for (rule, reason) in [
        ("action = \"deny\"\nto = \"red\"", "sent to no port"),
        ("action = \"allow\"\nfrom = \"red\"\nto = \"red\"", "port of `from`"),
        ("action = \"allow\"\nsource_ports = [\"1\"]", "requires a protocol with ports"),
        ("action = \"allow\"\nprotocol = \"icmp6\"\nsource = \"10.0.0.1\"", "no packet has"),
        ("action = \"allow\"\nsource = \"::1\"\ndestination = \"10.0.0.1\"", "no packet has"),
        ("action = \"allow\"\nprotocol = \"arp\"\nsource = \"10.0.0.1\"", "has no IP addresses"),
        ("action = \"allow\"\nsource = \"10.0.0.0/33\"", "not 0 to 32"),
        ("action = \"allow\"\nprotocol = \"tcp\"\nsource_ports = [\"9-8\"]", "not a port"),
        ("action = \"deny\"\nstateful = true", "has no effect"),
        ("action = \"allow\"\nstateful = true\nprotocol = \"arp\"", "a protocol with connections"),
        ("action = \"allow\"\nprotocol = \"nd\"\nsource = \"10.0.0.1\"", "no packet has"),
        ("action = \"allow\"\nfrom = \"green\"", "there is no port"),
        ("action = \"permit\"", "expected \\\"allow\\\""),
        ("protocol = \"tcp\"", "`action` is missing"),
    ] {
        let found = refused(&format!("[[acl]]\n{rule}\n"));
        assert!(found.contains(reason), "{rule}: {found}");
    }
    let odd: Vec<_> = (0..100).map(|n| format!("\"{}\"", 2 * n + 1)).collect();
    let odd = odd.join(", ");
    let many = format!("protocol = \"tcp\"\nsource_ports = [{odd}]\ndestination_ports = [{odd}]\n");
    assert!(refused(&format!("[[acl]]\naction = \"deny\"\n{many}")).contains("needs 20000 flows"));
}

#[test]
fn a_file_without_sections_is_empty() {
    assert!(
        FileFlows::default().is_empty() && !parse("[[acl]]\naction = \"deny\"\n").unwrap().flows.is_empty()
    );
}

/// Blocks match the ports of the range, each once.
#[test]
fn blocks_make_up_the_range() {
    for (low, high) in [(0, 65_535), (0, 0), (65_535, 65_535), (1, 65_534), (80, 80), (1023, 1025), (7, 4100)]
    {
        let blocks = port_masks(&(low..=high));
        assert!(blocks.len() <= 30, "{blocks:?}");
        for port in 0..=u16::MAX {
            let found = blocks.iter().filter(|(value, mask)| port & mask == *value).count();
            assert_eq!(found, usize::from((low..=high).contains(&port)), "{port} in {low}-{high}");
        }
    }
}
