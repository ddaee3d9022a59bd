//! Arguments of `serve`.

use super::end::EndArgs;
use clap::builder::RangedU64ValueParser;
use clap::{Args, Subcommand, ValueEnum};
use console::Output;
use std::path::PathBuf;

/// A server.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum ServeCommand {
    /// Returns received bytes and datagrams (RFC 862); TCP and UDP port 7
    Echo(ServerArgs),
    /// Drops received bytes (RFC 863); TCP port 9
    Discard(ServerArgs),
    /// Sends bytes until the client closes; TCP port 19
    Source(ServerArgs),
    /// Gives the sockets of a stack to other processes, over a Unix socket
    Sockets(SocketsArgs),
}

/// Arguments of every server.
#[derive(Args, Clone, Debug)]
pub(crate) struct ServerArgs {
    #[command(flatten)]
    pub(crate) end: EndArgs,
    /// TCP port, and UDP port of echo [default: that of the server]
    #[arg(long, value_name = "PORT", value_parser = RangedU64ValueParser::<u16>::new().range(1..))]
    pub(crate) tcp_port: Option<u16>,
    /// Output format of the summary
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Output,
}

/// Which client accepts a connection, if several listen on one endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Accept {
    /// The first one that has room
    #[default]
    Locked,
    /// Each in turn
    RoundRobin,
    /// The one that the hash of the connection selects; an idle one takes connections of a busy one
    Own,
}

/// Arguments of `serve sockets`.
#[derive(Args, Clone, Debug)]
pub(crate) struct SocketsArgs {
    #[command(flatten)]
    pub(crate) end: EndArgs,
    /// Unix socket for clients, which is created. Its permissions decide which users may connect
    #[arg(long, value_name = "PATH")]
    pub(crate) listen: PathBuf,
    /// Which client accepts a connection, if several listen on one endpoint
    #[arg(long, value_enum, default_value_t)]
    pub(crate) accept: Accept,
    /// Output format of the summary
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Output,
}
