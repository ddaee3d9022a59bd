//! `linerate lab run --memory real` and `counted`, and `lab calibrate`: what needs this machine for itself.
//!
//! A trial is one whole: blocks of every configuration in turn, so nothing of it is kept before its end, and nothing can be
//! added to it later. What cannot run here is told before anything runs.

use super::args::{LabCalibrateArgs, LabRunArgs, MemoryKind};
use crate::show;
use crate::trouble::Trouble;
use indicatif::{ProgressBar, ProgressStyle};
use lab::cache::calibrate::{self, Calibration, profile};
use lab::cache::factors::Named;
use lab::cache::results::{Estimate, Results};
use lab::cache::trial::{self, Plan};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Runs a trial and prints what was asked for.
pub(super) fn run(args: &LabRunArgs, wanted: Vec<Named>) -> anyhow::Result<()> {
    let plan = Plan {
        configurations: possible(args, wanted),
        rounds: args.rounds,
        slice: Duration::from_millis(args.slice),
        seed: args.seed,
        counted: args.memory == MemoryKind::Counted,
    };
    if let Some(path) = &args.out {
        refuse_present(path)?;
    }
    let estimate = trial::estimate(&plan).as_secs();
    show::aside(&format!(
        "at least {estimate} s, with nothing else running if the figures are to mean anything"
    ));
    let bar = bar();
    let mut progress = |done: usize, of: usize, next: &str| watch(&bar, done, of, next);
    let results = trial::run(&plan, &mut progress).map_err(|error| {
        let place = format!("--memory {}", args.memory.kind().name());
        Trouble::bad(
            place,
            error,
            "choose others with --config, or use `--memory simulated`, which runs everywhere",
        )
    })?;
    bar.finish_and_clear();
    if let Some(path) = &args.out {
        keep(path, &serde_json::to_string_pretty(&results)?)?;
    }
    show::print(&results, args.output, table)
}

/// Measures this processor's constants, and prints or keeps a profile of them.
pub(super) fn calibrate(args: &LabCalibrateArgs) -> anyhow::Result<()> {
    if let Some(path) = &args.out {
        refuse_present(path)?;
    }
    let bar = bar();
    let mut progress = |done: usize, of: usize, next: &str| watch(&bar, done, of, next);
    let found = calibrate::run(args.rounds, args.seed, &mut progress)
        .map_err(|error| Trouble::bad("lab calibrate", error, "give more rounds, CPUs or memory"))?;
    bar.finish_and_clear();
    let text = profile::write(&found, &profile::day(SystemTime::now()));
    for doubt in found.implausible() {
        show::aside(&format!("not plausible, so look at it before it is used: {doubt}"));
    }
    match &args.out {
        Some(path) => {
            keep(path, &text)?;
            println!("{}", measured(&found));
        }
        None => print!("{text}"),
    }
    Ok(())
}

/// What was asked for; of `--all` and `--cells` only what this processor can do, and the rest is named.
fn possible(args: &LabRunArgs, wanted: Vec<Named>) -> Vec<Named> {
    if !(args.selection.all || args.selection.cells) {
        return wanted;
    }
    let (can, cannot) = trial::possible(wanted);
    for missing in cannot {
        show::aside(&format!("left out: {missing}"));
    }
    can
}

pub(super) fn bar() -> ProgressBar {
    let bar = ProgressBar::new(0);
    // A template without unknown keys: the only way that it could be refused.
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {eta} {msg}") {
        bar.set_style(style);
    }
    bar
}

pub(super) fn watch(bar: &ProgressBar, done: usize, of: usize, next: &str) {
    bar.set_length(of as u64);
    bar.set_position(done as u64);
    bar.set_message(next.to_owned());
}

pub(super) fn refuse_present(path: &Path) -> Result<(), Trouble> {
    if !path.exists() {
        return Ok(());
    }
    let place = format!("--out {}", path.display());
    Err(Trouble::bad(place, "the file is there, and a trial cannot be added to", "name a new file"))
}

pub(super) fn keep(path: &Path, text: &str) -> anyhow::Result<()> {
    let written = std::fs::File::create_new(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| {
        Trouble::failed(format!("--out {}", path.display()), error, "name a file that you may write").into()
    })
}

fn shown(estimate: Estimate) -> String {
    format!("{:.3} ({:.3} to {:.3})", estimate.median, estimate.low, estimate.high)
}

fn table(results: &Results) -> String {
    let rows = results.rows.iter().map(|row| {
        vec![row.name.clone(), format!("{:.2}", row.mpps), row.ratio.map_or_else(String::new, shown)]
    });
    let mut lines: Vec<String> = vec![show::table(&["NAME", ">MPPS", ">RATIO"], rows)];
    for (row, event) in results.rows.iter().flat_map(|row| row.events.iter().map(move |event| (row, event))) {
        lines
            .push(format!("{} {} {}: {:.3} a packet", row.name, event.thread, event.event, event.per_packet));
    }
    lines.push(format!(
        "\nmeasured: {}, {} packets; ratios to the base of the same block with their 95 % interval",
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
    show::table(&["CONSTANT", ">MEDIAN (95 %)", "UNIT"], rows)
}
