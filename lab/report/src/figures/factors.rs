//! Figures of the effects of factors: ratios to the base, synergy of pairs, steps from the base to the best.

use super::Described;
use crate::Set;
use figure::bars::{Band, Bar, Bars, Part, bars};
use figure::heat::{Cell, HeatMap, Row, heat_map};
use figure::plot::{Column, columns};
use figure::svg::Key;
use figure::text::number;
use studies::analysis::Ratio;
use studies::analysis::synergy::Synergy;
use studies::analysis::waterfall::Step;
use studies::factors::{FACTORS, LETTERS};

/// Ratios of each configuration to the base: single factors in one figure, combinations in another.
pub(super) fn ratios(set: &Set) -> Vec<Described> {
    let is_single = |ratio: &&Ratio| FACTORS.iter().any(|factor| factor.name == ratio.name);
    let (singles, mut combined): (Vec<&Ratio>, Vec<&Ratio>) = set.analysis.ratios.iter().partition(is_single);
    combined.sort_by(|a, b| b.ratio.total_cmp(&a.ratio));
    let parts = [
        ("factors", "Throughput over the base: single factors", singles),
        ("combinations", "Throughput over the base: combinations, best first", combined),
    ];
    parts.into_iter().filter_map(|(name, title, ratios)| ratio_bars(set, name, title, &ratios)).collect()
}

fn ratio_bars(set: &Set, name: &'static str, title: &str, ratios: &[&Ratio]) -> Option<Described> {
    let band = &set.analysis.null_band;
    let has_intervals = ratios.iter().any(|ratio| ratio.interval.is_some());
    let has_band = band.low < band.high;
    let keys =
        [(has_intervals, Key::line("whisker", "95 % interval")), (has_band, Key::new("band", "null band"))];
    let drawing = bars(&Bars {
        axis: "throughput over the base's (logarithmic)",
        ratios: Some(range(set, ratios)),
        keys: keys.into_iter().filter_map(|(shown, key)| shown.then_some(key)).collect(),
        band: Some(Band { low: band.low, high: band.high, tip: band.from.clone() }),
        bars: ratios.iter().map(|ratio| ratio_bar(ratio)).collect(),
    })?;
    let whiskers = if has_intervals {
        "Lines are 95 % intervals."
    } else {
        "There are no intervals, because nothing was run in rounds."
    };
    let caption = format!("Bars begin at 1, on a logarithmic axis. {whiskers} Grey band: {}.", band.from);
    Some(Described { name, title: title.to_owned(), caption, drawing })
}

fn ratio_bar(ratio: &Ratio) -> Bar {
    let interval = ratio.interval.map(|(low, high)| format!(" ({}-{})", number(low), number(high)));
    let label = format!("{:.3}{}", ratio.ratio, interval.unwrap_or_default());
    let class = if ratio.ratio < 1.0 { "loss" } else { "gain" };
    Bar {
        group: ratio.name.clone(),
        name: ratio.title.clone(),
        parts: vec![Part::new(
            class,
            ratio.ratio,
            format!("{}: {label} of the base's throughput", ratio.name),
        )],
        interval: ratio.interval,
        label,
        ..Bar::default()
    }
}

/// Range of the axis of ratios.
fn range(set: &Set, ratios: &[&Ratio]) -> (f64, f64) {
    let band = &set.analysis.null_band;
    let ends = ratios.iter().flat_map(|ratio| {
        let (low, high) = ratio.interval.unwrap_or((ratio.ratio, ratio.ratio));
        [ratio.ratio, low, high]
    });
    let ends: Vec<f64> = ends.chain([band.low, band.high]).collect();
    let low = ends.iter().copied().fold(0.85, f64::min).max(0.1);
    let high = ends.iter().copied().fold(1.2, f64::max).min(10.0);
    (low / 1.04, high * 1.04)
}

