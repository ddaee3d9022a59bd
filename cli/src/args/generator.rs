//! The generator's part of the command line.

use super::parse::key_and_value;
use crate::settings::value::Span;
use clap::Args;
use console::Output;
use generator::rate::Rate;
use generator::rig::Timing;
use generator::schedule::Pace;
use generator::{Sizes, Transport};
use std::net::IpAddr;
use std::path::PathBuf;
use wire::MacAddress;

/// Longest run, warm-up or timeout, in seconds: a week. Times in tags turn over after 78 hours, delays never do.
const LONGEST: u64 = 7 * 86_400;

/// What stands behind the flags in the long help and on the page of the manual: every key and field of a stream.
pub(crate) const KEYS: &str = include_str!("stream-keys.txt").trim_ascii_end();

/// Arguments of `gen`.
#[derive(Args, Clone, Debug)]
pub(crate) struct GenArgs {
    /// File with `[[stream]]` and `[[port]]` sections; flags describe a single stream without one
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// A port as in a `[[port]]` section, its keys and values separated by commas, such as
    /// `kind=virtio-user,socket=/tmp/a.sock,mode=client`; the first one sends, and the second, or else the first, receives
    #[arg(long = "port", value_name = "KEY=VALUE,...")]
    pub(crate) ports: Vec<String>,
    #[command(flatten)]
    pub(crate) stream: StreamArgs,
    /// Rate of all streams together: 10kpps, 2.5Gbit/s (of frames without their checksum), 2.5Gbit/s-wire (with checksum,
    /// preamble and gap), "50% of 10GbE" (of the wire; 10, 25, 40 or 100), or max
    #[arg(long, default_value = "10kpps", value_name = "RATE")]
    pub(crate) rate: Rate,
    /// How frames are spread over time: constant, burst:N, or poisson:SEED
    #[arg(long, default_value = "constant", value_parser = pace, value_name = "PACE")]
    pub(crate) pace: Pace,
    /// How long frames are sent that count
    #[arg(long, default_value = "5s", value_parser = span, value_name = "TIME")]
    pub(crate) duration: Span,
    /// How long frames are sent before that
    #[arg(long, default_value = "500ms", value_parser = any_span, value_name = "TIME")]
    pub(crate) warm_up: Span,
    /// How long ports may take until they carry packets
    #[arg(long, default_value = "10s", value_parser = span, value_name = "TIME")]
    pub(crate) timeout: Span,
    /// Most frames that a stream sends at once when it is late; the rest is given up and counted [default: what is due in
    /// 10 ms, from 64 to 1024, or what is due in 1 ms if that is more]
    #[arg(long, value_name = "FRAMES")]
    pub(crate) catch_up: Option<u64>,
    /// Do not let the receiving port say where its addresses are, first and while it warms up
    #[arg(long)]
    pub(crate) no_announce: bool,
    /// Leave out the same streams over a wire of our own, whose delay is in every result
    #[arg(long)]
    pub(crate) no_baseline: bool,
    /// CPU to run on
    #[arg(long)]
    pub(crate) cpu: Option<usize>,
    /// Print every latency as a histogram, too
    #[arg(long)]
    pub(crate) histogram: bool,
    /// How to print
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Output,
}

/// A single stream by flags; the words are those of a `[[stream]]` section.
#[derive(Args, Clone, Debug, Default, PartialEq)]
pub(crate) struct StreamArgs {
    /// Sizes of frames in bytes, without their checksum: 64, or several in turn (64,1514), imix, or a table (64:7,570:4)
    #[arg(long, value_name = "SIZES")]
    pub(crate) size: Option<Sizes>,
    /// Different flows
    #[arg(long, value_name = "N")]
    pub(crate) flows: Option<u32>,
    /// Send the frames of this capture, as they are but for a tag at their ends
    #[arg(long, value_name = "FILE")]
    pub(crate) pcap: Option<PathBuf>,
    /// The sender's Ethernet address
    #[arg(long, value_name = "MAC")]
    pub(crate) source_mac: Option<MacAddress>,
    /// The receiver's Ethernet address
    #[arg(long, value_name = "MAC")]
    pub(crate) destination_mac: Option<MacAddress>,
    /// The sender's address, IPv4 or IPv6
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) source: Option<IpAddr>,
    /// The receiver's address
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) destination: Option<IpAddr>,
    /// What follows the network header: udp, tcp or none
    #[arg(long, value_parser = transport, value_name = "NAME")]
    pub(crate) transport: Option<Transport>,
    /// VLAN tags, the outermost first
    #[arg(long, value_delimiter = ',', value_name = "VLANS")]
    pub(crate) vlan: Vec<u16>,
    /// Any other key of the section and its value, such as `vary={ttl={random=1}}`. May be repeated
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_and_value)]
    pub(crate) set: Vec<(String, String)>,
}

impl GenArgs {
    /// As the laboratory's room wants it.
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

fn any_span(text: &str) -> Result<Span, String> {
    let span: Span = text.parse().map_err(|_| "a time is a number with its unit, such as 5s or 200ms")?;
    if span.0.as_secs() < LONGEST { Ok(span) } else { Err("it is longer than a week".to_owned()) }
}

fn span(text: &str) -> Result<Span, String> {
    let span = any_span(text)?;
    if span.0.as_millis() > 0 { Ok(span) } else { Err("it has to be a millisecond or more".to_owned()) }
}

fn pace(text: &str) -> Result<Pace, String> {
    let (name, number) = text.split_once(':').unwrap_or((text, ""));
    let pace = match name {
        "constant" if number.is_empty() => Some(Pace::Constant),
        "burst" => number.parse().ok().filter(|frames| (1..=65_536).contains(frames)).map(Pace::Burst),
        "poisson" => number.parse().ok().map(Pace::Poisson),
        _ => None,
    };
    pace.ok_or_else(|| "write constant, burst:N with N from 1 to 65536, or poisson:SEED".to_owned())
}

fn transport(text: &str) -> Result<Transport, String> {
    match text {
        "udp" => Ok(Transport::Udp),
        "tcp" => Ok(Transport::Tcp),
        "none" => Ok(Transport::None),
        _ => Err("write udp, tcp or none".to_owned()),
    }
}
