//! Result files of the studies of the stack: a record per reading, appended as it is taken.

use super::study::{Cell, Study};
use measure::provenance::{Machine, Provenance};
use measure::statistics::median;
use measure::store::{StoreError, Stored};
use rfc2544::Environment;
use serde::{Deserialize, Serialize};

/// One reading of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// Study.
    pub study: Study,
    /// Variant.
    pub variant: String,
    /// Position on the axis of the study.
    pub at: u64,
    /// Round, from 1.
    pub round: u32,
    /// Value in the unit of the study.
    pub value: f64,
    /// Values of [`Study::more`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub more: Vec<f64>,
    /// Round trip of a cache line between the two CPUs in nanoseconds, the larger one of before and after; `None` for
    /// studies on one CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distance_ns: Option<f64>,
}

/// Results of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Results {
    /// Processor name.
    pub processor: String,
    /// Environment of the measurement.
    pub environment: Environment,
    /// Requests of a reading.
    pub requests: u64,
    /// Readings, in the order in which they were taken.
    #[serde(default)]
    pub readings: Vec<Reading>,
}

/// Ratio of a variant to the first one of its study.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// Median of the ratios of the rounds.
    pub median: f64,
    /// Least and largest ratio of a round.
    pub range: (f64, f64),
}

impl Results {
    /// Whether there is a reading of this cell in this round.
    pub fn has(&self, round: u32, cell: &Cell) -> bool {
        self.of(cell).any(|reading| reading.round == round)
    }

    /// The readings of a cell.
    pub fn of(&self, cell: &Cell) -> impl Iterator<Item = &Reading> {
        let cell = *cell;
        self.readings.iter().filter(move |reading| {
            reading.study == cell.study && reading.variant == cell.variant && reading.at == cell.at
        })
    }

    /// The cells of a study that have readings, by position and then by variant.
    pub fn cells(&self, study: Study) -> Vec<Cell> {
        let cells = study.cells(u64::MAX).into_iter();
        cells.filter(|cell| self.of(cell).next().is_some()).collect()
    }

    /// Median of a cell.
    pub fn median(&self, cell: &Cell) -> Option<f64> {
        median(&mut self.of(cell).map(|reading| reading.value).collect::<Vec<_>>())
    }

    /// Median of the `n`-th further value of a cell.
    pub fn more(&self, cell: &Cell, n: usize) -> Option<f64> {
        median(&mut self.of(cell).filter_map(|reading| reading.more.get(n).copied()).collect::<Vec<_>>())
    }

    /// Ratio of a cell to the first variant at the same position, from rounds that have both. `None` for that variant.
    pub fn ratio(&self, cell: &Cell) -> Option<Ratio> {
        let first = Cell { variant: cell.study.variants().first()?, ..*cell };
        let base = |round| self.of(&first).find(|reading| reading.round == round);
        let each = self.of(cell).filter_map(|reading| Some(reading.value / base(reading.round)?.value));
        let mut each: Vec<f64> = each.collect();
        let median = median(&mut each).filter(|_| first != *cell)?;
        let range = (each.first().copied()?, each.last().copied()?);
        Some(Ratio { median, range })
    }

    /// The least position from which on a variant is better than the first one at every larger position.
    pub fn better_from(&self, study: Study, variant: &str) -> Option<u64> {
        let cells = self.cells(study).into_iter().filter(|cell| cell.variant == variant);
        let ratios: Vec<_> = cells.filter_map(|cell| Some((cell.at, self.ratio(&cell)?.median))).collect();
        let is_better = |ratio: f64| if study.is_cost() { ratio < 1.0 } else { ratio > 1.0 };
        let better = ratios.iter().rev().take_while(|(_, ratio)| is_better(*ratio));
        better.last().map(|(at, _)| *at)
    }
}

impl Stored for Results {
    const NAME: &'static str = "linerate-lab-stack";
    type Provenance = Results;
    type Record = Reading;

    fn parts(&self) -> (Results, Vec<Reading>) {
        (Results { readings: Vec::new(), ..self.clone() }, self.readings.clone())
    }

    fn combine(provenance: Results, readings: Vec<Reading>) -> Result<Self, StoreError> {
        for (n, reading) in readings.iter().enumerate() {
            validate(reading).map_err(|reason| StoreError::record(n, reason))?;
        }
        Ok(Results { readings, ..provenance })
    }

    fn differences(&self, here: &Self) -> Vec<String> {
        let mut differences = Vec::new();
        if self.requests != here.requests {
            differences.push(format!("{} requests a reading there, {} here", self.requests, here.requests));
        }
        differences.extend(provenance(self).differences(&provenance(here)));
        differences
    }
}

fn validate(reading: &Reading) -> Result<(), String> {
    if !(reading.value.is_finite() && reading.value > 0.0) {
        return Err(format!("it has a value of {}", reading.value));
    }
    if !reading.study.variants().contains(&reading.variant.as_str()) {
        return Err(format!("study {} has no variant {:?}", reading.study.name(), reading.variant));
    }
    Ok(())
}

fn provenance(results: &Results) -> Provenance {
    let place = &results.environment;
    let cpu = |cpu: Option<usize>| cpu.map_or("any".to_owned(), |cpu| cpu.to_string());
    let pinning =
        format!("measured on CPU {} with CPU {}", cpu(place.used.switch), cpu(place.used.generator));
    let machine = Machine { processor: place.processor.clone(), cpus: place.cpus, pinning };
    Provenance { build: place.build.clone(), profile: None, machine: Some(machine) }
}
