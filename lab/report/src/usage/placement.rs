//! Sections on stages that share a core.

use super::{Section, Table};
use figure::Figure;
use figure::bars::{Bar, Bars, bars};
use figure::svg::Key;
use measure::Kind;
use sim::Profile;
use studies::usage::Results;
use studies::usage::chain::PARTS;
use studies::usage::placement::simulated::Width;
use studies::usage::placement::{Buffers, measured, simulated};

/// The section of measured results. Returns `None` if the study was not run.
pub(super) fn measured(results: &Results) -> Option<Section> {
    let rows = &results.placement;
    if rows.is_empty() {
        return None;
    }
    let mut text = vec![
        "A switch of one Rx, one Worker and one Tx stage; latency and jitter at half of the throughput. The scheduler alternates \
         threads on one CPU, and they sleep while idle."
            .to_owned(),
    ];
    if rows.iter().any(measured::Row::shares) {
        text.push(
            "This machine has too few CPUs for one per stage and one for the generator: in the first rows the generator has its own, in \
             the others it shares one, so those depend on this machine more than on the pattern."
                .to_owned(),
        );
    }
    let figure = measured_figure(rows, &format!("Measured: {}", results.processor));
    Some(Section {
        id: "placement",
        title: "Placement".to_owned(),
        kind: Kind::Real,
        text,
        tables: vec![rates(rows), pools(rows)],
        figures: figure.into_iter().collect(),
    })
}

fn cpus(row: &measured::Row) -> String {
    row.cpus.map(|cpu| cpu.to_string()).join(" ")
}

fn rates(rows: &[measured::Row]) -> Table {
    let titles = [
        "Pattern",
        "CPUs Rx Worker Tx",
        ">Threads",
        "Generator",
        ">Mpps",
        ">p50 us",
        ">p99 us",
        ">Jitter us",
        ">Lost %",
    ];
    let row = |row: &measured::Row| {
        let us = |ns: f64| format!("{:.1}", ns / 1e3);
        vec![
            row.pattern.to_string(),
            cpus(row),
            row.threads.to_string(),
            format!("CPU {}{}", row.generator, if row.shares() { ", shared" } else { "" }),
            format!("{:.3}", row.pps / 1e6),
            us(row.latency_ns.p50 as f64),
            us(row.latency_ns.p99 as f64),
            us(row.jitter_ns),
            format!("{:.2}", row.loss * 100.0),
        ]
    };
    Table::new("", &titles, rows.iter().map(row))
}

/// Counters of a buffer cache per thousand packets, and totals of empty pools and failed exchanges.
fn buffers(part: &Buffers, packets: u64) -> Vec<String> {
    let each = |n: u64| format!("{:.1}", n as f64 * 1e3 / packets.max(1) as f64);
    let mut cells = [part.hits, part.refills, part.spills].map(each).to_vec();
    cells.extend([part.empty.to_string(), part.retries.to_string()]);
    cells
}

const POOL: [&str; 5] = [">Hits", ">Refills", ">Spills", ">Empty (total)", ">Failed exchanges (total)"];

fn pools(rows: &[measured::Row]) -> Table {
    let titles = [&["Pattern", "CPUs Rx Worker Tx", "Stage", ">Packets"][..], &POOL].concat();
    let lines = |row: &measured::Row| {
        let line = |part: &Buffers| {
            let name = if part.stage.is_empty() { "all".to_owned() } else { part.stage.clone() };
            let mut cells = vec![row.pattern.to_string(), cpus(row), name, row.packets.to_string()];
            cells.extend(buffers(part, row.packets));
            cells
        };
        let sum = Buffers::sum(&row.pool);
        row.pool.iter().chain([&sum]).map(line).collect::<Vec<_>>()
    };
    Table::new("Buffers of the pool per thousand packets, at full load", &titles, rows.iter().flat_map(lines))
}

/// The section of simulated results. Returns `None` if the study was not run.
pub(super) fn simulated(results: &Results) -> Option<Section> {
    let rows = &results.placement_simulated;
    if rows.is_empty() {
        return None;
    }
    let profile = Profile::study();
    let text = format!(
        "The same stages, handoff queues and pool as simulated threads on {} at {} GHz, at full load; an idle thread has a core of its own. \
         Cycles waited are those in which a core of the path was stalled by a line of another core.",
        profile.name, profile.frequency.value
    );
    let from = format!("Simulated: {}, {} packets each", profile.name, simulated::LENGTH.packets);
    let figures = [rates_figure(rows, &from), lines_figure(rows, &from)];
    Some(Section {
        id: "placement-simulated",
        title: "Placement".to_owned(),
        kind: Kind::Simulated,
        text: vec![text, conclusion(rows)],
        tables: vec![simulated_rates(rows), simulated_pools(rows)],
        figures: figures.into_iter().flatten().collect(),
    })
}

