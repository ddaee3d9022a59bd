//! Acknowledgements and windows.

use super::super::connection::{Connection, Flags, State};
use super::super::recovery::{Ack, Progress};
use super::super::segment::MAX_SACK;
use super::super::{ConnectionId, Seq};
use super::{Arrival, Outcome};
use crate::{Closed, Event, Frame, Payload, Time};
use wire::TcpFlags;

/// Microseconds between confirmations of a neighbour.
const CONFIRM_INTERVAL: u64 = 1_000_000;
/// Longest plausible round-trip time by timestamps, in milliseconds.
const MAX_ECHO_AGE: u32 = 600_000;

/// SACK ranges for loss recovery, and the D-SACK range (RFC 2883 section 4).
struct Ranges {
    list: [(Seq, Seq); MAX_SACK],
    len: usize,
    duplicate: Option<(Seq, Seq)>,
}

impl<P: Payload, F: Frame<Payload = P>> Arrival<'_, '_, P, F> {
    /// Processes the acknowledgement number, which is acceptable, SACK ranges and the window.
    #[inline]
    pub(super) fn acknowledge_data(&mut self) {
        let is_update = self.update_window();
        let una = self.connection.tx.una;
        let is_new = una.is_before(self.segment.ack);
        // A D-SACK can show that a retransmission was spurious after everything is acknowledged.
        let matters = self.connection.flight() > 0 || self.segment.sack_len > 0;
        if matters && (is_new || self.segment.ack == una) {
            self.recover(is_update || !self.segment.payload.is_empty());
        }
        if is_new {
            self.advance_una();
        }
        let c = &mut *self.connection;
        if c.tx.nxt.is_before(c.end()) || c.recovery.has_lost() {
            self.shared.make_ready(self.index, c);
        }
    }

    /// Takes the window of a segment that is not older than the last one (RFC 9293 section 3.10.7.4). Returns whether
    /// it changed.
    #[inline]
    fn update_window(&mut self) -> bool {
        let (tx, s) = (&mut self.connection.tx, &self.segment);
        let is_newer = tx.wl1.is_before(s.seq) || tx.wl1 == s.seq && tx.wl2.is_at_most(s.ack);
        if !is_newer || s.ack.is_before(tx.una) {
            return false;
        }
        let window = u32::from(s.window) << if s.flags.has(TcpFlags::SYN) { 0 } else { tx.scale };
        (tx.wl1, tx.wl2) = (s.seq, s.ack);
        tx.max_window = tx.max_window.max(window);
        let before = core::mem::replace(&mut tx.window, window);
        if before == 0 && window > 0 {
            // The peer has refused what is in flight, and has room for it now (RFC 7323 section 2.4).
            self.connection.recovery.retry(self.io.now);
        }
        let (timers, flags) = (&mut self.connection.timers, self.connection.flags);
        if !timers.persist.is_never() {
            if !flags.has(Flags::FIN_QUEUED) {
                // The peer answers probes, so the connection is alive however long its window is closed. After it was
                // closed here, the application does not end it any more (RFC 6429), so the user timeout does.
                timers.stalled = self.io.now;
            }
            if window > 0 {
                (timers.persist, timers.probes) = (Time::NEVER, 0);
            }
        }
        before != window
    }

    /// Reports the acknowledgement to loss recovery.
    #[inline]
    fn recover(&mut self, is_update: bool) {
        let (c, s) = (&mut *self.connection, &self.segment);
        let is_plain = s.sack_len == 0 && !s.flags.has(TcpFlags::ECE) && !c.tx.awaits_syn_ack();
        let progress = Progress {
            una: c.tx.una,
            ack: s.ack,
            nxt: c.tx.nxt,
            is_app_limited: c.flags.has(Flags::APP_LIMITED),
            now: self.io.now,
        };
        if !is_plain || c.recovery.on_plain_ack(&mut self.shared.sent, &progress).is_none() {
            self.recover_any(is_update);
        }
    }

