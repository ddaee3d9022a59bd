//! The command line, defined once: parsing, `--help`, completions and man pages are generated from it.
//!
//! Definitions only; each command is in the module of its name in `commands`.

pub(crate) mod bench;
pub(crate) mod bench_options;
pub(crate) mod capture;
pub(crate) mod config;
pub(crate) mod doctor;
pub(crate) mod end;
pub(crate) mod events;
pub(crate) mod extcap;
pub(crate) mod generator;
pub(crate) mod guest;
pub(crate) mod import;
pub(crate) mod load;
pub(crate) mod mirrors;
pub(crate) mod multicast;
pub(crate) mod parse;
pub(crate) mod queues;
pub(crate) mod serve;
pub(crate) mod stack;
pub(crate) mod switch;
pub(crate) mod tcp;
pub(crate) mod trace;

use crate::log::LogFormat;
use crate::settings::web;
use bench::{BenchArgs, SuperviseArgs};
use capture::CaptureArgs;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use config::{ApplyArgs, ConfigCommand};
use console::{QuietArgs, ShowArgs, Span, duration};
use doctor::DoctorArgs;
use events::EventsArgs;
use extcap::ExtcapArgs;
use generator::GenArgs;
use guest::{DemoArgs, GuestArgs};
use import::ImportCommand;
use load::LoadCommand;
use mirrors::MirrorsCommand;
use multicast::MulticastCommand;
use queues::QueuesCommand;
use serve::ServeCommand;
use stack::StackCommand;
use std::net::SocketAddr;
use std::path::PathBuf;
use switch::{
    BondsCommand, BridgesCommand, CtCommand, ExportCommand, FdbCommand, FlowsCommand, NeighborsCommand,
    OffloadCommand, PlacementCommand, PortsCommand, RebalanceArgs, TunnelsCommand, WorkersCommand,
};
use trace::TraceArgs;

/// The definition of the command line.
pub(crate) fn command() -> clap::Command {
    with_negative_numbers(Cli::command())
}

/// Reads the command line of this process; exits with a message if it is invalid.
pub(crate) fn parse() -> Cli {
    let mut command = command();
    let cli = command.try_get_matches_from_mut(std::env::args_os()).and_then(|matches| read(&matches));
    cli.unwrap_or_else(|error| console::refuse("linerate", error.format(&mut command)))
}

/// Passes a control socket of the command line to a program that opens it.
fn read(matches: &ArgMatches) -> Result<Cli, clap::Error> {
    let mut cli = Cli::from_arg_matches(matches)?;
    let end = match &mut cli.command {
        Command::Serve(args) => args.end_mut(),
        Command::Load(args) => args.end_mut(),
        _ => return Ok(cli),
    };
    if matches.value_source("control") == Some(ValueSource::CommandLine) {
        end.control.clone_from(&cli.control.control);
    }
    Ok(cli)
}

/// Accepts a negative number as the value of the preceding option, so that the parser of the option reports
/// its range. By default it is an unknown option.
fn with_negative_numbers(command: clap::Command) -> clap::Command {
    let takes_value = |arg: &clap::Arg| arg.get_action().takes_values() && !arg.is_positional();
    command
        .mut_args(|arg| if takes_value(&arg) { arg.allow_negative_numbers(true) } else { arg })
        .mut_subcommands(with_negative_numbers)
}

/// A virtual switch and a TCP/IP stack in user space, with tools that measure them
#[derive(Debug, Parser)]
#[command(
    name = "linerate",
    version,
    about,
    arg_required_else_help = true,
    propagate_version = true,
    max_term_width = 80
)]
#[command(
    after_help = "Exit codes: 0 success, 1 failure at run time, 2 invalid input (nothing was changed)."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) control: ControlArgs,
    #[command(flatten)]
    pub(crate) quiet: QuietArgs,
    /// Also log each request to a control API, sent or received, on standard error
    #[arg(short, long, global = true, conflicts_with = "quiet")]
    pub(crate) verbose: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Environment variable with the control socket.
pub(crate) const CONTROL_VARIABLE: &str = "LINERATE_CONTROL";

