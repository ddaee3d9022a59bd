//! The running switch: creates an engine with bridges and ports from settings.
//!
//! `interface` is the interface used by the control API and `run`, `report` its results, and `switch` its
//! implementation. `open` opens ports, `logged` logs their events, and `convert` converts settings to those of the
//! libraries.

mod convert;
mod flows;
pub(crate) mod interface;
mod logged;
pub(crate) mod open;
pub(crate) mod report;
pub(crate) mod switch;
