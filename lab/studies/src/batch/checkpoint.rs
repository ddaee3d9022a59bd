//! Result files: validated when read, extended by one experiment at a time, and replaced atomically.
//!
//! A file holds one result set. New results must have the provenance of those in the file; otherwise opening it is an
//! error. The file is replaced as a whole, so that a concurrent reader or a killed process leaves the last complete
//! set.

use std::fs;
use std::path::{Path, PathBuf};

pub use measure::store::CheckpointError;
use measure::store::replace;

use crate::factors::{Named, everything};
use crate::results::{Results, Row, ThreadRow};
use crate::trial::record::Record;

/// Reads a result set and validates its numbers.
pub fn read(path: &Path) -> Result<Results, CheckpointError> {
    let bytes = fs::read(path).map_err(CheckpointError::Unreadable)?;
    parse(&bytes)
}

/// Parses a file's contents and validates its numbers.
pub fn parse(bytes: &[u8]) -> Result<Results, CheckpointError> {
    let results: Results = serde_json::from_slice(bytes).map_err(CheckpointError::NotResults)?;
    results.rows.iter().try_for_each(validate)?;
    if results.trial.as_ref().is_some_and(|record| !record.is_whole()) {
        let what = "a round with other configurations or rates than it can have".to_owned();
        return Err(CheckpointError::Impossible { row: "the trial".to_owned(), what });
    }
    Ok(results)
}

fn validate(row: &Row) -> Result<(), CheckpointError> {
    let impossible = |what: String| CheckpointError::Impossible { row: row.name.clone(), what };
    if !(row.mpps.is_finite() && row.mpps > 0.0) {
        return Err(impossible(format!("a throughput of {}", row.mpps)));
    }
    let ratios = row.ratio.iter().flat_map(|ratio| [ratio.low, ratio.median, ratio.high]);
    if let Some(wrong) = ratios.into_iter().find(|ratio| !(ratio.is_finite() && *ratio > 0.0)) {
        return Err(impossible(format!("a ratio of {wrong}")));
    }
    let lines = row.lines.iter().flat_map(|line| line.hits_modified);
    let counts = row.threads.iter().flat_map(counts).chain(lines);
    match counts.into_iter().find(|count| !(count.is_finite() && *count >= 0.0)) {
        Some(wrong) => Err(impossible(format!("a count of {wrong}"))),
        None => Ok(()),
    }
}

fn counts(thread: &ThreadRow) -> [f64; 17] {
    let ThreadRow { stalls, .. } = thread;
    [
        thread.cycles,
        thread.instructions,
        thread.l1_misses,
        thread.l2_misses,
        thread.llc_misses,
        thread.hits_modified,
        thread.rfo_cycles,
        thread.rfo_demand,
        thread.rfo_ahead,
        thread.fill_full,
        stalls.l2,
        stalls.llc,
        stalls.core,
        stalls.dram,
        stalls.fills,
        stalls.stores,
        stalls.spin,
    ]
}

/// Results collected so far, and the file that holds them, if any.
#[derive(Debug)]
pub struct CheckpointWriter {
    results: Results,
    path: Option<PathBuf>,
    /// Names in row order
    order: Vec<String>,
}

impl CheckpointWriter {
    /// Resumes a file if it exists, else creates it. `results` holds the provenance of the results to come.
    pub fn open(path: Option<PathBuf>, results: Results) -> Result<CheckpointWriter, CheckpointError> {
        let order = everything().into_iter().map(|named| named.name).collect();
        let mut writer = CheckpointWriter { results, path, order };
        if let Some(path) = writer.path.as_ref().filter(|path| path.exists()) {
            let found = read(path)?;
            same(&found, &writer.results)?;
            writer.results = found;
        } else {
            writer.write()?;
        }
        Ok(writer)
    }

    /// Returns the configurations without a result.
    pub fn missing(&self, wanted: &[Named]) -> Vec<Named> {
        wanted.iter().filter(|named| self.results.row(&named.name).is_none()).cloned().collect()
    }

    /// Adds a row and writes the set. Rows are sorted in the order of the configuration list.
    pub fn add(&mut self, row: Row) -> Result<(), CheckpointError> {
        self.results.rows.push(row);
        let place = |name: &str| self.order.iter().position(|other| other == name);
        self.results.rows.sort_by_key(|row| place(&row.name));
        self.write()
    }

    /// Replaces all results by those of a trial, which include the earlier ones, and writes them.
    pub fn replace(&mut self, results: Results) -> Result<(), CheckpointError> {
        self.results = results;
        self.write()
    }

    /// Results so far.
    pub fn results(&self) -> &Results {
        &self.results
    }

    fn write(&self) -> Result<(), CheckpointError> {
        let Some(path) = &self.path else { return Ok(()) };
        replace(path, &self.results).map_err(CheckpointError::NotWritten)
    }
}

