//! Report of one run of `linerate guest --hostile` with a calm pair.

use std::fmt;

use serde_json::Value;

/// A reading.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Reading {
    /// Rate of the calm receiver at full load, in Mpps.
    pub(super) mpps: f64,
    /// Latency percentiles at the fixed rate, in microseconds.
    pub(super) p50: f64,
    pub(super) p99: f64,
    /// Frames for the calm receiver that the attacker received.
    pub(super) stolen: f64,
    /// Longest time without a frame at the receiver, and longest stall of its thread, in milliseconds.
    pub(super) silence: f64,
    pub(super) stall: f64,
    /// Chains that the switch took from the attacker, and connections that it closed.
    pub(super) attacks: f64,
    pub(super) refused: f64,
    /// Share of the guests' thread used by the attacker, 0 to 1.
    pub(super) share: f64,
}

impl Reading {
    /// Parses the JSON report. Returns `None` if its format differs.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let report: Value = serde_json::from_str(text).ok()?;
        let (fast, paced) = (&report["calm"]["fast"], &report["calm"]["paced"]);
        let number = |phase: &Value, key: &str| phase[key].as_f64();
        let both = |key: &str| Some((number(fast, key)?, number(paced, key)?));
        let (sum, most) = (|pair: (f64, f64)| pair.0 + pair.1, |pair: (f64, f64)| pair.0.max(pair.1));
        let devices = report["devices"].as_array()?;
        let of_devices = |key: &str| devices.iter().filter_map(|device| device[key].as_f64()).sum();
        Some(Self {
            mpps: number(fast, "received_mpps")?,
            p50: number(paced, "p50_ns")? / 1e3,
            p99: number(paced, "p99_ns")? / 1e3,
            stolen: number(paced, "stolen")?,
            silence: most(both("longest_silence_ns")?) / 1e6,
            stall: most(both("longest_stall_ns")?) / 1e6,
            attacks: sum(both("attacker_sent")?),
            refused: of_devices("refused"),
            share: most(both("attacker_share")?),
        })
    }

    /// The silence in milliseconds that stalls of the guests' own thread do not explain.
    pub(super) fn own_silence(&self) -> f64 {
        (self.silence - self.stall).max(0.0)
    }
}

impl fmt::Display for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mpps, p50, p99, stolen, silence, stall, .. } = self;
        write!(f, "{mpps:.3} Mpps, p50 {p50:.1} us, p99 {p99:.1} us, {stolen} stolen, ")?;
        write!(f, "silence {silence:.1} ms (own stall {stall:.1} ms)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_report_is_read_and_anything_else_is_none() {
        let phase = |silence: u64| {
            json!({ "received_mpps": 2.0, "p50_ns": 1000, "p99_ns": 3000, "stolen": 1, "longest_silence_ns": silence,
                "longest_stall_ns": 1_000_000, "attacker_sent": 5, "attacker_share": 0.25 })
        };
        let report = json!({
            "calm": { "fast": phase(7_000_000), "paced": phase(2_000_000) },
            "devices": [{ "refused": 2 }, { "refused": 1 }],
        });
        let reading = Reading::parse(&report.to_string()).unwrap();
        let sums = (reading.attacks, reading.refused, reading.own_silence());
        assert_eq!((reading.p99, sums), (3.0, (10.0, 3.0, 6.0)));
        assert_eq!((Reading::parse("{}"), Reading::parse("")), (None, None));
    }
}
