//! Arguments of `serve`.

use super::end::{EndArgs, WorkerArgs};
use clap::builder::RangedU64ValueParser;
use clap::{Args, Subcommand};
use console::Output;

/// A server.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum ServeCommand {
    /// Returns received bytes and datagrams (RFC 862); TCP and UDP port 7
    Echo(ServerArgs),
    /// Drops received bytes (RFC 863); TCP port 9
    Discard(ServerArgs),
    /// Sends bytes until the client closes; TCP port 19
    Source(ServerArgs),
}

/// Arguments of every server.
#[derive(Args, Clone, Debug)]
pub(crate) struct ServerArgs {
    #[command(flatten)]
    pub(crate) end: EndArgs,
    #[command(flatten)]
    pub(crate) workers: WorkerArgs,
    /// TCP port, and UDP port of echo [default: that of the server]
    #[arg(long, value_name = "PORT", value_parser = RangedU64ValueParser::<u16>::new().range(1..))]
    pub(crate) tcp_port: Option<u16>,
    /// Output format of the summary
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Output,
}
