//! The running switch: creates an engine with bridges and ports from settings.
//!
//! `interface` is the interface used by the control API and `run`, `report`, `bond_report`, `flow_report` and
//! `link_report` its results, and `switch` its implementation. `flows` has the flow tables of OpenFlow bridges,
//! `controllers` the connections to their controllers, `connections` lists what they track, and `tunnels`
//! their tunnels. `links` runs the
//! protocols between neighbours. `open` opens ports, `logged` logs their events within `log_limit`, and `convert`
//! converts settings to those of the libraries.

pub(crate) mod bond_report;
pub(crate) mod connections;
mod controllers;
mod convert;
pub(crate) mod flow_report;
mod flows;
pub(crate) mod interface;
pub(crate) mod link_report;
mod links;
mod log_limit;
mod logged;
pub(crate) mod open;
pub(crate) mod report;
pub(crate) mod switch;
pub(crate) mod tunnels;
