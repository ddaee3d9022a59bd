//! The study's results: one shape for every memory, which can be stored and read back.

use serde::{Deserialize, Serialize};

use super::setting::Direction;
use crate::cache::results::{ConstantRow, Kind};

/// A set of results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// Which memory
    pub memory: Kind,
    /// Of which processor: a profile's name, or the one it ran on
    pub processor: String,
    /// What simulated results rest on
    pub constants: Vec<ConstantRow>,
    /// One for each variant, direction and size
    pub rows: Vec<Row>,
    /// What a reader must know
    pub notes: Vec<String>,
}

/// What one copy costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The variant's name
    pub variant: String,
    /// Which copy
    pub direction: Direction,
    /// Bytes of a packet
    pub size: u64,
    /// Cycles per packet
    pub cycles: f64,
}

fn format_name(name: &str) -> String {
    format!("{name:16}")
}

impl Results {
    /// Cycles per packet of one row, if it is there.
    pub fn cycles(&self, variant: &str, direction: Direction, size: u64) -> Option<f64> {
        let is = |row: &&Row| row.variant == variant && row.direction == direction && row.size == size;
        self.rows.iter().find(is).map(|row| row.cycles)
    }

    /// The variants, in the order of their first rows.
    pub fn variants(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for row in &self.rows {
            if !names.contains(&row.variant.as_str()) {
                names.push(&row.variant);
            }
        }
        names
    }

    /// The sizes, ascending.
    pub fn sizes(&self) -> Vec<u64> {
        let mut sizes: Vec<u64> = self.rows.iter().map(|row| row.size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// One direction as text: a line for each variant, a column for each size.
    pub fn table(&self, direction: Direction) -> String {
        let sizes = self.sizes();
        let mut text = format_name("cycles/packet");
        text.extend(sizes.iter().map(|size| format!("{size:>9}")));
        for variant in self.variants() {
            text.push('\n');
            text.push_str(&format_name(variant));
            let cell = |size: &u64| self.cycles(variant, direction, *size);
            let show = |cycles: Option<f64>| cycles.map_or_else(|| " ".repeat(9), |c| format!("{c:9.1}"));
            text.extend(sizes.iter().map(|size| show(cell(size))));
        }
        text + "\n"
    }
}
