//! Policers and shaped queues of ports.
//!
//! A policer ([`Policer`], [`Meter`]) colours received packets by rates and bursts, and drops or remarks those above
//! them. Shaped queues ([`Scheduler`]) hold packets that are to be sent: classes with guaranteed and maximum rates
//! ([`Htb`]), each with fair queues that CoDel keeps short ([`Codel`]). All of them take packets and time, and read no
//! clock. `dscp` reads and writes the traffic class of a packet.
//!
//! [`wrap`] adds both to a port of any kind: `police` wraps its receive queues, `shape` its transmit queues.

#![forbid(unsafe_code)]

mod classify;
mod codel;
mod dscp;
mod fq_codel;
mod htb;
mod packet;
mod police;
mod policer;
mod qos_port;
mod scheduler;
mod shape;
mod store;
#[cfg(test)]
mod tests;

pub use classify::ClassMap;
pub use codel::{Codel, CodelParams, Fifo};
pub use dscp::{Colours, mark_congestion, priority, set_dscp, traffic_class};
pub use fq_codel::{ClassCounts, FqParams, Waiting};
pub use htb::{ClassRates, Htb, MAX_CLASSES, MAX_DEPTH, Node};
pub use policer::{Action, Colour, Meter, Policer, Rates};
pub use qos_port::wrap;
pub use scheduler::{ClassConfig, Drops, Scheduler};
pub use shape::{Shaper, ShaperConfig};
