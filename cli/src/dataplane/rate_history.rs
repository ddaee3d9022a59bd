//! Rates of the last minutes by port, kept by the switch, so that a reader that comes after an incident sees it.

use engine::{PortSnapshot, Snapshot};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use utoipa::ToSchema;

/// Least time between two samples, in nanoseconds, and number of samples: five minutes.
const INTERVAL: u64 = 2_000_000_000;
const SAMPLES: usize = 150;

/// Counters of a port from which a rate is computed.
type Counts = [u64; 3];

/// `GET /v1/history`
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct HistoryReport {
    /// Seconds between two samples.
    pub(crate) interval: f64,
    /// Ports by name.
    pub(crate) ports: BTreeMap<String, PortHistory>,
}

/// Rates of a port, the latest last; a new port has fewer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct PortHistory {
    /// Packets received per second.
    pub(crate) rx: Vec<f32>,
    /// Packets sent per second.
    pub(crate) tx: Vec<f32>,
    /// Packets dropped per second.
    pub(crate) drops: Vec<f32>,
}

/// Samples of a port; `id` distinguishes it from an earlier one with its name.
#[derive(Debug)]
struct Series {
    id: u16,
    last: Counts,
    rates: VecDeque<[f32; 3]>,
}

/// Samples of all ports.
#[derive(Debug, Default)]
pub(crate) struct RateHistory {
    at: u64,
    ports: BTreeMap<String, Series>,
}

fn counts(port: &PortSnapshot) -> Counts {
    [port.rx_packets, port.tx_packets, port.drops.values().sum()]
}

impl RateHistory {
    /// Takes a sample, unless the last one is too recent.
    pub(crate) fn observe(&mut self, now: &Snapshot) {
        let passed = now.uptime_ns.saturating_sub(self.at);
        if self.at > 0 && passed < INTERVAL {
            return;
        }
        self.at = now.uptime_ns;
        let seconds = passed as f64 / 1e9;
        self.ports.retain(|name, series| now.ports.iter().any(|p| p.name == *name && p.id == series.id));
        for port in &now.ports {
            let new = counts(port);
            if let Some(series) = self.ports.get_mut(&port.name) {
                series.push(new, seconds);
            } else {
                let series = Series { id: port.id, last: new, rates: VecDeque::new() };
                self.ports.insert(port.name.clone(), series);
            }
        }
    }

    /// At most `samples` samples of `port`, or of all ports.
    pub(crate) fn report(&self, port: Option<&str>, samples: Option<usize>) -> HistoryReport {
        let samples = samples.unwrap_or(SAMPLES);
        let wanted = self.ports.iter().filter(|(name, _)| port.is_none_or(|own| own == *name));
        let ports = wanted.map(|(name, series)| (name.clone(), series.last(samples))).collect();
        HistoryReport { interval: INTERVAL as f64 / 1e9, ports }
    }
}

impl Series {
    fn push(&mut self, new: Counts, seconds: f64) {
        if self.rates.len() == SAMPLES {
            self.rates.pop_front();
        }
        let rate = |at: usize| (new[at].saturating_sub(self.last[at]) as f64 / seconds) as f32;
        self.rates.push_back([rate(0), rate(1), rate(2)]);
        self.last = new;
    }

    fn last(&self, samples: usize) -> PortHistory {
        let rates = self.rates.iter().skip(self.rates.len().saturating_sub(samples));
        let of = |at: usize| rates.clone().map(|rates| rates[at]).collect();
        PortHistory { rx: of(0), tx: of(1), drops: of(2) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64, ports: &[(&str, u16, u64)]) -> Snapshot {
        let port = |&(name, id, rx_packets): &(&str, u16, u64)| PortSnapshot {
            name: name.to_owned(),
            id,
            rx_packets,
            ..PortSnapshot::default()
        };
        let ports = ports.iter().map(port).collect();
        Snapshot { uptime_ns: seconds * 1_000_000_000, ports, ..Snapshot::default() }
    }

    fn rx(history: &RateHistory, port: &str) -> Vec<f32> {
        history.report(None, None).ports.get(port).map(|p| p.rx.clone()).unwrap_or_default()
    }

    #[test]
    fn rates_are_those_between_samples_of_the_same_port() {
        let mut history = RateHistory::default();
        for (second, packets) in [(10, 100), (11, 150), (12, 300), (16, 300)] {
            history.observe(&at(second, &[("a", 0, packets)]));
        }
        assert_eq!(rx(&history, "a"), [100.0, 0.0], "a sample after one second is left out");
        history.observe(&at(18, &[("a", 3, 50), ("b", 1, 7)]));
        assert!(rx(&history, "a").is_empty(), "another port with the same name");
        history.observe(&at(20, &[("b", 1, 9)]));
        assert_eq!((rx(&history, "a").len(), rx(&history, "b")), (0, vec![1.0]));
    }

    #[test]
    fn five_minutes_are_kept_and_fewer_can_be_wanted() {
        let mut history = RateHistory::default();
        (0..200).for_each(|n| history.observe(&at(2 * n + 2, &[("a", 0, n * n), ("b", 1, 0)])));
        let report = history.report(None, None);
        assert_eq!((report.interval, report.ports["a"].rx.len()), (2.0, SAMPLES));
        let report = history.report(Some("a"), Some(2));
        assert_eq!((report.ports.len(), report.ports["a"].rx.as_slice()), (1, [197.5, 198.5].as_slice()));
    }
}
