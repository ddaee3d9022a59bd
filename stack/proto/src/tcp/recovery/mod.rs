//! Loss recovery and congestion control of one connection: what may be sent, what is lost, and when.
//!
//! The connection reports each segment that it sends and each acknowledgement that it accepts. This module keeps the
//! scoreboard of unacknowledged segments, estimates the round-trip time (RFC 6298), detects losses (RACK-TLP, RFC
//! 8985), limits what is sent (PRR, RFC 6937, and a congestion controller), and undoes spurious reductions (F-RTO, RFC
//! 5682; D-SACK, RFC 3708).
//!
//! Peers without SACK are recognised by duplicate acknowledgements without ranges; `NewReno` (RFC 6582) repairs their
//! losses. The module must not panic, loop long or grow a window beyond what was delivered, for any acknowledgements of
//! a peer.

mod ack;
mod cc;
mod delivery;
mod episode;
#[cfg(test)]
mod hostile;
mod loss;
mod measure;
#[cfg(test)]
mod model;
mod mtu_probe;
mod pool;
mod prr;
mod rack;
mod rate;
mod rtt;
mod scoreboard;
#[cfg(test)]
mod tests;
mod timer;
#[cfg(test)]
mod traces;
mod usage;

use super::{Options, Seq};
use crate::Time;
pub(crate) use ack::{Ack, Acked, LossTimer, Progress};
use alloc::boxed::Box;
use cc::{Bbr, CongestionControl, Controller, Window};
use core::ops::Range;
use delivery::Delivery;
use episode::{Episode, Frto};
pub(crate) use pool::SentPool;
use rack::Rack;
use rate::RateSampler;
use rtt::Rtt;
use scoreboard::Scoreboard;
use usage::Usage;

/// Whether the window is being reduced, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Not being reduced.
    Open,
    /// Reduced because of a congestion mark (RFC 3168), without a loss.
    Marked,
    /// Losses are repaired (fast recovery).
    Recovery,
    /// A timeout is repaired.
    Loss,
}

/// Tail loss probe (RFC 8985 section 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Probe {
    /// None sent.
    None,
    /// Requested by [`LossTimer::Probe`], not sent yet.
    Due,
    /// New data was sent as the probe.
    New,
    /// The last segment was sent again as the probe.
    Retransmission,
}

/// Reason of [`Recovery::loss_at`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// The reordering window of RACK.
    Reordering,
    /// A tail loss probe.
    Probe,
    /// F-RTO found no new data to send.
    NewData,
}

/// Loss recovery and congestion control of one connection.
#[expect(clippy::struct_excessive_bools, reason = "independent conditions")]
pub(crate) struct Recovery {
    board: Scoreboard,
    rtt: Rtt,
    rack: Rack,
    rate: RateSampler,
    window: Window,
    controller: Controller,
    episode: Option<Box<Episode>>,
    /// Time of the retransmission timeout.
    rto_at: Time,
    /// Time of the earlier timer, and its cause.
    loss_at: Time,
    cause: Cause,
    phase: Phase,
    probe: Probe,
    /// Whether the peer has sent SACK ranges; without them, duplicate acknowledgements are counted.
    has_sack: bool,
    /// Whether SACK can be in use, and probes with it.
    allows_sack: bool,
    /// Whether a round-trip time was measured since the last probe, which the next one needs (RFC 8985 section 7.3).
    may_probe: bool,
    /// Whether a probe of the path MTU may be among the unacknowledged entries.
    has_mtu_probe: bool,
    timeouts: u8,
    mss: u16,
    /// Next sequence number to send when the probe was sent (`TLP.end_seq`).
    probe_end: Seq,
    usage: Usage,
    /// Duplicate acknowledgements of a peer without SACK, each of which reports a segment as delivered.
    duplicates: u16,
}

const _: () = assert!(size_of::<Recovery>() <= 208);

/// Microseconds since the origin, modulo 2^32.
#[inline]
const fn stamp(now: Time) -> u32 {
    now.micros() as u32
}

