//! The generator's part of the command line.

use super::parse::{advised, key_and_value};
use clap::Args;
use console::{ShowArgs, Span, duration};
use generator::rate::Rate;
use generator::rig::Timing;
use generator::schedule::Pace;
use generator::{Description, FIELDS, Key, Outer, PATTERNS, Sizes, Transport};
use std::net::IpAddr;
use std::path::PathBuf;
use wire::MacAddress;

const ABOUT: &str = "SIGINT and SIGTERM end a run early; the results so far are printed.

JITTER is the mean of RFC 3550's estimate over the run; IPDV is the difference of delay between consecutive frames \
(RFC 3393). The baseline rows show the same streams over a loopback wire inside the generator, without a switch.";

/// Keys and fields of a stream: the end of the long help and of the manual page.
pub(crate) fn long_help() -> String {
    let plain = |text: &str| text.replace('`', "");
    let key = |key: &Key| {
        let Key { name, values, default, about } = key;
        plain(&format!("  {name}: {values} [{default}]. {about}\n"))
    };
    let keys = |keys: &[Key]| keys.iter().map(key).collect::<String>();
    let pairs = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(name, about)| plain(&format!("  {name}: {about}\n"))).collect::<String>()
    };
    let [stream, tunnel] = [Description::keys(), Outer::keys()].map(|found| keys(&found));
    let [fields, patterns] = [pairs(&FIELDS), pairs(&PATTERNS)];
    format!(
        "{ABOUT}\n\nKeys of a [[stream]] section, and of --set; defaults in brackets:\n{stream}\nKeys of vxlan:\n\
         {tunnel}\nFields of vary:\n{fields}\nPatterns:\n{}",
        patterns.trim_end()
    )
}

/// Arguments of `gen`.
#[derive(Args, Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "one per flag")]
pub(crate) struct GenArgs {
    /// File with `[[stream]]` and `[[port]]` sections; without it, flags describe a single stream
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Port with the keys of a `[[port]]` section, separated by commas, such as
    /// `kind=virtio-user,socket=/tmp/a,mode=client`. The first port sends; the second one receives, or
    /// the first if it is the only one
    #[arg(long = "port", value_name = "KEY=VALUE,...")]
    pub(crate) ports: Vec<String>,
    #[command(flatten)]
    pub(crate) stream: StreamArgs,
    /// Total rate of all streams: 10kpps, 2.5Gbit/s (frames without checksum), 2.5Gbit/s-wire (with checksum,
    /// preamble and gap), "50% of 10GbE" (line rate of 10, 25, 40 or 100) or max
    #[arg(long, default_value = "10kpps", value_parser = advised::<Rate>, value_name = "RATE")]
    pub(crate) rate: Rate,
    /// Distribution of frames over time: constant, burst:N or poisson:SEED
    #[arg(long, default_value = "constant", value_parser = pace, value_name = "PACE")]
    pub(crate) pace: Pace,
    /// Duration of the measurement
    #[arg(long, default_value = "5s", value_parser = duration::positive, value_name = "TIME")]
    pub(crate) duration: Span,
    /// Duration of the warm-up, which is not measured; up to 1 s longer until a frame arrives, unless --no-announce
    #[arg(long, default_value = "500ms", value_parser = duration::any, value_name = "TIME")]
    pub(crate) warm_up: Span,
    /// Wait for a Unix socket of a port that connects if it has no listener yet, at most as long as --timeout
    #[arg(long)]
    pub(crate) wait: bool,
    /// Timeout for ports to become ready
    #[arg(long, default_value = "10s", value_parser = duration::positive, value_name = "TIME")]
    pub(crate) timeout: Span,
    /// Maximum burst in frames of a stream that is behind schedule; the excess is not sent and is counted
    /// [default: frames due in 10 ms, limited to 64 to 1024, or frames due in 1 ms if that is more]
    #[arg(long, value_name = "FRAMES")]
    pub(crate) catch_up: Option<u64>,
    /// Do not announce the receiver's addresses before and during warm-up
    #[arg(long)]
    pub(crate) no_announce: bool,
    /// Skip the loopback baseline, a run of the same streams without a switch
    #[arg(long)]
    pub(crate) no_baseline: bool,
    /// CPU to pin the generator to
    #[arg(long)]
    pub(crate) cpu: Option<usize>,
    /// Print a histogram of each latency
    #[arg(long)]
    pub(crate) histogram: bool,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

/// A single stream by flags; each flag corresponds to a key of a `[[stream]]` section.
#[derive(Args, Clone, Debug, Default, PartialEq)]
pub(crate) struct StreamArgs {
    /// Frame sizes in bytes without checksum: one (64), several in turn (64,1514), imix, or weighted
    /// (64:7,570:4)
    #[arg(long, value_parser = advised::<Sizes>, value_name = "SIZES")]
    pub(crate) size: Option<Sizes>,
    /// Number of flows
    #[arg(long, value_name = "N")]
    pub(crate) flows: Option<u32>,
    /// Send the frames of this capture file, unchanged except for a tag at the end of their payloads
    #[arg(long, value_name = "FILE")]
    pub(crate) pcap: Option<PathBuf>,
    /// Source MAC address
    #[arg(long, value_name = "MAC")]
    pub(crate) source_mac: Option<MacAddress>,
    /// Destination MAC address
    #[arg(long, value_name = "MAC")]
    pub(crate) destination_mac: Option<MacAddress>,
    /// Source IPv4 or IPv6 address
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) source: Option<IpAddr>,
    /// Destination IPv4 or IPv6 address
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) destination: Option<IpAddr>,
    /// Transport header: udp, tcp or none
    #[arg(long, value_parser = transport, value_name = "NAME")]
    pub(crate) transport: Option<Transport>,
    /// VLAN tags, outermost first
    #[arg(long, value_delimiter = ',', value_name = "VLANS")]
    pub(crate) vlan: Vec<u16>,
    /// Any other key of the `[[stream]]` section, such as `vary={ttl={random=1}}`. May be repeated
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_and_value)]
    pub(crate) set: Vec<(String, String)>,
}

impl GenArgs {
    /// Returns the timing of the run.
    pub(crate) fn timing(&self) -> Timing {
        Timing {
            rate: self.rate,
            pace: self.pace,
            duration: self.duration.0,
            warm_up: self.warm_up.0,
            catch_up: self.catch_up,
            timeout: self.timeout.0,
            announce: !self.no_announce,
        }
    }
}

fn pace(text: &str) -> Result<Pace, String> {
    let (name, number) = text.split_once(':').unwrap_or((text, ""));
    let pace = match name {
        "constant" if number.is_empty() => Some(Pace::Constant),
        "burst" => number.parse().ok().filter(|frames| (1..=65_536).contains(frames)).map(Pace::Burst),
        "poisson" => number.parse().ok().map(Pace::Poisson),
        _ => None,
    };
    pace.ok_or_else(|| "expected constant, burst:N with N from 1 to 65536, or poisson:SEED".to_owned())
}

fn transport(text: &str) -> Result<Transport, String> {
    match text {
        "udp" => Ok(Transport::Udp),
        "tcp" => Ok(Transport::Tcp),
        "none" => Ok(Transport::None),
        _ => Err("expected udp, tcp or none".to_owned()),
    }
}
