//! Command line of the laboratory.

use clap::builder::RangedU64ValueParser;
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use console::{CheckpointArgs, Diagnostic, QuietArgs, ResultArgs, ShowArgs, Span, duration};
use measure::Kind;
use sim::profiles;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use studies::copystudy::MAX_SIZE;
use studies::stack::Study as StackStudy;
use studies::usage::Study;

/// Help of `--out` of a result without figures.
const OUT_JSON: &str = "Write the result to this file when the run ends: FILE.json, for `lab report`";
/// Help of `--out` of a result with figures.
const OUT: &str = "Write the result to this file when the run ends: FILE.json, for `lab report`; FILE.html, a page with \
    figures; or DIR/, for figures as SVG files. May be repeated";
/// Help of `--out` of `lab report`.
const OUT_FINDINGS: &str = "Write the findings to this file: FILE.html, a page with figures; DIR/, for figures as SVG \
    files; or FILE.json. May be repeated";

/// Cache laboratory: experiments on the performance of a data path
#[derive(Debug, Parser)]
#[command(
    name = "linerate-lab",
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
    pub(crate) quiet: QuietArgs,
    #[command(subcommand)]
    pub(crate) command: LabCommand,
}

/// Commands.
#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// List all experiments
    List(ShowArgs),
    /// Run experiments in parallel on all CPUs
    #[command(
        after_help = "With `--keep`, results are saved after each experiment, on real memory after each round: \
        SIGINT and SIGTERM discard only the current one (a second signal exits at once), and the same \
        command with `--resume` runs the missing ones."
    )]
    Run(LabRunArgs),
    /// Measure copies between host and guest, by size and by location of the cache lines
    #[command(
        after_help = "Each order that the study found (edited > read-only, other node >> same node, and so \
        on) is reported as confirmed, contradicted, or within the difference between identical runs."
    )]
    Copies(LabCopiesArgs),
    /// Simulate the data paths of linerate and DPDK: cache lines moved between cores, by part of rings and
    /// buffers
    #[command(
        after_help = "All values are simulated except for the column MEASURED: results of `cargo xtask \
        bench peers` on the processor named below the table. `lab report` draws the file of `--out`."
    )]
    Paths(LabPathsArgs),
    #[command(about = usage())]
    Usage(LabUsageArgs),
    /// Measure mechanisms of published TCP/IP systems on this stack, with and without each, beside their published
    /// figures
    #[command(
        after_help = "With `--keep`, each reading is saved: SIGINT and SIGTERM discard only the current one (a \
        second signal exits at once), and the same command with `--resume` takes the missing ones. More rounds \
        can be added to a file."
    )]
    Stack(LabStackArgs),
    /// Measure this processor's caches, and write a profile for the simulator
    Calibrate(LabCalibrateArgs),
    /// Convert results to one page with figures, SVG files, or JSON
    Report(LabReportArgs),
    /// Print a shell completion script
    Completions {
        /// Shell
        shell: Shell,
    },
    /// Print the man page, or write one page per command to a directory
    Man {
        /// Write one page per command into this directory, which is created if missing
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
    /// Write the page of `docs/reference` to a directory
    #[command(hide = true)]
    Reference {
        /// Directory of the page
        dir: PathBuf,
    },
}

/// Memory that the model accesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum MemoryKind {
    /// Simulated caches and coherence, with the same result on every machine
    #[default]
    Simulated,
    /// This machine's memory, timed
    Real,
    /// This machine's memory, with hardware counters
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

/// Selection of experiments.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct Selection {
    /// Experiments by name: a factor in `linerate lab list`, or letters joined by `+`, such as a+d
    #[arg(long, value_name = "NAME", num_args = 1..)]
    pub(crate) config: Vec<String>,
    /// All experiments
    #[arg(long)]
    pub(crate) all: bool,
    /// The 64 combinations of the six factors a to f
    #[arg(long)]
    pub(crate) cells: bool,
}

