//! Figures of caches: misses against throughput, cycles by cause, lines that moved between cores.

use super::{Described, headline};
use crate::Set;
use crate::text::thread;
use figure::bars::{Bar, Bars, Part, bars};
use figure::heat::{Cell, HeatMap, Row as MapRow, heat_map};
use figure::scatter::{Mark, Panel, scatter};
use figure::svg::Key;
use figure::text::number;
use sim::memory::LINE;
use studies::analysis::{Axis, Fit, Level, points};
use studies::results::{LineRow, Row, ThreadRow};

const THREADS: [&str; 3] = ["rx", "guest", "tx"];
/// Configurations with a name beside their marks.
const NAMED: [&str; 5] = ["base", "a", "d", "a+d", "a+b+c+d+e+f"];

/// Misses against throughput: one panel per thread and cache level, one mark per configuration.
pub(super) fn scatter_plot(set: &Set, axis: Axis) -> Option<Described> {
    let fits = set.analysis.fits.iter().filter(|fit| fit.axis == axis);
    let panels: Vec<Panel<'_>> = fits.filter_map(|fit| panel(set, fit)).collect();
    let (name, unit) = match axis {
        Axis::Packet => ("scatter-packet", "per packet"),
        Axis::KiloInstruction => ("scatter-kilo-instruction", "per kilo-instruction"),
    };
    Some(Described {
        name,
        title: format!("Load misses {unit} against throughput"),
        caption: "Each mark is one configuration; rings mark the named ones. The dashed line is throughput as an exponential of misses, by least \
                  squares on its logarithm; R² is the share of the variance of ln throughput that it explains, ρ \
                  Spearman's rank correlation. If one cause moves all threads at once, a fit does not identify the \
                  limiting thread."
            .to_owned(),
        drawing: scatter(&panels)?,
    })
}

fn panel<'a>(set: &'a Set, fit: &'a Fit) -> Option<Panel<'a>> {
    let column = THREADS.iter().position(|name| *name == fit.thread)?;
    let row = Level::ALL.iter().position(|level| *level == fit.level)?;
    let unit = if fit.axis == Axis::Packet { "packet" } else { "kilo-instruction" };
    let mark = |(name, misses, mpps): (&str, f64, f64)| Mark {
        x: misses,
        y: mpps,
        tip: format!("{name}: {} misses, {} Mpps", number(misses), number(mpps)),
        name: NAMED.contains(&name).then(|| if name == NAMED[4] { "all six" } else { name }.to_owned()),
    };
    Some(Panel {
        place: (column, row),
        title: format!("{}, {} misses / {unit}", thread(&fit.thread), fit.level.name()),
        up: "Mpps",
        note: quality(fit),
        shape: &fit.thread,
        marks: points(&set.results, &fit.thread, fit.level, fit.axis).into_iter().map(mark).collect(),
        curve: fit.law.map(|law| Box::new(move |misses| law.at(misses)) as Box<dyn Fn(f64) -> f64>),
    })
}

fn quality(fit: &Fit) -> String {
    let r2 = fit.law.map_or_else(|| "no fit".to_owned(), |law| format!("R² {:.2}", law.r2));
    let rho = fit.spearman.map_or_else(|| "ρ undefined".to_owned(), |rho| format!("ρ {rho:.2}"));
    let law =
        fit.law.map_or_else(String::new, |law| format!("{} e^({} x), ", number(law.scale), number(law.rate)));
    format!("{law}{r2}, {rho}, n {}", fit.points)
}

/// CSS class and name of each cause of waiting, from left to right.
const CAUSES: [(&str, &str); 8] = [
    ("work", "work"),
    ("l2", "L2"),
    ("llc", "LLC"),
    ("core", "other core"),
    ("dram", "DRAM"),
    ("fills", "fill buffers"),
    ("stores", "store buffer"),
    ("spin", "spin"),
];

/// Cycles per packet: three bars per configuration, one segment per cause of waiting.
pub(super) fn cycles(set: &Set) -> Option<Described> {
    let rows: Vec<&Row> = headline(set).into_iter().filter(|row| !row.threads.is_empty()).collect();
    let threads = || rows.iter().flat_map(|row| &row.threads);
    let has_fills = threads().any(|thread| thread.fill_full > 0.0);
    if threads().all(|thread| thread.cycles.max(thread.fill_full) <= 0.0) {
        return None;
    }
    let keys = CAUSES.iter().map(|(class, name)| Key::new(class, name));
    let drawing = bars(&Bars {
        axis: "cycles per packet",
        keys: keys.chain(has_fills.then(|| Key::line("full", "all fill buffers in use"))).collect(),
        bars: rows.iter().flat_map(|row| cycle_bars(row)).collect(),
        ..Bars::default()
    })?;
    let fill = if has_fills {
        "The black mark is the time in which all fill buffers were in use, concurrently with the other causes."
    } else {
        "All fill buffers were in use at no time."
    };
    Some(Described {
        name: "cycles",
        title: "Cycles per packet, by what they were spent on".to_owned(),
        caption: format!(
            "All cycles of a thread, per packet. A cycle counts as waiting only if no instruction could be issued in it; \
             latency hidden behind other work is not shown. Spin is polling for a descriptor that is not there yet: the \
             thread that spins least limits the others. {fill}"
        ),
        drawing,
    })
}

