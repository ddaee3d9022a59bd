//! Counts and histograms of a run.
//!
//! A request belongs to the round in which it was due; replies, bytes and connections count for the round in which they
//! arrived.

use super::input::Reply;
use super::options::{LoadOptions, Mode};
use super::results::{ConnectionCounts, Failure, Histograms, RequestCounts, Results, Round};
use super::series::{Kind, Recorder};
use measure::Histogram;
use stack::Time;

#[derive(Debug, Default)]
struct RoundMeter {
    latency: Histogram,
    replies: u64,
    bytes: u64,
    connects: u64,
}

/// The meter.
#[derive(Debug)]
pub(super) struct Meter {
    /// Start of the first round; [`Time::NEVER`] before the warm-up begins.
    begin: Time,
    /// End of the last round.
    end: Time,
    /// Nanoseconds of a round.
    round: u64,
    rounds: Vec<RoundMeter>,
    delay: Option<Histogram>,
    connect: Histogram,
    requests: RequestCounts,
    pub(super) connections: ConnectionCounts,
    series: Recorder,
    opened_at: Option<Time>,
    pub(super) wrong_reply: Option<String>,
}

impl Meter {
    pub(super) fn new(options: &LoadOptions, now: Time) -> Self {
        let rounds = (0..options.rounds.max(1)).map(|_| RoundMeter::default()).collect();
        let delay = matches!(options.mode, Mode::Open { .. }).then(Histogram::default);
        Self {
            begin: Time::NEVER,
            end: Time::NEVER,
            round: (options.duration.as_nanos() as u64).max(1),
            rounds,
            delay,
            connect: Histogram::default(),
            requests: RequestCounts::default(),
            connections: ConnectionCounts::default(),
            series: Recorder::new(now),
            opened_at: None,
            wrong_reply: None,
        }
    }

    /// All connections are open.
    pub(super) fn opened(&mut self, now: Time) {
        self.opened_at = Some(now);
    }

    /// Sets the start of the first round.
    pub(super) fn set_begin(&mut self, begin: Time) {
        self.begin = begin;
        self.end = Time(begin.0.saturating_add(self.round.saturating_mul(self.rounds.len() as u64)));
    }

    pub(super) const fn begin(&self) -> Time {
        self.begin
    }

    pub(super) const fn end(&self) -> Time {
        self.end
    }

    pub(super) const fn requests(&self) -> &RequestCounts {
        &self.requests
    }

    /// The round of a time.
    #[inline]
    fn round_at(&mut self, time: Time) -> Option<&mut RoundMeter> {
        let at = time.0.checked_sub(self.begin.0)? / self.round;
        self.rounds.get_mut(at as usize)
    }

    /// Whether a time is in a round.
    #[inline]
    fn is_measured(&self, time: Time) -> bool {
        (self.begin..self.end).contains(&time)
    }

    #[inline]
    pub(super) fn sent(&mut self, due: Time, now: Time) {
        if self.is_measured(due) {
            self.requests.sent += 1;
            if let Some(delay) = &mut self.delay {
                delay.record(now.0 - due.0);
            }
        }
    }

    #[inline]
    pub(super) fn answered(&mut self, due: Time, reply: Reply, now: Time) {
        self.series.record(Kind::Reply, now);
        if let Some(round) = self.round_at(now) {
            round.replies += 1;
        }
        if let Some(round) = self.round_at(due) {
            round.latency.record(now.0 - due.0);
            self.requests.answered += 1;
            self.requests.error_replies += u64::from(reply.is_error);
            self.requests.misses += u64::from(reply.is_miss);
        }
    }

    #[inline]
    pub(super) fn received(&mut self, bytes: usize, now: Time) {
        if let Some(round) = self.round_at(now) {
            round.bytes += bytes as u64;
        }
    }

    pub(super) fn failed(&mut self, due: Time, reason: Failure, now: Time) {
        self.series.record(Kind::Failure, now);
        if self.is_measured(due) {
            self.requests.failed.add(reason);
        }
    }

    /// A connection is established, and `open` with it.
    pub(super) fn connected(&mut self, since: Time, open: u64, now: Time) {
        self.connections.established += 1;
        self.connections.most = self.connections.most.max(open);
        self.connect.record(now.0 - since.0);
        self.series.record(Kind::Connect, now);
        if let Some(round) = self.round_at(now) {
            round.connects += 1;
        }
    }

    pub(super) fn connect_failed(&mut self, reason: Failure, now: Time) {
        self.series.record(Kind::Failure, now);
        self.connections.failed.add(reason);
    }

    /// The latency of all rounds.
    pub(super) fn latency(&self) -> Histogram {
        let mut all = Histogram::default();
        self.rounds.iter().for_each(|round| all.merge(&round.latency));
        all
    }

    /// Results up to now. `outstanding` are the requests without a reply, by their due times; `unsent` is the number of
    /// requests that were due and not sent.
    pub(super) fn results(
        &self,
        outstanding: impl Iterator<Item = Time>,
        unsent: u64,
        client_bytes: usize,
        now: Time,
    ) -> Results {
        let mut requests = self.requests.clone();
        requests.outstanding = outstanding.filter(|due| self.is_measured(*due)).count() as u64;
        requests.unsent = unsent;
        requests.due = requests.sent + unsent;
        let passed = now.min(self.end).0.saturating_sub(self.begin.0);
        let round = |n: usize, round: &RoundMeter| {
            let seconds = passed.saturating_sub(n as u64 * self.round).min(self.round) as f64 / 1e9;
            (seconds > 0.0).then(|| Round {
                replies_per_second: round.replies as f64 / seconds,
                bytes_per_second: round.bytes as f64 / seconds,
                connects_per_second: round.connects as f64 / seconds,
                ..Round::default()
            })
        };
        let window = (!self.begin.is_never()).then_some((self.begin, self.end));
        let connections = self.connections.most.max(1) as f64;
        let latencies = self.rounds.iter().map(|round| round.latency.clone()).collect();
        let (delay, connect) = (self.delay.clone(), self.connect.clone());
        let mut results = Results {
            is_complete: now >= self.end,
            seconds: passed as f64 / 1e9,
            opened_after: self.opened_at.map(|at| (at.0 - self.series.start().0) as f64 / 1e9),
            requests,
            connections: self.connections.clone(),
            rounds: self.rounds.iter().enumerate().filter_map(|(n, each)| round(n, each)).collect(),
            series: self.series.finish(window),
            client_bytes_per_connection: client_bytes as f64 / connections,
            wrong_reply: self.wrong_reply.clone(),
            histograms: Histograms { rounds: latencies, delay, connect },
            ..Results::default()
        };
        results.summarize();
        results
    }
}
