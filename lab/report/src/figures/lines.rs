//! Map of ring cache lines that a core fetched from another core that had modified them: one strip per configuration,
//! one row per thread, one field per line.

use super::headline;
use crate::Set;
use crate::text::thread;
use figure::svg::{Anchor, Area, Drawing};
use figure::text::number;
use figure::{FOOT, Sketch, TOP};
use sim::memory::LINE;
use studies::results::{LineRow, Row};

const LEFT: f64 = 150.0;
const WIDTH: f64 = 830.0;
const FIELD: f64 = 13.0;
const STRIP: f64 = 3.0 * FIELD + 34.0;
const LEGEND: f64 = 24.0;
/// Hits per packet of the faintest field: one packet in a thousand. The darkest field is one hit per packet.
const FAINT: f64 = 1e-3;
/// Number of lines named under a strip.
const NAMED: usize = 2;

pub(super) fn draw(set: &Set) -> Option<Sketch> {
    let rows: Vec<&Row> = headline(set);
    if rows.iter().all(|row| row.lines.is_empty()) {
        return None;
    }
    let end = rows.iter().flat_map(|row| &row.lines).map(|line| line.address / LINE).max()? + 1;
    let step = (WIDTH / end as f64).min(14.0);
    let bottom = TOP + LEGEND + rows.len() as f64 * STRIP;
    let mut drawing = Drawing::new(LEFT + WIDTH + 20.0, bottom + 30.0 + FOOT);
    legend(&mut drawing);
    for (n, row) in rows.iter().enumerate() {
        strip(&mut drawing, row, TOP + LEGEND + n as f64 * STRIP, step, end);
    }
    addresses(&mut drawing, bottom, step, end);
    Some(Sketch {
        name: "lines",
        title: "Lines of the rings that one core had to fetch from another".to_owned(),
        caption: "A field is one line of 64 bytes, in the order of addresses; a row is a thread. The darker, the more \
                  loads per packet found the line changed by another core (logarithmic, from 1 in 1000 packets to 1 a \
                  packet). Descriptors must change hands once a lap; a dark field with an index in it is false sharing."
            .to_owned(),
        drawing,
    })
}

fn strip(drawing: &mut Drawing, row: &Row, top: f64, step: f64, end: u64) {
    drawing.text(8.0, top + FIELD * 2.0 - 2.0, Anchor::Start, "strong", &row.name);
    for (n, name) in ["rx", "guest", "tx"].iter().enumerate() {
        let y = top + n as f64 * FIELD;
        drawing.text(LEFT - 6.0, y + 10.0, Anchor::End, "small", thread(name));
        drawing.rect(Area { x: LEFT, y, width: step * end as f64, height: FIELD - 1.0 }, "frame", "");
        for line in row.lines.iter().filter(|line| line.hits_modified[n] > 0.0) {
            let hits = line.hits_modified[n];
            let area = Area {
                x: LEFT + (line.address / LINE) as f64 * step,
                y,
                width: step.max(2.0) - 0.3,
                height: FIELD - 1.0,
            };
            let tip = format!(
                "{}, {}: {} hits per packet at byte {} ({})",
                row.name,
                thread(name),
                number(hits),
                line.address,
                line.name
            );
            drawing.shaded(area, name, degree(hits), &tip);
        }
    }
    drawing.text(LEFT, top + 3.0 * FIELD + 12.0, Anchor::Start, "muted", &worst(row));
}

/// The axis of byte offsets from the start of the rings, below all strips.
fn addresses(drawing: &mut Drawing, y: f64, step: f64, end: u64) {
    // A file may contain the largest possible address.
    let bytes = end.saturating_mul(LINE);
    // About eight ticks, at multiples of a power of two.
    let apart = (bytes / 8).next_power_of_two().max(LINE);
    drawing.line((LEFT, y), (LEFT + step * end as f64, y), "axis");
    for at in (0..=bytes).step_by(apart as usize) {
        let x = LEFT + (at / LINE) as f64 * step;
        drawing.line((x, y), (x, y + 4.0), "axis");
        drawing.text(x, y + 15.0, Anchor::Middle, "small", &at.to_string());
    }
    drawing.text(LEFT - 14.0, y + 15.0, Anchor::End, "muted", "address, bytes");
}

fn degree(hits: f64) -> f64 {
    (0.08 + 0.92 * (hits / FAINT).log10() / -FAINT.log10()).clamp(0.08, 1.0)
}

/// A text with the lines with most hits.
fn worst(row: &Row) -> String {
    let total = |line: &LineRow| line.hits_modified.iter().sum::<f64>();
    let mut lines: Vec<&LineRow> = row.lines.iter().collect();
    lines.sort_by(|a, b| total(b).total_cmp(&total(a)).then(a.address.cmp(&b.address)));
    let sum: f64 = lines.iter().map(|line| total(line)).sum();
    let named = lines.iter().take(NAMED).map(|line| format!("{} {}", number(total(line)), short(&line.name)));
    let named: Vec<String> = named.collect();
    format!("{} a packet in all; most: {}", number(sum), named.join("; "))
}

/// A line's name with each ring named once: `rx.last_avail, last_used, desc[0..3]`.
fn short(name: &str) -> String {
    let mut text = String::new();
    let mut ring = "";
    for part in name.split(' ') {
        let (of, field) = part.split_once('.').unwrap_or(("", part));
        text.push_str(if text.is_empty() { "" } else { ", " });
        text.push_str(if of == ring { field } else { part });
        ring = of;
    }
    text
}

fn legend(drawing: &mut Drawing) {
    let mut x = LEFT;
    for hits in [0.001, 0.01, 0.1, 1.0] {
        for (n, name) in ["rx", "guest", "tx"].iter().enumerate() {
            let area = Area { x: x + n as f64 * 12.0, y: TOP, width: 11.0, height: 12.0 };
            drawing.shaded(area, name, degree(hits), "");
        }
        drawing.text(x + 42.0, TOP + 10.0, Anchor::Start, "small", &format!("{hits} loads / packet"));
        x += 170.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_ring_is_said_once() {
        let name = "rx.desc[255] tx.last_avail tx.last_used tx.desc[0..2]";
        assert_eq!(short(name), "rx.desc[255], tx.last_avail, last_used, desc[0..2]");
    }

    #[test]
    fn a_field_is_full_at_a_hit_a_packet_and_faint_at_one_in_a_thousand() {
        assert!((degree(1.0) - 1.0).abs() < 1e-9 && (degree(1e-3) - 0.08).abs() < 1e-9);
        assert!(degree(5.0) <= 1.0 && degree(1e-9) >= 0.08);
    }
}
