//! Sections on execution models by work per packet.

use super::{Section, Table, usage_provenance};
use figure::Figure;
use figure::plot::{Axes, Line, Point, plot};
use figure::text::number;
use measure::Kind;
use studies::usage::Results;
use studies::usage::models::simulated;
use studies::usage::models::simulated::Cores;
use studies::usage::models::{Crossing, Layout, Measure, Row, Simulated, crossings, curve};

/// The sections; empty if the study was not run.
pub(super) fn sections(results: &Results) -> Vec<Section> {
    let Some(models) = &results.models else { return Vec::new() };
    let mut sections = vec![measured(&models.rows, &usage_provenance(results))];
    if !models.simulated.is_empty() {
        sections.push(simulated(&models.simulated));
    }
    sections
}

fn measured(rows: &[Row], from: &str) -> Section {
    let text = [
        "The same bridge with the same work on each packet under each model; frames of 64 bytes, at most one ring of them in \
         flight. Source and sink use one of the two CPUs, so a pipeline does not have three cores of its own here.",
        "Cycles are those of the time-stamp counter. A CPU counts as busy while any thread of the process runs on it, so a polling \
         worker is always busy. Losses are counted. Crossings of curves that are closer than rounds of one of them are due to \
         chance.",
    ];
    Section {
        id: "models",
        title: "Models by work per packet".to_owned(),
        kind: Kind::Real,
        text: text.map(str::to_owned).to_vec(),
        tables: vec![places(), rates(rows), crosses(rows)],
        figures: measured_figures(rows, from),
    }
}

fn simulated(rows: &[Simulated]) -> Section {
    let text = [
        "Guests have cores of their own, and three workers have three pairs of them; an inline switch runs on the core of the \
         sending guest, which is the core that counts for it. Instructions of a packet were counted on linerate's path; the cost \
         of lines is the simulator's.",
        "Cycles are those of the simulated processor, at 3.1 GHz.",
    ];
    Section {
        id: "models-simulated",
        title: "Models with one core per thread".to_owned(),
        kind: Kind::Simulated,
        text: text.map(str::to_owned).to_vec(),
        tables: vec![simulated_rates(rows), simulated_crosses(rows)],
        figures: simulated_figures(rows),
    }
}

fn simulated_rates(rows: &[Simulated]) -> Table {
    let row = |row: &Simulated| {
        let mpps = |pps: f64| format!("{:.3}", pps / 1e6);
        vec![
            row.cores.name().to_owned(),
            row.work_cycles.to_string(),
            format!("{:.0}", row.work_ns),
            mpps(row.pps),
            mpps(row.pps_per_core),
            format!("{:.2}", row.lines_moved),
        ]
    };
    Table::new(
        "Rates",
        &["Model", ">Cycles", ">ns", ">Mpps", ">Mpps a core", ">Lines moved"],
        rows.iter().map(row),
    )
}

fn simulated_crosses(rows: &[Simulated]) -> Table {
    let ns = nanoseconds(rows.iter().map(|row| (row.work_cycles, row.work_ns)));
    let row = |(of, found): ([Cores; 2], [Crossing; 2])| {
        let names = of.map(Cores::name);
        let [whole, each] = found.map(|found| crossing(&found, names, ns));
        vec![names[0].to_owned(), names[1].to_owned(), whole, each]
    };
    Table::new(
        CROSSINGS,
        &["One", "Other", "By rate", "By rate a core"],
        simulated::crossings(rows).into_iter().map(row),
    )
}

const CROSSINGS: &str = "Where curves cross: cycles of work on each packet (nanoseconds)";

/// Nanoseconds per cycle.
fn nanoseconds(mut work: impl Iterator<Item = (u32, f64)>) -> f64 {
    work.find(|(cycles, _)| *cycles > 0).map_or(f64::NAN, |(cycles, ns)| ns / f64::from(cycles))
}

fn places() -> Table {
    let row = |layout: Layout| {
        let [one, other] = layout.places();
        vec![layout.name().to_owned(), one.to_owned(), if other.is_empty() { "-" } else { other }.to_owned()]
    };
    Table::new("CPUs of each model", &["Model", "First CPU", "Second CPU"], Layout::ALL.map(row))
}

