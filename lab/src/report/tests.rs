//! Whole reports of made-up results.

use super::*;
use crate::cache::batch::keep;
use crate::cache::copystudy;
use crate::cache::factors::everything;
use crate::cache::made::Made;
use crate::cache::paths::measured::Measured;
use crate::cache::paths::study;
use crate::cache::results::{ConstantRow, Estimate, EventRow, Kind, LineRow, Row, Stalls, ThreadRow};
use crate::cache::simulated::Profile;

use proptest::prelude::*;

/// Results of every configuration whose throughput falls with its misses.
fn results(memory: Kind, names: &[&str]) -> Results {
    let all = everything();
    let wanted = all.iter().filter(|named| names.is_empty() || names.contains(&named.name.as_str()));
    let row = |(n, name): (usize, &String)| {
        let misses = 1.0 + ((n * 7 + 12) % 13) as f64;
        let threads = ["rx", "guest", "tx"].map(|thread| ThreadRow {
            thread: thread.to_owned(),
            cycles: 200.0,
            instructions: 150.0,
            l1_misses: misses,
            l2_misses: misses / 2.0,
            llc_misses: misses / 4.0,
            hits_modified: 1.0,
            rfo_cycles: 20.0,
            rfo_demand: 1.0,
            rfo_ahead: 1.0,
            fill_full: 3.0,
            stalls: Stalls {
                l2: 5.0,
                llc: 10.0,
                core: 60.0,
                dram: 20.0,
                fills: 2.0,
                stores: 3.0,
                spin: 30.0,
            },
        });
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
        made: Made::default(),
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
fn a_full_set_has_every_figure_and_each_says_what_it_is() {
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
fn nothing_of_a_file_becomes_markup_and_nothing_is_asked_of_a_network() {
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

/// A set as hardware counters leave it: no threads' rows, but events.
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
fn hardware_events_are_a_table_and_fits_where_they_were_counted_and_one_line_where_not() {
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
fn what_was_not_run_is_absent_and_said_to_be() {
    let page = page(&Report::new([results(Kind::Simulated, &["base", "a"])]));
    for reason in ["need all 64 combinations", "Synergy needs the base", "not run"] {
        assert!(page.contains(reason), "{reason}");
    }
    assert!(!page.contains("table-shapley") && !page.contains("simulated-synergy"));
}

#[test]
fn a_set_without_results_is_no_reason_to_fail() {
    let mut empty = results(Kind::Real, &[]);
    empty.rows.clear();
    let report = Report::new([empty]);
    assert!(report.figures().is_empty());
    assert!(page(&report).contains("no results yet"));
    assert!(summary(&report).contains("0 configurations"));
}

/// Made-up results of the second study in which every variant costs its place in the list.
fn copies(memory: Kind) -> copystudy::Results {
    let rounds = memory != Kind::Simulated;
    let estimate = |median: f64| Estimate { median, low: median * 0.99, high: median * 1.01 };
    let cell = |(n, variant): (usize, &copystudy::Variant)| {
        let name = variant.name.to_owned();
        copystudy::SIZES.into_iter().flat_map(move |size| {
            let (cost, name) = ((n + 1) as f64 * size as f64, name.clone());
            copystudy::Direction::ALL.map(|direction| copystudy::Row {
                variant: name.clone(),
                direction,
                size,
                cost,
                interval: rounds.then(|| estimate(cost)),
                ratio: (n > 0).then(|| estimate(if n == 1 { 1.0 } else { (n + 1) as f64 })),
            })
        })
    };
    copystudy::Results {
        study: copystudy::Study::Copies,
        memory,
        processor: "<one> of mine".to_owned(),
        unit: "cycles".to_owned(),
        seed: 1,
        constants: Vec::new(),
        rows: copystudy::VARIANTS.iter().enumerate().flat_map(cell).collect(),
        notes: vec!["<img src=x>".to_owned()],
    }
}

#[test]
fn copies_are_sections_behind_with_tables_figures_and_every_order() {
    let sets = [copies(Kind::Simulated), copies(Kind::Real)];
    let report = Report::new([results(Kind::Simulated, &["base"])]).with_copies(sets);
    let (page, figures) = (page(&report), report.figures());
    for (number, memory, said) in [(2, "simulated", "Simulated: "), (3, "measured", "Measured: ")] {
        for name in ["to-guest", "from-guest", "to-guest-warm", "from-guest-warm"] {
            let id = format!("{number}-{memory}-copies-{name}");
            let figure = figures.iter().find(|figure| figure.id == id).unwrap_or_else(|| panic!("no {id}"));
            assert!(figure.inline().contains(said) && page.contains(&format!("id=\"figure-{id}\"")), "{id}");
            let curves = if name.ends_with("warm") { 5 } else { 10 };
            // One in the plot, one beside it.
            assert_eq!(figure.file().matches("<polyline").count(), 2 * curves, "{id}");
            assert_eq!(figure.file().contains("whisker\"/>"), number == 3, "{id}");
        }
        for direction in ["host-to-guest", "guest-to-host", "both-copies"] {
            assert!(page.contains(&format!("id=\"table-copies-{number}-{direction}\"")));
        }
        assert!(page.contains(&format!("id=\"table-orders-{number}\"")));
    }
    assert!(
        !page.contains("<one>") && !page.contains("<img") && page.contains("other node &gt;&gt; same node")
    );
    let findings = serde_json::to_value(report.findings()).unwrap();
    assert_eq!(findings["copies"][0]["orders"].as_array().unwrap().len(), 24);
    assert_eq!(findings["copies"][1]["memory"], "real");
    assert!(summary(&report).contains("edited > read-only") && summary(&report).contains("Measured: <one>"));
}

#[test]
fn a_set_of_copies_without_results_says_that_nothing_was_run() {
    let empty = copystudy::Results { rows: Vec::new(), ..copies(Kind::Real) };
    let report = Report::new([]).with_copies([empty]);
    assert!(report.figures().is_empty());
    assert!(page(&report).contains("not run") && summary(&report).contains("not run"));
}

#[test]
fn published_numbers_stand_apart_in_the_data() {
    let report = Report::new([results(Kind::Simulated, &[])]);
    let findings = serde_json::to_value(report.findings()).unwrap();
    assert_eq!(findings["published"]["numbers"][0]["value"], 13.5);
    assert!(!findings["sets"].to_string().contains("13.5,"));
    assert_eq!(findings["sets"][0]["fits"].as_array().unwrap().len(), 18);
}

#[test]
fn our_own_path_is_a_part_of_the_page_with_measured_ratios_in_a_column_of_their_own() {
    let profile = Profile::study();
    let mut paths = PathResults::new(&profile, 256, Measured::ours());
    paths.paths = vec![study::case(&profile, study::CASES[2], 256, false).unwrap()];
    paths.processor = "<script>alert(1)</script>".to_owned();
    paths.paths[0].linerate.parts[0].part = "<img src=x>".to_owned();
    let read = PathResults::parse(&serde_json::to_vec(&paths).unwrap()).unwrap();
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
    assert!(PathResults::parse(b"{}").is_none());
}

/// A number as a file may have it: nothing, something, or far too much.
fn any_number() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), 1e-12..1e12_f64, Just(1e300)]
}

fn any_row() -> impl Strategy<Value = Row> {
    let name =
        prop_oneof![Just("base".to_owned()), Just("a".to_owned()), Just("a+d".to_owned()), any::<String>()];
    let thread =
        prop_oneof![Just("rx".to_owned()), Just("guest".to_owned()), Just("tx".to_owned()), any::<String>()];
    let rate = prop_oneof![1e-12..1e12_f64, Just(1e300)];
    let numbers = prop::collection::vec(any_number(), 17);
    let line = (any::<u64>(), any::<String>(), any_number());
    (
        name,
        rate.clone(),
        prop::option::of(rate),
        prop::collection::vec((thread, numbers), 0..5),
        prop::option::of(line),
    )
        .prop_map(|(name, mpps, ratio, threads, line)| Row {
            name,
            mpps,
            ratio: ratio.map(|median| Estimate { median, low: median * 0.9, high: median * 1.1 }),
            threads: threads.into_iter().map(|(thread, n)| thread_row(thread, &n)).collect(),
            ..Row { lines: line.into_iter().map(any_line).collect(), ..Row::default() }
        })
}

fn any_line((address, name, hits): (u64, String, f64)) -> LineRow {
    LineRow { address, name, hits_modified: [hits, 0.0, hits] }
}

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
        stalls: Stalls {
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_a_file_holds_a_page_comes_of_it(
        rows in prop::collection::vec(any_row(), 0..8),
        simulated in any::<bool>(),
        processor in any::<String>(),
    ) {
        let memory = if simulated { Kind::Simulated } else { Kind::Real };
        let set = Results { processor, rows, ..results(memory, &["base"]) };
        let bytes = serde_json::to_vec(&set).unwrap();
        if let Ok(read) = keep::parse(&bytes) {
            let report = Report::new([read]);
            let page = page(&report);
            prop_assert!(!page.contains("NaN"));
            prop_assert_eq!(page.matches("<script").count(), 1);
            for figure in report.figures() {
                prop_assert_eq!(figure.file().matches("<svg").count(), 1);
            }
            serde_json::to_vec(&report.findings()).unwrap();
            summary(&report);
        }
    }
}
