//! Arguments of `linerate queues`.

use crate::settings::wrappers::rate::BitRate;
use clap::{Args, Subcommand};
use console::ShowArgs;

/// Commands on queues of ports.
#[derive(Debug, Subcommand)]
pub(crate) enum QueuesCommand {
    /// Show the queues of ports with their rates and counters
    Show(QueuesShowArgs),
    /// Change the rates of a queue
    ///
    /// The configuration file is not written: to keep the rates, change `queues` of its `[[port]]` section.
    Set(QueuesSetArgs),
}

/// Arguments of `queues show`.
#[derive(Args, Debug)]
pub(crate) struct QueuesShowArgs {
    /// Show only the queues of this port
    #[arg(id = "port", value_name = "PORT")]
    pub(crate) port: Option<String>,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

/// Arguments of `queues set`.
#[derive(Args, Debug)]
#[command(override_usage = "linerate queues set [OPTIONS] <PORT> <QUEUE>")]
#[command(group = clap::ArgGroup::new("rates").args(["rate", "ceil"]).multiple(true).required(true))]
pub(crate) struct QueuesSetArgs {
    /// Port
    #[arg(id = "port", value_name = "PORT")]
    pub(crate) port: String,
    /// Number of the queue
    #[arg(value_name = "QUEUE")]
    pub(crate) queue: u8,
    /// Guaranteed rate, such as 100Mbit/s
    #[arg(long, value_name = "RATE")]
    pub(crate) rate: Option<BitRate>,
    /// Maximum rate
    #[arg(long, value_name = "RATE")]
    pub(crate) ceil: Option<BitRate>,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}
