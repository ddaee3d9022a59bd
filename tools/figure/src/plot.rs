//! Plots over two axes: lines with their names on the right, or upright columns.

use crate::svg::{Anchor, Area, Drawing, Scale, tick};
use crate::{FOOT, TOP};
use measure::Estimate;

const LEFT: f64 = 70.0;
const WIDTH: f64 = 620.0;
const HEIGHT: f64 = 320.0;
const RIGHT: f64 = 190.0;
/// Vertical distance of two line names.
const NAME: f64 = 18.0;
/// Number of colours; further lines repeat them dashed.
const COLOURS: usize = 8;

/// A point of a line.
#[derive(Clone, Debug)]
pub struct Point {
    /// Position on the horizontal axis.
    pub x: f64,
    /// Position on the vertical axis.
    pub y: f64,
    /// Interval, drawn as a vertical whisker through the point.
    pub interval: Option<Estimate>,
    /// Tooltip.
    pub tip: String,
}

/// A line of the plot.
#[derive(Clone, Debug)]
pub struct Line {
    /// Name, shown on the right of the plot.
    pub name: String,
    /// Its points, from left to right.
    pub points: Vec<Point>,
    /// Whether the line is dashed.
    pub aside: bool,
}

/// Axis titles and scales.
#[derive(Clone, Debug, Default)]
pub struct Axes<'a> {
    /// Title of the horizontal axis.
    pub across: &'a str,
    /// Title of the vertical axis.
    pub up: &'a str,
    /// Ticks of the horizontal axis: position and label. The axis runs from 0 to the largest position.
    pub ticks: Vec<(f64, String)>,
    /// Whether the vertical axis is logarithmic (powers of ten) instead of linear from zero.
    pub decades: bool,
    /// Whether names are ordered by the last values of the lines instead of by the list.
    pub by_end: bool,
}

/// Ticks at equal distances with these labels; the `n`-th is at [`place`]`(n)`.
pub fn ticks(labels: impl IntoIterator<Item = String>) -> Vec<(f64, String)> {
    labels.into_iter().enumerate().map(|(n, label)| (place(n), label)).collect()
}

/// Position of the `n`-th of [`ticks`].
pub fn place(n: usize) -> f64 {
    n as f64 + 0.5
}

/// Draws lines; `None` if no line has points. Points that are not finite are left out.
pub fn plot(axes: &Axes<'_>, lines: &[Line]) -> Option<Drawing> {
    let lines: Vec<Line> = lines.iter().cloned().map(finite).collect();
    let points = || lines.iter().flat_map(|line| &line.points);
    let most = points().map(|point| point.interval.map_or(point.y, |found| found.high)).reduce(f64::max)?;
    let least = points().map(|point| point.y).filter(|y| *y > 0.0).reduce(f64::min).unwrap_or(1.0);
    let end = axes.ticks.iter().map(|(at, _)| *at).fold(1.0, f64::max);
    let bottom = TOP + 14.0 + HEIGHT;
    let x = Scale::linear(end, LEFT, WIDTH);
    let y = if axes.decades {
        Scale::decades(least, most, bottom, -HEIGHT)
    } else {
        Scale::linear(most, bottom, -HEIGHT)
    };
    let mut drawing = Drawing::new(LEFT + WIDTH + RIGHT, bottom + 40.0 + FOOT);
    frame(&mut drawing, axes, x, y, bottom);
    for (colour, line) in lines.iter().enumerate() {
        curve(&mut drawing, colour, line, x, y);
    }
    let mut named: Vec<(usize, &Line)> = lines.iter().enumerate().collect();
    if axes.by_end {
        let end = |line: &Line| line.points.last().map_or(0.0, |point| point.y);
        named.sort_by(|one, other| end(other.1).total_cmp(&end(one.1)));
    }
    for (place, (colour, line)) in named.into_iter().enumerate() {
        name(&mut drawing, place, &class(colour, line), &line.name);
    }
    Some(drawing)
}

fn finite(mut line: Line) -> Line {
    line.points.retain(|point| point.x.is_finite() && point.y.is_finite());
    line
}

