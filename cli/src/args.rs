//! The command line, defined once: parsing, `--help`, completions and man pages all come from here.
//!
//! Only shapes live here. What a verb does lives in the module of its name.

use clap::builder::{PossibleValue, PossibleValuesParser, RangedU64ValueParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use console::{Output, ShowArgs};
use generator::rate::Rate;
use guest::hostile::{ATTACKS, Attack, find};
use port::virtio_user::RingKind;
use std::path::PathBuf;
use wire::MacAddress;

/// A virtual switch for virtual machines, in user space.
#[derive(Debug, Parser)]
#[command(name = "linerate", version, about, arg_required_else_help = true, propagate_version = true)]
#[command(after_help = "Exit codes: 0 done, 1 failed at run time, 2 bad input (nothing was changed).")]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) control: ControlArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Where the running switch listens for commands.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ControlArgs {
    /// Control socket of the switch [default: `/run/linerate/control.sock` for root, else
    /// `$XDG_RUNTIME_DIR/linerate.sock`, else `/tmp/linerate-UID/control.sock`]
    #[arg(long, global = true, value_name = "SOCKET", env = "LINERATE_CONTROL")]
    pub(crate) control: Option<PathBuf>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a switch until SIGINT, SIGTERM or `linerate stop`
    #[command(
        after_help = "SIGINT and SIGTERM end the switch and remove every socket it made; a second one \
        ends it at once. SIGHUP is ignored: a running switch is changed with `linerate ports` and `linerate fdb`."
    )]
    Run(RunArgs),
    /// Name every error in a configuration file, or print the topology it describes
    Check(CheckArgs),
    /// Print the lines that plug a guest into a port
    Snippet(SnippetArgs),
    /// Show what the running switch is doing, in a few lines
    Status(ShowArgs),
    /// Watch ports and workers live
    Top(TopArgs),
    /// Show, add and remove ports
    #[command(subcommand)]
    Ports(PortsCommand),
    /// Show bridges: what their ports have learned, and which moves of addresses were refused
    #[command(subcommand)]
    Bridges(BridgesCommand),
    /// Show and change the forwarding tables
    #[command(subcommand)]
    Fdb(FdbCommand),
    /// Show workers, and add stages to a pipeline
    #[command(subcommand)]
    Workers(WorkersCommand),
    /// Show the machine, and where workers and queues are
    #[command(subcommand)]
    Placement(PlacementCommand),
    /// Measure load, and move receive queues so that the busiest worker has less to do
    Rebalance(RebalanceArgs),
    /// End the running switch
    Stop,
    /// Start a switch with two guests of our own and show what passes between them
    Demo(DemoArgs),
    /// Be a virtio-user guest of any vhost-user switch
    Guest(GuestArgs),
    /// Send streams of frames by one port, and say what of them came by another
    #[command(
        after_help = "SIGINT and SIGTERM end a run early; what was measured until then is printed.",
        after_long_help = crate::traffic::args::KEYS
    )]
    Gen(Box<crate::traffic::args::GenArgs>),
    /// Measure a switch by RFC 2544: throughput, latency, loss and back-to-back frames; or compare two results
    #[command(after_help = "SIGINT and SIGTERM end it early, and so does a switch that dies or \
        carries nothing (exit code 1): what was measured until then is printed, and \
        the same command with `--keep FILE --resume` goes on from there.")]
    Bench(Box<crate::bench::args::BenchArgs>),
    /// Run a command until standard input ends
    #[command(hide = true)]
    Supervise(crate::bench::args::SuperviseArgs),
    /// Run `linerate-lab`, the cache laboratory, from the directory of this program
    #[command(disable_help_flag = true)]
    Lab {
        /// Arguments of `linerate-lab`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
        arguments: Vec<std::ffi::OsString>,
    },
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the man page, or write one page per verb into a directory
    Man {
        /// Directory for one page per verb
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
}

/// Arguments of `run`.
#[derive(Args, Debug)]
pub(crate) struct RunArgs {
    /// Configuration file
    #[arg(value_name = "FILE")]
    pub(crate) config: PathBuf,
}

/// Arguments of `check`.
#[derive(Args, Debug)]
pub(crate) struct CheckArgs {
    /// Configuration file
    #[arg(value_name = "FILE")]
    pub(crate) config: PathBuf,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

/// The other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GuestKind {
    /// QEMU command line
    Qemu,
    /// libvirt domain XML
    Libvirt,
    /// DPDK's testpmd: a guest for a vhost-user port, a switch for a virtio-user port
    Testpmd,
    /// Another linerate: the section of its configuration
    Linerate,
    /// Open vSwitch with DPDK, for a virtio-user port
    Ovs,
}

