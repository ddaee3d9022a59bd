//! Commands on ports.

use super::super::config::{KeysArgs, SaveArgs};
use super::super::parse::key_and_value;
use crate::settings::kinds;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use console::ShowArgs;
use std::path::PathBuf;

/// Commands on ports.
#[derive(Debug, Subcommand)]
pub(crate) enum PortsCommand {
    /// Show ports with their counters
    Show(PortsShowArgs),
    /// Add a port
    ///
    /// The port is added to the running switch, and with --save to the configuration file.
    Add(Box<PortsAddArgs>),
    /// Change keys of a port
    ///
    /// A port that differs is removed and added again with its number: its guest connects again, and its counters
    /// start at 0. If it cannot be added, it runs as before. The configuration file is written with --save only.
    Set(PortsSetArgs),
    /// Remove a port and disconnect its guest
    ///
    /// The port is removed from the running switch, and with --save from the configuration file. Alias: del.
    #[command(alias = "del")]
    Remove(PortsRemoveArgs),
}

/// Arguments of `ports set`.
#[derive(Args, Debug)]
pub(crate) struct PortsSetArgs {
    /// Name of the port
    #[arg(id = "port", value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) keys: KeysArgs,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
    #[command(flatten)]
    pub(crate) save: SaveArgs,
}

/// Arguments of `ports remove`.
#[derive(Args, Debug)]
pub(crate) struct PortsRemoveArgs {
    /// Name of the port
    #[arg(id = "port", value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
    #[command(flatten)]
    pub(crate) save: SaveArgs,
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
    #[command(flatten)]
    pub(crate) save: SaveArgs,
}

/// Parser of port kinds by name.
fn port_kind() -> impl TypedValueParser<Value = String> {
    let values = kinds::all().map(|(name, about)| PossibleValue::new(name).help(about));
    PossibleValuesParser::new(values.collect::<Vec<_>>())
}
