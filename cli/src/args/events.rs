//! Arguments of `linerate events`.

use clap::Args;
use console::ShowArgs;

/// Arguments of `events`.
#[derive(Args, Debug)]
#[command(mut_arg("output", |arg| arg.help("Output format; JSON has one event per line")))]
pub(crate) struct EventsArgs {
    /// Print further events as they happen
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Number of events, the last ones
    #[arg(short = 'n', long, value_name = "N", default_value = "20")]
    pub(crate) limit: usize,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}
