//! Durations with a unit, in arguments, files and messages.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

/// Shortest and longest run, interval and timeout: the resolution of the generator's clock, and a week.
const RUN: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_hours(7 * 24);

/// A duration, written as `1ms` or `2s`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub Duration);

/// The text is not a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a number with a unit, such as 5s, 200ms or 1m")]
pub struct InvalidSpan;

impl FromStr for Span {
    type Err = InvalidSpan;

    fn from_str(text: &str) -> Result<Self, InvalidSpan> {
        // Without a unit, the library accepts only zero.
        let has_unit = text.ends_with(char::is_alphabetic);
        humantime::parse_duration(text).ok().filter(|_| has_unit).map(Self).ok_or(InvalidSpan)
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
        let text = String::deserialize(from)?;
        text.parse().map_err(|error| serde::de::Error::custom(format!("invalid value `{text}`: {error}")))
    }
}

/// Parses the length of a run, an interval or a timeout: not zero, and at most a week.
pub fn positive(text: &str) -> Result<Span, String> {
    let span = text.parse::<Span>().map_err(|error| error.to_string())?;
    if RUN.contains(&span.0) { Ok(span) } else { Err("expected 1ms to 7 days".to_owned()) }
}

/// Parses a duration that may be zero, at most a week.
pub fn any(text: &str) -> Result<Span, String> {
    match text.parse::<Span>() {
        Ok(span) if span.0.is_zero() => Ok(span),
        _ => positive(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_printed_as_it_is_read() {
        for text in ["1ms", "2s", "1s 500ms", "250us", "0s"] {
            assert_eq!(text.parse::<Span>().unwrap().to_string(), text);
        }
        assert_eq!("0.2s".parse::<Span>().unwrap().to_string(), "200ms");
    }

    #[test]
    fn a_number_without_a_unit_is_rejected_with_the_format() {
        for text in ["7", "0", "0.5", "-1s", "1 fortnight", ""] {
            let error = text.parse::<Span>().unwrap_err().to_string();
            assert_eq!(error, "expected a number with a unit, such as 5s, 200ms or 1m", "{text}");
        }
        let error = serde_json::from_value::<Span>("7".into()).unwrap_err().to_string();
        assert_eq!(error, "invalid value `7`: expected a number with a unit, such as 5s, 200ms or 1m");
    }

    #[test]
    fn a_run_has_a_length_and_a_warm_up_may_be_zero() {
        assert!(positive("0s").is_err() && positive("8days").is_err() && positive("1ms").is_ok());
        assert!(any("0s").is_ok() && any("8days").is_err() && any("0").is_err());
    }
}
