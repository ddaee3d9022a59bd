//! Byte ranges (RFC 9110 section 14). A request for several ranges gets the whole file, which the RFC permits: a
//! multipart response can be longer than the file, and few clients request one.

use std::ops::Range;

/// Selection of a `Range` field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Selected {
    /// Everything: the field is invalid, has another unit, or several ranges.
    Whole,
    Part(Range<u64>),
    /// No byte of the file.
    Unsatisfiable,
}

/// Evaluates a `Range` field for a file of `len` bytes.
pub(super) fn select(value: &[u8], len: u64) -> Selected {
    let Some((first, last)) = bounds(value) else { return Selected::Whole };
    let range = match (first, last) {
        (Some(first), Some(last)) if first > last => return Selected::Whole,
        (Some(first), last) => first..last.map_or(len, |last| last.saturating_add(1).min(len)),
        (None, Some(n)) => len.saturating_sub(n)..len,
        (None, None) => return Selected::Whole,
    };
    if range.is_empty() { Selected::Unsatisfiable } else { Selected::Part(range) }
}

/// First and last position of the only range.
fn bounds(value: &[u8]) -> Option<(Option<u64>, Option<u64>)> {
    let value = str::from_utf8(value).ok()?;
    let (unit, ranges) = value.split_once('=')?;
    let range = ranges.trim_matches([' ', '\t', ',']);
    let (first, last) = range.split_once('-')?;
    let is_valid = [first, last].iter().all(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    (is_valid && unit.eq_ignore_ascii_case("bytes")).then(|| (position(first), position(last)))
}

/// The position that digits give. A number too long for 64 bits is after the end of every file.
fn position(digits: &str) -> Option<u64> {
    (!digits.is_empty()).then(|| digits.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fields_select_as_the_rfc_has_it() {
        for (value, expected) in [
            ("bytes=0-0", Selected::Part(0..1)),
            ("Bytes= 2-4 ", Selected::Part(2..5)),
            ("bytes=8-", Selected::Part(8..10)),
            ("bytes=-3", Selected::Part(7..10)),
            ("bytes=-30", Selected::Part(0..10)),
            ("bytes=5-99999999999999999999999", Selected::Part(5..10)),
            ("bytes=10-", Selected::Unsatisfiable),
            ("bytes=-0", Selected::Unsatisfiable),
            ("bytes=99999999999999999999999-", Selected::Unsatisfiable),
            ("bytes=4-2", Selected::Whole),
            ("bytes=-", Selected::Whole),
            ("bytes=1-2,4-5", Selected::Whole),
            ("bytes=+1-2", Selected::Whole),
            ("lines=1-2", Selected::Whole),
            ("bytes", Selected::Whole),
        ] {
            assert_eq!(select(value.as_bytes(), 10), expected, "{value}");
        }
        assert_eq!(select(b"bytes=0-", 0), Selected::Unsatisfiable);
    }

    proptest! {
        #[test]
        fn a_range_selects_the_positions_it_names(
            len in 0u64..30,
            first in proptest::option::of(0u64..40),
            last in proptest::option::of(0u64..40),
        ) {
            let text = |bound: Option<u64>| bound.map_or(String::new(), |bound| bound.to_string());
            let value = format!("bytes={}-{}", text(first), text(last));
            let is_named = |at: &u64| match (first, last) {
                (Some(first), last) => (first..=last.unwrap_or(u64::MAX)).contains(at),
                (None, Some(n)) => *at + n >= len,
                (None, None) => true,
            };
            let named: Vec<u64> = (0..len).filter(is_named).collect();
            match select(value.as_bytes(), len) {
                Selected::Part(range) => prop_assert_eq!(range.collect::<Vec<_>>(), named),
                Selected::Unsatisfiable => prop_assert!(named.is_empty()),
                Selected::Whole => prop_assert!(
                    first.is_none() && last.is_none() || first.zip(last).is_some_and(|(a, b)| a > b)
                ),
            }
        }
    }
}
