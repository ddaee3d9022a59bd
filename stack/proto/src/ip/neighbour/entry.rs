//! An entry of the neighbour cache, and what is said about it.

use super::InterfaceId;
use crate::{Address, Time};
use alloc::collections::VecDeque;
use core::time::Duration;
use wire::MacAddress;

/// Minimum reachable time, and how much longer it is at most (RFC 4861 section 10: `REACHABLE_TIME` times
/// `MIN_RANDOM_FACTOR` to `MAX_RANDOM_FACTOR`).
pub(super) const REACHABLE_TIME: (Duration, Duration) = (Duration::from_secs(15), Duration::from_secs(30));
/// `RETRANS_TIMER`.
pub(super) const RETRANSMIT_TIME: Duration = Duration::from_secs(1);
/// `DELAY_FIRST_PROBE_TIME`.
const DELAY_FIRST_PROBE: Duration = Duration::from_secs(5);
/// `MAX_MULTICAST_SOLICIT` and `MAX_UNICAST_SOLICIT`.
pub(super) const MAX_SOLICITATIONS: u8 = 3;
/// Interval in which confirmations are noted.
pub(super) const CONFIRM_INTERVAL: Duration = Duration::from_secs(1);
/// A resolved entry is unused if no packet was sent to it in this time.
pub(super) const UNUSED_TIME: Duration = Duration::from_mins(1);

/// An entry of the cache. Does not lead to another entry after its removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ip) struct NeighbourId {
    pub(super) index: u32,
    pub(super) generation: u32,
}

impl NeighbourId {
    /// No entry.
    pub(in crate::ip) const NONE: Self = Self { index: u32::MAX, generation: 0 };
}

/// State of an entry (RFC 4861 section 7.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Incomplete,
    Reachable,
    Stale,
    Delay,
    Probe,
    /// Configured.
    Static,
}

impl State {
    /// Time until which packets are sent without a change of state, and time of the next solicitation. `reachable` is
    /// the time for which a confirmation counts.
    pub(super) fn timers(self, now: Time, reachable: Duration) -> (Time, Time) {
        match self {
            Self::Incomplete => (Time(0), now.after(RETRANSMIT_TIME)),
            Self::Reachable => (now.after(reachable), Time::NEVER),
            Self::Stale => (Time(0), Time::NEVER),
            Self::Delay => (Time::NEVER, now.after(DELAY_FIRST_PROBE)),
            Self::Probe => (Time::NEVER, now.after(RETRANSMIT_TIME)),
            Self::Static => (Time::NEVER, Time::NEVER),
        }
    }
}

/// An entry.
pub(super) struct Entry<Q> {
    pub(super) generation: u32,
    pub(super) interface: InterfaceId,
    pub(super) address: Address,
    pub(super) mac: MacAddress,
    pub(super) state: State,
    /// Time until which packets are sent without a change of state.
    pub(super) fresh: Time,
    /// Solicitations sent in this state.
    pub(super) sent: u8,
    /// Time of the next solicitation.
    pub(super) due: Time,
    /// Whether the entry is in the list of those in use.
    pub(super) is_proved: bool,
    pub(super) used: Time,
    /// Packets that wait for the address.
    pub(super) queue: VecDeque<Q>,
}

/// A request for a neighbour's Ethernet address: to all hosts, or to a known address to probe it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ip) struct Solicitation {
    pub(in crate::ip) interface: InterfaceId,
    pub(in crate::ip) target: Address,
    pub(in crate::ip) mac: Option<MacAddress>,
}

/// Result of [`super::Neighbours::lookup`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ip) enum Lookup {
    /// The Ethernet address.
    Ready(MacAddress),
    /// Resolution starts with this request.
    Ask(Solicitation),
    /// Resolution is under way.
    Waiting,
    /// The table is full of entries in use.
    Full,
}

/// Content of a received message about a neighbour.
#[derive(Clone, Copy, Debug)]
pub(in crate::ip) struct News {
    pub(in crate::ip) mac: Option<MacAddress>,
    /// Whether it answers a request.
    pub(in crate::ip) solicited: bool,
    /// Whether it replaces another Ethernet address.
    pub(in crate::ip) overrides: bool,
    /// Whether it may create an entry: the neighbour is about to receive a packet.
    pub(in crate::ip) may_create: bool,
}
