//! Section on the pipeline with mismatched units.

use super::{Section, Table, decimals, usage_provenance};
use crate::figures;
use measure::Kind;
use studies::usage::Results;
use studies::usage::mistake::{Rest, Stage};

/// The section. Returns `None` if the study was not run.
pub(super) fn section(results: &Results) -> Option<Section> {
    let stages = &results.mistake;
    if stages.is_empty() {
        return None;
    }
    let words = "A stage takes units of packets from its ring, and offers them to a port that takes so many for a call. The \
                 last line is linerate's own way.";
    Some(Section {
        id: "mistake",
        title: "The 144/32 mistake".to_owned(),
        kind: Kind::Real,
        words: vec![words.to_owned()],
        tables: vec![table(stages)],
        figures: figures::mistake(stages, &usage_provenance(results)),
    })
}

fn table(stages: &[Stage]) -> Table {
    let titles = [">Unit", ">Port takes", "Rest", ">Taken", ">Sent", ">Lost", ">Mpps"];
    let row = |stage: &Stage| {
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
            decimals(stage.mpps, 2),
        ]
    };
    Table { heading: String::new(), titles: titles.to_vec(), rows: stages.iter().map(row).collect() }
}
