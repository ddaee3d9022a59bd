//! Arguments of commands for a running switch.

use super::parse::key_and_value;
use crate::settings::kinds;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use console::{ShowArgs, Span, duration};
use std::path::PathBuf;

/// Commands on ports.
#[derive(Debug, Subcommand)]
#[command(
    after_help = "A port has no `set`: its options are fixed while it exists. Remove the port, and add it with \
    other options."
)]
pub(crate) enum PortsCommand {
    /// Show ports with their counters
    Show(PortsShowArgs),
    /// Add a port
    ///
    /// The port is added to the running switch. The configuration file is not written: to keep the port, add
    /// the printed section to the file.
    Add(Box<PortsAddArgs>),
    /// Remove a port and disconnect its guest
    ///
    /// The port is removed from the running switch. The configuration file is not written: a port with a
    /// section there returns at the next start. Alias: del.
    #[command(alias = "del")]
    Remove(PortsRemoveArgs),
}

/// Arguments of `ports remove`.
#[derive(Args, Debug)]
pub(crate) struct PortsRemoveArgs {
    /// Name of the port
    #[arg(id = "port", value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

/// Arguments of `ports show`.
#[derive(Args, Debug)]
pub(crate) struct PortsShowArgs {
    /// Show only this port, with all its counters
    #[arg(id = "port", value_name = "NAME")]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

/// Arguments of `ports add`; each flag corresponds to a key of a `[[port]]` section.
#[derive(Args, Debug)]
pub(crate) struct PortsAddArgs {
    /// Name of the new port
    pub(crate) name: String,
    /// Kind of port [default: vhost-user]
    #[arg(long, value_parser = port_kind())]
    pub(crate) kind: Option<String>,
    /// Any other key of the `[[port]]` section; a value that is not valid TOML is a string. May be repeated
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_and_value)]
    pub(crate) set: Vec<(String, String)>,
    /// Path of the socket, for kinds with a socket
    #[arg(long, value_name = "SOCKET")]
    pub(crate) socket: Option<PathBuf>,
    /// Whether this switch creates the socket (server) or connects to it (client) [default: depends on the
    /// kind]
    #[arg(long)]
    pub(crate) mode: Option<String>,
    /// Bridge of the port; optional if there is only one
    #[arg(long)]
    pub(crate) bridge: Option<String>,
    /// Number of queue pairs, offered to a guest or requested from another switch
    #[arg(long, value_name = "N")]
    pub(crate) queue_pairs: Option<u16>,
    /// Ring of a virtio-user port: split, split-inorder, packed or packed-inorder
    #[arg(long, value_name = "RING")]
    pub(crate) ring: Option<String>,
    /// Ring size of a virtio-user port, in entries
    #[arg(long, value_name = "N")]
    pub(crate) queue_size: Option<u16>,
    /// Whether received frames of a virtio-user port may span several buffers
    #[arg(long, value_name = "true|false")]
    pub(crate) mergeable: Option<bool>,
    /// MTU in bytes, without the Ethernet header
    #[arg(long, value_name = "BYTES")]
    pub(crate) mtu: Option<u16>,
    /// Access VLAN
    #[arg(long, value_name = "VLAN", conflicts_with_all = ["trunk", "native"])]
    pub(crate) vlan: Option<u16>,
    /// Trunk VLANs, separated by commas
    #[arg(long, value_name = "VLANS", value_delimiter = ',')]
    pub(crate) trunk: Vec<u16>,
    /// Native VLAN of a trunk port: VLAN of untagged frames
    #[arg(long, value_name = "VLAN", requires = "trunk")]
    pub(crate) native: Option<u16>,
    /// Maximum rate of broadcast and multicast packets from this port, in packets per second
    #[arg(long, value_name = "PACKETS")]
    pub(crate) broadcast_limit: Option<u32>,
    /// Maximum rate of unknown unicast packets from this port, in packets per second
    #[arg(long, value_name = "PACKETS")]
    pub(crate) unknown_limit: Option<u32>,
    /// Maximum number of addresses learned on this port
    #[arg(long, value_name = "N")]
    pub(crate) max_macs: Option<u32>,
    /// Trust the network behind this port, such as an uplink: its announcements move addresses, and its DHCP
    /// servers and routers are accepted
    #[arg(long)]
    pub(crate) trusted: bool,
    /// Allowed source MAC addresses of this port, separated by commas [default: any]
    #[arg(long, value_name = "ADDRESSES", value_delimiter = ',')]
    pub(crate) macs: Vec<String>,
    /// Whether addresses are learned on this port
    #[arg(long, value_name = "true|false")]
    pub(crate) learn: Option<bool>,
    /// Allowed source IP addresses of this port, separated by commas: addresses, networks, or dhcp [default:
    /// any]
    #[arg(long, value_name = "SOURCES", value_delimiter = ',')]
    pub(crate) sources: Vec<String>,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

/// Commands on bridges.
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Bridges have no `add`, `remove` or `set`: a switch creates the bridges of its configuration \
    file when it starts."
)]
pub(crate) enum BridgesCommand {
    /// Show bridges with their ports' counters and the most recent refused moves
    Show(BridgesShowArgs),
}

