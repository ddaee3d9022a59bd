//! Results in a file, replaced as a whole, so that a reader, or the end of this process, finds the last full set.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

/// Why results cannot be read, or not kept here.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// No such file, or no right to it
    #[error("the file cannot be read: {0}")]
    Unreadable(#[source] io::Error),
    /// Something else
    #[error("the file holds no results of the laboratory: {0}")]
    NotResults(#[source] serde_json::Error),
    /// A number that cannot be
    #[error("`{row}` has {what}, which cannot be, so nothing in the file can be trusted")]
    Impossible {
        /// The configuration
        row: String,
        /// What is wrong with it
        what: String,
    },
    /// By another build, memory, profile, machine, number of packets or seed
    #[error("the file's results were made otherwise and cannot stand in one set with these: {0}")]
    OtherProvenance(String),
    /// No place or no right
    #[error("the results cannot be written: {0}")]
    NotWritten(#[source] io::Error),
}

/// Writes beside the file and moves it there at once.
pub fn replace<T: Serialize>(path: &Path, results: &T) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".partial");
    let beside = PathBuf::from(beside);
    let mut file = File::create(&beside)?;
    serde_json::to_writer(&mut file, results)?;
    file.write_all(b"\n")?;
    file.sync_data()?;
    fs::rename(&beside, path)
}
