//! Settings of Open vSwitch that have no counterpart, with reasons and remedies, and columns that report a state.

/// A column, or a key of a map as `column:key`, that has no counterpart.
struct Known {
    table: &'static str,
    column: &'static str,
    /// Value that changes nothing.
    default: &'static str,
    reason: &'static str,
    remedy: &'static str,
}

const fn known(
    table: &'static str,
    column: &'static str,
    default: &'static str,
    reason: &'static str,
    remedy: &'static str,
) -> Known {
    Known { table, column, default, reason, remedy }
}

/// Columns that Open vSwitch itself writes.
const STATES: &[(&str, &[&str])] = &[
    ("Bridge", &["datapath_version", "datapath_id", "status", "rstp_status"]),
    ("Port", &["status", "rstp_status", "rstp_statistics", "statistics", "bond_active_slave"]),
    (
        "Interface",
        &[
            "mac_in_use",
            "ifindex",
            "ofport",
            "bfd_status",
            "cfm_flap_count",
            "cfm_fault",
            "cfm_fault_status",
            "cfm_remote_opstate",
            "cfm_health",
            "cfm_remote_mpids",
            "lacp_current",
            "statistics",
            "status",
            "admin_state",
            "link_state",
            "link_resets",
            "link_speed",
            "duplex",
            "mtu",
            "error",
        ],
    ),
    ("Mirror", &["statistics"]),
    ("Controller", &["is_connected", "role", "status"]),
    ("Manager", &["is_connected", "status"]),
    (
        "Open_vSwitch",
        &[
            "next_cfg",
            "cur_cfg",
            "statistics",
            "ovs_version",
            "db_version",
            "system_type",
            "system_version",
            "datapath_types",
            "iface_types",
            "dpdk_initialized",
            "dpdk_version",
        ],
    ),
    ("Datapath", &["datapath_version", "capabilities"]),
];

const DPDK: &str = "linerate does not use DPDK";
const NOTHING: &str = "nothing is needed";
const TUNING: &str = "it tunes the data path of Open vSwitch";

