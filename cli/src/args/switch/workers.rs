//! Commands on workers and their placement.

use super::super::config::SaveArgs;
use clap::{Args, Subcommand};
use console::{ShowArgs, Span, duration};

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
    /// The configuration file is written with --save only.
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
    #[command(flatten)]
    pub(crate) save: SaveArgs,
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
