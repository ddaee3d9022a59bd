//! Command line of the laboratory.

use clap::builder::RangedU64ValueParser;
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use console::{Output, ShowArgs};
use measure::Kind;
use sim::profiles;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use studies::copystudy::LONGEST;
use studies::usage::Study;

/// The cache laboratory: experiments that explain the speed of a data path
#[derive(Debug, Parser)]
#[command(name = "linerate-lab", version, about, arg_required_else_help = true, propagate_version = true)]
#[command(after_help = "Exit codes: 0 done, 1 failed at run time, 2 bad input (nothing was changed).")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: LabCommand,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// Show every experiment that can be run
    List(ShowArgs),
    /// Run experiments, as many at once as there are CPUs
    #[command(
        after_help = "With `--out`, results are kept after each experiment, on real memory after each round: SIGINT and \
        SIGTERM lose only what runs just then (a second one ends it at once), and the same command again runs only \
        what is missing."
    )]
    Run(LabRunArgs),
    /// Copies between host and guest: what they cost by size, and by where lines are
    #[command(
        after_help = "What the study found (edited > read-only, other node >> same node, and so on) is told order by order: it holds, it \
        does not, or the difference is not larger than between runs of the same."
    )]
    Copies(LabCopiesArgs),
    /// Simulate linerate's own path beside DPDK's: lines moved between cores, by part of rings and buffers
    #[command(
        after_help = "Everything printed is simulated but the column MEASURED, which is what `cargo xtask bench peers` \
        gave on the processor named below the table. `lab report` draws what `--out` kept."
    )]
    Paths(LabPathsArgs),
    #[command(about = usage())]
    Usage(LabUsageArgs),
    /// Measure this processor's caches, and write a profile that the simulator reads
    Calibrate(LabCalibrateArgs),
    /// Turn results into one page with figures, their SVG files, or JSON
    Report(LabReportArgs),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the man page, or write one page per subcommand into a directory
    Man {
        /// Directory for one page per subcommand
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
}

/// Which memory the model acts on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum MemoryKind {
    /// A simulator of caches and coherence: the same on every machine
    #[default]
    Simulated,
    /// This machine's memory, timed
    Real,
    /// This machine's memory under hardware counters
    Counted,
}

impl MemoryKind {
    /// The corresponding kind in results.
    pub(crate) fn kind(self) -> Kind {
        match self {
            MemoryKind::Simulated => Kind::Simulated,
            MemoryKind::Real => Kind::Real,
            MemoryKind::Counted => Kind::Counted,
        }
    }
}

/// Which experiments.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct Selection {
    /// Experiments by name: a factor of `linerate lab list`, or letters joined by `+`, such as a+d
    #[arg(long, value_name = "NAME", num_args = 1..)]
    pub(crate) config: Vec<String>,
    /// Every experiment there is
    #[arg(long)]
    pub(crate) all: bool,
    /// The 64 combinations of the six factors a to f
    #[arg(long)]
    pub(crate) cells: bool,
}

/// Arguments of `lab run`.
#[derive(Args, Debug)]
pub(crate) struct LabRunArgs {
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// Which memory the model acts on
    #[arg(long, value_enum, default_value_t)]
    pub(crate) memory: MemoryKind,
    /// Packets that count in each experiment
    #[arg(long, default_value_t = 60_000, value_name = "N",
          value_parser = RangedU64ValueParser::<u64>::new().range(256..=1_000_000_000))]
    pub(crate) packets: u64,
    /// Seed of what is drawn by chance: the order of real runs; in the simulator the order of the pools' buffers
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
    /// Processor to simulate: a profile that comes with the laboratory, or a file of one
    #[arg(long, default_value = profiles::DEFAULT, value_name = "NAME|FILE")]
    pub(crate) profile: String,
    /// Experiments that run at once [default: the CPUs that this process may use]
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<NonZeroUsize>,
    /// Rounds of a trial on real memory: each has every experiment once
    #[arg(long, default_value_t = 30, value_name = "N")]
    pub(crate) rounds: usize,
    /// How long each experiment runs in a round on real memory, in milliseconds
    #[arg(long, default_value_t = 40, value_name = "MS")]
    pub(crate) slice: u64,
    /// Keep results in this file, and run only what it lacks
    #[arg(long, value_name = "FILE.json")]
    pub(crate) out: Option<PathBuf>,
    /// How to print
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Output,
}

/// Which memory copies are made in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum CopyMemory {
    /// A simulator of two cores, on one socket or on two: the same on every machine
    #[default]
    Simulated,
    /// This machine's memory, timed, on two of its CPUs
    Real,
}

