//! Arguments of `demo` and `guest`.

use super::parse::seconds;
use clap::builder::{PossibleValue, PossibleValuesParser, RangedU64ValueParser, TypedValueParser};
use clap::{Args, ValueEnum};
use console::Output;
use generator::rate::Rate;
use guest::hostile::{ATTACKS, Attack, find};
use port::virtio_user::RingKind;
use std::path::PathBuf;
use wire::MacAddress;

/// The kinds of virtqueue that a driver chooses from, by their names.
fn ring_kind() -> impl TypedValueParser<Value = RingKind> {
    let help = |kind| match kind {
        RingKind::Split => "Split ring, as most virtual machines use",
        RingKind::SplitInOrder => "Split ring with `VIRTIO_F_IN_ORDER`",
        RingKind::Packed => "Packed ring",
        RingKind::PackedInOrder => "Packed ring with `VIRTIO_F_IN_ORDER`",
    };
    let values = RingKind::ALL.map(|kind| PossibleValue::new(kind.name()).help(help(kind)));
    PossibleValuesParser::from(values).try_map(|name| name.parse())
}

/// How a frame lies in descriptors.
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
    /// As it is written.
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
    /// Every frame is this long.
    Bytes(u16),
    /// The simple Internet mix: seven of 64, four of 570, one of 1514 bytes.
    Mix,
}

/// From the smallest Ethernet frame without checksum (IEEE 802.3 section 3.2.7) to what our guest's buffers hold.
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
            _ => Err(format!("a size is {} to {} bytes, or `mix`", FRAME.start(), FRAME.end())),
        }
    }
}

/// Arguments of `demo`.
#[derive(Args, Clone, Debug)]
pub(crate) struct DemoArgs {
    /// Ring kind of both guests
    #[arg(long, value_parser = ring_kind(), default_value_t)]
    pub(crate) ring: RingKind,
    /// How frames lie in descriptors
    #[arg(long, value_enum, default_value_t)]
    pub(crate) descriptors: Descriptors,
    /// Frame size in bytes, or `mix`; repeat it for one run after another [default: 64 and mix]
    #[arg(long = "size", value_name = "BYTES|mix")]
    pub(crate) sizes: Vec<FrameSize>,
    /// Seconds for each size
    #[arg(long, default_value_t = 5.0, value_parser = seconds, value_name = "SECONDS")]
    pub(crate) seconds: f64,
    /// Frames that circulate, per guest
    #[arg(long, default_value_t = 256, value_parser = RangedU64ValueParser::<u32>::new().range(1..=32_768))]
    pub(crate) packets: u32,
    /// How to print
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Output,
}

/// What a guest does with packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum GuestMode {
    /// Swap source and destination address and send every packet back
    #[default]
    Macswap,
    /// Send every packet back as it is
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
    /// Wait for the switch if nothing listens on a socket of --connect yet
    #[arg(long)]
    pub(crate) wait: bool,
    /// What to do with packets
    #[arg(long, value_enum, default_value_t)]
    pub(crate) mode: GuestMode,
    /// Ring kind to negotiate
    #[arg(long, value_parser = ring_kind(), default_value_t)]
    pub(crate) ring: RingKind,
    /// How frames lie in descriptors, received and sent; a chain halves the frames that a ring holds
    #[arg(long, value_enum, default_value_t)]
    pub(crate) descriptors: Descriptors,
    /// Size of the frames it sends in bytes, or `mix`
    #[arg(long, default_value = "64", value_name = "BYTES|mix")]
    pub(crate) size: FrameSize,
    /// How long; without it, until a signal
    #[arg(long, value_parser = seconds, value_name = "SECONDS")]
    pub(crate) seconds: Option<f64>,
    /// CPU to run on
    #[arg(long)]
    pub(crate) cpu: Option<usize>,
    /// Frames that each device puts into circulation (macswap and io), at most half its ring
    #[arg(long, default_value_t = 0)]
    pub(crate) packets: u32,
    /// Address of the first device; each further one has the next address
    #[arg(long, default_value = "02:00:00:00:00:01")]
    pub(crate) mac: MacAddress,
    /// Where frames are addressed to; without it, each device to the next one
    #[arg(long)]
    pub(crate) peer: Option<MacAddress>,
    /// Queue pairs of each device
    #[arg(long, default_value_t = 1, value_parser = RangedU64ValueParser::<u16>::new().range(1..=16))]
    pub(crate) queue_pairs: u16,
    /// Do not ask for mergeable receive buffers
    #[arg(long)]
    pub(crate) no_mergeable: bool,
    /// Ring entries: a power of two on split rings [default: 1024; of an attack, the largest that it has a use for]
    #[arg(long, value_parser = RangedU64ValueParser::<u16>::new().range(2..=32_768))]
    pub(crate) queue_size: Option<u16>,
    #[command(flatten)]
    pub(crate) attack: HostileArgs,
    /// How to print
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Output,
}

/// How a guest attacks its switch.
#[derive(Args, Clone, Debug)]
pub(crate) struct HostileArgs {
    /// Attack the switch. The first socket's device sends; a second socket's device, if there is one, receives what it
    /// sends, and otherwise frames go to --peer
    #[arg(long, value_name = "NAME", value_parser = attack(), conflicts_with = "packets")]
    pub(crate) hostile: Option<&'static Attack>,
    /// Attack also where the switch does not offer the features that the attack needs
    #[arg(long, requires = "hostile")]
    pub(crate) anyway: bool,
    /// Sockets of two calm guests, the sender's and the receiver's: in turns with the attacker they send 64 B frames one
    /// way, first as fast as the switch takes them and then at --rate
    #[arg(long, value_name = "SOCKET", requires = "hostile")]
    pub(crate) calm: Vec<PathBuf>,
    /// Rate at which the calm guests' latency is measured
    #[arg(long, default_value = "100kpps", requires = "calm", value_name = "RATE")]
    pub(crate) rate: Rate,
}

/// The attacks with what each of them does.
fn attack() -> impl TypedValueParser<Value = &'static Attack> {
    let names = ATTACKS.iter().map(|attack| PossibleValue::new(attack.name).help(attack.about));
    PossibleValuesParser::new(names).try_map(|name| find(&name).ok_or_else(|| format!("no attack `{name}`")))
}

/// Which side makes the connection.
#[derive(Args, Clone, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct GuestSocket {
    /// Connect to a switch that listens on this socket; repeat it for several devices in one process
    #[arg(long, value_name = "SOCKET")]
    pub(crate) connect: Vec<PathBuf>,
    /// Listen on this socket for a switch that connects; repeat it for several devices in one process
    #[arg(long, value_name = "SOCKET")]
    pub(crate) listen: Vec<PathBuf>,
}
