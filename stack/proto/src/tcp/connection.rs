//! State of one connection.
//!
//! The parts that every segment reads are first. Rarely used state is at the end, and everything of variable length
//! (queued data, unacknowledged segments, out-of-order data) is in pools that all connections share, so that an idle
//! connection is only this structure.

use super::key::Key;
use super::out_of_order::OutOfOrder;
use super::recovery::Recovery;
use super::send_queue::SendQueue;
use super::{ListenerId, Options, Seq};
use crate::ip::PathId;
use crate::{Payload, Time};
use alloc::sync::Arc;
use core::num::NonZeroU32;

/// State (RFC 9293 section 3.3.2). LISTEN is a listener, TIME-WAIT has entries of its own, and CLOSED is the absence of a
/// connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// SYN sent.
    SynSent,
    /// SYN received and sent.
    SynReceived,
    /// Established.
    Established,
    /// Closed here; the FIN is not acknowledged.
    FinWait1,
    /// Closed here; the FIN is acknowledged.
    FinWait2,
    /// Closed by the peer.
    CloseWait,
    /// Closed by both at the same time.
    Closing,
    /// Closed by the peer, then here.
    LastAck,
}

impl State {
    /// Name in RFC 9293.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SynSent => "SYN-SENT",
            Self::SynReceived => "SYN-RECEIVED",
            Self::Established => "ESTABLISHED",
            Self::FinWait1 => "FIN-WAIT-1",
            Self::FinWait2 => "FIN-WAIT-2",
            Self::CloseWait => "CLOSE-WAIT",
            Self::Closing => "CLOSING",
            Self::LastAck => "LAST-ACK",
        }
    }

    /// Whether the application may still queue data.
    pub(crate) const fn can_send(self) -> bool {
        matches!(self, Self::SynSent | Self::SynReceived | Self::Established | Self::CloseWait)
    }

    /// Whether the peer may still send data.
    pub(crate) const fn can_receive(self) -> bool {
        matches!(self, Self::Established | Self::FinWait1 | Self::FinWait2)
    }

    /// Whether the handshake is complete.
    pub(crate) const fn is_synchronised(self) -> bool {
        !matches!(self, Self::SynSent | Self::SynReceived)
    }
}

/// Set of conditions of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags(u32);

impl Flags {
    /// In the list of connections with output.
    pub(crate) const QUEUED: Self = Self(1);
    /// An acknowledgement must be sent now.
    pub(crate) const ACK_NOW: Self = Self(1 << 1);
    /// The application closed the sending side: a FIN follows the data.
    pub(crate) const FIN_QUEUED: Self = Self(1 << 2);
    /// Timestamps are on (RFC 7323).
    pub(crate) const TIMESTAMPS: Self = Self(1 << 3);
    /// The peer accepts SACK (RFC 2018).
    pub(crate) const SACK: Self = Self(1 << 4);
    /// Explicit congestion notification was negotiated (RFC 3168).
    pub(crate) const ECN: Self = Self(1 << 5);
    /// Segments carry ECE until a CWR arrives.
    pub(crate) const ECE: Self = Self(1 << 6);
    /// The next segment with new data carries CWR.
    pub(crate) const CWR: Self = Self(1 << 7);
    /// Acknowledged data is reported to the application.
    pub(crate) const REPORT_ACKS: Self = Self(1 << 8);
    /// The application found the send buffer full.
    pub(crate) const WANTS_SPACE: Self = Self(1 << 9);
    /// Opened here.
    pub(crate) const ACTIVE: Self = Self(1 << 10);
    /// A zero-window probe of one byte was sent beyond the recorded data.
    pub(crate) const PROBED: Self = Self(1 << 11);
    /// A zero-window probe must be sent now.
    pub(crate) const PROBE_NOW: Self = Self(1 << 12);
    /// A keep-alive probe must be sent now.
    pub(crate) const KEEP_ALIVE_NOW: Self = Self(1 << 13);
    /// A tail loss probe must be sent now.
    pub(crate) const TAIL_PROBE: Self = Self(1 << 14);
    /// The SYN asks for ECN (RFC 3168 section 6.1.1).
    pub(crate) const ECN_SYN: Self = Self(1 << 15);
    /// The application had nothing to send when the last segment left.
    pub(crate) const APP_LIMITED: Self = Self(1 << 16);
    /// Windows are scaled (RFC 7323).
    pub(crate) const SCALED: Self = Self(1 << 17);
    /// The peer's FIN was processed.
    pub(crate) const FIN_RECEIVED: Self = Self(1 << 18);
    /// The SYN-ACK carries a Fast Open cookie.
    pub(crate) const GIVES_COOKIE: Self = Self(1 << 19);
    /// Data of the SYN was accepted (RFC 7413): the application knows the connection before the handshake is complete.
    pub(crate) const FAST_OPEN: Self = Self(1 << 20);

