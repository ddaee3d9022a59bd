//! The study's results: one format for every memory, which can be stored and read back.

use serde::{Deserialize, Serialize};

use super::setting::{Direction, VARIANTS};
use crate::batch::checkpoint::CheckpointError;
use crate::results::ConstantRow;
use measure::Estimate;
use measure::Kind;

/// Study tag of a result file, which distinguishes it from files of the other study.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Study {
    /// The second study
    #[default]
    Copies,
}

/// A set of results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// Study tag
    pub study: Study,
    /// Memory kind
    pub memory: Kind,
    /// Processor: a profile's name, or that of the host
    pub processor: String,
    /// Unit of costs, per packet
    pub unit: String,
    /// Seed of the order of real runs
    pub seed: u64,
    /// Constants of simulated results
    pub constants: Vec<ConstantRow>,
    /// One row per variant, direction and size
    pub rows: Vec<Row>,
    /// Notes for the reader: omissions with reasons, discarded slices
    pub notes: Vec<String>,
}

/// Cost of one copy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Variant name
    pub variant: String,
    /// Copy direction
    pub direction: Direction,
    /// Packet size in bytes
    pub size: u64,
    /// Cost per packet in the set's unit
    pub cost: f64,
    /// Cost with its interval, if there were rounds
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Estimate>,
    /// Ratio to the reference at the same size (warm copies: to the base's warm ones), and of the same round if there
    /// were rounds; otherwise both bounds equal the ratio
    pub ratio: Option<Estimate>,
}

/// Lookup key of a cost for tables, plots and orders.
type Key<'a> = (&'a str, Direction, u64);

impl Results {
    /// Parses and validates a set; returns `None` if the bytes hold other results.
    pub fn parse(bytes: &[u8]) -> Result<Option<Results>, CheckpointError> {
        /// Fields common to all result sets of the laboratory.
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

    /// Returns one row, if present.
    pub fn row(&self, (variant, direction, size): Key<'_>) -> Option<&Row> {
        let is = |row: &&Row| row.variant == variant && row.direction == direction && row.size == size;
        self.rows.iter().find(is)
    }

    /// Returns a packet's cost, if present.
    pub fn cost(&self, variant: &str, direction: Direction, size: u64) -> Option<f64> {
        self.row((variant, direction, size)).map(|row| row.cost)
    }

    /// Returns the variants, in the order of their first rows.
    pub fn variants(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for row in &self.rows {
            if !names.contains(&row.variant.as_str()) {
                names.push(&row.variant);
            }
        }
        names
    }

    /// Returns the sizes, ascending.
    pub fn sizes(&self) -> Vec<u64> {
        let mut sizes: Vec<u64> = self.rows.iter().map(|row| row.size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// Whether the results are simulated.
    pub fn is_simulated(&self) -> bool {
        self.memory == Kind::Simulated
    }
}

/// Whether the name is that of a warm variant; unknown names count as cold.
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
