//! Commands on flow tables, connections, tunnels and exports.

use super::super::parse::key_and_value;
use clap::{Args, Subcommand};
use console::{ShowArgs, Span, duration};

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
    /// Show, add and remove options of Geneve tunnels, which flows use as `tun_metadata0` to `tun_metadata7`
    #[command(subcommand)]
    Options(TunnelOptionsCommand),
}

/// Commands on options of Geneve tunnels.
#[derive(Debug, Subcommand)]
pub(crate) enum TunnelOptionsCommand {
    /// Show the options and the fields that they are bound to
    Show(TunnelOptionsShowArgs),
    /// Bind options to fields, such as `{class=0x102,type=0x80,len=4}->tun_metadata0`
    ///
    /// All options are bound, or none. The configuration file is not written.
    Add(TunnelOptionsAddArgs),
    /// Free a field that no flow uses. Alias: del.
    #[command(alias = "del")]
    Remove(TunnelOptionsRemoveArgs),
}

/// Arguments of `tunnels options show`.
#[derive(Args, Debug)]
pub(crate) struct TunnelOptionsShowArgs {
    /// Only options of this bridge
    #[arg(long)]
    pub(crate) bridge: Option<String>,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

/// Arguments of `tunnels options add`.
#[derive(Args, Debug)]
pub(crate) struct TunnelOptionsAddArgs {
    /// Options, in the syntax of `ovs-ofctl add-tlv-map`
    #[arg(value_name = "OPTION", required = true)]
    pub(crate) options: Vec<String>,
    /// Bridge of the tunnels [default: the only OpenFlow bridge]
    #[arg(long)]
    pub(crate) bridge: Option<String>,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

/// Arguments of `tunnels options remove`.
#[derive(Args, Debug)]
pub(crate) struct TunnelOptionsRemoveArgs {
    /// Field, such as `tun_metadata0`
    #[arg(value_name = "FIELD")]
    pub(crate) field: String,
    /// Bridge of the tunnels [default: the only OpenFlow bridge]
    #[arg(long)]
    pub(crate) bridge: Option<String>,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
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
