//! The study's results: one format for every memory, which can be stored and read back.

use serde::{Deserialize, Serialize};

use super::setting::{Direction, VARIANTS};
use crate::results::ConstantRow;
use measure::Estimate;
use measure::Kind;
use measure::store::{StoreError, Stored};

/// A set of results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
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

impl Stored for Results {
    const NAME: &'static str = "linerate-lab-copies";
    type Provenance = Results;
    type Record = Row;

    fn parts(&self) -> (Results, Vec<Row>) {
        (Results { rows: Vec::new(), ..self.clone() }, self.rows.clone())
    }

    fn combine(provenance: Results, rows: Vec<Row>) -> Result<Self, StoreError> {
        for (n, row) in rows.iter().enumerate() {
            validate(row).map_err(|reason| StoreError::record(n, reason))?;
        }
        Ok(Results { rows, ..provenance })
    }

    /// Results are stored once, so files are not resumed.
    fn differences(&self, _here: &Self) -> Vec<String> {
        vec!["a copy study is stored as a whole".to_owned()]
    }
}

impl Results {
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

fn validate(row: &Row) -> Result<(), String> {
    let ends = |estimate: Option<Estimate>| estimate.map(|found| [found.median, found.low, found.high]);
    let numbers = [row.cost].into_iter();
    let numbers =
        numbers.chain(ends(row.interval).into_iter().flatten()).chain(ends(row.ratio).into_iter().flatten());
    match numbers.into_iter().find(|number| !(number.is_finite() && *number > 0.0)) {
        Some(wrong) => {
            let row = format!("{}, {}, {} bytes", row.variant, row.direction.name(), row.size);
            Err(format!("`{row}` has a cost or ratio of {wrong}"))
        }
        None => Ok(()),
    }
}
