//! HTML page of a benchmark: figures, tables and environment.

mod figures;

use crate::{Environment, Figure, Latency, LossRow, Results, SizeResults};
use figure::page::{self, absent, table};
use figure::text::{count, number};
use maud::{Markup, html};

/// The whole page.
pub fn bench_page(results: &Results) -> String {
    let from = provenance(results);
    let figures = figures::all(results, &from);
    let sections = html! {
        section id="figures" class="measured" {
            h2 { (results.setup.topology.name()) ": " (results.setup.switch) }
            p { (from) "." }
            @if !results.whole {
                (absent("This result is partial: the benchmark was ended before its last trial."))
            }
            @if figures.is_empty() { (absent("There are no results yet.")) }
            (page::figures(&figures))
        }
        section id="tables" {
            h2 { "Tables" }
            (throughput(results))
            (latency(results))
            (loss(results))
            (page::notes(&results.notes))
        }
        section id="environment" { h2 { "Environment" } (environment(results)) }
    };
    let links = ["figures", "tables", "environment"].map(|id| (id.to_owned(), id.to_owned()));
    page::document("Benchmark", &links, &sections)
}

/// The environment as rows of name and value; unknown values are empty or marked.
pub fn place(place: &Environment) -> Vec<(&'static str, String)> {
    vec![
        ("Processor", place.processor.clone()),
        ("Usable CPUs", place.cpus.to_string()),
        ("Virtual machine", if place.virtual_machine { "yes" } else { "no" }.to_owned()),
        ("Kernel", place.kernel.clone()),
        ("Governor", place.governor.clone().unwrap_or_else(|| "unknown".to_owned())),
        ("Load at start", place.load.map_or_else(|| "unknown".to_owned(), number)),
        ("Date", place.date.clone()),
        ("linerate", place.build.to_string()),
        ("Command", place.command.join(" ")),
    ]
}

fn provenance(results: &Results) -> String {
    let place = &results.environment;
    let on = if place.processor.is_empty() { "unknown processor" } else { &place.processor };
    format!("Measured: {on}, {} trials of {} s, {}", results.trials, results.plan.trial, place.date)
}

fn bounded(figure: Option<Figure>, times: f64) -> String {
    let shown = |figure: Figure| {
        let (at_least, remark) = (if figure.at_least { "≥ " } else { "" }, figure.suffix());
        let interval = figure
            .interval
            .map(|found| format!(" ({} to {})", number(found.low * times), number(found.high * times)));
        format!("{at_least}{}{}{remark}", number(figure.value * times), interval.unwrap_or_default())
    };
    figure.map_or_else(|| "-".to_owned(), shown)
}

fn throughput(results: &Results) -> Markup {
    let row = |size: &SizeResults| {
        let giga = size.bits(1.0) / 1e9;
        let frames = |figure: Figure| {
            let (at_least, remark) = (if figure.at_least { "≥ " } else { "" }, figure.suffix());
            format!("{at_least}{}{remark}", count(figure.value as u64))
        };
        vec![
            size.size.clone(),
            bounded(size.ndr(), 1e-6),
            bounded(size.ndr(), giga),
            bounded(size.pdr(), 1e-6),
            bounded(size.pdr(), giga),
            size.burst().map_or_else(|| "-".to_owned(), frames),
            size.ceiling_pps.map_or_else(|| "-".to_owned(), |ceiling| number(ceiling / 1e6)),
            size.rounds.len().to_string(),
        ]
    };
    let titles = [
        "Size",
        ">NDR, Mpps",
        ">Gbit/s",
        ">PDR, Mpps",
        ">Gbit/s",
        ">Longest burst",
        ">Ceiling, Mpps",
        ">Rounds",
    ];
    let rows = results.sizes.iter().map(row);
    html! {
        h3 { "Throughput and back-to-back frames" }
        p {
            "PDR may lose " (results.plan.loss * 100.0) " % of the frames; ≥ means that the generator or the ceiling was the limit, \
             and not the switch, or that the search was not finished."
        }
        (table(Some("table-throughput"), &titles, rows))
    }
}

fn latency(results: &Results) -> Markup {
    let micro = |nanoseconds: f64| number(nanoseconds / 1e3);
    let row = |size: &SizeResults, at: &Latency| {
        let mut row = vec![size.size.clone(), number(at.load), number(at.pps / 1e6)];
        row.extend(at.percentiles.map(micro));
        row.extend([at.jitter, at.ipdv].map(micro));
        row.extend(at.baseline.map(|baseline| baseline.map(micro)).unwrap_or_default());
        row.push(number(at.loss * 100.0));
        row
    };
    let of = |size: &SizeResults| size.latency().iter().map(|at| row(size, at)).collect::<Vec<_>>();
    let rows: Vec<_> = results.sizes.iter().flat_map(of).collect();
    if rows.is_empty() {
        return Markup::default();
    }
    let titles = [
        "Size",
        ">% of NDR",
        ">Mpps",
        ">p50",
        ">p90",
        ">p99",
        ">p99.9",
        ">Greatest",
        ">Jitter",
        ">IPDV p99",
        ">Baseline p50",
        ">Baseline p99",
        ">Lost, %",
    ];
    html! { h3 { "Latency, microseconds" } (table(Some("table-latency"), &titles, rows)) }
}

