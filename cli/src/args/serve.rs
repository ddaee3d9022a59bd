//! Arguments of `serve`.

use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};
use console::Output;
use stack::Cidr;
use std::net::IpAddr;
use wire::MacAddress;

/// A server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Program {
    /// Returns received bytes and datagrams (RFC 862); TCP and UDP port 7
    Echo,
    /// Drops received bytes (RFC 863); TCP port 9
    Discard,
    /// Sends bytes until the client closes; TCP port 19
    Source,
}

impl Program {
    /// Default TCP port.
    pub(crate) fn tcp_port(self) -> u16 {
        match self {
            Self::Echo => 7,
            Self::Discard => 9,
            Self::Source => 19,
        }
    }
}

/// How an idle server waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Wait {
    /// Polls for 50 us, then sleeps until something arrives
    #[default]
    Adaptive,
    /// Polls continuously and uses its CPU fully
    Busy,
}

/// Arguments of `serve`.
#[derive(Args, Clone, Debug)]
pub(crate) struct ServeArgs {
    /// Server
    #[arg(value_enum)]
    pub(crate) program: Program,
    /// Port with the keys of a `[[port]]` section, separated by commas, such as `kind=tap,interface=web0` or
    /// `kind=vhost-user,socket=/run/web.sock`
    #[arg(long, value_name = "KEY=VALUE,...")]
    pub(crate) port: String,
    /// IPv4 or IPv6 address with its prefix length, such as 10.9.0.2/24. May be repeated
    #[arg(long = "address", required = true, value_name = "ADDRESS/PREFIX")]
    pub(crate) addresses: Vec<Cidr>,
    /// Router for all other destinations of its IP version. May be repeated
    #[arg(long = "gateway", value_name = "ADDRESS")]
    pub(crate) gateways: Vec<IpAddr>,
    /// Ethernet address [default: random, locally administered]
    #[arg(long, value_name = "MAC")]
    pub(crate) mac: Option<MacAddress>,
    /// Maximum length of an IP packet in bytes
    #[arg(long, default_value_t = 1500, value_name = "BYTES",
          value_parser = RangedU64ValueParser::<u16>::new().range(1280..=65_535))]
    pub(crate) mtu: u16,
    /// TCP port, and UDP port of echo [default: that of the server]
    #[arg(long, value_name = "PORT", value_parser = RangedU64ValueParser::<u16>::new().range(1..))]
    pub(crate) tcp_port: Option<u16>,
    /// Wait for a Unix socket of the port if it connects and there is no listener yet
    #[arg(long)]
    pub(crate) wait: bool,
    /// CPU to pin the server to
    #[arg(long)]
    pub(crate) cpu: Option<usize>,
    /// How an idle server waits
    #[arg(long, value_enum, default_value_t)]
    pub(crate) polling: Wait,
    /// Output format of the summary
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Output,
}
