//! Scatter plots: panels in a grid, each with its own axes, marks and a curve.

use crate::svg::{Anchor, Area, Drawing, Scale, tick};
use crate::{FOOT, TOP};

const PANEL: Area = Area { x: 52.0, y: 24.0, width: 262.0, height: 150.0 };
const STEP: (f64, f64) = (330.0, 222.0);

/// A mark.
#[derive(Clone, Debug)]
pub struct Mark {
    /// Position on the horizontal axis.
    pub x: f64,
    /// Position on the vertical axis.
    pub y: f64,
    /// Tooltip.
    pub tip: String,
    /// Name beside the mark; a named mark has a ring.
    pub name: Option<String>,
}

/// A panel.
pub struct Panel<'a> {
    /// Column and row of the grid.
    pub place: (usize, usize),
    /// Heading.
    pub title: String,
    /// Title of the vertical axis.
    pub up: &'a str,
    /// Text below the axis.
    pub note: String,
    /// Shape and colour of the marks: a thread.
    pub shape: &'a str,
    /// The marks.
    pub marks: Vec<Mark>,
    /// The curve.
    pub curve: Option<Box<dyn Fn(f64) -> f64 + 'a>>,
}

/// Draws panels; `None` if none has marks.
pub fn scatter(panels: &[Panel<'_>]) -> Option<Drawing> {
    if panels.iter().all(|panel| panel.marks.is_empty()) {
        return None;
    }
    let end = |of: fn(&Panel<'_>) -> usize| panels.iter().map(of).max().unwrap_or(0) as f64 + 1.0;
    let (columns, rows) = (end(|panel| panel.place.0), end(|panel| panel.place.1));
    let mut drawing = Drawing::new(STEP.0 * columns + 8.0, TOP + STEP.1 * rows + FOOT);
    for panel in panels {
        let x = PANEL.x + STEP.0 * panel.place.0 as f64;
        let y = TOP + PANEL.y + STEP.1 * panel.place.1 as f64;
        draw(&mut drawing, panel, Area { x, y, ..PANEL });
    }
    Some(drawing)
}

fn draw(drawing: &mut Drawing, panel: &Panel<'_>, area: Area) {
    let most = |of: fn(&Mark) -> f64| panel.marks.iter().map(of).fold(0.0, f64::max);
    let x = Scale::linear(most(|mark| mark.x), area.x, area.width);
    let y = Scale::linear(most(|mark| mark.y), area.bottom(), -area.height);
    frame(drawing, panel, area, x, y);
    if let Some(curve) = &panel.curve {
        let at = |n: i32| f64::from(n) * x.end() / 60.0;
        let points = (0..=60).map(|n| (at(n), curve(at(n)))).filter(|(_, value)| *value <= y.end());
        let points: Vec<_> = points.map(|(at, value)| (x.at(at), y.at(value))).collect();
        drawing.path(&points, "law");
    }
    for mark in &panel.marks {
        drawing.mark(panel.shape, x.at(mark.x), y.at(mark.y), &mark.tip);
    }
    for (mark, name) in panel.marks.iter().filter_map(|mark| Some((mark, mark.name.as_ref()?))) {
        let (x, y) = (x.at(mark.x), y.at(mark.y));
        drawing.ring(x, y);
        let near_end = x > area.right() - 40.0;
        let (x, anchor) = if near_end { (x - 6.0, Anchor::End) } else { (x + 6.0, Anchor::Start) };
        drawing.text(x, y - 4.0, anchor, "small strong label", name);
    }
}

fn frame(drawing: &mut Drawing, panel: &Panel<'_>, area: Area, x: Scale, y: Scale) {
    for value in x.ticks(5) {
        drawing.line((x.at(value), area.y), (x.at(value), area.bottom()), "grid");
        drawing.text(x.at(value), area.bottom() + 14.0, Anchor::Middle, "small", &tick(value));
    }
    for value in y.ticks(4) {
        drawing.line((area.x, y.at(value)), (area.right(), y.at(value)), "grid");
        drawing.text(area.x - 5.0, y.at(value) + 4.0, Anchor::End, "small", &tick(value));
    }
    drawing.line((area.x, area.bottom()), (area.right(), area.bottom()), "axis");
    drawing.line((area.x, area.y), (area.x, area.bottom()), "axis");
    drawing.text(area.x, area.y - 9.0, Anchor::Start, "strong", &panel.title);
    drawing.text(area.x - 8.0, area.y - 9.0, Anchor::End, "small", panel.up);
    drawing.text(area.right(), area.bottom() + 28.0, Anchor::End, "muted", &panel.note);
}
