//! `linerate lab run --memory real` and `counted`, and `lab calibrate`: commands that need exclusive use of this
//! machine.
//!
//! A trial runs in rounds, and each finished round is stored. The same command resumes with the missing rounds. A
//! configuration that cannot run on this machine is rejected before anything runs.

use super::args::{LabCalibrateArgs, LabRunArgs, MemoryKind};
use super::profile;
use super::run::{open, unwritten, write};
use console::progress::Progress;
use console::stop_on_signals;
use console::written::{Format, OutFiles};
use console::{CheckpointArgs, Diagnostic};
use measure::Estimate;
use measure::store::StoreError;
use sim::Profile;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;
use studies::batch::checkpoint::CheckpointWriter;
use studies::calibrate;
use studies::calibrate::{Calibration, profile as profile_text};
use studies::factors::Named;
use studies::results::Results;
use studies::trial;
use studies::trial::{Plan, Stage, TrialError};

/// Runs the missing rounds of a trial and prints the results.
pub(super) fn run(args: &LabRunArgs, wanted: Vec<Named>) -> anyhow::Result<()> {
    let plan = Plan {
        configurations: possible(args, wanted),
        rounds: args.rounds,
        slice: args.duration.0,
        seed: args.seed,
        counted: args.memory == MemoryKind::Counted,
    };
    let refused = |error: TrialError| {
        let place = format!("--memory {}", args.memory.kind().name());
        let remedy = "choose others with --config, or use `--memory simulated`, which runs everywhere";
        Diagnostic::bad(place, error, remedy)
    };
    let stage = Stage::prepare(&plan).map_err(refused)?;
    let outputs = OutFiles::validate(&args.result.out, &[Format::Json])?;
    let writer = open(&args.keep, stage.empty())?;
    let earlier = writer.results().clone();
    announce(&plan, finished(&earlier));
    let progress = Progress::new("slices", 0, 1);
    let mut watch = Watch { progress, writer, stop: stop_on_signals()?, unwritten: None };
    let results = stage.run(earlier, &mut watch).map_err(refused)?;
    watch.progress.end();
    console::print(&results, args.result.show.output, table)?;
    write(&outputs, &results)?;
    watch.into_result(&args.keep, finished(&results), plan.rounds)
}

/// Number of rounds in results.
fn finished(results: &Results) -> usize {
    results.trial.as_ref().map_or(0, |record| record.rounds.len())
}

fn announce(plan: &Plan, finished: usize) {
    if finished > 0 {
        console::note(&format!("{finished} of {} rounds are complete already", plan.rounds));
    }
    let estimate = trial::estimate(plan, finished).as_secs();
    if estimate > 0 {
        console::note(&format!("at least {estimate} s, other load on this machine invalidates the results"));
    }
}

/// Shows the progress of a trial, stores its rounds, and stops it on a signal.
struct Watch {
    progress: Progress,
    writer: CheckpointWriter,
    stop: Arc<AtomicBool>,
    unwritten: Option<StoreError>,
}

impl trial::Progress for Watch {
    fn step(&mut self, done: usize, of: usize, next: &str) {
        self.progress.at(done, of, next);
    }

    fn round(&mut self, results: &Results) -> ControlFlow<()> {
        if let Err(error) = self.writer.replace(results.clone()) {
            self.unwritten = Some(error);
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    fn stopped(&mut self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

impl Watch {
    /// Returns an error if requested rounds are missing.
    fn into_result(self, keep: &CheckpointArgs, finished: usize, rounds: usize) -> anyhow::Result<()> {
        if let Some(error) = self.unwritten {
            return Err(unwritten(keep, &error).into());
        }
        if finished < rounds {
            return Err(keep.interrupted("lab run", format_args!("{finished} of {rounds} rounds")).into());
        }
        Ok(())
    }
}

/// Measures this processor's constants, and prints or stores them as a profile.
pub(super) fn calibrate(args: &LabCalibrateArgs) -> anyhow::Result<()> {
    let outputs = OutFiles::validate(&args.out, &[Format::Toml])?;
    let validated = args.profile.as_deref().map(profile::find).transpose()?;
    console::exit_on_signals("linerate-lab", "lab calibrate")?;
    let mut progress = Progress::new("rounds", 0, 1);
    let mut watch = |done: usize, of: usize, next: &str| progress.at(done, of, next);
    let found = calibrate::run(args.rounds, args.seed, &mut watch)
        .map_err(|error| Diagnostic::bad("lab calibrate", error, "give more rounds, CPUs or memory"))?;
    progress.end();
    let text = profile_text::write(&found, &profile_text::day(SystemTime::now()));
    for doubt in found.implausible() {
        console::warn(&format!("implausible, check before use: {doubt}"));
    }
    outputs.write(Format::Toml, || text.clone())?;
    match validated {
        Some(validated) => console::line(&beside(&found, &validated)?),
        None if !outputs.is_empty() => console::line(&measured(&found)),
        None => console::line(&text),
    }
}

/// Table of measured values, and of values simulated with a profile.
fn beside(found: &Calibration, validated: &Profile) -> anyhow::Result<String> {
    let simulated = calibrate::simulate(validated)
        .map_err(|error| Diagnostic::failed("lab calibrate", error, "give another profile"))?;
    let rows = found.measured.iter().map(|measured| {
        let value = simulated.iter().find(|(name, _)| *name == measured.name).map(|(_, value)| *value);
        vec![
            measured.name.to_string(),
            shown(measured.value),
            value.map_or_else(String::new, |value| format!("{value:.3}")),
            value.map_or_else(String::new, |value| format!("{:.2}", value / measured.value.median)),
            measured.unit.to_string(),
        ]
    });
    let titles = ["CONSTANT", ">MEASURED (95 %)", ">SIMULATED", ">SIMULATED / MEASURED", "UNIT"];
    let table = console::table(&titles, rows);
    Ok(format!("{table}\n\nmeasured: {}; simulated: {}", found.processor, validated.name))
}

/// The requested experiments. For `--all` and `--cells`, those that this processor supports; the others are reported.
fn possible(args: &LabRunArgs, wanted: Vec<Named>) -> Vec<Named> {
    if !(args.selection.all || args.selection.cells) {
        return wanted;
    }
    let (can, cannot) = trial::possible(wanted);
    for missing in cannot {
        console::warn(&format!("left out: {missing}"));
    }
    can
}

fn shown(estimate: Estimate) -> String {
    format!("{:.3} ({:.3} to {:.3})", estimate.median, estimate.low, estimate.high)
}

fn table(results: &Results) -> String {
    let rows = results.rows.iter().map(|row| {
        vec![row.name.clone(), format!("{:.2}", row.mpps), row.ratio.map_or_else(String::new, shown)]
    });
    let mut lines: Vec<String> = vec![console::table(&["NAME", ">MPPS", ">RATIO"], rows)];
    for (row, event) in results.rows.iter().flat_map(|row| row.events.iter().map(move |event| (row, event))) {
        lines
            .push(format!("{} {} {}: {:.3} a packet", row.name, event.thread, event.event, event.per_packet));
    }
    lines.push(format!(
        "\nmeasured: {}, {} packets; ratios to the base of the same round with their 95 % interval",
        results.processor, results.packets
    ));
    lines.extend(results.notes.iter().map(|note| format!("- {note}")));
    lines.join("\n")
}

fn measured(found: &Calibration) -> String {
    let rows = found
        .measured
        .iter()
        .map(|measured| vec![measured.name.to_string(), shown(measured.value), measured.unit.to_string()]);
    console::table(&["CONSTANT", ">MEDIAN (95 %)", "UNIT"], rows)
}
