//! State of a running switch that another process continues, as messages of the exchange (`takeover`).
//!
//! Flow tables are read while packets pass, without controllers, so that nothing changes them. Connections are read at
//! the same time, and after the ports have stopped those that have changed since. Counters follow when the ports run in
//! the other process. Times are those of one clock: the other process continues it.

use conntrack::{SavedChanges, SavedExpectation};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

/// The clock `CLOCK_MONOTONIC`, which all processes share, in nanoseconds.
pub(crate) fn monotonic() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

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

/// Packets and bytes.
pub(crate) type Counts = (u64, u64);

/// Tables of a bridge. Messages are in hexadecimal digits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SavedBridge {
    pub(super) name: String,
    /// Whether it ignores its tables because no controller is connected.
    pub(super) standalone: bool,
    pub(super) drops_fragments: bool,
    /// Tables that remove their least important flow for a new one.
    pub(super) evicting: Vec<u8>,
    /// Bits of `ofp_port_config`, by number.
    pub(super) ports: BTreeMap<u32, u32>,
    /// Bindings of options to fields, if there are any.
    pub(super) options: Option<String>,
    /// Each with the time at which it was added.
    pub(super) meters: Vec<(String, u64)>,
    pub(super) groups: Vec<(String, u64)>,
    pub(super) flows: Vec<SavedFlow>,
}

/// A flow. Times are in nanoseconds of the clock of both processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SavedFlow {
    pub(super) message: String,
    pub(super) created: u64,
    pub(super) used: u64,
    pub(super) refreshed: u64,
    pub(super) counts: Counts,
}

/// Counters of a bridge.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SavedCounters {
    pub(super) name: String,
    /// Flows with packets since they were read: their position, what was added, and the time of the last packet.
    pub(super) flows: Vec<(usize, Counts, u64)>,
    /// Number and counters of each group, and those of its buckets.
    pub(super) groups: Vec<(u32, Counts, Vec<Counts>)>,
    /// The same of meters and their bands.
    pub(super) meters: Vec<(u32, Counts, Vec<Counts>)>,
}
