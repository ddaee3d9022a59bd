//! OpenFlow bridges as a pipeline: workers, their caches, and the control API.
//!
//! A worker (`worker`) takes a burst, finds the bridge of its port (`directory`), and looks each packet up: by its first
//! bytes in the head cache, by its key in the megaflow cache, and in the tables, in this order (`lookup`). If the tables
//! look at nothing but the ingress port, the burst is not looked at either. The result is a program (`program`) that the
//! worker executes on the packet (`execute`). [`FlowSwitch`] is the control API.
//!
//! A worker never waits for control and takes snapshots of the tables at burst boundaries only. Nothing is written that
//! other workers write, except counters once a millisecond, and the rates of meters. Packets of other ports,
//! and those for the port `NORMAL`, go to the pipeline that the switch was created with.

mod directory;
mod execute;
mod lookup;
mod program;
mod switch;
mod worker;

#[cfg(test)]
mod tests;

pub use switch::{AddBridgeError, AddPortError, CacheCounts, ChangeError, FlowSwitch, UnknownBridge};
