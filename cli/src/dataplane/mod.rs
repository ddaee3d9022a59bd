//! The running switch: creates an engine with bridges and ports from settings.
//!
//! `interface` is the interface used by the control API and `run`, `report` and `flow_report` its results, and `switch` its
//! implementation. `flows` has the flow tables of OpenFlow bridges, `controllers` the connections to their controllers, and
//! `connections` lists what they track. `open` opens ports, `logged` logs their events, and `convert` converts settings to
//! those of the libraries.

pub(crate) mod connections;
mod controllers;
mod convert;
pub(crate) mod flow_report;
mod flows;
pub(crate) mod interface;
mod logged;
pub(crate) mod open;
pub(crate) mod report;
pub(crate) mod switch;
