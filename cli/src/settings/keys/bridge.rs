//! Keys of bridges.

use crate::settings::access::Access;
use crate::settings::reader::key::{Key, key, optional, required};

/// `[[bridge]]`
pub(crate) const BRIDGE: &[Key] = &[
    required("name", "Name of the bridge, unique among bridges."),
    key(
        "pipeline",
        "\"learning\"",
        "Pipeline of the bridge: learned addresses, or flow tables (`openflow`), which drop packets without a flow.",
    ),
    key("table", "65536", "Capacity of the address table."),
    key("ageing", "\"5m\"", "Time after which an unused learned address is removed."),
    optional(
        "max_macs_per_port",
        "a quarter of the table",
        "Maximum addresses learned per port, unless the port sets `max_macs`; at most `table`.",
    ),
    key(
        "forward_reserved",
        "false",
        "Whether frames to the group addresses of spanning tree, LACP and LLDP are flooded.",
    ),
    key(
        "mac_moves",
        "\"guarded\"",
        "Condition for moves of a known address to another port: its port has stopped, it has aged, or a trusted port \
         announces it; or any frame (`free`).",
    ),
    key(
        "dhcp_snooping",
        "false",
        "Whether DHCP servers are accepted from trusted ports only, and their leases are recorded.",
    ),
    key(
        "stp",
        "\"off\"",
        "Spanning tree: none, the Rapid Spanning Tree Protocol, or the Spanning Tree Protocol. The following keys \
         `stp_*` need it.",
    ),
    optional(
        "stp_priority",
        "32768",
        "Priority of the bridge, in steps of 4096: the lowest one becomes the root.",
    ),
    optional("stp_hello", "`2s`", "Interval between BPDUs, from 1s to 10s."),
    optional("stp_max_age", "`20s`", "Maximum age of information about the root, from 6s to 40s."),
    optional(
        "stp_forward_delay",
        "`15s`",
        "Time in each of the states before forwarding, from 4s to 30s, if neighbours do not agree.",
    ),
    optional(
        "stp_address",
        "derived from the machine and the names of switch and bridge",
        "Ethernet address of the bridge, which is unique in the network.",
    ),
    optional("sflow", "none", "Export of sampled packets and of counters as sFlow version 5."),
    required("sflow.collectors", "Collectors, at most 8: IP addresses with an optional UDP port (6343)."),
    key("sflow.sampling", "400", "Mean number of received packets of a port for each sample."),
    key("sflow.polling", "\"30s\"", "Interval of counter samples, from 1s to 1h."),
    key("sflow.header", "128", "Maximum bytes of a packet in a sample."),
    optional(
        "sflow.agent",
        "the address from which the first collector is reached",
        "IP address by which collectors know the switch.",
    ),
    optional("ipfix", "none", "Export of the flows of sampled packets as IPFIX."),
    required("ipfix.collectors", "Collectors, at most 8: IP addresses with an optional UDP port (4739)."),
    key("ipfix.sampling", "400", "Mean number of received packets of a port for each sample."),
    optional(
        "ipfix.domain",
        "the number of the bridge in the file, from 1",
        "Observation domain, unique among bridges.",
    ),
    key("ipfix.point", "1", "Observation point."),
    key(
        "ipfix.cache_active_timeout",
        "\"60s\"",
        "Maximum time from the first packet of a flow to its record.",
    ),
    key("ipfix.cache_idle_timeout", "\"15s\"", "Maximum time from the last packet of a flow to its record."),
    key("ipfix.cache_max_flows", "8192", "Maximum flows at once; 0: a record for each sampled packet."),
    optional(
        "multicast_snooping",
        "none; multicast packets are flooded",
        "IGMP and MLD snooping: multicast packets go to ports with members of their group. A table, which may be empty.",
    ),
    key("multicast_snooping.max_groups", "2048", "Maximum number of groups, counted for each VLAN."),
    optional(
        "multicast_snooping.max_groups_per_port",
        "a quarter of `max_groups`",
        "Maximum number of groups of one port, counted for each VLAN.",
    ),
    optional(
        "multicast_snooping.membership_interval",
        "twice `query_interval` and 10 s",
        "Time after which a membership ends that is not reported again, from 1s to 1h.",
    ),
    key(
        "multicast_snooping.query_interval",
        "\"125s\"",
        "Interval between general queries in the network, from 1s to 1h: that of the querier.",
    ),
    key(
        "multicast_snooping.flood_unregistered",
        "true",
        "Whether packets to groups without members go to all ports; otherwise to router ports only.",
    ),
    key(
        "multicast_snooping.querier",
        "false",
        "Whether the bridge sends IGMP and MLD queries in VLANs without a preferred querier.",
    ),
    key(
        "multicast_snooping.querier_address",
        "\"0.0.0.0\"",
        "Source of IGMP queries. Other switches send reports only to a querier that has an address.",
    ),
    optional(
        "controllers",
        "none",
        "OpenFlow controllers, at most 16: `tcp:HOST[:PORT]`, `ssl:HOST[:PORT]` or `unix:PATH` to connect to, \
         `ptcp:[PORT][:ADDRESS]`, `pssl:[PORT][:ADDRESS]` or `punix:PATH` to listen at. This key and the following ones \
         need `pipeline = \"openflow\"`.",
    ),
    key(
        "auxiliary",
        "0",
        "Auxiliary connections to each controller that the bridge connects to. Packets are sent through them.",
    ),
    key(
        "fail_mode",
        "\"secure\"",
        "Bridge that has had no connection to a controller for three times `probe_interval`: forwards by its flows only, \
         or as a learning bridge until a controller connects (`standalone`).",
    ),
    optional(
        "datapath_id",
        "derived from the machine and the name of the bridge",
        "Identifier of the bridge for controllers: 16 hexadecimal digits.",
    ),
    optional(
        "local",
        "none",
        "Name of the port of the bridge that has the OpenFlow number `LOCAL`, such as a TAP port that is the host.",
    ),
    optional(
        "tls",
        "none",
        "Files in PEM for `ssl` and `pssl`: a section `[bridge.tls]` of the preceding bridge.",
    ),
    optional("tls.private_key", "required in the table", "Absolute path of the private key of the bridge."),
    optional(
        "tls.certificate",
        "required in the table",
        "Absolute path of the certificate of the bridge, followed by intermediate ones.",
    ),
    optional(
        "tls.ca_certificate",
        "required in the table",
        "Absolute path of the certificates that those of controllers must be signed with.",
    ),
    key(
        "probe_interval",
        "\"5s\"",
        "Silence of a controller after which it is probed; a connection ends without an answer. From 1s to 1h.",
    ),
    key(
        "max_backoff",
        "\"8s\"",
        "Longest pause between two attempts to connect to a controller, from 1s to 1h.",
    ),
    key(
        "max_flows",
        "4000000",
        "Maximum number of flows of each table, up to the default. A full table refuses flows, or removes the least \
         important one if a controller has enabled eviction.",
    ),
    optional(
        "tunnel_options",
        "none",
        "Options of Geneve tunnels and the fields that they are bound to, at most 8, such as \
         `{class=0x102,type=0x80,len=4}->tun_metadata0`. `tun_metadata0` and `tun_metadata1` have 8 bytes, the others 4.",
    ),
    optional(
        "management",
        "`NAME.mgmt` in the folder of the control socket",
        "Absolute path of the socket for `ovs-ofctl`.",
    ),
    optional(
        Access::MODE.name,
        "`0600`",
        "Permission of the management socket and of `punix` sockets, in octal.",
    ),
    optional(
        Access::OWNER.name,
        "the user of the process",
        "Name or number of the user that owns these sockets.",
    ),
    optional(Access::GROUP.name, "the group of the process", "Name or number of the group of these sockets."),
];

