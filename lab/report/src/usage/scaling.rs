//! Sections on queues and workers.

use super::{Section, Table};
use figure::Figure;
use figure::bars::{Bar, Bars, bars};
use figure::plot::{Axes, Line, Point, plot};
use figure::text::number;
use measure::Kind;
use sim::Profile;
use studies::usage::Results;
use studies::usage::scaling::{Distribution, measured, simulated};

/// The section of measured results. Returns `None` if the study was not run.
pub(super) fn measured(results: &Results) -> Option<Section> {
    let rows = &results.scaling;
    if rows.is_empty() {
        return None;
    }
    let text = "Frames of many flows are in memory and are distributed over the port's queues by their hash; there is no \
                generator, so each worker has a CPU of its own. A worker whose queues are empty has no share.";
    let figure = measured_figure(rows, &format!("Measured: {}", results.processor));
    Some(Section {
        id: "scaling",
        title: "Queues and workers".to_owned(),
        kind: Kind::Real,
        text: vec![text.to_owned()],
        tables: vec![measured_table(rows)],
        figures: figure.into_iter().collect(),
    })
}

fn list<T>(values: &[T], shown: impl Fn(&T) -> String) -> String {
    values.iter().map(shown).collect::<Vec<_>>().join(" ")
}

fn measured_table(rows: &[measured::Row]) -> Table {
    let titles = ["Distribution", ">Workers", "CPUs", ">Queues", ">Mpps", ">Over one", "Shares %", ">Lost"];
    let one = |row: &measured::Row| {
        let same =
            |other: &&measured::Row| (other.way, other.queues, other.cpus.len()) == (row.way, row.queues, 1);
        rows.iter().find(same).map_or(f64::NAN, |one| row.pps / one.pps)
    };
    let line = |row: &measured::Row| {
        vec![
            row.way.title().to_owned(),
            row.cpus.len().to_string(),
            list(&row.cpus, ToString::to_string),
            row.queues.to_string(),
            format!("{:.3}", row.pps / 1e6),
            format!("{:.2}", one(row)),
            list(&row.shares, |share| format!("{:.0}", share * 100.0)),
            row.lost.to_string(),
        ]
    };
    Table::new("", &titles, rows.iter().map(line))
}

/// The section of simulated results. Returns `None` if the study was not run.
pub(super) fn simulated(results: &Results) -> Option<Section> {
    let rows = &results.scaling_simulated;
    if rows.is_empty() {
        return None;
    }
    let profile = Profile::study();
    let text = format!(
        "Simulated threads on {} at {} GHz. With queues no two workers share a line, so the program does not limit scaling; \
         limits of network cards, buses and memory are not simulated. With one queue the worker that polls it does nothing but \
         hand packets to the others.",
        profile.name, profile.frequency.value
    );
    let from = format!("Simulated: {}, {} packets for each worker", profile.name, simulated::PACKETS);
    Some(Section {
        id: "scaling-simulated",
        title: "Queues and workers".to_owned(),
        kind: Kind::Simulated,
        text: vec![text],
        tables: vec![simulated_table(rows)],
        figures: simulated_figure(rows, &from).into_iter().collect(),
    })
}

fn simulated_table(rows: &[simulated::Row]) -> Table {
    let titles = [
        ">Workers",
        "Distribution",
        ">Packets a 1000 cycles",
        ">Over one",
        ">Mpps",
        ">Lines moved",
        ">Waited",
        ">Refills",
        ">Spills",
        ">Failed exchanges",
    ];
    let one = |way: Distribution| rows.iter().find(|row| (row.way, row.workers) == (way, 1));
    let line = |row: &simulated::Row| {
        let outcome = &row.outcome;
        let over = one(row.way).map_or(f64::NAN, |one| outcome.per_kilocycle() / one.outcome.per_kilocycle());
        let pool = outcome.pool_sum();
        let mut cells = vec![row.workers.to_string(), row.way.title().to_owned()];
        cells.push(format!("{:.2}", outcome.per_kilocycle()));
        cells.push(format!("{over:.2}"));
        cells.push(format!("{:.2}", outcome.mpps));
        cells.push(format!("{:.2}", outcome.lines_moved()));
        cells.push(format!("{:.0}", outcome.waited));
        let each = |n: u64| format!("{:.1}", n as f64 * 1e3 / outcome.packets as f64);
        cells.extend([pool.refills, pool.spills, pool.retries].map(each));
        cells
    };
    Table::new(
        "Lines and cycles waited a packet; refills, spills and failed exchanges of the pool a thousand packets",
        &titles,
        rows.iter().map(line),
    )
}

fn measured_figure(rows: &[measured::Row], from: &str) -> Option<Figure> {
    let bar = |(n, row): (usize, &measured::Row)| {
        let mpps = row.pps / 1e6;
        let way = if row.way == Distribution::Software { ", software RSS" } else { "" };
        let name = format!("workers {}, queues {}{way}", row.cpus.len(), row.queues);
        let gap = n > 0 && (rows[n - 1].way, rows[n - 1].cpus.len()) != (row.way, row.cpus.len());
        Bar { gap, ..Bar::stacked(name, &["Mpps"], &[mpps], format!("{mpps:.3}")) }
    };
    let bars_of = rows.iter().enumerate().map(bar).collect();
    Some(Figure::new(
        "scaling-measured",
        "Packets a second by workers and queues",
        "Flows are distributed over queues by their hash; each worker has a CPU of its own.",
        bars(&Bars { axis: "Mpps", bars: bars_of, ..Bars::default() })?,
        from,
    ))
}

fn simulated_figure(rows: &[simulated::Row], from: &str) -> Option<Figure> {
    let line = |way: Distribution| {
        let point = |row: &simulated::Row| {
            let y = row.outcome.per_kilocycle();
            let tip = format!("{} workers, {}: {} packets", row.workers, way.title(), number(y));
            Point { x: row.workers as f64, y, interval: None, tip }
        };
        let points = rows.iter().filter(|row| row.way == way).map(point).collect();
        Line { name: way.title().to_owned(), points, aside: false }
    };
    let ticks = simulated::WORKERS.map(|workers| (workers as f64, workers.to_string())).to_vec();
    let axes = Axes { across: "workers", up: "packets a 1000 cycles", ticks, ..Axes::default() };
    Some(Figure::new(
        "scaling-simulated",
        "Packets a thousand cycles by workers",
        "With queues each worker has its own flows; with one queue the worker that polls it hands all packets to the others.",
        plot(&axes, &[Distribution::Queues, Distribution::Software].map(line))?,
        from,
    ))
}
