//! Segments that leave: what is sent next, and when nothing may be sent.

mod build;
mod mtu_probe;

use super::Seq;
use super::connection::{Connection, Flags, State};
use super::shared::{Io, Shared};
use crate::ip::InterfaceId;
use crate::{Link, Payload, Time};
use core::num::NonZeroU32;
use core::ops::Range;
pub(crate) use mtu_probe::MtuProbe;

/// Segments of one connection before others have their turn.
const QUANTUM: usize = 32;

/// Why a connection's turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Nothing is due.
    Done,
    /// More is due; others come first.
    More,
    /// The link has no room.
    Blocked,
}

/// A segment to send.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Send {
    /// SYN, or SYN and ACK.
    Syn(Syn),
    /// Data and FIN of a range.
    Data { range: Range<Seq>, again: bool },
    /// One byte beyond the closed window (RFC 9293 section 3.8.6.1).
    WindowProbe,
    /// An acknowledgement, with the number before the next one for a keep-alive probe.
    Ack { keep_alive: bool },
}

/// Reason for a SYN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Syn {
    First,
    /// It was lost.
    Again,
    /// The peer's SYN is acknowledged, although ours was sent before.
    Answer,
}

/// A connection's turn to send.
pub(crate) struct Turn<'a, 'b, P: Payload, L> {
    pub(crate) index: u32,
    pub(crate) connection: &'a mut Connection<P>,
    pub(crate) shared: &'a mut Shared<P>,
    pub(crate) io: &'a mut Io<'b, P>,
    pub(crate) link: &'a mut L,
    /// Payload of a full segment in this turn, in bytes: the segment size without a SACK option, if one is sent.
    pub(crate) segment: u32,
}

impl<P: Payload, L: Link<Payload = P>> Turn<'_, '_, P, L> {
    /// Sends what is due.
    #[inline(always)]
    pub(crate) fn run(&mut self) -> Progress {
        let Some((interface, mtu, probe)) = self.path() else { return Progress::Done };
        if mtu != self.connection.tx.mtu {
            self.adapt_segment_size(mtu);
        }
        self.segment = u32::from(self.connection.tx.mss) - self.sack_len();
        if probe > 0 && self.link.has_room(interface) {
            self.probe_mtu(probe);
        }
        for _ in 0..QUANTUM {
            if !self.link.has_room(interface) {
                return Progress::Blocked;
            }
            let Some(send) = self.next(interface) else {
                self.watch_window();
                return Progress::Done;
            };
            self.emit(&send);
            if self.connection.has_sent_all() {
                return Progress::Done;
            }
        }
        Progress::More
    }

    /// Interface and MTU of the connection's path, which is looked up again if it was removed, and the size of a probe
    /// of its MTU or 0.
    #[inline]
    fn path(&mut self) -> Option<(InterfaceId, u16, u16)> {
        if let Some(found) = self.io.ip.probed_path(self.connection.path) {
            return Some(found);
        }
        let key = &self.connection.key;
        let (path, _) = self.io.ip.route(Some(key.local), key.remote, self.io.now).ok()?;
        self.connection.path = path;
        self.io.ip.probed_path(path)
    }

    /// Follows the path MTU and the peer's MSS.
    #[inline(never)]
    fn adapt_segment_size(&mut self, mtu: u16) {
        let c = &mut *self.connection;
        c.tx.mtu = mtu;
        let mss = super::segment_size(c, mtu);
        if mss != c.tx.mss {
            let is_reduced = mss < c.tx.mss;
            c.tx.mss = mss;
            c.recovery.on_segment_size(&mut self.shared.sent, mss, is_reduced);
        }
    }

    /// Length of the SACK option that segments have now.
    #[inline]
    fn sack_len(&self) -> u32 {
        let c = &*self.connection;
        let is_sent = c.flags.has(Flags::SACK) && (c.rx.duplicate.is_some() || !c.out_of_order.is_empty());
        // With timestamps three ranges fit, otherwise four.
        let most = if c.flags.has(Flags::TIMESTAMPS) { 4 + 3 * 8 } else { 4 + 4 * 8 };
        if is_sent { most } else { 0 }
    }

