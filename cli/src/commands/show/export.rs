//! Export of samples and counters to collectors.

use crate::dataplane::export_report::{ExportReport, ExporterReport};
use console::table;
use console::units::count;

/// `linerate export show`
pub(crate) fn export(report: &ExportReport) -> String {
    if report.exporters.is_empty() {
        return "no bridge exports samples".to_owned();
    }
    let titles = [
        "BRIDGE",
        "PROTOCOL",
        ">ONE IN",
        ">PACKETS",
        ">SAMPLES",
        ">LOST",
        "COLLECTOR",
        ">DATAGRAMS",
        ">DROPPED",
        ">ERRORS",
        "ERROR",
    ];
    let rows = report.exporters.iter().flat_map(rows);
    let interfaces = report
        .interfaces
        .iter()
        .map(|interface| vec![interface.index.to_string(), interface.port.clone(), interface.bridge.clone()]);
    format!("{}\n{}", table(&titles, rows), table(&[">INTERFACE", "PORT", "BRIDGE"], interfaces))
}

/// A row for each collector.
fn rows(exporter: &ExporterReport) -> impl Iterator<Item = Vec<String>> {
    exporter.collectors.iter().map(|collector| {
        vec![
            exporter.bridge.clone(),
            exporter.protocol.clone(),
            exporter.sampling.to_string(),
            count(exporter.packets),
            count(exporter.samples),
            count(exporter.dropped),
            collector.address.to_string(),
            count(collector.datagrams),
            count(collector.dropped),
            count(collector.errors),
            collector.error.clone().unwrap_or_default(),
        ]
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataplane::export_report::{CollectorReport, InterfaceReport};

    #[test]
    fn each_collector_and_interface_has_a_row() {
        let collector = |address: &str| CollectorReport {
            address: address.parse().unwrap(),
            datagrams: 5,
            bytes: 700,
            dropped: 0,
            errors: 1,
            error: Some("refused".to_owned()),
        };
        let exporter = ExporterReport {
            bridge: "lan".to_owned(),
            protocol: "sflow".to_owned(),
            sampling: 400,
            packets: 900,
            samples: 3,
            dropped: 0,
            agent: None,
            flows: None,
            collectors: vec![collector("10.0.0.9:6343"), collector("[::1]:6343")],
        };
        let interface = InterfaceReport { index: 1, port: "red".to_owned(), bridge: "lan".to_owned() };
        let text = export(&ExportReport { exporters: vec![exporter], interfaces: vec![interface] });
        let lines: Vec<Vec<_>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert!(lines.contains(&vec!["1", "red", "lan"]), "{text}");
        let row = ["lan", "sflow", "400", "900", "3", "0", "[::1]:6343", "5", "0", "1", "refused"];
        assert!(lines.contains(&row.to_vec()), "{text}");
        assert_eq!(export(&ExportReport::default()), "no bridge exports samples");
    }
}
