//! Keys of each section of a configuration file. The keys of a kind of port are in the file of that kind.

use super::access::Access;
use super::reader::key::{Key, key, optional, required};

/// `[switch]`
pub(crate) const SWITCH: &[Key] = &[
    key("name", "\"linerate\"", "Name of the switch in listings."),
    optional(
        "control",
        "`/run/linerate/control.sock` for root, else `$XDG_RUNTIME_DIR/linerate.sock`, else \
         `/tmp/linerate-UID/control.sock`",
        "Absolute path of the control socket; `--control` overrides it.",
    ),
    optional(
        "grants",
        "none",
        "Absolute path of a socket at which applications ask for ports. Every user may connect; `[[grant]]` sections \
         name the users that obtain a port.",
    ),
    optional(
        "management_addresses",
        "none",
        "IP addresses at which the machine is managed, at most 8, for neighbours of ports with `lldp`.",
    ),
    key(
        "rss",
        "\"symmetric\"",
        "Distribution of flows to the queue pairs of a port: by a hash that is equal for both directions of a flow, by \
         the Toeplitz hash of network cards, or by the queue pair on which the packet arrived.",
    ),
    optional(Access::MODE.name, "by the umask", "Default of `socket_mode` of all ports."),
    optional(Access::OWNER.name, "the user of the process", "Default of `socket_owner` of all ports."),
    optional(Access::GROUP.name, "the group of the process", "Default of `socket_group` of all ports."),
];

const POLLING: Key =
    key("polling", "\"adaptive\"", "Idle worker: sleeps until a notification, or polls always.");
const QUEUE_FULL: Key = key(
    "queue_full",
    "\"drop\"",
    "Full destination: the packet is dropped and counted, or the worker waits.",
);

/// `[[worker]]`
pub(crate) const WORKER: &[Key] = &[
    optional("cpu", "chosen by the kernel or by `[placement]`", "CPU to which the worker is pinned."),
    POLLING,
    QUEUE_FULL,
];

/// `[worker]`
pub(crate) const WORKERS: &[Key] = &[
    key("model", "\"run-to-completion\"", "Execution model of all workers."),
    POLLING,
    QUEUE_FULL,
    optional(
        "rx",
        "required in a pipeline without `stages` in `[placement]`",
        "CPUs that receive packets from ports, in a pipeline.",
    ),
    optional(
        "work",
        "one worker; required in a pipeline without `stages` in `[placement]`",
        "CPUs of the workers; in a pipeline, CPUs that classify packets.",
    ),
    optional(
        "tx",
        "required in a pipeline without `stages` in `[placement]`",
        "CPUs that send packets to ports, in a pipeline.",
    ),
    key(
        "rss_mode",
        "\"queues\"",
        "Run to completion: each queue has one worker, or flows of ports with one queue pair are distributed to all \
         workers in software.",
    ),
    key("ring", "1024", "Packets in a handoff queue between two workers, a power of two."),
    optional("write_unit", "those of one burst", "Packets that are made visible to the next stage at once."),
    key("read_unit", "64", "Packets that are taken from the previous stage at once."),
    key(
        "full",
        "\"wait\"",
        "Full handoff queue: the stage receives only as many packets as fit, or drops and counts them.",
    ),
    key(
        "order",
        "\"flow\"",
        "Packets that keep their order between stages: those of a flow, of a port, or none.",
    ),
];

