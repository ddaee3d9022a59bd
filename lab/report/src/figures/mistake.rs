//! Figure of the pipeline with mismatched units: packets sent and lost per stage.

use figure::bars::{Bar, Part, bars};
use figure::of_use;
use figure::text::{count, number};
use figure::{Figure, Sketch};
use measure::Kind;
use studies::usage::mistake::{Rest, Stage};

/// The figure; empty if there are no stages.
pub(crate) fn mistake(stages: &[Stage], from: &str) -> Vec<Figure> {
    let sketch = sketch(stages).map(|sketch| of_use(Kind::Real, from, sketch));
    sketch.into_iter().collect()
}

fn sketch(stages: &[Stage]) -> Option<Sketch> {
    let all: Vec<Bar> = stages.iter().map(bar).collect();
    Some(Sketch {
        name: "mistake",
        title: "Packets that a stage sent and lost".to_owned(),
        caption: "Of the packets that the stage took from its ring. A unit is what it takes at once; the port takes so many for \
                  a call, and what is left is thrown away or offered again. The last bar is linerate's own way."
            .to_owned(),
        drawing: bars("percent of the packets taken", &[("gain", "sent"), ("loss", "lost")], &all)?,
    })
}

fn bar(stage: &Stage) -> Bar {
    let part = |class, what: &str, packets: u64| {
        let value = packets as f64 / stage.taken.max(1) as f64 * 100.0;
        Part { class, value, tip: format!("{what}: {} packets, {} %", count(packets), number(value)) }
    };
    let takes = stage.most.map_or("all".to_owned(), |most| most.to_string());
    let rest = match stage.rest {
        Rest::ThrownAway => "thrown away",
        Rest::OfferedAgain => "offered again",
    };
    let parts = vec![part("gain", "sent", stage.sent), part("loss", "lost", stage.lost)];
    let label = format!("{} % lost, {} Mpps", number(parts[1].value), number(stage.mpps));
    Bar { name: format!("unit {}, takes {takes}, {rest}", stage.unit), parts, label }
}