fn loss(results: &Results) -> Markup {
    let of = |size: &SizeResults| {
        let row = |row: LossRow| {
            let short = if row.short { "the generator offered less" } else { "" };
            let numbers = [row.percent, row.offered_pps / 1e6, row.loss * 100.0].map(number);
            std::iter::once(size.size.clone()).chain(numbers).chain([short.to_owned()]).collect()
        };
        size.loss().into_iter().rev().map(row).collect::<Vec<Vec<String>>>()
    };
    let rows: Vec<_> = results.sizes.iter().flat_map(of).collect();
    if rows.is_empty() {
        return Markup::default();
    }
    let titles = ["Size", ">% of ceiling", ">Mpps offered", ">Lost, %", ""];
    html! { h3 { "Loss" } (table(Some("table-loss"), &titles, rows)) }
}

fn environment(results: &Results) -> Markup {
    let environment = &results.environment;
    let cpu = |cpu: Option<usize>| cpu.map_or_else(|| "any".to_owned(), |cpu| cpu.to_string());
    let used = &environment.used;
    let mut rows = place(environment);
    let cpus = [used.generator, used.switch, used.guest].map(cpu).join(", ");
    rows.insert(2, ("CPU of generator, switch, guest", cpus));
    rows.extend([
        ("Switch", results.setup.switch.clone()),
        ("Its version", results.setup.version.clone().unwrap_or_else(|| "unknown".to_owned())),
        ("Its ports", results.setup.switch_ports.join("; ")),
        ("Guest", results.setup.guest.clone().unwrap_or_else(|| "none".to_owned())),
        ("Generator's ports", results.setup.ports.join("; ")),
    ]);
    let rows = rows.into_iter().filter(|(_, value)| !value.is_empty());
    let rows = rows.map(|(name, value)| vec![name.to_owned(), value]);
    table(Some("table-environment"), &["Property", "Value"], rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Environment, Load, Plan, Purpose, Setup, Test, TestRun, TrialCounters};
    use generator::Sizes;

    /// A benchmark of a switch with a capacity of one million frames per second.
    fn results(switch: &str, trials: usize) -> Results {
        let mut test_run = TestRun::new(Plan {
            tests: vec![Test::Throughput, Test::Latency, Test::Loss, Test::BackToBack],
            sizes: vec![Sizes::Fixed(64), Sizes::Named("imix".to_owned())],
            loss: 0.005,
            precision: 0.05,
            trial: 1.0,
            tries: 1,
            agree: 0.5,
            rounds: 1,
            loads: vec![50.0, 100.0],
            ceiling: Some("2Mpps".to_owned()),
        });
        while let Some(step) = test_run.next().filter(|_| test_run.trials().len() < trials) {
            let sent = match step.load {
                Load::Rate(rate) => (rate * step.seconds) as u64,
                Load::Burst(frames) => frames,
                Load::Unlimited => 2_000_000,
            };
            let received = sent.min((1e6 * step.seconds) as u64);
            let delays = matches!(step.purpose, Purpose::Latency(_)).then(|| crate::Delays {
                histogram: vec![(1_000, 90), (5_000, 9), (100_000, 1)],
                latency_ns: generator::meter::Summary {
                    count: 100,
                    p50: 900,
                    p99: 5000,
                    ..Default::default()
                },
                ..Default::default()
            });
            test_run.take(
                step,
                TrialCounters { seconds: step.seconds, sent, received, delays, ..TrialCounters::default() },
            );
        }
        let setup = Setup { switch: switch.to_owned(), ..Setup::default() };
        Results::of(&test_run, setup, Environment::default())
    }

    #[test]
    fn page_has_all_figures_and_no_external_references() {
        let page = bench_page(&results("linerate", usize::MAX));
        for id in ["throughput-frames", "throughput-bits", "latency-0", "histogram-1", "loss"] {
            assert!(page.contains(&format!("id=\"figure-{id}\"")), "no {id}");
        }
        for table in ["throughput", "latency", "loss", "environment"] {
            assert!(page.contains(&format!("id=\"table-{table}\"")), "no {table}");
        }
        assert!(!page.contains("partial") && !page.contains("http://") && !page.contains("NaN"), "{page}");
    }

    #[test]
    fn partial_result_is_drawn_and_text_is_escaped() {
        let page = bench_page(&results("<script>alert(1)</script>", 4));
        assert!(page.contains("≥ 1.00, search not finished"), "{page}");
        assert!(page.contains("This result is partial") && !page.contains("<script>alert"), "{page}");
        assert!(bench_page(&results("x", 0)).contains("There are no results yet"));
    }
}