impl Recovery {
    /// A connection without samples. `mss` is the sender's maximum segment size in bytes, without options.
    pub(crate) fn new(options: &Options, mss: u16, _now: Time) -> Self {
        let min_rto = options.min_rto.as_micros().min(u128::from(u32::MAX)) as u32;
        let mss = mss.max(1);
        Self {
            board: Scoreboard::new(),
            rtt: Rtt::new(min_rto),
            rack: Rack::new(),
            rate: RateSampler::default(),
            window: Window::initial(u32::from(mss)),
            controller: Controller::new(options.congestion, u32::from(mss), None),
            episode: None,
            rto_at: Time::NEVER,
            loss_at: Time::NEVER,
            cause: Cause::Probe,
            phase: Phase::Open,
            probe: Probe::None,
            has_sack: false,
            allows_sack: options.sack,
            may_probe: false,
            has_mtu_probe: false,
            timeouts: 0,
            mss,
            probe_end: Seq(0),
            usage: Usage::default(),
            duplicates: 0,
        }
    }

    #[inline]
    const fn mss(&self) -> u32 {
        self.mss as u32
    }

    /// Bytes in flight, if `flight` bytes are not acknowledged cumulatively.
    #[inline]
    const fn pipe(&self, flight: u32) -> u32 {
        let duplicate = self.duplicates as u32 * self.mss();
        let gone = self.board.sacked().saturating_add(self.board.lost()).saturating_add(duplicate);
        flight.saturating_sub(gone)
    }

    /// Records the transmission of new sequence numbers (data, SYN, FIN), which continue the last ones. A range longer
    /// than the segment size was sent by segmentation offload and is one entry, which can be split.
    #[inline]
    pub(crate) fn on_sent(&mut self, pool: &mut SentPool, range: Range<Seq>, now: Time) {
        if !range.start.is_before(range.end) {
            return;
        }
        let (is_first, stamp, rto) = (self.board.is_empty(), stamp(now), self.rtt.rto());
        if is_first {
            self.rack.fack = range.start;
            if self.rate.idle_time(stamp) > rto {
                self.on_idle();
            }
        }
        let (start, end) = (range.start, range.end);
        let bytes = end.since(range.start);
        let snapshot = self.rate.on_sent(stamp, is_first);
        self.board.push(pool, range, stamp, snapshot);
        self.controller.on_sent(bytes, now);
        self.usage.on_sent(is_first.then_some(start), end);
        if self.rto_at.is_never() {
            self.rto_at = now.after_micros(u64::from(rto));
        }
        if self.phase == Phase::Open && self.probe == Probe::None && self.board.sacked() == 0 {
            self.schedule_probe(now, is_first && bytes <= self.mss());
        } else {
            self.on_sent_in_episode(end, bytes);
        }
    }

    /// Records the retransmission of a range, usually one of [`Recovery::next_lost`].
    pub(crate) fn on_retransmitted(&mut self, pool: &mut SentPool, range: Range<Seq>, now: Time) {
        if !range.start.is_before(range.end) || self.board.is_empty() {
            return;
        }
        let snapshot = self.rate.on_sent(stamp(now), false);
        let bytes = self.board.retransmit(pool, &range, stamp(now), snapshot);
        self.controller.on_sent(bytes, now);
        if let Some(episode) = &mut self.episode {
            episode.on_retransmitted(bytes);
            episode.prr.on_sent(bytes);
        }
        if self.probe == Probe::Due {
            self.probe = Probe::Retransmission;
            self.probe_end = self.board.bounds(pool).map_or(range.end, |(_, nxt)| nxt);
        }
        let is_first = self.board.bounds(pool).is_some_and(|(una, _)| range.start.is_at_most(una));
        if is_first && self.phase == Phase::Recovery {
            self.rto_at = now.after_micros(u64::from(self.rtt.rto()));
        }
    }

