//! `linerate lab usage`: studies of data-path usage, on this machine.
//!
//! All input is validated first. Then each reading is stored as it is taken; the same command resumes with the
//! missing ones.

use super::args::LabUsageArgs;
use super::comparison::Comparison;
use super::run::{unwritten, write};
use console::progress::Progress;
use console::stop_on_signals;
use console::table;
use console::written::{Format, OutFiles};
use console::{CheckpointArgs, Diagnostic};
use figure::text::plain;
use measure::Kind;
use measure::store::{Store, StoreError};
use report::{Section, Table, usage_page, usage_provenance, usage_sections};
use rfc2544::CpuSet;
use rfc2544::environment;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use studies::usage::budget::BudgetError;
use studies::usage::{Plan, Results, Study, Watch, measure};

/// Takes the missing readings, stores them and prints all.
pub(super) fn run(args: &LabUsageArgs) -> anyhow::Result<()> {
    let plan = plan(args)?;
    plan.validate().map_err(|error| failed(&error))?;
    let [switch, generator] = plan.cpus.map(Some);
    let outputs = OutFiles::validate(&args.study.result.out, &[Format::Json, Format::Html, Format::Svg])?;
    args.study.keep.validate()?;
    let here = environment::here(CpuSet { switch, generator, guest: None });
    // Nothing has run yet, so an unwritable file is invalid input.
    let refused = |error: StoreError| unwritten(&args.study.keep, &error).as_bad_input();
    let (store, mut results) = Store::resume(args.study.keep.path(), plan.empty(here)).map_err(refused)?;
    let ended = run_missing(&plan, &mut results, store)?;
    if !usage_sections(&results).is_empty() {
        output(args, &results, &outputs)?;
    }
    ended.map_or(Ok(()), |end| Err(diagnostic(end, &args.study.keep).into()))
}

/// Prints the results and writes the requested figures.
fn output(args: &LabUsageArgs, results: &Results, outputs: &OutFiles) -> anyhow::Result<()> {
    console::print(results, args.study.result.show.output, |results| plain(&text(results)))?;
    write(outputs, results)?;
    outputs.write(Format::Html, || usage_page(results))?;
    let figures = || usage_sections(results).into_iter().flat_map(|section| section.figures);
    Ok(outputs.figures(|| figures().collect())?)
}

/// Why readings are missing.
enum End {
    /// A signal arrived after this many readings.
    Stopped(usize),
    Unwritten(StoreError),
    Failed(BudgetError),
}

/// Shows the progress, stores readings, and stops on a signal.
struct Watcher {
    progress: Progress,
    /// Number of readings taken, and of all.
    done: usize,
    of: usize,
    store: Store<Results>,
    stop: Arc<AtomicBool>,
    unwritten: Option<StoreError>,
}

impl Watch for Watcher {
    fn step(&mut self, done: usize, of: usize, next: &str) -> ControlFlow<()> {
        (self.done, self.of) = (done, of);
        self.progress.at(done, of, next);
        if self.stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn keep(&mut self, results: &Results) -> ControlFlow<()> {
        if let Err(error) = self.store.replace(results) {
            self.unwritten = Some(error);
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}

/// Takes the missing readings. Returns why it ended early, if it did.
fn run_missing(plan: &Plan, results: &mut Results, store: Store<Results>) -> anyhow::Result<Option<End>> {
    let (all, missing) = (plan.studies.len(), plan.missing(results));
    if missing.len() < all {
        console::note(&format!("{} of {all} studies are complete already", all - missing.len()));
    }
    if missing.is_empty() {
        return Ok(None);
    }
    console::note("other load on this machine invalidates the results");
    let (progress, stop) = (Progress::new("readings", 0, 1), stop_on_signals()?);
    let mut comparison = Comparison::new(store.path(), plan.cpus, stop.clone())?;
    let mut watcher = Watcher { progress, done: 0, of: 0, store, stop, unwritten: None };
    let measured = measure(plan, results, &mut watcher, &mut comparison);
    if measured.is_ok() {
        watcher.progress.at(watcher.of, watcher.of, "");
    }
    watcher.progress.end();
    let done = watcher.done;
    Ok(match (measured, watcher.unwritten) {
        (Ok(()), None) => None,
        (_, Some(error)) => Some(End::Unwritten(error)),
        (Err(BudgetError::Ended), None) => Some(End::Stopped(done)),
        (Err(error), None) => Some(End::Failed(error)),
    })
}

fn diagnostic(end: End, keep: &CheckpointArgs) -> Diagnostic {
    match end {
        End::Stopped(done) => keep.interrupted("lab usage", format_args!("{done} readings")),
        End::Unwritten(error) => unwritten(keep, &error),
        End::Failed(error) => failed(&error),
    }
}

fn plan(args: &LabUsageArgs) -> Result<Plan, Diagnostic> {
    let studies = args.study.studies(&Study::ALL, Study::name)?;
    let [one, other] = args.study.cpus()?;
    if one == other {
        let reason = "both sides would share a CPU, and each wait for the other";
        return Err(Diagnostic::bad("--cpus", reason, "give two different ones, such as 0,1"));
    }
    Ok(Plan { studies, cpus: [one, other], length: args.duration.0 })
}

fn failed(error: &BudgetError) -> Diagnostic {
    match error {
        BudgetError::Cpu(why) => Diagnostic::bad("--cpus", why, "name two CPUs that this process may use"),
        _ => Diagnostic::failed("lab usage", error, "free memory or descriptors, and try again"),
    }
}

/// All sections, after their provenance.
pub(super) fn text(results: &Results) -> String {
    sections(usage_provenance(results), &usage_sections(results))
}

/// Sections as text, after a first line.
pub(super) fn sections(first: String, sections: &[Section]) -> String {
    std::iter::once(first).chain(sections.iter().map(section)).collect::<Vec<_>>().join("\n\n")
}

fn section(section: &Section) -> String {
    let truth = if section.kind == Kind::Simulated { "simulated" } else { "measured" };
    let heading = format!("{} ({truth}). {}", section.title, section.text.join(" "));
    std::iter::once(heading).chain(section.tables.iter().map(part)).collect::<Vec<_>>().join("\n")
}

fn part(part: &Table) -> String {
    let titles: Vec<String> = part.titles.iter().map(|title| title.to_uppercase()).collect();
    let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
    let shown = table(&titles, part.rows.iter().cloned());
    if part.heading.is_empty() { shown } else { format!("\n{}\n{shown}", part.heading) }
}
