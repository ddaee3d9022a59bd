//! Metrics of sampled bursts: latencies, depths of queues and rings, and cycles of workers by step.

use super::page::Sample;
use super::{COUNTER, Page};
use engine::{PortSnapshot, Snapshot};
use std::fmt::Display;

const HISTOGRAM: &str = "histogram";
const SUMMARY: &str = "summary";

pub(super) fn sampled(now: &Snapshot, page: &mut Page) {
    page.add_distribution(
        (
            "port_latency_seconds",
            HISTOGRAM,
            "Time from the reception of sampled packets to their sending to the port.",
        ),
        now.ports.iter().flat_map(latency),
    );
    page.add_distribution(
        (
            "port_receive_depth_packets",
            SUMMARY,
            "Packets that sampled polls of the port have found, at most 64.",
        ),
        now.ports.iter().flat_map(depth),
    );
    page.add_distribution(
        (
            "port_transmit_depth_entries",
            SUMMARY,
            "Entries of a transmit ring of the port that its peer has not returned, in samples.",
        ),
        now.ports.iter().flat_map(transmit_depth),
    );
    let packets =
        now.workers.iter().map(|worker| ([("worker", &worker.index as &dyn Display)], worker.steps.packets));
    page.add(("worker_sampled_packets_total", COUNTER, "Packets of sampled bursts of the worker."), packets);
    let steps = now.workers.iter().flat_map(|worker| {
        let steps: [(&dyn Display, u64); 3] = [
            (&"receive", worker.steps.receive),
            (&"pipeline", worker.steps.pipeline),
            (&"transmit", worker.steps.transmit),
        ];
        steps.map(|(step, cycles)| ([("worker", &worker.index as &dyn Display), ("step", step)], cycles))
    });
    page.add(("worker_step_cycles_total", COUNTER, "Cycles of sampled bursts by step."), steps);
}

fn seconds(ns: u64) -> String {
    format!("{:?}", ns as f64 / 1e9)
}

fn latency(port: &PortSnapshot) -> Vec<Sample> {
    let Some(latency) = &port.latency else { return Vec::new() };
    let sample = |suffix, le, value| Sample { port: port.name.clone(), suffix, le, value };
    let ends = latency.cumulative().map(|(end, packets)| (seconds(end), packets));
    let ends = ends.chain([("+Inf".to_owned(), latency.packets())]);
    let mut samples: Vec<_> =
        ends.map(|(end, packets)| sample("_bucket", Some(end), packets.to_string())).collect();
    samples.push(sample("_sum", None, seconds(latency.sum_ns)));
    samples.push(sample("_count", None, latency.packets().to_string()));
    samples
}

fn depth(port: &PortSnapshot) -> Vec<Sample> {
    summary(port, port.depth.map(|depth| [("_sum", depth.packets), ("_count", depth.polls)]))
}

fn transmit_depth(port: &PortSnapshot) -> Vec<Sample> {
    summary(port, port.transmit_depth.map(|depth| [("_sum", depth.entries), ("_count", depth.rings)]))
}

fn summary(port: &PortSnapshot, values: Option<[(&'static str, u64); 2]>) -> Vec<Sample> {
    let sample = |(suffix, value): (_, u64)| Sample {
        port: port.name.clone(),
        suffix,
        le: None,
        value: value.to_string(),
    };
    values.into_iter().flatten().map(sample).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Format, Sources, text};
    use super::*;
    use engine::{
        DepthSnapshot, LatencyBucket, LatencySnapshot, RingDepthSnapshot, StepSnapshot, WorkerSnapshot,
    };

    #[test]
    fn a_histogram_is_cumulative_and_ports_without_samples_are_left_out() {
        let bucket = |up_to_ns, packets| LatencyBucket { up_to_ns, packets };
        let buckets = vec![bucket(Some(1024), 5), bucket(Some(1280), 2), bucket(None, 1)];
        let port = PortSnapshot {
            name: "a".to_owned(),
            latency: Some(LatencySnapshot { sum_ns: 1_500, buckets }),
            depth: Some(DepthSnapshot { polls: 2, packets: 65 }),
            transmit_depth: Some(RingDepthSnapshot { rings: 3, entries: 700 }),
            ..PortSnapshot::default()
        };
        let steps = StepSnapshot { packets: 9, receive: 10, pipeline: 11, transmit: 12 };
        let workers = vec![WorkerSnapshot { steps, ..WorkerSnapshot::default() }];
        let ports = vec![port, PortSnapshot::default()];
        let now = Snapshot { ports, workers, ..Snapshot::default() };
        let text = text(&Sources { now, ..Sources::default() }, Format::OpenMetrics);
        for line in [
            "# TYPE linerate_port_latency_seconds histogram",
            "# UNIT linerate_port_latency_seconds seconds",
            "linerate_port_latency_seconds_bucket{port=\"a\",le=\"5.12e-7\"} 0",
            "linerate_port_latency_seconds_bucket{port=\"a\",le=\"1.024e-6\"} 5",
            "linerate_port_latency_seconds_bucket{port=\"a\",le=\"2.048e-6\"} 7",
            "linerate_port_latency_seconds_bucket{port=\"a\",le=\"+Inf\"} 8",
            "linerate_port_latency_seconds_sum{port=\"a\"} 1.5e-6",
            "linerate_port_latency_seconds_count{port=\"a\"} 8",
            "linerate_port_receive_depth_packets_sum{port=\"a\"} 65",
            "linerate_port_receive_depth_packets_count{port=\"a\"} 2",
            "linerate_port_transmit_depth_entries_sum{port=\"a\"} 700",
            "linerate_port_transmit_depth_entries_count{port=\"a\"} 3",
            "linerate_worker_sampled_packets_total{worker=\"0\"} 9",
            "linerate_worker_step_cycles_total{worker=\"0\",step=\"pipeline\"} 11",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is missing in\n{text}");
        }
        assert!(!text.contains("depth_packets_sum{port=\"\"}"), "{text}");
    }
}
