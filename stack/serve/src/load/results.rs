//! Results of a run.

use measure::{Histogram, Summary};
use serde::Serialize;
use std::collections::BTreeMap;

/// Reason why a request has no reply, or a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Failure {
    /// The server refused the connection.
    #[error("connection refused")]
    Refused,
    /// The server reset the connection.
    #[error("connection reset by the server")]
    Reset,
    /// Segments were not acknowledged.
    #[error("connection timed out")]
    TimedOut,
    /// The network reports that the server cannot be reached.
    #[error("destination unreachable")]
    Unreachable,
    /// The server closed the connection before the reply was complete.
    #[error("connection closed by the server")]
    Closed,
    /// The reply does not belong to the request.
    #[error("wrong reply")]
    WrongReply,
    /// The connection was aborted because of an earlier wrong reply, or its address was removed.
    #[error("connection aborted")]
    Aborted,
}

/// Number of reasons.
pub(super) const FAILURES: usize = Failure::Aborted as usize + 1;

impl Failure {
    const ALL: [Self; FAILURES] = [
        Self::Refused,
        Self::Reset,
        Self::TimedOut,
        Self::Unreachable,
        Self::Closed,
        Self::WrongReply,
        Self::Aborted,
    ];
}

impl From<stack::Closed> for Failure {
    fn from(reason: stack::Closed) -> Self {
        match reason {
            stack::Closed::Normally => Self::Closed,
            stack::Closed::Reset => Self::Reset,
            stack::Closed::Refused => Self::Refused,
            stack::Closed::TimedOut => Self::TimedOut,
            stack::Closed::Unreachable => Self::Unreachable,
            stack::Closed::Aborted => Self::Aborted,
        }
    }
}

/// Counts by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failures(pub(super) [u64; FAILURES]);

impl Failures {
    /// Counts one.
    pub(super) fn add(&mut self, reason: Failure) {
        self.0[reason as usize] += 1;
    }

    /// Number of all.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Reasons and numbers, without zeros.
    pub fn iter(&self) -> impl Iterator<Item = (Failure, u64)> {
        Failure::ALL.into_iter().zip(self.0).filter(|(_, count)| *count > 0)
    }
}

impl Serialize for Failures {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let map: BTreeMap<String, u64> =
            self.iter().map(|(reason, count)| (reason.to_string(), count)).collect();
        map.serialize(serializer)
    }
}

/// Requests that were due within the rounds: `due` is `sent` plus `unsent`, and `sent` is `answered` plus the failed
/// ones plus `outstanding`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = LoadRequests))]
pub struct RequestCounts {
    /// Due within the rounds.
    pub due: u64,
    /// Sent.
    pub sent: u64,
    /// Answered, also by an error or after the end of the rounds.
    pub answered: u64,
    /// Failed, by reason.
    #[cfg_attr(feature = "schema", schema(value_type = BTreeMap<String, u64>))]
    pub failed: Failures,
    /// Neither answered nor failed at the end.
    pub outstanding: u64,
    /// Due, and not sent because all connections had enough requests on their way.
    pub unsent: u64,
    /// Answered by an error: HTTP status 400 and above, or an error of memcached.
    pub error_replies: u64,
    /// Answered: no such value.
    pub misses: u64,
}

/// Connections of the whole run: `attempted` is `established` plus `connecting` plus the failed ones, and `established`
/// is `open` plus `ended` plus the lost ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = LoadConnections))]
pub struct ConnectionCounts {
    /// Attempts to connect.
    pub attempted: u64,
    /// Successful attempts.
    pub established: u64,
    /// In their handshake at the end.
    pub connecting: u64,
    /// Failed attempts, by reason.
    #[cfg_attr(feature = "schema", schema(value_type = BTreeMap<String, u64>))]
    pub failed: Failures,
    /// Open at the end of the last round; the client closes them then.
    pub open: u64,
    /// Closed by the client, or by the server without a request on its way.
    pub ended: u64,
    /// Ended otherwise, by reason.
    #[cfg_attr(feature = "schema", schema(value_type = BTreeMap<String, u64>))]
    pub lost: Failures,
    /// Largest number of established connections at a time; of several workers, the sum of theirs.
    pub most: u64,
}

