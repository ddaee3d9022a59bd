//! Cycles per packet: three bars per configuration, one segment per cause of waiting.

use super::headline;
use crate::Set;
use crate::text::thread;
use figure::svg::{Anchor, Area, Drawing, Scale, tick};
use figure::text::number;
use figure::{FOOT, Sketch, TOP};
use studies::results::{Row, ThreadRow};

const LEFT: f64 = 150.0;
const WIDTH: f64 = 760.0;
const BAR: f64 = 15.0;
const GROUP: f64 = 3.0 * BAR + 11.0;
const LEGEND: f64 = 26.0;

/// CSS class and name of each segment, from left to right.
const PARTS: [(&str, &str); 8] = [
    ("work", "work"),
    ("l2", "L2"),
    ("llc", "LLC"),
    ("core", "other core"),
    ("dram", "DRAM"),
    ("fills", "fill buffers"),
    ("stores", "store buffer"),
    ("spin", "spin"),
];

pub(super) fn draw(set: &Set) -> Option<Sketch> {
    let rows: Vec<&Row> = headline(set).into_iter().filter(|row| !row.threads.is_empty()).collect();
    let threads = || rows.iter().flat_map(|row| &row.threads);
    let most = threads().map(|thread| thread.cycles.max(thread.fill_full)).fold(0.0, f64::max);
    if most <= 0.0 {
        return None;
    }
    let top = TOP + LEGEND;
    let bottom = top + rows.len() as f64 * GROUP;
    let mut drawing = Drawing::new(LEFT + WIDTH + 60.0, bottom + 42.0 + FOOT);
    let x = Scale::linear(most, LEFT, WIDTH);
    for value in x.ticks(8) {
        drawing.line((x.at(value), top), (x.at(value), bottom), "grid");
        drawing.text(x.at(value), bottom + 15.0, Anchor::Middle, "small", &tick(value));
    }
    let middle = LEFT + WIDTH / 2.0;
    drawing.text(middle, bottom + 31.0, Anchor::Middle, "muted", "cycles per packet");
    let counted = threads().any(|thread| thread.fill_full > 0.0);
    legend(&mut drawing, counted);
    for (n, row) in rows.iter().enumerate() {
        group(&mut drawing, row, x, top + 5.0 + n as f64 * GROUP);
    }
    drawing.line((LEFT, top), (LEFT, bottom), "axis");
    Some(Sketch {
        name: "cycles",
        title: "Cycles per packet, by what they were spent on".to_owned(),
        caption: caption(counted),
        drawing,
    })
}

fn group(drawing: &mut Drawing, row: &Row, x: Scale, top: f64) {
    drawing.text(8.0, top + BAR + 11.0, Anchor::Start, "strong", &row.name);
    for (n, thread_row) in row.threads.iter().take(3).enumerate() {
        let y = top + n as f64 * BAR;
        drawing.text(LEFT - 6.0, y + 11.0, Anchor::End, "small", thread(&thread_row.thread));
        let mut from = 0.0;
        for ((class, name), cycles) in PARTS.iter().zip(parts(thread_row)) {
            let (left, right) = (x.at(from), x.at(from + cycles));
            let area = Area { x: left, y, width: right - left, height: BAR - 2.0 };
            let tip = format!(
                "{}, {}: {} cycles of {name} in {}",
                row.name,
                thread(&thread_row.thread),
                number(cycles),
                number(thread_row.cycles)
            );
            if right - left > 0.05 {
                drawing.rect(area, &format!("part {class}"), &tip);
            }
            from += cycles;
        }
        drawing.text(x.at(from) + 5.0, y + 11.0, Anchor::Start, "small", &number(thread_row.cycles));
        if thread_row.fill_full > 0.0 {
            let at = x.at(thread_row.fill_full);
            drawing.line((at, y - 1.0), (at, y + BAR - 1.0), "full");
        }
    }
}

/// Segment lengths; work is the rest of all cycles.
fn parts(thread: &ThreadRow) -> [f64; 8] {
    let stalls = &thread.stalls;
    let waits = [stalls.l2, stalls.llc, stalls.core, stalls.dram, stalls.fills, stalls.stores, stalls.spin];
    let work = (thread.cycles - waits.iter().sum::<f64>()).max(0.0);
    let mut parts = [work; 8];
    parts[1..].copy_from_slice(&waits);
    parts
}

fn legend(drawing: &mut Drawing, fill_buffers: bool) {
    let mut x = LEFT;
    for (class, name) in PARTS {
        drawing.rect(Area { x, y: TOP, width: 13.0, height: 13.0 }, &format!("part {class}"), "");
        drawing.text(x + 18.0, TOP + 11.0, Anchor::Start, "", name);
        x += 36.0 + 7.0 * name.len() as f64;
    }
    if fill_buffers {
        drawing.line((x + 4.0, TOP), (x + 4.0, TOP + 14.0), "full");
        drawing.text(x + 12.0, TOP + 11.0, Anchor::Start, "", "all fill buffers in use");
    }
}

fn caption(fill_buffers: bool) -> String {
    let parts = "All cycles of a thread, per packet. A cycle counts as waiting only when nothing could be issued in it; \
                 what is hidden behind other work is not shown. Spin is asking for a descriptor that is not there yet: who \
                 spins least is whom the others wait for.";
    let fill = if fill_buffers {
        " The black mark is how long all fill buffers were in use, which goes on beside all the others."
    } else {
        " Nowhere were all fill buffers in use."
    };
    format!("{parts}{fill}")
}