fn rates(rows: &[Row]) -> Table {
    let titles = [
        "Model",
        ">Cycles",
        ">ns",
        ">Mpps",
        ">least",
        ">most",
        ">CPUs busy",
        ">Mpps a CPU",
        ">In",
        ">Out",
        ">Lost",
    ];
    let mut sorted: Vec<&Row> = rows.iter().collect();
    sorted.sort_by_key(|row| (row.layout, row.work_cycles));
    let mpps = |pps: f64| format!("{:.3}", pps / 1e6);
    let row = |row: &Row| {
        let mut cells = vec![row.layout.name().to_owned(), row.work_cycles.to_string()];
        cells.push(format!("{:.0}", row.work_ns));
        cells.extend([row.pps, row.least_pps, row.most_pps].map(mpps));
        cells.extend([format!("{:.2}", row.cpus), mpps(row.pps_per_cpu)]);
        cells.extend([row.sent, row.came, row.lost].map(|packets| packets.to_string()));
        cells
    };
    Table::new("Rates: medians over rounds", &titles, sorted.into_iter().map(row))
}

fn crosses(rows: &[Row]) -> Table {
    let ns = nanoseconds(rows.iter().map(|row| (row.work_cycles, row.work_ns)));
    let (whole, each) = (crossings(rows, Measure::Rate), crossings(rows, Measure::RatePerCpu));
    let row = |(of, whole): &([Layout; 2], Crossing)| {
        let names = of.map(Layout::name);
        let each = each.iter().find(|(pair, _)| pair == of).map(|(_, found)| crossing(found, names, ns));
        vec![names[0].to_owned(), names[1].to_owned(), crossing(whole, names, ns), each.unwrap_or_default()]
    };
    Table::new(CROSSINGS, &["One", "Other", "By rate", "By rate a CPU"], whole.iter().map(row))
}

/// Describes which curve leads, and where curves cross.
fn crossing(found: &Crossing, [one, other]: [&str; 2], ns: f64) -> String {
    let Some(first_leads) = found.first_leads else { return "equal".to_owned() };
    let leader = if first_leads { one } else { other };
    if found.at.is_empty() {
        return format!("never: {leader} is ahead");
    }
    let at: Vec<_> = found.at.iter().map(|at| format!("{at:.0} ({:.0})", at * ns)).collect();
    format!("{}; before, {} is ahead", at.join(", "), leader)
}