/// `[[bridge.static]]`
pub(crate) const STATIC: &[Key] = &[
    required("mac", "Unicast address that is pinned to the port."),
    required("port", "Name of the port, on this bridge."),
    key("vlan", "0", "VLAN of the entry; 0 is the VLAN of the port's untagged frames."),
];

/// `[[mirror]]`
pub(crate) const MIRROR: &[Key] = &[
    required(
        "name",
        "Name of the mirror, unique among mirrors: 1 to 32 letters, digits, dots, dashes or underscores.",
    ),
    optional(
        "bridge",
        "the only bridge; required if there are several",
        "Name of the bridge of all of its ports.",
    ),
    optional("source_ports", "none", "Names of the ports whose received packets are copied."),
    optional("destination_ports", "none", "Names of the ports whose sent packets are copied."),
    key("all", "false", "Whether received and sent packets of all ports are copied."),
    optional("vlans", "all, and packets without a VLAN", "VLANs of the packets that are copied."),
    optional(
        "output_port",
        "none; this or `output_vlan` is required",
        "Name of the port to which copies are sent. It is reserved: other packets are not sent to it, and packets from \
         it are dropped.",
    ),
    optional(
        "output_vlan",
        "none; this or `output_port` is required",
        "VLAN to all ports of which copies are sent, with its tag in place of another one.",
    ),
    optional("snap_length", "whole packets", "Maximum bytes of a copy."),
];
