//! Result of one trial.
//!
//! A frame that the switch's port refused counts as lost by the switch: on a wire it would have been sent and not
//! returned. A frame that the generator was late for was never offered and does not count.

use generator::meter::Summary;
use generator::rig::Outcome;
use serde::{Deserialize, Serialize};

/// A shortfall above this fraction of the requested frames counts as a limit of the generator: as in `gen`.
const MIN_SHORTFALL: f64 = 0.001;

/// Delays of frames.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Delays {
    /// Latency from frame generation to reception, in nanoseconds.
    pub latency_ns: Summary,
    /// Mean of the RFC 3550 jitter estimate over the trial, in nanoseconds.
    pub jitter_ns: f64,
    /// Absolute IPDV (RFC 3393), in nanoseconds.
    pub ipdv_ns: Summary,
    /// Latency histogram: largest value of each bucket in nanoseconds, and number of frames.
    pub histogram: Vec<(u64, u64)>,
    /// Latency of the same load over the generator's own loopback, which is part of every latency; `None` if not
    /// measured.
    pub baseline_ns: Option<Summary>,
}

/// Counters of a trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrialCounters {
    /// Duration of sending in seconds.
    pub seconds: f64,
    /// Frames accepted by the port.
    pub sent: u64,
    /// Distinct frames received.
    pub received: u64,
    /// Due frames that the port refused.
    pub refused: u64,
    /// Due frames that the generator was too late for.
    pub late: u64,
    /// Offers that the port accepted only in part.
    pub waits: u64,
    /// Duplicate frames.
    #[serde(default)]
    pub duplicates: u64,
    /// Reordered frames.
    #[serde(default)]
    pub reordered: u64,
    /// Delays, for latency trials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delays: Option<Delays>,
}

impl TrialCounters {
    /// The result of a generator run; with delays if `delays`.
    pub fn of(outcome: &Outcome, delays: bool) -> Self {
        let stream = outcome.streams.first();
        let delays = stream.filter(|_| delays).map(|stream| Delays {
            latency_ns: stream.latency_ns,
            jitter_ns: stream.jitter_ns,
            ipdv_ns: stream.ipdv_ns,
            histogram: stream.histogram.clone(),
            baseline_ns: None,
        });
        Self {
            seconds: outcome.seconds,
            sent: outcome.sent,
            received: outcome.received,
            refused: outcome.missed.port,
            late: outcome.missed.generator,
            waits: outcome.refused,
            duplicates: outcome.streams.iter().map(|stream| stream.duplicates).sum(),
            reordered: outcome.streams.iter().map(|stream| stream.reordered).sum(),
            delays,
        }
    }

    /// Frames offered to the switch.
    pub fn offered(&self) -> u64 {
        self.sent + self.refused
    }

    /// Offered frames per second.
    pub fn offered_pps(&self) -> f64 {
        self.per_second(self.offered())
    }

    /// Received frames per second.
    pub fn received_pps(&self) -> f64 {
        self.per_second(self.received)
    }

    /// Lost frames as a fraction of offered frames.
    pub fn loss(&self) -> f64 {
        let lost = self.offered().saturating_sub(self.received);
        if self.offered() == 0 { 0.0 } else { lost as f64 / self.offered() as f64 }
    }

    /// Whether the generator offered less than requested.
    pub fn is_short(&self) -> bool {
        self.late as f64 > (self.offered() + self.late) as f64 * MIN_SHORTFALL
    }

    /// Whether the counters are consistent.
    pub fn is_possible(&self) -> bool {
        self.seconds.is_finite() && self.seconds > 0.0 && self.received <= self.sent
    }

    fn per_second(&self, frames: u64) -> f64 {
        if self.seconds > 0.0 { frames as f64 / self.seconds } else { 0.0 }
    }
}
