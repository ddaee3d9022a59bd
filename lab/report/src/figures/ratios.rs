//! Ratios of each configuration to the base, as bars from 1: single factors in one figure, combinations in another.

use crate::Set;
use figure::svg::{Anchor, Area, Drawing, Scale, tick};
use figure::text::number;
use figure::{FOOT, Sketch, TOP};
use studies::analysis::{Band, Ratio};
use studies::factors::FACTORS;

const LINE: f64 = 19.0;
const LEFT: f64 = 420.0;
const WIDTH: f64 = 420.0;
const RIGHT: f64 = 160.0;

pub(super) fn draw(set: &Set) -> Vec<Sketch> {
    let is_single = |ratio: &&Ratio| FACTORS.iter().any(|factor| factor.name == ratio.name);
    let (singles, mut combined): (Vec<&Ratio>, Vec<&Ratio>) = set.analysis.ratios.iter().partition(is_single);
    combined.sort_by(|a, b| b.ratio.total_cmp(&a.ratio));
    let parts = [
        ("factors", "Throughput over the base: single factors", singles),
        ("combinations", "Throughput over the base: combinations, best first", combined),
    ];
    let filled = parts.into_iter().filter(|(_, _, ratios)| !ratios.is_empty());
    filled.map(|(name, title, ratios)| sketch(&set.analysis.null_band, name, title, &ratios)).collect()
}

fn sketch(band: &Band, name: &'static str, title: &str, ratios: &[&Ratio]) -> Sketch {
    let bottom = TOP + 18.0 + ratios.len() as f64 * LINE;
    let mut drawing = Drawing::new(LEFT + WIDTH + RIGHT, bottom + 40.0 + FOOT);
    let scale = scale(band, ratios);
    for value in scale.ticks(8) {
        drawing.line((scale.at(value), TOP + 14.0), (scale.at(value), bottom), "grid");
        drawing.text(scale.at(value), bottom + 15.0, Anchor::Middle, "small", &tick(value));
    }
    let middle = LEFT + WIDTH / 2.0;
    drawing.text(middle, bottom + 30.0, Anchor::Middle, "muted", "throughput over the base's (logarithmic)");
    let (low, high) = (scale.at(band.low), scale.at(band.high));
    drawing.rect(
        Area { x: low, y: TOP + 14.0, width: high - low, height: bottom - TOP - 14.0 },
        "band",
        &band.from,
    );
    for (n, ratio) in ratios.iter().enumerate() {
        bar(&mut drawing, ratio, scale, TOP + 18.0 + n as f64 * LINE);
    }
    drawing.line((scale.at(1.0), TOP + 14.0), (scale.at(1.0), bottom), "null");
    legend(&mut drawing, band, ratios);
    Sketch { name, title: title.to_owned(), caption: caption(band, ratios), drawing }
}

fn scale(band: &Band, ratios: &[&Ratio]) -> Scale {
    let ends = ratios.iter().flat_map(|ratio| {
        let (low, high) = ratio.interval.unwrap_or((ratio.ratio, ratio.ratio));
        [ratio.ratio, low, high]
    });
    let ends: Vec<f64> = ends.chain([band.low, band.high]).collect();
    let low = ends.iter().copied().fold(0.85, f64::min).max(0.1);
    let high = ends.iter().copied().fold(1.2, f64::max).min(10.0);
    Scale::log(low / 1.04, high * 1.04, LEFT, WIDTH)
}

fn bar(drawing: &mut Drawing, ratio: &Ratio, scale: Scale, top: f64) {
    let base = top + 13.0;
    drawing.text(8.0, base, Anchor::Start, "muted", &ratio.title);
    drawing.text(LEFT - 8.0, base, Anchor::End, "strong", &ratio.name);
    let (from, to) = (scale.at(1.0).min(scale.at(ratio.ratio)), scale.at(1.0).max(scale.at(ratio.ratio)));
    let class = if ratio.ratio < 1.0 { "loss" } else { "gain" };
    let shown = figures(ratio);
    let tip = format!("{}: {shown} of the base's throughput", ratio.name);
    drawing.rect(Area { x: from, y: top + 3.0, width: to - from, height: LINE - 6.0 }, class, &tip);
    if let Some((low, high)) = ratio.interval {
        let middle = top + LINE / 2.0;
        drawing.line((scale.at(low), middle), (scale.at(high), middle), "whisker");
    }
    drawing.text(LEFT + WIDTH + 8.0, base, Anchor::Start, "", &shown);
}

/// The legend of the null band and the intervals, if they are shown.
fn legend(drawing: &mut Drawing, band: &Band, ratios: &[&Ratio]) {
    let (right, y) = (LEFT + WIDTH + RIGHT - 8.0, 17.0);
    if band.low < band.high {
        drawing.text(right, y, Anchor::End, "small", "null band");
        drawing.rect(Area { x: right - 72.0, y: y - 10.0, width: 14.0, height: 12.0 }, "band", &band.from);
    }
    if ratios.iter().any(|ratio| ratio.interval.is_some()) {
        drawing.text(right - 90.0, y, Anchor::End, "small", "95 % interval");
        drawing.line((right - 182.0, y - 4.0), (right - 164.0, y - 4.0), "whisker");
    }
}

fn figures(ratio: &Ratio) -> String {
    let interval = ratio.interval.map(|(low, high)| format!(" ({}-{})", number(low), number(high)));
    format!("{:.3}{}", ratio.ratio, interval.unwrap_or_default())
}

fn caption(band: &Band, ratios: &[&Ratio]) -> String {
    let whiskers = if ratios.iter().any(|ratio| ratio.interval.is_some()) {
        "Lines are 95 % intervals."
    } else {
        "There are no intervals, because nothing was run in rounds."
    };
    format!("Bars begin at 1, on a logarithmic axis. {whiskers} Grey band: {}.", band.from)
}
