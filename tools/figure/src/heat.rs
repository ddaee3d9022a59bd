//! Heat maps: rows of cells whose opacity shows a value.

use crate::svg::{Anchor, Area, Drawing, Key, keys, width};
use crate::{FOOT, TOP};

const NAME: f64 = 40.0;
const LEGEND: f64 = 24.0;
/// Height of a note below a row.
const NOTE: f64 = 34.0;

/// A cell.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    /// Column, from 0.
    pub column: u64,
    /// CSS class.
    pub class: &'static str,
    /// Fill opacity, from 0 to 1.
    pub degree: f64,
    /// Tooltip.
    pub tip: String,
    /// Two lines of text in the cell.
    pub texts: [String; 2],
}

/// A row of cells.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// Name of the group, at the left edge; empty if the row belongs to the group above.
    pub group: String,
    /// Name, to the left of the cells.
    pub name: String,
    /// The cells.
    pub cells: Vec<Cell>,
    /// Text below the row; a row with a note ends a group.
    pub note: String,
}

/// A heat map.
#[derive(Clone, Debug, Default)]
pub struct HeatMap<'a> {
    /// Title of the columns.
    pub across: &'a str,
    /// Width and height of a cell.
    pub cell: (f64, f64),
    /// Number of columns.
    pub columns: u64,
    /// Labels of columns: column and text.
    pub ticks: Vec<(u64, String)>,
    /// Whether labels are at the middle of columns instead of at their left edges.
    pub centred: bool,
    /// Legend above the map.
    pub keys: Vec<Key>,
    /// Lines of text to the right of the map.
    pub notes: Vec<String>,
    /// The rows, from the top.
    pub rows: Vec<Row>,
}

/// Draws a map; `None` if it has no cells.
pub fn heat_map(map: &HeatMap<'_>) -> Option<Drawing> {
    if map.rows.iter().all(|row| row.cells.is_empty()) {
        return None;
    }
    let longest = |texts: &mut dyn Iterator<Item = &String>| {
        texts.map(|text| width(text, 12.0)).fold(0.0, f64::max).min(420.0)
    };
    let groups = NAME + longest(&mut map.rows.iter().map(|row| &row.group));
    let left = 16.0 + groups.max(width(map.across, 11.5));
    let cells = map.cell.0 * map.columns as f64;
    let top = TOP + if map.keys.is_empty() { 0.0 } else { LEGEND };
    let bottom = top + map.rows.iter().map(|row| height(map, row)).sum::<f64>();
    let right = left + cells + 24.0 + longest(&mut map.notes.iter());
    let mut drawing = Drawing::new(right, bottom + 30.0 + FOOT);
    keys(&mut drawing, left, TOP, &map.keys);
    let mut y = top;
    for row in &map.rows {
        draw(&mut drawing, map, row, (left, y));
        y += height(map, row);
    }
    axis(&mut drawing, map, left, bottom);
    for (n, note) in map.notes.iter().enumerate() {
        drawing.text(left + cells + 16.0, top + 18.0 + n as f64 * 22.0, Anchor::Start, "", note);
    }
    Some(drawing)
}

fn height(map: &HeatMap<'_>, row: &Row) -> f64 {
    map.cell.1 + if row.note.is_empty() { 0.0 } else { NOTE }
}

fn draw(drawing: &mut Drawing, map: &HeatMap<'_>, row: &Row, (left, top): (f64, f64)) {
    let (step, height) = map.cell;
    let middle = top + height / 2.0;
    drawing.text(8.0, middle + 3.5, Anchor::Start, "strong", &row.group);
    drawing.text(left - 6.0, middle + 3.5, Anchor::End, "small", &row.name);
    let frame = Area { x: left, y: top, width: step * map.columns as f64, height: height - 1.0 };
    drawing.rect(frame, "frame", "");
    for cell in &row.cells {
        let (x, width) = (left + cell.column as f64 * step, (step * 0.96).max(1.7));
        drawing.shaded(Area { x, width, ..frame }, cell.class, cell.degree, &cell.tip);
        drawing.text(x + width / 2.0, middle, Anchor::Middle, "strong", &cell.texts[0]);
        drawing.text(x + width / 2.0, middle + 16.0, Anchor::Middle, "small", &cell.texts[1]);
    }
    drawing.text(left, top + height + 12.0, Anchor::Start, "muted", &row.note);
}

/// Draws the labels of the columns below all rows.
fn axis(drawing: &mut Drawing, map: &HeatMap<'_>, left: f64, y: f64) {
    let step = map.cell.0;
    drawing.line((left, y), (left + step * map.columns as f64, y), "axis");
    for (column, label) in &map.ticks {
        let x = left + (*column as f64 + if map.centred { 0.5 } else { 0.0 }) * step;
        drawing.line((x, y), (x, y + 4.0), "axis");
        drawing.text(x, y + 15.0, Anchor::Middle, "small", label);
    }
    drawing.text(left - 14.0, y + 15.0, Anchor::End, "muted", map.across);
}
