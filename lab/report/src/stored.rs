//! Result files of all commands: detects the kind from the schema.

use measure::store::{StoreError, Stored, expected, parse, schema};
use studies::copystudy;
use studies::paths::study::PathResults;
use studies::results::Results;
use studies::{stack, usage};

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
    /// Results of the studies of the TCP/IP stack.
    Stack(Box<stack::Results>),
}

const SCHEMAS: [(&str, u32); 5] = [
    (Results::NAME, Results::VERSION),
    (copystudy::Results::NAME, copystudy::Results::VERSION),
    (PathResults::NAME, PathResults::VERSION),
    (usage::Results::NAME, usage::Results::VERSION),
    (stack::Results::NAME, stack::Results::VERSION),
];

impl ResultFile {
    /// Parses and validates a file.
    pub fn parse(bytes: &[u8]) -> Result<ResultFile, StoreError> {
        let found = schema(bytes)?;
        match found.name.as_str() {
            Results::NAME => parse(bytes).map(|found| ResultFile::Model(Box::new(found))),
            copystudy::Results::NAME => parse(bytes).map(|found| ResultFile::Copies(Box::new(found))),
            PathResults::NAME => parse(bytes).map(|found| ResultFile::Paths(Box::new(found))),
            usage::Results::NAME => parse(bytes).map(|found| ResultFile::Usage(Box::new(found))),
            stack::Results::NAME => parse(bytes).map(|found| ResultFile::Stack(Box::new(found))),
            _ => Err(StoreError::OtherSchema { found, expected: expected(&SCHEMAS) }),
        }
    }
}