/// Compares running Rx and Tx as one thread with the other patterns, in numbers.
fn conclusion(rows: &[simulated::Row]) -> String {
    let sentence = |width: Width| {
        let of = |name: &str| {
            rows.iter()
                .find(|row| row.width == width && row.pattern.name() == name)
                .map(|row| row.outcome.mpps)
        };
        let base = of("separate")?;
        let best = rows.iter().filter(|row| row.width == width);
        let best = best.max_by(|a, b| a.outcome.mpps.total_cmp(&b.outcome.mpps))?;
        let (io, all, quasi) = (of("io")?, of("all")?, of("quasi-io")?);
        Some(format!(
            "{}: Rx and Tx as one thread reach {:.2} of the throughput of separate cores, and {:.2} of that of two threads on one core, \
             which differ only in their caches of buffers; all stages as one thread reach {:.2}; {} is fastest",
            width.title(),
            io / base,
            io / quasi,
            all / base,
            best.pattern
        ))
    };
    let sentences: Vec<String> = Width::ALL.into_iter().filter_map(sentence).collect();
    format!("{}.", sentences.join(". "))
}

/// Column titles of line transfers, in the order of the arena's parts.
const MOVED: [&str; PARTS.len()] = [">Depot", ">Positions", ">Handoff entries", ">Own", ">Ports", ">Packets"];

fn simulated_rates(rows: &[simulated::Row]) -> Table {
    let titles = ["Pattern", "Width", ">Cores", ">Rx", ">Worker", ">Tx", ">Mpps", ">Mpps a core", ">Waited"];
    let titles = [&titles[..], &[">Lines"], &MOVED];
    let row = |row: &simulated::Row| {
        let outcome = &row.outcome;
        let mut cells = vec![row.pattern.to_string(), row.width.title().to_owned(), row.cores.to_string()];
        cells.extend(row.stages.map(|stages| stages.to_string()));
        cells.push(format!("{:.2}", outcome.mpps));
        cells.push(format!("{:.2}", outcome.mpps / row.cores as f64));
        cells.push(format!("{:.0}", outcome.waited));
        cells.push(format!("{:.2}", outcome.lines_moved()));
        cells.extend(outcome.moved.iter().map(|lines| format!("{lines:.2}")));
        cells
    };
    Table::new(
        "Throughput, and lines that move between cores per packet",
        &titles.concat(),
        rows.iter().map(row),
    )
}

fn simulated_pools(rows: &[simulated::Row]) -> Table {
    let titles = [&["Pattern", "Width", "Threads", ">Packets"][..], &POOL].concat();
    let lines = |row: &simulated::Row| {
        let packets = row.outcome.packets;
        let line = |part: &Buffers| {
            let (pattern, width) = (row.pattern.to_string(), row.width.title().to_owned());
            let mut cells = vec![pattern, width, part.stage.clone(), packets.to_string()];
            cells.extend(buffers(part, packets));
            cells
        };
        row.buffers().iter().map(line).collect::<Vec<_>>()
    };
    Table::new("Buffers of the pool per thousand packets", &titles, rows.iter().flat_map(lines))
}

fn measured_figure(rows: &[measured::Row], from: &str) -> Option<Figure> {
    let bar = |(n, row): (usize, &measured::Row)| {
        let mpps = row.pps / 1e6;
        let name = format!("{}, CPUs {}", row.pattern, cpus(row));
        let gap = n > 0 && rows[n - 1].shares() != row.shares();
        Bar { gap, ..Bar::stacked(name, &["Mpps"], &[mpps], format!("{mpps:.3}")) }
    };
    let bars_of = rows.iter().enumerate().map(bar).collect();
    Some(Figure::new(
        "placement-measured",
        "Packets a second by pattern of placement",
        "CPUs are those of Rx, Worker and Tx. Lower group, if any: the generator shares a CPU with a stage.",
        bars(&Bars { axis: "Mpps", bars: bars_of, ..Bars::default() })?,
        from,
    ))
}

fn rates_figure(rows: &[simulated::Row], from: &str) -> Option<Figure> {
    let bar = |(n, row): (usize, &simulated::Row)| {
        let mpps = row.outcome.mpps;
        let name = format!("{}, {} cores", row.pattern, row.cores);
        let label = format!("{mpps:.2} ({:.2} a core)", mpps / row.cores as f64);
        let gap = n > 0 && rows[n - 1].width != row.width;
        Bar { gap, ..Bar::stacked(name, &["Mpps"], &[mpps], label) }
    };
    let bars_of = rows.iter().enumerate().map(bar).collect();
    Some(Figure::new(
        "placement-simulated",
        "Packets a second by pattern of placement",
        format!("Groups, from the top: {}.", Width::ALL.map(Width::title).join("; ")),
        bars(&Bars { axis: "Mpps", bars: bars_of, ..Bars::default() })?,
        from,
    ))
}

fn lines_figure(rows: &[simulated::Row], from: &str) -> Option<Figure> {
    let bar = |row: &simulated::Row| {
        let label = format!("{:.2}", row.outcome.lines_moved());
        Bar::stacked(row.pattern.to_string(), &PARTS, &row.outcome.moved, label)
    };
    let classes = ["k0", "k1", "k2", "k3", "k4", "k5"];
    let drawing = bars(&Bars {
        axis: "lines a packet",
        keys: classes.into_iter().zip(PARTS).map(|(class, name)| Key::new(class, name)).collect(),
        bars: rows.iter().filter(|row| row.width == Width::One).map(bar).collect(),
        ..Bars::default()
    })?;
    Some(Figure::new(
        "placement-lines-simulated",
        "Lines that one core took from another, a packet",
        "One stage of each kind. A line counts if a core takes it to read it, to write it, or to write a copy that it has.",
        drawing,
        from,
    ))
}