/// `[placement]`
pub(crate) const PLACEMENT: &[Key] = &[
    key(
        "pattern",
        "\"separate\"",
        "Stages that share a thread or a core: none, Rx and Tx (`io`), all, Rx and work, Tx and work, Rx and Tx as two \
         threads of one core (`quasi-io`), or as the machine allows.",
    ),
    optional(
        "cpus",
        "all CPUs of the process's affinity mask",
        "CPUs to use, in this order: a list, or ranges such as `\"2-3,8\"`.",
    ),
    optional("node", "the node of the interfaces' devices", "NUMA node near which workers are placed."),
    optional(
        "queues",
        "the worker with the fewest queues",
        "Worker of all queues of a port, or of one queue pair as `\"port.pair\"`.",
    ),
    optional("isolated", "none", "Ports, and queue pairs as `\"port.pair\"`, whose worker serves no others."),
    key("rebalance", "\"off\"", "Unequal load of workers: ignored, reported, or corrected by moving queues."),
    key("interval", "\"5s\"", "Duration of a load measurement, from 100ms to 1h."),
    key(
        "threshold",
        "0.1",
        "Minimum gain of a move: reduction of the highest worker load, as a share of a core.",
    ),
    optional(
        "stages",
        "none; `[worker]` lists CPUs",
        "Number of stages of a pipeline, which replaces the lists of `[worker]`.",
    ),
    key("stages.rx", "1", "Stages that receive."),
    key("stages.work", "1", "Stages that classify."),
    key("stages.tx", "1", "Stages that send."),
];

