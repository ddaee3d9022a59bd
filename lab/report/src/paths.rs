//! linerate's own path compared with DPDK's: cache line transfers between cores by part of rings and buffers, and
//! predicted and measured ratios.

use super::figures::lines_of_paths;
use figure::Figure;
use figure::page::table;
use figure::text::{count, escape, number};
use studies::paths::study::{Case, PathResults, Side};

/// The section of the `number`-th result file.
pub(super) fn section(number: usize, results: &PathResults) -> String {
    let figures: String = figures(number, results).iter().map(figure::page::figure).collect();
    format!(
        "<section id=\"paths-{number}\" class=\"simulated\">\n<h2>{}</h2>\n<p>Everything in this part was computed by a simulator, but \
         the column <em>Measured</em>, which enters nothing else. {}, {} packets each, per packet.</p>\n{}{}{figures}</section>\n",
        escape(&heading(results)),
        escape(&results.processor),
        count(results.packets),
        ratios(results),
        threads(results),
    )
}

/// The entry in the navigation list of the page.
pub(super) fn link(number: usize, results: &PathResults) -> String {
    format!("<li><a href=\"#paths-{number}\">{}</a></li>\n", escape(&heading(results)))
}

fn heading(results: &PathResults) -> String {
    format!("linerate's own path, simulated: {}", results.processor)
}

/// One figure per case.
pub(super) fn figures(number: usize, results: &PathResults) -> Vec<Figure> {
    results.paths.iter().filter_map(|case| lines_of_paths(number, results, case)).collect()
}

/// Predicted and measured ratios in one table.
fn ratios(results: &PathResults) -> String {
    let rows = results.paths.iter().map(|case| {
        let measured = results.measured.as_ref().and_then(|measured| measured.ratio(case.ring, case.bytes));
        let shown = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
        let between = measured.and_then(|m| Some(format!("{:.2} to {:.2}", m.low?, m.high?)));
        vec![
            case.ring.name().to_owned(),
            case.bytes.to_string(),
            format!("{:.2}", case.ratio()),
            shown(measured.map(|measured| measured.median)),
            between.unwrap_or_default(),
            measured.map_or_else(String::new, |measured| measured.rounds.to_string()),
        ]
    });
    let table = table(&["Ring", ">Bytes", ">Simulated", ">Measured", ">From and to", ">Rounds"], rows);
    let from = results.measured.as_ref().map_or_else(
        || "Nothing was measured.".to_owned(),
        |measured| {
            let on =
                if measured.processor.is_empty() { "on an unknown processor" } else { &measured.processor };
            format!(
                "Measured: {on}; {} {}; medians of rounds. {}",
                measured.command, measured.date, measured.note
            )
        },
    );
    format!(
        "<h3>linerate's rate over DPDK's, predicted and measured</h3>\n{}<p>{}</p>\n",
        table.replacen("<table>", "<table id=\"table-paths\">", 1),
        escape(&from)
    )
}

fn threads(results: &PathResults) -> String {
    let rows = results.paths.iter().flat_map(|case| {
        [("linerate", &case.linerate), ("DPDK", &case.dpdk)].map(|(name, side)| row(case, name, side))
    });
    let titles = [
        "Ring",
        ">Bytes",
        "Switch",
        ">Mpps",
        ">Lines moved",
        ">Empty looks",
        ">Instructions",
        ">L1 misses",
        ">L2 misses",
        ">RFO cycles",
    ];
    format!("<h3>Each thread</h3>\n<p>Switch / guest.</p>\n{}", table(&titles, rows))
}

fn row(case: &Case, name: &str, side: &Side) -> Vec<String> {
    let each = |read: fn(&studies::results::ThreadRow) -> f64| {
        side.threads.iter().map(|thread| number(read(thread))).collect::<Vec<_>>().join(" / ")
    };
    vec![
        case.ring.name().to_owned(),
        case.bytes.to_string(),
        name.to_owned(),
        number(side.mpps),
        number(side.lines_moved),
        format!("{:.0} % / {:.0} %", side.empty_polls * 100.0, side.guest_empty_polls * 100.0),
        each(|thread| thread.instructions),
        each(|thread| thread.l1_misses),
        each(|thread| thread.l2_misses),
        each(|thread| thread.rfo_cycles),
    ]
}
