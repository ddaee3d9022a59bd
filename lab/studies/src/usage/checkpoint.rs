//! Result files of usage experiments: validated when read, replaced as a whole after each reading, and resumed by runs
//! with the same settings.

use super::Results;
use crate::batch::checkpoint::CheckpointError;
use measure::provenance::{Machine, Provenance};
use measure::store::replace;
use serde::{Deserialize, Deserializer};
use std::fs;
use std::path::{Path, PathBuf};

/// Tag of these result files.
pub const KIND: &str = "linerate lab usage";

/// Parses results and validates their numbers; returns `None` if the bytes hold other results.
pub fn parse(bytes: &[u8]) -> Result<Option<Results>, CheckpointError> {
    /// Fields that identify such a file, including files from before the tag existed.
    #[derive(Deserialize)]
    struct Tagged {
        kept: Option<serde_json::Value>,
        batching: Option<serde::de::IgnoredAny>,
        mistake: Option<serde::de::IgnoredAny>,
        budget: Option<serde::de::IgnoredAny>,
    }
    let tagged: Tagged = serde_json::from_slice(bytes).map_err(CheckpointError::NotResults)?;
    let is_ours = match tagged.kept {
        Some(kept) => kept == KIND,
        None => tagged.batching.is_some() || tagged.mistake.is_some() || tagged.budget.is_some(),
    };
    if !is_ours {
        return Ok(None);
    }
    let results: Results = serde_json::from_slice(bytes).map_err(CheckpointError::NotResults)?;
    validate(&results)?;
    Ok(Some(results))
}

/// Validates the rates and fractions of the results.
fn validate(results: &Results) -> Result<(), CheckpointError> {
    let rows = results.batching.iter().flat_map(|row| {
        let load = row.load.unwrap_or_default();
        [row.received_pps, row.sent_pps, row.loss, row.jitter_ns, load].map(|value| ("batching", value))
    });
    let stages = results.mistake.iter().map(|stage| ("mistake", stage.mpps));
    match rows.chain(stages).find(|(_, value)| !(value.is_finite() && *value >= 0.0)) {
        Some((row, wrong)) => {
            Err(CheckpointError::Impossible { row: row.to_owned(), what: format!("a number of {wrong}") })
        }
        None => Ok(()),
    }
}

/// Deserializes a number that JSON cannot represent: `null` becomes NaN.
pub(crate) fn any_number<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(from)?.unwrap_or(f64::NAN))
}

/// The result file, if there is one.
#[derive(Debug)]
pub struct CheckpointWriter {
    path: Option<PathBuf>,
}

impl CheckpointWriter {
    /// Resumes a file if it exists, with its contents, else creates it. `results` holds the settings of the results to
    /// come.
    pub fn open(
        path: Option<PathBuf>,
        results: Results,
    ) -> Result<(CheckpointWriter, Results), CheckpointError> {
        let writer = CheckpointWriter { path };
        if let Some(path) = writer.path.as_ref().filter(|path| path.exists()) {
            let bytes = fs::read(path).map_err(CheckpointError::Unreadable)?;
            let found = parse(&bytes)?.ok_or_else(|| {
                CheckpointError::NotResults(serde::de::Error::custom(
                    "it was not kept by `linerate lab usage`",
                ))
            })?;
            let differences = differences(&found, &results);
            if !differences.is_empty() {
                return Err(CheckpointError::OtherProvenance(differences.join("; ")));
            }
            return Ok((writer, found));
        }
        writer.replace(&results)?;
        Ok((writer, results))
    }

    /// Path of the file.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Replaces the file's contents by `results`, which include the earlier ones.
    pub fn replace(&self, results: &Results) -> Result<(), CheckpointError> {
        let Some(path) = &self.path else { return Ok(()) };
        replace(path, results).map_err(CheckpointError::NotWritten)
    }
}

/// Returns all differences in settings and provenance between `there` and `here`.
fn differences(there: &Results, here: &Results) -> Vec<String> {
    let mut differences = Vec::new();
    if there.slice_ms != here.slice_ms {
        let shown =
            |slice: Option<u64>| slice.map_or("a length not told".to_owned(), |ms| format!("{ms} ms"));
        let (there, here) = (shown(there.slice_ms), shown(here.slice_ms));
        differences.push(format!("readings of {there} there, {here} here"));
    }
    match (provenance(there), provenance(here)) {
        (Some(there), Some(here)) => differences.extend(there.differences(&here)),
        (None, Some(_)) => differences.push("where they were made is not told there".to_owned()),
        (_, None) => {}
    }
    differences
}

fn provenance(results: &Results) -> Option<Provenance> {
    let place = results.environment.as_ref()?;
    let cpu = |cpu: Option<usize>| cpu.map_or("any".to_owned(), |cpu| cpu.to_string());
    let seats = format!("measured on CPU {} with CPU {}", cpu(place.used.switch), cpu(place.used.generator));
    let machine = Machine { processor: place.processor.clone(), cpus: place.cpus, pinning: seats };
    Some(Provenance { build: place.build.clone(), profile: None, machine: Some(machine) })
}