fn frame(drawing: &mut Drawing, axes: &Axes<'_>, x: Scale, y: Scale, bottom: f64) {
    drawing.text(8.0, TOP + 4.0, Anchor::Start, "small", axes.up);
    for value in y.ticks(6) {
        drawing.line((LEFT, y.at(value)), (LEFT + WIDTH, y.at(value)), "grid");
        drawing.text(LEFT - 6.0, y.at(value) + 4.0, Anchor::End, "small", &tick(value));
    }
    for (value, word) in &axes.ticks {
        let at = x.at(*value);
        drawing.line((at, bottom), (at, bottom + 5.0), "axis");
        drawing.text(at, bottom + 17.0, Anchor::Middle, "small", word);
    }
    drawing.line((LEFT, bottom), (LEFT + WIDTH, bottom), "axis");
    drawing.text(LEFT + WIDTH / 2.0, bottom + 33.0, Anchor::Middle, "small", axes.across);
}

fn class(colour: usize, line: &Line) -> String {
    let dashed = if colour >= COLOURS || line.aside { " dashed" } else { "" };
    format!("curve k{}{dashed}", colour % COLOURS)
}

fn curve(drawing: &mut Drawing, colour: usize, line: &Line, x: Scale, y: Scale) {
    let points: Vec<_> = line.points.iter().map(|point| (x.at(point.x), y.at(point.y))).collect();
    drawing.path(&points, &class(colour, line));
    for (point, (at, height)) in line.points.iter().zip(&points) {
        if let Some(found) = point.interval {
            drawing.line((*at, y.at(found.low)), (*at, y.at(found.high)), "whisker");
        }
        let area = Area { x: at - 2.5, y: height - 2.5, width: 5.0, height: 5.0 };
        drawing.rect(area, &format!("k{}", colour % COLOURS), &point.tip);
    }
}

/// Draws the name of a line to the right of the plot; `place` counts from the top.
fn name(drawing: &mut Drawing, place: usize, class: &str, name: &str) {
    let (left, height) = (LEFT + WIDTH + 14.0, TOP + 20.0 + NAME * place as f64);
    drawing.path(&[(left, height), (left + 24.0, height)], class);
    drawing.text(left + 30.0, height + 4.0, Anchor::Start, "", name);
}

/// An upright column.
#[derive(Clone, Debug, Default)]
pub struct Column {
    /// Left and right edge on the horizontal axis.
    pub across: (f64, f64),
    /// Where the column starts, and its value, on the vertical axis.
    pub up: (f64, f64),
    /// CSS class.
    pub class: &'static str,
    /// Tooltip.
    pub tip: String,
    /// Text above the column.
    pub label: String,
    /// Two lines below the column.
    pub names: [String; 2],
}

/// Draws columns; the horizontal axis is logarithmic with ticks, or linear and labelled by the names of the columns.
/// A gap between two columns is bridged by a dashed line at the value of the first. `None` if there are no columns.
pub fn columns(across: &str, up: &str, logarithmic: bool, columns: &[Column]) -> Option<Drawing> {
    let (first, last) = (columns.first()?.across.0, columns.last()?.across.1);
    let bottom = TOP + 14.0 + HEIGHT;
    let most = columns.iter().map(|column| column.up.1).fold(0.0, f64::max);
    let y = Scale::linear(most, bottom, -HEIGHT);
    let (x, ticks) = if logarithmic {
        let x = Scale::decades(first, last, LEFT, WIDTH);
        (x, x.ticks(8).into_iter().map(|value| (value, tick(value))).collect())
    } else {
        (Scale::linear(last, LEFT, WIDTH), Vec::new())
    };
    let mut drawing = Drawing::new(LEFT + WIDTH + 30.0, bottom + 40.0 + FOOT);
    frame(&mut drawing, &Axes { across, up, ticks, ..Axes::default() }, x, y, bottom);
    for column in columns {
        let (left, right) = (x.at(column.across.0), x.at(column.across.1));
        let (from, to) = (y.at(column.up.0), y.at(column.up.1));
        let height = (from - to).abs().max(1.5);
        let area = Area { x: left, y: from.min(to), width: right - left, height };
        drawing.rect(area, column.class, &column.tip);
        let middle = f64::midpoint(left, right);
        drawing.text(middle, from.min(to) - 5.0, Anchor::Middle, "strong", &column.label);
        drawing.text(middle, bottom + 16.0, Anchor::Middle, "strong", &column.names[0]);
        drawing.text(middle, bottom + 32.0, Anchor::Middle, "muted", &column.names[1]);
    }
    for pair in columns.windows(2).filter(|pair| pair[0].across.1 < pair[1].across.0) {
        let at = y.at(pair[0].up.1);
        drawing.line((x.at(pair[0].across.1), at), (x.at(pair[1].across.0), at), "link");
    }
    Some(drawing)
}
