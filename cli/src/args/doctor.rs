//! Arguments of `linerate doctor`.

use clap::Args;
use console::{ShowArgs, Span, duration};

/// Arguments of `doctor`.
#[derive(Args, Debug)]
#[command(after_help = "Exit code: 0 if no known cause was found, 1 if one was found.")]
pub(crate) struct DoctorArgs {
    /// Look at this port and its workers only
    pub(crate) port: Option<String>,
    /// Time between two readings of the counters
    #[arg(long, short, default_value = "2s", value_parser = duration::positive, value_name = "TIME")]
    pub(crate) interval: Span,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}