/// Arguments of `bridges show`.
#[derive(Args, Debug)]
pub(crate) struct BridgesShowArgs {
    /// Show only this bridge
    #[arg(id = "bridge", value_name = "NAME")]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

/// Commands on bonds.
#[derive(Debug, Subcommand)]
#[command(
    after_help = "The configuration file is not written: to keep a bond, add a `[[bond]]` section to it."
)]
pub(crate) enum BondsCommand {
    /// Show bonds with their members, and with a name also LACP and the load of each bucket
    Show(BondsShowArgs),
    /// Add a bond of ports of a bridge
    Add(BondsAddArgs),
    /// Change keys of a bond, such as its ports or mode
    ///
    /// Name, bridge, VLANs, limits, security and the keys for a spanning tree are fixed while the bond exists.
    Set(BondsSetArgs),
    /// Remove a bond; its members return to the bridge. Alias: del.
    #[command(alias = "del")]
    Remove(BondsRemoveArgs),
}

/// Arguments of `bonds show`.
#[derive(Args, Debug)]
pub(crate) struct BondsShowArgs {
    /// Show only this bond, with all its state
    #[arg(id = "bond", value_name = "NAME")]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

/// Commands on neighbours.
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Ports have LLDP if their section has `lldp = true`. A neighbour has no `add` or `remove`."
)]
pub(crate) enum NeighborsCommand {
    /// Show neighbours with their ports, systems and addresses
    Show(NeighborsShowArgs),
}

/// Arguments of `neighbors show`.
#[derive(Args, Debug)]
pub(crate) struct NeighborsShowArgs {
    /// Show only neighbours of this port, with all that they tell
    #[arg(id = "port", value_name = "NAME")]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

/// Commands on the kernel fast path.
#[derive(Debug, Subcommand)]
#[command(after_help = "Ports have the fast path if their section has `kernel_fast_path = true`. Pairs are \
                        installed by the switch and have no `add` or `remove`.")]
pub(crate) enum OffloadCommand {
    /// Show pairs of addresses whose frames the kernel forwards, with their packets
    Show(ShowArgs),
}

/// Arguments of `bonds add`; each flag corresponds to a key of a `[[bond]]` section.
#[derive(Args, Debug)]
pub(crate) struct BondsAddArgs {
    /// Name of the new bond
    pub(crate) name: String,
    /// Members, separated by commas: ports of one learning bridge
    #[arg(long, value_name = "PORTS", value_delimiter = ',', required = true)]
    pub(crate) ports: Vec<String>,
    /// Bridge of the bond; optional if there is only one
    #[arg(long)]
    pub(crate) bridge: Option<String>,
    /// Distribution of packets: active-backup, balance-slb or balance-tcp [default: active-backup]
    #[arg(long)]
    pub(crate) mode: Option<String>,
    /// LACP: off, active or passive [default: off]
    #[arg(long)]
    pub(crate) lacp: Option<String>,
    /// Any other key of the `[[bond]]` section; a value that is not valid TOML is a string. May be repeated
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_and_value)]
    pub(crate) set: Vec<(String, String)>,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

