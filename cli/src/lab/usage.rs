//! `linerate lab usage`: the studies of how a data path is used, on this machine.

use super::args::LabUsageArgs;
use super::progress::Progress;
use super::trial::{keep, refuse_place};
use crate::show::{self, table};
use crate::trouble::Trouble;
use lab::cache::results::Kind;
use lab::report::{Section, Table, usage_sections};
use lab::usage::budget::BudgetError;
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
    let all = plan.studies.iter().map(|study| study.steps(plan.cpus)).sum();
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
    let sections = usage_sections(results);
    std::iter::once(results.processor.clone())
        .chain(sections.iter().map(section))
        .collect::<Vec<_>>()
        .join("\n\n")
}

fn section(section: &Section) -> String {
    let truth = if section.kind == Kind::Simulated { "simulated" } else { "measured" };
    let heading = format!("{} ({truth}). {}", section.title, section.words.join(" "));
    std::iter::once(heading).chain(section.tables.iter().map(part)).collect::<Vec<_>>().join("\n")
}

fn part(part: &Table) -> String {
    let titles: Vec<String> = part.titles.iter().map(|title| title.to_uppercase()).collect();
    let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
    let shown = table(&titles, part.rows.iter().cloned());
    if part.heading.is_empty() { shown } else { format!("\n{}\n{shown}", part.heading) }
}
