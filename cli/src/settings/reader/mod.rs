//! Reads typed values and collects errors with their places, from TOML and JSON.
//!
//! Independent of the topology: `node` is the tree of values, `fields` reads one of its sections, `notes` collects
//! errors, `syntax` converts errors of the TOML parser, `words` suggests names, and `validation`, `paths` and `files`
//! are used by the kinds of port.

pub(crate) mod fields;
pub(crate) mod files;
pub(crate) mod key;
pub(crate) mod node;
pub(crate) mod notes;
pub(crate) mod paths;
mod place;
pub(crate) mod shape;
pub(crate) mod syntax;
pub(crate) mod validation;
pub(crate) mod words;
