//! One reading: the variables of the script, and the values in its output.

use anyhow::Result;
use serde_json::{Deserializer, Value};

use super::super::comparison::Column;
use super::super::rounds::Values;
use super::super::{Options, script};
use super::rows::Subject;
use super::{Programs, Row, word};

const SCRIPT: &str = include_str!("stack.sh");
pub(super) const COLUMNS: [Column; 8] = [
    Column::new("requests_per_second", "requests/s", 0),
    Column::new("gbit_per_second", "Gbit/s", 2),
    Column::new("p50_us", "p50 us", 2),
    Column::new("p99_us", "p99 us", 2),
    // Of the slower end.
    Column::new("ns_per_request", "ns/request", 0),
    Column::new("server_mib", "server MiB", 0),
    Column::new("client_mib", "client MiB", 0),
    Column::new("retransmissions", "retransmitted", 0),
];
/// Numbers in [`COLUMNS`].
pub(super) const REQUESTS: usize = 0;
pub(super) const GBITS: usize = 1;
pub(super) const P50: usize = 2;
const MIB: f64 = 1_048_576.0;

/// Takes one reading.
pub(super) fn take(options: &Options, subject: &Subject, programs: &Programs) -> Result<Values> {
    let [sockets, bulk] = [&programs.sockets, &programs.bulk].map(|path| path.display().to_string());
    let (row, connections) = (word(&subject.row), subject.connections.to_string());
    let variables = [
        ("ROW", row.as_str()),
        ("CLIENT", subject.client),
        ("SERVER", subject.server),
        ("SETTING", &subject.setting),
        ("CONNECTIONS", &connections),
        ("IIP", programs.iip.as_deref().unwrap_or_default()),
        ("SOCKETS", &sockets),
        ("BULK", &bulk),
    ];
    script::read(options, SCRIPT, &variables, |said| values(subject.row, said))
}

/// Values of a report in the form of `linerate load -o json`, followed by others. Returns `None` without any rate.
fn values(row: Row, said: &str) -> Option<Values> {
    let reports: Vec<Value> = Deserializer::from_str(said).into_iter().collect::<Result<_, _>>().ok()?;
    let find = |path: &str| reports.iter().find_map(|report| report.pointer(path)?.as_f64());
    let rate = find("/rounds/0/replies_per_second");
    let gbits = find("/bits_per_second").map(|bits| bits / 1e9);
    rate.or(gbits)?;
    let micros = |path| find(path).map(|ns| ns / 1e3);
    let only = |value: Option<f64>| value.filter(|_| row == Row::Connections);
    Some(vec![
        rate,
        gbits,
        micros("/latency_ns/p50"),
        micros("/latency_ns/p99"),
        only(rate.map(|rate| 1e9 / rate)),
        only(find("/server_kib").map(|kib| kib / 1024.0)),
        only(find("/host/peak_memory").map(|bytes| bytes / MIB)),
        only(Some(find("/host/counters/TcpRetransSegs").unwrap_or(0.0))),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read() {
        let report =
            r#"{"rounds": [{"replies_per_second": 2.5e6}], "latency_ns": {"p50": 7000, "p99": 9500}}"#;
        let read = values(Row::Echo, report).unwrap();
        assert_eq!(read[..4], [Some(2.5e6), None, Some(7.0), Some(9.5)]);
        assert_eq!(read[4..], [None; 4]);
        assert_eq!(values(Row::Echo, "no server\n"), None);
        assert_eq!(values(Row::Echo, "{}"), None);
    }

    #[test]
    fn memory_belongs_to_connections_and_a_stream_has_bits() {
        let report = r#"{"rounds": [{"replies_per_second": 1e6}], "host": {"peak_memory": 2097152, "counters": {}}}
            {"server_kib": 3072}"#;
        let read = values(Row::Connections, report).unwrap();
        assert_eq!(read[4..], [Some(1000.0), Some(3.0), Some(2.0), Some(0.0)]);
        assert_eq!(values(Row::Bulk, r#"{"bits_per_second": 2e9}"#).unwrap()[..2], [None, Some(2.0)]);
    }
}
