//! The running switch: settings become an engine with its bridges and ports.
//!
//! `interface` is the switch as the control API and `run` use it, `report` what it answers, `switch` the real one. `open`
//! opens ports, `logged` writes their events, `convert` turns settings into those of the libraries.

mod convert;
pub(crate) mod interface;
mod logged;
pub(crate) mod open;
pub(crate) mod report;
pub(crate) mod switch;