    /// The number of the peer's FIN is known, although data before it may be missing.
    pub(crate) const FIN_NOTED: Self = Self(1 << 21);

    /// Urgent data is queued or unacknowledged; where it ends is in `Shared::urgent`.
    pub(crate) const URGENT: Self = Self(1 << 22);

    /// A probe of the path MTU is in flight; its size and numbers are in `Shared::mtu_probes`.
    pub(crate) const MTU_PROBE: Self = Self(1 << 23);

    /// The SYN waits for the neighbour's address: the connection is in `Shared::unresolved`.
    pub(crate) const UNRESOLVED: Self = Self(1 << 24);

    #[inline(always)]
    pub(crate) const fn has(self, flag: Self) -> bool {
        self.0 & flag.0 != 0
    }

    #[inline(always)]
    pub(crate) const fn set(&mut self, flag: Self) {
        self.0 |= flag.0;
    }

    #[inline(always)]
    pub(crate) const fn clear(&mut self, flag: Self) {
        self.0 &= !flag.0;
    }

    /// Clears the flag. Returns whether it was set.
    #[inline(always)]
    pub(crate) const fn take(&mut self, flag: Self) -> bool {
        let had = self.has(flag);
        self.clear(flag);
        had
    }

    pub(crate) const fn put(&mut self, flag: Self, on: bool) {
        if on {
            self.set(flag);
        } else {
            self.clear(flag);
        }
    }
}

/// The sending side (RFC 9293 section 3.3.1).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender {
    /// First unacknowledged number.
    pub(crate) una: Seq,
    /// Next number to send.
    pub(crate) nxt: Seq,
    /// The peer's window in bytes, from `una` on.
    pub(crate) window: u32,
    /// Largest window of the peer so far.
    pub(crate) max_window: u32,
    /// Sequence and acknowledgement number of the segment that set the window last.
    pub(crate) wl1: Seq,
    pub(crate) wl2: Seq,
    /// Initial number.
    pub(crate) iss: Seq,
    /// Maximum payload of a segment in bytes, without options that only some segments have.
    pub(crate) mss: u16,
    /// Maximum segment size that the peer announced.
    pub(crate) peer_mss: u16,
    /// Shift of windows that the peer announces.
    pub(crate) scale: u8,
    pub(crate) queue: SendQueue,
    /// Timestamp of the first retransmission since the last progress (RFC 3522).
    pub(crate) first_retransmit: Option<NonZeroU32>,
    /// Segments retransmitted so far, at most 65,535.
    pub(crate) retransmits: u16,
}

impl Sender {
    const fn new(iss: Seq, mss: u16) -> Self {
        let first = Seq(iss.0.wrapping_add(1));
        Self {
            una: iss,
            nxt: iss,
            window: 0,
            max_window: 0,
            wl1: Seq(0),
            wl2: Seq(0),
            iss,
            mss,
            peer_mss: u16::MAX,
            scale: 0,
            queue: SendQueue::new(first),
            first_retransmit: None,
            retransmits: 0,
        }
    }
}

/// The receiving side (RFC 9293 section 3.3.1).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Receiver {
    /// Next number expected.
    pub(crate) nxt: Seq,
    /// Number after the window that was announced last.
    pub(crate) edge: Seq,
    /// Acknowledgement number that was sent last.
    pub(crate) acked: Seq,
    /// Bytes that the application holds.
    pub(crate) held: u32,
    /// Memory that their buffers occupy beyond them, in bytes.
    pub(crate) overhead: u32,
    /// Receive buffer in bytes.
    pub(crate) limit: u32,
    /// Timestamp to echo, and when it was set, in milliseconds.
    pub(crate) ts_recent: u32,
    pub(crate) ts_recent_at: u32,
    /// Largest payload of a segment received, in bytes: the peer's segment size. Coalesced segments count as full ones.
    pub(crate) segment: u16,
    /// Segment size that was announced, in bytes.
    pub(crate) mss: u16,
    /// Shift of windows that are announced.
    pub(crate) scale: u8,
    /// Initial number.
    pub(crate) irs: Seq,
    /// Sequence number of the peer's FIN, with [`Flags::FIN_NOTED`].
    pub(crate) fin: Seq,
    /// Range that arrived twice, to be reported (RFC 2883).
    pub(crate) duplicate: Option<(Seq, Seq)>,
}

