//! The generator's results as JSON and as text.

use crate::args::generator::GenArgs;
use crate::settings::topology::PortSettings;
use generator::meter::Summary;
use generator::rig::{Limit, Outcome, StreamOutcome};
use serde::Serialize;
use std::fmt::Write as _;

/// Columns of a histogram's longest bar.
const BAR: u64 = 50;

/// Loopback baseline: delay and throughput of the generator itself.
#[derive(Clone, Debug, Serialize)]
pub(super) struct LoopbackBaseline {
    /// Frames per second that this generator creates, sends, receives and checks on one thread.
    pub(super) most_pps: f64,
    /// Frames lost in the baseline; expected to be 0.
    pub(super) lost: u64,
    /// Latency per stream at the requested rate.
    pub(super) latency_ns: Vec<Summary>,
    /// Jitter per stream at the requested rate.
    pub(super) jitter_ns: Vec<f64>,
    /// IPDV per stream at the requested rate.
    pub(super) ipdv_ns: Vec<Summary>,
}

/// The printed report.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// Version of this program.
    version: &'static str,
    ports: Vec<String>,
    rate: String,
    asked_pps: Option<f64>,
    /// Reason why the rate was below the requested one, as text.
    verdict: String,
    /// The generator's own share of the latencies.
    baseline: Option<LoopbackBaseline>,
    #[serde(flatten)]
    outcome: Outcome,
}

impl LoopbackBaseline {
    /// Creates the baseline from a run at the requested rate and a run without limit.
    pub(super) fn new(at_rate: &Outcome, most: &Outcome) -> Self {
        let streams = || at_rate.streams.iter();
        Self {
            most_pps: most.received_pps,
            lost: at_rate.lost + most.lost,
            latency_ns: streams().map(|stream| stream.latency_ns).collect(),
            jitter_ns: streams().map(|stream| stream.jitter_ns).collect(),
            ipdv_ns: streams().map(|stream| stream.ipdv_ns).collect(),
        }
    }

    /// Table rows of the baseline streams; only their delays are meaningful.
    fn rows(&self, streams: &[StreamOutcome]) -> impl Iterator<Item = Vec<String>> {
        let delays = self.latency_ns.iter().zip(&self.jitter_ns).zip(&self.ipdv_ns);
        delays.zip(streams).map(|(((latency, jitter), ipdv), stream)| {
            let mut row = vec![format!("{} (baseline)", stream.name)];
            row.extend(std::iter::repeat_n(String::new(), 7));
            row.extend(delay_cells(latency, *jitter, ipdv));
            row
        })
    }
}

impl Report {
    pub(super) fn new(
        args: &GenArgs,
        ports: &[PortSettings],
        asked_pps: Option<f64>,
        outcome: Outcome,
        baseline: Option<LoopbackBaseline>,
    ) -> Self {
        let verdict = verdict(&outcome, asked_pps, baseline.as_ref());
        let ports = ports.iter().map(|port| format!("{}: {}", port.name, port.kind)).collect();
        let rate = args.rate.to_string();
        Self { version: env!("CARGO_PKG_VERSION"), ports, rate, asked_pps, verdict, baseline, outcome }
    }

