//! Parsers of argument values, shared by commands.

use port::Remedy;
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