impl Receiver {
    /// The scale is the smallest with which the window field can announce the whole buffer (RFC 7323 section 2.3).
    fn new(limit: u32, mss: u16, options: &Options) -> Self {
        let bits = (32 - limit.leading_zeros()).saturating_sub(16).min(14) as u8;
        Self {
            nxt: Seq(0),
            edge: Seq(0),
            acked: Seq(0),
            held: 0,
            overhead: 0,
            limit,
            ts_recent: 0,
            ts_recent_at: 0,
            segment: 0,
            mss,
            scale: if options.window_scale { bits } else { 0 },
            irs: Seq(0),
            fin: Seq(0),
            duplicate: None,
        }
    }
}

impl Receiver {
    /// Memory of what the application holds, in bytes.
    #[inline]
    pub(crate) const fn used(&self) -> u32 {
        self.held + self.overhead
    }

    /// The application has returned this many bytes, and their share of the memory.
    pub(crate) fn consume(&mut self, bytes: u32) {
        let bytes = bytes.min(self.held);
        let share = u64::from(self.overhead) * u64::from(bytes) / u64::from(self.held.max(1));
        (self.held, self.overhead) = (self.held - bytes, self.overhead - share as u32);
    }
}

/// Deadlines besides those of loss recovery; [`Time::NEVER`] if not running.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timers {
    /// Delayed acknowledgement.
    pub(crate) ack: Time,
    /// Zero-window probe.
    pub(crate) persist: Time,
    /// Keep-alive, user timeout: the earlier of both.
    pub(crate) idle: Time,
    /// Next transmission by pacing.
    pub(crate) pace: Time,
    /// Since when data is unacknowledged, or a window is closed.
    pub(crate) stalled: Time,
    /// Time of the last segment received.
    pub(crate) heard: Time,
    /// When the neighbour was confirmed last.
    pub(crate) confirmed: Time,
    /// When a segment without data outside the window was answered last, in milliseconds; 0 if never.
    pub(crate) disagreed: u32,
    /// Unanswered zero-window probes, and keep-alive probes.
    pub(crate) probes: u8,
    pub(crate) keep_alives: u8,
}

impl Timers {
    pub(crate) const fn new(now: Time) -> Self {
        let never = Time::NEVER;
        Self {
            ack: never,
            persist: never,
            idle: never,
            pace: never,
            stalled: never,
            heard: now,
            confirmed: now,
            disagreed: 0,
            probes: 0,
            keep_alives: 0,
        }
    }
}

/// A connection.
pub(crate) struct Connection<P> {
    pub(crate) key: Key,
    pub(crate) generation: u32,
    pub(crate) state: State,
    pub(crate) flags: Flags,
    pub(crate) path: PathId,
    /// Folded sum of the pseudo header without its length.
    pub(crate) pseudo: u16,
    pub(crate) tx: Sender,
    pub(crate) rx: Receiver,
    pub(crate) recovery: Recovery,
    pub(crate) timers: Timers,
    pub(crate) out_of_order: OutOfOrder<P>,
    pub(crate) options: Arc<Options>,
    /// Offset of timestamps, so that they do not reveal the uptime.
    pub(crate) ts_offset: u32,
    pub(crate) listener: ListenerId,
}

/// An idle connection is this structure, an entry of the timing wheel (24 bytes) and one of the table.
const _: () = assert!(size_of::<Connection<Arc<[u8]>>>() <= 512);

impl<P: Payload> Connection<P> {
    /// A connection that has sent and received nothing. `iss` is the initial number, with the receive buffer in bytes.
    pub(crate) fn new(
        key: Key,
        path: PathId,
        options: Arc<Options>,
        state: State,
        (iss, limit): (Seq, u32),
        mtu: u16,
        now: Time,
    ) -> Self {
        let mss = super::segment_of(mtu, key.remote.is_v4()).min(options.max_segment).max(super::MIN_SEGMENT);
        Self {
            key,
            generation: 0,
            state,
            flags: Flags::default(),
            path,
            pseudo: super::key::pseudo(key.local, key.remote),
            tx: Sender::new(iss, mss),
            rx: Receiver::new(limit, mss, &options),
            recovery: Recovery::new(&options, mss, now),
            timers: Timers::new(now),
            out_of_order: OutOfOrder::new(),
            options,
            ts_offset: 0,
            listener: ListenerId(0),
        }
    }

