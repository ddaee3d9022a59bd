//! Result files, replaced atomically, so that a reader or an interrupted process leaves the last complete set.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

/// Error of reading, checking or writing a result file.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The file does not exist or is not readable
    #[error("the file cannot be read: {0}")]
    Unreadable(#[source] io::Error),
    /// The file is not a result file
    #[error("it is not a result file of the laboratory: {0}")]
    NotResults(#[source] serde_json::Error),
    /// A value is impossible
    #[error("`{row}` has {what}, which is invalid, so the file is rejected")]
    Impossible {
        /// Configuration
        row: String,
        /// Description of the invalid value
        what: String,
    },
    /// The build, memory, profile, machine, number of packets or seed differs
    #[error("the file's results have other options and cannot be combined with these: {0}")]
    OtherProvenance(String),
    /// The file cannot be written
    #[error("the results cannot be written: {0}")]
    NotWritten(#[source] io::Error),
}

/// Writes to `<path>.partial`, then renames it to `path`.
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
