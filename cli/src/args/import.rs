//! Arguments of `linerate import`.

use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Other switches whose configuration can be read.
#[derive(Debug, Subcommand)]
pub(crate) enum ImportCommand {
    /// Print a configuration file with the bridges, ports, VLANs, bonds and mirrors of Open vSwitch
    ///
    /// The database is only read. Settings without a counterpart are printed on standard error, and are comments of the
    /// file.
    Ovs(ImportOvsArgs),
}

/// Arguments of `import ovs`.
#[derive(Args, Debug)]
#[command(
    after_help = "Exit code: 0 also if settings were not translated. `linerate check` validates the result."
)]
pub(crate) struct ImportOvsArgs {
    /// File of the database (`conf.db`) or output of `ovsdb-client dump -f json`, `-` for standard input, instead of a
    /// running server
    #[arg(value_name = "FILE", conflicts_with = "db")]
    pub(crate) file: Option<PathBuf>,
    /// Socket of the running ovsdb-server, as unix:PATH
    #[arg(long, value_name = "SERVER", default_value = "unix:/var/run/openvswitch/db.sock")]
    pub(crate) db: String,
    /// Kind of ports for network cards and other interfaces of the kernel
    #[arg(long, value_enum, default_value_t, value_name = "KIND")]
    pub(crate) cards: Cards,
    /// Write the configuration to this file, which must not exist, instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

/// Kind of ports for interfaces of the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Cards {
    /// AF_XDP sockets
    #[default]
    #[value(name = "af_xdp")]
    AfXdp,
    /// Packet sockets, for interfaces without XDP
    #[value(name = "af_packet")]
    AfPacket,
}
