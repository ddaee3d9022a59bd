//! Cache line transfers between cores for one ring kind and size: bars per part, linerate above and DPDK below.

use figure::svg::{Anchor, Area, Drawing, Scale};
use figure::text::{count, number};
use figure::{FOOT, Figure, TOP};
use studies::paths::Taken;
use studies::paths::study::{Case, PathResults};

const CAPTION: &str = "Upper two bars of each part: linerate; lower two: DPDK. A line counts when a core takes it from \
     the other core's cache: to read it, to write it, or to write a line that it already has. Lines that move between a core \
     and memory are not counted here.";
const LEFT: f64 = 230.0;
const WIDTH: f64 = 560.0;
const BAR: f64 = 11.0;
const ROW: f64 = 4.0 * BAR + 10.0;
const LEGEND: f64 = 24.0;
/// Parts with fewer lines per packet are left out: one in a thousand packets.
const LEAST: f64 = 1e-3;

/// The figure. Returns `None` if no lines move.
pub(crate) fn lines_of_paths(set: usize, results: &PathResults, case: &Case) -> Option<Figure> {
    let parts: Vec<_> = case.parts().into_iter().filter(|part| most(part.2, part.3) >= LEAST).collect();
    let widest = parts.iter().map(|part| most(part.2, part.3)).fold(0.0, f64::max);
    if parts.is_empty() {
        return None;
    }
    let title = format!(
        "Lines that one core took from the other: {} rings, {} bytes (linerate {}, DPDK {} a packet)",
        case.ring.name(),
        case.bytes,
        number(case.linerate.lines_moved),
        number(case.dpdk.lines_moved)
    );
    let from = format!("Simulated: {}, {} packets each", results.processor, count(results.packets));
    let bottom = TOP + LEGEND + parts.len() as f64 * ROW;
    let mut drawing = Drawing::new(LEFT + WIDTH + 110.0, bottom + 6.0 + FOOT);
    drawing.text(8.0, 20.0, Anchor::Start, "title", &title);
    legend(&mut drawing);
    let scale = Scale::linear(widest, 0.0, WIDTH);
    for (n, (way, part, ours, theirs)) in parts.iter().enumerate() {
        let top = TOP + LEGEND + n as f64 * ROW;
        drawing.text(8.0, top + 2.0 * BAR + 4.0, Anchor::Start, "small", &format!("{way}: {part}"));
        let bars = [
            ("linerate", "switch", ours[0]),
            ("linerate", "guest", ours[1]),
            ("DPDK", "switch", theirs[0]),
            ("DPDK", "guest", theirs[1]),
        ];
        for (k, (scheme, core, taken)) in bars.into_iter().enumerate() {
            bar(&mut drawing, &scale, top + k as f64 * BAR, (scheme, core), taken);
        }
    }
    drawing.text(8.0, drawing.height() - 8.0, Anchor::Start, "muted", &from);
    let id = format!("paths-{set}-simulated-{}-{}", case.ring.name(), case.bytes);
    Some(Figure::new(id, title, CAPTION.to_owned(), drawing, &from))
}

fn most(ours: [Taken; 2], theirs: [Taken; 2]) -> f64 {
    ours.iter().chain(&theirs).map(Taken::sum).fold(0.0, f64::max)
}

fn bar(drawing: &mut Drawing, scale: &Scale, y: f64, (scheme, core): (&str, &str), taken: Taken) {
    let class = if core == "switch" { "rx" } else { "guest" };
    let degree = if scheme == "DPDK" { 0.45 } else { 1.0 };
    let tip = format!(
        "{scheme}, {core}: {} a packet (read {}, owned {}, raised {})",
        number(taken.sum()),
        number(taken.read),
        number(taken.owned),
        number(taken.raised)
    );
    let width = scale.at(taken.sum());
    drawing.shaded(Area { x: LEFT, y, width, height: BAR - 1.0 }, class, degree, &tip);
    if taken.sum() >= LEAST {
        drawing.text(LEFT + width + 4.0, y + BAR - 2.0, Anchor::Start, "small", &number(taken.sum()));
    }
}

fn legend(drawing: &mut Drawing) {
    let entries = [
        ("rx", 1.0, "linerate"),
        ("guest", 1.0, "guest of linerate"),
        ("rx", 0.45, "DPDK"),
        ("guest", 0.45, "guest of DPDK"),
    ];
    for (n, (class, degree, name)) in entries.into_iter().enumerate() {
        let x = LEFT + n as f64 * 140.0;
        drawing.shaded(Area { x, y: TOP, width: 11.0, height: 11.0 }, class, degree, "");
        drawing.text(x + 16.0, TOP + 10.0, Anchor::Start, "small", name);
    }
}
