//! Figures of thread placement: throughput and cache line transfers.

use figure::groups::{Bar, bars};
use figure::{Figure, Sketch, finish};
use measure::Kind;
use studies::usage::chain::PARTS;
use studies::usage::placement::simulated::Width;
use studies::usage::placement::{measured, simulated};

/// Measured throughput.
pub(crate) fn measured(rows: &[measured::Row], from: &str) -> Option<Figure> {
    let bar = |(n, row): (usize, &measured::Row)| {
        let mpps = row.pps / 1e6;
        let cpus = row.cpus.map(|cpu| cpu.to_string()).join(" ");
        let begins = n > 0 && rows[n - 1].shares() != row.shares();
        let label = format!("{}, CPUs {cpus}", row.pattern);
        Bar { label, parts: vec![mpps], shown: format!("{mpps:.3}"), begins }
    };
    let bars_of: Vec<Bar> = rows.iter().enumerate().map(bar).collect();
    let sketch = Sketch {
        name: "placement",
        title: "Packets a second by pattern of placement".to_owned(),
        caption: "CPUs are those of Rx, Worker and Tx. Lower group, where there is one: the generator shares a CPU with a stage."
            .to_owned(),
        drawing: bars("Mpps", &["Mpps"], &bars_of)?,
    };
    Some(finish(1, Kind::Real, from, sketch).with_id("placement-measured".to_owned()))
}

/// Simulated throughput, for all widths.
pub(crate) fn rates(rows: &[simulated::Row], from: &str) -> Option<Figure> {
    let bar = |(n, row): (usize, &simulated::Row)| {
        let mpps = row.outcome.mpps;
        let begins = n > 0 && rows[n - 1].width != row.width;
        let label = format!("{}, {} cores", row.pattern, row.cores);
        let each = mpps / row.cores as f64;
        Bar { label, parts: vec![mpps], shown: format!("{mpps:.2} ({each:.2} a core)"), begins }
    };
    let bars_of: Vec<Bar> = rows.iter().enumerate().map(bar).collect();
    let widths = Width::ALL.map(Width::title).join("; ");
    let sketch = Sketch {
        name: "placement",
        title: "Packets a second by pattern of placement".to_owned(),
        caption: format!("Groups, from the top: {widths}."),
        drawing: bars("Mpps", &["Mpps"], &bars_of)?,
    };
    Some(finish(1, Kind::Simulated, from, sketch).with_id("placement-simulated".to_owned()))
}

/// Simulated line transfers, with one stage of each kind.
pub(crate) fn lines(rows: &[simulated::Row], from: &str) -> Option<Figure> {
    let rows = rows.iter().filter(|row| row.width == Width::One);
    let bar = |row: &simulated::Row| {
        let parts = row.outcome.moved.clone();
        let shown = format!("{:.2}", row.outcome.lines_moved());
        Bar { label: row.pattern.to_string(), parts, shown, begins: false }
    };
    let bars_of: Vec<Bar> = rows.map(bar).collect();
    let sketch = Sketch {
        name: "placement-lines",
        title: "Lines that one core took from another, a packet".to_owned(),
        caption: "One of each stage. A line counts when a core takes it to read it, to write it, or to write what it had already."
            .to_owned(),
        drawing: bars("lines a packet", &PARTS, &bars_of)?,
    };
    Some(finish(1, Kind::Simulated, from, sketch).with_id("placement-lines-simulated".to_owned()))
}