    /// The next segment.
    fn next(&mut self, interface: InterfaceId) -> Option<Send> {
        if !self.connection.state.is_synchronised() {
            let send = self.next_of_handshake();
            if send.is_some() || !self.connection.flags.has(Flags::FAST_OPEN) {
                return send;
            }
        }
        if let Some(send) = self.next_data(interface) {
            return Some(send);
        }
        let c = &mut *self.connection;
        if c.flags.take(Flags::PROBE_NOW) && c.flight() == 0 && c.tx.nxt.is_before(c.end()) {
            let usable = c.tx.window.min(c.tx.queue.end().since(c.tx.nxt)).min(self.segment);
            if usable > 0 {
                // The window may never be larger (RFC 9293 section 3.8.6.2.1, override timeout).
                return Some(Send::Data { range: c.tx.nxt..c.tx.nxt + usable, again: false });
            }
            return Some(Send::WindowProbe);
        }
        if c.flags.take(Flags::KEEP_ALIVE_NOW) {
            return Some(Send::Ack { keep_alive: true });
        }
        c.flags.has(Flags::ACK_NOW).then_some(Send::Ack { keep_alive: false })
    }

    fn next_of_handshake(&mut self) -> Option<Send> {
        let c = &mut *self.connection;
        if c.tx.nxt == c.tx.iss {
            return Some(Send::Syn(Syn::First));
        }
        // Data of a SYN that was lost waits until the handshake is complete.
        let lost = c.recovery.next_lost(&mut self.shared.sent, u32::MAX);
        let is_lost = lost.is_some_and(|range| range.start == c.tx.iss);
        let is_answer = c.flags.take(Flags::ACK_NOW) && c.state == State::SynReceived;
        let is_again = c.flags.take(Flags::TAIL_PROBE) || is_lost;
        if is_again { Some(Send::Syn(Syn::Again)) } else { is_answer.then_some(Send::Syn(Syn::Answer)) }
    }

    /// Retransmissions first, then new data, as far as windows and pacing allow.
    #[inline]
    fn next_data(&mut self, interface: InterfaceId) -> Option<Send> {
        let c = &mut *self.connection;
        if c.tx.nxt == c.end() {
            if c.flight() == 0 {
                c.flags.clear(Flags::TAIL_PROBE);
            }
            if !c.flags.has(Flags::TAIL_PROBE) && !c.recovery.has_lost() {
                return None;
            }
        }
        let until = c.recovery.paced_until();
        if until > self.io.now {
            c.timers.pace = until;
            return None;
        }
        let allowance = c.recovery.allowance(c.flight());
        if c.flags.has(Flags::TAIL_PROBE)
            && let Some(range) = self.next_probe()
        {
            return Some(Send::Data { range, again: false });
        }
        let c = &mut *self.connection;
        if c.flight() > 0
            && let Some(range) = self.next_again(allowance)
        {
            return Some(Send::Data { range, again: true });
        }
        self.next_new(interface, allowance).map(|range| Send::Data { range, again: false })
    }

    /// New data as a tail loss probe, which ignores the congestion window (RFC 8985 section 7.3).
    #[cold]
    fn next_probe(&mut self) -> Option<Range<Seq>> {
        let segment = self.segment;
        let range = self.new_range(segment, segment)?;
        self.connection.flags.clear(Flags::TAIL_PROBE);
        Some(range)
    }

    fn next_again(&mut self, allowance: u32) -> Option<Range<Seq>> {
        let (c, segment) = (&mut *self.connection, self.segment);
        if allowance > 0
            && let Some(range) = c.recovery.next_lost(&mut self.shared.sent, segment)
            && range.end.since(range.start) <= allowance.max(segment)
        {
            return Some(range);
        }
        if c.flags.take(Flags::TAIL_PROBE) { self.tail() } else { None }
    }

    /// The last segment again (RFC 8985 section 7.3).
    fn tail(&self) -> Option<Range<Seq>> {
        let tx = &self.connection.tx;
        let first = tx.una.max(tx.nxt - self.segment);
        first.is_before(tx.nxt).then_some(first..tx.nxt)
    }

    #[inline]
    fn next_new(&mut self, interface: InterfaceId, allowance: u32) -> Option<Range<Seq>> {
        if self.connection.tx.nxt == self.connection.end() {
            return None;
        }
        let left = self.connection.end().since(self.connection.tx.nxt);
        let longest = if left <= self.segment { self.segment } else { self.longest(interface) };
        self.new_range(allowance, longest)
    }

