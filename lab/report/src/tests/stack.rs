//! Tests of the page of the stack's studies, and of their part of a report.

use super::results;
use crate::{Report, ResultFile, page, stack_page, stack_sections};
use measure::Kind;
use rfc2544::Environment;
use studies::stack::{Cell, Reading, Results, Study};

/// Synthetic results of all studies: each variant has a value of its own, and `reference` is cheaper for large bodies
/// only.
fn stack_results() -> Results {
    let reading = |cell: &Cell, round: u32| {
        let place =
            cell.study.variants().iter().position(|variant| *variant == cell.variant).unwrap_or_default();
        let value = if cell.variant == "reference" && cell.at > 1_000 { 0.5 } else { 1.0 + place as f64 };
        let distance_ns = cell.study.is_parallel().then_some(40.0);
        let more = cell.study.more().iter().map(|_| 0.25).collect();
        Reading {
            study: cell.study,
            variant: cell.variant.to_owned(),
            at: cell.at,
            round,
            value,
            more,
            distance_ns,
        }
    };
    let cells = Study::ALL.into_iter().flat_map(|study| study.cells(u64::MAX));
    let readings = cells.flat_map(|cell| [1, 2].map(|round| reading(&cell, round))).collect();
    let processor = "<b>one</b>".to_owned();
    Results { processor, environment: Environment::default(), requests: 5_000, readings }
}

#[test]
fn each_study_has_a_figure_and_published_figures_are_in_tables_only() {
    let (results, page) = (stack_results(), stack_page(&stack_results()));
    for study in Study::ALL {
        let name = study.name();
        assert!(page.contains(&format!("id=\"figure-measured-stack-{name}\"")), "no figure of {name}");
        assert!(page.contains(&format!("id=\"table-{name}-1\"")), "no table of {name}");
        assert!(page.contains(&format!("id=\"table-{name}-2\"")), "nothing published of {name}");
    }
    for said in [
        "Published by the authors of other systems, on other machines",
        "&lt;b&gt;one&lt;/b&gt;",
        "5,000 requests a reading",
        "`reference` is better than `copy` from 1024 bytes on",
        "40 to 40 ns (near at most)",
    ] {
        assert!(page.contains(said), "no {said}");
    }
    let figures = stack_sections(&results).into_iter().flat_map(|section| section.figures);
    assert!(figures.into_iter().all(|figure| !figure.inline().contains("iip")));
    assert!(!page.contains("<b>") && page.matches("<script").count() == 1);
}

#[test]
fn a_published_ratio_is_beside_the_measured_one() {
    let sections = stack_sections(&stack_results());
    let threads = sections.iter().find(|section| section.id == "threads").unwrap();
    let titles = [">Connections", "Variant", ">Requests/s", ">p50 us", ">p99 us", ">Ratio"];
    assert_eq!(threads.tables[0].titles[..6], titles);
    let split = threads.tables[0].rows.iter().find(|row| row[1] == "split").unwrap();
    assert_eq!(split[..], ["1", "split", "2.00", "0.250", "0.250", "2.00", "2.00 to 2.00", "0.27", "2"]);
    assert_eq!(threads.tables[0].rows[0][5..], ["-", "-", "-", "2"]);
}

#[test]
fn studies_of_the_stack_are_parts_of_the_report() {
    let model = ResultFile::Model(Box::new(results(Kind::Simulated, &["base"])));
    let report = Report::of([model, ResultFile::Stack(Box::new(stack_results()))]);
    let page = page(&report);
    for id in ["set-2", "2-gather", "table-2-where", "table-2-gather-1", "figure-2-measured-stack-gather"] {
        assert_eq!(page.matches(&format!("id=\"{id}\"")).count(), 1, "{id}");
    }
    assert!(report.figures().iter().any(|figure| figure.id == "2-measured-stack-proxy"));
    assert!(stack_page(&Results::default()).contains("no results yet"));
}
