//! Horizontal bars, one below the other: stacked, grouped, or from 1 on a logarithmic axis.

use crate::svg::{Anchor, Area, Drawing, Key, Scale, keys, tick, width};
use crate::{FOOT, TOP};

const WIDTH: f64 = 520.0;
const ROW: f64 = 18.0;
/// Vertical gap between groups.
const GAP: f64 = 10.0;
const LEGEND: f64 = 24.0;
/// Longest text beside the bars that gets its own space.
const MAX_WIDTH: f64 = 420.0;
/// Narrower segments are not visible.
const VISIBLE: f64 = 0.05;

/// A segment of a bar.
#[derive(Clone, Debug)]
pub struct Part {
    /// CSS class.
    pub class: String,
    /// Fill opacity, from 0 to 1.
    pub opacity: f64,
    /// Length in axis units; negative values extend to the left of zero.
    pub value: f64,
    /// Tooltip.
    pub tip: String,
}

impl Part {
    /// An opaque segment.
    pub fn new(class: impl Into<String>, value: f64, tip: String) -> Part {
        Part { class: class.into(), opacity: 1.0, value, tip }
    }

    /// The value to draw; 0 if it is not finite.
    fn length(&self) -> f64 {
        if self.value.is_finite() { self.value } else { 0.0 }
    }
}

/// A stacked bar.
#[derive(Clone, Debug, Default)]
pub struct Bar {
    /// Name of the group, at the left edge; empty if the bar belongs to the group above.
    pub group: String,
    /// Name, to the left of the axis.
    pub name: String,
    /// Segments, from left to right.
    pub parts: Vec<Part>,
    /// Interval, drawn as a horizontal whisker.
    pub interval: Option<(f64, f64)>,
    /// A value marked by an upright line.
    pub marker: Option<f64>,
    /// Text at the end of the bar.
    pub label: String,
    /// Whether a gap precedes the bar.
    pub gap: bool,
}

impl Bar {
    /// A bar of one segment for each of `words`, each with its own colour.
    pub fn stacked(name: String, words: &[&str], values: &[f64], label: String) -> Bar {
        let part = |(n, (word, value)): (usize, (&&str, &f64))| {
            Part::new(format!("k{n}"), *value, format!("{name}: {word} {}", tick(*value)))
        };
        let parts = words.iter().zip(values).enumerate().map(part).collect();
        Bar { name, parts, label, ..Bar::default() }
    }

    /// The ends of the bar, to the left and to the right of zero.
    fn ends(&self) -> (f64, f64) {
        let side =
            |sign: f64| self.parts.iter().map(|part| (part.length() * sign).max(0.0)).sum::<f64>() * sign;
        (side(-1.0), side(1.0))
    }
}

/// A range of the axis that is shaded over all bars.
#[derive(Clone, Debug)]
pub struct Band {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Tooltip.
    pub tip: String,
}

/// Bars over an axis.
#[derive(Clone, Debug, Default)]
pub struct Bars<'a> {
    /// Axis title.
    pub axis: &'a str,
    /// Range of ratios; bars begin at 1 on a logarithmic axis. `None` for a linear axis from 0.
    pub ratios: Option<(f64, f64)>,
    /// Legend.
    pub keys: Vec<Key>,
    /// Shaded range.
    pub band: Option<Band>,
    /// The bars, from the top.
    pub bars: Vec<Bar>,
}

/// Positions of the parts of a drawing.
struct Layout {
    left: f64,
    top: f64,
    bottom: f64,
    scale: Scale,
}

