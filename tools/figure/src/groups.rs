//! Grouped horizontal bars, one below the other, each of one or several stacked segments.

use crate::svg::{Anchor, Area, Drawing, Scale, tick};
use crate::{FOOT, TOP};

const LEFT: f64 = 230.0;
const WIDTH: f64 = 560.0;
const RIGHT: f64 = 120.0;
const ROW: f64 = 22.0;
/// Vertical gap between groups.
const GAP: f64 = 12.0;
/// Height of the legend, and width of a legend entry.
const LEGEND: f64 = 22.0;
const WORD: f64 = 130.0;

/// A stacked bar.
#[derive(Clone, Debug)]
pub struct Bar {
    /// Name, on the left.
    pub label: String,
    /// Length of each segment, in axis units.
    pub parts: Vec<f64>,
    /// Text at the end of the bar.
    pub shown: String,
    /// Whether the bar starts a group.
    pub begins: bool,
}

/// Draws bars over an axis titled `across`; `None` if `bars` is empty. `words` names the segments, if there are
/// several.
pub fn bars(across: &str, words: &[&str], bars: &[Bar]) -> Option<Drawing> {
    let most = bars.iter().map(|bar| bar.parts.iter().sum()).reduce(f64::max)?;
    let legend = if words.len() > 1 { LEGEND } else { 0.0 };
    let groups = bars.iter().skip(1).filter(|bar| bar.begins).count() as f64;
    let bottom = TOP + legend + bars.len() as f64 * ROW + groups * GAP;
    let scale = Scale::linear(most, LEFT, WIDTH);
    let mut drawing = Drawing::new(LEFT + WIDTH + RIGHT, bottom + 36.0 + FOOT);
    for value in scale.ticks(6) {
        drawing.line((scale.at(value), TOP + legend - 2.0), (scale.at(value), bottom), "grid");
        drawing.text(scale.at(value), bottom + 15.0, Anchor::Middle, "small", &tick(value));
    }
    drawing.text(LEFT + WIDTH / 2.0, bottom + 30.0, Anchor::Middle, "small", across);
    if words.len() > 1 {
        explain(&mut drawing, words);
    }
    let mut top = TOP + legend;
    for (n, bar) in bars.iter().enumerate() {
        top += if bar.begins && n > 0 { GAP } else { 0.0 };
        draw(&mut drawing, bar, words, scale, top);
        top += ROW;
    }
    Some(drawing)
}

fn draw(drawing: &mut Drawing, bar: &Bar, words: &[&str], scale: Scale, top: f64) {
    drawing.text(LEFT - 8.0, top + 14.0, Anchor::End, "small", &bar.label);
    let mut sum = 0.0;
    for (n, part) in bar.parts.iter().enumerate() {
        let (from, to) = (scale.at(sum), scale.at(sum + part));
        let word = words.get(n).copied().unwrap_or_default();
        let tip = format!("{}: {word} {}", bar.label, tick(*part));
        let area = Area { x: from, y: top + 3.0, width: to - from, height: ROW - 6.0 };
        drawing.rect(area, &format!("k{n}"), &tip);
        sum += part;
    }
    drawing.text(scale.at(sum) + 6.0, top + 14.0, Anchor::Start, "small", &bar.shown);
}

fn explain(drawing: &mut Drawing, words: &[&str]) {
    for (n, word) in words.iter().enumerate() {
        let left = 8.0 + n as f64 * WORD;
        drawing.rect(Area { x: left, y: TOP - 2.0, width: 11.0, height: 11.0 }, &format!("k{n}"), "");
        drawing.text(left + 16.0, TOP + 8.0, Anchor::Start, "small", word);
    }
}
