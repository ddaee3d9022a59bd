//! The study's results: one shape for every memory, which can be stored and read back.

use serde::{Deserialize, Serialize};

use super::setting::{Direction, VARIANTS};
use crate::batch::checkpoint::CheckpointError;
use crate::results::ConstantRow;
use measure::Estimate;
use measure::Kind;

/// What a file of this study says of itself, so that none is taken for results of the other one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Study {
    /// The second one
    #[default]
    Copies,
}

/// A set of results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// Which study
    pub study: Study,
    /// Which memory
    pub memory: Kind,
    /// Of which processor: a profile's name, or the one it ran on
    pub processor: String,
    /// What a cost is given in, a packet each
    pub unit: String,
    /// What made the order of real runs
    pub seed: u64,
    /// What simulated results rest on
    pub constants: Vec<ConstantRow>,
    /// One for each variant, direction and size
    pub rows: Vec<Row>,
    /// What a reader must know: what was left out and why, what was discarded
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
    /// A packet's cost, in the set's unit
    pub cost: f64,
    /// The same with its interval, where there were rounds
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Estimate>,
    /// Over the base's of the same size (warm copies: over those of the base's warm ones), and of the same round where there were
    /// rounds; else the ends are the ratio itself
    pub ratio: Option<Estimate>,
}

/// What one copy costs, as table, plot and order look it up.
type Key<'a> = (&'a str, Direction, u64);

impl Results {
    /// A set of these bytes; none, if they say that they are something else. Its numbers are judged.
    pub fn parse(bytes: &[u8]) -> Result<Option<Results>, CheckpointError> {
        /// As much as any set of results of the laboratory has.
        #[derive(Deserialize)]
        struct Tagged {
            study: Option<serde::de::IgnoredAny>,
        }
        let tagged: Tagged = serde_json::from_slice(bytes).map_err(CheckpointError::NotResults)?;
        if tagged.study.is_none() {
            return Ok(None);
        }
        let results: Results = serde_json::from_slice(bytes).map_err(CheckpointError::NotResults)?;
        results.rows.iter().try_for_each(validate)?;
        Ok(Some(results))
    }

    /// One row, if it is there.
    pub fn row(&self, (variant, direction, size): Key<'_>) -> Option<&Row> {
        let is = |row: &&Row| row.variant == variant && row.direction == direction && row.size == size;
        self.rows.iter().find(is)
    }

    /// A packet's cost by one row, if it is there.
    pub fn cost(&self, variant: &str, direction: Direction, size: u64) -> Option<f64> {
        self.row((variant, direction, size)).map(|row| row.cost)
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

    /// Whether it was computed and not measured.
    pub fn is_simulated(&self) -> bool {
        self.memory == Kind::Simulated
    }
}

/// Whether the list knows the name as one whose copies are warm; other names are as good as cold.
pub fn is_warm(name: &str) -> bool {
    VARIANTS.iter().any(|variant| variant.name == name && variant.is_warm())
}

fn validate(row: &Row) -> Result<(), CheckpointError> {
    let ends = |estimate: Option<Estimate>| estimate.map(|found| [found.median, found.low, found.high]);
    let numbers = [row.cost].into_iter();
    let numbers =
        numbers.chain(ends(row.interval).into_iter().flatten()).chain(ends(row.ratio).into_iter().flatten());
    match numbers.into_iter().find(|number| !(number.is_finite() && *number > 0.0)) {
        Some(wrong) => {
            let row = format!("{}, {}, {} bytes", row.variant, row.direction.name(), row.size);
            Err(CheckpointError::Impossible { row, what: format!("a cost or ratio of {wrong}") })
        }
        None => Ok(()),
    }
}
