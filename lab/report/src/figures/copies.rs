//! Copy cost by packet size: one line per variant, one figure per direction, with separate figures for cold and warm
//! copies.

use crate::copies::{CopySet, provenance, unit};
use figure::svg::{Anchor, Area, Drawing, Scale, tick};
use figure::text::number;
use figure::{FOOT, Figure, Sketch, TOP, finish};
use studies::copystudy::{BASE_AGAIN, Direction, Results, Row, WARM_AGAIN, is_warm};

const LEFT: f64 = 64.0;
const WIDTH: f64 = 620.0;
const DEEP: f64 = 340.0;
const RIGHT: f64 = 190.0;
/// Vertical distance of two line names.
const NAME: f64 = 18.0;
/// Number of colours; further lines repeat them dashed.
const COLOURS: usize = 8;

/// All figures for which the set has data.
pub(crate) fn all(set: &CopySet) -> Vec<Figure> {
    let parts = [
        ("copies-to-guest", Direction::HostToGuest, false),
        ("copies-from-guest", Direction::GuestToHost, false),
        ("copies-to-guest-warm", Direction::HostToGuest, true),
        ("copies-from-guest-warm", Direction::GuestToHost, true),
    ];
    let drawn = parts.into_iter().filter_map(|(name, direction, warm)| draw(set, name, direction, warm));
    let from = provenance(&set.results);
    drawn.map(|sketch| finish(set.number, set.results.memory, &from, sketch)).collect()
}

fn draw(set: &CopySet, name: &'static str, direction: Direction, warm: bool) -> Option<Sketch> {
    let results = &set.results;
    let mut lines = lines(results, direction, warm);
    let all = || lines.iter().flat_map(|(_, line)| line);
    let most = all().map(|row| row.interval.map_or(row.cost, |found| found.high)).reduce(f64::max)?;
    let widest = all().map(|row| row.size).max()? as f64;
    let bottom = TOP + 14.0 + DEEP;
    let x = Scale::linear(widest / 1.1 * 1.02, LEFT, WIDTH);
    let y = Scale::linear(most / 1.1 * 1.03, bottom, -DEEP);
    let mut drawing = Drawing::new(LEFT + WIDTH + RIGHT, bottom + 40.0 + FOOT);
    axes(&mut drawing, results, x, y, bottom);
    // Names are ordered by the last values of the lines.
    let end = |line: &[&Row]| line.last().map_or(0.0, |row| row.cost);
    lines.sort_by(|one, other| end(&other.1).total_cmp(&end(&one.1)));
    for (place, (colour, line)) in lines.iter().enumerate() {
        curve(&mut drawing, *colour, line, x, y);
        name_of(&mut drawing, *colour, line, place);
    }
    let which = if warm { "warm" } else { "cold" };
    Some(Sketch {
        name,
        title: format!("What a copy costs, {}, {which}", direction.name()),
        caption: caption(results, warm),
        drawing,
    })
}

/// Rows of each variant by size, with its colour index, which is the same in each figure. Controls are left out,
/// because their lines coincide with those of their base.
fn lines(results: &Results, direction: Direction, warm: bool) -> Vec<(usize, Vec<&Row>)> {
    let sizes = results.sizes();
    let line = |name: &str| -> Vec<&Row> {
        sizes.iter().filter_map(|size| results.row((name, direction, *size))).collect()
    };
    let is_control = |name: &str| [BASE_AGAIN, WARM_AGAIN].contains(&name);
    let names = results.variants().into_iter().filter(|name| is_warm(name) == warm && !is_control(name));
    names.map(line).filter(|line| !line.is_empty()).enumerate().collect()
}

fn axes(drawing: &mut Drawing, results: &Results, x: Scale, y: Scale, bottom: f64) {
    drawing.text(8.0, TOP + 4.0, Anchor::Start, "small", &format!("{} a packet", unit(results)));
    for value in y.ticks(6) {
        drawing.line((LEFT, y.at(value)), (LEFT + WIDTH, y.at(value)), "grid");
        drawing.text(LEFT - 6.0, y.at(value) + 4.0, Anchor::End, "small", &tick(value));
    }
    for size in results.sizes() {
        let at = x.at(size as f64);
        drawing.line((at, bottom), (at, bottom + 5.0), "axis");
        drawing.text(at, bottom + 17.0, Anchor::Middle, "small", &size.to_string());
    }
    drawing.line((LEFT, bottom), (LEFT + WIDTH, bottom), "axis");
    drawing.text(LEFT + WIDTH / 2.0, bottom + 33.0, Anchor::Middle, "small", "bytes");
}

fn class(colour: usize) -> String {
    let dashed = if colour < COLOURS { "" } else { " dashed" };
    format!("curve k{}{dashed}", colour % COLOURS)
}

fn curve(drawing: &mut Drawing, colour: usize, line: &[&Row], x: Scale, y: Scale) {
    let points: Vec<_> = line.iter().map(|row| (x.at(row.size as f64), y.at(row.cost))).collect();
    drawing.path(&points, &class(colour));
    for (row, (at, height)) in line.iter().zip(&points) {
        if let Some(found) = row.interval {
            drawing.line((*at, y.at(found.low)), (*at, y.at(found.high)), "whisker");
        }
        let area = Area { x: at - 2.5, y: height - 2.5, width: 5.0, height: 5.0 };
        drawing.rect(area, &format!("k{}", colour % COLOURS), &tip(row));
    }
}

/// Draws the name of a line to the right of the plot; `place` counts from the top.
fn name_of(drawing: &mut Drawing, colour: usize, line: &[&Row], place: usize) {
    let Some(first) = line.first() else { return };
    let (left, height) = (LEFT + WIDTH + 14.0, TOP + 20.0 + NAME * place as f64);
    drawing.path(&[(left, height), (left + 24.0, height)], &class(colour));
    drawing.text(left + 30.0, height + 4.0, Anchor::Start, "", &first.variant);
}

fn tip(row: &Row) -> String {
    let interval = row.interval.map(|found| format!(" ({}-{})", number(found.low), number(found.high)));
    let interval = interval.unwrap_or_default();
    let ratio = row.ratio.map(|found| format!(", {:.2} times its base's", found.median)).unwrap_or_default();
    format!("{}, {} bytes: {}{interval}{ratio}", row.variant, row.size, number(row.cost))
}

fn caption(results: &Results, warm: bool) -> String {
    let sides = if warm {
        "Both sides lie in the host's first level when they are copied."
    } else {
        "Lines are where the guest, the host and what brings packets left them."
    };
    let whiskers = if results.is_simulated() {
        "There are no intervals, because nothing was run in rounds."
    } else {
        "Uprights are 95 % intervals of medians over rounds."
    };
    format!("{sides} Names stand in the order in which the lines end; controls are in the tables. {whiskers}")
}
