//! Arguments of `linerate capture`.

use clap::builder::RangedU64ValueParser;
use clap::{Args, ValueEnum};
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// Where packets are captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CaptureDirection {
    /// Packets that a port has received
    In,
    /// Packets that were sent to a port
    Out,
    /// Packets that were dropped, with the reason as a comment
    Drop,
}

impl CaptureDirection {
    /// Name in requests.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::In => "in",
            Self::Out => "out",
            Self::Drop => "drop",
        }
    }
}

/// Range of `--snaplen`.
pub(crate) const SNAPLEN: RangeInclusive<u64> = 14..=65_600;

/// Parser of `--snaplen`.
pub(super) fn snaplen() -> RangedU64ValueParser<u32> {
    RangedU64ValueParser::new().range(SNAPLEN)
}

/// Arguments of `capture`.
#[derive(Args, Clone, Debug)]
pub(crate) struct CaptureArgs {
    /// Names of ports, or `all`
    #[arg(required = true, value_name = "PORT")]
    pub(crate) ports: Vec<String>,
    /// Only packets that match, in the syntax of pcap-filter(7), such as 'tcp port 80'; needs `tcpdump`, which compiles
    /// it
    #[arg(long, value_name = "EXPRESSION")]
    pub(crate) filter: Option<String>,
    /// What is captured, separated by commas [default: in,out,drop]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "DIRECTIONS")]
    pub(crate) direction: Vec<CaptureDirection>,
    /// Maximum bytes of a packet [default: whole packets]
    #[arg(long, value_name = "BYTES", value_parser = snaplen())]
    pub(crate) snaplen: Option<u32>,
    /// End after this number of packets
    #[arg(long, value_name = "N", value_parser = RangedU64ValueParser::<u64>::new().range(1..))]
    pub(crate) limit: Option<u64>,
    /// File for the packets, in pcapng; `-` is standard output, such as for `tcpdump -r -`
    #[arg(short, long, value_name = "FILE")]
    pub(crate) write: PathBuf,
}