/// Arguments of `lab copies`.
#[derive(Args, Debug)]
pub(crate) struct LabCopiesArgs {
    /// Which memory copies are made in
    #[arg(long, value_enum, default_value_t)]
    pub(crate) memory: CopyMemory,
    /// Variants by name, such as base, read-only, sse, warm-libc; what each is compared with comes along [default: all]
    #[arg(long, value_name = "NAME", num_args = 1..)]
    pub(crate) variant: Vec<String>,
    /// Bytes of packets [default: 64 128 256 512 1024 1280 1518]
    #[arg(long, value_name = "BYTES", num_args = 1..,
          value_parser = RangedU64ValueParser::<u64>::new().range(64..=LONGEST))]
    pub(crate) size: Vec<u64>,
    /// Processor to simulate: a profile that comes with the laboratory, or a file of one
    #[arg(long, default_value = profiles::TWO_SOCKETS, value_name = "NAME|FILE")]
    pub(crate) profile: String,
    /// Simulated experiments that run at once [default: the CPUs that this process may use]
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<NonZeroUsize>,
    /// Rounds on real memory: each has every experiment once
    #[arg(long, default_value_t = 30, value_name = "N")]
    pub(crate) rounds: usize,
    /// Batches of 32 packets that count in each experiment of a round on real memory
    #[arg(long, default_value = "64", value_name = "N")]
    pub(crate) batches: NonZeroUsize,
    /// Seed of the order of real runs; the simulator draws nothing
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
    /// Keep results in this file, for `lab report`
    #[arg(long, value_name = "FILE.json")]
    pub(crate) out: Option<PathBuf>,
    /// How to print
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Output,
}

/// Arguments of `lab paths`.
#[derive(Args, Debug)]
pub(crate) struct LabPathsArgs {
    /// Packets that count in each run; as many run before, which do not
    #[arg(long, default_value_t = 40_000, value_name = "N",
          value_parser = RangedU64ValueParser::<u64>::new().range(256..=1_000_000_000))]
    pub(crate) packets: u64,
    /// Processor to simulate: a profile that comes with the laboratory, or a file of one
    #[arg(long, default_value = profiles::DEFAULT, value_name = "NAME|FILE")]
    pub(crate) profile: String,
    /// Simulate linerate with each thing done otherwise that was thought of, too
    #[arg(long)]
    pub(crate) changes: bool,
    /// Cases that run at once [default: the CPUs that this process may use]
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<NonZeroUsize>,
    /// What `cargo xtask bench peers -o json` printed, to stand beside [default: what the repository has]
    #[arg(long, value_name = "FILE.json")]
    pub(crate) measured: Option<PathBuf>,
    /// Keep what came out in this file, for `lab report`
    #[arg(long, value_name = "FILE.json")]
    pub(crate) out: Option<PathBuf>,
    /// How to print
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Output,
}

/// About text of `lab usage`.
fn usage() -> String {
    let about = Study::ALL.map(Study::about).join(", ");
    format!("How the way in which a data path is used decides what it does: {about}")
}

/// Help of `--only`.
fn studies() -> String {
    format!("Run only these studies: {}", Study::ALL.map(Study::name).join(", "))
}

/// Arguments of `lab usage`.
#[derive(Args, Debug)]
pub(crate) struct LabUsageArgs {
    #[arg(long, value_name = "NAME", value_delimiter = ',', help = studies())]
    pub(crate) only: Vec<String>,
    /// CPU of what is measured, and CPU of the other side
    #[arg(long, value_name = "CPU,CPU", value_delimiter = ',', default_value = "0,1")]
    pub(crate) cpus: Vec<usize>,
    /// How long each reading lasts, in milliseconds
    #[arg(long, default_value_t = 300, value_name = "MS",
          value_parser = RangedU64ValueParser::<u64>::new().range(1..=60_000))]
    pub(crate) slice: u64,
    /// Keep readings in this file, and take only those that it lacks
    #[arg(long, value_name = "FILE.json")]
    pub(crate) out: Option<PathBuf>,
    /// Write one page that needs nothing else
    #[arg(long, value_name = "FILE.html")]
    pub(crate) html: Option<PathBuf>,
    /// Write each figure into this directory, which is made if need be
    #[arg(long, value_name = "DIR")]
    pub(crate) svg: Option<PathBuf>,
    /// How to print
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Output,
}

/// Arguments of `lab calibrate`.
#[derive(Args, Debug)]
pub(crate) struct LabCalibrateArgs {
    /// How often everything is measured; medians count
    #[arg(long, default_value_t = 15, value_name = "N")]
    pub(crate) rounds: usize,
    /// Seed of the orders in which memory is walked
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
    /// Also run everything in the simulator under this profile, and print it beside what was measured
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) profile: Option<String>,
    /// Keep the profile in this file, and print what was measured; without it the profile is printed
    #[arg(long, value_name = "FILE.toml")]
    pub(crate) out: Option<PathBuf>,
}

/// Arguments of `lab report`.
#[derive(Args, Debug)]
pub(crate) struct LabReportArgs {
    /// Results that `lab run`, `copies`, `paths` or `usage` kept by `--out`; each file is a part of its own
    #[arg(required = true, value_name = "FILE.json")]
    pub(crate) files: Vec<PathBuf>,
    /// Write one page that needs nothing else
    #[arg(long, value_name = "FILE.html")]
    pub(crate) html: Option<PathBuf>,
    /// Write each figure into this directory, which is made if need be
    #[arg(long, value_name = "DIR")]
    pub(crate) svg: Option<PathBuf>,
    /// How to print what the results show
    #[arg(short, long, value_enum, default_value_t)]
    pub(crate) output: Output,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_help_of_usage_names_every_study() {
        let cli = Cli::command();
        let usage = cli.find_subcommand("usage").unwrap();
        let about = usage.get_about().unwrap().to_string();
        assert!(Study::ALL.iter().all(|study| about.contains(study.about())), "{about}");
    }
}
