//! Section on the pipeline with mismatched units.

use super::{Section, Table, decimals, usage_provenance};
use figure::Figure;
use figure::bars::{Bar, Bars, Part, bars};
use figure::svg::Key;
use figure::text::{count, number};
use measure::Kind;
use studies::usage::Results;
use studies::usage::burst_mismatch::{Rest, Stage};

/// The section. Returns `None` if the study was not run.
pub(super) fn section(results: &Results) -> Option<Section> {
    let stages = &results.burst_mismatch;
    if stages.is_empty() {
        return None;
    }
    let text = "A stage takes units of packets from its ring and offers them to a port that takes a limited number in a call. The \
                last row is linerate's own code.";
    Some(Section {
        id: "burst-mismatch",
        title: "Mismatched transfer units (144/32)".to_owned(),
        kind: Kind::Real,
        text: vec![text.to_owned()],
        tables: vec![table(stages)],
        figures: figure(stages, &usage_provenance(results)).into_iter().collect(),
    })
}

fn table(stages: &[Stage]) -> Table {
    let titles = [">Unit", ">Port takes", "Rest", ">Taken", ">Sent", ">Lost", ">Mpps"];
    let row = |stage: &Stage| {
        vec![
            stage.unit.to_string(),
            takes(stage),
            rest(stage).to_owned(),
            stage.taken.to_string(),
            stage.sent.to_string(),
            stage.lost.to_string(),
            decimals(stage.mpps, 2),
        ]
    };
    Table::new("", &titles, stages.iter().map(row))
}

/// Number of packets that the port takes in a call.
fn takes(stage: &Stage) -> String {
    stage.most.map_or("all".to_owned(), |most| most.to_string())
}

fn rest(stage: &Stage) -> &'static str {
    match stage.rest {
        Rest::Dropped => "dropped",
        Rest::Retried => "retried",
    }
}

fn figure(stages: &[Stage], from: &str) -> Option<Figure> {
    let drawing = bars(&Bars {
        axis: "percent of the packets taken",
        keys: vec![Key::new("gain", "sent"), Key::new("loss", "lost")],
        bars: stages.iter().map(bar).collect(),
        ..Bars::default()
    })?;
    Some(Figure::new(
        figure::id(Kind::Real, "burst-mismatch"),
        "Packets that a stage sent and lost",
        "Fractions of the packets that the stage took from its ring. A unit is the number of packets that it takes at once; \
         the port takes a limited number in a call, and the rest is dropped or retried. The last bar is linerate's \
         own code.",
        drawing,
        from,
    ))
}

fn bar(stage: &Stage) -> Bar {
    let part = |class: &str, name: &str, packets: u64| {
        let value = packets as f64 / stage.taken.max(1) as f64 * 100.0;
        Part::new(class, value, format!("{name}: {} packets, {} %", count(packets), number(value)))
    };
    let parts = vec![part("gain", "sent", stage.sent), part("loss", "lost", stage.lost)];
    let label = format!("{} % lost, {} Mpps", number(parts[1].value), number(stage.mpps));
    let name = format!("unit {}, takes {}, {}", stage.unit, takes(stage), rest(stage));
    Bar { name, parts, label, ..Bar::default() }
}
