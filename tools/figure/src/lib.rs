//! Figures as SVG and pages of HTML that need nothing else: no network, no font, no library.
//!
//! Everything here is a function from values to text; no file is touched. Text that comes from results passes through
//! [`text::escape`], since a file of results may come from anywhere. The looks are decided in
//! `docs/decisions/0050-analysis-and-report-of-the-laboratory.md`.

pub mod bars;
pub mod groups;
pub mod page;
pub mod plot;
pub mod svg;
pub mod text;

use measure::Kind;
use svg::{Anchor, Drawing, standalone};
use text::kind;

/// A drawing with what must be said about it.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Such as `1-simulated-scatter-packet`: an element's id, and a file's name
    pub id: String,
    /// Its heading
    pub title: String,
    /// What is seen, and what to mind
    pub caption: String,
    drawing: String,
}

impl Figure {
    /// A figure of a finished drawing.
    pub fn new(id: String, title: String, caption: String, drawing: Drawing, from: &str) -> Figure {
        let drawing = drawing.finish(&format!("{title}. {from}"));
        Figure { id, title, caption, drawing }
    }

    /// As an element of a page.
    pub fn inline(&self) -> &str {
        &self.drawing
    }

    /// With a number in front of its id, for a page of several sets.
    #[must_use]
    pub fn numbered(self, number: usize) -> Figure {
        Figure { id: format!("{number}-{}", self.id), ..self }
    }

    /// The same under another id.
    #[must_use]
    pub fn with_id(self, id: String) -> Figure {
        Figure { id, ..self }
    }

    /// As a file.
    pub fn file(&self) -> String {
        standalone(&self.drawing)
    }
}

/// A figure before its heading and provenance are drawn.
pub struct Sketch {
    /// Part of the id, such as `scatter-packet`.
    pub name: &'static str,
    /// The heading.
    pub title: String,
    /// The text below.
    pub caption: String,
    /// The drawing, without heading and provenance.
    pub drawing: Drawing,
}

/// Height that every figure leaves free at its top, for its heading, and at its bottom, for where it comes from.
pub const TOP: f64 = 34.0;
/// See [`TOP`].
pub const FOOT: f64 = 24.0;

/// A figure with the number of its set in its id.
pub fn finish(number: usize, memory: Kind, from: &str, sketch: Sketch) -> Figure {
    of_use(memory, from, sketch).numbered(number)
}

/// A figure of a study of use, whose id has no number yet.
pub fn of_use(memory: Kind, from: &str, sketch: Sketch) -> Figure {
    let Sketch { name, title, caption, mut drawing } = sketch;
    drawing.text(8.0, 20.0, Anchor::Start, "title", &title);
    let foot = drawing.height() - 8.0;
    drawing.text(8.0, foot, Anchor::Start, "muted", from);
    let memory = kind(memory).split(' ').next().unwrap_or_default().to_lowercase();
    Figure::new(format!("{memory}-{name}"), title, caption, drawing, from)
}