fn cycle_bars(row: &Row) -> Vec<Bar> {
    let bar = |(n, found): (usize, &ThreadRow)| {
        let name = thread(&found.thread);
        let part = |((class, cause), cycles): (&(&str, &str), f64)| {
            let (cycles_of, all) = (number(cycles), number(found.cycles));
            let tip = format!("{}, {name}: {cycles_of} cycles of {cause} in {all}", row.name);
            Part::new(format!("part {class}"), cycles, tip)
        };
        Bar {
            group: if n == 0 { row.name.clone() } else { String::new() },
            name: name.to_owned(),
            parts: CAUSES.iter().zip(causes(found)).map(part).collect(),
            marker: (found.fill_full > 0.0).then_some(found.fill_full),
            label: number(found.cycles),
            gap: n == 0,
            ..Bar::default()
        }
    };
    row.threads.iter().take(3).enumerate().map(bar).collect()
}

/// Cycles by cause; work is the rest of all cycles.
fn causes(thread: &ThreadRow) -> [f64; 8] {
    let stalls = &thread.stalls;
    let waits = [stalls.l2, stalls.llc, stalls.core, stalls.dram, stalls.fills, stalls.stores, stalls.spin];
    let work = (thread.cycles - waits.iter().sum::<f64>()).max(0.0);
    let mut causes = [work; 8];
    causes[1..].copy_from_slice(&waits);
    causes
}

const MAP_WIDTH: f64 = 830.0;
/// Hits per packet of the faintest cell: one packet in a thousand. The darkest cell is one hit per packet.
const FAINT: f64 = 1e-3;
/// Number of lines named under a row.
const WORST: usize = 2;

/// Map of ring cache lines that a core fetched from another core that had modified them: one group of rows per
/// configuration, one row per thread, one cell per line.
pub(super) fn lines(set: &Set) -> Option<Described> {
    let rows: Vec<&Row> = headline(set);
    let end = rows.iter().flat_map(|row| &row.lines).map(|line| line.address / LINE).max()? + 1;
    // A file may contain the largest possible address. About eight ticks, at multiples of a power of two.
    let bytes = end.saturating_mul(LINE);
    let apart = (bytes / 8).next_power_of_two().max(LINE);
    let ticks = (0..=bytes).step_by(apart as usize).map(|at| (at / LINE, at.to_string()));
    let key = |hits: f64| {
        let key = |class| Key { opacity: degree(hits), ..Key::new(class, "") };
        [key("rx"), key("guest"), Key { name: format!("{hits} loads / packet"), ..key("tx") }]
    };
    let drawing = heat_map(&HeatMap {
        across: "address, bytes",
        cell: ((MAP_WIDTH / end as f64).min(14.0), 13.0),
        columns: end,
        ticks: ticks.collect(),
        keys: [0.001, 0.01, 0.1, 1.0].into_iter().flat_map(key).collect(),
        rows: rows.iter().flat_map(|row| map_rows(row)).collect(),
        ..HeatMap::default()
    })?;
    Some(Described {
        name: "lines",
        title: "Lines of the rings that one core had to fetch from another".to_owned(),
        caption: "A cell is one line of 64 bytes, in the order of addresses; a row is a thread. The darker, the more \
                  loads per packet found the line changed by another core (logarithmic, from 1 in 1000 packets to 1 a \
                  packet). Descriptors must change hands once a lap; a dark cell with an index in it is false sharing."
            .to_owned(),
        drawing,
    })
}

fn map_rows(row: &Row) -> Vec<MapRow> {
    let map_row = |(n, class): (usize, &'static str)| {
        let cell = |line: &LineRow| {
            let hits = line.hits_modified[n];
            let (hits_of, at, thread) = (number(hits), line.address, thread(class));
            Cell {
                column: at / LINE,
                class,
                degree: degree(hits),
                tip: format!(
                    "{}, {thread}: {hits_of} hits per packet at byte {at} ({})",
                    row.name, line.name
                ),
                ..Cell::default()
            }
        };
        MapRow {
            group: if n == 0 { row.name.clone() } else { String::new() },
            name: thread(class).to_owned(),
            cells: row.lines.iter().filter(|line| line.hits_modified[n] > 0.0).map(cell).collect(),
            note: if n == 2 { worst(row) } else { String::new() },
        }
    };
    THREADS.into_iter().enumerate().map(map_row).collect()
}

fn degree(hits: f64) -> f64 {
    (0.08 + 0.92 * (hits / FAINT).log10() / -FAINT.log10()).clamp(0.08, 1.0)
}

/// A text with the lines with most hits.
fn worst(row: &Row) -> String {
    let total = |line: &LineRow| line.hits_modified.iter().sum::<f64>();
    let mut lines: Vec<&LineRow> = row.lines.iter().collect();
    lines.sort_by(|a, b| total(b).total_cmp(&total(a)).then(a.address.cmp(&b.address)));
    let sum: f64 = lines.iter().map(|line| total(line)).sum();
    let named = lines.iter().take(WORST).map(|line| format!("{} {}", number(total(line)), short(&line.name)));
    let named: Vec<String> = named.collect();
    format!("{} a packet in all; most: {}", number(sum), named.join("; "))
}

/// A line's name with each ring named once: `rx.last_avail, last_used, desc[0..3]`.
fn short(name: &str) -> String {
    let mut text = String::new();
    let mut ring = "";
    for part in name.split(' ') {
        let (of, field) = part.split_once('.').unwrap_or(("", part));
        text.push_str(if text.is_empty() { "" } else { ", " });
        text.push_str(if of == ring { field } else { part });
        ring = of;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_ring_is_named_once() {
        let name = "rx.desc[255] tx.last_avail tx.last_used tx.desc[0..2]";
        assert_eq!(short(name), "rx.desc[255], tx.last_avail, last_used, desc[0..2]");
    }

    #[test]
    fn shade_of_a_cell_is_limited_at_both_ends() {
        assert!((degree(1.0) - 1.0).abs() < 1e-9 && (degree(1e-3) - 0.08).abs() < 1e-9);
        assert!(degree(5.0) <= 1.0 && degree(1e-9) >= 0.08);
    }
}
