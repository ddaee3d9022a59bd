//! State of a running switch that another process continues, as messages of the exchange (`takeover`).
//!
//! Flow tables are read while packets pass, without controllers, so that nothing changes them. Connections are read at
//! the same time, and after the ports have stopped those that have changed since. Counters follow when the ports run in
//! the other process. Times are those of one clock: the other process continues it.

use super::flows::saved::{SavedBridge, SavedCounters};
use crate::takeover::monotonic;
use conntrack::{SavedChanges, SavedExpectation};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

/// Numbers of the ports of a bridge, by name.
pub(crate) type Numbers = BTreeMap<String, u32>;

/// What a switch must know at its start to continue another one.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Continued {
    /// Origin of the clock, a time of `CLOCK_MONOTONIC` in nanoseconds; absent for a new clock.
    pub(crate) origin: Option<u64>,
    /// Numbers of ports, by bridge.
    pub(crate) numbers: BTreeMap<String, Numbers>,
    /// Numbers that ports had when the flows of the file were added, by bridge.
    pub(crate) of_file: BTreeMap<String, Numbers>,
}

impl Continued {
    /// Time of the clock at its start.
    pub(crate) fn age(&self) -> Duration {
        self.origin.map_or(Duration::ZERO, |origin| Duration::from_nanos(monotonic().saturating_sub(origin)))
    }
}

/// When state is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SaveStep {
    /// Packets pass.
    Running,
    /// The ports have stopped.
    Stopped,
    /// The ports run in the other process.
    Counters,
}

/// A part of the state. Each step ends with [`StateMessage::End`].
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum StateMessage {
    /// Tables of a bridge.
    Bridge(Box<SavedBridge>),
    /// Changes of connections, and the names of the ports that they name by number.
    Connections(BTreeMap<u16, String>, Vec<SavedChanges>),
    /// Connections that helpers expect.
    Expectations(Vec<SavedExpectation>),
    /// DHCP leases of a port, each with the second of the clock at which it ends.
    Leases(String, Vec<(IpAddr, u32)>),
    /// Counters of a bridge.
    Counters(Box<SavedCounters>),
    End,
}
