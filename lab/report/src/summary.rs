//! Summary of a report as text for a terminal.

use std::fmt::Write as _;

use super::text::{provenance, thread};
use super::{Report, Set, copies};
use figure::text::number;
use studies::analysis::Axis;
use studies::paths::study::PathResults;

/// A few lines per set.
pub fn summary(report: &Report) -> String {
    let copies = report.copies.iter().map(copies::summary);
    let paths = report.paths.iter().map(path);
    report.sets.iter().map(part).chain(copies).chain(paths).collect::<Vec<_>>().join("\n")
}

fn path(results: &PathResults) -> String {
    let mut text = format!("Simulated: {}, linerate's own path beside DPDK's\n", results.processor);
    for case in &results.paths {
        let name = format!("{} {}", case.ring.name(), case.bytes);
        let (ours, theirs) = (case.linerate.lines_moved, case.dpdk.lines_moved);
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "  {name:<12}lines moved {ours:.2} and {theirs:.2} a packet, ratio of rates {:.2}",
            case.ratio()
        );
    }
    text
}

fn part(set: &Set) -> String {
    let mut text = format!("{} ({} configurations)\n", provenance(&set.results), set.results.rows.len());
    let mut line = |name: &str, what: &str| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {name:<12}{what}");
    };
    let way: Vec<String> =
        set.analysis.waterfall.iter().map(|step| format!("{} {}", step.name, number(step.mpps))).collect();
    if !way.is_empty() {
        line("Mpps", &way.join(" -> "));
    }
    for fit in set.analysis.fits.iter().filter(|fit| fit.axis == Axis::Packet) {
        let (Some(law), Some(rho)) = (fit.law, fit.spearman) else { continue };
        let name = format!("{} {}", thread(&fit.thread), fit.level.name());
        line(&name, &format!("misses per packet against throughput: R2 {:.2}, Spearman {rho:.2}", law.r2));
    }
    if let Some(shares) = &set.analysis.shapley {
        let part =
            |part: Option<f64>| part.map_or_else(|| "-".to_owned(), |part| format!("{:.0} %", part * 100.0));
        let shares: Vec<String> =
            shares.iter().map(|share| format!("{} {}", share.letter, part(share.part))).collect();
        line("Shapley", &shares.join(", "));
    }
    text
}
