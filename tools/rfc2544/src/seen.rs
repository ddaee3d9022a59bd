//! What one trial showed, and what that says about the switch.
//!
//! A frame that the switch's port did not take is a frame lost by the switch: on a wire it would have been sent and
//! not come back. A frame that the generator was too late for was never offered, and says nothing about the switch.

use generator::meter::Summary;
use generator::rig::Outcome;
use serde::{Deserialize, Serialize};

/// Above this part of what was asked, the generator was the limit: as in `gen`.
const NOTICED: f64 = 0.001;

/// How long frames took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Delays {
    /// From making a frame to finding it, in nanoseconds.
    pub latency_ns: Summary,
    /// RFC 3550's estimate, its mean over the trial, in nanoseconds.
    pub jitter_ns: f64,
    /// The size of IPDV (RFC 3393), in nanoseconds.
    pub ipdv_ns: Summary,
    /// The greatest latency of each range in nanoseconds, and how many frames had it.
    pub histogram: Vec<(u64, u64)>,
    /// The same load over the generator's own wire: its part of every latency; none where it could not be had.
    pub baseline_ns: Option<Summary>,
}

/// The numbers of a trial.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// How long frames were sent, in seconds.
    pub seconds: f64,
    /// Frames that the port accepted.
    pub sent: u64,
    /// Different frames that came back.
    pub received: u64,
    /// Frames that were due and that the port did not take.
    pub refused: u64,
    /// Frames that were due and that the generator was too late for.
    pub late: u64,
    /// Offers of several frames of which the port did not take all at once.
    pub waits: u64,
    /// Frames beyond the first of their number.
    #[serde(default)]
    pub duplicates: u64,
    /// Frames that came behind one that was sent later.
    #[serde(default)]
    pub reordered: u64,
    /// Where latency was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delays: Option<Delays>,
}

impl Seen {
    /// From what the generator says; with delays where they are wanted.
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

    /// Frames that the switch had to do with.
    pub fn offered(&self) -> u64 {
        self.sent + self.refused
    }

    /// Frames a second of those.
    pub fn offered_pps(&self) -> f64 {
        self.per_second(self.offered())
    }

    /// Frames a second that came back.
    pub fn received_pps(&self) -> f64 {
        self.per_second(self.received)
    }

    /// Of those that were offered, the part that did not come back.
    pub fn loss(&self) -> f64 {
        let lost = self.offered().saturating_sub(self.received);
        if self.offered() == 0 { 0.0 } else { lost as f64 / self.offered() as f64 }
    }

    /// Whether the generator did not offer what was asked.
    pub fn is_short(&self) -> bool {
        self.late as f64 > (self.offered() + self.late) as f64 * NOTICED
    }

    /// Whether all numbers can be.
    pub fn is_possible(&self) -> bool {
        self.seconds.is_finite() && self.seconds > 0.0 && self.received <= self.sent
    }

    fn per_second(&self, frames: u64) -> f64 {
        if self.seconds > 0.0 { frames as f64 / self.seconds } else { 0.0 }
    }
}
