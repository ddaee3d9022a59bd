//! Arguments of `linerate mirrors`.

use super::config::SaveArgs;
use clap::{Args, Subcommand};
use console::ShowArgs;

/// Commands on mirrors.
#[derive(Debug, Subcommand)]
#[command(after_help = "A mirror has no `set`: remove it, then add it again. Its counters start at 0 then.")]
pub(crate) enum MirrorsCommand {
    /// Show mirrors with their counters
    Show(MirrorsShowArgs),
    /// Add a mirror: copies of the packets of some ports, for a port or a VLAN
    ///
    /// The configuration file is written with --save only.
    Add(MirrorsAddArgs),
    /// Remove a mirror
    ///
    /// The configuration file is written with --save only. Alias: del.
    #[command(alias = "del")]
    Remove(MirrorsRemoveArgs),
}

/// Arguments of `mirrors show`.
#[derive(Args, Debug)]
pub(crate) struct MirrorsShowArgs {
    /// Show only this mirror
    #[arg(id = "mirror", value_name = "NAME")]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

/// Arguments of `mirrors add`; each flag corresponds to a key of a `[[mirror]]` section.
#[derive(Args, Debug)]
pub(crate) struct MirrorsAddArgs {
    /// Name of the new mirror
    pub(crate) name: String,
    /// Bridge of the mirror; optional if there is only one
    #[arg(long)]
    pub(crate) bridge: Option<String>,
    /// Ports whose received packets are copied, separated by commas
    #[arg(long, value_name = "PORTS", value_delimiter = ',')]
    pub(crate) source_ports: Vec<String>,
    /// Ports whose sent packets are copied, separated by commas
    #[arg(long, value_name = "PORTS", value_delimiter = ',')]
    pub(crate) destination_ports: Vec<String>,
    /// Copy received and sent packets of all ports
    #[arg(long)]
    pub(crate) all: bool,
    /// Copy packets of these VLANs only, separated by commas
    #[arg(long, value_name = "VLANS", value_delimiter = ',')]
    pub(crate) vlans: Vec<u16>,
    /// Port to which copies are sent; it is reserved for mirrors
    #[arg(
        long,
        value_name = "PORT",
        conflicts_with = "output_vlan",
        required_unless_present = "output_vlan"
    )]
    pub(crate) output_port: Option<String>,
    /// VLAN to all ports of which copies are sent
    #[arg(long, value_name = "VLAN")]
    pub(crate) output_vlan: Option<u16>,
    /// Maximum bytes of a copy [default: whole packets]
    #[arg(long, value_name = "BYTES")]
    pub(crate) snap_length: Option<u16>,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
    #[command(flatten)]
    pub(crate) save: SaveArgs,
}

/// Arguments of `mirrors remove`.
#[derive(Args, Debug)]
pub(crate) struct MirrorsRemoveArgs {
    /// Name of the mirror
    #[arg(id = "mirror", value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
    #[command(flatten)]
    pub(crate) save: SaveArgs,
}
