//! Tests of whole reports with synthetic results.

use super::*;
use generator::meter::Summary;
use measure::Estimate;
use measure::Kind;
use measure::provenance::Provenance;
use measure::store::{encode, parse};
use rfc2544::{CpuSet, Environment};
use sim::Profile;
use studies::copystudy;
use studies::factors::everything;
use studies::paths::measured::Measured;
use studies::paths::study;
use studies::results::{ConstantRow, EventRow, LineRow, Row, StallCycles, ThreadRow};
use studies::usage;
use studies::usage::{Study, batching, budget, burst_mismatch, delay};

use proptest::prelude::*;

/// Synthetic results of every configuration; throughput decreases with misses.
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
            stalls: StallCycles {
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

/// Synthetic results of the copy study; a variant's cost is proportional to its position in the list.
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
            assert_eq!(figure.file().contains("class=\"whisker\""), number == 3, "{id}");
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
fn a_set_of_copies_without_results_is_marked_as_not_run() {
    let empty = copystudy::Results { rows: Vec::new(), ..copies(Kind::Real) };
    let report = Report::new([]).with_copies([empty]);
    assert!(report.figures().is_empty());
    assert!(page(&report).contains("not run") && summary(&report).contains("not run"));
}

#[test]
fn published_numbers_have_a_field_of_their_own() {
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

/// Synthetic results of all usage studies.
fn usage_results() -> usage::Results {
    let row = |buffer: u16, load: Option<f64>| batching::Row {
        buffer,
        load,
        sent_pps: 1e7,
        received_pps: 9e6,
        loss: 0.1,
        latency_ns: Summary { count: 9, p50: 700 + u64::from(buffer), p99: 90_000, ..Summary::default() },
        jitter_ns: 3.0,
    };
    let loads = || std::iter::once(None).chain(batching::LOADS.map(Some));
    let stage = burst_mismatch::Stage {
        unit: 144,
        most: Some(32),
        rest: burst_mismatch::Rest::Dropped,
        taken: 144,
        sent: 32,
        lost: 112,
        came: 32,
        mpps: 5.5,
    };
    let prediction = |delay_ns: f64| budget::Prediction {
        delay_ns,
        took_ns: delay_ns,
        path_ns: 20.0,
        predicted_pps: 1e9 / (delay_ns + 20.0),
        measured_pps: 9e8 / (delay_ns + 20.0),
        idle: 0.0,
    };
    let reading = |asked_ns: f64| delay::Reading { asked_ns, took_ns: asked_ns - 0.1, error_percent: -0.1 };
    let call = |burst: usize| budget::Calls { burst, rx_ns: 10.0, tx_ns: 12.0, buffered_ns: 14.0 };
    let (switch, generator) = (Some(3), Some(5));
    let environment = Environment {
        processor: "<b>one</b> of mine".to_owned(),
        kernel: "Linux <6>".to_owned(),
        date: "2026-11-22T07:00:00Z".to_owned(),
        command: vec!["linerate".to_owned(), "<script>".to_owned()],
        used: CpuSet { switch, generator, guest: None },
        ..Environment::default()
    };
    let plan = usage::Plan {
        studies: Study::ALL.to_vec(),
        cpus: [3, 5],
        length: std::time::Duration::from_millis(300),
    };
    usage::Results {
        finished: Study::ALL.to_vec(),
        batching: batching::SIZES.into_iter().flat_map(|n| loads().map(move |load| row(n, load))).collect(),
        burst_mismatch: vec![stage],
        budget: Some(budget::Budget {
            step_ns: 0.5,
            delays: vec![reading(5.0), reading(50.0)],
            calls: budget::BURSTS.map(call).to_vec(),
            predictions: budget::DELAYS_NS.map(prediction).to_vec(),
        }),
        ..plan.empty(environment)
    }
}

const USAGE_FIGURES: [&str; 7] = [
    "batching-p50",
    "batching-p99",
    "batching-rate",
    "burst-mismatch",
    "budget-delays",
    "budget-calls",
    "budget-predictions",
];

#[test]
fn the_usage_page_has_every_figure_table_and_the_environment() {
    let page = usage_page(&usage_results());
    for name in USAGE_FIGURES {
        assert!(page.contains(&format!("id=\"figure-measured-{name}\"")), "no {name}");
    }
    for table in ["batching-1", "burst-mismatch-1", "budget-1", "budget-2", "budget-3", "where"] {
        assert!(page.contains(&format!("id=\"table-{table}\"")), "no {table}");
    }
    for said in [
        "Immediate and buffered sending (measured)",
        "measured by the clock; nothing was simulated",
        "&lt;b&gt;one&lt;/b&gt; of mine",
        "Linux &lt;6&gt;",
        "<td>3, 5</td>",
        "300 ms a reading",
        "2026-11-22T07:00:00Z",
        "commit unknown",
    ] {
        assert!(page.contains(said), "no {said}");
    }
    assert_eq!(page.matches("<script").count(), 1);
    assert!(!page.contains("<b>") && !page.contains("ended before") && !page.contains("http://"));
}

#[test]
fn usage_studies_are_parts_of_the_report_equal_to_their_page() {
    let without_budget = usage::Results { budget: None, ..usage_results() };
    let files = [usage_results(), without_budget].map(|results| ResultFile::Usage(Box::new(results)));
    let report = Report::of(
        std::iter::once(ResultFile::Model(Box::new(results(Kind::Simulated, &["base"])))).chain(files),
    );
    let (page, figures) = (page(&report), report.figures());
    for name in USAGE_FIGURES {
        assert!(page.contains(&format!("id=\"figure-2-measured-{name}\"")), "no {name}");
        assert!(figures.iter().any(|figure| figure.id == format!("2-measured-{name}")), "no {name}");
    }
    for id in ["set-2", "set-3", "2-batching", "3-burst-mismatch", "table-2-where", "table-3-batching-1"] {
        assert_eq!(page.matches(&format!("id=\"{id}\"")).count(), 1, "{id}");
    }
    assert!(!page.contains("id=\"3-budget\""));
    let findings = serde_json::to_value(report.findings()).unwrap();
    assert_eq!(findings["usage"][0]["burst_mismatch"][0]["lost"], 112);
    assert_eq!(report.usage().len(), 2);
}

#[test]
fn an_interrupted_usage_study_is_marked_and_a_missing_one_is_absent() {
    let partial = usage::Results { finished: vec![Study::BurstMismatch], budget: None, ..usage_results() };
    let page = usage_page(&partial);
    assert_eq!(page.matches("ended before its last reading").count(), 1);
    assert!(!page.contains("budget-calls"));
    let nothing = usage::Results::default();
    assert!(usage_page(&nothing).contains("no results yet") && usage_sections(&nothing).is_empty());
}

/// A number as an arbitrary file may contain it.
fn hostile() -> impl Strategy<Value = f64> {
    let odd = [0.0, -1.0, f64::NAN, f64::INFINITY, -1e308, 1e308, 5e-324];
    prop_oneof![prop::sample::select(odd.to_vec()), -1e12..1e12_f64]
}

fn hostile_usage() -> impl Strategy<Value = usage::Results> {
    let row =
        (any::<u16>(), prop::option::of(hostile()), prop::array::uniform4(hostile()), any::<[u64; 3]>());
    let row = row.prop_map(|(buffer, load, n, [count, p50, p99])| batching::Row {
        buffer,
        load,
        sent_pps: n[0],
        received_pps: n[1],
        loss: n[2],
        latency_ns: Summary { count, p50, p99, ..Summary::default() },
        jitter_ns: n[3],
    });
    let stage = (any::<(usize, Option<usize>)>(), any::<[u64; 4]>(), hostile());
    let stage = stage.prop_map(|((unit, most), [taken, sent, lost, came], mpps)| burst_mismatch::Stage {
        rest: burst_mismatch::Rest::Retried,
        unit,
        most,
        taken,
        sent,
        lost,
        came,
        mpps,
    });
    let six = || prop::collection::vec(prop::array::uniform6(hostile()), 0..5);
    let strings = (any::<String>(), any::<String>());
    (prop::collection::vec(row, 0..9), prop::collection::vec(stage, 0..4), six(), six(), strings).prop_map(
        |(batching, burst_mismatch, many, more, (processor, kernel))| {
            let delays =
                many.iter().map(|n| delay::Reading { asked_ns: n[0], took_ns: n[1], error_percent: n[2] });
            let calls =
                many.iter().map(|n| budget::Calls { burst: 7, rx_ns: n[3], tx_ns: n[4], buffered_ns: n[5] });
            let predictions = more.iter().map(|n| budget::Prediction {
                delay_ns: n[0],
                took_ns: n[1],
                path_ns: n[2],
                predicted_pps: n[3],
                measured_pps: n[4],
                idle: n[5],
            });
            let budget = budget::Budget {
                step_ns: f64::NAN,
                delays: delays.collect(),
                calls: calls.collect(),
                predictions: predictions.collect(),
            };
            let environment =
                Environment { kernel, command: vec![processor.clone()], ..Environment::default() };
            let budget = Some(budget);
            usage::Results { processor, environment, batching, burst_mismatch, budget, ..usage_results() }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn arbitrary_usage_results_are_drawn(results in hostile_usage()) {
        // Results that the parser would reject are drawn too: page safety does not depend on the parser.
        fuzz::sound(&usage_page(&results));
        fuzz::fuzz_report(&encode(&results).unwrap());
    }
}

/// A number from a file: zero, ordinary or very large.
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn arbitrary_model_results_are_drawn(
        rows in prop::collection::vec(any_row(), 0..8),
        simulated in any::<bool>(),
        processor in any::<String>(),
    ) {
        let memory = if simulated { Kind::Simulated } else { Kind::Real };
        let set = Results { processor, rows, ..results(memory, &["base"]) };
        if let Ok(read) = parse::<Results>(&encode(&set).unwrap()) {
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
