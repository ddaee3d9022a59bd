//! A file of results, whichever command kept it: told apart by what it says of itself, and judged.

use studies::batch::checkpoint;
use studies::batch::checkpoint::CheckpointError;
use studies::copystudy;
use studies::paths::study::PathResults;
use studies::results::Results;
use studies::usage;

/// What a file holds.
#[derive(Debug)]
pub enum ResultFile {
    /// Results of the model.
    Model(Box<Results>),
    /// Of the study of copies.
    Copies(Box<copystudy::Results>),
    /// Of linerate's own path.
    Paths(Box<PathResults>),
    /// Of the studies of use.
    Usage(Box<usage::Results>),
}

impl ResultFile {
    /// Reads a file's bytes and judges their numbers.
    pub fn parse(bytes: &[u8]) -> Result<ResultFile, CheckpointError> {
        if let Some(results) = PathResults::parse(bytes) {
            return Ok(ResultFile::Paths(Box::new(results)));
        }
        if let Some(results) = usage::checkpoint::parse(bytes)? {
            return Ok(ResultFile::Usage(Box::new(results)));
        }
        match copystudy::Results::parse(bytes)? {
            Some(results) => Ok(ResultFile::Copies(Box::new(results))),
            None => checkpoint::parse(bytes).map(|results| ResultFile::Model(Box::new(results))),
        }
    }
}
