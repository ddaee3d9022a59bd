//! Results of a run as printed and stored: plain numbers; units are part of names or documentation.

use super::super::meter::{Meter, Stream, Summary, Unidentified};
use super::super::source::Sent;
use serde::{Deserialize, Serialize};

/// A shortfall above this fraction of the requested frames is reported as a limit.
const MIN_SHORTFALL: f64 = 0.001;

/// Cause of a shortfall from the requested rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// No shortfall.
    #[default]
    None,
    /// The generator was late.
    Generator,
    /// The port, or the switch behind it, accepted no more.
    Port,
}

/// Frames due but not sent, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missed {
    /// The generator was late, or had not generated them at the end of the run.
    pub generator: u64,
    /// The port accepted no more.
    pub port: u64,
}

/// Results of one stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamOutcome {
    /// Name.
    pub name: String,
    /// Frames accepted by the port.
    pub sent: u64,
    /// Distinct frames received.
    pub received: u64,
    /// Frames sent and not received.
    pub lost: u64,
    /// Lost frames as a fraction of sent frames.
    pub loss_ratio: f64,
    /// Duplicate frames.
    pub duplicates: u64,
    /// Reordered frames (RFC 4737).
    pub reordered: u64,
    /// Reordered frames as a fraction of received frames (RFC 4737 section 4.1).
    pub reordered_ratio: f64,
    /// Reordering extent, in frames (RFC 4737 section 4.2).
    pub reordering_extent: Summary,
    /// Frames too late to be told from duplicates; they count as lost.
    pub too_late: u64,
    /// Requested rate in frames per second; `None` if unlimited.
    pub asked_pps: Option<f64>,
    /// Sent frames per second.
    pub sent_pps: f64,
    /// Received frames per second.
    pub received_pps: f64,
    /// Received bits per second, of frames without checksum.
    pub received_bps: f64,
    /// Fraction of the due frames that were not sent.
    pub pacing_error: f64,
    /// Maximum delay from due time to sending, in nanoseconds.
    pub latest_ns: u64,
    /// Latency from frame generation to reception, in nanoseconds.
    pub latency_ns: Summary,
    /// Mean of the RFC 3550 jitter estimate over all frames, in nanoseconds.
    pub jitter_ns: f64,
    /// Maximum of the jitter estimate, in nanoseconds.
    pub jitter_max_ns: f64,
    /// Absolute IPDV (RFC 3393), in nanoseconds.
    pub ipdv_ns: Summary,
    /// Longest time without a received frame during the measurement, in nanoseconds.
    #[serde(default)]
    pub longest_silence_ns: u64,
    /// Latency histogram: largest value of each bucket in nanoseconds, and number of frames.
    pub histogram: Vec<(u64, u64)>,
}

/// Results of all streams.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Duration of the measurement in seconds, without warm-up and draining.
    pub seconds: f64,
    /// Whether the run ended early; the numbers then cover the time until its end.
    pub interrupted: bool,
    /// The first port that stopped carrying packets during the measurement, with time and reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disconnected: Option<String>,
    /// Frames accepted by the port.
    pub sent: u64,
    /// Distinct frames received.
    pub received: u64,
    /// Frames sent and not received.
    pub lost: u64,
    /// Lost frames as a fraction of sent frames.
    pub loss_ratio: f64,
    /// Sent frames per second.
    pub sent_pps: f64,
    /// Received frames per second.
    pub received_pps: f64,
    /// Cause of a shortfall from the requested rate.
    pub limit: Limit,
    /// Frames due but not sent.
    pub missed: Missed,
    /// Offers that the port accepted only in part; the rest was offered again.
    pub refused: u64,
    /// Sent frames that the sending port itself dropped.
    pub dropped_by_port: u64,
    /// Warm-up frames received.
    pub warm_up: u64,
    /// Frames without a valid tag of this run.
    pub untagged: u64,
    /// Frames whose tag names an unknown stream.
    pub unknown_stream: u64,
    /// Frames whose tag is later than their arrival.
    pub impossible_time: u64,
    /// Frames, tagged or not, received by the sending port; without warm-up frames and announcements.
    pub returned: u64,
    /// Number of port faults.
    pub faults: u64,
    /// Results per stream.
    pub streams: Vec<StreamOutcome>,
}

