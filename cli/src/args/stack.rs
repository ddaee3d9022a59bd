//! Arguments of `stack`.

use clap::builder::RangedU64ValueParser;
use clap::{Args, Subcommand};
use console::{ShowArgs, Span, duration};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Operation on the stack of a running program.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum StackCommand {
    /// Show TCP connections: ends, state, round-trip time, windows, queues and retransmissions
    Show(ConnectionsArgs),
    /// Show counters, under Linux's names where Linux has them; the table has those that are not zero
    Counters(CountersArgs),
    /// Write the packets of one connection or port into a pcapng file
    #[command(
        after_help = "SIGINT and SIGTERM end a capture (exit code 0). The file is written by the program that has \
        the stack, with the permissions of its user."
    )]
    Capture(CaptureArgs),
}

/// Arguments of `stack show`.
#[derive(Args, Clone, Debug)]
pub(crate) struct ConnectionsArgs {
    /// Only connections with this local port
    #[arg(long, value_name = "PORT", value_parser = RangedU64ValueParser::<u16>::new().range(1..))]
    pub(crate) port: Option<u16>,
    /// Only the connection with this remote end, such as `10.9.0.1:40000` or `[fd09::1]:40000`
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) remote: Option<SocketAddr>,
    /// Maximum number of connections to print
    #[arg(long, default_value_t = 1000, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    pub(crate) limit: usize,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

/// Arguments of `stack counters`.
#[derive(Args, Clone, Debug)]
#[command(mut_arg("output", |arg| arg.help("Output format; JSON has all counters")))]
pub(crate) struct CountersArgs {
    /// Read the counters twice, and also show the differences over this time. SIGINT and SIGTERM end it early
    #[arg(long, short, value_parser = duration::positive, value_name = "TIME")]
    pub(crate) interval: Option<Span>,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

/// Arguments of `stack capture`.
#[derive(Args, Clone, Debug)]
pub(crate) struct CaptureArgs {
    /// File to write, which must not exist
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The connection with this remote end, such as `10.9.0.1:40000` or `[fd09::1]:40000`
    #[arg(long, value_name = "ADDRESS:PORT", required_unless_present = "port")]
    pub(crate) remote: Option<SocketAddr>,
    /// Local end of the connection, if several have the remote end
    #[arg(long, value_name = "ADDRESS:PORT", requires = "remote")]
    pub(crate) local: Option<SocketAddr>,
    /// Packets of this local port of TCP and UDP
    #[arg(long, value_name = "PORT", conflicts_with = "remote",
          value_parser = RangedU64ValueParser::<u16>::new().range(1..))]
    pub(crate) port: Option<u16>,
    /// Maximum number of packets
    #[arg(long, default_value_t = 10_000, value_name = "N", value_parser = RangedU64ValueParser::<u64>::new().range(1..))]
    pub(crate) packets: u64,
    /// Maximum time
    #[arg(long, default_value = "1m", value_parser = duration::positive, value_name = "TIME")]
    pub(crate) duration: Span,
    /// Maximum number of bytes kept of each packet [default: all]
    #[arg(long, value_name = "BYTES", value_parser = RangedU64ValueParser::<u32>::new().range(14..=65_600))]
    pub(crate) snap: Option<u32>,
    /// Replace the file if it exists
    #[arg(long)]
    pub(crate) overwrite: bool,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}