    /// Whether data of the peer is accepted: in the states for it, and with a Fast Open cookie before.
    pub(crate) fn can_receive(&self) -> bool {
        self.state.can_receive() || self.state == State::SynReceived && self.flags.has(Flags::FAST_OPEN)
    }

    /// Sequence number of the FIN, if one was queued.
    #[inline]
    pub(crate) fn fin(&self) -> Option<Seq> {
        self.flags.has(Flags::FIN_QUEUED).then(|| self.tx.queue.end())
    }

    /// Number after everything that is queued, including the FIN.
    #[inline]
    pub(crate) fn end(&self) -> Seq {
        self.tx.queue.end() + u32::from(self.flags.has(Flags::FIN_QUEUED))
    }

    /// Bytes sent and not acknowledged cumulatively.
    #[inline]
    pub(crate) fn flight(&self) -> u32 {
        self.tx.nxt.since(self.tx.una)
    }

    /// Starts the timer of keep-alive and user timeout, unless it runs.
    #[inline]
    pub(crate) fn watch_idle(&mut self, now: Time) {
        if self.timers.idle.is_never() {
            let timeout = self.options.user_timeout;
            self.timers.idle = now.after(self.options.keep_alive.map_or(timeout, |idle| idle.min(timeout)));
        }
    }

    /// The peer answered a keep-alive probe: the idle time starts again.
    #[cold]
    pub(crate) fn restart_idle(&mut self, now: Time) {
        (self.timers.keep_alives, self.timers.idle) = (0, Time::NEVER);
        self.watch_idle(now);
    }

    /// Timestamp of this connection at `now`: milliseconds with an offset.
    #[inline]
    pub(crate) fn timestamp(&self, now: Time) -> u32 {
        (now.millis() as u32).wrapping_add(self.ts_offset)
    }

    /// IPv6 flow label, the same for all segments of the connection: a hash of addresses and ports (RFC 6437 section 3).
    #[inline]
    pub(crate) fn flow_label(&self, seed: u32) -> u32 {
        let ports = u32::from(self.key.local_port) << 16 | u32::from(self.key.remote_port);
        let addresses = u32::from(self.pseudo).wrapping_mul(0x85eb_ca6b);
        let mixed = (ports ^ addresses ^ seed).wrapping_mul(0x9e37_79b1);
        // The highest bits depend on all others; 0 means no flow.
        ((mixed ^ mixed >> 15).wrapping_mul(0x2c1b_3c6d) >> 12).max(1)
    }

    /// The earliest deadline.
    #[inline]
    pub(crate) fn deadline(&self) -> Time {
        let Timers { ack, persist, idle, pace, .. } = self.timers;
        self.recovery.deadline().min(ack.min(persist)).min(idle.min(pace))
    }

    /// Bytes of the receive buffer that are free, limited by what the window field can say.
    #[inline]
    pub(crate) fn free(&self) -> u32 {
        self.rx.limit.saturating_sub(self.rx.used()).min(0xffff << self.rx.scale)
    }

    /// The window to announce: its right edge never moves left, and moves right only by a segment or half of the buffer
    /// (RFC 9293 section 3.8.6.2.2).
    #[inline]
    pub(crate) fn next_edge(&self) -> Seq {
        let open = self.rx.nxt + self.free();
        let step = u32::from(self.rx.segment).min(self.rx.limit / 2);
        if open.since(self.rx.edge) >= step.max(1) { open } else { self.rx.edge.max(self.rx.nxt) }
    }

    /// Whether the window to announce has moved so far that the peer should learn it without waiting.
    pub(crate) fn has_opened(&self) -> bool {
        let announced = self.rx.edge.since(self.rx.nxt);
        let grown = self.next_edge().since(self.rx.edge);
        grown > 0 && (announced == 0 || grown >= self.rx.limit / 4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Address, Endpoint};
    use std::collections::HashSet;

    #[test]
    fn flow_labels_differ_between_connections_and_use_twenty_bits() {
        let label = |port| {
            let end = |port| Endpoint::new(Address::v6([0xfd; 16]), port);
            let (key, path) = (Key::new(end(80), end(port)), PathId { index: 0, generation: 0 });
            let c = Connection::<Arc<[u8]>>::new(
                key,
                path,
                Arc::new(Options::default()),
                State::Established,
                (Seq(0), 1000),
                1500,
                Time(0),
            );
            assert_eq!(c.flow_label(7), c.flow_label(7));
            c.flow_label(7)
        };
        let labels: HashSet<u32> = (1..=1000).map(label).collect();
        assert!(labels.len() > 990 && labels.iter().all(|label| (1..1 << 20).contains(label)));
    }
}
