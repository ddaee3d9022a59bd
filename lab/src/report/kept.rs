//! A file of results, whichever command kept it: told apart by what it says of itself, and judged.

use crate::cache::batch::keep::{self, KeepError};
use crate::cache::copystudy;
use crate::cache::paths::study::PathResults;
use crate::cache::results::Results;
use crate::usage;

/// What a file holds.
#[derive(Debug)]
pub enum Kept {
    /// Results of the model.
    Model(Box<Results>),
    /// Of the study of copies.
    Copies(Box<copystudy::Results>),
    /// Of linerate's own path.
    Paths(Box<PathResults>),
    /// Of the studies of use.
    Usage(Box<usage::Results>),
}

impl Kept {
    /// Reads a file's bytes and judges their numbers.
    pub fn parse(bytes: &[u8]) -> Result<Kept, KeepError> {
        if let Some(results) = PathResults::parse(bytes) {
            return Ok(Kept::Paths(Box::new(results)));
        }
        if let Some(results) = usage::keep::parse(bytes)? {
            return Ok(Kept::Usage(Box::new(results)));
        }
        match copystudy::Results::parse(bytes)? {
            Some(results) => Ok(Kept::Copies(Box::new(results))),
            None => keep::parse(bytes).map(|results| Kept::Model(Box::new(results))),
        }
    }
}
