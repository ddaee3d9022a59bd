//! The peer's FIN.

use super::super::ConnectionId;
use super::super::connection::{Flags, State};
use super::{Arrival, Outcome};
use crate::{Event, Frame, Payload};

impl<P: Payload, F: Frame<Payload = P>> Arrival<'_, '_, P, F> {
    /// Records the number of a FIN, which may have arrived out of order.
    pub(super) fn note_fin(&mut self) {
        let fin = self.segment.seq + self.segment.len();
        let c = &mut *self.connection;
        if !fin.is_before(c.rx.nxt) && !c.flags.has(Flags::FIN_NOTED) && fin.is_before(c.rx.edge + 1) {
            c.rx.fin = fin;
            c.flags.set(Flags::FIN_NOTED);
        }
    }

    /// Processes the FIN once all data before it has arrived (RFC 9293 section 3.10.7.4, eighth step).
    pub(super) fn take_fin(&mut self) -> Outcome {
        let c = &mut *self.connection;
        let is_next = c.flags.has(Flags::FIN_NOTED) && c.rx.fin == c.rx.nxt;
        if !is_next || c.flags.has(Flags::FIN_RECEIVED) {
            return Outcome::Keep;
        }
        c.flags.set(Flags::FIN_RECEIVED);
        c.rx.nxt += 1;
        c.rx.edge = c.rx.edge.max(c.rx.nxt);
        self.shared.acknowledge(self.index, c);
        let connection = ConnectionId { index: self.index, generation: c.generation };
        self.io.events.push_back(Event::Finished { connection });
        match c.state {
            State::FinWait1 => c.state = State::Closing,
            State::FinWait2 => return Outcome::TimeWait,
            State::SynReceived | State::Established => c.state = State::CloseWait,
            _ => {}
        }
        Outcome::Keep
    }
}
