//! Keys of flow tables and connections.

use crate::settings::reader::key::{Key, key, optional, required};

/// `[[flow]]`
pub(crate) const FLOW: &[Key] = &[
    optional("bridge", "the only bridge; required if there are several", "Name of the OpenFlow bridge."),
    required(
        "flow",
        "A flow, or a list of flows, in the syntax of `ovs-ofctl add-flow`, which is added when the switch starts.",
    ),
];

/// `[[acl]]`
pub(crate) const ACL: &[Key] = &[
    optional("bridge", "the only bridge; required if there are several", "Name of the OpenFlow bridge."),
    required("action", "Whether packets of the rule pass."),
    optional("from", "all ports", "Name of the port of the bridge from which packets come."),
    optional(
        "to",
        "as the learning bridge decides",
        "Name of the port of the bridge to which packets are sent, of rules that allow.",
    ),
    optional("protocol", "all", "Protocol of the packets."),
    optional("source", "all", "Source address or prefix, IPv4 or IPv6."),
    optional("destination", "all", "Destination address or prefix, IPv4 or IPv6."),
    optional("source_ports", "all", "Source ports and ranges of ports, such as `\"1024-65535\"`."),
    optional("destination_ports", "all", "Destination ports and ranges of ports, such as `\"80\"`."),
    optional(
        "stateful",
        "false",
        "Whether the rule is for the first packets of connections; their other packets, also replies, pass as well.",
    ),
];

/// `[[underlay]]`
pub(crate) const UNDERLAY: &[Key] = &[
    optional("bridge", "the only bridge; required if there are several", "Name of the OpenFlow bridge."),
    required("addresses", "Addresses with the prefix lengths of their networks, IPv4 or IPv6."),
    optional(
        "routes",
        "the networks of the addresses",
        "Routes to other networks, such as `\"0.0.0.0/0 via 192.0.2.254\"`.",
    ),
    optional("mac", "derived from the datapath identifier", "Ethernet address of the addresses."),
    key("mtu", "1500", "Maximum length of an IP packet of the network in bytes."),
];

/// `[conntrack]`
pub(crate) const CONNTRACK: &[Key] = &[
    key(
        "max",
        "3000000",
        "Maximum number of connections. A new one then replaces one without reply, if there is one.",
    ),
    optional("max_per_zone", "no limit", "Maximum number of connections of each zone."),
    optional(
        "max_per_port",
        "half of `max`",
        "Maximum number of connections that packets of one port have begun.",
    ),
    optional(
        "zones",
        "`max_per_zone`",
        "Maximum number of connections of single zones, such as `{ 5 = 1000 }`.",
    ),
    key(
        "tcp_window_check",
        "true",
        "Whether TCP segments outside of the window are invalid. The kernel fast path forwards no TCP connection then.",
    ),
    optional(
        "timeouts",
        "those of Open vSwitch",
        "Times without packets after which a connection ends, by its state: a section `[conntrack.timeouts]`.",
    ),
    key("timeouts.tcp_syn_sent", "\"30s\"", "TCP, after the first packet."),
    key("timeouts.tcp_syn_recv", "\"30s\"", "TCP, until both sides have acknowledged."),
    key("timeouts.tcp_established", "\"24h\"", "TCP, open."),
    key("timeouts.tcp_fin_wait", "\"15m\"", "TCP, closed by one side."),
    key("timeouts.tcp_time_wait", "\"45s\"", "TCP, closed by both sides."),
    key("timeouts.tcp_close", "\"30s\"", "TCP, closed by both sides and acknowledged, or reset."),
    key("timeouts.udp_first", "\"60s\"", "UDP and other protocols, after the first packet."),
    key("timeouts.udp_single", "\"60s\"", "UDP and other protocols, after packets of one side."),
    key("timeouts.udp_multiple", "\"30s\"", "UDP and other protocols, after packets of both sides."),
    key("timeouts.icmp_first", "\"60s\"", "ICMP, after requests."),
    key("timeouts.icmp_reply", "\"30s\"", "ICMP, after a reply."),
];
