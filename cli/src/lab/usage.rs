//! `linerate lab usage`: the studies of how a data path is used, on this machine.

use super::args::LabUsageArgs;
use super::progress::Progress;
use super::trial::{keep, refuse_place};
use crate::show::{self, table};
use crate::trouble::Trouble;
use lab::usage::batching::Row;
use lab::usage::budget::{Budget, BudgetError};
use lab::usage::mistake::{Rest, Stage};
use lab::usage::{Plan, Results, Study, measure};
use std::time::Duration;

/// Runs what was asked for, keeps it and prints it.
pub(super) fn run(args: &LabUsageArgs) -> anyhow::Result<()> {
    let plan = plan(args)?;
    if let Some(path) = &args.out {
        refuse_place(path)?;
    }
    show::aside("nothing else should run meanwhile if the figures are to mean anything");
    let results = shown(&plan).map_err(|error| failed(&error))?;
    if let Some(path) = &args.out {
        keep(path, &serde_json::to_string_pretty(&results)?)?;
    }
    show::print(&results, args.output, text)
}

/// Runs it and shows how far it is.
fn shown(plan: &Plan) -> Result<Results, BudgetError> {
    let all = plan.studies.iter().map(|study| study.steps()).sum();
    let (mut progress, mut begun) = (Progress::new("readings", 0, 1), 0);
    let results = measure(plan, &mut |next| {
        progress.at(begun, all, next);
        begun += 1;
    });
    progress.at(begun, all, "");
    progress.end();
    results
}

fn plan(args: &LabUsageArgs) -> Result<Plan, Trouble> {
    let study = |name: &String| {
        let found = Study::ALL.into_iter().find(|study| study.name() == name);
        let names = Study::ALL.map(Study::name).join(", ");
        found.ok_or_else(|| {
            Trouble::bad(format!("--only {name}"), "there is no such study", format!("choose of: {names}"))
        })
    };
    let mut studies = args.only.iter().map(study).collect::<Result<Vec<_>, _>>()?;
    if studies.is_empty() {
        studies = Study::ALL.to_vec();
    }
    let &[one, other] = args.cpus.as_slice() else {
        let reason = format!("{} CPUs are given", args.cpus.len());
        return Err(Trouble::bad("--cpus", reason, "give two, such as 0,1"));
    };
    if one == other {
        let reason = "both sides would share a CPU, and each wait for the other";
        return Err(Trouble::bad("--cpus", reason, "give two different ones, such as 0,1"));
    }
    studies.sort_unstable();
    studies.dedup();
    Ok(Plan { studies, cpus: [one, other], length: Duration::from_millis(args.slice) })
}

fn failed(error: &BudgetError) -> Trouble {
    match error {
        BudgetError::Cpu(why) => Trouble::bad("--cpus", why, "name two CPUs that this process may use"),
        _ => Trouble::failed("lab usage", error, "close what holds memory or descriptors, and try again"),
    }
}

fn text(results: &Results) -> String {
    let mut parts = vec![format!("{}; everything below was measured.", results.processor)];
    if !results.batching.is_empty() {
        parts.push(format!(
            "Batching twice: sent at once, or from a buffer of N (which copies)\n{}",
            batching(&results.batching)
        ));
    }
    if !results.mistake.is_empty() {
        parts.push(format!("The 144/32 mistake\n{}", mistake(&results.mistake)));
    }
    parts.extend(results.budget.as_ref().map(budget));
    parts.join("\n\n")
}

fn batching(rows: &[Row]) -> String {
    let titles = ["BUFFER", ">LOAD", ">MPPS", ">LOST %", ">P50 NS", ">P99 NS", ">P99.9 NS", ">JITTER NS"];
    table(
        &titles,
        rows.iter().map(|row| {
            let load = row.load.map_or("most".to_owned(), |load| format!("{:.0} %", load * 100.0));
            let buffer = if row.buffer == 0 { "none".to_owned() } else { row.buffer.to_string() };
            let latency = row.latency_ns;
            let mut cells = vec![buffer, load, format!("{:.3}", row.received_pps / 1e6)];
            cells.push(format!("{:.3}", row.loss * 100.0));
            cells.extend([latency.p50, latency.p99, latency.p999].map(|ns| ns.to_string()));
            cells.push(format!("{:.0}", row.jitter_ns));
            cells
        }),
    )
}

fn mistake(stages: &[Stage]) -> String {
    let titles = [">UNIT", ">PORT TAKES", "REST", ">TAKEN", ">SENT", ">LOST", ">MPPS"];
    table(
        &titles,
        stages.iter().map(|stage| {
            let rest = match stage.rest {
                Rest::ThrownAway => "thrown away",
                Rest::OfferedAgain => "offered again",
            };
            vec![
                stage.unit.to_string(),
                stage.most.map_or("all".to_owned(), |most| most.to_string()),
                rest.to_owned(),
                stage.taken.to_string(),
                stage.sent.to_string(),
                stage.lost.to_string(),
                format!("{:.2}", stage.mpps),
            ]
        }),
    )
}

fn budget(budget: &Budget) -> String {
    let delays = budget.delays.iter().map(|read| {
        vec![
            format!("{:.0}", read.asked_ns),
            format!("{:.2}", read.took_ns),
            format!("{:+.2}", read.error_percent),
        ]
    });
    let calls = budget.calls.iter().map(|calls| {
        let costs = [calls.rx_ns, calls.tx_ns, calls.buffered_ns].map(|ns| format!("{ns:.1}"));
        [vec![calls.burst.to_string()], costs.to_vec()].concat()
    });
    let predictions = budget.predictions.iter().map(|row| {
        vec![
            format!("{:.0}", row.delay_ns),
            format!("{:.1}", row.path_ns),
            format!("{:.3}", row.predicted_pps / 1e6),
            format!("{:.3}", row.measured_pps / 1e6),
            format!("{:+.1}", row.error_percent()),
            format!("{:.0}", row.idle * 100.0),
        ]
    });
    let titles = [">WORK NS", ">PATH NS", ">PREDICTED", ">MEASURED MPPS", ">ERROR %", ">IDLE %"];
    format!(
        "Delays (one step is {:.2} ns)\n{}\n\nWhat a packet costs by burst, in nanoseconds, on one thread\n{}\n\n\
         Rates from costs; with much idle time the source was the limit, and the cost is no prediction\n{}",
        budget.step_ns,
        table(&[">ASKED NS", ">TOOK NS", ">ERROR %"], delays),
        table(&[">BURST", ">RX", ">TX", ">TX BUFFERED"], calls),
        table(&titles, predictions),
    )
}