    /// Longest payload of one frame: several segments if the link cuts them.
    #[inline]
    fn longest(&self, interface: InterfaceId) -> u32 {
        let (c, offloads) = (&*self.connection, self.link.offloads(interface));
        let mss = self.segment;
        let frame = if c.key.remote.is_v4() { offloads.tso4 } else { offloads.tso6 };
        // The urgent pointer of each segment differs.
        let frame = if c.flags.has(Flags::URGENT) { 0 } else { frame };
        let payload = frame.min(u16::MAX.into()).saturating_sub(build::MAX_HEADERS);
        (payload / mss * mss).max(mss)
    }

    /// The next new bytes, at most `allowance` and `longest`. `None` if the windows are closed, or if it is better to
    /// wait for more: Nagle's algorithm (RFC 9293 section 3.7.4), silly windows (section 3.8.6.2.1), and cork.
    #[inline(always)]
    fn new_range(&mut self, allowance: u32, longest: u32) -> Option<Range<Seq>> {
        let c = &mut *self.connection;
        let (nxt, mss) = (c.tx.nxt, self.segment);
        let left = c.end().since(nxt);
        let data = c.tx.queue.end().since(nxt);
        let usable = (c.tx.una + c.tx.window).since(nxt);
        let n = data.min(usable).min(allowance).min(longest);
        let is_last = n == data;
        let fin = is_last && left > data && (n > 0 || allowance > 0);
        if n >= mss {
            let whole = n / mss * mss;
            let n = if is_last && (fin || self.may_push()) { n } else { whole };
            return Some(nxt..nxt + n + u32::from(fin && n == data));
        }
        let is_sendable = if is_last {
            fin || n > 0 && self.may_push()
        } else {
            // Limited by a window: a small segment leaves only if the peer's window never was larger.
            n > 0 && n == usable && n >= c.tx.max_window / 2
        };
        is_sendable.then(|| nxt..nxt + n + u32::from(fin))
    }

    /// Whether a last segment that is not full may leave.
    #[inline]
    fn may_push(&self) -> bool {
        let c = &*self.connection;
        let is_closing = c.flags.has(Flags::FIN_QUEUED);
        is_closing || !c.options.cork && (c.options.no_delay || c.flight() == 0)
    }

    /// Starts the timer of zero-window probes if only the peer's window stops data (RFC 9293 section 3.8.6.1), or if
    /// the rest waits for a larger window that may never come.
    #[inline]
    fn watch_window(&mut self) {
        let c = &mut *self.connection;
        if c.flight() > 0 || c.tx.nxt == c.end() || !c.state.is_synchronised() || !c.timers.persist.is_never()
        {
            return;
        }
        if (c.tx.una + c.tx.window).since(c.tx.nxt) < c.tx.queue.end().since(c.tx.nxt) {
            c.timers.persist = self.io.now.after_micros(c.recovery.rto().into());
            if c.timers.stalled.is_never() {
                c.timers.stalled = self.io.now;
            }
            c.watch_idle(self.io.now);
        }
    }

    /// Records that everything received was acknowledged. Duplicates may be due.
    #[inline]
    fn note_ack(&mut self, edge: Seq) {
        let c = &mut *self.connection;
        c.flags.put(Flags::ACK_NOW, c.rx.duplicates > 0);
        c.rx.duplicates = c.rx.duplicates.saturating_sub(1);
        c.timers.ack = Time::NEVER;
        (c.rx.acked, c.rx.edge, c.rx.duplicate) = (c.rx.nxt, edge, None);
    }

    /// Records the transmission of a range.
    #[inline(always)]
    fn note_sent(&mut self, range: Range<Seq>, again: bool) {
        if again {
            return self.note_sent_again(range);
        }
        let (c, now) = (&mut *self.connection, self.io.now);
        self.io.counters.tcp_out += 1;
        if c.timers.stalled.is_never() {
            c.timers.stalled = now;
        }
        c.watch_idle(now);
        c.tx.nxt = c.tx.nxt.max(range.end);
        c.flags.put(Flags::APP_LIMITED, c.tx.nxt == c.end());
        c.recovery.on_sent(&mut self.shared.sent, range, now);
    }

    #[cold]
    fn note_sent_again(&mut self, range: Range<Seq>) {
        let (c, now) = (&mut *self.connection, self.io.now);
        self.io.counters.tcp_retransmits += 1;
        c.timers.retransmits = c.timers.retransmits.saturating_add(1);
        self.shared.fail_mtu_probe(c, &range, self.io);
        if c.tx.first_retransmit.is_none() {
            c.tx.first_retransmit = NonZeroU32::new(c.timestamp(now).max(1));
        }
        c.recovery.on_retransmitted(&mut self.shared.sent, range, now);
    }
}
