//! Tests of whole reports with synthetic results.

mod arbitrary;
mod copies;
mod stack;
mod usage;

use super::*;
use measure::Kind;
use measure::provenance::Provenance;
use measure::store::{encode, parse};
use sim::Profile;
use studies::factors::everything;
use studies::paths::measured::Measured;
use studies::paths::study;
use studies::results::{ConstantRow, EventRow, LineRow, Row, StallCycles, ThreadRow};

/// Synthetic results of every configuration; throughput decreases with misses.
fn results(memory: Kind, names: &[&str]) -> Results {
    let all = everything();
    let wanted = all.iter().filter(|named| names.is_empty() || names.contains(&named.name.as_str()));
    let row = |(n, name): (usize, &String)| {
        let misses = 1.0 + ((n * 7 + 12) % 13) as f64;
        let n = [
            200.0,
            150.0,
            misses,
            misses / 2.0,
            misses / 4.0,
            1.0,
            20.0,
            1.0,
            1.0,
            3.0,
            5.0,
            10.0,
            60.0,
            20.0,
            3.0,
            30.0,
            2.0,
        ];
        let threads = ["rx", "guest", "tx"].map(|thread| thread_row(thread.to_owned(), &n));
        let line = LineRow { address: 64, name: "rx.last_avail".to_owned(), hits_modified: [0.5, 0.2, 0.0] };
        Row {
            name: name.clone(),
            mpps: 40.0 * (-0.1 * misses).exp(),
            threads: threads.to_vec(),
            lines: vec![line],
            ..Row::default()
        }
    };
    Results {
        memory,
        processor: "a <processor> & \"more\"".to_owned(),
        provenance: Provenance::default(),
        packets: 60_000,
        seed: 1,
        constants: vec![ConstantRow {
            name: "l1.ways".to_owned(),
            value: 8.0,
            source: "</style><script>alert(1)</script>".to_owned(),
            free: true,
        }],
        rows: wanted.map(|named| &named.name).enumerate().map(row).collect(),
        notes: vec!["<img src=x onerror=alert(1)>".to_owned()],
        trial: None,
    }
}

/// A row with these values, in field order, except that those of the fill buffers are last.
fn thread_row(thread: String, n: &[f64]) -> ThreadRow {
    ThreadRow {
        thread,
        cycles: n[0],
        instructions: n[1],
        l1_misses: n[2],
        l2_misses: n[3],
        llc_misses: n[4],
        hits_modified: n[5],
        rfo_cycles: n[6],
        rfo_demand: n[7],
        rfo_ahead: n[8],
        fill_full: n[9],
        stalls: StallCycles {
            l2: n[10],
            llc: n[11],
            core: n[12],
            dram: n[13],
            fills: n[16],
            stores: n[14],
            spin: n[15],
        },
    }
}

const KINDS: [&str; 8] = [
    "scatter-packet",
    "scatter-kilo-instruction",
    "factors",
    "combinations",
    "synergy",
    "waterfall",
    "cycles",
    "lines",
];

#[test]
fn a_full_set_has_every_figure_with_its_kind() {
    let report = Report::new([results(Kind::Simulated, &[]), results(Kind::Real, &[])]);
    let figures = report.figures();
    for (number, memory) in [(1, "simulated"), (2, "measured")] {
        for kind in KINDS {
            let id = format!("{number}-{memory}-{kind}");
            let figure = figures.iter().find(|figure| figure.id == id).unwrap_or_else(|| panic!("no {id}"));
            let said = if number == 1 { "Simulated: " } else { "Measured: " };
            assert!(figure.inline().contains(said), "{id}");
        }
    }
    assert_eq!(figures.len(), 16);
    let page = page(&report);
    assert!(figures.iter().all(|figure| page.contains(&format!("id=\"figure-{}\"", figure.id))));
    for id in ["table-published", "table-shapley", "table-factorial"] {
        assert!(page.contains(&format!("id=\"{id}\"")), "{id}");
    }
}

#[test]
fn text_of_a_file_is_escaped_and_a_page_loads_no_resource() {
    let report = Report::new([results(Kind::Simulated, &[])]);
    let page = page(&report);
    assert_eq!(page.matches("<script").count(), 1);
    assert!(page.contains("Made by linerate unknown (commit unknown, sources unknown)"));
    assert!(!page.contains("<img") && !page.contains("<processor>"));
    assert!(!page.contains("http://") && !page.contains("https://") && !page.contains("url("));
    for figure in report.figures() {
        let file = figure.file();
        assert_eq!(file.matches("http").count(), 1, "{}", figure.id);
        assert!(!file.contains("NaN") && !file.contains("inf"), "{}", figure.id);
    }
}