/// Arguments of `lab run`.
#[derive(Args, Debug)]
#[command(mut_arg("out", |arg| arg.help(OUT_JSON)))]
pub(crate) struct LabRunArgs {
    #[command(flatten)]
    pub(crate) selection: Selection,
    /// Memory that the model accesses
    #[arg(long, value_enum, default_value_t)]
    pub(crate) memory: MemoryKind,
    /// Number of measured packets in each experiment
    #[arg(long, default_value_t = 60_000, value_name = "N",
          value_parser = RangedU64ValueParser::<u64>::new().range(256..=1_000_000_000))]
    pub(crate) packets: u64,
    /// Random seed: order of runs on real memory, order of the pools' buffers in the simulator
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
    /// Processor to simulate: name of a built-in profile, or a profile file
    #[arg(long, default_value = profiles::DEFAULT, value_name = "NAME|FILE")]
    pub(crate) profile: String,
    /// Number of experiments to run in parallel [default: number of CPUs available to this process]
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<NonZeroUsize>,
    /// Number of rounds on real memory; each runs every experiment once
    #[arg(long, default_value_t = 30, value_name = "N")]
    pub(crate) rounds: usize,
    /// Duration of each experiment in a round on real memory
    #[arg(long, default_value = "40ms", value_parser = duration::positive, value_name = "TIME")]
    pub(crate) duration: Span,
    #[command(flatten)]
    pub(crate) keep: CheckpointArgs,
    #[command(flatten)]
    pub(crate) result: ResultArgs,
}

/// Memory that is copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum CopyMemory {
    /// Two simulated cores, on one socket or on two, with the same result on every machine
    #[default]
    Simulated,
    /// This machine's memory, timed, on two of its CPUs
    Real,
}

/// Arguments of `lab copies`.
#[derive(Args, Debug)]
#[command(mut_arg("out", |arg| arg.help(OUT_JSON)))]
pub(crate) struct LabCopiesArgs {
    /// Memory that is copied
    #[arg(long, value_enum, default_value_t)]
    pub(crate) memory: CopyMemory,
    /// Variants by name, such as base, read-only, sse, warm-libc; the variants that they are compared with
    /// are added [default: all]
    #[arg(long, value_name = "NAME", num_args = 1..)]
    pub(crate) variant: Vec<String>,
    /// Packet sizes in bytes [default: 64 128 256 512 1024 1280 1518]
    #[arg(long, value_name = "BYTES", num_args = 1..,
          value_parser = RangedU64ValueParser::<u64>::new().range(64..=MAX_SIZE))]
    pub(crate) size: Vec<u64>,
    /// Processor to simulate: name of a built-in profile, or a profile file
    #[arg(long, default_value = profiles::TWO_SOCKETS, value_name = "NAME|FILE")]
    pub(crate) profile: String,
    /// Number of simulated experiments to run in parallel [default: number of CPUs available to this process]
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<NonZeroUsize>,
    /// Number of rounds on real memory; each runs every experiment once
    #[arg(long, default_value_t = 30, value_name = "N")]
    pub(crate) rounds: usize,
    /// Number of measured batches of 32 packets in each experiment of a round on real memory
    #[arg(long, default_value = "64", value_name = "N")]
    pub(crate) batches: NonZeroUsize,
    /// Random seed: order of runs on real memory; the simulator is deterministic
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) result: ResultArgs,
}

/// Arguments of `lab paths`.
#[derive(Args, Debug)]
#[command(mut_arg("out", |arg| arg.help(OUT_JSON)))]
pub(crate) struct LabPathsArgs {
    /// Number of measured packets in each run, after a warm-up of the same length
    #[arg(long, default_value_t = 40_000, value_name = "N",
          value_parser = RangedU64ValueParser::<u64>::new().range(256..=1_000_000_000))]
    pub(crate) packets: u64,
    /// Processor to simulate: name of a built-in profile, or a profile file
    #[arg(long, default_value = profiles::DEFAULT, value_name = "NAME|FILE")]
    pub(crate) profile: String,
    /// Also simulate linerate with each of the design alternatives
    #[arg(long)]
    pub(crate) changes: bool,
    /// Number of cases to run in parallel [default: number of CPUs available to this process]
    #[arg(long, value_name = "N")]
    pub(crate) jobs: Option<NonZeroUsize>,
    /// Measured results to compare with, printed by `cargo xtask bench peers -o json` [default: those of the
    /// repository]
    #[arg(long, value_name = "FILE.json")]
    pub(crate) measured: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) result: ResultArgs,
}

/// About text of `lab usage`.
fn usage() -> String {
    let about = Study::ALL.map(Study::about).join(", ");
    format!("Measure how the use of a data path determines its performance: {about}")
}

/// Help of `--only`.
fn studies() -> String {
    format!("Run only these studies: {}", Study::ALL.map(Study::name).join(", "))
}

