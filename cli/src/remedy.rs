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

/// As [`invalid`], for an error that serde passed on as `text`, in the form of [`Remedy::in_one_line`].
pub(crate) fn deserialized(place: impl Display, text: &str, default: &str) -> Diagnostic {
    let (reason, remedy) = text.split_once("; ").unwrap_or((text, default));
    Diagnostic::bad(place, reason, remedy)
}

/// Remedy of a failed connection to a socket of the `other` side; `retry` is the way to wait for it. `None` if the error
/// has no known remedy.
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
