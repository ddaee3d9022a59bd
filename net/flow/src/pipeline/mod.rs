//! OpenFlow bridges as a pipeline: workers, their caches, and the control API.
//!
//! A worker (`worker`) takes a burst, finds the bridge of its port (`directory`), and looks each packet up (`pass`): by
//! its first bytes in the head cache, by its key in the megaflow cache, and in the tables, in this order (`lookup`). If
//! the tables look at nothing but the ingress port, the burst is not looked at either. The result is a program
//! (`program`) that the worker executes on the packet (`execute`), possibly with the state of its connection (`track`,
//! and for most packets `tracked`), or through a tunnel (`tunnel`, and for most packets `tunnel_runs`). Some packets
//! pass through the pipeline again (`recirculation`). [`FlowSwitch`] is the control API (`switch`, `change`),
//! `observer` receives the reports of the engine. Workers pass learned flows and what tunnels need to it (`exchange`,
//! `learn`, `underlay`), and execute its packet-outs (`packet_out`). `fast_path` is for what forwards in place of
//! workers.
//!
//! A worker never waits for control and takes snapshots of the tables at burst boundaries only. Nothing is written that
//! other workers write, except counters once a millisecond, the rates of meters, and connections. Packets of other
//! ports, and those for the port `NORMAL`, go to the pipeline that the switch was created with.

mod change;
mod directory;
mod drops;
mod error;
mod exchange;
mod execute;
mod fast_path;
#[cfg(any(test, feature = "fuzz"))]
mod fuzz;
mod learn;
mod lookup;
mod observer;
mod packet_out;
mod pass;
mod port_config;
#[cfg(any(test, feature = "fuzz"))]
mod probe;
mod program;
mod recirculation;
mod selected;
mod switch;
mod track;
mod tracked;
mod tunnel;
mod tunnel_runs;
mod underlay;
mod worker;

#[cfg(test)]
mod tests;

pub use change::check_changes;
pub use drops::TableDrops;
pub use error::{AddBridgeError, AddPortError, ChangeError, RestoreTablesError, UnknownBridge};
pub use exchange::PortEvent;
pub use fast_path::{FastRequest, FastResult};
#[cfg(any(test, feature = "fuzz"))]
pub use fuzz::fuzz_script;
pub use learn::LearnCounts;
pub use packet_out::PacketOutError;
pub use port_config::PortConfig;
pub use recirculation::TunnelCounts;
pub use switch::{CacheCounts, FlowSwitch};
pub use underlay::TunnelReport;