/// Control socket of the running switch or program.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ControlArgs {
    /// Control socket of the switch, or for `linerate stack` of a program that `serve` or `load` runs, which opens it
    /// only if this option is given [default of the switch: `/run/linerate/control.sock` for root, else
    /// `$XDG_RUNTIME_DIR/linerate.sock`, else `/tmp/linerate-UID/control.sock`]
    ///
    /// Or `https://HOST:PORT`, the address of `api` of a switch.
    #[arg(long, global = true, value_name = "SOCKET", env = CONTROL_VARIABLE)]
    pub(crate) control: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) credentials: CredentialArgs,
}

/// Environment variables with the files for an address of `--control`.
pub(crate) const CREDENTIAL_VARIABLES: [&str; 4] = [
    "LINERATE_CONTROL_CA",
    "LINERATE_CONTROL_CERTIFICATE",
    "LINERATE_CONTROL_KEY",
    "LINERATE_CONTROL_TOKEN_FILE",
];

/// Files for `--control https://HOST:PORT`.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct CredentialArgs {
    /// Certificates that the one of the switch is signed with, in PEM
    #[arg(id = "control_ca", long = "control-ca", global = true, value_name = "FILE")]
    #[arg(env = CREDENTIAL_VARIABLES[0], hide_short_help = true)]
    pub(crate) ca: Option<PathBuf>,
    /// Certificate of this client, in PEM
    #[arg(id = "control_certificate", long = "control-certificate", global = true, value_name = "FILE")]
    #[arg(env = CREDENTIAL_VARIABLES[1], hide_short_help = true)]
    pub(crate) certificate: Option<PathBuf>,
    /// Private key of this client, in PEM
    #[arg(id = "control_key", long = "control-key", global = true, value_name = "FILE")]
    #[arg(env = CREDENTIAL_VARIABLES[2], hide_short_help = true)]
    pub(crate) key: Option<PathBuf>,
    /// File with the token of this client
    #[arg(id = "control_token_file", long = "control-token-file", global = true, value_name = "FILE")]
    #[arg(env = CREDENTIAL_VARIABLES[3], hide_short_help = true)]
    pub(crate) token_file: Option<PathBuf>,
}

/// Commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a switch until SIGINT, SIGTERM or `linerate stop`
    #[command(after_help = "SIGINT and SIGTERM stop the switch and remove its sockets; a second signal \
        exits at once. SIGHUP applies the configuration file again, as `linerate apply` does.")]
    Run(RunArgs),
    /// Validate a configuration file: print all errors, or the topology that it describes
    Check(CheckArgs),
    /// Change a running switch to what a configuration file describes, all or nothing
    ///
    /// Ports whose settings do not change lose no packet; a port that changes is removed and added again. The
    /// switch refuses changes of sections that it reads at its start only.
    Apply(ApplyArgs),
    /// Replace the process of the running switch by the program that is at its path now
    ///
    /// The new process takes over the ports of guests and TAP interfaces, sockets, learned addresses and counters, so
    /// that guests do not notice. If it cannot, the switch runs as before.
    Upgrade(UpgradeArgs),
    /// Show or save the configuration of the running switch
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print the configuration of another switch as a configuration file
    #[command(subcommand)]
    Import(ImportCommand),
    /// Print the command line or configuration that connects a guest to a port
    Snippet(SnippetArgs),
    /// Show a summary of the running switch
    Status(ShowArgs),
    /// Find out why ports are down, slow or lose packets: known causes, with evidence and remedies
    Doctor(DoctorArgs),
    /// Show live rates of ports and workers
    Top(TopArgs),
    /// Show, add, change and remove ports
    #[command(subcommand)]
    Ports(PortsCommand),
    /// Show the last events: changes, and states of ports, workers, bonds and controllers
    #[command(after_help = "SIGINT and SIGTERM end `--follow`.")]
    Events(EventsArgs),
    /// Capture packets of running ports: received, sent and dropped ones
    ///
    /// Packets are written as pcapng, with the port, the direction, and the reason of a drop. Traffic never waits for a
    /// capture; packets that it misses are counted in the log of the switch.
    #[command(after_help = "SIGINT and SIGTERM end a capture (exit code 0).")]
    Capture(CaptureArgs),
    /// Capture for Wireshark, as a program in its folder for extcap
    #[command(hide = true)]
    Extcap(ExtcapArgs),
    /// Show, add, change and remove bridges: learned addresses per port, and refused address moves
    #[command(subcommand)]
    Bridges(BridgesCommand),
    /// Show, add, change and remove bonds: several ports as one (link aggregation)
    #[command(subcommand)]
    Bonds(BondsCommand),
    /// Show neighbours that ports with LLDP have found
    #[command(subcommand)]
    Neighbors(NeighborsCommand),
    /// Show what the kernel forwards between AF_XDP ports without the switch
    #[command(subcommand)]
    Offload(OffloadCommand),
    /// Show and change the forwarding tables
    #[command(subcommand)]
    Fdb(FdbCommand),
    /// Show, add or remove flows of OpenFlow bridges of a running switch
    #[command(subcommand)]
    Flows(FlowsCommand),
    /// Show or remove connections that OpenFlow bridges track
    #[command(subcommand)]
    Ct(CtCommand),
    /// Show, add and remove mirrors: copies of packets for a port or a VLAN
    #[command(subcommand)]
    Mirrors(MirrorsCommand),
    /// Show queues of ports, or change their rates
    #[command(subcommand)]
    Queues(QueuesCommand),
    /// Show multicast groups of bridges with snooping, and remove memberships
    #[command(subcommand)]
    Multicast(MulticastCommand),
    /// Show tunnels of OpenFlow bridges
    #[command(subcommand)]
    Tunnels(TunnelsCommand),
    /// Show the export of samples and counters to collectors (sFlow, IPFIX)
    #[command(subcommand)]
    Export(ExportCommand),
    /// Show the way of a packet through the flow tables of an OpenFlow bridge
    ///
    /// Nothing is sent or counted. With `--live`, packets of running ports are followed instead.
    #[command(after_help = "SIGINT and SIGTERM end `--live`.")]
    Trace(TraceArgs),
    /// Show, add, change and remove workers
    #[command(subcommand)]
    Workers(WorkersCommand),
    /// Show CPU topology, and the placement of workers and queues
    #[command(subcommand)]
    Placement(PlacementCommand),
    /// Measure load, and move receive queues to balance the workers
    Rebalance(RebalanceArgs),
    /// Stop the running switch
    Stop,
    /// Start a switch with two built-in guests and show their traffic
    #[command(
        after_help = "SIGINT and SIGTERM end a run early (exit code 1); the results so far are printed."
    )]
    Demo(DemoArgs),
    /// Run a virtio-user guest of any vhost-user switch
    Guest(GuestArgs),
    /// Send streams of frames through a switch, and report throughput, loss and latency
    #[command(
        after_help = "SIGINT and SIGTERM end a run early (exit code 1); the results so far are printed.",
        after_long_help = generator::long_help()
    )]
    Gen(Box<GenArgs>),
    /// Run a server on a port, or give its sockets to other processes, with a TCP/IP stack of its own
    #[command(after_help = "SIGINT and SIGTERM end the server; a summary is printed (exit code 0).")]
    #[command(subcommand)]
    Serve(Box<ServeCommand>),
    /// Load a TCP server with requests, and report rates, latencies and failures
    #[command(
        subcommand,
        after_help = "SIGINT and SIGTERM end a run early (exit code 1); the results so far are printed."
    )]
    Load(Box<LoadCommand>),
    /// Show connections and counters of a running `linerate serve` or `linerate load`, and capture packets
    #[command(
        subcommand,
        after_help = "The program must have been started with --control PATH; name the same path here."
    )]
    Stack(StackCommand),
    /// Measure a switch by RFC 2544: throughput, latency, loss and back-to-back frames; or compare two
    /// results
    #[command(after_help = "SIGINT, SIGTERM, and a switch that exits or stops forwarding \
        (exit code 1) end a benchmark early: the results so far are printed, and \
        the same command with `--keep FILE --resume` continues.")]
    Bench(Box<BenchArgs>),
    /// Run a command until end of file on standard input
    #[command(hide = true)]
    Supervise(SuperviseArgs),
    /// Run the cache laboratory, `linerate-lab`, from the directory of this program
    #[command(disable_help_flag = true)]
    Lab {
        /// Arguments of `linerate-lab`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
        arguments: Vec<std::ffi::OsString>,
    },
    /// Print a shell completion script
    Completions {
        /// Shell
        shell: Shell,
    },
    /// Write the pages of `docs/reference` to a directory
    #[command(hide = true)]
    Reference {
        /// Directory of the pages
        dir: PathBuf,
    },
    /// Print the man page, or write one page per command to a directory
    Man {
        /// Write one page per command into this directory, which is created if missing
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
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
    /// Serve the web page at this loopback address, such as `127.0.0.1:9102` [default: `web` in the file, or none]
    #[arg(long, value_parser = web::address, value_name = "ADDRESS:PORT")]
    pub(crate) web: Option<SocketAddr>,
    /// Pass ports to systemd if SIGTERM ends the switch, so that the next process continues them
    #[arg(long)]
    pub(crate) keep_ports: bool,
    /// Take over the ports of the switch that started this process (`linerate upgrade` does)
    #[arg(long, hide = true)]
    pub(crate) take_over: bool,
}