    /// Processes an acknowledgement without SACK ranges and congestion marks, of an entry that was sent once and in
    /// order, while nothing is lost, selectively acknowledged or in doubt, for a controller that needs no rates.
    /// Returns the bytes delivered; `None`, without doing anything, if this is another acknowledgement.
    #[inline(always)]
    pub(crate) fn on_plain_ack(&mut self, pool: &mut SentPool, progress: &Progress) -> Option<u32> {
        if !self.is_quiet() || !progress.is_advancing() || self.controller.bbr().is_some() {
            return None;
        }
        let (start, sent) = self.board.acknowledge_first(pool, progress.ack)?;
        let (bytes, now) = (progress.ack.since(start), stamp(progress.now));
        self.usage.on_ack(progress.ack);
        self.sample_first(sent, now);
        self.rack.on_first_delivered(sent, progress.ack, now);
        self.rate.count(bytes, now);
        let sample = self.sample(progress, bytes, (Some(now.wrapping_sub(sent)), None), progress.left());
        self.controller.on_plain_ack(&mut self.window, &sample);
        self.schedule(progress);
        Some(bytes)
    }

    /// Whether nothing is lost, selectively acknowledged or in doubt.
    #[inline]
    const fn is_quiet(&self) -> bool {
        matches!((self.phase, self.probe), (Phase::Open, Probe::None))
            && self.episode.is_none()
            && self.board.sacked() | self.board.lost() | self.duplicates as u32 == 0
    }

    /// Processes an acknowledgement. Called for every acceptable one while data is unacknowledged, and for every one
    /// with a D-SACK, which can answer a probe after everything is acknowledged.
    pub(crate) fn on_ack(&mut self, pool: &mut SentPool, ack: &Ack<'_>) -> Acked {
        let is_plain = ack.sack.is_empty() && ack.duplicate.is_none() && !ack.has_ece;
        if is_plain && let Some(delivered) = self.on_plain_ack(pool, &ack.progress()) {
            return Acked { delivered, ..Acked::default() };
        }
        let now = stamp(ack.now);
        let recover = self.episode.as_ref().map_or(ack.una, |episode| episode.recover);
        let echoes_original = ack.echoes_original == Some(true);
        let mut delivery = Delivery::new(now, self.rtt.minimum(), echoes_original, self.rack.fack, recover);
        let was_quiet = self.is_quiet();
        self.board.acknowledge(pool, ack.ack, &mut delivery);
        self.usage.on_ack(ack.ack);
        self.has_sack |= ack.duplicate.is_some();
        if !ack.sack.is_empty() {
            self.has_sack = true;
            self.board.select(pool, ack.sack, self.mss(), &mut delivery);
        }
        let is_advancing = ack.una.is_before(ack.ack);
        self.sample_rtt(ack, &delivery, is_advancing);
        self.rack.on_delivered(&delivery, now);
        let acked = if is_plain && is_advancing && was_quiet {
            Acked { delivered: delivery.bytes(), ..Acked::default() }
        } else {
            self.on_irregular_ack(pool, ack, &delivery)
        };
        self.control(&ack.progress(), delivery.bytes(), delivery.latest.as_ref());
        self.schedule(&ack.progress());
        acked
    }

    /// First range marked lost and not retransmitted since, at most `max` bytes.
    #[inline]
    pub(crate) fn next_lost(&mut self, pool: &mut SentPool, max: u32) -> Option<Range<Seq>> {
        if self.board.lost() == 0 || self.awaits_new_data() {
            return None;
        }
        self.board.next_lost(pool, max)
    }

    /// Whether segments are marked lost and not retransmitted since.
    #[inline]
    pub(crate) fn has_lost(&self) -> bool {
        self.board.lost() > 0
    }

    /// Whether F-RTO prefers new data to retransmissions now.
    fn awaits_new_data(&self) -> bool {
        let frto = self.episode.as_ref().map(|episode| episode.frto);
        matches!(frto, Some(Frto::AwaitsNewData | Frto::SentFirst))
    }