    /// The report as text.
    pub(super) fn text(&self, histogram: bool) -> String {
        let outcome = &self.outcome;
        let titles = [
            "STREAM",
            ">SENT",
            ">RECEIVED",
            ">LOST",
            ">DUPLICATE",
            ">REORDERED",
            ">TX Mpps",
            ">RX Mpps",
            ">p50 us",
            ">p90",
            ">p99",
            ">p99.9",
            ">MAX",
            ">JITTER",
            ">IPDV p99",
        ];
        let mut rows: Vec<_> = outcome.streams.iter().map(row).collect();
        let rows_of_baseline = self.baseline.iter().flat_map(|baseline| baseline.rows(&outcome.streams));
        rows.extend(rows_of_baseline);
        let mut text = console::table(&titles, rows);
        let percent = outcome.loss_ratio * 100.0;
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "\n{:.3} s, loss {} of {} ({percent:.4} %)",
            outcome.seconds, outcome.lost, outcome.sent
        );
        if outcome.interrupted {
            text.push_str(", ended by a signal: the result is partial");
        }
        let _ = write!(text, "\n{}", self.verdict);
        for (count, what) in self.unidentified().into_iter().filter(|(count, _)| *count > 0) {
            let _ = write!(text, "\n{count} {what}");
        }
        if histogram {
            outcome.streams.iter().for_each(|stream| text.push_str(&bars(stream)));
        }
        text
    }

    /// Counters that are shown only if not zero.
    fn unidentified(&self) -> [(u64, &'static str); 6] {
        let outcome = &self.outcome;
        [
            (outcome.untagged, "frames received without a valid tag of this run"),
            (outcome.unknown_stream, "frames received with the tag of an unknown stream"),
            (outcome.impossible_time, "frames received before their transmit time stamp"),
            (outcome.returned, "frames returned to the sending port"),
            (outcome.dropped_by_port, "frames were lost by the sending port itself"),
            (outcome.faults, "port faults"),
        ]
    }
}

/// Describes the limiting factor.
fn verdict(outcome: &Outcome, asked: Option<f64>, baseline: Option<&LoopbackBaseline>) -> String {
    let own = baseline.map(|baseline| {
        let part = asked
            .map(|asked| format!("; the requested rate is {:.0} % of it", asked / baseline.most_pps * 100.0));
        format!(" (loopback baseline: {:.3} Mpps{})", baseline.most_pps / 1e6, part.unwrap_or_default())
    });
    let own = own.unwrap_or_default();
    let missed = outcome.missed;
    if let Some(reason) = &outcome.disconnected {
        return format!("{reason}; {} frames were not sent{own}", missed.port + missed.generator);
    }
    match (outcome.limit, asked) {
        (Limit::None, _) => format!("the generator kept the rate{own}"),
        (Limit::Generator, Some(_)) => {
            format!(
                "the generator was the limit: {} frames were sent late or not at all{own}",
                missed.generator
            )
        }
        (Limit::Generator, None) => format!("the generator was the limit, not the switch{own}"),
        (Limit::Port, Some(_)) => {
            format!(
                "the switch was the limit: its port accepted no more, and {} frames were not sent{own}",
                missed.port
            )
        }
        (Limit::Port, None) => format!("the switch was the limit: its port accepted no more{own}"),
    }
}

fn micro(nanoseconds: f64) -> String {
    format!("{:.1}", nanoseconds / 1e3)
}

/// Latencies, jitter and IPDV in microseconds.
fn delay_cells(latency: &Summary, jitter: f64, ipdv: &Summary) -> impl Iterator<Item = String> {
    let of_latency = [latency.p50, latency.p90, latency.p99, latency.p999, latency.max];
    of_latency.into_iter().map(|ns| ns as f64).chain([jitter, ipdv.p99 as f64]).map(micro)
}

fn row(stream: &StreamOutcome) -> Vec<String> {
    let counts = [stream.sent, stream.received, stream.lost, stream.duplicates, stream.reordered];
    let rates = [stream.sent_pps, stream.received_pps].map(|pps| format!("{:.4}", pps / 1e6));
    let mut row = vec![stream.name.clone()];
    row.extend(counts.iter().map(u64::to_string));
    row.extend(rates);
    row.extend(delay_cells(&stream.latency_ns, stream.jitter_ns, &stream.ipdv_ns));
    row
}

/// Latencies of one stream by powers of two, as bars.
fn bars(stream: &StreamOutcome) -> String {
    let mut text = format!("\n\nlatency of stream {}, in microseconds up to", stream.name);
    let mut powers = std::collections::BTreeMap::<u64, u64>::new();
    for (upper, count) in &stream.histogram {
        *powers.entry((upper + 1).next_power_of_two()).or_default() += count;
    }
    let most = powers.values().copied().max().unwrap_or(1).max(1);
    for (upper, count) in powers {
        let bar = "#".repeat((count * BAR).div_ceil(most) as usize);
        // Writing to a String cannot fail.
        let _ = write!(text, "\n{:>12} {count:>12} {bar}", micro(upper as f64));
    }
    text
}
