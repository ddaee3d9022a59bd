//! Pages of arbitrary results.

use super::usage::usage_results;
use super::{results, thread_row};
use crate::{Report, Results, fuzz, page, summary, usage_page};
use generator::meter::Summary;
use measure::store::{encode, parse};
use measure::{Estimate, Kind};
use proptest::prelude::*;
use rfc2544::Environment;
use studies::results::{LineRow, Row};
use studies::usage;
use studies::usage::{batching, budget, burst_mismatch, delay};

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