/// Map of factor pairs: `gain` if the pair has more effect than the sum of both, `loss` if less.
pub(super) fn synergy(set: &Set) -> Option<Described> {
    let pairs = &set.analysis.synergy;
    let most = pairs.iter().map(|pair| pair.value.abs()).fold(0.0, f64::max);
    let cell = |pair: &Synergy| {
        let column = LETTERS.iter().position(|letter| *letter == pair.pair.1).unwrap_or(1).saturating_sub(1);
        let (value, factor) = (pair.value, pair.value.exp());
        let [one, other] = [pair.pair.0, pair.pair.1];
        Cell {
            column: column as u64,
            class: if value < 0.0 { "loss" } else { "gain" },
            degree: if most > 0.0 { 0.08 + 0.52 * value.abs() / most } else { 0.08 },
            tip: format!("{one} with {other}: {value:+.3} in ln throughput, a factor of {factor:.3}"),
            texts: [format!("{value:+.3}"), format!("× {factor:.3}")],
        }
    };
    let row = |letter: &char| {
        let cells = pairs.iter().filter(|pair| pair.pair.0 == *letter).map(cell);
        Row { name: letter.to_string(), cells: cells.collect(), ..Row::default() }
    };
    let named = FACTORS.iter().filter_map(|factor| Some(format!("{}   {}", factor.letter?, factor.title)));
    let letters = LETTERS[1..].iter().enumerate();
    let drawing = heat_map(&HeatMap {
        cell: (74.0, 74.0),
        columns: LETTERS.len() as u64 - 1,
        ticks: letters.map(|(n, letter)| (n as u64, letter.to_string())).collect(),
        centred: true,
        notes: named.collect(),
        rows: LETTERS[..LETTERS.len() - 1].iter().map(row).collect(),
        ..HeatMap::default()
    })?;
    Some(Described {
        name: "synergy",
        title: "Pairwise synergy, ln(T_ij T_0 / (T_i T_j))".to_owned(),
        caption: "Above zero, two factors together bring more than their ratios multiplied; below, their effects overlap. \
                  Zero means that they multiply. An empty field was not run."
            .to_owned(),
        drawing,
    })
}

/// Waterfall from the base to the best configuration; each column starts where the previous one ended.
pub(super) fn waterfall(set: &Set) -> Option<Described> {
    let steps = &set.analysis.waterfall;
    if steps.len() < 2 {
        return None;
    }
    let before = |n: usize| n.checked_sub(1).map_or(0.0, |n| steps[n].mpps);
    let all: Vec<Column> = steps.iter().enumerate().map(|(n, step)| column(n, step, before(n))).collect();
    let last = steps.last().map_or("", |step| &step.name);
    Some(Described {
        name: "waterfall",
        title: format!("From the base to {last}, the most helpful factor first"),
        caption: waterfall_caption(set),
        drawing: columns("", "Mpps", false, &all)?,
    })
}

fn column(n: usize, step: &Step, before: f64) -> Column {
    let class = match step.letter {
        None => "start",
        Some(_) if step.mpps < before => "loss",
        Some(_) => "gain",
    };
    let factor = FACTORS.iter().find(|factor| factor.letter.is_some() && factor.letter == step.letter);
    let title = factor.map_or("the model as it is", |factor| factor.title);
    let name = step.letter.map_or_else(|| "base".to_owned(), |letter| format!("+ {letter}"));
    let gain = if before > 0.0 { format!("× {:.3}", step.mpps / before) } else { String::new() };
    Column {
        across: (n as f64 + 0.1, n as f64 + 0.85),
        up: (before, step.mpps),
        class,
        tip: format!("{}: {} Mpps. {title}", step.name, number(step.mpps)),
        label: number(step.mpps),
        names: [name, gain],
    }
}

fn waterfall_caption(set: &Set) -> String {
    let order = "Each step adds the factor that helps most at that step, so the gain of a factor here depends on the order; \
                 the Shapley shares below do not.";
    let reached = set.analysis.waterfall.last().map(|step| &step.name) == set.analysis.best.as_ref();
    if reached {
        return order.to_owned();
    }
    let best = set.analysis.best.as_deref().unwrap_or("none");
    format!(
        "{order} The best of the cells that were run is {best}; the cells that lead to it were not all run."
    )
}
