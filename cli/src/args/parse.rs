//! Parsers of argument values, shared by commands.

use port::Remedy;
use std::fmt::Display;
use std::str::FromStr;

/// Parses a value whose errors have a remedy.
pub(crate) fn advised<T: FromStr<Err: Remedy>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| error.in_one_line())
}

/// Parses `KEY=VALUE`.
pub(crate) fn key_and_value(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=').filter(|(key, _)| !key.is_empty());
    let (key, value) = parts.ok_or("expected KEY=VALUE, such as interface=vm0")?;
    Ok((key.trim().to_owned(), value.to_owned()))
}

/// Parses two values with an equals sign between them.
pub(crate) fn pair<A: FromStr<Err: Display>, B: FromStr<Err: Display>>(text: &str) -> Result<(A, B), String> {
    let (first, second) = text.split_once('=').ok_or("expected two values with = between them")?;
    let first = first.trim().parse().map_err(|error| format!("{first}: {error}"))?;
    let second = second.trim().parse().map_err(|error| format!("{second}: {error}"))?;
    Ok((first, second))
}

/// Maximum size that an option takes: 2^48 bytes, the largest address space of a process.
pub(crate) const MAX_BYTES: usize = 1 << 48;

/// Parses a number of bytes with a binary unit, such as 64MiB, of `LEAST` to `MOST`.
pub(crate) fn bytes<const LEAST: usize, const MOST: usize>(text: &str) -> Result<usize, String> {
    let split = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    let shift = ["B", "KiB", "MiB", "GiB", "TiB"].iter().position(|known| *known == unit).map(|at| 10 * at);
    let value =
        shift.zip(digits.parse::<usize>().ok()).and_then(|(shift, number)| number.checked_mul(1 << shift));
    let value = value
        .filter(|value| *value <= MAX_BYTES)
        .ok_or("expected a number with a unit, such as 64MiB or 1GiB")?;
    match value {
        value if value < LEAST => Err(format!("expected at least {}KiB", LEAST >> 10)),
        value if value > MOST => Err(format!("expected at most {}KiB", MOST >> 10)),
        value => Ok(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_have_two_valid_parts() {
        assert_eq!(pair::<u8, bool>("7=true"), Ok((7, true)));
        for (text, reason) in [("7", "="), ("x=true", "x: "), ("7=y", "y: ")] {
            assert!(pair::<u8, bool>(text).is_err_and(|error| error.contains(reason)), "{text}");
        }
    }

    #[test]
    fn sizes_have_units_and_limits() {
        assert_eq!((bytes::<1, MAX_BYTES>("64MiB"), bytes::<1, MAX_BYTES>("7B")), (Ok(64 << 20), Ok(7)));
        for text in ["64", "MiB", "1.5MiB", "-1B", "999999999999TiB", "300TiB", "1M"] {
            assert!(bytes::<0, MAX_BYTES>(text).is_err_and(|error| error.contains("64MiB")), "{text}");
        }
        assert_eq!(bytes::<4096, MAX_BYTES>("1KiB"), Err("expected at least 4KiB".to_owned()));
        assert_eq!(bytes::<0, 4096>("4097B"), Err("expected at most 4KiB".to_owned()));
    }
}
