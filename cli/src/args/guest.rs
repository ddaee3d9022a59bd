//! Arguments of `demo` and `guest`.

use super::parse::advised;
use clap::builder::{PossibleValue, PossibleValuesParser, RangedU64ValueParser, TypedValueParser};
use clap::{Args, ValueEnum};
use console::{ShowArgs, Span, duration};
use generator::rate::Rate;
use guest::hostile::{ATTACKS, Attack, find};
use port::virtio_user::RingKind;
use std::path::PathBuf;
use wire::MacAddress;

/// Parser of ring kinds by name.
fn ring_kind() -> impl TypedValueParser<Value = RingKind> {
    let help = |kind| match kind {
        RingKind::Split => "Split ring, the most common kind",
        RingKind::SplitInOrder => "Split ring with `VIRTIO_F_IN_ORDER`",
        RingKind::Packed => "Packed ring",
        RingKind::PackedInOrder => "Packed ring with `VIRTIO_F_IN_ORDER`",
    };
    let values = RingKind::ALL.map(|kind| PossibleValue::new(kind.name()).help(help(kind)));
    PossibleValuesParser::from(values).try_map(|name| name.parse())
}

/// Descriptor layout of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Descriptors {
    /// Header and frame in one descriptor
    #[default]
    Single,
    /// Header and frame in a chain of two descriptors
    Chain,
    /// Header and frame in an indirect table (`VIRTIO_F_INDIRECT_DESC`)
    Indirect,
}

impl Descriptors {
    /// Name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Descriptors::Single => "single",
            Descriptors::Chain => "chain",
            Descriptors::Indirect => "indirect",
        }
    }
}

/// Sizes of the frames that a guest sends, in bytes without their checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameSize {
    /// All frames have this size.
    Bytes(u16),
    /// The simple Internet mix: seven of 64, four of 570, one of 1514 bytes.
    Mix,
}

/// Smallest Ethernet frame without checksum (IEEE 802.3 section 3.2.7) to the size of the guest's buffers.
const FRAME: std::ops::RangeInclusive<u64> = 60..=2048;

impl std::fmt::Display for FrameSize {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FrameSize::Bytes(bytes) => write!(f, "{bytes}"),
            FrameSize::Mix => f.write_str("mix"),
        }
    }
}

impl std::str::FromStr for FrameSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "mix" {
            return Ok(FrameSize::Mix);
        }
        match text.parse::<u64>() {
            Ok(bytes) if FRAME.contains(&bytes) => Ok(FrameSize::Bytes(bytes as u16)),
            _ => Err(format!("expected {} to {} bytes, or `mix`", FRAME.start(), FRAME.end())),
        }
    }
}

/// Arguments of `demo`.
#[derive(Args, Clone, Debug)]
pub(crate) struct DemoArgs {
    /// Ring kind of both guests
    #[arg(long, value_parser = ring_kind(), default_value_t)]
    pub(crate) ring: RingKind,
    /// Descriptor layout of frames
    #[arg(long, value_enum, default_value_t)]
    pub(crate) descriptors: Descriptors,
    /// Frame size in bytes, or `mix`; repeat for several runs [default: 64 and mix]
    #[arg(long = "size", value_name = "BYTES|mix")]
    pub(crate) sizes: Vec<FrameSize>,
    /// Duration per size
    #[arg(long, default_value = "5s", value_parser = duration::positive, value_name = "TIME")]
    pub(crate) duration: Span,
    /// Number of frames that each guest puts into circulation
    #[arg(long, default_value_t = 256, value_name = "N",
          value_parser = RangedU64ValueParser::<u32>::new().range(1..=32_768))]
    pub(crate) in_flight: u32,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

/// Packet processing of a guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum GuestMode {
    /// Swap source and destination address and send each packet back
    #[default]
    Macswap,
    /// Send each packet back unchanged
    Io,
    /// Send only
    Txonly,
    /// Receive only
    Rxonly,
}