/// Checks that two sets have the same provenance.
fn same(there: &Results, here: &Results) -> Result<(), CheckpointError> {
    let mut differences = Vec::new();
    let mut compare = |what: &str, there: String, here: String| {
        if there != here {
            differences.push(format!("{what} {there} there, {here} here"));
        }
    };
    compare("memory", there.memory.name().to_owned(), here.memory.name().to_owned());
    compare("processor", there.processor.clone(), here.processor.clone());
    compare("seed", there.seed.to_string(), here.seed.to_string());
    match (&there.trial, &here.trial) {
        (Some(there), Some(here)) => {
            compare("slices of", format!("{} ms", there.slice), format!("{} ms", here.slice));
            compare("configurations", names(there), names(here));
        }
        // For a trial a pilot determines the packet count, and the file records it.
        _ => compare("packets", there.packets.to_string(), here.packets.to_string()),
    }
    for constant in &here.constants {
        let other = there.constants.iter().find(|other| other.name == constant.name);
        let other = other.map_or_else(|| "no value".to_owned(), |other| other.value.to_string());
        compare(&constant.name, other, constant.value.to_string());
    }
    differences.extend(there.provenance.differences(&here.provenance));
    if differences.is_empty() {
        Ok(())
    } else {
        Err(CheckpointError::OtherProvenance(differences.join("; ")))
    }
}

fn names(record: &Record) -> String {
    let names: Vec<&str> = record.slices.iter().map(|slice| slice.name.as_str()).collect();
    names.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{Plan, select};
    use proptest::prelude::*;
    use sim::Profile;
    use std::num::NonZeroUsize;

    fn plan() -> Plan {
        let profile = Profile::study();
        Plan { profile, packets: 64, seed: 1, jobs: NonZeroUsize::MIN }
    }

    fn row(name: &str) -> Row {
        Row { name: name.to_owned(), mpps: 1.5, ..Row::default() }
    }

    #[test]
    fn a_second_call_finds_what_the_first_kept_in_the_order_of_the_list() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f.json");
        let mut writer = CheckpointWriter::open(Some(path.clone()), plan().empty()).unwrap();
        writer.add(row("d")).unwrap();
        writer.add(row("a")).unwrap();
        let again = CheckpointWriter::open(Some(path.clone()), plan().empty()).unwrap();
        let names: Vec<_> = again.results().rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["a", "d"]);
        let missing = again.missing(&select(&["base", "a", "d"]).unwrap());
        assert_eq!(missing.iter().map(|named| named.name.as_str()).collect::<Vec<_>>(), ["base"]);
        // No temporary file remains.
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_was_made_otherwise_is_refused_with_every_difference() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f.json");
        CheckpointWriter::open(Some(path.clone()), plan().empty()).unwrap();
        let before = fs::read(&path).unwrap();
        let mut other = Plan { packets: 128, seed: 2, ..plan() };
        other.profile.transfer.hold.value = 11.0;
        let error = CheckpointWriter::open(Some(path.clone()), other.empty()).unwrap_err();
        let said = error.to_string();
        for difference in ["packets 64 there, 128 here", "seed 1 there, 2 here", "transfer.hold"] {
            assert!(said.contains(difference), "{said}");
        }
        assert!(matches!(error, CheckpointError::OtherProvenance(_)));
        assert_eq!(fs::read(&path).unwrap(), before);
    }

    #[test]
    fn what_another_build_made_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f.json");
        let mut earlier = plan().empty();
        earlier.provenance.build.sources = "0000000000000000".to_owned();
        CheckpointWriter::open(Some(path.clone()), earlier).unwrap();
        let said = CheckpointWriter::open(Some(path), plan().empty()).unwrap_err().to_string();
        assert!(said.contains("build ") && said.contains("sources 0000000000000000"), "{said}");
    }

    #[test]
    fn what_is_no_set_of_results_is_refused_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f.json");
        fs::write(&path, "{}").unwrap();
        let error = CheckpointWriter::open(Some(path.clone()), plan().empty()).unwrap_err();
        assert!(matches!(error, CheckpointError::NotResults(_)));
        assert_eq!(fs::read(&path).unwrap(), b"{}");
    }

    #[test]
    fn a_place_that_is_not_there_is_found_out_before_anything_runs() {
        let error = CheckpointWriter::open(Some("/nonexistent/f.json".into()), plan().empty()).unwrap_err();
        assert!(matches!(error, CheckpointError::NotWritten(_)));
    }

    #[test]
    fn impossible_numbers_are_refused() {
        let mut results = plan().empty();
        results.rows.push(Row { mpps: 0.0, ..row("a") });
        let bytes = serde_json::to_vec(&results).unwrap();
        assert!(matches!(parse(&bytes), Err(CheckpointError::Impossible { .. })));
    }

    proptest! {
        #[test]
        fn no_bytes_end_in_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }

        #[test]
        fn what_is_written_is_read_again(mpps in 0.001..1000.0_f64) {
            let mut results = plan().empty();
            results.rows.push(Row { mpps, ..row("a") });
            let bytes = serde_json::to_vec(&results).unwrap();
            prop_assert_eq!(parse(&bytes).unwrap(), results);
        }
    }
}
