//! Arguments of `linerate trace`.

use clap::Args;
use clap::builder::RangedU64ValueParser;
use console::ShowArgs;
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// Arguments of `trace`.
#[derive(Args, Debug)]
pub(crate) struct TraceArgs {
    /// Bridge to trace through [default: the only OpenFlow bridge]
    #[arg(long)]
    pub(crate) bridge: Option<String>,
    /// Fields of a synthetic packet, such as `in_port=red,tcp,nw_dst=10.0.0.1,tp_dst=80`
    ///
    /// Fields that are not given are 0; the time to live of an IP packet is 64.
    #[arg(long, value_name = "FLOW", required_unless_present_any = ["pcap", "live"], conflicts_with = "pcap")]
    pub(crate) flow: Option<String>,
    /// Capture file with the packet
    #[arg(long, value_name = "FILE", requires = "in_port")]
    pub(crate) pcap: Option<PathBuf>,
    /// Number of the packet in the capture file
    #[arg(long, value_name = "N", default_value = "1", requires = "pcap")]
    pub(crate) packet: NonZeroUsize,
    /// Port on which the packet of the capture file is received
    #[arg(long, value_name = "PORT", requires = "pcap")]
    pub(crate) in_port: Option<String>,
    /// Connection state of the packet after the next `ct`, such as `trk,est`; can be given for each of them
    ///
    /// Without it, the state is that of the connection that the running switch has, or `trk,new`.
    #[arg(long, value_name = "FLAGS")]
    pub(crate) ct_next: Vec<String>,
    /// Follow packets of running ports that match `--filter`, instead of a synthetic one
    ///
    /// Each packet has a number. The steps of flow tables are those that a packet with its headers takes now, and are
    /// marked as simulated.
    #[arg(long, conflicts_with_all = ["flow", "pcap", "ct_next", "bridge"])]
    pub(crate) live: bool,
    /// Ports that receive the packets, separated by commas [default: all]
    #[arg(long, value_name = "PORTS", value_delimiter = ',', requires = "live")]
    pub(crate) ports: Vec<String>,
    /// Only packets that match, in the syntax of pcap-filter(7); needs `tcpdump`, which compiles it
    #[arg(long, value_name = "EXPRESSION", requires = "live")]
    pub(crate) filter: Option<String>,
    /// Maximum number of packets per second of each worker; others are counted
    #[arg(long, value_name = "N", default_value = "100", requires = "live",
        value_parser = RangedU64ValueParser::<u32>::new().range(1..=1000))]
    pub(crate) rate: u32,
    /// End after this number of packets
    #[arg(long, value_name = "N", requires = "live")]
    pub(crate) limit: Option<u64>,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}
