//! Conversion of library errors to diagnostics.

use console::Diagnostic;
use port::Remedy;
use std::fmt::Display;

/// An operation failed with an error of a library. `default` is the remedy of an error without one.
pub(crate) fn failed(place: impl Display, error: &dyn Remedy, default: &str) -> Diagnostic {
    Diagnostic::failed(place, error, error.remedy().unwrap_or(default.into()))
}

/// As [`failed`], for invalid input.
pub(crate) fn invalid(place: impl Display, error: &dyn Remedy, default: &str) -> Diagnostic {
    failed(place, error, default).as_bad_input()
}
