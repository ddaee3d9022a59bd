//! Metrics of sFlow and IPFIX.

use super::{COUNTER, GAUGE, Page};
use crate::dataplane::export_report::{CollectorReport, ExportReport, ExporterReport};
use std::fmt::Display;

pub(super) fn export(report: &ExportReport, page: &mut Page) {
    exporters(report, page);
    collectors(report, page);
}

fn labels(exporter: &ExporterReport) -> [(&'static str, &dyn Display); 2] {
    [("bridge", &exporter.bridge), ("protocol", &exporter.protocol)]
}

fn exporters(report: &ExportReport, page: &mut Page) {
    type Read = fn(&ExporterReport) -> u64;
    let counters: [(&str, &str, Read); 3] = [
        ("export_packets_total", "Packets that could have been sampled.", |exporter| exporter.packets),
        ("export_samples_total", "Sampled packets.", |exporter| exporter.samples),
        (
            "export_dropped_samples_total",
            "Samples dropped because the queue of a worker was full.",
            |exporter| exporter.dropped,
        ),
    ];
    for (name, help, read) in counters {
        let samples = report.exporters.iter().map(|exporter| (labels(exporter), read(exporter)));
        page.add((name, COUNTER, help), samples);
    }
    let flows = report.exporters.iter().filter_map(|own| Some((labels(own), own.flows? as u64)));
    page.add(("export_flows", GAUGE, "Flows in the cache of IPFIX."), flows);
}

fn collectors(report: &ExportReport, page: &mut Page) {
    type Read = fn(&CollectorReport) -> u64;
    let counters: [(&str, &str, Read); 4] = [
        ("export_datagrams_total", "Datagrams sent to the collector.", |collector| collector.datagrams),
        ("export_bytes_total", "Bytes of these datagrams.", |collector| collector.bytes),
        (
            "export_dropped_datagrams_total",
            "Datagrams dropped because the buffer of the socket was full.",
            |collector| collector.dropped,
        ),
        ("export_errors_total", "Datagrams that could not be sent, and ICMP errors.", |collector| {
            collector.errors
        }),
    ];
    for (name, help, read) in counters {
        let all = report.exporters.iter().flat_map(|own| own.collectors.iter().map(move |c| (own, c)));
        let samples = all.map(|(exporter, collector)| {
            let [bridge, protocol] = labels(exporter);
            ([bridge, protocol, ("collector", &collector.address as &dyn Display)], read(collector))
        });
        page.add((name, COUNTER, help), samples);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Format, Sources, text};
    use super::*;

    #[test]
    fn exporters_and_collectors_have_their_counters() {
        let collector = CollectorReport {
            address: "192.0.2.9:6343".parse().unwrap(),
            datagrams: 4,
            bytes: 800,
            dropped: 0,
            errors: 1,
            error: None,
        };
        let exporter = ExporterReport {
            bridge: "br0".to_owned(),
            protocol: "ipfix".to_owned(),
            sampling: 8,
            packets: 80,
            samples: 10,
            dropped: 2,
            agent: None,
            flows: Some(3),
            collectors: vec![collector],
        };
        let export = ExportReport { exporters: vec![exporter], interfaces: Vec::new() };
        let text = text(&Sources { export, ..Sources::default() }, Format::Prometheus);
        let expected = [
            "linerate_export_packets_total{bridge=\"br0\",protocol=\"ipfix\"} 80",
            "linerate_export_samples_total{bridge=\"br0\",protocol=\"ipfix\"} 10",
            "linerate_export_dropped_samples_total{bridge=\"br0\",protocol=\"ipfix\"} 2",
            "linerate_export_flows{bridge=\"br0\",protocol=\"ipfix\"} 3",
            "linerate_export_datagrams_total{bridge=\"br0\",protocol=\"ipfix\",collector=\"192.0.2.9:6343\"} 4",
            "linerate_export_bytes_total{bridge=\"br0\",protocol=\"ipfix\",collector=\"192.0.2.9:6343\"} 800",
            "linerate_export_dropped_datagrams_total{bridge=\"br0\",protocol=\"ipfix\",collector=\"192.0.2.9:6343\"} 0",
            "linerate_export_errors_total{bridge=\"br0\",protocol=\"ipfix\",collector=\"192.0.2.9:6343\"} 1",
        ];
        let found: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(found, expected);
    }
}