/// Draws bars; `None` if there are none.
pub fn bars(spec: &Bars<'_>) -> Option<Drawing> {
    if spec.bars.is_empty() {
        return None;
    }
    let longest = |size: f64, text: fn(&Bar) -> &str| {
        spec.bars.iter().map(|bar| width(text(bar), size)).fold(0.0, f64::max).min(MAX_WIDTH)
    };
    let left = 22.0 + longest(12.5, |bar| &bar.group) + longest(10.0, |bar| &bar.name);
    let top = TOP + if spec.keys.is_empty() { 0.0 } else { LEGEND };
    let bottom = top + spec.bars.iter().map(height).sum::<f64>();
    let right = left + WIDTH + longest(10.5, |bar| &bar.label) + 12.0;
    let layout = Layout { left, top, bottom, scale: scale(spec, left) };
    let mut drawing = Drawing::new(right, bottom + 40.0 + FOOT);
    frame(&mut drawing, spec, &layout);
    let mut y = top;
    for bar in &spec.bars {
        y += height(bar);
        row(&mut drawing, spec, &layout, y - ROW, bar);
    }
    let base = layout.scale.at(base(spec));
    drawing.line((base, top), (base, bottom), if spec.ratios.is_some() { "null" } else { "axis" });
    Some(drawing)
}

fn height(bar: &Bar) -> f64 {
    if bar.gap { ROW + GAP } else { ROW }
}

/// The value at which bars begin.
fn base(spec: &Bars<'_>) -> f64 {
    if spec.ratios.is_some() { 1.0 } else { 0.0 }
}

fn scale(spec: &Bars<'_>, left: f64) -> Scale {
    if let Some((low, high)) = spec.ratios {
        return Scale::log(low, high, left, WIDTH);
    }
    let ends = || spec.bars.iter().map(Bar::ends);
    let markers = spec.bars.iter().filter_map(|bar| bar.marker);
    let least = ends().map(|(low, _)| low).fold(0.0, f64::min);
    let most = ends().map(|(_, high)| high).chain(markers).fold(0.0, f64::max);
    Scale::between(least, most, left, WIDTH)
}

fn frame(drawing: &mut Drawing, spec: &Bars<'_>, layout: &Layout) {
    let Layout { left, top, bottom, scale } = layout;
    for value in scale.ticks(7) {
        drawing.line((scale.at(value), *top), (scale.at(value), *bottom), "grid");
        drawing.text(scale.at(value), bottom + 16.0, Anchor::Middle, "small", &tick(value));
    }
    drawing.text(left + WIDTH / 2.0, bottom + 33.0, Anchor::Middle, "small", spec.axis);
    if let Some(Band { low, high, tip }) = &spec.band {
        let (x, end) = (scale.at(*low), scale.at(*high));
        drawing.rect(Area { x, y: *top, width: end - x, height: bottom - top }, "band", tip);
    }
    keys(drawing, *left, TOP, &spec.keys);
}

fn row(drawing: &mut Drawing, spec: &Bars<'_>, layout: &Layout, top: f64, bar: &Bar) {
    let (scale, text) = (layout.scale, top + 13.0);
    drawing.text(8.0, text, Anchor::Start, "strong", &bar.group);
    drawing.text(layout.left - 8.0, text, Anchor::End, "small", &bar.name);
    // Where the next segment starts: left of the base, right of the base.
    let mut ends = [base(spec); 2];
    for part in &bar.parts {
        let end = &mut ends[usize::from(part.length() >= 0.0)];
        let next = if spec.ratios.is_some() { part.length() } else { *end + part.length() };
        let (from, to) = (scale.at(*end), scale.at(next));
        *end = next;
        let area = Area { x: from.min(to), y: top + 3.0, width: (to - from).abs(), height: ROW - 5.0 };
        if area.width > VISIBLE {
            drawing.shaded(area, &part.class, part.opacity, &part.tip);
        }
    }
    let middle = top + ROW / 2.0 + 0.5;
    if let Some((low, high)) = bar.interval {
        drawing.line((scale.at(low), middle), (scale.at(high), middle), "whisker");
    }
    if let Some(at) = bar.marker.map(|value| scale.at(value)) {
        drawing.line((at, top + 2.0), (at, top + ROW - 1.0), "full");
    }
    let values = ends.into_iter().chain(bar.interval.map(|(_, high)| high)).chain(bar.marker);
    let end = values.map(|value| scale.at(value)).fold(scale.at(base(spec)), f64::max);
    drawing.text(end + 6.0, text, Anchor::Start, "small", &bar.label);
}
