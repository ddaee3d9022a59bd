//! Loss recovery and congestion control of one connection: what may be sent, what is lost, and when.
//!
//! The connection reports each segment that it sends and each acknowledgement that it accepts. This module keeps the
//! scoreboard of unacknowledged segments, estimates the round-trip time (RFC 6298), detects losses (RACK-TLP, RFC
//! 8985), limits what is sent (PRR, RFC 6937, and a congestion controller), and undoes spurious reductions (F-RTO, RFC
//! 5682; D-SACK, RFC 3708).
//!
//! Peers without SACK are recognised by duplicate acknowledgements without ranges; NewReno (RFC 6582) repairs their
//! losses. The module must not panic, loop long or grow a window beyond what was delivered, whatever a peer
//! acknowledges.

mod cc;
mod delivery;
mod episode;
mod loss;
#[cfg(test)]
mod model;
mod pool;
mod prr;
mod rack;
mod rate;
mod rtt;
mod scoreboard;
#[cfg(test)]
mod tests;

use super::{Options, Seq};
use crate::Time;
use alloc::boxed::Box;
use cc::{AckSample, CongestionControl, Controller, Window};
use core::ops::Range;
use delivery::Delivery;
use episode::{Episode, Frto};
pub(crate) use pool::SentPool;
use rack::Rack;
use rate::{Rate, RateSampler};
use rtt::Rtt;
use scoreboard::Scoreboard;

/// An acknowledgement that the connection has accepted (RFC 9293 section 3.10.7.4).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ack<'a> {
    /// First unacknowledged sequence number before this segment.
    pub(crate) una: Seq,
    /// Acknowledgement number: at least `una`, at most `nxt`.
    pub(crate) ack: Seq,
    /// Next sequence number to send.
    pub(crate) nxt: Seq,
    /// Ranges of the SACK option, within `ack..nxt` and not empty, first one first. A D-SACK range is excluded.
    pub(crate) sack: &'a [(Seq, Seq)],
    /// Range of a D-SACK (RFC 2883): received twice.
    pub(crate) duplicate: Option<(Seq, Seq)>,
    /// Microseconds since the echoed timestamp was sent, if the segment has a usable one.
    pub(crate) timestamp_rtt: Option<u32>,
    /// Whether the segment echoes the timestamp of an original transmission although a retransmission was sent (Eifel
    /// detection, RFC 3522). `None` without timestamps.
    pub(crate) echoes_original: Option<bool>,
    /// Whether the segment carries payload or changes the window, so that it is not a duplicate acknowledgement (RFC 5681
    /// section 2).
    pub(crate) is_update: bool,
    /// Whether the peer reports congestion (ECE of RFC 3168) for data of this window.
    pub(crate) has_ece: bool,
    /// Whether the application had nothing more to send when `nxt` was reached.
    pub(crate) is_app_limited: bool,
    /// Time.
    pub(crate) now: Time,
}

/// Consequences of an acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Acked {
    /// Bytes newly delivered, cumulatively or selectively.
    pub(crate) delivered: u32,
    /// Whether segments were marked lost: [`Recovery::next_lost`] has work.
    pub(crate) has_lost: bool,
    /// Whether a reduction of the window was undone.
    pub(crate) is_undone: bool,
    /// Whether the congestion window was reduced because of ECE: the next new segment carries CWR.
    pub(crate) is_reduced_by_ece: bool,
}

/// The connection's reaction to a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LossTimer {
    /// No timer was due.
    None,
    /// The reordering window of RACK expired; segments were marked lost.
    Reordering,
    /// Send a tail loss probe: one segment of new data if there is some and the window allows it, else the last segment
    /// again. Reported by [`Recovery::on_sent`] or [`Recovery::on_retransmitted`] as usual.
    Probe,
    /// The retransmission timeout expired: all segments that were not selectively acknowledged are marked lost, and the
    /// timeout was doubled.
    Timeout,
}

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
    timeouts: u8,
    mss: u16,
    /// Next sequence number to send when the probe was sent (`TLP.end_seq`).
    probe_end: Seq,
    /// Duplicate acknowledgements of a peer without SACK, each of which reports a segment as delivered.
    duplicates: u16,
}

const _: () = assert!(size_of::<Recovery>() <= 256);

/// Microseconds since the origin, modulo 2^32.
#[inline]
const fn stamp(now: Time) -> u32 {
    now.micros() as u32
}

