//! The limit of connections.
//!
//! At the limit, a connection in LAST-ACK gives way to a new one: its data was delivered in both directions, and only
//! the acknowledgement of the FIN is missing. Otherwise peers that do not send it, or whose acknowledgements are lost,
//! keep others out until retransmissions end.

use super::connection::{Connection, State};
use super::input::Outcome;
use super::shared::Io;
use super::{Tcp, reset};
use crate::{Closed, Payload};
use alloc::collections::VecDeque;

/// Entries looked at for one new connection, so that it takes bounded time.
const SEARCHED: usize = 64;
/// Entries of ended connections that are tolerated, besides as many as there are connections.
const STALE: usize = 64;

/// Connections that entered LAST-ACK, with their generations, oldest first. Most have ended since.
#[derive(Default)]
pub(super) struct Closing(VecDeque<(u32, u32)>);

impl<P: Payload> Tcp<P> {
    /// Whether one more connection is allowed.
    pub(super) fn has_room(&mut self, io: &mut Io<'_, P>) -> bool {
        self.connections.len() < self.shared.limits.connections as usize || self.make_room(io)
    }

    /// The connection entered LAST-ACK.
    pub(super) fn note_closing(&mut self, index: u32, generation: u32) {
        let Self { closing: Closing(entries), connections, .. } = self;
        if entries.len() >= 2 * connections.len() + STALE {
            entries.retain(|(index, generation)| {
                connections.get(*index).is_some_and(|c| c.generation == *generation)
            });
        }
        entries.push_back((index, generation));
    }

    /// Ends the connection that is in LAST-ACK longest and has no data in flight.
    #[cold]
    fn make_room(&mut self, io: &mut Io<'_, P>) -> bool {
        for _ in 0..SEARCHED.min(self.closing.0.len()) {
            let Some((index, generation)) = self.closing.0.pop_front() else { break };
            match self.connections.get(index).filter(|c| c.generation == generation) {
                Some(c) if c.awaits_last_ack() => {
                    self.give_way(index, io);
                    return true;
                }
                Some(_) => self.closing.0.push_back((index, generation)),
                None => {}
            }
        }
        false
    }

    fn give_way(&mut self, index: u32, io: &mut Io<'_, P>) {
        let Some(c) = self.connections.get(index) else { return };
        // The FIN may have been lost, and the peer may still wait for it.
        if let Ok((path, _)) = io.ip.route(Some(c.key.local), c.key.remote, io.now) {
            reset::send(path, &reset::at(&c.key, c.tx.nxt), &mut self.shared, io);
        }
        io.counters.tcp_last_ack_evicted += 1;
        self.remove(index, Outcome::Close(Closed::Normally), io);
    }
}

impl<P: Payload> Connection<P> {
    /// Whether both sides have closed and only the acknowledgement of the FIN is missing.
    fn awaits_last_ack(&self) -> bool {
        self.state == State::LastAck && self.tx.una == self.tx.queue.end()
    }
}
