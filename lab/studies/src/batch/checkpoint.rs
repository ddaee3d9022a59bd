//! Result files of the model: resumed by runs with the same provenance, and extended by one row or one round at a time.

use std::path::Path;

use measure::store::{Store, StoreError, Stored};

use crate::factors::{Named, everything};
use crate::results::{Results, Row, ThreadRow};
use crate::trial::record::Record;

impl Stored for Results {
    const NAME: &'static str = "linerate-lab-run";
    type Provenance = Results;
    type Record = Row;

    fn parts(&self) -> (Results, Vec<Row>) {
        (Results { rows: Vec::new(), ..self.clone() }, self.rows.clone())
    }

    /// Validates the numbers, and sorts the rows in the order of the configuration list.
    fn combine(provenance: Results, mut rows: Vec<Row>) -> Result<Self, StoreError> {
        if provenance.trial.as_ref().is_some_and(|record| !record.is_whole()) {
            return Err(StoreError::header("a round has impossible configurations or rates"));
        }
        for (n, row) in rows.iter().enumerate() {
            validate(row).map_err(|reason| StoreError::record(n, reason))?;
        }
        sort(&mut rows);
        Ok(Results { rows, ..provenance })
    }

    fn differences(&self, here: &Self) -> Vec<String> {
        differences(self, here)
    }
}

fn sort(rows: &mut [Row]) {
    let order: Vec<String> = everything().into_iter().map(|named| named.name).collect();
    rows.sort_by_key(|row| order.iter().position(|name| *name == row.name));
}

fn validate(row: &Row) -> Result<(), String> {
    let impossible = |what: String| format!("`{}` has {what}", row.name);
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
    store: Store<Results>,
}

impl CheckpointWriter {
    /// Resumes a file if it exists, else creates it. `empty` holds the provenance of the results to come.
    pub fn open(path: Option<&Path>, empty: Results) -> Result<CheckpointWriter, StoreError> {
        let (store, results) = Store::resume(path, empty)?;
        Ok(CheckpointWriter { results, store })
    }

    /// Returns the configurations without a result.
    pub fn missing(&self, wanted: &[Named]) -> Vec<Named> {
        wanted.iter().filter(|named| self.results.row(&named.name).is_none()).cloned().collect()
    }

    /// Adds and stores a row.
    pub fn add(&mut self, row: Row) -> Result<(), StoreError> {
        self.store.append(&row)?;
        self.results.rows.push(row);
        sort(&mut self.results.rows);
        Ok(())
    }

    /// Replaces all results by those of a trial, which include the earlier ones.
    pub fn replace(&mut self, results: Results) -> Result<(), StoreError> {
        self.store.replace(&results)?;
        self.results = results;
        Ok(())
    }

    /// Results so far.
    pub fn results(&self) -> &Results {
        &self.results
    }
}

/// All differences in provenance.
fn differences(there: &Results, here: &Results) -> Vec<String> {
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
    differences
}

fn names(record: &Record) -> String {
    let names: Vec<&str> = record.slices.iter().map(|slice| slice.name.as_str()).collect();
    names.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{Plan, select};
    use measure::store::{encode, parse};
    use proptest::prelude::*;
    use sim::Profile;
    use std::fs;
    use std::num::NonZeroUsize;

    fn plan() -> Plan {
        let profile = Profile::study();
        Plan { profile, packets: 64, seed: 1, jobs: NonZeroUsize::MIN }
    }

    fn row(name: &str) -> Row {
        Row { name: name.to_owned(), mpps: 1.5, ..Row::default() }
    }

    #[test]
    fn reopened_file_has_the_stored_rows_in_list_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f.jsonl");
        let mut writer = CheckpointWriter::open(Some(&path), plan().empty()).unwrap();
        writer.add(row("d")).unwrap();
        writer.add(row("a")).unwrap();
        let again = CheckpointWriter::open(Some(&path), plan().empty()).unwrap();
        assert_eq!(again.results(), writer.results());
        let names: Vec<_> = again.results().rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["a", "d"]);
        let missing = again.missing(&select(&["base", "a", "d"]).unwrap());
        assert_eq!(missing.iter().map(|named| named.name.as_str()).collect::<Vec<_>>(), ["base"]);
    }

    #[test]
    fn different_provenance_is_rejected_with_all_differences() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f.jsonl");
        let mut earlier = plan().empty();
        earlier.provenance.build.sources = "0000000000000000".to_owned();
        CheckpointWriter::open(Some(&path), earlier).unwrap();
        let before = fs::read(&path).unwrap();
        let mut other = Plan { packets: 128, seed: 2, ..plan() };
        other.profile.transfer.hold.value = 11.0;
        let error = CheckpointWriter::open(Some(&path), other.empty()).unwrap_err();
        let text = error.to_string();
        for difference in [
            "packets 64 there, 128 here",
            "seed 1 there, 2 here",
            "transfer.hold",
            "build ",
            "sources 0000000000000000",
        ] {
            assert!(text.contains(difference), "{text}");
        }
        assert!(matches!(error, StoreError::OtherProvenance(_)));
        assert_eq!(fs::read(&path).unwrap(), before);
    }

    #[test]
    fn non_positive_rate_is_rejected() {
        let mut results = plan().empty();
        results.rows.push(Row { mpps: 0.0, ..row("a") });
        let error = parse::<Results>(&encode(&results).unwrap()).unwrap_err();
        assert_eq!(error.to_string(), "line 2 is invalid: `a` has a throughput of 0");
    }

    proptest! {
        #[test]
        fn encoded_results_parse_to_equal_results(mpps in 0.001..1000.0_f64) {
            let mut results = plan().empty();
            results.rows.push(Row { mpps, ..row("a") });
            prop_assert_eq!(parse::<Results>(&encode(&results).unwrap()).unwrap(), results);
        }
    }
}
