//! Map of factor pairs: blue if the pair has more effect than the sum of both, orange if less; values are printed too.

use crate::Set;
use figure::svg::{Anchor, Area, Drawing};
use figure::{FOOT, Sketch, TOP};
use studies::factors::{FACTORS, LETTERS};

const CELL: f64 = 74.0;
const LEFT: f64 = 44.0;
const WIDTH: f64 = 940.0;

pub(super) fn draw(set: &Set) -> Option<Sketch> {
    let pairs = &set.analysis.synergy;
    let most = pairs.iter().map(|pair| pair.value.abs()).fold(0.0, f64::max);
    if pairs.is_empty() {
        return None;
    }
    let mut drawing = Drawing::new(WIDTH, TOP + CELL * 5.0 + 40.0 + FOOT);
    let place = |letter: char| LETTERS.iter().position(|other| *other == letter).unwrap_or(0) as f64;
    for pair in pairs {
        let (column, row) = (place(pair.pair.1) - 1.0, place(pair.pair.0));
        let area = Area {
            x: LEFT + column * CELL,
            y: TOP + 26.0 + row * CELL,
            width: CELL - 3.0,
            height: CELL - 3.0,
        };
        let class = if pair.value < 0.0 { "loss" } else { "gain" };
        let degree = if most > 0.0 { 0.08 + 0.52 * pair.value.abs() / most } else { 0.08 };
        let tip = format!(
            "{} with {}: {:+.3} in ln throughput, a factor of {:.3}",
            pair.pair.0,
            pair.pair.1,
            pair.value,
            pair.value.exp()
        );
        drawing.shaded(area, class, degree, &tip);
        let (x, y) = (area.x + CELL / 2.0 - 1.5, area.y + CELL / 2.0);
        drawing.text(x, y, Anchor::Middle, "strong", &format!("{:+.3}", pair.value));
        drawing.text(x, y + 16.0, Anchor::Middle, "small", &format!("× {:.3}", pair.value.exp()));
    }
    letters(&mut drawing);
    Some(Sketch {
        name: "synergy",
        title: "Pairwise synergy, ln(T_ij T_0 / (T_i T_j))".to_owned(),
        caption: "Above zero, two factors together bring more than their ratios multiplied; below, each does part of the \
                  other's work. Zero means that they multiply. An empty field was not run."
            .to_owned(),
        drawing,
    })
}

fn letters(drawing: &mut Drawing) {
    for (n, letter) in LETTERS.iter().enumerate() {
        let middle = CELL / 2.0 - 1.5;
        if n > 0 {
            let x = LEFT + (n - 1) as f64 * CELL + middle;
            drawing.text(x, TOP + 18.0, Anchor::Middle, "strong", &letter.to_string());
        }
        if n < LETTERS.len() - 1 {
            let y = TOP + 30.0 + n as f64 * CELL + middle;
            drawing.text(LEFT - 14.0, y, Anchor::Middle, "strong", &letter.to_string());
        }
    }
    let named = FACTORS.iter().filter_map(|factor| Some((factor.letter?, factor.title)));
    for (n, (letter, title)) in named.enumerate() {
        let text = format!("{letter}   {title}");
        drawing.text(LEFT + 5.0 * CELL + 40.0, TOP + 44.0 + n as f64 * 22.0, Anchor::Start, "", &text);
    }
}
