//! The picture: cost by size, one line for each variant. Plain SVG, as the other pictures of this project are
//! (`docs/decisions/0019`).

use std::fmt::Write;

use super::results::Results;
use super::setting::Direction;
use crate::cache::results::Kind;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 60.0;
const TOP: f64 = 40.0;
const PLOT: f64 = 520.0;
const DEEP: f64 = 320.0;
const COLOURS: [&str; 8] =
    ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#7f7f7f"];

/// One direction's picture. A second lap through the colours is dashed.
pub fn plot(results: &Results, direction: Direction) -> String {
    let rows = || results.rows.iter().filter(|row| row.direction == direction);
    let most = rows().map(|row| row.cycles).fold(1.0, f64::max);
    let widest = results.sizes().last().map_or(1.0, |size| *size as f64);
    let place =
        |size: u64, cycles: f64| (LEFT + PLOT * size as f64 / widest, TOP + DEEP - DEEP * cycles / most);
    let mut svg = frame(results, direction, most, widest);
    for (n, variant) in results.variants().into_iter().enumerate() {
        let points: Vec<_> = rows().filter(|row| row.variant == variant).collect();
        let points = points.iter().map(|row| place(row.size, row.cycles));
        let points: Vec<String> = points.map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        line(&mut svg, n, variant, &points.join(" "));
    }
    svg + "</svg>\n"
}

fn frame(results: &Results, direction: Direction, most: f64, widest: f64) -> String {
    let kind = if results.memory == Kind::Simulated { "simulated" } else { "measured" };
    let way = if direction == Direction::HostToGuest { "host to guest" } else { "guest to host" };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"11\">\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n"
    );
    text(
        &mut svg,
        LEFT,
        20.0,
        &format!("Copy, {way}: cycles per packet by size, {kind}, {}", results.processor),
    );
    for tick in 0..=4 {
        let part = f64::from(tick) / 4.0;
        let y = TOP + DEEP - DEEP * part;
        let _ = writeln!(svg, "<path d=\"M{LEFT} {y} h{PLOT}\" stroke=\"#ddd\"/>");
        text(&mut svg, 10.0, y + 4.0, &format!("{:.0}", most * part));
    }
    for size in results.sizes() {
        let x = LEFT + PLOT * size as f64 / widest;
        let _ = writeln!(svg, "<path d=\"M{x:.1} {} v5\" stroke=\"black\"/>", TOP + DEEP);
        text(&mut svg, x - 8.0, TOP + DEEP + 18.0, &size.to_string());
    }
    text(&mut svg, LEFT + PLOT / 2.0, TOP + DEEP + 38.0, "bytes");
    svg
}

fn line(svg: &mut String, n: usize, variant: &str, points: &str) {
    let colour = COLOURS[n % COLOURS.len()];
    let dashes = if n < COLOURS.len() { "none" } else { "5 3" };
    let style =
        format!("fill=\"none\" stroke=\"{colour}\" stroke-dasharray=\"{dashes}\" stroke-width=\"1.5\"");
    let _ = writeln!(svg, "<polyline points=\"{points}\" {style}/>");
    let (x, y) = (LEFT + PLOT + 20.0, TOP + 8.0 + 20.0 * n as f64);
    let _ = writeln!(svg, "<path d=\"M{x} {y} h24\" {style}/>");
    text(svg, x + 30.0, y + 4.0, variant);
}

/// A processor's name comes from a file that people write, so what would end an element is escaped.
fn text(svg: &mut String, x: f64, y: f64, what: &str) {
    let what = what.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\">{what}</text>");
}
