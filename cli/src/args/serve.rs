//! Arguments of `serve`.

use super::end::{EndArgs, WorkerArgs};
use super::parse::{MAX_BYTES, bytes};
use crate::settings::access;
use clap::builder::RangedU64ValueParser;
use clap::{Args, Subcommand, ValueEnum};
use console::ShowArgs;
use console::duration::{self, Span};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Greatest limit of connections that can be configured.
const MAX_CONNECTIONS: u64 = 4 << 20;

/// A server.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum ServeCommand {
    /// Returns received bytes and datagrams (RFC 862); TCP and UDP port 7
    Echo(ServerArgs),
    /// Drops received bytes (RFC 863); TCP port 9
    Discard(ServerArgs),
    /// Sends bytes until the client closes; TCP port 19
    Source(ServerArgs),
    /// Sends the files of a directory by HTTP/1.1; TCP port 80
    Http(HttpArgs),
    /// Keeps values by key in memory, with memcached's text and meta protocol; TCP port 11211
    Kv(KvArgs),
    /// Forwards connections to another server; TCP port 8080
    Proxy(ProxyArgs),
    /// Gives the sockets of a stack to other processes, over a Unix socket
    Sockets(SocketsArgs),
}

impl ServeCommand {
    /// The port of the server.
    pub(crate) fn end_mut(&mut self) -> &mut EndArgs {
        match self {
            Self::Echo(args) | Self::Discard(args) | Self::Source(args) => &mut args.end,
            Self::Http(args) => &mut args.server.end,
            Self::Kv(args) => &mut args.server.end,
            Self::Proxy(args) => &mut args.server.end,
            Self::Sockets(args) => &mut args.end,
        }
    }
}

/// How the HTTP server reads files that are too long for its cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum FileMode {
    /// `io_uring` past the page cache (`O_DIRECT`), through it where the file system has no direct reads
    #[default]
    Direct,
    /// `io_uring` through the page cache
    Cached,
    /// pread(2), which blocks the thread
    Copy,
}

/// Arguments of the HTTP server.
#[derive(Args, Clone, Debug)]
pub(crate) struct HttpArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// Directory of the files
    pub(crate) directory: PathBuf,
    /// How files longer than --small are read
    #[arg(long, value_enum, default_value_t)]
    pub(crate) files: FileMode,
    /// Let a kernel thread per worker take requests for files from a ring (`IORING_SETUP_SQPOLL`), instead of one
    /// system call per round. The thread polls, and sleeps after 10 ms without requests. Not for --files copy
    #[arg(long)]
    pub(crate) sqpoll: bool,
    /// Maximum length of a file that is kept in memory, at most 2MiB
    #[arg(long, default_value = "1MiB", value_name = "SIZE",
          value_parser = bytes::<0, { serve::http::FileLimits::MAX_SMALL as usize }>)]
    pub(crate) small: usize,
    /// Memory for files that are kept
    #[arg(long, default_value = "256MiB", value_name = "SIZE", value_parser = bytes::<0, MAX_BYTES>)]
    pub(crate) cache: usize,
    /// Memory for blocks of larger files
    #[arg(long, default_value = "64MiB", value_name = "SIZE", value_parser = bytes::<{ 1 << 20 }, MAX_BYTES>)]
    pub(crate) blocks: usize,
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
    /// Maximum number of connections of each worker. Further ones are reset [default: 1024 of kv and proxy, 16384 of
    /// http, 65536 of others]
    #[arg(long, value_name = "NUMBER",
          value_parser = RangedU64ValueParser::<u32>::new().range(1..=MAX_CONNECTIONS))]
    pub(crate) max_connections: Option<u32>,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

/// Arguments of `kv`.
#[derive(Args, Clone, Debug)]
pub(crate) struct KvArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// Memory of the items of all workers with their keys and administration, at least 2MiB for each worker. Items are
    /// evicted when it is full
    #[arg(long, default_value = "64MiB", value_name = "SIZE",
          value_parser = bytes::<{ serve::KV_MIN_MEMORY }, MAX_BYTES>)]
    pub(crate) memory: usize,
}

/// How data passes a proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Forwarding {
    /// From the buffer in which it arrived
    #[default]
    Reference,
    /// From a copy, for comparison
    Copy,
}

/// Arguments of `proxy`.
#[derive(Args, Clone, Debug)]
pub(crate) struct ProxyArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// Server to which connections are forwarded, such as `10.9.0.1:80` or `[fd09::1]:80`
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) to: SocketAddr,
    /// Time without data after which a connection is reset [default: no limit]
    #[arg(long, value_parser = duration::positive, value_name = "TIME")]
    pub(crate) idle: Option<Span>,
    /// How data is forwarded
    #[arg(long, value_enum, default_value_t)]
    pub(crate) forward: Forwarding,
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

/// Access to a Unix socket that is created.
#[derive(Args, Clone, Debug)]
pub(crate) struct AccessArgs {
    /// Permission of the socket's file in octal, such as 0660 for a group [default: 0600]
    #[arg(long, value_name = "MODE", value_parser = access::valid_mode)]
    pub(crate) mode: Option<String>,
    /// Name or number of the user that owns the socket's file [default: the user of the process]
    #[arg(long, value_name = "USER", value_parser = access::valid_owner)]
    pub(crate) owner: Option<String>,
    /// Name or number of the group of the socket's file, which --mode admits [default: the group of the process]
    #[arg(long, value_name = "GROUP", value_parser = access::valid_group, requires = "mode")]
    pub(crate) group: Option<String>,
}

/// Arguments of `serve sockets`.
#[derive(Args, Clone, Debug)]
pub(crate) struct SocketsArgs {
    #[command(flatten)]
    pub(crate) end: EndArgs,
    #[command(flatten)]
    pub(crate) workers: WorkerArgs,
    /// Unix socket for clients, which is created. Only the owner of its file may connect, except with --mode
    #[arg(long, value_name = "PATH")]
    pub(crate) listen: PathBuf,
    #[command(flatten)]
    pub(crate) access: AccessArgs,
    /// Which client accepts a connection, if several listen on one endpoint
    #[arg(long, value_enum, default_value_t)]
    pub(crate) accept: Accept,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}
