//! What a switch is configured to be: values, their keys in a file, and their validation.
//!
//! `reader` reads single values. `kinds` has one file for each kind of port, `security` and `wrappers` what ports of all
//! kinds may have besides, `access` who may connect to their sockets, `model` and `placement` what workers do and where they run; `topology` is all of it as one
//! value. `config` reads and validates a whole file or a request, `recording` the files that ports play, and `section`
//! prints a port as it would stand in a file.

pub(crate) mod access;
pub(crate) mod config;
pub(crate) mod kinds;
pub(crate) mod model;
pub(crate) mod placement;
pub(crate) mod reader;
pub(crate) mod recording;
pub(crate) mod section;
pub(crate) mod security;
pub(crate) mod topology;
pub(crate) mod value;
pub(crate) mod wrappers;