/// Studies of `lab usage` or `lab stack`, their CPUs and their results.
#[derive(Args, Debug)]
#[command(mut_arg("out", |arg| arg.help(OUT)))]
pub(crate) struct StudyArgs {
    /// Run only these studies
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// CPUs of the two threads
    #[arg(long, value_name = "CPU,CPU", value_delimiter = ',', default_value = "0,1")]
    cpus: Vec<usize>,
    #[command(flatten)]
    pub(crate) keep: CheckpointArgs,
    #[command(flatten)]
    pub(crate) result: ResultArgs,
}

impl StudyArgs {
    /// The studies of `--only`, in the order of `all`; all by default.
    pub(crate) fn studies<S: Copy>(
        &self,
        all: &[S],
        name: fn(S) -> &'static str,
    ) -> Result<Vec<S>, Diagnostic> {
        let is_known = |wanted: &&String| all.iter().any(|study| name(*study) == **wanted);
        if let Some(unknown) = self.only.iter().find(|wanted| !is_known(wanted)) {
            let names: Vec<_> = all.iter().map(|study| name(*study)).collect();
            let remedy = format!("choose of: {}", names.join(", "));
            return Err(Diagnostic::bad(format!("--only {unknown}"), "there is no such study", remedy));
        }
        let is_wanted = |study: &S| self.only.is_empty() || self.only.iter().any(|only| name(*study) == only);
        Ok(all.iter().copied().filter(is_wanted).collect())
    }

    /// The two CPUs.
    pub(crate) fn cpus(&self) -> Result<[usize; 2], Diagnostic> {
        <[usize; 2]>::try_from(self.cpus.as_slice()).map_err(|_| {
            let reason = format!("{} CPUs are given", self.cpus.len());
            Diagnostic::bad("--cpus", reason, "give two, such as 0,1")
        })
    }
}

/// Arguments of `lab usage`.
#[derive(Args, Debug)]
#[command(mut_arg("only", |arg| arg.help(studies())))]
#[command(mut_arg("cpus", |arg| arg.help("CPU of the measured thread, and CPU of its peer")))]
pub(crate) struct LabUsageArgs {
    #[command(flatten)]
    pub(crate) study: StudyArgs,
    /// Duration of each reading
    #[arg(long, default_value = "300ms", value_parser = duration::positive, value_name = "TIME")]
    pub(crate) duration: Span,
}

/// Help of `--only` of `lab stack`.
fn stack_studies() -> String {
    format!("Run only these studies: {}", StackStudy::ALL.map(StackStudy::name).join(", "))
}

/// Arguments of `lab stack`.
#[derive(Args, Debug)]
#[command(mut_arg("only", |arg| arg.help(stack_studies())))]
#[command(mut_arg("cpus", |arg| arg.help("CPU of the server, and CPU of the client")))]
pub(crate) struct LabStackArgs {
    #[command(flatten)]
    pub(crate) study: StudyArgs,
    /// Number of interleaved rounds; each takes one reading of every variant
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = RangedU64ValueParser::<u32>::new().range(1..=1_000))]
    pub(crate) rounds: u32,
    /// Number of requests of each reading, after a warm-up
    #[arg(long, default_value_t = 50_000, value_name = "N",
          value_parser = RangedU64ValueParser::<u64>::new().range(100..=1_000_000_000))]
    pub(crate) requests: u64,
    /// Largest number of connections of study connections; a million need 2 GiB of memory
    #[arg(long, default_value_t = 1_000_000, value_name = "N",
          value_parser = RangedU64ValueParser::<u64>::new().range(10..=1_000_000))]
    pub(crate) connections: u64,
}

/// Arguments of `lab calibrate`.
#[derive(Args, Debug)]
pub(crate) struct LabCalibrateArgs {
    /// Number of rounds; results are medians
    #[arg(long, default_value_t = 15, value_name = "N")]
    pub(crate) rounds: usize,
    /// Random seed: order of memory accesses
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
    /// Also run all measurements in the simulator with this profile, and print both
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) profile: Option<String>,
    /// Write the profile to this file, FILE.toml, and print the measurements [default: print the profile]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Vec<PathBuf>,
}

/// Arguments of `lab report`.
#[derive(Args, Debug)]
#[command(mut_arg("out", |arg| arg.help(OUT_FINDINGS)))]
pub(crate) struct LabReportArgs {
    /// Result files: `--keep` of `lab run`, `usage` or `stack`, or `--out` of `lab run`, `copies`, `paths`,
    /// `usage` or `stack`; each is a section of the page
    #[arg(required = true, value_name = "FILE.json")]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) result: ResultArgs,
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
