//! Misses against throughput: one panel per thread and cache level, one mark per configuration.

use crate::Set;
use crate::text::thread;
use figure::svg::{Anchor, Area, Drawing, Scale, tick};
use figure::text::number;
use figure::{FOOT, Sketch, TOP};
use studies::analysis::{Axis, Fit, Level, points};

const PANEL: Area = Area { x: 52.0, y: 24.0, width: 262.0, height: 150.0 };
const STEP: (f64, f64) = (330.0, 222.0);
/// Configurations with a name beside their marks.
const NAMED: [&str; 5] = ["base", "a", "d", "a+d", "a+b+c+d+e+f"];

pub(super) fn draw(set: &Set, axis: Axis) -> Option<Sketch> {
    let mut drawing = Drawing::new(STEP.0 * 3.0 + 8.0, TOP + STEP.1 * 3.0 + FOOT);
    let mut any = false;
    for fit in set.analysis.fits.iter().filter(|fit| fit.axis == axis) {
        let column = ["rx", "guest", "tx"].iter().position(|name| *name == fit.thread)?;
        let row = Level::ALL.iter().position(|level| *level == fit.level)?;
        let area =
            Area { x: PANEL.x + STEP.0 * column as f64, y: TOP + PANEL.y + STEP.1 * row as f64, ..PANEL };
        any |= panel(&mut drawing, set, fit, area);
    }
    let (name, unit) = match axis {
        Axis::Packet => ("scatter-packet", "per packet"),
        Axis::KiloInstruction => ("scatter-kilo-instruction", "per kilo-instruction"),
    };
    any.then(|| Sketch {
        name,
        title: format!("Load misses {unit} against throughput"),
        caption: "Each mark is one configuration; the rings are those with a name. The dashed line is throughput as an exponential of misses, by least \
                  squares on its logarithm; R² is the share of the variance of ln throughput that it explains, ρ \
                  Spearman's rank correlation. Where one cause moves all threads at once, a fit does not tell which of them \
                  governs."
            .to_owned(),
        drawing,
    })
}

fn panel(drawing: &mut Drawing, set: &Set, fit: &Fit, area: Area) -> bool {
    let points = points(&set.results, &fit.thread, fit.level, fit.axis);
    let most = |values: &mut dyn Iterator<Item = f64>| values.fold(0.0, f64::max);
    let x = Scale::linear(most(&mut points.iter().map(|point| point.1)), area.x, area.width);
    let y = Scale::linear(most(&mut points.iter().map(|point| point.2)), area.bottom(), -area.height);
    axes(drawing, fit, area, x, y);
    if let Some(law) = fit.law {
        let at = |n: i32| f64::from(n) * x.end() / 60.0;
        let curve = (0..=60).map(|n| (x.at(at(n)), law.at(at(n)))).filter(|(_, mpps)| *mpps <= y.end());
        let curve: Vec<_> = curve.map(|(x, mpps)| (x, y.at(mpps))).collect();
        drawing.path(&curve, "law");
    }
    for (name, misses, mpps) in &points {
        let tip = format!("{name}: {} misses, {} Mpps", number(*misses), number(*mpps));
        drawing.mark(&fit.thread, x.at(*misses), y.at(*mpps), &tip);
    }
    for (name, misses, mpps) in points.iter().filter(|point| NAMED.contains(&point.0)) {
        let name = if *name == NAMED[4] { "all six" } else { name };
        let (x, y) = (x.at(*misses), y.at(*mpps));
        drawing.ring(x, y);
        let near_end = x > area.right() - 40.0;
        let (x, anchor) = if near_end { (x - 6.0, Anchor::End) } else { (x + 6.0, Anchor::Start) };
        drawing.text(x, y - 4.0, anchor, "small strong label", name);
    }
    !points.is_empty()
}

fn axes(drawing: &mut Drawing, fit: &Fit, area: Area, x: Scale, y: Scale) {
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
    let unit = if fit.axis == Axis::Packet { "packet" } else { "kilo-instruction" };
    let name = format!("{}, {} misses / {unit}", thread(&fit.thread), fit.level.name());
    drawing.text(area.x, area.y - 9.0, Anchor::Start, "strong", &name);
    drawing.text(area.x - 8.0, area.y - 9.0, Anchor::End, "small", "Mpps");
    drawing.text(area.right(), area.bottom() + 28.0, Anchor::End, "muted", &quality(fit));
}

fn quality(fit: &Fit) -> String {
    let r2 = fit.law.map_or_else(|| "no fit".to_owned(), |law| format!("R² {:.2}", law.r2));
    let rho = fit.spearman.map_or_else(|| "ρ undefined".to_owned(), |rho| format!("ρ {rho:.2}"));
    let law =
        fit.law.map_or_else(String::new, |law| format!("{} e^({} x), ", number(law.scale), number(law.rate)));
    format!("{law}{r2}, {rho}, n {}", fit.points)
}
