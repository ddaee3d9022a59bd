//! Commands on workers and their placement.

use super::super::config::{KeysArgs, SaveArgs};
use clap::{Args, Subcommand};
use console::{ShowArgs, Span, duration};

/// Commands on workers.
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Numbers of workers stay when others are removed, until the switch starts again. `linerate rebalance` \
    moves queues between workers."
)]
pub(crate) enum WorkersCommand {
    /// Show workers with their counters
    Show(ShowArgs),
    /// Add a worker to the running switch without packet loss
    ///
    /// In a pipeline it is a stage: a worker stage takes a share of the flows at once, and an rx or tx stage serves
    /// ports that start later. In other models, queues of ports with several pairs may move to it. The configuration
    /// file is written with --save only.
    Add(WorkersAddArgs),
    /// Change keys of a worker while it runs
    ///
    /// The keys are those of a `[[worker]]` section: `cpu`, `polling` and `queue_full`. Stages of a pipeline on one
    /// thread have them in common. The configuration file is written with --save only.
    Set(WorkersSetArgs),
    /// Remove a worker without packet loss
    ///
    /// Other workers continue its queues and flows. The last worker of a role cannot be removed. The configuration
    /// file is written with --save only.
    Remove(WorkersRemoveArgs),
}

/// Arguments of `workers add`.
#[derive(Args, Debug)]
pub(crate) struct WorkersAddArgs {
    /// Role of the stage; required in a pipeline, and only there
    #[arg(long, value_parser = ["rx", "work", "tx"])]
    pub(crate) role: Option<String>,
    /// CPU to pin the worker to [default: not pinned]
    #[arg(long, value_name = "CPU")]
    pub(crate) cpu: Option<usize>,
    /// Idle worker: sleeps until a notification, or polls always [default: as the first worker]
    #[arg(long, value_parser = ["adaptive", "busy"])]
    pub(crate) polling: Option<String>,
    /// Full destination: the packet is dropped, or the worker waits [default: as the first worker]
    #[arg(long, value_parser = ["drop", "wait"])]
    pub(crate) queue_full: Option<String>,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
    #[command(flatten)]
    pub(crate) save: SaveArgs,
}

/// Arguments of `workers set`.
#[derive(Args, Debug)]
pub(crate) struct WorkersSetArgs {
    /// Number of the worker
    pub(crate) index: usize,
    #[command(flatten)]
    pub(crate) keys: KeysArgs,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
    #[command(flatten)]
    pub(crate) save: SaveArgs,
}

/// Arguments of `workers remove`.
#[derive(Args, Debug)]
pub(crate) struct WorkersRemoveArgs {
    /// Number of the worker
    pub(crate) index: usize,
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