/// A round.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = LoadRound))]
pub struct Round {
    /// Replies that were complete within the round, per second.
    pub replies_per_second: f64,
    /// Bytes of replies received within the round, per second.
    pub bytes_per_second: f64,
    /// Connections established within the round, per second.
    pub connects_per_second: f64,
    /// Latency of the requests that were due within the round, from the due time (open loop) or the time of sending
    /// (closed loop) to the complete reply.
    pub latency_ns: Summary,
}

/// Events of one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = LoadPoint))]
pub struct Point {
    /// Complete replies.
    pub replies: u64,
    /// Connections established.
    pub connects: u64,
    /// Failed requests and attempts to connect.
    pub failures: u64,
}

impl Point {
    pub(super) fn add(&mut self, other: Self) {
        self.replies += other.replies;
        self.connects += other.connects;
        self.failures += other.failures;
    }
}

/// The sums of each two intervals.
pub(super) fn pairs(points: &[Point]) -> Vec<Point> {
    let sum = |pair: &[Point]| {
        pair.iter().fold(Point::default(), |mut sum, point| {
            sum.add(*point);
            sum
        })
    };
    points.chunks(2).map(sum).collect()
}

/// Events over time, from the first attempt to connect on.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = LoadSeries))]
pub struct Series {
    /// Seconds of an interval.
    pub interval: f64,
    /// Intervals.
    pub points: Vec<Point>,
    /// Seconds from the first attempt to the first round.
    pub begin: Option<f64>,
    /// Seconds from the first attempt to the end of the last round.
    pub end: Option<f64>,
}

/// Histograms from which the summaries are computed.
#[derive(Clone, Debug, Default)]
pub(super) struct Histograms {
    /// Latencies by round.
    pub(super) rounds: Vec<Histogram>,
    pub(super) delay: Option<Histogram>,
    pub(super) connect: Histogram,
}

/// Results.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema), schema(as = LoadResults))]
pub struct Results {
    /// Whether all rounds were completed.
    pub is_complete: bool,
    /// Duration of all rounds in seconds, as far as they were run.
    pub seconds: f64,
    /// Seconds until all connections were open; null if they never were.
    pub opened_after: Option<f64>,
    /// Requests.
    pub requests: RequestCounts,
    /// Connections.
    pub connections: ConnectionCounts,
    /// Latency of all rounds.
    pub latency_ns: Summary,
    /// Open loop: time by which requests were sent later than due, because of the client or of busy connections.
    pub delay_ns: Option<Summary>,
    /// Time from the first SYN until a connection was established, of the whole run.
    pub connect_ns: Summary,
    /// Rounds.
    pub rounds: Vec<Round>,
    /// Latencies: largest value of a bucket in nanoseconds, and number of requests.
    pub histogram: Vec<(u64, u64)>,
    /// Rates over time.
    pub series: Series,
    /// Bytes of the client for each connection, without the stack.
    pub client_bytes_per_connection: f64,
    /// Description of the first wrong reply.
    pub wrong_reply: Option<String>,
    #[serde(skip)]
    pub(super) histograms: Histograms,
}

impl Results {
    /// Computes the summaries from the histograms.
    pub(super) fn summarize(&mut self) {
        let Histograms { rounds, delay, connect } = &self.histograms;
        let mut all = Histogram::default();
        for round in rounds {
            all.merge(round);
        }
        self.latency_ns = all.summary();
        self.histogram = all.buckets().collect();
        self.delay_ns = delay.as_ref().map(Histogram::summary);
        self.connect_ns = connect.summary();
        for (round, latency) in self.rounds.iter_mut().zip(rounds) {
            round.latency_ns = latency.summary();
        }
    }
}