/// A line's name and points.
type Curve = (&'static str, Vec<(f64, f64)>);

fn measured_figures(rows: &[Row], from: &str) -> Vec<Figure> {
    let curves = |measure| Layout::ALL.map(|layout| (layout.name(), curve(rows, layout, measure)));
    let rate = rates_figure("models-rate", RATE, "Mpps", &curves(Measure::Rate), from);
    let title = "Rate for each busy CPU by work on each packet";
    let per_cpu =
        rates_figure("models-rate-per-cpu", title, "Mpps a CPU", &curves(Measure::RatePerCpu), from);
    rate.into_iter().chain(per_cpu).collect()
}

fn simulated_figures(rows: &[Simulated]) -> Vec<Figure> {
    let curves = |measure| Cores::ALL.map(|cores| (cores.name(), simulated::curve(rows, cores, measure)));
    let from = "Simulated: i9-7940X at 3.1 GHz";
    let rate = rates_figure("models-simulated-rate", RATE, "Mpps", &curves(Measure::Rate), from);
    let (id, title) = ("models-simulated-rate-per-core", "Rate for each core by work on each packet");
    let per_core = rates_figure(id, title, "Mpps a core", &curves(Measure::RatePerCpu), from);
    rate.into_iter().chain(per_core).collect()
}

const RATE: &str = "Rate by work on each packet";

fn rates_figure(id: &str, title: &str, unit: &str, curves: &[Curve], from: &str) -> Option<Figure> {
    let line = |(name, points): &Curve| {
        let point = |&(x, y): &(f64, f64)| {
            let tip = format!("{name}, {x:.0} cycles: {} {unit}", number(y / 1e6));
            Point { x, y: y / 1e6, interval: None, tip }
        };
        Line { name: (*name).to_owned(), points: points.iter().map(point).collect(), aside: false }
    };
    let lines: Vec<Line> = curves.iter().filter(|(_, points)| !points.is_empty()).map(line).collect();
    let across = "work on each packet, cycles";
    let axes = Axes { across, up: unit, ticks: cycle_ticks(&lines), decades: true, ..Axes::default() };
    let caption = "Logarithmic axis. Behind a crossing of two lines, the other model is faster.";
    Some(Figure::new(id, title, caption, plot(&axes, &lines)?, from))
}

/// Ticks at the cycles of the points; labels that would overlap are left out.
fn cycle_ticks(lines: &[Line]) -> Vec<(f64, String)> {
    let points = lines.iter().flat_map(|line| &line.points);
    let mut cycles: Vec<u32> = points.map(|point| point.x as u32).collect();
    cycles.sort_unstable();
    cycles.dedup();
    let room = f64::from(cycles.last().copied().unwrap_or(0)) / 25.0;
    let mut ticks: Vec<(f64, String)> = Vec::new();
    for cycles in cycles {
        let at = f64::from(cycles);
        if ticks.last().is_none_or(|(last, _)| at - last >= room) {
            ticks.push((at, cycles.to_string()));
        }
    }
    ticks
}

#[cfg(test)]
mod tests {
    use super::*;
    use studies::usage::models::Models;

    fn row(layout: Layout, work_cycles: u32, pps: f64) -> Row {
        Row {
            layout,
            work_cycles,
            work_ns: f64::from(work_cycles) / 2.0,
            pps,
            least_pps: pps,
            most_pps: pps,
            cpus: 2.0,
            pps_per_cpu: pps / 2.0,
            sent: 7,
            came: 7,
            lost: 0,
        }
    }

    fn simulated_row(cores: Cores, work_cycles: u32) -> Simulated {
        Simulated { cores, work_cycles, work_ns: 0.0, pps: 1e6, pps_per_core: 1e6, lines_moved: 2.0 }
    }

    fn results() -> Results {
        let rows = vec![
            row(Layout::RunToCompletion, 0, 12e6),
            row(Layout::Inline, 0, 8e6),
            row(Layout::RunToCompletion, 100, 4e6),
            row(Layout::Inline, 100, 6e6),
        ];
        let simulated = Cores::ALL.map(|cores| simulated_row(cores, 0)).to_vec();
        Results { models: Some(Models { rows, simulated }), ..Results::default() }
    }

    #[test]
    fn crossings_have_cycles_nanoseconds_and_the_leading_model() {
        let sections = sections(&results());
        let kinds: Vec<_> = sections.iter().map(|section| section.kind).collect();
        assert_eq!(kinds, [Kind::Real, Kind::Simulated], "in sections of their own");
        let crossings = sections[0].tables.last().unwrap();
        assert_eq!(crossings.rows.len(), 1, "of the two that were run");
        assert_eq!(crossings.rows[0][2], "67 (33); before, run-to-completion is ahead");
        let never = Crossing { at: vec![], first_leads: Some(false) };
        let pair = [Layout::RunToCompletion, Layout::Inline].map(Layout::name);
        assert_eq!(crossing(&never, pair, 0.5), "never: inline is ahead");
        assert_eq!(crossing(&Crossing { at: vec![], first_leads: None }, pair, 0.5), "equal");
    }

    #[test]
    fn each_measure_has_a_figure_with_a_line_for_every_model_that_was_run() {
        let sections = sections(&results());
        let figures = &sections[0].figures;
        assert_eq!(figures.len(), 2);
        for figure in figures {
            assert!(figure.inline().contains("run-to-completion") && figure.inline().contains("inline"));
            assert!(!figure.inline().contains("stages together"), "it was not run");
        }
        assert_eq!(sections[1].figures.len(), 2);
        assert!(super::sections(&Results::default()).is_empty());
    }
}
