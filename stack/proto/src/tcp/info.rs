//! Connections for display.

use super::connection::{Connection, State};
use super::key::Key;
use super::seq::Seq;
use super::{CongestionAlgorithm, ConnectionId, Tcp};
use crate::{Endpoint, Payload, Time};
use core::ops::Range;

/// A connection, for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionInfo {
    /// The connection.
    pub connection: ConnectionId,
    /// Local end.
    pub local: Endpoint,
    /// Remote end.
    pub remote: Endpoint,
    /// State.
    pub state: State,
    /// Smoothed round-trip time and its variation, in microseconds; `None` without a sample.
    pub rtt: Option<(u32, u32)>,
    /// Congestion window and slow-start threshold, in bytes.
    pub window: (u32, u32),
    /// The peer's receive window in bytes.
    pub peer_window: u32,
    /// Bytes sent and not acknowledged.
    pub in_flight: u32,
    /// Bytes queued and not acknowledged.
    pub queued: u32,
    /// Bytes received that the application holds.
    pub held: u32,
    /// Bytes received out of order.
    pub out_of_order: u32,
    /// Payload of a full segment in bytes.
    pub segment: u16,
    /// Congestion control.
    pub congestion: CongestionAlgorithm,
    /// Segments retransmitted so far, at most 65,535.
    pub retransmits: u16,
    /// Retransmission timeouts since the last progress.
    pub timeouts: u32,
    /// Bytes of memory of the connection itself.
    pub memory: usize,
}

fn info<P: Payload>(index: u32, c: &Connection<P>) -> ConnectionInfo {
    ConnectionInfo {
        connection: ConnectionId { index, generation: c.generation },
        local: c.key.local(),
        remote: c.key.remote(),
        state: c.state,
        rtt: c.recovery.rtt(),
        window: c.recovery.window(),
        peer_window: c.tx.window,
        in_flight: c.flight(),
        queued: c.tx.queue.held(),
        held: c.rx.held,
        out_of_order: c.out_of_order.bytes(),
        segment: c.tx.mss,
        congestion: c.options.congestion,
        retransmits: c.timers.retransmits,
        timeouts: c.recovery.timeouts(),
        memory: core::mem::size_of::<Connection<P>>(),
    }
}

impl<P: Payload> Tcp<P> {
    /// All connections, and the number of those in TIME-WAIT.
    pub(crate) fn connections(&self) -> impl Iterator<Item = ConnectionInfo> + '_ {
        self.connections.iter().map(|(index, c)| info(index, c))
    }

    /// Connections in a range of slots.
    pub(crate) fn connections_in(
        &self,
        slots: Range<u32>,
    ) -> impl Iterator<Item = (u32, ConnectionInfo)> + '_ {
        self.connections.range(slots).map(|(index, c)| (index, info(index, c)))
    }

    /// Number of slots.
    pub(crate) fn connection_slots(&self) -> u32 {
        self.connections.capacity() as u32
    }

    pub(crate) fn connection(&self, id: ConnectionId) -> Option<ConnectionInfo> {
        self.get(id).map(|c| info(id.index, c))
    }

    /// Number of connections without those in TIME-WAIT.
    pub(crate) fn len(&self) -> usize {
        self.connections.len()
    }

    /// Whether a segment with these numbers belongs to a connection, or returns a SYN cookie.
    pub(crate) fn claims(
        &self,
        (local, remote): (Endpoint, Endpoint),
        (sequence, acknowledgement): (u32, u32),
        now: Time,
    ) -> bool {
        let key = Key::new(local, remote);
        let numbers = (Seq(sequence) - 1, Seq(acknowledgement) - 1);
        self.table.find(&key, |index| self.connections.get(index).map(|c| &c.key)).is_some()
            || self.shared.cookie(&key, numbers, now).is_some()
    }

    /// Connections in TIME-WAIT.
    pub(crate) fn time_waits(&self) -> usize {
        self.time_waits.len()
    }
}