/// Settings without a counterpart. Others get [`OTHER`].
const KNOWN: &[Known] = &[
    known("Open_vSwitch", "other_config:dpdk-*", "", DPDK, NOTHING),
    known("Open_vSwitch", "other_config:per-port-memory", "false", DPDK, NOTHING),
    known("Open_vSwitch", "other_config:shared-mempool-config", "", DPDK, NOTHING),
    known(
        "Open_vSwitch",
        "other_config:vhost-iommu-support",
        "false",
        "vhost-user ports have no IOMMU",
        NOTHING,
    ),
    known(
        "Open_vSwitch",
        "other_config:vhost-postcopy-support",
        "false",
        "post-copy migration is not supported",
        "use pre-copy migration",
    ),
    known("Open_vSwitch", "other_config:pmd-*", "false", TUNING, "see `[worker]` and `[placement]`"),
    known("Open_vSwitch", "other_config:emc-insert-inv-prob", "", TUNING, NOTHING),
    known("Open_vSwitch", "other_config:smc-enable", "false", TUNING, NOTHING),
    known("Open_vSwitch", "other_config:tx-flush-interval", "0", TUNING, "see `tx_coalesce` of `[[port]]`"),
    known("Open_vSwitch", "other_config:n-*", "", TUNING, NOTHING),
    known("Open_vSwitch", "other_config:max-*", "", TUNING, NOTHING),
    known("Open_vSwitch", "other_config:min-revalidate-pps", "", TUNING, NOTHING),
    known("Open_vSwitch", "other_config:flow-limit", "", TUNING, "see `max_flows` of `[[bridge]]`"),
    known(
        "Open_vSwitch",
        "other_config:flow-restore-wait",
        "false",
        "flows of the file are there before the first packet",
        NOTHING,
    ),
    known(
        "Open_vSwitch",
        "other_config:stats-update-interval",
        "",
        "counters are current at every request",
        NOTHING,
    ),
    known(
        "Open_vSwitch",
        "other_config:enable-statistics",
        "false",
        "the switch does not report the machine",
        "use `GET /metrics` and an exporter of the machine",
    ),
    known(
        "Open_vSwitch",
        "other_config:hw-offload",
        "false",
        "flows are not offloaded to network cards",
        "see `kernel_fast_path` for veth pairs",
    ),
    known(
        "Open_vSwitch",
        "other_config:tc-policy",
        "none",
        "flows are not offloaded to network cards",
        NOTHING,
    ),
    known(
        "Open_vSwitch",
        "other_config:offload-rebalance",
        "false",
        "flows are not offloaded to network cards",
        NOTHING,
    ),
    known(
        "Open_vSwitch",
        "other_config:vlan-limit",
        "",
        "the number of VLAN tags is not configurable",
        NOTHING,
    ),
    known(
        "Open_vSwitch",
        "other_config:bundle-idle-timeout",
        "",
        "the timeout of bundles is not configurable",
        NOTHING,
    ),
    known(
        "Open_vSwitch",
        "other_config:userspace-tso-enable",
        "true",
        "segmentation offload is negotiated per port",
        "write offloads = false at vhost-user ports to switch it off",
    ),
    known(
        "Bridge",
        "flood_vlans",
        "",
        "learning cannot be switched off for a VLAN",
        "write learn = false at the ports of the VLAN",
    ),
    known(
        "Bridge",
        "flow_tables",
        "",
        "flow tables have no limits, names or prefixes of their own",
        "see `max_flows` of `[[bridge]]`",
    ),
    known(
        "Bridge",
        "protocols",
        "",
        "the versions of OpenFlow cannot be restricted",
        "restrict them at the controller",
    ),
    known("Bridge", "other_config:dp-desc", "", "the description of the data path cannot be set", NOTHING),
    known("Bridge", "other_config:dp-sn", "", "the serial number of the data path cannot be set", NOTHING),
    known(
        "Bridge",
        "other_config:disable-in-band",
        "true",
        "controllers are always out of band",
        "reach the controllers by a network of the host",
    ),
    known(
        "Bridge",
        "other_config:in-band-queue",
        "",
        "controllers are always out of band",
        "reach the controllers by a network of the host",
    ),
    known(
        "Bridge",
        "other_config:controller-queue-size",
        "",
        "queues of packets for controllers have a fixed size",
        NOTHING,
    ),
    known(
        "Bridge",
        "other_config:hwaddr",
        "",
        "a bridge has no Ethernet address of its own",
        "set that of its TAP interface with `ip link set dev NAME address ADDRESS`",
    ),
    known(
        "Bridge",
        "other_config:rstp-ageing-time",
        "300",
        "a spanning tree has no ageing time of its own",
        "write `ageing` in `[[bridge]]`",
    ),
    known(
        "Bridge",
        "other_config:rstp-transmit-hold-count",
        "6",
        "the transmit hold count is not configurable",
        NOTHING,
    ),
    known("Port", "bond_fake_iface", "false", "a bond has no interface of the host", NOTHING),
    known("Port", "cvlans", "", "802.1ad tunnels are not supported", "use flows with `push_vlan:0x88a8`"),
    known("Port", "mac", "", "a bridge has no Ethernet address of its own", NOTHING),
    known(
        "Port",
        "protected",
        "false",
        "ports cannot be protected from each other",
        "write `[[acl]]` sections with `from` and `to` on an OpenFlow bridge",
    ),
    known(
        "Port",
        "other_config:qinq-ethtype",
        "",
        "802.1ad tunnels are not supported",
        "use flows with `push_vlan:0x88a8`",
    ),
    known(
        "Port",
        "other_config:priority-tags",
        "never",
        "priority tags are not sent",
        "use flows with `push_vlan`",
    ),
    known("Port", "other_config:bond-hash-basis", "0", "the hash of a bond has no basis", NOTHING),
    known("Port", "other_config:lb-output-action", "false", TUNING, NOTHING),
    known(
        "Port",
        "other_config:all-members-active",
        "false",
        "other members do not accept broadcast and multicast packets",
        "use LACP",
    ),
    known(
        "Port",
        "other_config:bond-detect-mode",
        "carrier",
        "links are known by their carrier only",
        "use LACP with lacp_rate = \"fast\"",
    ),
    known(
        "Port",
        "other_config:bond-miimon-interval",
        "",
        "links are known by their carrier only",
        "use LACP with lacp_rate = \"fast\"",
    ),
    known(
        "Port",
        "other_config:transient",
        "false",
        "all ports of the file exist after each start",
        "remove the section, and add the port with `linerate ports add`",
    ),
    known(
        "Port",
        "other_config:stp-port-num",
        "",
        "numbers of ports in a spanning tree are given by the switch",
        "write `stp_priority`",
    ),
    known(
        "Port",
        "other_config:rstp-port-num",
        "",
        "numbers of ports in a spanning tree are given by the switch",
        "write `stp_priority`",
    ),
    known(
        "Port",
        "other_config:rstp-port-mcheck",
        "false",
        "a port detects the end of STP on its own",
        NOTHING,
    ),
    known(
        "Interface",
        "ingress_policing_kpkts_rate",
        "0",
        "policers have rates in bits only",
        "write a `policer`, or a meter in the flows of an OpenFlow bridge",
    ),
    known(
        "Interface",
        "ingress_policing_kpkts_burst",
        "0",
        "policers have rates in bits only",
        "write a `policer`, or a meter in the flows of an OpenFlow bridge",
    ),
    known(
        "Interface",
        "bfd",
        "",
        "BFD is not supported",
        "use LACP with lacp_rate = \"fast\", or BFD of a routing daemon",
    ),
    known("Interface", "cfm_mpid", "", "CFM is not supported", "use LACP with lacp_rate = \"fast\""),
    known(
        "Interface",
        "mac",
        "",
        "the Ethernet address of a TAP interface is not in the file",
        "set it with `ip link set dev NAME address ADDRESS`",
    ),
    known(
        "Interface",
        "other_config:cfm_*",
        "",
        "CFM is not supported",
        "use LACP with lacp_rate = \"fast\"",
    ),
    known(
        "Interface",
        "other_config:pmd-rxq-affinity",
        "",
        "queues are placed by `[placement]`",
        "write `queues` in `[placement]`",
    ),
    known("Interface", "other_config:tx-steering", "thread", TUNING, NOTHING),
    known("Interface", "other_config:emc-enable", "true", TUNING, NOTHING),
    known(
        "Interface",
        "other_config:lacp-port-id",
        "",
        "numbers of ports in LACP are given by the switch",
        NOTHING,
    ),
    known(
        "Interface",
        "options:n_txq_desc",
        "",
        "the length of transmit queues is that of receive queues",
        "write `frames`",
    ),
    known(
        "Interface",
        "options:tx-retries-max",
        "8",
        "the switch does not try again for a full queue",
        "write queue_full = \"wait\" in `[[worker]]`",
    ),
    known("Interface", "options:use-need-wakeup", "true", TUNING, NOTHING),
    known(
        "Interface",
        "options:*-flow-ctrl*",
        "false",
        "flow control of the card is not configured by the switch",
        "use `ethtool -A`",
    ),
    known(
        "Interface",
        "options:flow-ctrl-autoneg",
        "false",
        "flow control of the card is not configured by the switch",
        "use `ethtool -A`",
    ),
    known("Interface", "options:dpdk-*", "", DPDK, NOTHING),
    known(
        "Interface",
        "options:egress_pkt_mark",
        "",
        "packets of tunnels do not pass the kernel, which has marks",
        NOTHING,
    ),
    known("Interface", "options:exts", "", "VXLAN has no extensions", "use Geneve"),
    known(
        "Interface",
        "options:packet_type",
        "legacy_l2",
        "the tunnel carries Ethernet frames",
        "use protocol = \"ipip\" for IP packets",
    ),
    known("Interface", "options:seq", "false", "sequence numbers of GRE are not sent", NOTHING),
    known(
        "Interface",
        "options:psk",
        "",
        "THE TUNNEL IS NOT ENCRYPTED: IPsec is not supported",
        "encrypt on the path, such as with IPsec of the routers",
    ),
    known(
        "Interface",
        "options:remote_cert",
        "",
        "THE TUNNEL IS NOT ENCRYPTED: IPsec is not supported",
        "encrypt on the path, such as with IPsec of the routers",
    ),
    known(
        "Interface",
        "options:remote_name",
        "",
        "THE TUNNEL IS NOT ENCRYPTED: IPsec is not supported",
        "encrypt on the path, such as with IPsec of the routers",
    ),
    known(
        "Interface",
        "options:erspan_*",
        "",
        "headers of ERSPAN have no index, direction and hardware number",
        NOTHING,
    ),
    known(
        "QoS",
        "other_config:*",
        "",
        "the setting is not one of `queues`",
        "see docs/guide/rates-and-queues.md",
    ),
    known(
        "Queue",
        "dscp",
        "",
        "queues do not mark packets",
        "mark them with flows (`set_field:VALUE->ip_dscp`), or with a `policer`",
    ),
    known("Queue", "other_config:burst", "", "bursts of queues are derived from their rates", NOTHING),
    known(
        "IPFIX",
        "other_config:enable-tunnel-sampling",
        "false",
        "headers of tunnels are not in records",
        NOTHING,
    ),
    known(
        "IPFIX",
        "other_config:virtual_obs_id",
        "",
        "records have no virtual observation identifier",
        "tell bridges apart by `domain`",
    ),
    known(
        "IPFIX",
        "other_config:enable-input-sampling",
        "true",
        "received packets are always sampled",
        NOTHING,
    ),
    known("IPFIX", "other_config:enable-output-sampling", "false", "sent packets are not sampled", NOTHING),
    known(
        "Controller",
        "local_*",
        "",
        "controllers are always out of band",
        "set the address of the TAP interface with `ip address add`",
    ),
    known(
        "Controller",
        "enable_async_messages",
        "true",
        "asynchronous messages are on by default",
        "disable them at the controller",
    ),
    known(
        "Controller",
        "controller_*",
        "",
        "packets for controllers have fixed limits of work and memory",
        "use a meter in the flows of the bridge",
    ),
    known("Controller", "other_config:*", "", "the setting has no counterpart", NOTHING),
    known(
        "SSL",
        "bootstrap_ca_cert",
        "false",
        "certificates of controllers are always checked",
        "copy the certificate to the file `ca_certificate`",
    ),
];