impl Recovery {
    /// A connection without samples. `mss` is the sender's maximum segment size in bytes, without options.
    pub(crate) fn new(options: &Options, mss: u16, now: Time) -> Self {
        let min_rto = options.min_rto.as_micros().min(u128::from(u32::MAX)) as u32;
        let mss = mss.max(1);
        let _ = now;
        Self {
            board: Scoreboard::new(),
            rtt: Rtt::new(min_rto),
            rack: Rack::new(),
            rate: RateSampler::default(),
            window: Window::initial(u32::from(mss)),
            controller: Controller::new(options.congestion),
            episode: None,
            rto_at: Time::NEVER,
            loss_at: Time::NEVER,
            cause: Cause::Probe,
            phase: Phase::Open,
            probe: Probe::None,
            has_sack: false,
            allows_sack: options.sack,
            timeouts: 0,
            mss,
            probe_end: Seq(0),
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

    /// Bytes not acknowledged cumulatively.
    fn flight(&self, pool: &SentPool) -> u32 {
        self.board.bounds(pool).map_or(0, |(una, nxt)| nxt.since(una))
    }

    /// Records the transmission of new sequence numbers (data, SYN, FIN), which continue the last ones. A range longer
    /// than the segment size was sent by segmentation offload and is one entry, which can be split.
    #[inline]
    pub(crate) fn on_sent(&mut self, pool: &mut SentPool, range: Range<Seq>, now: Time) {
        if !range.start.is_before(range.end) {
            return;
        }
        let is_first = self.board.is_empty();
        if is_first {
            self.rack.fack = range.start;
        }
        let end = range.end;
        let bytes = end.since(range.start);
        let snapshot = self.rate.on_sent(stamp(now), is_first);
        self.board.push(pool, range, stamp(now), snapshot);
        if self.rto_at.is_never() {
            self.rto_at = now.after_micros(u64::from(self.rtt.rto()));
        }
        if self.phase == Phase::Open && self.probe == Probe::None {
            self.schedule_probe(now, is_first && bytes <= self.mss());
        } else {
            self.on_sent_in_episode(end, bytes);
        }
    }

    /// Records the retransmission of a range, usually one of [`Recovery::next_lost`].
    pub(crate) fn on_retransmitted(&mut self, pool: &mut SentPool, range: Range<Seq>, now: Time) {
        let snapshot = self.rate.on_sent(stamp(now), self.board.is_empty());
        let bytes = self.board.retransmit(pool, &range, stamp(now), snapshot);
        if let Some(episode) = &mut self.episode {
            episode.on_retransmitted(bytes);
            episode.prr.on_sent(bytes);
        }
        if self.probe == Probe::Due {
            self.probe = Probe::Retransmission;
            self.probe_end = self.board.bounds(pool).map_or(range.end, |(_, nxt)| nxt);
        }
        if self.board.is_first_retransmitted(pool) && self.phase == Phase::Recovery {
            self.rto_at = now.after_micros(u64::from(self.rtt.rto()));
        }
    }

    /// Processes an acknowledgement. Called for every acceptable one while data is unacknowledged.
    #[inline]
    pub(crate) fn on_ack(&mut self, pool: &mut SentPool, ack: Ack<'_>) -> Acked {
        let now = stamp(ack.now);
        let recover = self.episode.as_ref().map_or(ack.una, |episode| episode.recover);
        let echoes_original = ack.echoes_original == Some(true);
        let mut delivery = Delivery::new(now, self.rtt.minimum(), echoes_original, self.rack.fack, recover);
        let sacked = self.board.sacked();
        self.board.acknowledge(pool, ack.ack, &mut delivery);
        if !ack.sack.is_empty() {
            self.has_sack = true;
            self.board.select(pool, ack.sack, self.mss(), &mut delivery);
        }
        let is_advancing = ack.una.is_before(ack.ack);
        self.sample_rtt(&ack, &delivery, is_advancing);
        self.rack.on_delivered(&delivery, now);
        let is_quiet = self.phase == Phase::Open
            && self.episode.is_none()
            && self.probe == Probe::None
            && self.duplicates == 0
            && is_advancing
            && sacked | self.board.sacked() | self.board.lost() == 0
            && ack.duplicate.is_none()
            && !ack.has_ece;
        let acked = if is_quiet {
            Acked { delivered: delivery.bytes(), ..Acked::default() }
        } else {
            self.on_irregular_ack(pool, &ack, &delivery)
        };
        self.control(&ack, &delivery);
        self.schedule(&ack, is_advancing);
        acked
    }

    #[inline]
    fn sample_rtt(&mut self, ack: &Ack<'_>, delivery: &Delivery, is_advancing: bool) {
        let now = stamp(ack.now);
        if let Some(rtt) = delivery.oldest_rtt {
            let latest = delivery.latest.map_or(rtt, |latest| now.wrapping_sub(latest.sent));
            self.rtt.sample_minimum(latest.min(rtt), now);
        }
        if !is_advancing {
            return;
        }
        self.timeouts = 0;
        match (ack.timestamp_rtt, delivery.oldest_rtt) {
            (Some(rtt), _) => self.rtt.sample(rtt),
            (None, Some(rtt)) if !delivery.has_retransmitted => self.rtt.sample(rtt),
            _ => self.rtt.on_late_handshake(),
        }
    }

    /// Passes a delivery to the controller.
    #[inline]
    fn control(&mut self, ack: &Ack<'_>, delivery: &Delivery) {
        let latest = delivery.latest.map(|latest| (latest.sent, latest.snapshot));
        let now = stamp(ack.now);
        let rate = self.rate.on_delivered(delivery.bytes(), latest, self.rtt.minimum(), now);
        let pipe = self.pipe(ack.nxt.since(ack.ack));
        if ack.is_app_limited {
            self.rate.on_app_limited(pipe);
        }
        if delivery.bytes() == 0 || !matches!(self.phase, Phase::Open | Phase::Loss) {
            return;
        }
        let sample = self.sample(ack, delivery, rate, pipe);
        self.controller.on_ack(&mut self.window, &sample);
    }

    #[inline]
    fn sample(&self, ack: &Ack<'_>, delivery: &Delivery, rate: Option<Rate>, pipe: u32) -> AckSample {
        let (now, flight) = (stamp(ack.now), ack.nxt.since(ack.una));
        AckSample {
            now,
            delivered: delivery.bytes(),
            flight,
            pipe,
            mss: self.mss(),
            una: ack.ack,
            nxt: ack.nxt,
            rtt: delivery.latest.map(|latest| now.wrapping_sub(latest.sent)),
            smoothed_rtt: self.rtt.get().map_or(0, |(smoothed, _)| smoothed),
            rate,
            is_limited: self.is_limited(flight),
            is_repairing: self.phase == Phase::Loss,
        }
    }

    /// Whether the window limited `flight`. Half of it suffices in slow start, as the flight of the last round trip.
    #[inline]
    const fn is_limited(&self, flight: u32) -> bool {
        let cwnd = self.window.congestion;
        if self.window.is_slow_start() {
            cwnd < flight.saturating_mul(2)
        } else {
            cwnd <= flight.saturating_add(3 * self.mss as u32)
        }
    }

    /// First range marked lost and not retransmitted since, at most `max` bytes.
    #[inline]
    pub(crate) fn next_lost(&mut self, pool: &mut SentPool, max: u32) -> Option<Range<Seq>> {
        if self.board.lost() == 0 || self.awaits_new_data() {
            return None;
        }
        self.board.next_lost(pool, max)
    }

    /// Whether F-RTO prefers new data to retransmissions now.
    fn awaits_new_data(&self) -> bool {
        self.episode.as_ref().is_some_and(|episode| episode.frto == Frto::AwaitsNewData)
    }

    /// Bytes that the congestion window and PRR allow now, for retransmissions and new data; `flight` is the number of
    /// bytes sent and not acknowledged cumulatively (`nxt - una`). At least one segment for the first retransmission of
    /// a recovery. Limited transmit (RFC 3042) is included.
    #[inline]
    pub(crate) fn allowance(&self, flight: u32) -> u32 {
        match (self.phase, &self.episode) {
            (Phase::Marked | Phase::Recovery, Some(episode)) => episode.prr.budget(),
            _ => self.window.congestion.saturating_sub(self.pipe(flight)),
        }
    }

    /// Earliest time of the next transmission by pacing; the origin if now.
    #[inline]
    pub(crate) fn paced_until(&self) -> Time {
        Time(0)
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
        }
    }

    /// The connection was idle (RFC 5681 section 4.1) or starts with a known round-trip time of the handshake.
    pub(crate) fn on_idle(&mut self, now: Time) {
        let _ = now;
        self.controller.on_idle(&mut self.window, u32::from(self.mss));
    }

    /// Smoothed round-trip time and its variation, in microseconds; `None` without a sample.
    pub(crate) fn rtt(&self) -> Option<(u32, u32)> {
        self.rtt.get()
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

    /// Returns all entries to the pool, at the end of the connection.
    pub(crate) fn release(&mut self, pool: &mut SentPool) {
        self.board.release(pool);
        (self.rto_at, self.loss_at, self.episode) = (Time::NEVER, Time::NEVER, None);
        (self.phase, self.probe, self.duplicates) = (Phase::Open, Probe::None, 0);
    }
}
