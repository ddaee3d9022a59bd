//! Result files of usage experiments: a record per reading, replaced as a whole after each reading, and resumed by runs
//! with the same settings.

use super::{
    Results, Study, batching, budget, burst_mismatch, comparison, entries, models, placement, scaling,
};
use measure::provenance::{Machine, Provenance};
use measure::store::{StoreError, Stored};
use serde::{Deserialize, Deserializer, Serialize};

/// A record: a reading, or the end of an experiment.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reading {
    /// A complete experiment.
    Finished(Study),
    /// Sending at once and through a buffer.
    Batching(batching::Row),
    /// The pipeline that drops packets.
    BurstMismatch(burst_mismatch::Stage),
    /// A measured stage placement.
    Placement(placement::measured::Row),
    /// A simulated stage placement.
    PlacementSimulated(placement::simulated::Row),
    /// Measured workers and queues.
    Scaling(scaling::measured::Row),
    /// Simulated workers and queues.
    ScalingSimulated(scaling::simulated::Row),
    /// Delays, calls and predictions.
    Budget(budget::Budget),
    /// Flow tables with one number of entries.
    Entries(entries::Row),
    /// Execution models.
    Models(models::Models),
    /// A switch of the comparison.
    Comparison(Box<comparison::Entry>),
}

impl Stored for Results {
    const NAME: &'static str = "linerate-lab-usage";
    type Provenance = Results;
    type Record = Reading;

    fn parts(&self) -> (Results, Vec<Reading>) {
        let Results { processor, environment, slice_ms, batching, burst_mismatch, .. } = self.clone();
        let Results { placement, placement_simulated, scaling, scaling_simulated, .. } = self.clone();
        let Results { budget, models, entries, comparison, finished, .. } = self.clone();
        let provenance = Results { processor, environment, slice_ms, ..Results::default() };
        let mut readings: Vec<Reading> = batching.into_iter().map(Reading::Batching).collect();
        readings.extend(burst_mismatch.into_iter().map(Reading::BurstMismatch));
        readings.extend(placement.into_iter().map(Reading::Placement));
        readings.extend(placement_simulated.into_iter().map(Reading::PlacementSimulated));
        readings.extend(scaling.into_iter().map(Reading::Scaling));
        readings.extend(scaling_simulated.into_iter().map(Reading::ScalingSimulated));
        readings.extend(budget.map(Reading::Budget));
        readings.extend(models.map(Reading::Models));
        readings.extend(entries.into_iter().map(Reading::Entries));
        readings.extend(comparison.into_iter().map(|entry| Reading::Comparison(Box::new(entry))));
        readings.extend(finished.into_iter().map(Reading::Finished));
        (provenance, readings)
    }

    fn combine(mut results: Results, readings: Vec<Reading>) -> Result<Self, StoreError> {
        for (n, reading) in readings.into_iter().enumerate() {
            validate(&reading).map_err(|reason| StoreError::record(n, reason))?;
            match reading {
                Reading::Finished(study) => results.finished.push(study),
                Reading::Batching(row) => results.batching.push(row),
                Reading::BurstMismatch(stage) => results.burst_mismatch.push(stage),
                Reading::Placement(row) => results.placement.push(row),
                Reading::PlacementSimulated(row) => results.placement_simulated.push(row),
                Reading::Scaling(row) => results.scaling.push(row),
                Reading::ScalingSimulated(row) => results.scaling_simulated.push(row),
                Reading::Budget(budget) => results.budget = Some(budget),
                Reading::Models(models) => results.models = Some(models),
                Reading::Entries(row) => results.entries.push(row),
                Reading::Comparison(entry) => results.comparison.push(*entry),
            }
        }
        Ok(results)
    }

    fn differences(&self, here: &Self) -> Vec<String> {
        differences(self, here)
    }
}

/// Validates the rates and fractions of a reading.
fn validate(reading: &Reading) -> Result<(), String> {
    let numbers = match reading {
        Reading::Batching(row) => {
            vec![row.received_pps, row.sent_pps, row.loss, row.jitter_ns, row.load.unwrap_or_default()]
        }
        Reading::BurstMismatch(stage) => vec![stage.mpps],
        Reading::Entries(row) => {
            [&[row.bridge_ns, row.flows_ns, row.added_per_second, row.bytes], &row.found[..]].concat()
        }
        _ => Vec::new(),
    };
    match numbers.into_iter().find(|value| !(value.is_finite() && *value >= 0.0)) {
        Some(wrong) => Err(format!("it has a number of {wrong}")),
        None => Ok(()),
    }
}

/// Deserializes a number that JSON cannot represent: `null` becomes NaN.
pub(crate) fn any_number<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(from)?.unwrap_or(f64::NAN))
}

/// Returns all differences in settings and provenance between `there` and `here`.
fn differences(there: &Results, here: &Results) -> Vec<String> {
    let mut differences = Vec::new();
    if there.slice_ms != here.slice_ms {
        differences.push(format!("readings of {} ms there, {} ms here", there.slice_ms, here.slice_ms));
    }
    differences.extend(provenance(there).differences(&provenance(here)));
    differences
}

fn provenance(results: &Results) -> Provenance {
    let place = &results.environment;
    let cpu = |cpu: Option<usize>| cpu.map_or("any".to_owned(), |cpu| cpu.to_string());
    let pinning =
        format!("measured on CPU {} with CPU {}", cpu(place.used.switch), cpu(place.used.generator));
    let machine = Machine { processor: place.processor.clone(), cpus: place.cpus, pinning };
    Provenance { build: place.build.clone(), profile: None, machine: Some(machine) }
}
