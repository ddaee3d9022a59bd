//! Commands on bridges: their bonds, neighbours and addresses.

use super::super::config::{KeysArgs, SaveArgs};
use super::super::parse::key_and_value;
use clap::{Args, Subcommand};
use console::ShowArgs;

/// Commands on bridges.
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Bridges with flow tables, a spanning tree, multicast snooping or export come and go with a restart of \
    the switch. `set` changes four keys of any bridge; the others are those of the start."
)]
pub(crate) enum BridgesCommand {
    /// Show bridges with their ports' counters and the most recent refused moves
    Show(BridgesShowArgs),
    /// Add a bridge, for ports that are added later
    ///
    /// The configuration file is written with --save only.
    Add(BridgesAddArgs),
    /// Change keys of a bridge
    ///
    /// `ageing`, `mac_moves`, `max_macs_per_port` and `forward_reserved` change while packets are forwarded; ports and
    /// addresses stay. The other keys are those of the start. The configuration file is written with --save only.
    Set(BridgesSetArgs),
    /// Remove a bridge without ports
    ///
    /// The configuration file is written with --save only. Alias: del.
    #[command(alias = "del")]
    Remove(BridgesRemoveArgs),
}

/// Arguments of `bridges add`.
#[derive(Args, Debug)]
pub(crate) struct BridgesAddArgs {
    /// Name of the new bridge
    pub(crate) name: String,
    /// Key of the `[[bridge]]` section; a value that is not valid TOML is a string. May be repeated
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_and_value)]
    pub(crate) set: Vec<(String, String)>,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
    #[command(flatten)]
    pub(crate) save: SaveArgs,
}

/// Arguments of `bridges set`.
#[derive(Args, Debug)]
pub(crate) struct BridgesSetArgs {
    /// Name of the bridge
    #[arg(id = "bridge", value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) keys: KeysArgs,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
    #[command(flatten)]
    pub(crate) save: SaveArgs,
}

/// Arguments of `bridges remove`.
#[derive(Args, Debug)]
pub(crate) struct BridgesRemoveArgs {
    /// Name of the bridge
    #[arg(id = "bridge", value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
    #[command(flatten)]
    pub(crate) save: SaveArgs,
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
#[command(after_help = "The configuration file is written with --save only.")]
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
    /// Show only neighbours of this port, with all fields that they announce
    #[arg(id = "port", value_name = "NAME")]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

/// Commands on the kernel fast path.
#[derive(Debug, Subcommand)]
#[command(after_help = "Ports have the fast path if their section has `kernel_fast_path = true`. Entries \
                        are installed by the switch and have no `add` or `remove`.")]
pub(crate) enum OffloadCommand {
    /// Show pairs of addresses and flows whose frames the kernel forwards, with their packets
    Show(ShowArgs),
}

/// Arguments of `bonds add`; each flag corresponds to a key of a `[[bond]]` section.
#[derive(Args, Debug)]
pub(crate) struct BondsAddArgs {
    /// Name of the new bond
    pub(crate) name: String,
    /// Members, separated by commas: ports of one learning bridge
    #[arg(id = "members", long = "ports", value_name = "PORTS", value_delimiter = ',', required = true)]
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
    #[command(flatten)]
    pub(crate) save: SaveArgs,
}

/// Arguments of `bonds set`.
#[derive(Args, Debug)]
pub(crate) struct BondsSetArgs {
    /// Name of the bond
    #[arg(id = "bond", value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) keys: KeysArgs,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
    #[command(flatten)]
    pub(crate) save: SaveArgs,
}

/// Arguments of `bonds remove`.
#[derive(Args, Debug)]
pub(crate) struct BondsRemoveArgs {
    /// Name of the bond
    #[arg(id = "bond", value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
    #[command(flatten)]
    pub(crate) save: SaveArgs,
}

/// Commands on forwarding tables.
#[derive(Debug, Subcommand)]
#[command(after_help = "An entry has no `set`: remove a static entry, then add it again.")]
pub(crate) enum FdbCommand {
    /// Show learned and static addresses
    Show(FdbShowArgs),
    /// Add a static entry for an address; it replaces a learned entry, and a static one is an error
    ///
    /// The configuration file is written with --save only.
    Add(FdbAddArgs),
    /// Remove one address, learned or static
    ///
    /// A learned address is learned again from its next packet. The configuration file is written with --save
    /// only. Alias: del.
    #[command(alias = "del")]
    Remove(FdbRemoveArgs),
    /// Remove all learned addresses; static entries remain
    Flush(FlushArgs),
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
    #[command(flatten)]
    pub(crate) save: SaveArgs,
}

/// Arguments of `fdb flush` and `multicast flush`.
#[derive(Args, Debug)]
pub(crate) struct FlushArgs {
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
    #[command(flatten)]
    pub(crate) save: SaveArgs,
}
