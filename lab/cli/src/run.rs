//! `linerate lab run`: validates all input, then runs the missing experiments and stores each result as it arrives.

use super::args::{LabRunArgs, MemoryKind, Selection};
use super::profile;
use super::trial;
use console::progress::Progress;
use console::stop_on_signals;
use console::written::{Format, OutFiles};
use console::{CheckpointArgs, Diagnostic};
use measure::Kind;
use measure::store::{StoreError, Stored, encode};
use std::io;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use studies::analysis;
use studies::batch;
use studies::batch::checkpoint::CheckpointWriter;
use studies::batch::{Event, Plan, select};
use studies::factors::{Named, cells, everything};
use studies::parallel::jobs;
use studies::results::{Results, Row};

/// Runs the experiments and prints the results.
pub(super) fn run(args: &LabRunArgs) -> anyhow::Result<()> {
    let wanted = wanted(&args.selection)?;
    if args.memory != MemoryKind::Simulated {
        return trial::run(args, wanted);
    }
    let plan = Plan {
        profile: profile::find(&args.profile)?,
        packets: args.packets,
        seed: args.seed,
        jobs: jobs(args.jobs),
    };
    let outputs = OutFiles::validate(&args.result.out, &[Format::Json])?;
    let mut job = Job { writer: open(&args.keep, plan.empty())?, failed: Vec::new(), unwritten: None };
    let stopped = job.run(&plan, &wanted)?;
    let results = chosen(job.writer.results(), &wanted);
    console::print(&results, args.result.show.output, table)?;
    write(&outputs, &results)?;
    job.into_result(&args.keep, results.rows.len(), wanted.len(), stopped)
}

/// The requested experiments, or an error for every unknown name.
fn wanted(selection: &Selection) -> Result<Vec<Named>, Diagnostic> {
    if selection.all {
        return Ok(everything());
    }
    if selection.cells {
        return Ok(cells());
    }
    select(&selection.config).map_err(|unknown| {
        let error = |error: studies::factors::UnknownConfiguration| {
            let remedy = format!("use `{}`, or a name of `linerate lab list`", error.nearest);
            Diagnostic::bad(format!("--config {}", error.name), error, remedy)
        };
        Diagnostic::all(unknown.into_iter().map(error).collect())
    })
}

/// Opens the checkpoint file. Nothing has run yet, so an unwritable file is invalid input.
pub(super) fn open(keep: &CheckpointArgs, empty: Results) -> Result<CheckpointWriter, Diagnostic> {
    keep.validate()?;
    CheckpointWriter::open(keep.path(), empty).map_err(|error| unwritten(keep, &error).as_bad_input())
}

/// Writes results to the files of `--out`, in the format that `lab report` reads.
pub(super) fn write<T: Stored>(outputs: &OutFiles, results: &T) -> anyhow::Result<()> {
    let bytes = encode(results)?;
    Ok(outputs.write(Format::Json, || String::from_utf8_lossy(&bytes).into_owned())?)
}

/// A running set of experiments.
struct Job {
    writer: CheckpointWriter,
    failed: Vec<String>,
    unwritten: Option<StoreError>,
}

impl Job {
    /// Runs the missing experiments. Returns whether a signal stopped it.
    fn run(&mut self, plan: &Plan, wanted: &[Named]) -> io::Result<bool> {
        let missing = self.writer.missing(wanted);
        let complete = wanted.len() - missing.len();
        if complete > 0 {
            console::note(&format!("{complete} of {} experiments are complete already", wanted.len()));
        }
        if missing.is_empty() {
            return Ok(false);
        }
        let stop = stop_on_signals()?;
        let mut progress = Progress::new("experiments", missing.len(), plan.jobs.get());
        batch::run(plan, &missing, &stop, &mut |event| self.take(event, &mut progress));
        progress.end();
        Ok(stop.load(Ordering::Relaxed))
    }

    fn take(&mut self, event: Event, progress: &mut Progress) -> ControlFlow<()> {
        match event {
            Event::Began(name) => progress.began(&name),
            Event::Failed(name, error) => {
                progress.ended(&name);
                self.failed.push(format!("{name}: {error}"));
            }
            Event::Done(row) => {
                progress.ended(&row.name);
                if let Err(error) = self.writer.add(row) {
                    self.unwritten = Some(error);
                    return ControlFlow::Break(());
                }
            }
        }
        ControlFlow::Continue(())
    }

    /// Returns an error if a requested result is missing.
    fn into_result(
        self,
        keep: &CheckpointArgs,
        done: usize,
        all: usize,
        stopped: bool,
    ) -> anyhow::Result<()> {
        if let Some(error) = self.unwritten {
            return Err(unwritten(keep, &error).into());
        }
        if !self.failed.is_empty() {
            let remedy = "report the profile and these names; the other experiments are not affected";
            return Err(Diagnostic::failed("lab run", self.failed.join("; "), remedy).into());
        }
        if done < all && stopped {
            return Err(keep.interrupted("lab run", format_args!("{done} of {all} experiments")).into());
        }
        Ok(())
    }
}

/// The results with only the requested rows.
fn chosen(results: &Results, wanted: &[Named]) -> Results {
    let is_wanted = |row: &&Row| wanted.iter().any(|named| named.name == row.name);
    Results { rows: results.rows.iter().filter(is_wanted).cloned().collect(), ..results.clone() }
}

/// Error of a checkpoint file.
pub(super) fn unwritten(keep: &CheckpointArgs, error: &StoreError) -> Diagnostic {
    Diagnostic::failed(keep.place(), error, error.remedy())
}

fn table(results: &Results) -> String {
    let ratios = analysis::ratios(results);
    let rows = results.rows.iter().map(|row| {
        let ratio = ratios.iter().find(|ratio| ratio.name == row.name);
        let guest = row.threads.iter().find(|thread| thread.thread == "guest");
        let cell = |read: fn(&studies::results::ThreadRow) -> f64| {
            guest.map_or_else(String::new, |guest| format!("{:.2}", read(guest)))
        };
        vec![
            row.name.clone(),
            format!("{:.2}", row.mpps),
            ratio.map_or_else(String::new, |ratio| format!("{:.2}", ratio.ratio)),
            cell(|guest| guest.l1_misses),
            cell(|guest| guest.l2_misses),
            cell(|guest| guest.hits_modified),
            cell(|guest| guest.rfo_cycles),
        ]
    });
    let titles = ["NAME", ">MPPS", ">RATIO", ">GUEST L1", ">GUEST L2", ">GUEST HITM", ">GUEST RFO CYCLES"];
    let how = if results.memory == Kind::Simulated { "simulated" } else { "measured" };
    format!(
        "{}\n\n{how}: {}, {} packets each; misses, loads from other cores' modified lines, and cycles per packet",
        console::table(&titles, rows),
        results.processor,
        results.packets
    )
}
