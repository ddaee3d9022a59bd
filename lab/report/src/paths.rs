//! linerate's own path compared with DPDK's: cache line transfers between cores by part of rings and buffers, and
//! predicted and measured ratios.

use super::tables::each_thread;
use figure::Figure;
use figure::bars::{Bar, Bars, Part, bars};
use figure::page::{self, table};
use figure::svg::Key;
use figure::text::{count, number};
use maud::{Markup, html};
use studies::paths::Taken;
use studies::paths::study::{Case, PathResults, Side};

/// The section of the `number`-th result file.
pub(super) fn section(number: usize, results: &PathResults) -> Markup {
    html! {
        section id={ "paths-" (number) } class="simulated" {
            h2 { (heading(results)) }
            p {
                "Everything in this part was computed by a simulator, except the column " em { "Measured" }
                ", which is used for nothing else. " (results.processor) ", " (count(results.packets))
                " packets each, per packet."
            }
            (ratios(results))
            (threads(results))
            (page::figures(&figures(number, results)))
        }
    }
}

/// Heading of the section.
pub(super) fn heading(results: &PathResults) -> String {
    format!("linerate's own path, simulated: {}", results.processor)
}

/// One figure per case.
pub(super) fn figures(number: usize, results: &PathResults) -> Vec<Figure> {
    results.paths.iter().filter_map(|case| lines(number, results, case)).collect()
}

/// Predicted and measured ratios in one table.
fn ratios(results: &PathResults) -> Markup {
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
    let titles = ["Ring", ">Bytes", ">Simulated", ">Measured", ">From and to", ">Rounds"];
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
    html! {
        h3 { "linerate's rate over DPDK's, predicted and measured" }
        (table(Some("table-paths"), &titles, rows))
        p { (from) }
    }
}

fn threads(results: &PathResults) -> Markup {
    let rows = results.paths.iter().flat_map(|case| {
        [("linerate", &case.linerate), ("DPDK", &case.dpdk)].map(|(name, side)| row(case, name, side))
    });
    let titles = [
        "Ring",
        ">Bytes",
        "Switch",
        ">Mpps",
        ">Lines moved",
        ">Empty polls",
        ">Instructions",
        ">L1 misses",
        ">L2 misses",
        ">RFO cycles",
    ];
    html! { h3 { "Each thread" } p { "Switch / guest." } (table(None, &titles, rows)) }
}

fn row(case: &Case, name: &str, side: &Side) -> Vec<String> {
    let each = |read| each_thread(&side.threads, read);
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

/// Parts with fewer lines per packet are left out: one in a thousand packets.
const LEAST: f64 = 1e-3;

/// CSS class, opacity and name of the bars of a part, from the top.
const SIDES: [(&str, f64, &str); 4] = [
    ("rx", 1.0, "linerate, switch"),
    ("guest", 1.0, "linerate, guest"),
    ("rx", 0.45, "DPDK, switch"),
    ("guest", 0.45, "DPDK, guest"),
];

/// The figure of a case: four bars per part of rings and buffers. Returns `None` if no lines move.
fn lines(number: usize, results: &PathResults, case: &Case) -> Option<Figure> {
    let drawing = bars(&Bars {
        axis: "lines a packet",
        keys: SIDES.map(|(class, opacity, name)| Key { opacity, ..Key::new(class, name) }).to_vec(),
        bars: case.parts().into_iter().flat_map(part).collect(),
        ..Bars::default()
    })?;
    let title = format!(
        "Lines that one core took from the other: {} rings, {} bytes (linerate {}, DPDK {} a packet)",
        case.ring.name(),
        case.bytes,
        self::number(case.linerate.lines_moved),
        self::number(case.dpdk.lines_moved)
    );
    let caption = "Upper two bars of each part: linerate; lower two: DPDK. A line counts when a core takes it from \
         the other core's cache: to read it, to write it, or to write a line that it already has. Lines that move between a \
         core and memory are not counted here.";
    let from = format!("Simulated: {}, {} packets each", results.processor, count(results.packets));
    let id = format!("paths-{number}-simulated-{}-{}", case.ring.name(), case.bytes);
    Some(Figure::new(id, title, caption, drawing, &from))
}

/// The bars of a part; empty if it moves fewer lines than [`LEAST`].
fn part((way, part, ours, theirs): (String, String, [Taken; 2], [Taken; 2])) -> Vec<Bar> {
    let counts = [ours, theirs].concat();
    if counts.iter().map(Taken::sum).fold(0.0, f64::max) < LEAST {
        return Vec::new();
    }
    let bar = |(n, (taken, (class, opacity, name))): (usize, (&Taken, (&str, f64, &str)))| {
        let label = number(taken.sum());
        let [read, owned, raised] = [taken.read, taken.owned, taken.raised].map(number);
        let tip = format!("{name}: {label} a packet (read {read}, owned {owned}, raised {raised})");
        Bar {
            group: if n == 0 { format!("{way}: {part}") } else { String::new() },
            parts: vec![Part { opacity, ..Part::new(class, taken.sum(), tip) }],
            label: if taken.sum() >= LEAST { label } else { String::new() },
            gap: n == 0,
            ..Bar::default()
        }
    };
    counts.iter().zip(SIDES).enumerate().map(bar).collect()
}
