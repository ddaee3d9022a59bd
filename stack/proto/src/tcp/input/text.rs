//! Payload: delivered in order, held out of order, or refused outside the window.

use super::super::ConnectionId;
use super::super::connection::Flags;
use super::Arrival;
use crate::config::{BUFFER_EXCESS, MIN_BUFFER};
use crate::{Event, Frame, Payload, Slice};
use core::ops::Range;

impl<P: Payload, F: Frame<Payload = P>> Arrival<'_, '_, P, F> {
    /// Takes the part of the payload that is in the window and not received yet.
    #[inline]
    pub(in crate::tcp) fn take_text(&mut self) {
        let (rx, s) = (&self.connection.rx, &self.segment);
        if s.seq != rx.nxt || !self.connection.out_of_order.is_empty() || s.len() > rx.edge.since(rx.nxt) {
            return self.take_unexpected();
        }
        if self.connection.can_receive() {
            self.deliver_all();
        }
    }

    /// Delivers the whole payload, which is next and in the window; nothing is held.
    #[inline]
    pub(super) fn deliver_all(&mut self) {
        let range = self.segment.payload.clone();
        let Some(mut data) = self.retain(range) else { return self.lose() };
        if let Some(sum) = self.segment.sum {
            data = data.with_sum(sum);
        }
        self.deliver(data);
        self.schedule_ack();
    }

    /// A handle of payload; `None` if the buffers that the application holds occupy too much memory.
    #[inline]
    fn retain(&mut self, range: Range<usize>) -> Option<Slice<P>> {
        let rx = &self.connection.rx;
        if rx.used() < rx.limit.saturating_mul(BUFFER_EXCESS) {
            return self.frame.retain(range);
        }
        self.connection.flags.set(Flags::NO_BUFFER);
        None
    }

    #[cold]
    fn lose(&mut self) {
        self.io.counters.tcp_no_buffer += 1;
        self.shared.acknowledge(self.index, self.connection);
    }

    /// Passes the next bytes to the application.
    #[inline]
    fn deliver(&mut self, data: Slice<P>) {
        let c = &mut *self.connection;
        let len = data.len() as u32;
        c.rx.nxt += len;
        c.rx.held += len;
        c.rx.overhead += MIN_BUFFER.saturating_sub(len);
        let connection = ConnectionId { index: self.index, generation: c.generation };
        self.io.events.push_back(Event::Data { connection, data });
    }

    /// RFC 9293 section 3.8.6.3: at least every second full segment is acknowledged at once, any other within the
    /// delay. As in Linux, more than one full segment is enough: a sender that waits for its data to be acknowledged
    /// would wait for the delay whenever the data ends with a full and a shorter segment.
    #[inline]
    fn schedule_ack(&mut self) {
        let c = &mut *self.connection;
        c.rx.segment = c.rx.segment.max(self.segment.len().min(c.rx.mss.into()) as u16);
        if c.rx.nxt.since(c.rx.acked) > u32::from(c.rx.segment) || c.flags.has(Flags::ECE) {
            self.shared.acknowledge(self.index, c);
        } else if c.timers.ack.is_never() {
            c.timers.ack = self.io.now.after(c.options.delayed_ack);
        }
    }

    #[inline(never)]
    fn take_unexpected(&mut self) {
        let (c, s) = (&mut *self.connection, &self.segment);
        let (start, end) = (s.seq, s.seq + s.len());
        if !c.can_receive() || c.flags.has(Flags::FIN_RECEIVED) {
            return self.shared.acknowledge(self.index, c);
        }
        let is_held = c.out_of_order.covers(start.max(c.rx.nxt), end);
        if start.is_before(c.rx.nxt) || is_held {
            let seen = if is_held { end } else { end.min(c.rx.nxt) };
            c.rx.duplicate = Some((start, seen));
            self.io.counters.tcp_duplicates += 1;
        }
        let (first, last) = (start.max(c.rx.nxt), end.min(c.rx.edge));
        let is_due = c.flags.has(Flags::ACK_NOW);
        // Data that is out of order or fills a gap is acknowledged at once (RFC 5681 section 4.2).
        self.shared.acknowledge(self.index, c);
        if is_held || !first.is_before(last) {
            return;
        }
        let at = s.payload.start + first.since(start) as usize;
        let range = at..at + last.since(first) as usize;
        let Some(data) = self.retain(range) else { return self.lose() };
        if first == self.connection.rx.nxt {
            self.fill_gap(&data);
        } else {
            self.hold(first, &data, is_due);
        }
    }

    /// Delivers the next bytes and those that were held behind them. Of bytes that were received twice, the copy that
    /// arrived first counts.
    fn fill_gap(&mut self, data: &Slice<P>) {
        let before = self.connection.out_of_order.cost();
        // The new pieces are taken at once, so the limit of ranges does not apply.
        self.connection.out_of_order.insert(self.connection.rx.nxt, data, usize::MAX);
        self.connection.rx.note_filled();
        while let Some(data) = self.connection.out_of_order.take(self.connection.rx.nxt) {
            self.deliver(data);
        }
        self.account(before);
    }

    /// Holds bytes that are not next, within the limits of the connection and the stack.
    fn hold(&mut self, seq: super::super::Seq, data: &Slice<P>, is_due: bool) {
        let limits = &self.shared.limits;
        let cost = (data.len() as u32).max(MIN_BUFFER);
        let c = &self.connection;
        let has_room = self.shared.out_of_order + cost <= limits.out_of_order_bytes
            && c.out_of_order.cost() + cost <= c.rx.limit.saturating_mul(BUFFER_EXCESS);
        let (before, ranges) = (self.connection.out_of_order.cost(), limits.out_of_order_ranges.into());
        if has_room && self.connection.out_of_order.insert(seq, data, ranges).is_some() {
            self.io.counters.tcp_out_of_order += 1;
            self.account(before);
            self.connection.rx.note_out_of_order(is_due);
        } else {
            self.io.counters.tcp_out_of_order_dropped += 1;
        }
    }

    /// Accounts for a change of the ranges out of order, whose cost was `before`.
    fn account(&mut self, before: u32) {
        let total = &mut self.shared.out_of_order;
        *total = (*total + self.connection.out_of_order.cost()).saturating_sub(before);
    }
}
