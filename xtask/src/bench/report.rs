//! Results of the rounds: medians and ratios with their targets, as a table and as JSON.

use serde_json::{Value, json};

use super::picture::Bar;
use super::round::Reading;
use super::{Peer, Ring, target};

/// A combination of ring, size and peer.
pub(super) struct Row {
    ring: Ring,
    size: u16,
    peer: Peer,
    rounds: usize,
    ratio: Option<f64>,
    ours: Option<f64>,
    theirs: Option<f64>,
    cycles_per_packet: Option<f64>,
    empty_polls: Option<f64>,
}

impl Row {
    pub(super) fn new(ring: Ring, size: u16, peer: Peer, readings: &[Reading]) -> Row {
        let over =
            |field: &dyn Fn(&Reading) -> Option<f64>| median(readings.iter().filter_map(field).collect());
        Row {
            ring,
            size,
            peer,
            rounds: readings.iter().filter(|reading| reading.ratio().is_some()).count(),
            ratio: over(&Reading::ratio),
            ours: over(&|reading| reading.ours),
            theirs: over(&|reading| reading.theirs),
            cycles_per_packet: over(&|reading| Some(reading.load?.cycles_per_packet)),
            empty_polls: over(&|reading| Some(reading.load?.empty_polls)),
        }
    }

    /// Whether no round has a ratio.
    pub(super) fn is_empty(&self) -> bool {
        self.rounds == 0
    }

    /// The bar of the chart.
    pub(super) fn bar(&self) -> Bar {
        let name = format!("{}, {} B, {}", self.ring.name(), self.size, self.peer.name());
        Bar { name, ratio: self.ratio, target: self.target() }
    }

    /// The target, if there is one.
    fn target(&self) -> Option<f64> {
        target(self.ring, self.size, self.peer)
    }

    /// Whether the target is met; `None` without target or ratio.
    fn is_met(&self) -> Option<bool> {
        Some(self.ratio? >= self.target()?)
    }
}

/// The median. Callers take the median of per-round ratios, not the ratio of medians, because a round is measured
/// within minutes.
pub(super) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        count if count % 2 == 1 => Some(values[middle]),
        _ => Some(f64::midpoint(values[middle - 1], values[middle])),
    }
}

const HEADINGS: [&str; 12] = [
    "ring",
    "bytes",
    "peer",
    "rounds",
    "ours Mpps",
    "theirs Mpps",
    "ratio",
    "target",
    "result",
    "cycles",
    "empty",
    "lines",
];

/// Burst size of the measured guests.
const BURST: f64 = 32.0;

/// Cache lines per packet that the design moves between the switch's core and that of a driver that rewrites its
/// descriptors: the frame in and out, and the fractions of `docs/develop/performance.md` for bursts of `burst`.
fn lines(ring: Ring, size: u16, burst: f64) -> f64 {
    let frame = 2.0 * f64::from(size.div_ceil(64));
    let indices = 4.0 / burst;
    frame
        + match ring {
            Ring::Split => 2.0 / 4.0 + 2.0 / 32.0 + 2.0 / 8.0 + indices,
            Ring::SplitInorder => 2.0 / 4.0 + indices,
            Ring::Packed => 2.0 / 4.0 + 2.0 / 4.0,
            Ring::PackedVec => 2.0 / 4.0 + 1.0 / 4.0 + 1.0 / burst,
            Ring::Memif | Ring::MemifZeroCopy => 2.0 / 4.0 + 1.0 / 4.0 + indices,
        }
}

/// One line per combination. Column `cycles` is busy cycles of the worker per packet, `empty` its share of empty polls,
/// `lines` the cache lines that the design implies.
pub(super) fn table(rows: &[Row]) -> String {
    let headings = HEADINGS.map(str::to_owned);
    let lines = std::iter::once(headings).chain(rows.iter().map(Row::cells));
    lines.map(|cells| line(&cells) + "\n").collect()
}

fn line([ring, bytes, peer, rest @ ..]: &[String; 12]) -> String {
    let rest: Vec<String> = rest.iter().map(|cell| format!("{cell:>11}")).collect();
    format!("{ring:<14} {bytes:>5}  {peer:<12} {}", rest.join(" "))
}