/// `[[bridge]]`
pub(crate) const BRIDGE: &[Key] = &[
    required("name", "Name of the bridge, unique among bridges."),
    key(
        "pipeline",
        "\"learning\"",
        "What decides where packets go: learned addresses, or flow tables (`openflow`), which drop packets without a flow.",
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
        "Whether the bridge sends IGMP and MLD queries in VLANs where it hears no preferred querier.",
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

const DIRECTION: &str = "Packets that enter the switch through the port, that leave it, or both.";

/// `[[grant]]`: the keys of the grant itself.
pub(crate) const GRANT: &[Key] = &[
    optional(
        "users",
        "the user of the switch, without `groups`",
        "Names or numbers of the users that may ask.",
    ),
    optional("groups", "none", "Names or numbers of the groups, as the group of the process, that may ask."),
    optional("bridge", "the only bridge; required if there are several", "Name of the bridge of the ports."),
    key("ports", "16", "Maximum number of ports at one time."),
    key("queue_pairs", "1", "Maximum number of queue pairs of a port."),
    key("memory", "64", "Maximum memory in MiB that the application shares with the switch for a port."),
];

/// `[[bond]]`: the keys of the bond itself.
pub(crate) const BOND: &[Key] = &[
    required("name", "Name of the bond, unique among bonds and ports."),
    optional("bridge", "the only bridge; required if there are several", "Name of the bridge of the bond."),
    required(
        "ports",
        "Names of its members, at most 16: ports of the same bridge without keys for VLANs, limits and security.",
    ),
    key(
        "mode",
        "\"active-backup\"",
        "Distribution of packets: one member carries all, or members by source address and VLAN, or by flow \
         (`balance-tcp`, which needs LACP).",
    ),
    key("lacp", "\"off\"", "Whether the bond uses LACP, and sends first (`active`) or answers only."),
    key(
        "lacp_rate",
        "\"slow\"",
        "Interval at which the partner is asked to send: one second, or 30 seconds.",
    ),
    key("system_priority", "65534", "Priority of this system in LACP; the lower number is preferred."),
    optional(
        "system_id",
        "derived from the machine and the name of the bridge",
        "Address of this system in LACP, the same for all bonds to one partner.",
    ),
    optional("key", "the number of the bond", "Key of the bond in LACP."),
    optional(
        "port_priorities",
        "65535 each",
        "Priorities of members in LACP; the lower number is preferred.",
    ),
    key(
        "fallback",
        "false",
        "Whether the bond is used without a partner, as if LACP were off; `balance-tcp` is active-backup then.",
    ),
    key(
        "up_delay",
        "\"0s\"",
        "Time for which a link must be up before it is used, without LACP; at most 1h.",
    ),
    key(
        "down_delay",
        "\"0s\"",
        "Time for which a link must be down before it is left, without LACP; at most 1h.",
    ),
    key("rebalance", "\"10s\"", "Interval at which load moves to members with less; `\"0s\"` is never."),
    optional("primary", "the first that is up, until it fails", "Member that is active whenever it can be."),
];

/// `[[flow]]`
pub(crate) const FLOW: &[Key] = &[
    optional("bridge", "the only bridge; required if there are several", "Name of the OpenFlow bridge."),
    required(
        "flow",
        "A flow, or a list of flows, in the syntax of `ovs-ofctl add-flow`, which is added when the switch starts.",
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

/// VLANs, limits and security of a port: keys of `[[grant]]` and `[[port]]`.
pub(crate) const POLICY: &[Key] = &[
    optional(
        "vlan",
        "none",
        "VLAN of an access port, whose frames are untagged on the wire; or a table for a trunk port, whose frames are \
     tagged.",
    ),
    optional("vlan.trunk", "required in the table", "VLANs of the trunk."),
    optional("vlan.native", "untagged frames are dropped", "VLAN of untagged frames of the trunk."),
    optional("broadcast_limit", "none", "Maximum broadcast and multicast packets per second from the port."),
    optional("unknown_limit", "none", "Maximum packets per second from the port to unknown addresses."),
    optional(
        "limit_burst",
        "those of a tenth of a second, at least 64",
        "Packets that either limit admits at once.",
    ),
    key(
        "trusted",
        "false",
        "Whether the network behind the port is trusted: reverse ARP moves addresses, DHCP servers and routers are \
     accepted.",
    ),
    optional("macs", "any", "Allowed source addresses, at most 64; they are static entries of the port."),
    key("learn", "true", "Whether addresses are learned from the port."),
    optional(
        "max_macs",
        "`max_macs_per_port` of the bridge",
        "Maximum number of addresses learned from the port.",
    ),
    optional(
        "sources",
        "any",
        "Allowed IP sources, at most 64: addresses, networks, or `\"dhcp\"` for leased addresses.",
    ),
];

/// Spanning tree: keys of `[[port]]` and `[[bond]]`.
pub(crate) const TREE: &[Key] = &[
    optional("stp_priority", "128", "Priority of the port in its spanning tree, in steps of 16."),
    optional(
        "stp_cost",
        "by the speed of the interface, or that of 1 Gbit/s",
        "Cost of the path through the port.",
    ),
    key(
        "stp_edge",
        "\"auto\"",
        "Whether the port leads to a host and forwards at once: if it receives no BPDU for 3 s, from the start, or \
         never.",
    ),
    optional(
        "stp_point_to_point",
        "true",
        "Whether at most one bridge is behind the port, so that both can agree to forwarding.",
    ),
    key(
        "bpdu_guard",
        "false",
        "Whether the port stops when it receives a BPDU, until its link was down. Ports of applications do.",
    ),
];

/// Multicast snooping behind a port or bond.
pub(crate) const MEMBERSHIP: &[Key] = &[
    key(
        "multicast_router",
        "\"auto\"",
        "Whether a multicast router is behind the port, which gets all reports and multicast packets: if a querier or a \
         PIM router is heard there, always, or never.",
    ),
    key(
        "fast_leave",
        "false",
        "Whether a leave message ends a membership at once, because one host is behind the port.",
    ),
];

/// `[[port]]`: identity and queues, of every kind.
pub(crate) const PORT: &[Key] = &[
    required(
        "name",
        "Name of the port, unique among ports: 1 to 32 letters, digits, dots, dashes or underscores.",
    ),
    key("kind", "\"vhost-user\"", "Kind of the port, with keys of its own."),
    optional(
        "bridge",
        "the only bridge; required if there are several",
        "Name of the bridge to which the port belongs.",
    ),
    key("queue_pairs", "1", "Number of queue pairs; kinds `stream`, `pcap` and `null` have one."),
    optional(
        "mtu",
        "that of the guest, or of the kind",
        "MTU in bytes without the Ethernet header; kinds `vhost-user`, `virtio-user`, `grant` and `tap` only.",
    ),
    optional("rss_mode", "as in `[worker]`", "Overrides `rss_mode` of `[worker]` for this port."),
    key("lldp", "false", "Whether the port sends LLDP and keeps a table of its neighbours."),
];

/// `[[port]]`: wrappers of every kind.
pub(crate) const WRAPPERS: &[Key] = &[
    optional("capture", "none", "Writes packets to a pcapng file: its absolute path, or a table."),
    optional("capture.file", "required in the table", "Absolute path of the file."),
    optional("capture.snap", "whole packets", "Maximum bytes stored per packet."),
    key("capture.direction", "\"both\"", DIRECTION),
    key("capture.overwrite", "false", "Whether an existing file is replaced; otherwise it is an error."),
    optional("trace", "none", "Writes one line of text per packet: the absolute path of a file, or a table."),
    optional("trace.file", "required in the table", "Absolute path of the file."),
    key("trace.direction", "\"both\"", DIRECTION),
    key("trace.overwrite", "false", "Whether an existing file is replaced; otherwise it is an error."),
    optional("fault", "none", "Injects faults for tests; at least one fault is required."),
    key("fault.seed", "1", "Seed of the generator: the same packets in the same order get the same faults."),
    key("fault.drop", "0.0", "Probability of loss, counted as `injected`."),
    key("fault.duplicate", "0.0", "Probability of duplication."),
    key("fault.reorder", "0.0", "Probability of reordering behind a later packet."),
    key("fault.corrupt", "0.0", "Probability of a flipped bit."),
    key(
        "fault.delay",
        "\"0s\"",
        "Delay of every packet: a time, or the minimum and the maximum; at most 1m.",
    ),
    key("fault.hold", "1024", "Maximum number of delayed packets per queue; others pass undelayed."),
    key("fault.direction", "\"both\"", DIRECTION),
    key("tx_coalesce", "\"immediate\"", "Sends each burst at once, or several frames together."),
    key("tx_coalesce.frames", "32", "Frames that are sent together."),
    optional(
        "tx_coalesce.delay",
        "until the worker is idle",
        "Maximum wait of the first frame for the others, from 1us to 1s.",
    ),
    optional("policer", "none", "Limits the rates of received frames."),
    key("policer.kind", "\"srtcm\"", "Single rate (RFC 2697) or two rate (RFC 2698) three colour marker."),
    optional("policer.cir", "required in the table", "Committed rate, such as `100Mbit/s`."),
    optional("policer.cbs", "20ms of `cir`, at least 131072", "Committed burst in bytes."),
    optional("policer.pir", "required with `trtcm`", "Peak rate, at least `cir`."),
    optional("policer.pbs", "20ms of `pir`, at least `cbs`", "Peak burst in bytes, with `trtcm`."),
    optional("policer.ebs", "`cbs`", "Excess burst in bytes, with `srtcm`."),
    key(
        "policer.color_aware",
        "false",
        "Whether frames with an AF DSCP of drop precedence 2 or 3 (RFC 2597) are at best yellow or red.",
    ),
    key(
        "policer.exceed",
        "\"pass\"",
        "Action for yellow frames: they pass, are dropped as `policed`, or get this DSCP.",
    ),
    key("policer.violate", "\"drop\"", "Action for red frames."),
    optional("queues", "none", "Holds sent frames in classes with guaranteed and maximum rates."),
    optional("queues.rate", "required in the table", "Maximum rate of the port, such as `1Gbit/s`."),
    optional(
        "queues.classes",
        "required in the table",
        "Classes, each with its number (0 to 254), its guaranteed `rate`, and optionally: `ceil` (maximum rate), \
         `parent` (number of an earlier class), `priority` (0 is first, default 3), `limit` (frames, default 1024), \
         `flows` (fair queues, default 256), `pcp` and `dscp` (values of its frames, separated by commas).",
    ),
    key("queues.default", "0", "Class of frames that no flow, `pcp` or `dscp` puts into another one."),
    key("queues.memory", "4194304", "Maximum bytes of memory of frames that wait."),
    key("queues.target", "\"5ms\"", "Delay that CoDel accepts (RFC 8289), from 10us to 1s."),
    key("queues.interval", "\"100ms\"", "Time for which CoDel accepts a longer delay, from 1ms to 10s."),
    key(
        "queues.ecn",
        "true",
        "Whether CoDel marks frames of ECN-capable transports instead of dropping them.",
    ),
];
