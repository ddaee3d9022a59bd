//! `linerate lab stack`: studies of the TCP/IP stack, on this machine.
//!
//! All input is validated first. Then each reading is stored as it is taken; the same command resumes with the missing
//! ones.

use super::args::LabStackArgs;
use super::run::{unwritten, write};
use super::usage::sections;
use console::progress::Progress;
use console::written::{Format, OutFiles};
use console::{Diagnostic, stop_on_signals};
use figure::text::plain;
use measure::pinning;
use measure::store::{Store, StoreError};
use report::{stack_page, stack_provenance, stack_sections};
use rfc2544::{CpuSet, environment};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use studies::stack::{Cell, Plan, Reading, ReadingError, Results, Study, Watch, measure};

/// Takes the missing readings, stores them and prints all.
pub(super) fn run(args: &LabStackArgs) -> anyhow::Result<()> {
    let plan = plan(args)?;
    let outputs = OutFiles::validate(&args.study.result.out, &[Format::Json, Format::Html, Format::Svg])?;
    args.study.keep.validate()?;
    let [switch, generator] = plan.cpus.map(Some);
    let here = environment::here(CpuSet { switch, generator, guest: None });
    // Nothing has run yet, so an unwritable file is invalid input.
    let refused = |error: StoreError| unwritten(&args.study.keep, &error).as_bad_input();
    let (store, mut results) = Store::resume(args.study.keep.path(), plan.empty(here)).map_err(refused)?;
    let ended = run_missing(args, &plan, &mut results, store)?;
    if !results.readings.is_empty() {
        console::print(&results, args.study.result.show.output, |results| plain(&text(results)))?;
        write(&outputs, &results)?;
        outputs.write(Format::Html, || stack_page(&results))?;
        let figures = || stack_sections(&results).into_iter().flat_map(|section| section.figures);
        outputs.figures(|| figures().collect())?;
    }
    ended.map_or(Ok(()), |error| Err(error.into()))
}

/// Shows the progress, stores readings, and stops on a signal.
struct Watcher {
    progress: Progress,
    done: usize,
    store: Store<Results>,
    stop: Arc<AtomicBool>,
    unwritten: Option<StoreError>,
    failed: Vec<String>,
}

impl Watch for Watcher {
    fn step(&mut self, done: usize, of: usize, next: &Cell) -> ControlFlow<()> {
        if self.stop.load(Ordering::Relaxed) {
            return ControlFlow::Break(());
        }
        self.done = done;
        self.progress.at(done, of, &name(next));
        ControlFlow::Continue(())
    }

    fn keep(&mut self, reading: &Reading) -> ControlFlow<()> {
        self.done += 1;
        match self.store.append(reading) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.unwritten = Some(error);
                ControlFlow::Break(())
            }
        }
    }

    fn failed(&mut self, cell: &Cell, error: &ReadingError) {
        self.failed.push(format!("{}: {error}", name(cell)));
    }
}

fn name(cell: &Cell) -> String {
    format!("{} {} at {} {}", cell.study.name(), cell.variant, cell.at, cell.study.axis())
}

/// Takes the missing readings. Returns why readings are still missing, if they are.
fn run_missing(
    args: &LabStackArgs,
    plan: &Plan,
    results: &mut Results,
    store: Store<Results>,
) -> anyhow::Result<Option<Diagnostic>> {
    let (all, missing) = (plan.all().len(), plan.missing(results).len());
    if missing < all {
        console::note(&format!("{} of {all} readings are complete already", all - missing));
    }
    if missing == 0 {
        return Ok(None);
    }
    console::note("other load on this machine invalidates the results");
    let (progress, stop) = (Progress::new("readings", 0, 1), stop_on_signals()?);
    let mut watcher = Watcher { progress, done: 0, store, stop, unwritten: None, failed: Vec::new() };
    measure(plan, results, &mut watcher);
    watcher.progress.end();
    let Watcher { done, stop, unwritten: error, failed, .. } = watcher;
    if let Some(error) = error {
        return Ok(Some(unwritten(&args.study.keep, &error)));
    }
    if stop.load(Ordering::Relaxed) {
        return Ok(Some(args.study.keep.interrupted("lab stack", format_args!("{done} readings"))));
    }
    let remedy = "leave these studies out with --only, or correct the cause and repeat the command";
    Ok((!failed.is_empty()).then(|| Diagnostic::failed("lab stack", failed.join("; "), remedy)))
}

fn plan(args: &LabStackArgs) -> Result<Plan, Diagnostic> {
    let [server, client] = args.study.cpus()?;
    let allowed = pinning::allowed()
        .map_err(|error| Diagnostic::failed("lab stack", error, "see sched_getaffinity(2)"))?;
    if let Some(cpu) = [server, client].iter().find(|cpu| !allowed.contains(cpu)) {
        let reason = format!("this process may not use CPU {cpu}");
        return Err(Diagnostic::bad("--cpus", reason, format!("choose two of {allowed:?}")));
    }
    let studies = args.study.studies(&Study::ALL, Study::name)?;
    let parallel = studies.iter().find(|study| study.is_parallel());
    if let Some(study) = parallel.filter(|_| server == client) {
        let reason = format!("study {} needs two CPUs", study.name());
        return Err(Diagnostic::bad(
            "--cpus",
            reason,
            "give two different ones, or choose other studies with --only",
        ));
    }
    let (rounds, requests, connections) = (args.rounds, args.requests, args.connections);
    Ok(Plan { studies, cpus: [server, client], rounds, requests, connections })
}

/// All sections, after their provenance.
pub(super) fn text(results: &Results) -> String {
    sections(stack_provenance(results), &stack_sections(results))
}
