//! State of one connection.
//!
//! A connection starts at a cache line. Fields that every segment reads or writes are in its first four lines: ends,
//! both windows, the queue of data and the timers. Loss recovery follows, which segments with new data and
//! acknowledgements of new data use. Rarely used state is at the end, and everything of variable length (queued data,
//! unacknowledged segments, out-of-order data) is in pools that all connections share, so that an idle connection is
//! only this structure.

use super::key::Key;
use super::out_of_order::OutOfOrder;
use super::recovery::Recovery;
use super::{ListenerId, Options, Seq};
use crate::ip::PathId;
use crate::{Payload, Time};
use alloc::sync::Arc;
use core::mem::offset_of;

mod receiver;
mod sender;
mod state;

pub(crate) use receiver::Receiver;
pub(crate) use sender::Sender;
pub(crate) use state::Flags;
pub use state::State;

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
    /// Segments retransmitted so far, at most 65,535.
    pub(crate) retransmits: u16,
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
            retransmits: 0,
        }
    }
}

/// A connection.
#[repr(C, align(64))]
pub(crate) struct Connection<P> {
    pub(crate) key: Key,
    /// Folded sum of the pseudo header without its length.
    pub(crate) pseudo: u16,
    pub(crate) state: State,
    pub(crate) flags: Flags,
    pub(crate) generation: u32,
    pub(crate) path: PathId,
    /// Offset of timestamps, so that they do not reveal the uptime.
    pub(crate) ts_offset: u32,
    pub(crate) tx: Sender,
    pub(crate) rx: Receiver,
    pub(crate) listener: ListenerId,
    pub(crate) timers: Timers,
    pub(crate) recovery: Recovery,
    pub(crate) out_of_order: OutOfOrder<P>,
    pub(crate) options: Arc<Options>,
}

const _: () = assert!(offset_of!(Connection<Arc<[u8]>>, recovery) <= 256);
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

    /// Whether nothing is left to be sent: data, FIN, retransmissions, probes and acknowledgements. False in
    /// handshakes.
    #[inline]
    pub(crate) fn has_sent_all(&self) -> bool {
        self.tx.nxt == self.end()
            && !self.flags.has(Flags::TO_SEND)
            && !self.recovery.has_lost()
            && self.state.is_synchronised()
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

    /// IPv6 flow label, the same for all segments of the connection: a hash of addresses and ports (RFC 6437 section
    /// 3).
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
    #[inline]
    pub(crate) fn has_opened(&self) -> bool {
        let grown = self.next_edge().since(self.rx.edge);
        grown > 0 && (self.rx.edge.is_at_most(self.rx.nxt) || grown >= self.rx.limit / 4)
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