/// Arguments of `bonds set`.
#[derive(Args, Debug)]
pub(crate) struct BondsSetArgs {
    /// Name of the bond
    #[arg(id = "bond", value_name = "NAME")]
    pub(crate) name: String,
    /// Key of the `[[bond]]` section with its new value; a value that is not valid TOML is a string
    #[arg(value_name = "KEY=VALUE", value_parser = key_and_value, required = true)]
    pub(crate) set: Vec<(String, String)>,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

/// Arguments of `bonds remove`.
#[derive(Args, Debug)]
pub(crate) struct BondsRemoveArgs {
    /// Name of the bond
    #[arg(id = "bond", value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

/// Commands on forwarding tables.
#[derive(Debug, Subcommand)]
#[command(after_help = "An entry has no `set`: remove a static entry, then add it again.")]
pub(crate) enum FdbCommand {
    /// Show learned and static addresses
    Show(FdbShowArgs),
    /// Add a static entry for an address; it replaces a learned entry, and a static one is an error
    ///
    /// The configuration file is not written: to keep the entry, add a `[[bridge.static]]` section to it.
    Add(FdbAddArgs),
    /// Remove one address, learned or static
    ///
    /// A learned address is learned again from its next packet. The configuration file is not written: a
    /// static entry with a section there returns at the next start. Alias: del.
    #[command(alias = "del")]
    Remove(FdbRemoveArgs),
    /// Remove all learned addresses; static entries remain
    Flush(FdbFlushArgs),
}

/// Selection of table entries.
#[derive(Args, Debug)]
pub(crate) struct FdbSelection {
    /// Only entries of this bridge
    #[arg(long)]
    pub(crate) bridge: Option<String>,
    /// Only entries of this port
    #[arg(long)]
    pub(crate) port: Option<String>,
    /// Only entries of this VLAN; 0 for entries without a VLAN
    #[arg(long, value_parser = clap::value_parser!(u16).range(0..=4094))]
    pub(crate) vlan: Option<u16>,
}

/// Arguments of `fdb show`.
#[derive(Args, Debug)]
pub(crate) struct FdbShowArgs {
    #[command(flatten)]
    pub(crate) selection: FdbSelection,
    /// Maximum number of entries to print
    #[arg(long, default_value_t = 1000)]
    pub(crate) limit: usize,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

/// Arguments of `fdb add`.
#[derive(Args, Debug)]
pub(crate) struct FdbAddArgs {
    /// MAC address, such as 02:00:00:00:00:01
    pub(crate) mac: String,
    /// Port of the address
    #[arg(long)]
    pub(crate) port: String,
    /// VLAN of the address; 0 for untagged frames of a port without VLANs
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=4094))]
    pub(crate) vlan: u16,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

/// Arguments of `fdb flush`.
#[derive(Args, Debug)]
pub(crate) struct FdbFlushArgs {
    #[command(flatten)]
    pub(crate) selection: FdbSelection,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

/// Arguments of `fdb remove`.
#[derive(Args, Debug)]
pub(crate) struct FdbRemoveArgs {
    /// MAC address, such as 02:00:00:00:00:01
    pub(crate) mac: String,
    #[command(flatten)]
    pub(crate) selection: FdbSelection,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

/// Commands on flows of OpenFlow bridges.
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Matches and actions have the syntax of ovs-fields(7) and ovs-actions(7). A flow has no `set`: \
    adding one with the same table, match and priority replaces it."
)]
pub(crate) enum FlowsCommand {
    /// Show flows with their counters
    Show(FlowsShowArgs),
    /// Add flows, such as `priority=5,in_port=red,ip,nw_dst=10.0.0.0/8,actions=output:blue`
    ///
    /// All flows are added, or none. The configuration file is not written.
    Add(FlowsAddArgs),
    /// Remove the flows that a match covers. Alias: del.
    #[command(alias = "del")]
    Remove(FlowsRemoveArgs),
}

/// Arguments of `flows show`.
#[derive(Args, Debug)]
pub(crate) struct FlowsShowArgs {
    /// Only flows that this match covers [default: all]
    #[arg(value_name = "MATCH")]
    pub(crate) matching: Option<String>,
    /// Only flows of this bridge
    #[arg(long)]
    pub(crate) bridge: Option<String>,
    /// Measure packet rates, and show the flows with packets, the busiest first
    #[arg(long)]
    pub(crate) hot: bool,
    /// Duration of the measurement of --hot, from 100ms to 8s
    ///
    /// Counters of flows are updated about twice a second: a longer one is more exact.
    #[arg(long, default_value = "1s", value_parser = duration::positive, value_name = "TIME", requires = "hot")]
    pub(crate) interval: Span,
    /// Maximum number of flows to print
    #[arg(long, default_value_t = 1000)]
    pub(crate) limit: usize,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

/// Arguments of `flows add`.
#[derive(Args, Debug)]
pub(crate) struct FlowsAddArgs {
    /// Flows, in the syntax of `ovs-ofctl add-flow`
    #[arg(value_name = "FLOW", required = true)]
    pub(crate) flows: Vec<String>,
    /// Bridge of the flows [default: the only OpenFlow bridge]
    #[arg(long)]
    pub(crate) bridge: Option<String>,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

/// Arguments of `flows remove`.
#[derive(Args, Debug)]
pub(crate) struct FlowsRemoveArgs {
    /// Match, table and cookie of the flows; an empty text for all flows
    #[arg(value_name = "MATCH")]
    pub(crate) matching: String,
    /// Remove only the flow with exactly this match and priority
    #[arg(long)]
    pub(crate) strict: bool,
    /// Only flows of this bridge
    #[arg(long)]
    pub(crate) bridge: Option<String>,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

/// Commands on connections.
#[derive(Debug, Subcommand)]
#[command(after_help = "Connections have no `add` or `set`: packets add them, by flows with `ct(commit)`.")]
pub(crate) enum CtCommand {
    /// Show the connections of the action `ct`
    Show(CtShowArgs),
    /// Remove all connections, or those of a zone
    Flush(CtFlushArgs),
    /// Commands on limits and timeouts of connections
    #[command(subcommand)]
    Limits(CtLimitsCommand),
}

/// Commands on limits and timeouts of connections.
#[derive(Debug, Subcommand)]
pub(crate) enum CtLimitsCommand {
    /// Show limits and timeouts, and the connections that count for them
    Show(ShowArgs),
    /// Change limits and timeouts of the running switch
    ///
    /// Connections above a new limit stay. The configuration file is not written.
    Set(CtLimitsSetArgs),
}

/// Arguments of `ct limits set`.
#[derive(Args, Debug)]
pub(crate) struct CtLimitsSetArgs {
    /// Key of the `[conntrack]` section with its new value, such as `max_per_port=1000`, `zones.5=100`
    /// or `timeouts.tcp_established=1h`
    #[arg(value_name = "KEY=VALUE", value_parser = key_and_value, required = true)]
    pub(crate) set: Vec<(String, String)>,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

/// Arguments of `ct show`.
#[derive(Args, Debug)]
pub(crate) struct CtShowArgs {
    /// Only connections of this zone
    #[arg(long)]
    pub(crate) zone: Option<u16>,
    /// Maximum number of connections to print
    #[arg(long, default_value_t = 1000)]
    pub(crate) limit: usize,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

/// Arguments of `ct flush`.
#[derive(Args, Debug)]
pub(crate) struct CtFlushArgs {
    /// Only connections of this zone
    #[arg(long)]
    pub(crate) zone: Option<u16>,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

/// Commands on tunnels.
#[derive(Debug, Subcommand)]
#[command(
    after_help = "A tunnel is a port: `linerate ports add NAME --kind tunnel --set protocol=vxlan --set \
    remote=192.0.2.2 --set key=7` adds one, and `linerate ports remove NAME` removes it."
)]
pub(crate) enum TunnelsCommand {
    /// Show all tunnels with their path MTU and counters
    Show(TunnelsShowArgs),
}

/// Arguments of `tunnels show`.
#[derive(Args, Debug)]
pub(crate) struct TunnelsShowArgs {
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

/// Commands on export.
#[derive(Debug, Subcommand)]
#[command(after_help = "The keys `sflow` and `ipfix` of a `[[bridge]]` section configure export.")]
pub(crate) enum ExportCommand {
    /// Show collectors with their counters, and the numbers of interfaces
    Show(ExportShowArgs),
}

/// Arguments of `export show`.
#[derive(Args, Debug)]
pub(crate) struct ExportShowArgs {
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

/// Commands on workers.
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Workers have no `remove` or `set`, and only a pipeline has `add`: the switch starts the \
    workers of its configuration file. `linerate rebalance` moves queues between workers."
)]
pub(crate) enum WorkersCommand {
    /// Show workers with their counters
    Show(ShowArgs),
    /// Add a stage to a running pipeline without packet loss
    ///
    /// A worker stage takes a share of the flows at once; an rx or tx stage serves ports that start later.
    /// The configuration file is not written.
    Add(WorkersAddArgs),
}

/// Arguments of `workers add`; each flag corresponds to a key of a `[worker]` section.
#[derive(Args, Debug)]
pub(crate) struct WorkersAddArgs {
    /// Role of the stage
    #[arg(long, value_parser = ["rx", "work", "tx"])]
    pub(crate) role: String,
    /// CPU to pin the stage to [default: not pinned]
    #[arg(long, value_name = "CPU")]
    pub(crate) cpu: Option<usize>,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

/// Commands on the placement.
#[derive(Debug, Subcommand)]
pub(crate) enum PlacementCommand {
    /// Show the CPU of each worker of the running switch, and the queues that it serves
    Show(ShowArgs),
    /// Show the CPUs, cores, NUMA nodes and caches of this machine, and the CPUs that may be used; needs no
    /// running switch
    Machine(ShowArgs),
}

/// Arguments of `rebalance`.
#[derive(Args, Debug)]
pub(crate) struct RebalanceArgs {
    /// Print the moves and their gain without applying them
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Duration of the load measurement, from 10ms to 8s
    #[arg(long, default_value = "1s", value_parser = duration::positive, value_name = "TIME")]
    pub(crate) duration: Span,
    /// Minimum gain for a move: reduction of the busiest worker's load, as a share of a core from 0.01 to 1
    /// [default: as in `[placement]`, or 0.1]
    #[arg(long, value_name = "SHARE")]
    pub(crate) threshold: Option<f64>,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

/// Parser of port kinds by name.
fn port_kind() -> impl TypedValueParser<Value = String> {
    let values = kinds::all().map(|(name, about)| PossibleValue::new(name).help(about));
    PossibleValuesParser::new(values.collect::<Vec<_>>())
}