/// A set from hardware counters: events instead of thread rows.
fn counted() -> Results {
    let mut set = results(Kind::Counted, &[]);
    for row in &mut set.rows {
        let misses = row.threads[1].l1_misses;
        row.threads.clear();
        row.lines.clear();
        let event = |event: &str, per_packet| EventRow {
            thread: "guest".to_owned(),
            event: event.to_owned(),
            per_packet,
        };
        row.events = vec![event("instructions", 150.0), event("L1-dcache-load-misses", misses)];
    }
    set
}

#[test]
fn counted_events_have_a_table_and_fits_and_uncounted_ones_a_note() {
    let report = Report::new([counted()]);
    let page = page(&report);
    assert!(
        page.contains("id=\"table-events\"") && page.contains("<td>L1-dcache-load-misses</td><td>Guest</td>")
    );
    assert!(report.figures().iter().any(|figure| figure.id.ends_with("scatter-packet")));
    let fit = |set: Results| Report::new([set]).sets[0].analysis.fits[3].clone();
    assert_eq!(fit(counted()), fit(results(Kind::Simulated, &[])));
    let timed = Results { rows: Vec::new(), ..results(Kind::Real, &[]) };
    assert_eq!(super::page(&Report::new([timed])).matches("no hardware counters").count(), 1);
}

#[test]
fn each_thread_and_level_has_a_panel_with_its_fit_and_its_rank_correlation() {
    let report = Report::new([results(Kind::Simulated, &[])]);
    let figures = report.figures();
    let figure = figures.iter().find(|figure| figure.id.ends_with("scatter-packet")).unwrap();
    for thread in ["Rx", "Guest", "Tx"] {
        for level in ["L1", "L2", "LLC"] {
            assert!(
                figure.inline().contains(&format!("{thread}, {level} misses / packet")),
                "{thread} {level}"
            );
        }
    }
    assert_eq!(figure.inline().matches("R² ").count(), 9);
    assert_eq!(figure.inline().matches("ρ ").count(), 9);
    assert_eq!(figure.inline().matches("class=\"law\"").count(), 9);
}

#[test]
fn missing_figures_have_a_reason() {
    let page = page(&Report::new([results(Kind::Simulated, &["base", "a"])]));
    for reason in ["need all 64 combinations", "Synergy needs the base", "not run"] {
        assert!(page.contains(reason), "{reason}");
    }
    assert!(!page.contains("table-shapley") && !page.contains("simulated-synergy"));
}

#[test]
fn a_set_without_results_is_a_page() {
    let mut empty = results(Kind::Real, &[]);
    empty.rows.clear();
    let report = Report::new([empty]);
    assert!(report.figures().is_empty());
    assert!(page(&report).contains("no results yet"));
    assert!(summary(&report).contains("0 configurations"));
}

#[test]
fn published_numbers_are_in_a_separate_field() {
    let report = Report::new([results(Kind::Simulated, &[])]);
    let findings = serde_json::to_value(report.findings()).unwrap();
    assert_eq!(findings["published"]["numbers"][0]["value"], 13.5);
    assert!(!findings["sets"].to_string().contains("13.5,"));
    assert_eq!(findings["sets"][0]["fits"].as_array().unwrap().len(), 18);
}

#[test]
fn path_section_has_measured_ratios_in_a_separate_column() {
    let profile = Profile::study();
    let mut paths = PathResults::new(&profile, 256, Measured::ours());
    paths.paths = vec![study::case(&profile, study::CASES[2], 256, false).unwrap()];
    paths.processor = "<script>alert(1)</script>".to_owned();
    paths.paths[0].linerate.parts[0].part = "<img src=x>".to_owned();
    let read: PathResults = parse(&encode(&paths).unwrap()).unwrap();
    assert_eq!(read, paths);
    let report = Report::new([]).with_paths(vec![read]);
    let page = page(&report);
    assert!(
        page.contains("id=\"table-paths\"") && page.contains("id=\"figure-paths-1-simulated-packed-64\"")
    );
    assert!(page.contains("<td class=\"n\">1.17</td>"), "the measured median of packed rings at 64 bytes");
    assert_eq!(page.matches("<script").count(), 1);
    assert!(!page.contains("<img"));
    assert!(summary(&report).contains("packed 64"));
}
