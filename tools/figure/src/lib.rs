//! SVG figures and self-contained HTML pages: no network, fonts or libraries.
//!
//! Every function maps values to text; no file is accessed. Text from results passes through [`text::escape`], because
//! a result file is untrusted input. The design is described in
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

/// A finished drawing with heading and caption.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Identifier, such as `1-simulated-scatter-packet`: used as element id and file name
    pub id: String,
    /// Heading
    pub title: String,
    /// Caption: what the figure shows, and caveats
    pub caption: String,
    drawing: String,
}

impl Figure {
    /// A figure of a finished drawing. `from`: provenance, for the accessible label.
    pub fn new(id: String, title: String, caption: String, drawing: Drawing, from: &str) -> Figure {
        let drawing = drawing.finish(&format!("{title}. {from}"));
        Figure { id, title, caption, drawing }
    }

    /// The figure as an inline SVG element.
    pub fn inline(&self) -> &str {
        &self.drawing
    }

    /// Prefixes the id with a number, for a page of several sets.
    #[must_use]
    pub fn numbered(self, number: usize) -> Figure {
        Figure { id: format!("{number}-{}", self.id), ..self }
    }

    /// The same figure under another id.
    #[must_use]
    pub fn with_id(self, id: String) -> Figure {
        Figure { id, ..self }
    }

    /// The figure as an SVG file.
    pub fn file(&self) -> String {
        standalone(&self.drawing)
    }
}

/// A figure before its heading and provenance are drawn.
pub struct Sketch {
    /// Suffix of the id, such as `scatter-packet`.
    pub name: &'static str,
    /// Heading.
    pub title: String,
    /// Caption.
    pub caption: String,
    /// The drawing, without heading and provenance.
    pub drawing: Drawing,
}

/// Height reserved at the top of every figure for its heading, and at the bottom ([`FOOT`]) for its provenance.
pub const TOP: f64 = 34.0;
/// See [`TOP`].
pub const FOOT: f64 = 24.0;

/// Finishes a sketch; the id starts with the number of its set.
pub fn finish(number: usize, memory: Kind, from: &str, sketch: Sketch) -> Figure {
    of_use(memory, from, sketch).numbered(number)
}

/// Finishes a sketch of a usage study; the id has no number yet.
pub fn of_use(memory: Kind, from: &str, sketch: Sketch) -> Figure {
    let Sketch { name, title, caption, mut drawing } = sketch;
    drawing.text(8.0, 20.0, Anchor::Start, "title", &title);
    let foot = drawing.height() - 8.0;
    drawing.text(8.0, foot, Anchor::Start, "muted", from);
    let memory = kind(memory).split(' ').next().unwrap_or_default().to_lowercase();
    Figure::new(format!("{memory}-{name}"), title, caption, drawing, from)
}
