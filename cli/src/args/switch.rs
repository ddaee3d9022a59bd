//! Arguments of the commands that ask a running switch.

use super::parse::key_and_value;
use crate::settings::kinds;
use crate::settings::value::Span;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use console::{Output, ShowArgs};
use std::path::PathBuf;

/// What to do with ports.
#[derive(Debug, Subcommand)]
pub(crate) enum PortsCommand {
    /// Show ports with their counters
    Show(PortsShowArgs),
    /// Add a port
    ///
    /// The running switch gets it at once. The configuration file is not written: to keep the port, add the section
    /// that is printed to the file.
    Add(Box<PortsAddArgs>),
    /// Remove a port; its guest is cut off
    ///
    /// The running switch loses it at once. The configuration file is not written: a port that has a section there
    /// returns with the next start.
    Remove {
        /// Name of the port
        name: String,
    },
}

/// Arguments of `ports show`.
#[derive(Args, Debug)]
pub(crate) struct PortsShowArgs {
    /// Only this port, in full
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

/// Arguments of `ports add`; the same words as in a `[[port]]` section.
#[derive(Args, Debug)]
pub(crate) struct PortsAddArgs {
    /// Name of the new port
    pub(crate) name: String,
    /// What sort of port it is [default: vhost-user]
    #[arg(long, value_parser = port_kind())]
    pub(crate) kind: Option<String>,
    /// A key of the port's section and its value, as in a file; a value that is no TOML is a string. May be repeated
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_and_value)]
    pub(crate) set: Vec<(String, String)>,
    /// Path of the socket, where the kind has one
    #[arg(long, value_name = "SOCKET")]
    pub(crate) socket: Option<PathBuf>,
    /// Whether this switch creates the socket (server) or the other side does (client) [default: as the kind has it]
    #[arg(long)]
    pub(crate) mode: Option<String>,
    /// Bridge to join; may be left out where there is only one
    #[arg(long)]
    pub(crate) bridge: Option<String>,
    /// Queue pairs offered to the guest, or asked of the other switch
    #[arg(long, value_name = "N")]
    pub(crate) queue_pairs: Option<u16>,
    /// Ring of a virtio-user port: split, split-inorder, packed or packed-inorder
    #[arg(long, value_name = "RING")]
    pub(crate) ring: Option<String>,
    /// Entries per ring of a virtio-user port
    #[arg(long, value_name = "N")]
    pub(crate) queue_size: Option<u16>,
    /// Whether frames that a virtio-user port receives may span buffers
    #[arg(long, value_name = "true|false")]
    pub(crate) mergeable: Option<bool>,
    /// Largest packet in bytes, without the Ethernet header
    #[arg(long, value_name = "BYTES")]
    pub(crate) mtu: Option<u16>,
    /// Access port of this VLAN
    #[arg(long, value_name = "VLAN", conflicts_with_all = ["trunk", "native"])]
    pub(crate) vlan: Option<u16>,
    /// Trunk port of these VLANs, separated by commas
    #[arg(long, value_name = "VLANS", value_delimiter = ',')]
    pub(crate) trunk: Vec<u16>,
    /// VLAN of untagged frames on a trunk port
    #[arg(long, value_name = "VLAN", requires = "trunk")]
    pub(crate) native: Option<u16>,
    /// Most broadcast and multicast packets a second from this port
    #[arg(long, value_name = "PACKETS")]
    pub(crate) broadcast_limit: Option<u32>,
    /// Most packets a second from this port to addresses that are not learned
    #[arg(long, value_name = "PACKETS")]
    pub(crate) unknown_limit: Option<u32>,
    /// Most addresses learned from this port
    #[arg(long, value_name = "N")]
    pub(crate) max_macs: Option<u32>,
    /// The network behind this port is trusted, as an uplink is: its announcements move addresses, and DHCP servers and
    /// routers are accepted from it
    #[arg(long)]
    pub(crate) trusted: bool,
    /// The only source addresses that are allowed from this port, separated by commas
    #[arg(long, value_name = "ADDRESSES", value_delimiter = ',')]
    pub(crate) macs: Vec<String>,
    /// Whether addresses are learned from this port
    #[arg(long, value_name = "true|false")]
    pub(crate) learn: Option<bool>,
    /// The only IP source addresses that are allowed from this port, separated by commas: addresses, networks, or dhcp
    #[arg(long, value_name = "SOURCES", value_delimiter = ',')]
    pub(crate) sources: Vec<String>,
}