/// Arguments of `snippet`.
#[derive(Args, Debug)]
pub(crate) struct SnippetArgs {
    /// Name of the port
    pub(crate) port: String,
    /// The other end
    #[arg(long = "for", value_enum, value_name = "WHO")]
    pub(crate) kind: GuestKind,
    /// Take the port from this file rather than from the running switch
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// Arguments of `top`.
#[derive(Args, Debug)]
pub(crate) struct TopArgs {
    /// Seconds between two readings
    #[arg(long, short, default_value_t = 1.0, value_parser = seconds, value_name = "SECONDS")]
    pub(crate) interval: f64,
    /// Print one reading as a table or JSON and leave
    #[arg(long)]
    pub(crate) once: bool,
    /// How to print; JSON is one reading after the other, each on a line of its own unless it is the only one
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Output,
}

/// What to do with ports.
#[derive(Debug, Subcommand)]
pub(crate) enum PortsCommand {
    /// Show ports with their counters
    Show(PortsShowArgs),
    /// Add a port
    ///
    /// The running switch gets it at once. The configuration file is not written: to keep the port, add the section
    /// that is printed to the file.
    Add(Box<PortsAddArgs>),
    /// Remove a port; its guest is cut off
    ///
    /// The running switch loses it at once. The configuration file is not written: a port that has a section there
    /// returns with the next start.
    Remove {
        /// Name of the port
        name: String,
    },
}

/// Arguments of `ports show`.
#[derive(Args, Debug)]
pub(crate) struct PortsShowArgs {
    /// Only this port, in full
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

/// Arguments of `ports add`; the same words as in a `[[port]]` section.
#[derive(Args, Debug)]
pub(crate) struct PortsAddArgs {
    /// Name of the new port
    pub(crate) name: String,
    /// What sort of port it is [default: vhost-user]
    #[arg(long, value_parser = port_kind())]
    pub(crate) kind: Option<String>,
    /// A key of the port's section and its value, as in a file; a value that is no TOML is a string. May be repeated
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_and_value)]
    pub(crate) set: Vec<(String, String)>,
    /// Path of the socket, where the kind has one
    #[arg(long, value_name = "SOCKET")]
    pub(crate) socket: Option<PathBuf>,
    /// Whether this switch creates the socket (server) or the other side does (client) [default: as the kind has it]
    #[arg(long)]
    pub(crate) mode: Option<String>,
    /// Bridge to join; may be left out where there is only one
    #[arg(long)]
    pub(crate) bridge: Option<String>,
    /// Queue pairs offered to the guest, or asked of the other switch
    #[arg(long, value_name = "N")]
    pub(crate) queue_pairs: Option<u16>,
    /// Ring of a virtio-user port: split, split-inorder, packed or packed-inorder
    #[arg(long, value_name = "RING")]
    pub(crate) ring: Option<String>,
    /// Entries per ring of a virtio-user port
    #[arg(long, value_name = "N")]
    pub(crate) queue_size: Option<u16>,
    /// Whether frames that a virtio-user port receives may span buffers
    #[arg(long, value_name = "true|false")]
    pub(crate) mergeable: Option<bool>,
    /// Largest packet in bytes, without the Ethernet header
    #[arg(long, value_name = "BYTES")]
    pub(crate) mtu: Option<u16>,
    /// Access port of this VLAN
    #[arg(long, value_name = "VLAN", conflicts_with_all = ["trunk", "native"])]
    pub(crate) vlan: Option<u16>,
    /// Trunk port of these VLANs, separated by commas
    #[arg(long, value_name = "VLANS", value_delimiter = ',')]
    pub(crate) trunk: Vec<u16>,
    /// VLAN of untagged frames on a trunk port
    #[arg(long, value_name = "VLAN", requires = "trunk")]
    pub(crate) native: Option<u16>,
    /// Most broadcast and multicast packets a second from this port
    #[arg(long, value_name = "PACKETS")]
    pub(crate) broadcast_limit: Option<u32>,
    /// Most packets a second from this port to addresses that are not learned
    #[arg(long, value_name = "PACKETS")]
    pub(crate) unknown_limit: Option<u32>,
    /// Most addresses learned from this port
    #[arg(long, value_name = "N")]
    pub(crate) max_macs: Option<u32>,
    /// The network behind this port is trusted, as an uplink is: its announcements move addresses, and DHCP servers and
    /// routers are accepted from it
    #[arg(long)]
    pub(crate) trusted: bool,
    /// The only source addresses that are allowed from this port, separated by commas
    #[arg(long, value_name = "ADDRESSES", value_delimiter = ',')]
    pub(crate) macs: Vec<String>,
    /// Whether addresses are learned from this port
    #[arg(long, value_name = "true|false")]
    pub(crate) learn: Option<bool>,
    /// The only IP source addresses that are allowed from this port, separated by commas: addresses, networks, or dhcp
    #[arg(long, value_name = "SOURCES", value_delimiter = ',')]
    pub(crate) sources: Vec<String>,
}

/// What to do with bridges.
#[derive(Debug, Subcommand)]
pub(crate) enum BridgesCommand {
    /// Show bridges with their ports' counters and the latest refused moves
    Show(ShowArgs),
}

