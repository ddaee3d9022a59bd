//! Comparison of the readings with the honest neighbour's: ratios, and whether the goal is met.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::reading::Reading;
use super::{Case, HONEST, Peer, Readings, word};
use crate::bench::picture::{self, Bar};

/// The goal: minimum ratio of rates, maximum ratio of p99, maximum silence in milliseconds.
const RATE: f64 = 0.5;
const P99: f64 = 2.0;
const SILENCE: f64 = 5.0;

/// Medians of one case, and ratios to the honest case in the same rounds.
struct Row {
    case: Case,
    median: Reading,
    rate: Option<f64>,
    p99: Option<f64>,
}

impl Row {
    fn new(case: Case, cases: &[Case], readings: &Readings) -> Option<Self> {
        let median = |field: fn(&Reading) -> f64| readings.median(case, field);
        let ratio = |field| readings.ratio(case, case.honest(cases)?, field);
        Some(Self {
            case,
            median: Reading {
                mpps: median(|r| r.mpps)?,
                p50: median(|r| r.p50)?,
                p99: median(|r| r.p99)?,
                stolen: median(|r| r.stolen)?,
                silence: median(Reading::own_silence)?,
                stall: median(|r| r.stall)?,
                attacks: median(|r| r.attacks)?,
                refused: median(|r| r.refused)?,
                share: median(|r| r.share)?,
            },
            rate: ratio(|r| r.mpps),
            p99: ratio(|r| r.p99),
        })
    }

    /// Whether the goal is met. Returns `None` for the honest case or without ratios.
    fn is_met(&self) -> Option<bool> {
        let (rate, p99) = (self.rate?, self.p99?);
        // Without received frames there is no latency; the ratio of rates is then below the goal.
        let calm = rate >= RATE && p99 <= P99 && self.median.stolen < 0.5 && self.median.silence <= SILENCE;
        (self.case.attack != HONEST).then_some(calm)
    }

    /// Switch and model, such as `linerate inline`.
    fn switch(&self) -> (String, String) {
        let model = if self.case.peer == Peer::Linerate { word(&self.case.model) } else { "-".to_owned() };
        (word(&self.case.peer), model)
    }
}

fn rows<'a>(cases: &'a [Case], readings: &'a Readings) -> impl Iterator<Item = Row> + 'a {
    cases.iter().filter_map(|&case| Row::new(case, cases, readings))
}

/// One line per combination. Column `silence` excludes the guests' own stalls; column `share` is the attacker's share
/// of the guests' thread.
pub(super) fn table(cases: &[Case], readings: &Readings) -> String {
    let titles =
        ["Mpps", "ratio", "p50 us", "p99 us", "ratio", "stolen", "silence ms", "attacks", "refused", "share"];
    let titles = titles.map(|title| format!("{title:>10}")).join(" ");
    let mut text = format!("{:<9} {:<9} {:<14} {:<23} {titles}  goal\n", "switch", "model", "ring", "attack");
    for row in rows(cases, readings) {
        let ((switch, model), ring) = (row.switch(), word(&row.case.ring));
        let number = |value: f64, digits: usize| format!("{value:>10.digits$}");
        let ratio =
            |value: Option<f64>| value.map_or_else(|| format!("{:>10}", "-"), |value| number(value, 2));
        let m = row.median;
        let cells = [
            number(m.mpps, 3),
            ratio(row.rate),
            number(m.p50, 1),
            number(m.p99, 1),
            ratio(row.p99),
            number(m.stolen, 0),
            number(m.silence, 1),
            number(m.attacks, 0),
            number(m.refused, 0),
            number(m.share, 2),
        ];
        let goal = row.is_met().map_or("-", |met| if met { "met" } else { "missed" });
        let attack = row.case.attack;
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{switch:<9} {model:<9} {ring:<14} {attack:<23} {}  {goal}", cells.join(" "));
    }
    text
}

/// The rows as JSON.
pub(super) fn json(cases: &[Case], readings: &Readings) -> Value {
    let row = |row: Row| {
        let ((switch, model), m) = (row.switch(), row.median);
        json!({
            "switch": switch, "model": model, "ring": word(&row.case.ring), "attack": row.case.attack,
            "mpps": m.mpps, "rate_ratio": row.rate, "p50_us": m.p50, "p99_us": m.p99, "p99_ratio": row.p99,
            "stolen": m.stolen, "silence_ms": m.silence, "own_stall_ms": m.stall, "attacks": m.attacks,
            "refused": m.refused, "attacker_share": m.share, "met": row.is_met(),
        })
    };
    rows(cases, readings).map(row).collect()
}

/// The ratios of rates with the goal.
pub(super) fn svg(cases: &[Case], readings: &Readings) -> String {
    let attacks = rows(cases, readings).filter(|row| row.case.attack != HONEST);
    let bars: Vec<_> = attacks
        .map(|row| Bar { name: row.case.title.to_owned(), ratio: row.rate, target: Some(RATE) })
        .collect();
    picture::svg("a calm pair beside an attacker: ratio of packet rates to an honest neighbour", &bars)
}

#[cfg(test)]
mod tests {
    use super::super::{Case, Model, Ring};
    use super::*;

    fn case(attack: &str) -> Case {
        Case::new(Peer::Linerate, Model::Inline, Ring::Split, attack)
    }

    fn read(mpps: f64, p99: f64, stolen: f64) -> Vec<Option<Reading>> {
        vec![Some(Reading { mpps, p99, stolen, silence: 9.0, stall: 8.0, ..Reading::default() })]
    }

    #[test]
    fn the_goal_is_of_rate_delay_and_theft_together() {
        let cases = [case(HONEST), case("chains"), case("kicks"), case("mac-theft")];
        let all = [read(10.0, 50.0, 0.0), read(6.0, 99.0, 0.0), read(4.0, 50.0, 0.0), read(9.0, 50.0, 3.0)];
        let readings = Readings::of(cases.into_iter().zip(all));
        let met: Vec<_> = rows(&cases, &readings).map(|row| row.is_met()).collect();
        assert_eq!(met, [None, Some(true), Some(false), Some(false)]);
        let text = table(&cases, &readings);
        assert!(text.lines().count() == 5 && text.contains("0.60"), "{text}");
        assert_eq!(json(&cases, &readings)[1]["met"], true);
        assert!(svg(&cases, &readings).contains("inline split chains"));
    }
}
