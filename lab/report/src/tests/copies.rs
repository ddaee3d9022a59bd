//! Tests of the copy study's part of a report.

use super::results;
use crate::{Report, page, summary};
use measure::{Estimate, Kind};
use studies::copystudy;

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
fn copy_sections_follow_the_model_with_tables_figures_and_orders() {
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
