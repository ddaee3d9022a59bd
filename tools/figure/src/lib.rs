//! SVG figures and self-contained HTML pages: no network, fonts or libraries.
//!
//! Figures are descriptions (data, axis titles, classes) of one of the primitives [`bars`], [`plot`], [`scatter`] and
//! [`heat`]. Every function maps values to text; no file is accessed. Result files are untrusted input: `maud` escapes
//! every text. The design is described in `docs/decisions/0050-analysis-and-report-of-the-laboratory.md` and
//! `docs/decisions/0091-figure-primitives-and-one-result-store.md`.

#![forbid(unsafe_code)]

pub mod bars;
pub mod heat;
pub mod page;
pub mod plot;
pub mod scatter;
pub mod svg;
pub mod text;

use measure::Kind;
use svg::{Anchor, Drawing, standalone, width};

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

/// Height reserved at the top of every figure for its heading, and at the bottom ([`FOOT`]) for its provenance.
pub const TOP: f64 = 34.0;
/// See [`TOP`].
pub const FOOT: f64 = 24.0;

/// Widest drawing that fits a heading.
const WIDEST: f64 = 1_100.0;

/// The id of a figure of this kind of results, such as `simulated-lines`.
pub fn id(memory: Kind, name: &str) -> String {
    let memory = text::kind(memory).split(' ').next().unwrap_or_default().to_lowercase();
    format!("{memory}-{name}")
}

impl Figure {
    /// A figure of a drawing. `from`: provenance, shown below the drawing and part of the accessible label.
    pub fn new(
        id: impl Into<String>,
        title: impl Into<String>,
        caption: impl Into<String>,
        mut drawing: Drawing,
        from: &str,
    ) -> Figure {
        let (title, caption) = (title.into(), caption.into());
        drawing.widen((width(&title, 15.0) + 16.0).min(WIDEST));
        drawing.text(8.0, 20.0, Anchor::Start, "title", &title);
        let foot = drawing.height() - 8.0;
        drawing.text(8.0, foot, Anchor::Start, "muted", from);
        let drawing = drawing.finish(&format!("{title}. {from}"));
        Figure { id: id.into(), title, caption, drawing }
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

    /// The figure as an SVG file.
    pub fn file(&self) -> String {
        standalone(&self.drawing)
    }
}
