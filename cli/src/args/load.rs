//! Arguments of `load`.

use super::end::{EndArgs, WorkerArgs};
use clap::builder::RangedU64ValueParser;
use clap::{Args, Subcommand};
use console::{ResultArgs, Span, duration};
use serve::load::{Keys, Spacing};
use std::net::SocketAddr;

/// Help of `--out`.
const OUT: &str = "Write the result to this file when the run ends: FILE.json; FILE.html, a page with figures; or DIR/ \
    with the figures. May be repeated";

/// A workload.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum LoadCommand {
    /// Sends bytes that an echo server returns (RFC 862), and compares them
    Echo(EchoArgs),
    /// Sends GET requests to an HTTP/1.1 server
    Http(HttpArgs),
    /// Sends get and set requests to a server with the text protocol of memcached
    Kv(KvArgs),
}

impl LoadCommand {
    /// The port of the client.
    pub(crate) fn end_mut(&mut self) -> &mut EndArgs {
        match self {
            Self::Echo(args) => &mut args.client.end,
            Self::Http(args) => &mut args.client.end,
            Self::Kv(args) => &mut args.client.end,
        }
    }
}

/// Arguments of `load echo`.
#[derive(Args, Clone, Debug)]
pub(crate) struct EchoArgs {
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    /// Length of a request in bytes
    #[arg(long, default_value_t = 64, value_name = "BYTES",
          value_parser = RangedU64ValueParser::<u32>::new().range(1..=1 << 20))]
    pub(crate) size: u32,
    /// Count the bytes of replies without comparing them
    #[arg(long)]
    pub(crate) no_check: bool,
}

/// Arguments of `load http`.
#[derive(Args, Clone, Debug)]
pub(crate) struct HttpArgs {
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    /// Path of a request. May be repeated: paths are requested in turn
    #[arg(long = "path", default_value = "/", value_name = "PATH")]
    pub(crate) paths: Vec<String>,
    /// Value of the Host field [default: address and port of the server]
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Option<String>,
}

/// Arguments of `load kv`.
#[derive(Args, Clone, Debug)]
pub(crate) struct KvArgs {
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    /// Number of keys
    #[arg(long, default_value_t = 10_000, value_name = "N",
          value_parser = RangedU64ValueParser::<u32>::new().range(1..=1 << 24))]
    pub(crate) keys: u32,
    /// Distribution of keys: uniform or zipf:EXPONENT
    #[arg(long, default_value = "uniform", value_name = "NAME", value_parser = keys)]
    pub(crate) distribution: Keys,
    /// Length of a value in bytes
    #[arg(long, default_value_t = 100, value_name = "BYTES",
          value_parser = RangedU64ValueParser::<u32>::new().range(0..=1 << 20))]
    pub(crate) size: u32,
    /// Share of get requests in percent; the others are set requests
    #[arg(long, default_value_t = 90.0, value_name = "PERCENT", value_parser = percent)]
    pub(crate) gets: f64,
    /// Do not set all keys before the warm-up
    #[arg(long)]
    pub(crate) no_fill: bool,
    /// Seed of the choice of keys and requests
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
}

/// Arguments of every workload.
#[derive(Args, Clone, Debug)]
#[command(mut_arg("out", |arg| arg.help(OUT)))]
pub(crate) struct ClientArgs {
    #[command(flatten)]
    pub(crate) end: EndArgs,
    #[command(flatten)]
    pub(crate) workers: WorkerArgs,
    /// Address and TCP port of the server, such as `10.9.0.1:80` or `[fd09::1]:80`
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) to: SocketAddr,
    /// Number of source addresses: the --address of the server's network and the ones that follow it. Each has 64512
    /// ports, or 56448 with several workers
    #[arg(long, default_value_t = 1, value_name = "N",
          value_parser = RangedU64ValueParser::<u16>::new().range(1..=1024))]
    pub(crate) sources: u16,
    /// Number of connections
    #[arg(long, short, default_value_t = 1, value_name = "N",
          value_parser = RangedU64ValueParser::<u32>::new().range(1..=1 << 24))]
    pub(crate) connections: u32,
    #[command(flatten)]
    pub(crate) pace: PaceArgs,
    #[command(flatten)]
    pub(crate) run: RoundArgs,
    #[command(flatten)]
    pub(crate) result: ResultArgs,
}

