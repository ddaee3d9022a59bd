//! Section on flow tables by their number of entries.

use super::{Section, Table, decimals, usage_provenance};
use figure::Figure;
use figure::plot::{Axes, Line, Point, place, plot, ticks};
use figure::text::number;
use measure::Kind;
use studies::usage::Results;
use studies::usage::entries::Row;

/// Memory of fewer entries is not distinguished from that of the tables.
const MEMORY_FROM: u32 = 10_000;

/// The section. Returns `None` if the study was not run.
pub(super) fn section(results: &Results) -> Option<Section> {
    let rows = &results.entries;
    if rows.is_empty() {
        return None;
    }
    let text = "An entry for each destination address, packets of 64 bytes to all of them in turn, on one thread. The \
                learning bridge forwards the same packets. The study of Lagopus names 1,000,000 entries as its limit; \
                its cache of heads has 200,000.";
    Some(Section {
        id: "entries",
        title: "Flow entries".to_owned(),
        kind: Kind::Real,
        text: vec![text.to_owned()],
        tables: vec![table(rows)],
        figures: figure(rows, &usage_provenance(results)).into_iter().collect(),
    })
}

fn table(rows: &[Row]) -> Table {
    let titles = [
        ">Entries",
        ">Bridge ns",
        ">Flows ns",
        ">Ratio",
        ">Heads %",
        ">Megaflows %",
        ">Tables %",
        ">Added/s",
        ">Bytes each",
    ];
    let rows = rows.iter().map(|row| {
        let mut cells = vec![row.entries.to_string()];
        cells.extend([row.bridge_ns, row.flows_ns].map(|ns| decimals(ns, 1)));
        cells.push(decimals(row.flows_ns / row.bridge_ns, 2));
        cells.extend(row.found.map(|share| decimals(share * 100.0, 1)));
        cells.push(decimals(row.added_per_second, 0));
        let bytes = if row.entries >= MEMORY_FROM { row.bytes } else { f64::NAN };
        cells.push(decimals(bytes, 0));
        cells
    });
    Table::new("", &titles, rows)
}

fn figure(rows: &[Row], from: &str) -> Option<Figure> {
    let line = |name: &str, aside: bool, of: fn(&Row) -> f64| {
        let point = |(n, row): (usize, &Row)| {
            let (y, entries) = (of(row), row.entries);
            let tip = format!("{name}, {entries} entries: {} ns", number(y));
            Point { x: place(n), y, interval: None, tip }
        };
        Line { name: name.to_owned(), points: rows.iter().enumerate().map(point).collect(), aside }
    };
    let lines =
        [line("flow tables", false, |row| row.flows_ns), line("learning bridge", true, |row| row.bridge_ns)];
    let axes = Axes {
        across: "entries, or stations of the bridge",
        up: "nanoseconds per packet",
        ticks: ticks(rows.iter().map(|row| row.entries.to_string())),
        ..Axes::default()
    };
    Some(Figure::new(
        figure::id(Kind::Real, "entries"),
        "Time per packet by flow entries",
        "Only the rounds of the switch. Dashed: the learning bridge with as many stations.",
        plot(&axes, &lines)?,
        from,
    ))
}
