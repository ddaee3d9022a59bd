//! The head of a response (RFC 9112 section 4).

use super::status::Status;
use std::fmt::Arguments;
use std::io::Write;

/// `Connection` field of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Persistence {
    /// HTTP/1.1 continues without a field.
    Implied,
    /// HTTP/1.0 continues with `keep-alive`.
    KeepAlive,
    Close,
}

impl Persistence {
    pub(super) const fn of(is_persistent: bool, minor: u8) -> Self {
        match (is_persistent, minor) {
            (false, _) => Self::Close,
            (true, 0) => Self::KeepAlive,
            (true, _) => Self::Implied,
        }
    }

    const fn field(self) -> &'static str {
        match self {
            Self::Implied => "",
            Self::KeepAlive => "Connection: keep-alive\r\n",
            Self::Close => "Connection: close\r\n",
        }
    }
}

/// Writes a head into `out`. `fields` are complete lines.
pub(super) fn write(
    out: &mut Vec<u8>,
    status: Status,
    date: &str,
    fields: Arguments<'_>,
    length: Option<u64>,
    persistence: Persistence,
) {
    out.clear();
    let Status { code, reason } = status;
    // Writing to a vector cannot fail.
    let _ = write!(out, "HTTP/1.1 {code} {reason}\r\nServer: linerate\r\nDate: {date}\r\n{fields}");
    if let Some(length) = length {
        let _ = write!(out, "Content-Length: {length}\r\n");
    }
    let _ = write!(out, "{}\r\n", persistence.field());
}