/// Arguments of `guest`.
#[derive(Args, Clone, Debug)]
pub(crate) struct GuestArgs {
    #[command(flatten)]
    pub(crate) socket: GuestSocket,
    /// Wait for the switch if a socket of `--connect` has no listener yet
    #[arg(long)]
    pub(crate) wait: bool,
    /// Packet processing
    #[arg(long, value_enum, default_value_t)]
    pub(crate) mode: GuestMode,
    /// Ring kind to negotiate
    #[arg(long, value_parser = ring_kind(), default_value_t)]
    pub(crate) ring: RingKind,
    /// Descriptor layout of received and sent frames; a chain halves the number of frames that a ring holds
    #[arg(long, value_enum, default_value_t)]
    pub(crate) descriptors: Descriptors,
    /// Size of sent frames in bytes, or `mix`
    #[arg(long, default_value = "64", value_name = "BYTES|mix")]
    pub(crate) size: FrameSize,
    /// Duration of the warm-up, which is not measured
    #[arg(long, default_value = "0s", value_parser = duration::any, value_name = "TIME")]
    pub(crate) warm_up: Span,
    /// Maximum duration of the run after the warm-up, which SIGINT and SIGTERM end before [default: until then]
    #[arg(long, value_parser = duration::positive, value_name = "TIME")]
    pub(crate) duration: Option<Span>,
    /// CPU to pin the guest to
    #[arg(long)]
    pub(crate) cpu: Option<usize>,
    /// Number of frames that each device puts into circulation (macswap and io), at most half its ring
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(crate) in_flight: u32,
    /// Give returned frames (macswap) the UDP ports of this many flows in turn: flow N has source port N % 65536
    /// and destination port N / 65536 + 1 [default: keep the ports]
    #[arg(long, value_name = "N", conflicts_with = "hostile",
          value_parser = RangedU64ValueParser::<u32>::new().range(1..=16_777_216))]
    pub(crate) flows: Option<u32>,
    /// Exponent of Zipf's law for the shares of the flows, such as 1.1 [default: equal shares]
    #[arg(long, value_name = "EXPONENT", requires = "flows", value_parser = exponent)]
    pub(crate) zipf: Option<f64>,
    /// MAC address of the first device; each further device has the next address
    #[arg(long, default_value = "02:00:00:00:00:01")]
    pub(crate) mac: MacAddress,
    /// Destination MAC address of sent frames [default: the next device]
    #[arg(long)]
    pub(crate) peer: Option<MacAddress>,
    /// Queue pairs of each device
    #[arg(long, default_value_t = 1, value_parser = RangedU64ValueParser::<u16>::new().range(1..=16))]
    pub(crate) queue_pairs: u16,
    /// Do not negotiate mergeable receive buffers
    #[arg(long)]
    pub(crate) no_mergeable: bool,
    /// Ring size in entries: a power of two for split rings [default: 1024; for an attack, the largest size
    /// that it needs]
    #[arg(long, value_parser = RangedU64ValueParser::<u16>::new().range(2..=32_768))]
    pub(crate) queue_size: Option<u16>,
    #[command(flatten)]
    pub(crate) attack: HostileArgs,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

/// Parser of the exponent of Zipf's law.
fn exponent(text: &str) -> Result<f64, String> {
    let exponent = text.parse().ok().filter(|exponent| (0.01..=10.0).contains(exponent));
    exponent.ok_or_else(|| "expected a number from 0.01 to 10".to_owned())
}

/// Options of an attack on the switch.
#[derive(Args, Clone, Debug)]
pub(crate) struct HostileArgs {
    /// Attack the switch. The device on the first socket sends; the device on a second socket receives, if
    /// there is one, else frames are addressed to `--peer`
    #[arg(long, value_name = "NAME", value_parser = attack(), conflicts_with = "in_flight")]
    pub(crate) hostile: Option<&'static Attack>,
    /// Attack even if the switch does not offer the features that the attack requires
    #[arg(long, requires = "hostile")]
    pub(crate) anyway: bool,
    /// Sockets of two well-behaved guests, the sender and the receiver. They run alternately with the attack
    /// on one thread and send 64 B frames one way, first at the highest rate that the switch accepts, then at
    /// `--rate`
    #[arg(long, value_name = "SOCKET", requires = "hostile")]
    pub(crate) calm: Vec<PathBuf>,
    /// Rate for the latency measurement of the well-behaved guests
    #[arg(long, default_value = "100kpps", value_parser = advised::<Rate>, requires = "calm", value_name = "RATE")]
    pub(crate) rate: Rate,
}

/// Parser of attacks by name.
fn attack() -> impl TypedValueParser<Value = &'static Attack> {
    let names = ATTACKS.iter().map(|attack| PossibleValue::new(attack.name).help(attack.about));
    PossibleValuesParser::new(names)
        .try_map(|name| find(&name).ok_or_else(|| format!("unknown attack `{name}`")))
}

/// The side that connects.
#[derive(Args, Clone, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct GuestSocket {
    /// Connect to a switch that listens on this socket; repeat for several devices in one process
    #[arg(long, value_name = "SOCKET")]
    pub(crate) connect: Vec<PathBuf>,
    /// Listen on this socket for a switch that connects; repeat for several devices in one process
    #[arg(long, value_name = "SOCKET")]
    pub(crate) listen: Vec<PathBuf>,
}