    /// Reports any acknowledgement.
    #[inline(never)]
    fn recover_any(&mut self, is_update: bool) {
        let ranges = self.ranges();
        let (c, s, now) = (&mut *self.connection, &self.segment, self.io.now);
        let echo = s.timestamps.map(|(_, echo)| echo).filter(|_| c.flags.has(Flags::TIMESTAMPS));
        let age = echo.map(|echo| c.timestamp(now).wrapping_sub(echo)).filter(|age| *age <= MAX_ECHO_AGE);
        let is_handshake = c.tx.awaits_syn_ack();
        let echoes_original =
            c.tx.first_retransmit
                .and_then(|first| echo.map(|echo| echo.wrapping_sub(first.get()).cast_signed() < 0));
        // The answer to a SYN may echo an earlier copy of it: the age would include the timeout of that one.
        let age = age.filter(|_| !is_handshake || echoes_original != Some(true));
        let ack = Ack {
            una: c.tx.una,
            ack: s.ack,
            nxt: c.tx.nxt,
            sack: &ranges.list[..ranges.len],
            duplicate: ranges.duplicate,
            // Timestamps are whole milliseconds.
            timestamp_rtt: age.map(|millis| millis.max(1).saturating_mul(1000)),
            echoes_original,
            is_update,
            has_ece: s.flags.has(TcpFlags::ECE) && !s.flags.has(TcpFlags::SYN) && c.flags.has(Flags::ECN),
            is_app_limited: c.flags.has(Flags::APP_LIMITED),
            now,
        };
        let acked = c.recovery.on_ack(&mut self.shared.sent, &ack);
        if is_handshake {
            let mtu = self.io.ip.path(c.path).map_or(u16::MAX, |(_, mtu)| mtu);
            super::super::start(c, mtu);
        }
        if acked.is_undone {
            self.io.counters.tcp_undone += 1;
        }
        if acked.is_reduced_by_ece {
            c.flags.set(Flags::CWR);
        }
    }

    /// Separates the ranges above the acknowledgement from a D-SACK. Invalid ranges are left out.
    #[inline]
    fn ranges(&self) -> Ranges {
        let mut ranges = Ranges { list: [(Seq(0), Seq(0)); MAX_SACK], len: 0, duplicate: None };
        if self.segment.sack_len > 0 && self.connection.flags.has(Flags::SACK) {
            self.fill(&mut ranges);
        }
        ranges
    }

    #[cold]
    fn fill(&self, ranges: &mut Ranges) {
        let (ack, nxt) = (self.segment.ack, self.connection.tx.nxt);
        let all = self.segment.sack();
        let mut all = all.iter().copied().filter(|(left, right)| left.is_before(*right));
        let first = all.clone().next();
        let second = all.clone().nth(1);
        if let Some((left, right)) = first {
            let is_inside = second.is_some_and(|(l, r)| l.is_at_most(left) && right.is_at_most(r));
            if right.is_at_most(ack) || is_inside {
                ranges.duplicate = Some((left, right));
                all.next();
            }
        }
        for (left, right) in all.filter(|(left, right)| !left.is_before(ack) && right.is_at_most(nxt)) {
            ranges.list[ranges.len] = (left, right);
            ranges.len += 1;
        }
    }

    /// Moves the left edge of what is unacknowledged.
    #[inline]
    fn advance_una(&mut self) {
        let (c, ack, now) = (&mut *self.connection, self.segment.ack, self.io.now);
        // Neither the SYN nor the FIN is data.
        let bytes = ack.min(c.tx.queue.end()).since(c.tx.una.max(c.tx.queue.base()));
        c.tx.una = ack;
        if c.flags.has(Flags::PROBED) {
            c.flags.clear(Flags::PROBED);
            c.tx.nxt = c.tx.nxt.max(ack);
        }
        let cost = c.tx.queue.cost();
        c.tx.queue.acknowledge(&mut self.shared.chunks, ack);
        let space = cost - c.tx.queue.cost();
        c.tx.first_retransmit = None;
        c.timers.stalled = if c.flight() > 0 { now } else { Time::NEVER };
        if now.micros_since(c.timers.confirmed) >= CONFIRM_INTERVAL {
            c.timers.confirmed = now;
            self.io.ip.confirm(c.path, now);
        }
        if c.flags.has(Flags::REPORT_ACKS) || c.flags.has(Flags::WANTS_SPACE) || c.flags.has(Flags::MTU_PROBE)
        {
            self.report(bytes, space);
        }
    }

    #[cold]
    fn report(&mut self, bytes: u32, space: u32) {
        let c = &mut *self.connection;
        self.shared.confirm_mtu_probe(c, self.io);
        let connection = ConnectionId { index: self.index, generation: c.generation };
        if c.flags.has(Flags::REPORT_ACKS) && bytes > 0 {
            self.io.events.push_back(Event::Acknowledged { connection, bytes, space });
        }
        let is_half_free = c.tx.queue.cost() <= self.shared.limits.send_buffer / 2;
        if is_half_free && c.flags.take(Flags::WANTS_SPACE) {
            self.io.events.push_back(Event::Writable { connection });
        }
    }

    /// State changes when the peer has acknowledged the FIN. Returns the outcome if the connection ends.
    pub(super) fn acknowledge_fin(&mut self) -> Option<Outcome> {
        let c = &mut *self.connection;
        if !is_fin_acknowledged(c) {
            return None;
        }
        match c.state {
            State::FinWait1 => c.state = State::FinWait2,
            State::Closing => return Some(Outcome::TimeWait),
            State::LastAck => return Some(Outcome::Close(Closed::Normally)),
            _ => {}
        }
        None
    }
}

fn is_fin_acknowledged<P: Payload>(c: &Connection<P>) -> bool {
    c.fin().is_some_and(|fin| fin.is_before(c.tx.una))
}