/// Arguments of `upgrade`.
#[derive(Args, Debug)]
pub(crate) struct UpgradeArgs {
    /// Upgrade also if a part of the switch cannot be handed over
    ///
    /// Such ports are opened again: their peers connect again, and their packets are lost meanwhile. Flows that are not
    /// of the file, tracked connections and states of spanning trees are lost. Without this option, each of them
    /// refuses the upgrade.
    #[arg(long)]
    pub(crate) accept_loss: bool,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
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

/// The peer of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GuestKind {
    /// QEMU command line
    Qemu,
    /// libvirt domain XML
    Libvirt,
    /// DPDK testpmd: a guest for a vhost-user port, a switch for a virtio-user port
    Testpmd,
    /// Another linerate: section of its configuration file
    Linerate,
    /// Open vSwitch with DPDK, for a virtio-user port
    Ovs,
}

/// Arguments of `snippet`.
#[derive(Args, Debug)]
pub(crate) struct SnippetArgs {
    /// Name of the port
    pub(crate) port: String,
    /// Peer to connect
    #[arg(long = "for", value_enum, value_name = "PEER")]
    pub(crate) kind: GuestKind,
    /// Read the port from this file instead of the running switch
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// Arguments of `top`.
#[derive(Args, Debug)]
#[command(mut_arg("output", |arg| arg.help("Output format; JSON has one reading per line")))]
pub(crate) struct TopArgs {
    /// Interval between readings
    #[arg(long, short, default_value = "1s", value_parser = duration::positive, value_name = "TIME")]
    pub(crate) interval: Span,
    /// Print one reading and exit
    #[arg(long)]
    pub(crate) once: bool,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

#[cfg(test)]
mod documents;

#[cfg(test)]
mod tests {
    use super::*;

    fn control(words: &str) -> Option<PathBuf> {
        let matches = command().try_get_matches_from(words.split(' ')).unwrap();
        match read(&matches).unwrap().command {
            Command::Serve(mut args) => args.end_mut().control.clone(),
            Command::Load(mut args) => args.end_mut().control.clone(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn programs_open_a_control_socket_of_the_command_line() {
        let end = "--port kind=tap --address 10.9.0.2/24";
        let given = Some(PathBuf::from("/x"));
        assert_eq!(control(&format!("linerate serve echo {end} --control /x")), given);
        assert_eq!(control(&format!("linerate --control /x serve sockets {end} --listen /y")), given);
        assert_eq!(control(&format!("linerate load --control /x echo {end} --to 10.9.0.1:7")), given);
        assert_eq!(control(&format!("linerate serve kv {end}")), None);
    }
}