/// What to do with forwarding tables.
#[derive(Debug, Subcommand)]
pub(crate) enum FdbCommand {
    /// Show learned and static addresses
    Show(FdbShowArgs),
    /// Pin an address to a port, wherever it was before
    ///
    /// The configuration file is not written: to keep the entry, add a `[[bridge.static]]` section to it.
    Add(FdbAddArgs),
    /// Forget one address, learned or static
    ///
    /// One that was learned is learned again from its next packet. The configuration file is not written: an entry
    /// that has a section there returns with the next start.
    #[command(visible_alias = "del")]
    Remove(FdbRemoveArgs),
    /// Forget learned addresses; static entries stay
    Flush(FdbFlushArgs),
}

/// Which addresses are meant.
#[derive(Args, Debug)]
pub(crate) struct FdbSelection {
    /// Only on this bridge
    #[arg(long)]
    pub(crate) bridge: Option<String>,
    /// Only behind this port
    #[arg(long)]
    pub(crate) port: Option<String>,
    /// Only in this VLAN; 0: without one
    #[arg(long)]
    pub(crate) vlan: Option<u16>,
}

/// Arguments of `fdb show`.
#[derive(Args, Debug)]
pub(crate) struct FdbShowArgs {
    #[command(flatten)]
    pub(crate) selection: FdbSelection,
    /// Most entries to print
    #[arg(long, default_value_t = 1000)]
    pub(crate) limit: usize,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

/// Arguments of `fdb add`.
#[derive(Args, Debug)]
pub(crate) struct FdbAddArgs {
    /// The address, as 02:00:00:00:00:01
    pub(crate) mac: String,
    /// The port behind which it lives
    #[arg(long)]
    pub(crate) port: String,
    /// Its VLAN; 0 for untagged frames of a port without VLANs
    #[arg(long, default_value_t = 0)]
    pub(crate) vlan: u16,
}

/// Arguments of `fdb flush`.
#[derive(Args, Debug)]
pub(crate) struct FdbFlushArgs {
    #[command(flatten)]
    pub(crate) selection: FdbSelection,
}

/// Arguments of `fdb remove`.
#[derive(Args, Debug)]
pub(crate) struct FdbRemoveArgs {
    /// The address, as 02:00:00:00:00:01
    pub(crate) mac: String,
    #[command(flatten)]
    pub(crate) selection: FdbSelection,
}

/// What to do with workers.
#[derive(Debug, Subcommand)]
pub(crate) enum WorkersCommand {
    /// Show workers with their counters
    Show(ShowArgs),
    /// Add a stage to a running pipeline, without losing a packet
    ///
    /// A worker stage has a share of the flows from now on; an Rx or Tx stage has the ports that start from now on. The
    /// configuration file is not written.
    Add(WorkersAddArgs),
}

/// Arguments of `workers add`; the words of a `[worker]` section.
#[derive(Args, Debug)]
pub(crate) struct WorkersAddArgs {
    /// What it does
    #[arg(long, value_parser = ["rx", "work", "tx"])]
    pub(crate) role: String,
    /// The CPU it is pinned to; wherever the kernel puts it, unless given
    #[arg(long, value_name = "NUMBER")]
    pub(crate) cpu: Option<usize>,
}

/// What to show of a placement.
#[derive(Debug, Subcommand)]
pub(crate) enum PlacementCommand {
    /// Show which worker of the running switch is where, and which queues it serves
    Show(ShowArgs),
    /// Show the CPUs, cores, nodes and caches of this machine, and which of them may be used; no switch is asked
    Machine(ShowArgs),
}

/// Arguments of `rebalance`.
#[derive(Args, Debug)]
pub(crate) struct RebalanceArgs {
    /// Only say what would be moved, and what that would gain
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// How long load is measured, from 10ms to 8s
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub(crate) over: crate::value::Span,
    /// What must be gained: the share of a core, 0.01 to 1, by which the busiest worker has less to do
    /// [default: as in `[placement]`, or 0.1]
    #[arg(long, value_name = "SHARE")]
    pub(crate) threshold: Option<f64>,
    /// How to print
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Output,
}

/// The kinds of port, by their names.
fn port_kind() -> impl TypedValueParser<Value = String> {
    let values = crate::kinds::all().map(|(name, about)| PossibleValue::new(name).help(about));
    PossibleValuesParser::new(values.collect::<Vec<_>>())
}

/// `KEY=VALUE` in two.
pub(crate) fn key_and_value(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=').filter(|(key, _)| !key.is_empty());
    let (key, value) = parts.ok_or("write a key, = and its value, such as interface=vm0")?;
    Ok((key.trim().to_owned(), value.to_owned()))
}

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

/// A positive, finite number of seconds.
fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && value > 0.0 && value <= 1e9 => Ok(value),
        _ => Err("a time is a positive number of seconds, such as 5 or 0.5".to_owned()),
    }
}
