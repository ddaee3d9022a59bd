//! What a run showed, as it is printed and kept: plain numbers, with their units in their names or beside them.

use super::super::meter::{Meter, Strangers, Stream, Summary};
use super::super::source::Sent;
use serde::{Deserialize, Serialize};

/// Above this part of what was asked, whoever did not keep up is named.
const NOTICED: f64 = 0.001;

/// Who kept the rate from being what was asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// Nobody: what was asked was sent.
    #[default]
    None,
    /// The generator was late.
    Generator,
    /// The port, or the switch behind it, took no more.
    Port,
}

/// Frames that the schedule had and nobody sent, by who was to blame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missed {
    /// The generator was late, or away when the run was over.
    pub generator: u64,
    /// The port took no more.
    pub port: u64,
}

/// What became of one stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamOutcome {
    /// What people call it.
    pub name: String,
    /// Frames that the port accepted.
    pub sent: u64,
    /// Different frames that came back.
    pub received: u64,
    /// Frames that did not.
    pub lost: u64,
    /// Their part of those that were sent.
    pub loss_ratio: f64,
    /// Frames beyond the first of their number.
    pub duplicates: u64,
    /// Frames that came behind one that was sent later (RFC 4737).
    pub reordered: u64,
    /// Their part of those that came (RFC 4737 section 4.1).
    pub reordered_ratio: f64,
    /// By how many frames (RFC 4737 section 4.2).
    pub reordering_extent: Summary,
    /// Frames that came so late that nobody knows whether they were duplicates; they count as lost.
    pub too_late: u64,
    /// Frames a second that were asked for; none where there was no limit.
    pub asked_pps: Option<f64>,
    /// Frames a second that were sent.
    pub sent_pps: f64,
    /// Frames a second that came.
    pub received_pps: f64,
    /// Bits a second that came, of frames without their checksum.
    pub received_bps: f64,
    /// The part of the frames that were due and did not go.
    pub pacing_error: f64,
    /// The longest that a frame went after it was due, in nanoseconds.
    pub latest_ns: u64,
    /// From making a frame to finding it, in nanoseconds.
    pub latency_ns: Summary,
    /// RFC 3550's estimate, the mean of what it was after each frame, in nanoseconds.
    pub jitter_ns: f64,
    /// The most that it was, in nanoseconds.
    pub jitter_max_ns: f64,
    /// The size of IPDV (RFC 3393), in nanoseconds.
    pub ipdv_ns: Summary,
    /// The longest time without a frame while frames were sent, in nanoseconds.
    #[serde(default)]
    pub longest_silence_ns: u64,
    /// Latencies: the greatest of each range in nanoseconds, and how many frames had it.
    pub histogram: Vec<(u64, u64)>,
}

/// What became of all of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// How long frames were sent, in seconds, without warm-up and waiting for the last ones.
    pub seconds: f64,
    /// Whether it was ended before its time; the numbers are of what there was.
    pub interrupted: bool,
    /// Frames that the port accepted.
    pub sent: u64,
    /// Different frames that came back.
    pub received: u64,
    /// Frames that did not.
    pub lost: u64,
    /// Their part of those that were sent.
    pub loss_ratio: f64,
    /// Frames a second that were sent.
    pub sent_pps: f64,
    /// Frames a second that came.
    pub received_pps: f64,
    /// Who kept the rate from being what was asked.
    pub limit: Limit,
    /// Frames that were due and did not go.
    pub missed: Missed,
    /// Offers of which the port did not take all at once; what it left was offered again.
    pub refused: u64,
    /// Of those that were sent, what the sending port itself lost.
    pub dropped_by_port: u64,
    /// Frames of the warm-up that came.
    pub warm_up: u64,
    /// Frames without a valid tag of this run.
    pub untagged: u64,
    /// Frames whose tag names no stream of this run.
    pub unknown_stream: u64,
    /// Frames that came before they were made, by their tag.
    pub impossible_time: u64,
    /// Tagged or not, frames that came back to the sending port; without those of the warm-up and announcements.
    pub returned: u64,
    /// How many times a port broke.
    pub faults: u64,
    /// Stream by stream.
    pub streams: Vec<StreamOutcome>,
}

/// What a run is summed up from.
pub(super) struct Counted<'a> {
    pub(super) seconds: f64,
    pub(super) interrupted: bool,
    pub(super) names: &'a [String],
    pub(super) rates: &'a [Option<f64>],
    pub(super) sent: Vec<Sent>,
    pub(super) meter: &'a Meter,
    pub(super) missed: Missed,
    /// Offers of a burst, and those of which something was left.
    pub(super) offers: (u64, u64),
    pub(super) dropped_by_port: u64,
    pub(super) returned: u64,
    pub(super) faults: u64,
}

fn part(of: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { of as f64 / all as f64 }
}

impl Counted<'_> {
    /// The numbers as people want them.
    pub(super) fn outcome(&self) -> Outcome {
        let streams: Vec<_> = (0..self.sent.len()).map(|i| self.stream(i)).collect();
        let total = |of: fn(&StreamOutcome) -> u64| streams.iter().map(of).sum::<u64>();
        let (sent, received, lost) = (total(|s| s.sent), total(|s| s.received), total(|s| s.lost));
        let Strangers { warm_up, untagged, unknown, future } = self.meter.strangers();
        Outcome {
            seconds: self.seconds,
            interrupted: self.interrupted,
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

    /// Without a rate, whoever made the other wait was the slower one.
    fn limit(&self, sent: u64) -> Limit {
        let Missed { generator, port } = self.missed;
        if self.rates.iter().any(Option::is_none) {
            let (offers, refused) = self.offers;
            return if refused * 100 > offers { Limit::Port } else { Limit::Generator };
        }
        let asked = sent + generator + port;
        match (part(generator, asked) > NOTICED, part(port, asked) > NOTICED) {
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
