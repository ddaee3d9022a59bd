//! `linerate lab paths`: simulates linerate's data path and DPDK's, and compares them with measurements.

use super::args::LabPathsArgs;
use super::profile;
use super::run::write;
use console::Diagnostic;
use console::progress::Progress;
use console::written::{Format, OutFiles};
use sim::{Deadlock, Profile};
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use studies::parallel::{in_parallel, jobs};
use studies::paths::measured::Measured;
use studies::paths::study::{CASES, Case, PathResults, Side, case};

/// Runs the four cases and prints them.
pub(super) fn run(args: &LabPathsArgs) -> anyhow::Result<()> {
    let profile = profile::find(&args.profile)?;
    let measured =
        args.measured.as_deref().map_or_else(|| Ok(Measured::ours()), |file| read(file).map(Some))?;
    let mut results = PathResults::new(&profile, args.packets, measured);
    let outputs = OutFiles::validate(&args.result.out, &[Format::Json])?;
    console::exit_on_signals("linerate-lab", "lab paths")?;
    results.paths = simulate(args, &profile).map_err(|error| {
        Diagnostic::failed("lab paths", error, "report the profile and the number of packets")
    })?;
    write(&outputs, &results)?;
    console::print(&results, args.result.show.output, table)
}

fn read(file: &Path) -> Result<Measured, Diagnostic> {
    let name = format!("--measured {}", file.display());
    let remedy = "name a file with the output of `cargo xtask bench peers -o json`";
    let bytes = fs::read(file).map_err(|error| Diagnostic::bad(&name, error, remedy))?;
    Measured::parse(&bytes).map_err(|error| Diagnostic::bad(&name, error, remedy))
}

/// Runs all cases, `--jobs` at a time. Returns them in order.
fn simulate(args: &LabPathsArgs, profile: &Profile) -> Result<Vec<Case>, Deadlock> {
    let jobs = jobs(args.jobs);
    let mut progress = Progress::new("experiments", CASES.len(), jobs.get());
    let mut done = Vec::new();
    let one = |one: &_| case(profile, *one, args.packets, args.changes);
    in_parallel(jobs, &CASES, &AtomicBool::new(false), one, |place, result| {
        let name = format!("{} {} B", CASES[place].0.name(), CASES[place].1);
        match result {
            None => progress.began(&name),
            Some(result) => {
                progress.ended(&name);
                done.push((place, result));
            }
        }
        ControlFlow::Continue(())
    });
    progress.end();
    done.sort_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, result)| result).collect()
}

fn table(results: &PathResults) -> String {
    let parts = results.paths.iter().map(|case| {
        let title = format!(
            "{} {} B, lines taken from the other core, per packet (read, owned, raised):",
            case.ring.name(),
            case.bytes
        );
        if case.changes.is_empty() {
            return format!("{title}\n{}", parts(case));
        }
        format!("{title}\n{}\n\nlinerate with one design alternative:\n{}", parts(case), changes(case))
    });
    std::iter::once(rates(results)).chain(parts).collect::<Vec<_>>().join("\n\n")
}

fn rates(results: &PathResults) -> String {
    let rows = results.paths.iter().flat_map(|case| {
        let measured = results.measured.as_ref().and_then(|measured| measured.ratio(case.ring, case.bytes));
        let last = [
            format!("{:.2}", case.ratio()),
            measured.map_or_else(|| "-".to_owned(), |m| format!("{:.2}", m.median)),
        ];
        let ours = row(case, "linerate", &case.linerate, last);
        [ours, row(case, "DPDK", &case.dpdk, [String::new(), String::new()])]
    });
    let titles = [
        "RING",
        ">BYTES",
        "SWITCH",
        ">MPPS",
        ">LINES MOVED",
        ">RFO CYCLES",
        ">L1 MISSES",
        ">L2 MISSES",
        ">EMPTY",
        ">GUEST RFO CYCLES",
        ">GUEST L1",
        ">GUEST L2",
        ">RATIO",
        ">MEASURED",
    ];
    let measured = results.measured.as_ref().map_or_else(
        || "there are no measured results".to_owned(),
        |measured| {
            let on = if measured.processor.is_empty() { "unknown processor" } else { &measured.processor };
            format!("MEASURED: {}, {} ({})", on, measured.command, measured.date)
        },
    );
    format!(
        "{}\n\nsimulated: {}, {} packets each, per packet; RATIO: linerate over DPDK, simulated\n{measured}",
        console::table(&titles, rows),
        results.processor,
        results.packets
    )
}

fn row(case: &Case, name: &str, side: &Side, [ratio, measured]: [String; 2]) -> Vec<String> {
    let cells = |thread: &str| {
        side.thread(thread).map_or_else(<[String; 3]>::default, |row| {
            [row.rfo_cycles, row.l1_misses, row.l2_misses].map(|value| format!("{value:.2}"))
        })
    };
    let ([rfo, l1, l2], [guest_rfo, guest_l1, guest_l2]) = (cells("switch"), cells("guest"));
    let empty = format!("{:.0} %", side.empty_polls * 100.0);
    let (mpps, lines) = (format!("{:.2}", side.mpps), format!("{:.2}", side.lines_moved));
    let case = [case.ring.name().to_owned(), case.bytes.to_string(), name.to_owned()];
    let rest = [mpps, lines, rfo, l1, l2, empty, guest_rfo, guest_l1, guest_l2, ratio, measured];
    case.into_iter().chain(rest).collect()
}

fn parts(case: &Case) -> String {
    let shown =
        |taken: studies::paths::Taken| format!("{:.3} {:.3} {:.3}", taken.read, taken.owned, taken.raised);
    let rows = case.parts().into_iter().map(|(way, part, [a, b], [c, d])| {
        let cells = [a, b, c, d].map(shown);
        [way, part].into_iter().chain(cells).collect()
    });
    console::table(&["WAY", "PART", "LINERATE: SWITCH", "GUEST", "DPDK: SWITCH", "GUEST"], rows)
}

fn changes(case: &Case) -> String {
    let rows = case.changes.iter().map(|changed| {
        vec![
            changed.change.title().to_owned(),
            format!("{:.2}", changed.side.lines_moved),
            format!("{:+.2}", changed.side.lines_moved - case.linerate.lines_moved),
            format!("{:.2}", changed.side.mpps),
            format!("{:.3}", changed.side.mpps / case.linerate.mpps),
        ]
    });
    console::table(&["ALTERNATIVE", ">LINES MOVED", ">MORE", ">MPPS", ">RATIO"], rows)
}
