//! Conversion of library errors to diagnostics.

use console::Diagnostic;
use port::Remedy;
use std::fmt::Display;
use std::io::ErrorKind;

/// An operation failed with an error of a library. `default` is the remedy of an error without one.
pub(crate) fn failed(place: impl Display, error: &dyn Remedy, default: &str) -> Diagnostic {
    Diagnostic::failed(place, error, error.remedy().unwrap_or(default.into()))
}

/// As [`failed`], for invalid input.
pub(crate) fn invalid(place: impl Display, error: &dyn Remedy, default: &str) -> Diagnostic {
    failed(place, error, default).as_bad_input()
}

/// Remedy of a failed connection to a socket of the `other` side; `retry` is the way to wait for it. `None` if the
/// error has no known remedy.
pub(crate) fn connection(error: ErrorKind, other: &str, retry: &str) -> Option<String> {
    match error {
        ErrorKind::PermissionDenied => Some(
            "run as a user with write permission on the socket and search permission on its directory"
                .to_owned(),
        ),
        ErrorKind::NotFound | ErrorKind::ConnectionRefused | ErrorKind::TimedOut => {
            Some(format!("start the {other} first, or {retry}"))
        }
        _ => None,
    }
}
