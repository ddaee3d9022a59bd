//! Horizontal stacked bars, one below the other, with names on the left and labels on the right.

use crate::svg::{Anchor, Area, Drawing, Scale, tick};
use crate::{FOOT, TOP};

const LEFT: f64 = 250.0;
const WIDTH: f64 = 480.0;
const RIGHT: f64 = 190.0;
const ROW: f64 = 24.0;
const LEGEND: f64 = 22.0;

/// A segment of a bar.
#[derive(Clone, Debug)]
pub struct Part {
    /// CSS class.
    pub class: &'static str,
    /// Length in axis units; negative values extend to the left of zero.
    pub value: f64,
    /// Tooltip.
    pub tip: String,
}

/// A stacked bar.
#[derive(Clone, Debug)]
pub struct Bar {
    /// Name, on the left.
    pub name: String,
    /// Segments, from left to right.
    pub parts: Vec<Part>,
    /// Label, on the right.
    pub label: String,
}

/// Draws bars over an axis titled `unit`; `None` if `bars` is empty. `legend`: CSS class and name of each kind of part.
pub fn bars(unit: &str, legend: &[(&'static str, &str)], bars: &[Bar]) -> Option<Drawing> {
    if bars.is_empty() {
        return None;
    }
    let top = TOP + LEGEND;
    let bottom = top + bars.len() as f64 * ROW;
    let mut drawing = Drawing::new(LEFT + WIDTH + RIGHT, bottom + 40.0 + FOOT);
    let scale = scale(bars);
    for value in scale.ticks(6) {
        drawing.line((scale.at(value), top), (scale.at(value), bottom), "grid");
        drawing.text(scale.at(value), bottom + 16.0, Anchor::Middle, "small", &tick(value));
    }
    drawing.text(LEFT + WIDTH / 2.0, bottom + 33.0, Anchor::Middle, "small", unit);
    for (n, bar) in bars.iter().enumerate() {
        row(&mut drawing, scale, top + n as f64 * ROW, bar);
    }
    drawing.line((scale.at(0.0), top), (scale.at(0.0), bottom), "axis");
    for (n, (class, name)) in legend.iter().enumerate() {
        let x = LEFT + n as f64 * 120.0;
        drawing.rect(Area { x, y: TOP, width: 11.0, height: 11.0 }, class, "");
        drawing.text(x + 16.0, TOP + 10.0, Anchor::Start, "small", name);
    }
    Some(drawing)
}

/// The value to draw; 0 if it is not finite.
fn length(part: &Part) -> f64 {
    if part.value.is_finite() { part.value } else { 0.0 }
}

fn scale(bars: &[Bar]) -> Scale {
    let side = |bar: &Bar, sign: f64| -> f64 {
        bar.parts.iter().map(|part| (length(part) * sign).max(0.0)).sum::<f64>() * sign
    };
    let least = bars.iter().map(|bar| side(bar, -1.0)).fold(0.0, f64::min);
    let most = bars.iter().map(|bar| side(bar, 1.0)).fold(0.0, f64::max);
    Scale::between(least, most, LEFT, WIDTH)
}

fn row(drawing: &mut Drawing, scale: Scale, y: f64, bar: &Bar) {
    drawing.text(8.0, y + 15.0, Anchor::Start, "", &bar.name);
    // Where the next segment starts: left of zero, right of zero.
    let mut ends = [0.0, 0.0];
    for part in &bar.parts {
        let end = &mut ends[usize::from(length(part) >= 0.0)];
        let (from, to) = (scale.at(*end), scale.at(*end + length(part)));
        *end += length(part);
        let area = Area { x: from.min(to), y: y + 4.0, width: (to - from).abs(), height: ROW - 8.0 };
        drawing.rect(area, part.class, &part.tip);
    }
    drawing.text(LEFT + WIDTH + 10.0, y + 15.0, Anchor::Start, "small", &bar.label);
}
