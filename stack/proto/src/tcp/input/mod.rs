//! Segments that arrive (RFC 9293 section 3.10.7).
//!
//! Most segments are the expected ones: in order, in an established connection, with nothing unusual. They take the
//! same steps as all others ([`ack`], [`text`]) without the checks that cannot fail for them.

mod ack;
mod checks;
mod fin;
mod handshake;
mod text;

pub(crate) use handshake::{accepted, negotiate};

use super::connection::{Connection, Flags, State};
use super::segment::Segment;
use super::shared::{Io, Shared};
use crate::{Closed, Frame, Payload};
use wire::TcpFlags;

/// State of the connection after an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It continues.
    Keep,
    /// It ends, with an event unless it was half open.
    Close(Closed),
    /// It enters TIME-WAIT.
    TimeWait,
}

/// A segment that arrived for a connection.
pub(crate) struct Arrival<'a, 'b, P: Payload, F> {
    pub(crate) index: u32,
    pub(crate) connection: &'a mut Connection<P>,
    pub(crate) shared: &'a mut Shared<P>,
    pub(crate) io: &'a mut Io<'b, P>,
    pub(crate) frame: &'a mut F,
    pub(crate) segment: &'a mut Segment,
}

/// Bits that a segment of the expected kind does not have.
const UNUSUAL: u8 =
    TcpFlags::FIN.0 | TcpFlags::SYN.0 | TcpFlags::RST.0 | TcpFlags::ECE.0 | TcpFlags::CWR.0 | TcpFlags::URG.0;

impl<P: Payload, F: Frame<Payload = P>> Arrival<'_, '_, P, F> {
    /// Processes the segment.
    #[inline]
    pub(crate) fn process(mut self) -> Outcome {
        self.connection.timers.heard = self.io.now;
        if self.connection.timers.keep_alives > 0 {
            self.connection.restart_idle(self.io.now);
        }
        if self.is_expected() {
            self.note_timestamp();
            self.acknowledge_data();
            if !self.segment.payload.is_empty() {
                self.deliver_all();
            }
            return Outcome::Keep;
        }
        match self.connection.state {
            State::SynSent => self.syn_sent(),
            _ => self.synchronised(),
        }
    }

    /// Whether the segment is the next one of an established connection without anything unusual.
    #[inline]
    fn is_expected(&self) -> bool {
        let (c, s) = (&*self.connection, &self.segment);
        let in_window = s.len() <= c.rx.edge.since(c.rx.nxt);
        let ack = s.ack.0.wrapping_sub(c.tx.una.0) <= c.flight();
        let timestamps = match s.timestamps {
            Some((value, _)) => {
                c.flags.has(Flags::TIMESTAMPS) && value.wrapping_sub(c.rx.ts_recent).cast_signed() >= 0
            }
            None => !c.flags.has(Flags::TIMESTAMPS),
        };
        c.state == State::Established
            && s.flags.0 & (UNUSUAL | TcpFlags::ACK.0) == TcpFlags::ACK.0
            && s.seq == c.rx.nxt
            && in_window
            && ack
            && timestamps
            && !s.is_ce
            && s.sack_len == 0
            && c.out_of_order.is_empty()
            && !c.flags.has(Flags::PROBED)
    }

    /// Any segment of a connection that has received a SYN (RFC 9293 section 3.10.7.4).
    #[inline(never)]
    fn synchronised(&mut self) -> Outcome {
        if self.connection.state == State::SynReceived {
            // Before the checks: a cookie's connection has no options, and this one may have some.
            self.take_cookie();
            if self.is_crossed_syn() {
                self.skip_syn();
            }
        }
        if !self.is_acceptable() {
            return Outcome::Keep;
        }
        if self.segment.flags.has(TcpFlags::RST) {
            return self.reset();
        }
        if self.segment.flags.has(TcpFlags::SYN) {
            self.shared.challenge(self.index, self.connection, self.io);
            return Outcome::Keep;
        }
        if !self.segment.flags.has(TcpFlags::ACK) {
            self.io.counters.tcp_header_errors += 1;
            return Outcome::Keep;
        }
        if self.connection.state == State::SynReceived && !self.complete_handshake() {
            return Outcome::Keep;
        }
        self.note_timestamp();
        self.note_congestion();
        if !self.has_acceptable_ack() {
            self.shared.challenge(self.index, self.connection, self.io);
            return Outcome::Keep;
        }
        self.acknowledge_data();
        if let Some(outcome) = self.acknowledge_fin() {
            return outcome;
        }
        if !self.segment.payload.is_empty() {
            self.take_text();
        }
        if self.segment.flags.has(TcpFlags::FIN) {
            self.note_fin();
        }
        self.take_fin()
    }
}
