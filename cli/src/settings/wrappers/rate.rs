//! Bit rates in settings.

use crate::settings::reader::fields::Fields;
use generator::rate::Rate;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Range in bits per second: a packet of a common MTU in 1.5 seconds, and the largest rate of the generator.
const RANGE: std::ops::RangeInclusive<f64> = 8e3..=1e12;
/// [`RANGE`] in an error.
const EXPECTED: &str = "a rate from 8kbit/s to 1000Gbit/s";

/// Bits per second of frames without frame check sequence, such as `100Mbit/s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct BitRate(pub(crate) u64);

impl FromStr for BitRate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(Rate::Bits(bits)) if RANGE.contains(&bits) => Ok(Self(bits as u64)),
            _ => Err(format!("`{text}` is not {EXPECTED}, such as 100Mbit/s")),
        }
    }
}

impl TryFrom<String> for BitRate {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<BitRate> for String {
    fn from(rate: BitRate) -> Self {
        rate.to_string()
    }
}

impl fmt::Display for BitRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Rate::Bits(self.0 as f64).fmt(f)
    }
}

impl BitRate {
    /// Reads an optional rate.
    pub(super) fn read(fields: &mut Fields<'_, '_>, key: &'static str) -> Option<Self> {
        let text = fields.text(key)?;
        if let Ok(rate) = text.parse() {
            return Some(rate);
        }
        let remedy = format!("write {key} = \"100Mbit/s\"");
        fields.invalid(key, format!("\"{text}\""), EXPECTED, remedy)
    }

    /// Reads a rate, which must be present.
    pub(super) fn required(fields: &mut Fields<'_, '_>, key: &'static str) -> Self {
        let is_present = fields.peek(key).is_some();
        let rate = Self::read(fields, key);
        if !is_present {
            let remedy = format!("write {key} = \"100Mbit/s\"");
            fields.wrong::<()>(key, format!("`{key}` is missing"), remedy);
        }
        rate.unwrap_or(Self(1_000_000))
    }

    /// Bytes in `nanoseconds`, at least `least`.
    pub(super) fn bytes_in(self, nanoseconds: u64, least: u64) -> u64 {
        (u128::from(self.0) * u128::from(nanoseconds) / 8_000_000_000).max(u128::from(least)) as u64
    }
}
