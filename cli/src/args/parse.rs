//! Parsers of argument values, shared by commands.

/// Parses `KEY=VALUE`.
pub(crate) fn key_and_value(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=').filter(|(key, _)| !key.is_empty());
    let (key, value) = parts.ok_or("expected KEY=VALUE, such as interface=vm0")?;
    Ok((key.trim().to_owned(), value.to_owned()))
}

/// A positive, finite number of seconds.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && value > 0.0 && value <= 1e9 => Ok(value),
        _ => Err("expected a positive number of seconds, such as 5 or 0.5".to_owned()),
    }
}