    /// Bytes that the congestion window and PRR allow now, for retransmissions and new data; `flight` is the number of
    /// bytes sent and not acknowledged cumulatively (`nxt - una`). At least one segment for the first retransmission of
    /// a recovery. Limited transmit (RFC 3042) is included. With pacing, the time [`Recovery::paced_until`] is to be
    /// respected too, and at most a millisecond's worth is allowed at once.
    #[inline]
    pub(crate) fn allowance(&self, flight: u32) -> u32 {
        let room = self.window.congestion.saturating_sub(self.pipe(flight));
        if self.phase == Phase::Open && self.controller.bbr().is_none() {
            return room;
        }
        match (self.phase, &self.episode, self.controller.bbr()) {
            (Phase::Recovery, Some(episode), Some(_)) if episode.prr.is_first() => room.max(self.mss()),
            (_, _, Some(bbr)) => room.min(bbr.quantum(self.mss())),
            (Phase::Marked | Phase::Recovery, Some(episode), None) => episode.prr.budget(),
            _ => room,
        }
    }

    /// Earliest time of the next transmission by pacing; the origin if now.
    #[inline]
    pub(crate) fn paced_until(&self) -> Time {
        self.controller.bbr().map_or(Time(0), Bbr::paced_until)
    }

    /// Time of the next call of [`Recovery::on_timer`]: reordering, probe or retransmission timeout. [`Time::NEVER`]
    /// while nothing is unacknowledged.
    #[inline]
    pub(crate) fn deadline(&self) -> Time {
        self.rto_at.min(self.loss_at)
    }

    /// The segment size changed because the path MTU did. Segments larger than the new size are marked lost if
    /// `is_reduced` (RFC 1191 section 6.4); the congestion window is not reduced.
    pub(crate) fn on_segment_size(&mut self, pool: &mut SentPool, mss: u16, is_reduced: bool) {
        self.mss = mss.max(1);
        if is_reduced {
            self.board.mark_long_lost(pool, u32::from(self.mss));
            self.repair_without_reduction(pool);
        }
    }

    /// The handshake is complete: `mss` and SACK are what both sides agreed on, and the window is the initial one
    /// (RFC 6928), without the growth by the SYN's acknowledgement; one segment if the handshake lost a segment
    /// (RFC 5681 section 3.1).
    pub(crate) fn on_handshake(&mut self, options: &Options, mss: u16, has_sack: bool) {
        self.mss = mss.max(1);
        self.allows_sack = has_sack;
        self.window = Window::initial(u32::from(self.mss));
        if self.episode.is_some() {
            self.window.congestion = u32::from(self.mss);
        }
        self.controller = Controller::new(options.congestion, u32::from(self.mss), self.rtt.get());
    }

    /// The connection was idle for longer than its retransmission timeout (RFC 5681 section 4.1).
    #[cold]
    fn on_idle(&mut self) {
        self.controller.on_idle(&mut self.window, u32::from(self.mss));
    }

    /// Smoothed round-trip time and its variation, in microseconds; `None` without a sample.
    pub(crate) fn rtt(&self) -> Option<(u32, u32)> {
        self.rtt.get()
    }

    /// Ends the back-off of a timeout, and the wait for the next one.
    pub(crate) fn retry(&mut self, now: Time) {
        if self.timeouts > 0 && !self.rto_at.is_never() {
            self.rtt.forget_back_off();
            self.rto_at = now;
        }
    }

    /// Retransmission timeout with its back-off, in microseconds.
    pub(crate) fn rto(&self) -> u32 {
        self.rtt.rto()
    }

    /// Number of retransmission timeouts since the last progress.
    pub(crate) fn timeouts(&self) -> u32 {
        u32::from(self.timeouts)
    }

    /// Congestion window in bytes, and slow-start threshold.
    pub(crate) fn window(&self) -> (u32, u32) {
        (self.window.congestion, self.window.threshold)
    }

    /// None of the recorded segments has left the host.
    pub(crate) fn restart(&mut self, pool: &mut SentPool) {
        self.release(pool);
        self.timeouts = 0;
        self.rtt.forget_back_off();
    }

    /// Returns all entries to the pool, at the end of the connection.
    pub(crate) fn release(&mut self, pool: &mut SentPool) {
        self.board.release(pool);
        (self.rto_at, self.loss_at, self.episode) = (Time::NEVER, Time::NEVER, None);
        (self.phase, self.probe, self.duplicates) = (Phase::Open, Probe::None, 0);
    }
}
