//! Sequence of a benchmark: validates everything, reads stored trials, then runs the missing trials.

use super::report;
use super::setup::{self, Job};
use super::trial::{Stop, TestBed};
use crate::args::bench::RunArgs;
use crate::args::bench_options::BenchOptions;
use console::progress::Progress;
use console::written::{Format, OutFiles};
use console::{CheckpointArgs, Diagnostic};
use measure::store::{Store, StoreError};
use rfc2544::checkpoint::{Checkpoint, Header};
use rfc2544::environment;
use rfc2544::page::bench_page;
use rfc2544::{Load, Purpose, Results, Step, TestRun};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Runs the benchmark.
pub(super) fn run(args: &RunArgs) -> anyhow::Result<()> {
    let file = args.file.as_deref().map(read).transpose()?.unwrap_or_default();
    let place =
        args.file.as_ref().map_or_else(|| "the command line".to_owned(), |path| path.display().to_string());
    let outputs = OutFiles::validate(&args.result.out, &[Format::Json, Format::Html])?;
    let mut job = setup::job(&args.options.clone().over(file), &place)?;
    let here = environment::here(job.cpus);
    let header = Header { setup: job.setup.clone(), environment: here, plan: job.plan.clone() };
    let (mut store, Checkpoint { header, mut test_run }) = open(&args.keep, header)?;
    let stopped = trials(&job, &mut test_run, &mut store, &args.keep)?;
    let mut results = Results::of(&test_run, job.setup.clone(), header.environment);
    if let Some(Stop::Failed(error)) = &stopped {
        results.notes.push(format!("it ended early: {}: {}", error.place, error.reason));
    }
    if results.trials > 0 {
        console::print(&results, args.result.show.output, report::text)?;
        outputs.json(&results)?;
        outputs.write(Format::Html, || bench_page(&results))?;
    }
    match stopped {
        None => Ok(()),
        Some(Stop::Asked) => Err(ended(&test_run, &args.keep).into()),
        Some(Stop::Failed(error)) => {
            job.folder.keep();
            Err((*error).into())
        }
    }
}

/// Creates or resumes the checkpoint.
fn open(keep: &CheckpointArgs, header: Header) -> Result<(Store<Checkpoint>, Checkpoint), Diagnostic> {
    keep.validate()?;
    let refused = |error: StoreError| Diagnostic::bad(keep.place(), &error, error.remedy());
    let (rounds, empty) = (header.plan.rounds, Checkpoint::new(header));
    let (mut store, found) = Store::resume(keep.path(), empty).map_err(refused)?;
    if found.header.plan.rounds >= rounds {
        return Ok((store, found));
    }
    let found = found.with_rounds(rounds);
    store.replace(&found).map_err(refused)?;
    Ok((store, found))
}

/// Reads a file of options.
fn read(path: &Path) -> Result<BenchOptions, Diagnostic> {
    let shown = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|e| {
        Diagnostic::bad(
            &shown,
            format!("cannot be read: {e}"),
            "name a readable file of options; the comparisons of the repository are `cargo xtask bench peers` and others",
        )
    })?;
    let options = toml::from_str(&text).map_err(|error| {
        let line = error.span().map(|span| text[..span.start.min(text.len())].split('\n').count());
        let place = line.map_or_else(|| shown.clone(), |line| format!("{shown}:{line}"));
        Diagnostic::bad(
            place,
            error.message(),
            "correct this line; keys are the flags' names with `_` in place of `-`",
        )
    })?;
    match options {
        BenchOptions { switch: Some(_), switch_command: Some(_), .. } => {
            let reason = "`switch` and `switch_command` name two switches";
            Err(Diagnostic::bad(shown, reason, "remove one of the two"))
        }
        BenchOptions { guest: Some(_), guest_command: Some(_), .. } => {
            let reason = "`guest` and `guest_command` name two guests";
            Err(Diagnostic::bad(shown, reason, "remove one of the two"))
        }
        options => Ok(options),
    }
}

/// Runs the missing trials. Returns why it ended early, if it did.
fn trials(
    job: &Job,
    test_run: &mut TestRun,
    store: &mut Store<Checkpoint>,
    keep: &CheckpointArgs,
) -> anyhow::Result<Option<Stop>> {
    let before = test_run.trials().len();
    if before > 0 {
        console::note(&format!("{before} trials are complete already"));
    }
    if test_run.next().is_none() {
        return Ok(None);
    }
    // A second signal ends this process at once; the supervisors then end its children.
    let ending = console::stop_on_signals()?;
    generator::rig::settle();
    let mut progress = Progress::new("trials", test_run.progress().1, 1);
    progress.skip(before);
    let stopped = in_turn(job, test_run, store, keep, &mut progress, ending);
    progress.end();
    Ok(stopped.err())
}

fn in_turn(
    job: &Job,
    test_run: &mut TestRun,
    store: &mut Store<Checkpoint>,
    keep: &CheckpointArgs,
    progress: &mut Progress,
    ending: Arc<AtomicBool>,
) -> Result<(), Stop> {
    let mut testbed = TestBed::start(job, ending)?;
    let remedy = "free disk space; the trials in the file are complete";
    let unwritten = |error: StoreError| Diagnostic::failed(keep.place(), error, remedy);
    while let Some(step) = test_run.next() {
        let name = name(job, &step);
        progress.expect(test_run.progress().1);
        progress.began(&name);
        let seen = testbed.run(&step)?;
        test_run.take(step, seen);
        if let Some(trial) = test_run.trials().last() {
            store.append(trial).map_err(unwritten)?;
        }
        progress.ended(&name);
    }
    Ok(())
}

/// Name of a step in the progress display.
fn name(job: &Job, step: &Step) -> String {
    let what = match step.purpose {
        Purpose::Loopback => "own wire".to_owned(),
        Purpose::Probe => "connectivity".to_owned(),
        Purpose::Throughput => "throughput".to_owned(),
        Purpose::Latency(load) => format!("latency at {load} %"),
        Purpose::Loss(percent) => format!("loss at {percent} %"),
        Purpose::BackToBack => "back-to-back".to_owned(),
    };
    let offer = match step.load {
        Load::Unlimited => String::new(),
        Load::Rate(rate) => format!(", {:.3} Mpps", rate / 1e6),
        Load::Burst(frames) => format!(", {frames} frames"),
    };
    let round = if job.plan.rounds > 1 { format!("round {}, ", step.round + 1) } else { String::new() };
    format!("{round}size {}: {what}{offer}", job.plan.sizes[step.size])
}

fn ended(test_run: &TestRun, keep: &CheckpointArgs) -> Diagnostic {
    let (done, about) = test_run.progress();
    keep.interrupted("linerate bench", format_args!("{done} of about {about} trials"))
}
