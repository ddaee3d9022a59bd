//! Line plots over two axes, with line names on the right.

use crate::svg::{Anchor, Area, Drawing, Scale, tick};
use crate::{FOOT, TOP};
use measure::Estimate;

const LEFT: f64 = 70.0;
const WIDTH: f64 = 620.0;
const DEEP: f64 = 320.0;
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
pub struct Axes<'a> {
    /// Title of the horizontal axis.
    pub across: &'a str,
    /// Title of the vertical axis.
    pub up: &'a str,
    /// Ticks of the horizontal axis: position and label. The axis runs from 0 to the largest position.
    pub ticks: Vec<(f64, String)>,
    /// Whether the vertical axis is logarithmic (powers of ten) instead of linear from zero.
    pub decades: bool,
}

/// Draws lines; `None` if no line has points. Points that are not finite are left out.
pub fn plot(axes: &Axes<'_>, lines: &[Line]) -> Option<Drawing> {
    let lines: Vec<Line> = lines.iter().cloned().map(numbers).collect();
    let points = || lines.iter().flat_map(|line| &line.points);
    let most = points().map(|point| point.interval.map_or(point.y, |found| found.high)).reduce(f64::max)?;
    let least = points().map(|point| point.y).filter(|y| *y > 0.0).reduce(f64::min).unwrap_or(1.0);
    let end = axes.ticks.iter().map(|(at, _)| *at).fold(1.0, f64::max);
    let bottom = TOP + 14.0 + DEEP;
    let x = Scale::linear(end, LEFT, WIDTH);
    let y = if axes.decades {
        Scale::decades(least, most, bottom, -DEEP)
    } else {
        Scale::linear(most, bottom, -DEEP)
    };
    let mut drawing = Drawing::new(LEFT + WIDTH + RIGHT, bottom + 40.0 + FOOT);
    frame(&mut drawing, axes, x, y, bottom);
    for (place, line) in lines.iter().enumerate() {
        curve(&mut drawing, place, line, x, y);
        name(&mut drawing, place, line);
    }
    Some(drawing)
}

fn numbers(mut line: Line) -> Line {
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

fn class(place: usize, line: &Line) -> String {
    let dashed = if place >= COLOURS || line.aside { " dashed" } else { "" };
    format!("curve k{}{dashed}", place % COLOURS)
}

fn curve(drawing: &mut Drawing, place: usize, line: &Line, x: Scale, y: Scale) {
    let points: Vec<_> = line.points.iter().map(|point| (x.at(point.x), y.at(point.y))).collect();
    drawing.path(&points, &class(place, line));
    for (point, (at, height)) in line.points.iter().zip(&points) {
        if let Some(found) = point.interval {
            drawing.line((*at, y.at(found.low)), (*at, y.at(found.high)), "whisker");
        }
        let area = Area { x: at - 2.5, y: height - 2.5, width: 5.0, height: 5.0 };
        drawing.rect(area, &format!("k{}", place % COLOURS), &point.tip);
    }
}

/// Draws the name of a line to the right of the plot; `place` counts from the top.
fn name(drawing: &mut Drawing, place: usize, line: &Line) {
    let (left, height) = (LEFT + WIDTH + 14.0, TOP + 20.0 + NAME * place as f64);
    drawing.path(&[(left, height), (left + 24.0, height)], &class(place, line));
    drawing.text(left + 30.0, height + 4.0, Anchor::Start, "", &line.name);
}
