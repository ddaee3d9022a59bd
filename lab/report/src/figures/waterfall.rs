//! Waterfall from the base to the best configuration; each bar starts where the previous one ended.

use crate::Set;
use figure::svg::{Anchor, Area, Drawing, Scale, tick};
use figure::text::number;
use figure::{FOOT, Sketch, TOP};
use studies::factors::FACTORS;

const LEFT: f64 = 52.0;
const COLUMN: f64 = 132.0;
const HEIGHT: f64 = 250.0;

pub(super) fn draw(set: &Set) -> Option<Sketch> {
    let steps = &set.analysis.waterfall;
    if steps.len() < 2 {
        return None;
    }
    let most = steps.iter().map(|step| step.mpps).fold(0.0, f64::max);
    let bottom = TOP + 16.0 + HEIGHT;
    let width = LEFT + COLUMN * steps.len() as f64 + 12.0;
    let mut drawing = Drawing::new(width.max(560.0), bottom + 46.0 + FOOT);
    let y = Scale::linear(most, bottom, -HEIGHT);
    for value in y.ticks(5) {
        drawing.line((LEFT, y.at(value)), (width - 12.0, y.at(value)), "grid");
        drawing.text(LEFT - 6.0, y.at(value) + 4.0, Anchor::End, "small", &tick(value));
    }
    drawing.text(LEFT - 6.0, TOP + 8.0, Anchor::End, "small", "Mpps");
    let mut before = 0.0;
    for (n, step) in steps.iter().enumerate() {
        let left = LEFT + COLUMN * n as f64 + 12.0;
        let (top, low) = (y.at(step.mpps.max(before)), y.at(step.mpps.min(before)));
        let class = match step.letter {
            None => "start",
            Some(_) if step.mpps < before => "loss",
            Some(_) => "gain",
        };
        let title = FACTORS.iter().find(|factor| factor.letter.is_some() && factor.letter == step.letter);
        let tip = format!(
            "{}: {} Mpps. {}",
            step.name,
            number(step.mpps),
            title.map_or("the model as it is", |factor| factor.title)
        );
        drawing.rect(
            Area { x: left, y: top, width: COLUMN - 34.0, height: (low - top).max(1.5) },
            class,
            &tip,
        );
        if n + 1 < steps.len() {
            let at = y.at(step.mpps);
            drawing.line((left + COLUMN - 34.0, at), (left + COLUMN, at), "link");
        }
        let middle = left + (COLUMN - 34.0) / 2.0;
        drawing.text(middle, top - 5.0, Anchor::Middle, "strong", &number(step.mpps));
        let name = step.letter.map_or_else(|| "base".to_owned(), |letter| format!("+ {letter}"));
        drawing.text(middle, bottom + 16.0, Anchor::Middle, "strong", &name);
        let gain = if before > 0.0 { format!("× {:.3}", step.mpps / before) } else { String::new() };
        drawing.text(middle, bottom + 32.0, Anchor::Middle, "muted", &gain);
        before = step.mpps;
    }
    drawing.line((LEFT, bottom), (width - 12.0, bottom), "axis");
    Some(Sketch { name: "waterfall", title: title(set), caption: caption(set), drawing })
}

fn title(set: &Set) -> String {
    let last = set.analysis.waterfall.last().map_or("", |step| &step.name);
    format!("From the base to {last}, the most helpful factor first")
}

fn caption(set: &Set) -> String {
    let order = "At each step the factor is added that helps most just then, so what a factor is given here depends on \
                 the order; the Shapley shares below do not.";
    let reached = set.analysis.waterfall.last().map(|step| &step.name) == set.analysis.best.as_ref();
    if reached {
        return order.to_owned();
    }
    let best = set.analysis.best.as_deref().unwrap_or("none");
    format!(
        "{order} The best of the cells that were run is {best}; the cells on the way to it were not all run."
    )
}
