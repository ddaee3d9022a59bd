//! `linerate lab copies`: the study of copies between host and guest, simulated or measured.
//!
//! It takes seconds in the simulator and less than a minute on real memory, so results are stored only at the end.

use super::args::{CopyMemory, LabCopiesArgs};
use super::profile;
use super::run::write;
use console::Diagnostic;
use console::progress::Progress;
use console::written::{Format, OutFiles};
use report::{CopyFindings, copies_text};
use studies::copystudy::{Plan, Results, Selection, measure, orders, simulate_all};
use studies::parallel::jobs;

/// Runs the selected experiments, stores and prints them.
pub(super) fn run(args: &LabCopiesArgs) -> anyhow::Result<()> {
    let selection = selection(args)?;
    let outputs = OutFiles::validate(&args.result.out, &[Format::Json])?;
    console::exit_on_signals("linerate-lab", "lab copies")?;
    let results = match args.memory {
        CopyMemory::Simulated => simulated(args, &selection)?,
        CopyMemory::Real => measured(args, selection)?,
    };
    write(&outputs, &results)?;
    let findings = CopyFindings { results: &results, orders: &orders(&results) };
    console::print(&findings, args.result.show.output, |findings| copies_text(findings.results))
}

fn selection(args: &LabCopiesArgs) -> Result<Selection, Diagnostic> {
    Selection::of(&args.variant, &args.size).map_err(|error| {
        let remedy = format!("use `{}`, or leave `--variant` out to see them all", error.nearest);
        Diagnostic::bad(format!("--variant {}", error.name), error, remedy)
    })
}

fn simulated(args: &LabCopiesArgs, selection: &Selection) -> Result<Results, Diagnostic> {
    let profile = profile::find(&args.profile)?;
    let mut shown = Progress::new("costs", 0, 1);
    let mut progress = |done: usize, of: usize, last: &str| shown.at(done, of, last);
    let results = simulate_all(&profile, selection, jobs(args.jobs), &mut progress);
    shown.end();
    let remedy = "report the profile; other variants (`--variant`) are not affected";
    results.map_err(|error| Diagnostic::failed("lab copies", error, remedy))
}

fn measured(args: &LabCopiesArgs, selection: Selection) -> Result<Results, Diagnostic> {
    let plan = Plan { selection, rounds: args.rounds, batches: args.batches, seed: args.seed };
    console::note("other load on this machine invalidates the results");
    let mut shown = Progress::new("slices", 0, 1);
    let mut progress = |done: usize, of: usize, next: &str| shown.at(done, of, next);
    let results = measure(&plan, &mut progress);
    shown.end();
    let remedy = "give more rounds, CPUs or memory, or use `--memory simulated`, which runs everywhere";
    results.map_err(|error| Diagnostic::bad("--memory real", error, remedy))
}
