//! Arguments of `linerate multicast`.

use super::switch::{FdbSelection, FlushArgs};
use clap::{Args, Subcommand};
use console::ShowArgs;

/// Commands on multicast groups.
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Bridges have groups if their section has `multicast_snooping`. A group has no `add` or `remove`: \
    hosts join and leave it."
)]
pub(crate) enum MulticastCommand {
    /// Show groups with their ports, router ports, queriers and counters
    Show(MulticastShowArgs),
    /// Remove memberships of groups; hosts become members again with their next report
    Flush(FlushArgs),
}

/// Arguments of `multicast show`.
#[derive(Args, Debug)]
pub(crate) struct MulticastShowArgs {
    #[command(flatten)]
    pub(crate) selection: FdbSelection,
    /// Maximum number of group entries to print of each bridge
    #[arg(long, default_value_t = 1000)]
    pub(crate) limit: usize,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}
