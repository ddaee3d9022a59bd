//! Reads values with their types and collects errors with their places, whether they were written as TOML or as JSON.
//!
//! Knows no topology: `node` is the tree of what was written, `fields` reads a section of it, `notes` collects errors,
//! `syntax` turns errors of the TOML parser into ours, `validation`, `paths` and `files` are what a kind of port checks with.

pub(crate) mod fields;
pub(crate) mod files;
pub(crate) mod node;
pub(crate) mod notes;
pub(crate) mod paths;
pub(crate) mod syntax;
pub(crate) mod validation;
