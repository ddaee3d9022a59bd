//! Sequence of a benchmark: validates everything, reads stored trials, then runs the missing trials.

use super::report;
use super::setup::{self, Job};
use super::trial::{Bed, Stop};
use crate::args::bench::RunArgs;
use crate::args::bench_options::BenchOptions;
use console::Diagnostic;
use console::progress::Progress;
use console::written;
use measure::store::{Store, StoreError};
use rfc2544::checkpoint::{Checkpoint, Header};
use rfc2544::environment;
use rfc2544::page::bench_page;
use rfc2544::{Course, Doing, Offer, Results, Step};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Runs the benchmark.
pub(super) fn run(args: &RunArgs) -> anyhow::Result<()> {
    let file = args.file.as_deref().map(read).transpose()?.unwrap_or_default();
    let place =
        args.file.as_ref().map_or_else(|| "the command line".to_owned(), |path| path.display().to_string());
    written::validate(args.html.as_deref(), None)?;
    let mut job = setup::job(&args.options.clone().over(file), &place)?;
    let here = environment::here(job.cpus);
    let header = Header { setup: job.setup.clone(), environment: here, plan: job.plan.clone() };
    let path = args.keep.as_deref();
    let (mut store, Checkpoint { header, mut course }) =
        open(path, args.resume, header).map_err(|error| refused(path, &error))?;
    let stopped = trials(&job, &mut course, &mut store)?;
    let mut results = Results::of(&course, job.setup.clone(), header.environment);
    if let Some(Stop::Failed(error)) = &stopped {
        results.notes.push(format!("it ended early: {}: {}", error.place, error.reason));
    }
    if results.trials > 0 {
        console::print(&results, args.output, report::text)?;
    }
    if let Some(path) = args.html.as_deref().filter(|_| results.trials > 0) {
        written::page(path, &bench_page(&results))?;
    }
    match stopped {
        None => Ok(()),
        Some(Stop::Asked) => Err(ended(&course, path).into()),
        Some(Stop::Failed(error)) => {
            job.folder.keep();
            Err((*error).into())
        }
    }
}

/// Creates or resumes the checkpoint.
fn open(
    path: Option<&Path>,
    resume: bool,
    header: Header,
) -> Result<(Store<Checkpoint>, Checkpoint), StoreError> {
    let (rounds, empty) = (header.plan.rounds, Checkpoint::new(header));
    if !resume {
        return Ok((Store::create(path, &empty)?, empty));
    }
    let (mut store, found) = Store::resume(path, empty)?;
    if found.header.plan.rounds >= rounds {
        return Ok((store, found));
    }
    let found = found.with_rounds(rounds);
    store.replace(&found)?;
    Ok((store, found))
}

fn refused(path: Option<&Path>, error: &StoreError) -> Diagnostic {
    let remedy = match error {
        StoreError::Exists => "add --resume to continue it, or name another file",
        error => error.remedy(),
    };
    Diagnostic::bad(place(path), error, remedy)
}

fn unwritten(path: Option<&Path>, error: &StoreError) -> Diagnostic {
    Diagnostic::failed(place(path), error, "free disk space; the trials in the file are complete")
}

fn place(path: Option<&Path>) -> String {
    path.map_or_else(|| "--keep".to_owned(), |path| format!("--keep {}", path.display()))
}

/// Reads a file of options.
fn read(path: &Path) -> Result<BenchOptions, Diagnostic> {
    let shown = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|e| {
        Diagnostic::bad(
            &shown,
            format!("cannot be read: {e}"),
            "name a file that exists and that you may read",
        )
    })?;
    let options = toml::from_str(&text).map_err(|error| {
        let line = error.span().map(|span| text[..span.start.min(text.len())].split('\n').count());
        let place = line.map_or_else(|| shown.clone(), |line| format!("{shown}:{line}"));
        Diagnostic::bad(place, error.message(), "correct this line; keys are the flags' names")
    })?;
    match options {
        BenchOptions { switch: Some(_), switch_command: Some(_), .. } => {
            let reason = "`switch` and `switch-command` name two switches";
            Err(Diagnostic::bad(shown, reason, "remove one of the two"))
        }
        BenchOptions { guest: Some(_), guest_command: Some(_), .. } => {
            let reason = "`guest` and `guest-command` name two guests";
            Err(Diagnostic::bad(shown, reason, "remove one of the two"))
        }
        options => Ok(options),
    }
}

/// Runs the missing trials. Returns why it ended early, if it did.
fn trials(job: &Job, course: &mut Course, store: &mut Store<Checkpoint>) -> anyhow::Result<Option<Stop>> {
    let before = course.trials().len();
    if before > 0 {
        console::aside(&format!("{before} trials are complete already"));
    }
    if course.next().is_none() {
        return Ok(None);
    }
    let ending = stop_on_signals()?;
    generator::rig::settle();
    let mut progress = Progress::new("trials", course.progress().1, 1);
    progress.skip(before);
    let stopped = in_turn(job, course, store, &mut progress, ending);
    progress.end();
    Ok(stopped.err())
}

/// A flag set by the first signal; the second one ends the process at once, and the supervisors end its children.
fn stop_on_signals() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 1, stop.clone())?;
        signal_hook::flag::register(signal, stop.clone())?;
    }
    Ok(stop)
}

fn in_turn(
    job: &Job,
    course: &mut Course,
    store: &mut Store<Checkpoint>,
    progress: &mut Progress,
    ending: Arc<AtomicBool>,
) -> Result<(), Stop> {
    let mut bed = Bed::start(job, ending)?;
    while let Some(step) = course.next() {
        let name = name(job, &step);
        progress.expect(course.progress().1);
        progress.began(&name);
        let seen = bed.run(&step)?;
        course.take(step, seen);
        if let Some(trial) = course.trials().last() {
            store.append(trial).map_err(|error| unwritten(store.path(), &error))?;
        }
        progress.ended(&name);
    }
    Ok(())
}

/// Name of a step in the progress display.
fn name(job: &Job, step: &Step) -> String {
    let what = match step.doing {
        Doing::Wire => "own wire".to_owned(),
        Doing::Probe => "connectivity".to_owned(),
        Doing::Throughput => "throughput".to_owned(),
        Doing::Latency(load) => format!("latency at {load} %"),
        Doing::Loss(percent) => format!("loss at {percent} %"),
        Doing::BackToBack => "back-to-back".to_owned(),
    };
    let offer = match step.offer {
        Offer::Unlimited => String::new(),
        Offer::Rate(rate) => format!(", {:.3} Mpps", rate / 1e6),
        Offer::Burst(frames) => format!(", {frames} frames"),
    };
    let round = if job.plan.rounds > 1 { format!("round {}, ", step.round + 1) } else { String::new() };
    format!("{round}size {}: {what}{offer}", job.plan.sizes[step.size])
}

fn ended(course: &Course, checkpoint: Option<&Path>) -> Diagnostic {
    let (done, about) = course.progress();
    let reason = format!("ended by a signal after {done} of about {about} trials; the result is partial");
    let remedy = match checkpoint {
        Some(_) => "run the same command with --resume to continue",
        None => "next time use `--keep FILE`, and continue with the same command and --resume",
    };
    Diagnostic::failed("linerate bench", reason, remedy)
}