/// When requests are sent, and connections opened.
#[derive(Args, Clone, Debug)]
pub(crate) struct PaceArgs {
    /// Maximum number of requests on their way on one connection
    #[arg(long, default_value_t = 1, value_name = "N",
          value_parser = RangedU64ValueParser::<u16>::new().range(1..=1024))]
    pub(crate) depth: u16,
    /// Requests per second of all connections (open loop): latency counts from the time at which a request is due.
    /// Without it, each reply is followed by the next request (closed loop)
    #[arg(long, value_name = "N", value_parser = rate)]
    pub(crate) rate: Option<f64>,
    /// Spacing of the requests of --rate: constant or poisson:SEED
    #[arg(long, default_value = "poisson:1", value_name = "NAME", value_parser = spacing)]
    pub(crate) spacing: Spacing,
    /// Time between a reply and the next request of its connection
    #[arg(long, default_value = "0s", value_parser = duration::any, value_name = "TIME", conflicts_with = "rate")]
    pub(crate) think: Span,
    /// Close a connection after this many requests, and open another one
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<u32>::new().range(1..))]
    pub(crate) requests_per_connection: Option<u32>,
    /// Maximum number of connections opened per second
    #[arg(long, value_name = "N", value_parser = rate)]
    pub(crate) connect_rate: Option<f64>,
}

/// Length of a run.
#[derive(Args, Clone, Debug)]
pub(crate) struct RoundArgs {
    /// Time before the first round, after all connections were opened
    #[arg(long, default_value = "500ms", value_parser = duration::any, value_name = "TIME")]
    pub(crate) warm_up: Span,
    /// Duration of a round
    #[arg(long, default_value = "10s", value_parser = duration::positive, value_name = "TIME")]
    pub(crate) duration: Span,
    /// Number of rounds
    #[arg(long, default_value_t = 1, value_name = "N",
          value_parser = RangedU64ValueParser::<u32>::new().range(1..=1000))]
    pub(crate) rounds: u32,
    /// Time without any connection or reply after which the run ends
    #[arg(long, default_value = "10s", value_parser = duration::positive, value_name = "TIME")]
    pub(crate) timeout: Span,
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate| (1e-3..=1e9).contains(rate));
    rate.ok_or_else(|| "expected a number per second from 0.001 to 1e9".to_owned())
}

fn percent(text: &str) -> Result<f64, String> {
    let percent = text.parse().ok().filter(|percent| (0.0..=100.0).contains(percent));
    percent.ok_or_else(|| "expected 0 to 100".to_owned())
}

fn spacing(text: &str) -> Result<Spacing, String> {
    let seed = text.strip_prefix("poisson:").and_then(|seed| seed.parse().ok());
    match (text, seed) {
        ("constant", _) => Ok(Spacing::Constant),
        (_, Some(seed)) => Ok(Spacing::Poisson(seed)),
        _ => Err("expected constant or poisson:SEED".to_owned()),
    }
}

fn keys(text: &str) -> Result<Keys, String> {
    let exponent = text.strip_prefix("zipf:").and_then(|exponent| exponent.parse().ok());
    match (text, exponent.filter(|exponent| (0.01..=10.0).contains(exponent))) {
        ("uniform", _) => Ok(Keys::Uniform),
        (_, Some(exponent)) => Ok(Keys::Zipf(exponent)),
        _ => Err("expected uniform or zipf:EXPONENT with an exponent from 0.01 to 10".to_owned()),
    }
}