/// What to do with bridges.
#[derive(Debug, Subcommand)]
pub(crate) enum BridgesCommand {
    /// Show bridges with their ports' counters and the latest refused moves
    Show(ShowArgs),
}

/// What to do with forwarding tables.
#[derive(Debug, Subcommand)]
pub(crate) enum FdbCommand {
    /// Show learned and static addresses
    Show(FdbShowArgs),
    /// Pin an address to a port, wherever it was before
    ///
    /// The configuration file is not written: to keep the entry, add a `[[bridge.static]]` section to it.
    Add(FdbAddArgs),
    /// Forget one address, learned or static
    ///
    /// One that was learned is learned again from its next packet. The configuration file is not written: an entry
    /// that has a section there returns with the next start.
    #[command(visible_alias = "del")]
    Remove(FdbRemoveArgs),
    /// Forget learned addresses; static entries stay
    Flush(FdbFlushArgs),
}

/// Which addresses are meant.
#[derive(Args, Debug)]
pub(crate) struct FdbSelection {
    /// Only on this bridge
    #[arg(long)]
    pub(crate) bridge: Option<String>,
    /// Only behind this port
    #[arg(long)]
    pub(crate) port: Option<String>,
    /// Only in this VLAN; 0: without one
    #[arg(long, value_parser = clap::value_parser!(u16).range(0..=4094))]
    pub(crate) vlan: Option<u16>,
}

/// Arguments of `fdb show`.
#[derive(Args, Debug)]
pub(crate) struct FdbShowArgs {
    #[command(flatten)]
    pub(crate) selection: FdbSelection,
    /// Most entries to print
    #[arg(long, default_value_t = 1000)]
    pub(crate) limit: usize,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

/// Arguments of `fdb add`.
#[derive(Args, Debug)]
pub(crate) struct FdbAddArgs {
    /// The address, as 02:00:00:00:00:01
    pub(crate) mac: String,
    /// The port behind which it lives
    #[arg(long)]
    pub(crate) port: String,
    /// Its VLAN; 0 for untagged frames of a port without VLANs
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=4094))]
    pub(crate) vlan: u16,
}

/// Arguments of `fdb flush`.
#[derive(Args, Debug)]
pub(crate) struct FdbFlushArgs {
    #[command(flatten)]
    pub(crate) selection: FdbSelection,
}

/// Arguments of `fdb remove`.
#[derive(Args, Debug)]
pub(crate) struct FdbRemoveArgs {
    /// The address, as 02:00:00:00:00:01
    pub(crate) mac: String,
    #[command(flatten)]
    pub(crate) selection: FdbSelection,
}

/// What to do with workers.
#[derive(Debug, Subcommand)]
pub(crate) enum WorkersCommand {
    /// Show workers with their counters
    Show(ShowArgs),
    /// Add a stage to a running pipeline, without losing a packet
    ///
    /// A worker stage has a share of the flows from now on; an Rx or Tx stage has the ports that start from now on. The
    /// configuration file is not written.
    Add(WorkersAddArgs),
}

/// Arguments of `workers add`; the words of a `[worker]` section.
#[derive(Args, Debug)]
pub(crate) struct WorkersAddArgs {
    /// What it does
    #[arg(long, value_parser = ["rx", "work", "tx"])]
    pub(crate) role: String,
    /// The CPU it is pinned to; wherever the kernel puts it, unless given
    #[arg(long, value_name = "NUMBER")]
    pub(crate) cpu: Option<usize>,
}

/// What to show of a placement.
#[derive(Debug, Subcommand)]
pub(crate) enum PlacementCommand {
    /// Show which worker of the running switch is where, and which queues it serves
    Show(ShowArgs),
    /// Show the CPUs, cores, nodes and caches of this machine, and which of them may be used; no switch is asked
    Machine(ShowArgs),
}

/// Arguments of `rebalance`.
#[derive(Args, Debug)]
pub(crate) struct RebalanceArgs {
    /// Only say what would be moved, and what that would gain
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// How long load is measured, from 10ms to 8s
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub(crate) over: Span,
    /// What must be gained: the share of a core, 0.01 to 1, by which the busiest worker has less to do
    /// [default: as in `[placement]`, or 0.1]
    #[arg(long, value_name = "SHARE")]
    pub(crate) threshold: Option<f64>,
    /// How to print
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Output,
}

/// The kinds of port, by their names.
fn port_kind() -> impl TypedValueParser<Value = String> {
    let values = kinds::all().map(|(name, about)| PossibleValue::new(name).help(about));
    PossibleValuesParser::new(values.collect::<Vec<_>>())
}