/// Reason and remedy of every other setting.
const OTHER: (&str, &str) = (
    "it has no counterpart that is known",
    "decide whether it is needed; docs/guide/import-ovs.md lists what is translated",
);

/// Whether a name matches a pattern, in which `*` is any text.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((before, after)) => {
            let rest = name.strip_prefix(before);
            rest.is_some_and(|rest| after.is_empty() || rest.contains(after.trim_end_matches('*')))
        }
    }
}

/// Why a setting is not translated, and the remedy. `None` if it reports a state, or changes nothing.
pub(super) fn explain(table: &str, column: &str, value: &str) -> Option<(&'static str, &'static str)> {
    let whole = column.split(':').next().unwrap_or(column);
    let states = STATES.iter().find(|(own, _)| *own == table).map_or(&[][..], |(_, states)| states);
    if states.contains(&whole) {
        return None;
    }
    let own = |known: &&Known| {
        known.table == table && [column, whole].iter().any(|name| matches(known.column, name))
    };
    match KNOWN.iter().find(own) {
        Some(known) if known.default == value => None,
        Some(known) => Some((known.reason, known.remedy)),
        None => Some(OTHER),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn states_and_defaults_are_no_findings() {
        assert_eq!(explain("Interface", "statistics:rx_packets", "7"), None);
        assert_eq!(explain("Bridge", "datapath_id", "00"), None);
        assert_eq!(explain("Port", "other_config:lb-output-action", "false"), None);
        let (reason, _) = explain("Interface", "bfd:enable", "true").unwrap();
        assert_eq!(reason, "BFD is not supported");
        let (reason, _) = explain("Open_vSwitch", "other_config:dpdk-extra", "x").unwrap();
        assert_eq!(reason, DPDK);
        let (reason, _) = explain("Interface", "options:rx-flow-ctrl", "true").unwrap();
        assert!(reason.contains("flow control"));
        assert_eq!(explain("Bridge", "new_column", "1"), Some(OTHER));
    }

    /// Columns of the schema of Open vSwitch 8.3.1, as `table column`, one a line.
    const SCHEMA: &str = include_str!("schema.txt");

    #[test]
    fn columns_of_the_tables_are_those_of_the_schema() {
        let mut columns: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (table, column) in SCHEMA.lines().filter_map(|line| line.split_once(' ')) {
            columns.entry(table).or_default().push(column);
        }
        let states =
            STATES.iter().flat_map(|(table, states)| states.iter().map(move |state| (*table, *state)));
        let known = KNOWN.iter().map(|known| (known.table, known.column));
        for (table, column) in states.chain(known) {
            let whole = column.split(':').next().unwrap_or(column);
            let exists = columns[table].iter().any(|own| matches(whole, own));
            assert!(exists, "{table} {column}");
        }
    }
}
