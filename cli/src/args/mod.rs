//! The command line, defined once: parsing, `--help`, completions and man pages are generated from it.
//!
//! Definitions only; each command is in the module of its name in `commands`.

pub(crate) mod bench;
pub(crate) mod bench_options;
pub(crate) mod generator;
pub(crate) mod guest;
pub(crate) mod parse;
pub(crate) mod switch;

use bench::{BenchArgs, SuperviseArgs};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use console::{Output, ShowArgs};
use generator::GenArgs;
use guest::{DemoArgs, GuestArgs};
use parse::seconds;
use std::path::PathBuf;
use switch::{BridgesCommand, FdbCommand, PlacementCommand, PortsCommand, RebalanceArgs, WorkersCommand};

/// The definition of the command line.
pub(crate) fn command() -> clap::Command {
    with_negative_numbers(Cli::command())
}

/// Reads the command line of this process; exits with a message if it is invalid.
pub(crate) fn parse() -> Cli {
    let mut command = command();
    let matches = command.get_matches_mut();
    Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.format(&mut command).exit())
}

/// A negative number is the value of the option before it, whose parser then refuses it with its range. By default it
/// would be an unknown option.
fn with_negative_numbers(command: clap::Command) -> clap::Command {
    let takes_value = |arg: &clap::Arg| arg.get_action().takes_values() && !arg.is_positional();
    command
        .mut_args(|arg| if takes_value(&arg) { arg.allow_negative_numbers(true) } else { arg })
        .mut_subcommands(with_negative_numbers)
}

/// A virtual switch for virtual machines, in user space.
#[derive(Debug, Parser)]
#[command(
    name = "linerate",
    version,
    about,
    arg_required_else_help = true,
    propagate_version = true,
    max_term_width = 80
)]
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
        after_long_help = generator::KEYS
    )]
    Gen(Box<GenArgs>),
    /// Measure a switch by RFC 2544: throughput, latency, loss and back-to-back frames; or compare two results
    #[command(after_help = "SIGINT and SIGTERM end it early, and so does a switch that dies or \
        carries nothing (exit code 1): what was measured until then is printed, and \
        the same command with `--keep FILE --resume` goes on from there.")]
    Bench(Box<BenchArgs>),
    /// Run a command until standard input ends
    #[command(hide = true)]
    Supervise(SuperviseArgs),
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
    /// Format of the log on standard error
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) log: LogFormat,
    /// Log only warnings and errors
    #[arg(short, long, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Log more
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

/// Format of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Text on a terminal; the journal under systemd; else JSON
    #[default]
    Auto,
    /// Lines for people
    Text,
    /// One JSON object a line
    Json,
    /// Fields of systemd's journal
    Journal,
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
