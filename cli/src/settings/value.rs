//! Values written with a unit or a decimal point, in files and in the control API.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::time::Duration;

/// A decimal number, never NaN. The reader of a section validates its range.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Decimal(pub(crate) f64);

impl Eq for Decimal {}

impl Decimal {
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "the shape that serde calls")]
    pub(crate) fn is_zero(&self) -> bool {
        self.0 == 0.0
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A duration, written as `1ms` or `2s`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Span(pub(crate) Duration);

impl std::str::FromStr for Span {
    type Err = humantime::DurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        humantime::parse_duration(text).map(Self)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        humantime::format_duration(self.0).fmt(f)
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_printed_as_it_is_read() {
        for text in ["1ms", "2s", "1s 500ms", "250us", "0s"] {
            assert_eq!(text.parse::<Span>().unwrap().to_string(), text);
        }
        assert!("1 fortnight".parse::<Span>().is_err() && "7".parse::<Span>().is_err());
    }
}
