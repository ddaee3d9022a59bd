//! Tests of the usage studies' page, and of their part of a report.

use super::results;
use crate::{Report, ResultFile, page, usage_page, usage_sections};
use generator::meter::Summary;
use measure::Kind;
use rfc2544::{CpuSet, Environment};
use studies::usage;
use studies::usage::{Study, batching, budget, burst_mismatch, delay, entries};

/// Synthetic results of all usage studies.
pub(super) fn usage_results() -> usage::Results {
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
    let entries = |entries: u32| entries::Row {
        entries,
        bridge_ns: 20.0,
        flows_ns: 24.0,
        added_per_second: 2e5,
        bytes: 257.0,
        found: [0.5, 0.25, 0.25],
    };
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
        entries: entries::ENTRIES.map(entries).to_vec(),
        budget: Some(budget::Budget {
            step_ns: 0.5,
            delays: vec![reading(5.0), reading(50.0)],
            calls: budget::BURSTS.map(call).to_vec(),
            predictions: budget::DELAYS_NS.map(prediction).to_vec(),
        }),
        ..plan.empty(environment)
    }
}

const USAGE_FIGURES: [&str; 8] = [
    "batching-p50",
    "batching-p99",
    "batching-rate",
    "burst-mismatch",
    "budget-delays",
    "budget-calls",
    "budget-predictions",
    "entries",
];

#[test]
fn the_usage_page_has_every_figure_table_and_the_environment() {
    let page = usage_page(&usage_results());
    for name in USAGE_FIGURES {
        assert!(page.contains(&format!("id=\"figure-measured-{name}\"")), "no {name}");
    }
    for table in ["batching-1", "burst-mismatch-1", "budget-1", "budget-2", "budget-3", "entries-1", "where"]
    {
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
    let finished = vec![Study::BurstMismatch, Study::Entries];
    let partial = usage::Results { finished, budget: None, ..usage_results() };
    let page = usage_page(&partial);
    assert_eq!(page.matches("ended before its last reading").count(), 1);
    assert!(!page.contains("budget-calls"));
    let nothing = usage::Results::default();
    assert!(usage_page(&nothing).contains("no results yet") && usage_sections(&nothing).is_empty());
}
