//! Result files of all commands: detects the kind from the contents and validates them.

use studies::batch::checkpoint;
use studies::batch::checkpoint::CheckpointError;
use studies::copystudy;
use studies::paths::study::PathResults;
use studies::results::Results;
use studies::usage;

/// Contents of a result file.
#[derive(Debug)]
pub enum ResultFile {
    /// Results of the model.
    Model(Box<Results>),
    /// Results of the copy study.
    Copies(Box<copystudy::Results>),
    /// Results of linerate's own path.
    Paths(Box<PathResults>),
    /// Results of the usage studies.
    Usage(Box<usage::Results>),
}

impl ResultFile {
    /// Parses and validates a file.
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
