//! Exchange between an application that asks for a port and the switch: one request and one answer over a Unix stream
//! socket, each a length of four bytes in little-endian order and that many bytes of JSON. After an answer without an
//! error the connection carries the vhost-user protocol; the application is the front end.
//!
//! `api::grants` is the side of the switch.

use crate::remedy;
use console::{BAD_INPUT, Diagnostic, FAILED};
use rustix::fd::OwnedFd;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Maximum bytes of JSON in a message.
pub(crate) const MAX_MESSAGE: usize = 64 << 10;
/// Timeout of the answer, which may wait for a busy worker of the switch.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Request of an application. The switch takes its user from the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GrantRequest {
    /// Name of the new port.
    pub(crate) name: String,
    /// Bridge; `None`: that of the first section that admits the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bridge: Option<String>,
    /// Number of queue pairs.
    pub(crate) queue_pairs: u16,
    /// Bytes of memory that the application shares.
    pub(crate) memory: u64,
}

/// Answer of a switch.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct GrantAnswer {
    /// As in HTTP: 201 if the port was granted.
    pub(crate) status: u16,
    /// Why it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<Diagnostic>,
}

/// Encodes a message.
pub(crate) fn encode(message: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let json = serde_json::to_vec(message)?;
    Ok([&(json.len() as u32).to_le_bytes()[..], &json].concat())
}

/// Length of the JSON that follows this prefix.
pub(crate) fn length(prefix: [u8; 4]) -> io::Result<usize> {
    let length = u32::from_le_bytes(prefix) as usize;
    if length > MAX_MESSAGE {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a message of {length} bytes")));
    }
    Ok(length)
}

/// Asks the switch at `socket` for a port. Returns the connection to it, which is non-blocking. Waits for the answer,
/// for a limited time.
pub(crate) fn ask(socket: &Path, request: &GrantRequest) -> Result<OwnedFd, Diagnostic> {
    let place = format!("port \"{}\"", request.name);
    let failed = |error: io::Error| {
        let remedy = remedy::connection(error.kind(), "switch", "add --wait");
        let usual = "check that the path is that of `grants` in [switch]".to_owned();
        let reason = format!("cannot ask the switch at {}: {error}", socket.display());
        Diagnostic::failed(&place, reason, remedy.unwrap_or(usual))
    };
    let (stream, answer) = exchange(socket, request).map_err(failed)?;
    match answer.error {
        None => Ok(stream.into()),
        Some(error) => {
            let code = if answer.status < 500 { BAD_INPUT } else { FAILED };
            Err(Diagnostic { code, place, ..error })
        }
    }
}

/// Sends a request and waits for the answer.
pub(crate) fn exchange(socket: &Path, request: &GrantRequest) -> io::Result<(UnixStream, GrantAnswer)> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.write_all(&encode(request)?)?;
    let answer = read(&mut stream)?;
    stream.set_nonblocking(true)?;
    Ok((stream, answer))
}

/// Reads one message, and no byte after it.
fn read<T: DeserializeOwned>(stream: &mut impl Read) -> io::Result<T> {
    let mut prefix = [0; 4];
    stream.read_exact(&mut prefix)?;
    let mut json = vec![0; length(prefix)?];
    stream.read_exact(&mut json)?;
    Ok(serde_json::from_slice(&json)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> GrantRequest {
        GrantRequest { name: "web".into(), bridge: None, queue_pairs: 1, memory: 1 << 20 }
    }

    #[test]
    fn message_is_read_without_the_bytes_after_it() {
        let bytes = [encode(&request()).unwrap(), b"vhost-user".to_vec()].concat();
        let mut rest = bytes.as_slice();
        assert_eq!(read::<GrantRequest>(&mut rest).unwrap(), request());
        assert_eq!(rest, b"vhost-user");
    }

    #[test]
    fn invalid_messages_are_errors() {
        let long = (MAX_MESSAGE as u32 + 1).to_le_bytes();
        let cases: [&[u8]; 5] = [b"", b"\x05\0", &long, b"\x09\0\0\0{}", b"\x02\0\0\0{}"];
        for bytes in cases {
            assert!(read::<GrantRequest>(&mut &*bytes).is_err(), "{bytes:?}");
        }
        assert!(length((MAX_MESSAGE as u32).to_le_bytes()).is_ok());
    }

    #[test]
    fn absent_switch_is_named_with_a_remedy() {
        let error = ask(Path::new("/nonexistent/grants.sock"), &request()).unwrap_err();
        assert_eq!((error.code, error.place.as_str()), (FAILED, "port \"web\""));
        assert!(error.reason.contains("/nonexistent/grants.sock: No such file"), "{error}");
        assert!(error.remedy.contains("start the switch first, or add --wait"), "{error}");
    }
}
