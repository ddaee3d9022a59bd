//! Keys of ports of every kind, bonds and grants.

use crate::settings::reader::key::{Key, key, optional, required};

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

const DIRECTION: &str = "Packets that enter the switch through the port, that leave it, or both.";

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

/// `[[grant]]`: the keys of the grant itself.
pub(crate) const GRANT: &[Key] = &[
    optional(
        "users",
        "the user of the switch, without `groups`",
        "Names or numbers of the users that may request ports.",
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