impl Row {
    fn cells(&self) -> [String; 12] {
        let number = |value: Option<f64>, digits| value.map_or("-".to_owned(), |v| format!("{v:.digits$}"));
        let result = self.is_met().map_or("-", |met| if met { "met" } else { "missed" });
        [
            self.ring.name().to_owned(),
            self.size.to_string(),
            self.peer.name().to_owned(),
            self.rounds.to_string(),
            number(self.ours, 3),
            number(self.theirs, 3),
            number(self.ratio, 3),
            number(self.target(), 1),
            result.to_owned(),
            number(self.cycles_per_packet, 0),
            self.empty_polls.map_or("-".to_owned(), |share| format!("{:.0} %", share * 100.0)),
            format!("{:.1}", lines(self.ring, self.size, BURST)),
        ]
    }
}

/// The rows as JSON values.
pub(super) fn json(rows: &[Row]) -> impl Iterator<Item = Value> {
    let row = |row: &Row| {
        json!({
            "ring": row.ring.name(),
            "bytes": row.size,
            "peer": row.peer.name(),
            "rounds": row.rounds,
            "ours_mpps": row.ours,
            "theirs_mpps": row.theirs,
            "ratio": row.ratio,
            "target": row.target(),
            "met": row.is_met(),
            "busy_cycles_per_packet": row.cycles_per_packet,
            "empty_polls_share": row.empty_polls,
            "lines_per_packet": lines(row.ring, row.size, BURST),
        })
    };
    rows.iter().map(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(ours: f64, theirs: f64) -> Reading {
        Reading { ours: Some(ours), theirs: Some(theirs), load: None, distances: None }
    }

    #[test]
    fn the_median_of_the_ratios_counts() {
        let readings = [reading(3.0, 1.0), reading(1.0, 1.0), reading(2.0, 1.0), Reading::default()];
        let row = Row::new(Ring::Split, 64, Peer::TestpmdLoop, &readings);
        assert_eq!((row.rounds, row.ratio), (3, Some(2.0)));
        assert_eq!(row.is_met(), Some(true));
        assert_eq!(json(&[row]).next().unwrap()["met"], true);
    }

    #[test]
    fn a_combination_without_target_or_reading_says_neither_met_nor_missed() {
        let row = Row::new(Ring::Packed, 64, Peer::Ovs, &[]);
        assert!(row.is_empty());
        assert_eq!(row.is_met(), None);
        assert!(table(&[row]).contains("packed"));
    }

    /// The sums of `docs/develop/performance.md`: ring, computed sum, and documented sum.
    fn documented() -> Vec<(String, f64, f64)> {
        let text =
            std::fs::read_to_string(crate::command::root().join("docs/develop/performance.md")).unwrap();
        let rows = text.lines().skip_while(|line| !line.starts_with("| sum at n = 64,")).skip(2);
        let rows = rows.map_while(|line| line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(") | "));
        let row = |(what, sum): (&str, &str)| {
            let (ring, parts) = what.split_once(" (").unwrap();
            (ring.to_owned(), parts.split(", ").map(fraction).sum(), sum.parse().unwrap())
        };
        rows.map(row).collect()
    }

    /// Parses a term such as `1+1 data` or `1/4 own at B`.
    fn fraction(part: &str) -> f64 {
        let number = part.split(' ').next().unwrap();
        match number.split_once('/') {
            Some((above, below)) => above.parse::<f64>().unwrap() / below.parse::<f64>().unwrap(),
            None => number.split('+').map(|line| line.parse::<f64>().unwrap()).sum(),
        }
    }

    #[test]
    fn the_lines_are_those_of_the_architecture() {
        let documented = documented();
        for (ring, parts, sum) in &documented {
            assert_eq!(format!("{parts:.1}"), format!("{sum:.1}"), "{ring}");
        }
        let rings = [
            (Ring::Split, "split, driver that rewrites descriptors and order"),
            (Ring::SplitInorder, "split, in order, driver that rewrites descriptors"),
            (Ring::Packed, "packed"),
            (Ring::PackedVec, "packed, in order"),
            (Ring::Memif, "memif"),
        ];
        for (ring, name) in rings {
            let (_, parts, _) = documented.iter().find(|row| row.0 == name).expect(name);
            assert!((lines(ring, 64, 64.0) - parts).abs() < 1e-9, "{name}: {parts}");
        }
    }
}
