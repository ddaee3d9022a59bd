//! Rate syntax and conversion to frames per second.
//!
//! Bit rates count frames without checksum, as all sizes in this project, unless the rate has the suffix `-wire`: then
//! each frame also counts checksum (4 bytes), preamble (8) and gap (12) as in IEEE 802.3. Percentages are always of the
//! wire rate.

use port::Remedy;
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// Bytes per frame on the wire in addition to the frame: checksum, preamble with start delimiter, gap.
pub const ON_THE_WIRE: f64 = 24.0;

/// Ethernet speeds for percentages, in Gbit/s.
const SPEEDS: [u32; 4] = [10, 25, 40, 100];
/// Maximum value; larger rates have no meaningful schedule in nanoseconds.
const MAX_RATE: f64 = 1e12;

/// A requested rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// As fast as possible.
    Unlimited,
    /// Frames per second.
    Frames(f64),
    /// Bits per second of frames without checksum.
    Bits(f64),
    /// Bits per second on the wire.
    Wire(f64),
    /// A percentage of the wire rate of Ethernet with this speed in Gbit/s.
    Percent(f64, u32),
}

/// Error: invalid rate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a rate")]
pub struct ParseRateError(String);

impl Remedy for ParseRateError {
    fn remedy(&self) -> Option<Cow<'static, str>> {
        Some("write 10kpps, 2.5Gbit/s, 2.5Gbit/s-wire, 50% of 10GbE (or 25, 40, 100), or max".into())
    }
}

impl ParseRateError {
    pub(super) fn of(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl Rate {
    /// Frames per second for frames with a mean of `mean` bytes without checksum; `None` if unlimited.
    pub fn frames(self, mean: f64) -> Option<f64> {
        match self {
            Rate::Unlimited => None,
            Rate::Frames(frames) => Some(frames),
            Rate::Bits(bits) => Some(bits / (mean * 8.0)),
            Rate::Wire(bits) => Some(bits / ((mean + ON_THE_WIRE) * 8.0)),
            Rate::Percent(percent, speed) => {
                Rate::Wire(f64::from(speed) * 1e9 * percent / 100.0).frames(mean)
            }
        }
    }

    /// The fraction `part` of the rate.
    #[must_use]
    pub fn part(self, part: f64) -> Self {
        match self {
            Rate::Unlimited => Rate::Unlimited,
            Rate::Frames(frames) => Rate::Frames(frames * part),
            Rate::Bits(bits) => Rate::Bits(bits * part),
            Rate::Wire(bits) => Rate::Wire(bits * part),
            Rate::Percent(percent, speed) => Rate::Percent(percent * part, speed),
        }
    }
}

impl FromStr for Rate {
    type Err = ParseRateError;

    fn from_str(text: &str) -> Result<Self, ParseRateError> {
        let wrong = || ParseRateError(text.to_owned());
        let words = text.trim();
        if words == "max" {
            return Ok(Rate::Unlimited);
        }
        if let Some((percent, of)) = words.split_once('%') {
            return percentage(percent, of).ok_or_else(wrong);
        }
        let of = |unit: &str| number(words.strip_suffix(unit)?);
        let rate = of("pps").map(Rate::Frames);
        let rate = rate.or_else(|| of("bit/s-wire").map(Rate::Wire));
        rate.or_else(|| of("bit/s").map(Rate::Bits)).ok_or_else(wrong)
    }
}

/// Parses a percentage such as `50` and ` of 10GbE`.
fn percentage(percent: &str, of: &str) -> Option<Rate> {
    let percent: f64 = percent.trim().parse().ok()?;
    let of = of.trim().strip_prefix("of")?.trim();
    let speed = of.strip_suffix("GbE").or_else(|| of.strip_suffix('G'))?.trim().parse().ok()?;
    (percent > 0.0 && percent <= 100.0 && SPEEDS.contains(&speed)).then_some(Rate::Percent(percent, speed))
}

/// A positive number with an optional SI prefix, such as `2.5G`.
fn number(text: &str) -> Option<f64> {
    let text = text.trim();
    let factor = match text.chars().last()? {
        'k' => 1e3,
        'M' => 1e6,
        'G' => 1e9,
        _ => 1.0,
    };
    let digits = if factor > 1.0 { &text[..text.len() - 1] } else { text };
    let value = digits.trim().parse::<f64>().ok()? * factor;
    (value > 0.0 && value <= MAX_RATE).then_some(value)
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Rate::Unlimited => f.write_str("max"),
            Rate::Frames(frames) => write!(f, "{}pps", short(frames)),
            Rate::Bits(bits) => write!(f, "{}bit/s", short(bits)),
            Rate::Wire(bits) => write!(f, "{}bit/s-wire", short(bits)),
            Rate::Percent(percent, speed) => write!(f, "{percent}% of {speed}GbE"),
        }
    }
}

/// Formats with the largest SI prefix that leaves a nonzero integer part.
fn short(value: f64) -> String {
    let fitting = [(1e9, "G"), (1e6, "M"), (1e3, "k")].into_iter().find(|(factor, _)| value >= *factor);
    fitting.map_or_else(|| value.to_string(), |(factor, prefix)| format!("{}{prefix}", value / factor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_round_trip_as_text() {
        for text in ["10kpps", "7pps", "1.5Mpps", "2.5Gbit/s", "10Gbit/s-wire", "50% of 10GbE", "max"] {
            assert_eq!(text.parse::<Rate>().unwrap().to_string(), text);
        }
        assert_eq!("12.5 % of 40G".parse(), Ok(Rate::Percent(12.5, 40)));
    }

    #[test]
    fn invalid_rate_is_rejected_with_examples() {
        for text in [
            "",
            "10",
            "-1pps",
            "0pps",
            "NaNpps",
            "infpps",
            "50%",
            "50% of 11GbE",
            "101% of 10GbE",
            "1Tpps",
            "kpps",
        ] {
            let told = text.parse::<Rate>().unwrap_err().in_one_line();
            assert!(told.starts_with(&format!("`{text}` is not a rate; write 10kpps")), "{told}");
        }
    }

    #[test]
    fn ten_gigabit_line_rate_is_correct_for_minimum_frames() {
        // 60 bytes without checksum are 64 bytes with it.
        let frames = Rate::Percent(100.0, 10).frames(60.0).unwrap();
        assert!((frames - 14_880_952.38).abs() < 0.01, "{frames}");
        assert_eq!(Rate::Bits(480e6).frames(60.0), Some(1e6));
        assert_eq!(Rate::Frames(100.0).part(0.25).frames(60.0), Some(25.0));
        assert_eq!(Rate::Unlimited.frames(60.0), None);
    }
}
