//! Results of a run as JSON and as text.

use crate::args::load::ClientArgs;
use console::{Diagnostic, units};
use host::Report as HostReport;
use measure::Summary;
use rfc2544::{CpuSet, Environment};
use serde::Serialize;
use serve::load::{Failures, Results};
use std::collections::BTreeMap;
use std::fmt::Write;

/// The printed report.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// Requests, as text.
    pub(super) workload: String,
    pub(super) server: String,
    pub(super) port: String,
    /// `closed` or `open`.
    pub(super) mode: &'static str,
    /// Open loop: requests per second.
    pub(super) asked_rate: Option<f64>,
    /// Number of workers, of which the rest is the sum.
    pub(super) workers: usize,
    pub(super) depth: u16,
    pub(super) requests_per_connection: Option<u32>,
    /// Reason why the run ended early, or why it is a failure.
    pub(super) error: Option<String>,
    #[serde(flatten)]
    pub(super) results: Results,
    pub(super) host: HostCounts,
    pub(super) environment: Environment,
}

/// Counts of the client's host.
#[derive(Debug, Serialize)]
pub(super) struct HostCounts {
    /// Rounds with work and without, and sleeps.
    busy_rounds: u64,
    idle_rounds: u64,
    sleeps: u64,
    /// Frames that the port accepted and lost.
    dropped_by_port: u64,
    faults: u64,
    /// Largest memory of the process in bytes.
    peak_memory: Option<u64>,
    /// Counters of the stack that are not zero.
    pub(super) counters: BTreeMap<&'static str, u64>,
}

impl HostCounts {
    fn new(report: &HostReport) -> Self {
        let (busy_rounds, idle_rounds, sleeps) = report.rounds;
        Self {
            busy_rounds,
            idle_rounds,
            sleeps,
            dropped_by_port: report.dropped,
            faults: report.faults,
            peak_memory: peak_memory(),
            counters: report
                .counters
                .named()
                .chain(report.spread.named())
                .filter(|(_, value)| *value > 0)
                .collect(),
        }
    }
}

/// Largest resident memory of this process in bytes.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib << 10)
}

/// Names and values of a latency, in microseconds.
pub(super) fn percentiles(latency: &Summary) -> [(&'static str, f64); 7] {
    let micro = |nanos: u64| nanos as f64 / 1e3;
    [
        ("min", micro(latency.min)),
        ("mean", latency.mean / 1e3),
        ("p50", micro(latency.p50)),
        ("p90", micro(latency.p90)),
        ("p99", micro(latency.p99)),
        ("p99.9", micro(latency.p999)),
        ("max", micro(latency.max)),
    ]
}

/// Reasons and numbers.
pub(super) fn reasons(failures: &Failures) -> String {
    let all: Vec<_> = failures.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    if all.is_empty() {
        "0 failed".to_owned()
    } else {
        format!("{} failed ({})", failures.total(), all.join(", "))
    }
}

impl Report {
    pub(super) fn new(
        args: &ClientArgs,
        workload: String,
        results: Results,
        error: Option<&Diagnostic>,
        host: &HostReport,
    ) -> Self {
        let cpu = args.end.cpu.or_else(|| args.workers.cpus.first().copied());
        let used = CpuSet { generator: cpu, ..CpuSet::default() };
        Self {
            workload,
            server: args.to.to_string(),
            port: args.end.port.clone(),
            mode: if args.rate.is_some() { "open" } else { "closed" },
            asked_rate: args.rate,
            workers: args.workers.count(),
            depth: args.depth,
            requests_per_connection: args.requests_per_connection,
            error: error.map(|error| error.reason.clone()),
            results,
            host: HostCounts::new(host),
            environment: rfc2544::environment::here(used),
        }
    }

    /// Names and values of the counts.
    pub(super) fn counts(&self) -> Vec<(&'static str, String)> {
        let (requests, connections) = (&self.results.requests, &self.results.connections);
        let errors = format!("{} error replies, {} misses", requests.error_replies, requests.misses);
        vec![
            (
                "requests",
                format!("{} due, {} sent, {} not sent", requests.due, requests.sent, requests.unsent),
            ),
            (
                "replies",
                format!(
                    "{} answered, {}, {} outstanding",
                    requests.answered,
                    reasons(&requests.failed),
                    requests.outstanding
                ),
            ),
            ("errors", errors),
            (
                "connections",
                format!(
                    "{} attempted, {} established, {}, {} in handshake",
                    connections.attempted,
                    connections.established,
                    reasons(&connections.failed),
                    connections.connecting
                ),
            ),
            (
                "at the end",
                format!(
                    "{} open, {} closed before, lost: {}",
                    connections.open,
                    connections.ended,
                    reasons(&connections.lost)
                ),
            ),
        ]
    }

    /// Rows of the latencies.
    pub(super) fn latencies(&self) -> Vec<(&'static str, &Summary)> {
        let results = &self.results;
        let mut rows = vec![("latency", &results.latency_ns)];
        rows.extend(results.delay_ns.as_ref().map(|delay| ("sent after due", delay)));
        rows.push(("connect", &results.connect_ns));
        rows
    }

    /// The report as text.
    pub(super) fn text(&self) -> String {
        let results = &self.results;
        let row = |(n, round): (usize, &serve::load::Round)| {
            let latency = percentiles(&round.latency_ns).map(|(_, value)| format!("{value:.1}"));
            let rates =
                [round.replies_per_second, round.connects_per_second].map(|rate| format!("{rate:.0}"));
            let mut row = vec![(n + 1).to_string()];
            row.extend(rates);
            row.push(format!("{}/s", units::bytes(round.bytes_per_second as u64)));
            row.extend(latency);
            row
        };
        let titles = [
            ">ROUND",
            ">REPLIES/s",
            ">CONNECTS/s",
            ">RECEIVED",
            ">MIN us",
            ">MEAN",
            ">p50",
            ">p90",
            ">p99",
            ">p99.9",
            ">MAX",
        ];
        let mut text = console::table(&titles, results.rounds.iter().enumerate().map(row));
        text.push_str("\n\n");
        let row = |(name, latency): (&str, &Summary)| {
            let mut row = vec![name.to_owned(), latency.count.to_string()];
            row.extend(percentiles(latency).map(|(_, value)| format!("{value:.1}")));
            row
        };
        let titles = ["", ">COUNT", ">MIN us", ">MEAN", ">p50", ">p90", ">p99", ">p99.9", ">MAX"];
        text.push_str(&console::table(&titles, self.latencies().into_iter().map(row)));
        text.push('\n');
        for (name, value) in self.counts() {
            // Writing to a String cannot fail.
            let _ = write!(text, "\n{name:<12} {value}");
        }
        if let Some(seconds) = results.opened_after {
            let _ = write!(text, "\nall connections were open after {seconds:.3} s");
        }
        if !results.is_complete {
            text.push_str("\nthe result is partial");
        }
        text
    }
}
