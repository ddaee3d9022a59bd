//! The running switch: creates an engine with bridges and ports from settings.
//!
//! `interface` is the interface used by the control API and `run`, `report`, `bond_report`, `capture_report`,
//! `export_report`, `flow_report`, `link_report` and `offload_report` its results, and `switch` its implementation.
//! `flows` has the flow tables of OpenFlow bridges, `controllers` the connections to their controllers, `connections`
//! lists what they track, and `tunnels` their tunnels. `links` runs the protocols between neighbours and the timers of
//! bonds, `export` sends samples and counters to collectors, and `offload` is the kernel fast path. `handover` and
//! `state` are what a process that takes the switch over continues. `open` opens ports, `logged` logs their events
//! within `log_limit`, `health` finds workers that hang, and `convert` converts settings to those of the libraries.

pub(crate) mod bond_changes;
pub(crate) mod bond_report;
pub(crate) mod capture_report;
pub(crate) mod captures;
pub(crate) mod connections;
mod controllers;
mod convert;
mod export;
pub(crate) mod export_report;
pub(crate) mod flow_report;
mod flows;
pub(crate) mod handover;
pub(crate) mod health;
pub(crate) mod interface;
pub(crate) mod link_report;
mod links;
mod log_limit;
mod logged;
pub(crate) mod multicast_report;
mod offload;
mod offload_connections;
pub(crate) mod offload_report;
pub(crate) mod open;
pub(crate) mod rate_history;
pub(crate) mod report;
pub(crate) mod state;
pub(crate) mod switch;
pub(crate) mod tunnels;