/// Input of the results.
pub(super) struct Counted<'a> {
    pub(super) seconds: f64,
    pub(super) interrupted: bool,
    pub(super) disconnected: Option<String>,
    pub(super) names: &'a [String],
    pub(super) rates: &'a [Option<f64>],
    pub(super) sent: Vec<Sent>,
    pub(super) meter: &'a Meter,
    pub(super) missed: Missed,
    /// Offers of bursts, and offers accepted only in part.
    pub(super) offers: (u64, u64),
    pub(super) dropped_by_port: u64,
    pub(super) returned: u64,
    pub(super) faults: u64,
}

fn part(of: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { of as f64 / all as f64 }
}

impl Counted<'_> {
    /// Computes the results.
    pub(super) fn outcome(&self) -> Outcome {
        let streams: Vec<_> = (0..self.sent.len()).map(|i| self.stream(i)).collect();
        let total = |of: fn(&StreamOutcome) -> u64| streams.iter().map(of).sum::<u64>();
        let (sent, received, lost) = (total(|s| s.sent), total(|s| s.received), total(|s| s.lost));
        let Unidentified { warm_up, untagged, unknown, future } = self.meter.unidentified();
        Outcome {
            seconds: self.seconds,
            interrupted: self.interrupted,
            disconnected: self.disconnected.clone(),
            sent,
            received,
            lost,
            loss_ratio: part(lost, sent),
            sent_pps: sent as f64 / self.seconds,
            received_pps: received as f64 / self.seconds,
            limit: self.limit(sent),
            missed: self.missed,
            refused: self.offers.1,
            dropped_by_port: self.dropped_by_port,
            warm_up,
            untagged,
            unknown_stream: unknown,
            impossible_time: future,
            returned: self.returned,
            faults: self.faults,
            streams,
        }
    }

    /// Determines the limit. Without a rate, the port is the limit if it refused more than one percent of the offers.
    fn limit(&self, sent: u64) -> Limit {
        let Missed { generator, port } = self.missed;
        if self.rates.iter().any(Option::is_none) {
            let (offers, refused) = self.offers;
            return if refused * 100 > offers { Limit::Port } else { Limit::Generator };
        }
        let asked = sent + generator + port;
        match (part(generator, asked) > MIN_SHORTFALL, part(port, asked) > MIN_SHORTFALL) {
            (true, _) if generator >= port => Limit::Generator,
            (_, true) => Limit::Port,
            (_, false) => Limit::None,
        }
    }

    fn stream(&self, i: usize) -> StreamOutcome {
        let (sent, rate) = (&self.sent[i], self.rates.get(i).copied().flatten());
        let Some(stream) = self.meter.streams().get(i) else {
            return StreamOutcome::default();
        };
        let Stream { order, delay, bytes, .. } = stream;
        let received = order.received();
        let lost = sent.frames.saturating_sub(received);
        StreamOutcome {
            name: self.names.get(i).cloned().unwrap_or_default(),
            sent: sent.frames,
            received,
            lost,
            loss_ratio: part(lost, sent.frames),
            duplicates: order.duplicates(),
            reordered: order.reordered(),
            reordered_ratio: part(order.reordered(), received),
            reordering_extent: order.extents().summary(),
            too_late: order.too_late(),
            asked_pps: rate,
            sent_pps: sent.frames as f64 / self.seconds,
            received_pps: received as f64 / self.seconds,
            received_bps: *bytes as f64 * 8.0 / self.seconds,
            pacing_error: rate.map_or(0.0, |rate| (1.0 - sent.frames as f64 / (rate * self.seconds)).abs()),
            latest_ns: sent.pacing.latest,
            latency_ns: delay.latency().summary(),
            jitter_ns: delay.jitter(),
            jitter_max_ns: delay.most_jitter(),
            ipdv_ns: delay.variation().summary(),
            longest_silence_ns: stream.longest_silence(),
            histogram: delay.latency().buckets().collect(),
        }
    }
}
