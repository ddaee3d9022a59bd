//! Results of a run as JSON and as text.

use crate::args::load::ClientArgs;
use crate::commands::counters::NonZero;
use console::{Diagnostic, units};
use host::Report as HostReport;
use measure::Summary;
use rfc2544::{CpuSet, Environment};
use serde::Serialize;
use serve::load::{Failures, Results};
use std::fmt::Write;
use utoipa::ToSchema;

/// Result of `linerate load`, with the fields of `LoadResults`.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = LoadReport)]
pub(crate) struct Report {
    /// Requests, as text.
    pub(super) workload: String,
    /// Address and port of the server.
    pub(super) server: String,
    /// The port of the command line.
    pub(super) port: String,
    /// `closed` or `open`.
    pub(super) mode: &'static str,
    /// Open loop: requests per second.
    pub(super) target_rate: Option<f64>,
    /// Number of workers; the other fields are sums over them.
    pub(super) workers: usize,
    /// Maximum number of requests on their way on one connection.
    pub(super) depth: u16,
    /// Requests after which a connection is closed; null without a limit.
    pub(super) requests_per_connection: Option<u32>,
    /// Reason why the run ended early, or why it is a failure.
    pub(super) error: Option<String>,
    #[serde(flatten)]
    pub(super) results: Results,
    /// Memory and counters of the client.
    pub(super) host: LoadHost,
    /// Machine, kernel and program.
    #[schema(value_type = Object)]
    pub(super) environment: Environment,
}

/// Memory and counters of the client.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LoadHost {
    /// Largest memory of the process in bytes; null if the kernel does not report it.
    peak_memory: Option<u64>,
    /// Counters of stack and loop that are not zero.
    #[schema(value_type = std::collections::BTreeMap<String, u64>)]
    pub(super) counters: NonZero,
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
            mode: if args.pace.rate.is_some() { "open" } else { "closed" },
            target_rate: args.pace.rate,
            workers: args.workers.count(),
            depth: args.pace.depth,
            requests_per_connection: args.pace.requests_per_connection,
            error: error.map(|error| error.reason.clone()),
            results,
            host: LoadHost { peak_memory: peak_memory(), counters: NonZero::of(host.named()) },
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
        let mut text = format!("{}\n\n{}\n", self.rounds(), self.latency_table());
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

    /// Table of the rounds.
    fn rounds(&self) -> String {
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
        console::table(&titles, self.results.rounds.iter().enumerate().map(row))
    }

    /// Table of the latencies.
    fn latency_table(&self) -> String {
        let row = |(name, latency): (&str, &Summary)| {
            let mut row = vec![name.to_owned(), latency.count.to_string()];
            row.extend(percentiles(latency).map(|(_, value)| format!("{value:.1}")));
            row
        };
        let titles = ["", ">COUNT", ">MIN us", ">MEAN", ">p50", ">p90", ">p99", ">p99.9", ">MAX"];
        console::table(&titles, self.latencies().into_iter().map(row))
    }
}
