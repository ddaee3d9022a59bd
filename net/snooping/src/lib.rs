//! IGMP and MLD snooping (RFC 4541): which ports of a bridge receive which multicast groups.
//!
//! A [`Snooper`] takes membership messages and time, and returns queries to send and a [`Table`] for the workers of the
//! bridge. `message` is the parser (IGMP: RFC 1112, 2236, 3376; MLD: RFC 2710, 3810), `member` the state of one port in
//! one group, `querier` the election and the queries of a VLAN, `traffic` what a worker does with a multicast packet.
//!
//! Nothing here reads a clock, sends or waits. Memory is bounded for each port and each bridge. Sources are tracked, so
//! that a membership ends with its last source, but packets are not filtered by source.

#![forbid(unsafe_code)]

mod config;
mod counts;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
mod member;
mod message;
mod querier;
mod queries;
mod query;
mod report;
mod snooper;
mod table;
#[cfg(test)]
mod tests;
mod traffic;

pub use config::{Config, PortConfig, Querier, RouterPort};
pub use counts::Counts;
pub use member::MAX_SOURCES;
pub use message::{Body, Change, Message, MessageError, Record};
pub use queries::Query;
pub use report::{GroupStatus, QuerierStatus, RouterStatus};
pub use snooper::Snooper;
pub use table::{Receivers, Table};
pub use traffic::Traffic;
