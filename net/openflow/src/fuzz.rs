//! Arbitrary bytes as messages.
//!
//! Invariants: nothing panics, an error answers with at most 64 bytes of the message, and a decoded message that can be
//! encoded is decoded to the same message again.

use crate::{Dialect, Framing, Header, Version, decode, encode, limits};

/// The first byte selects version and options; the rest is a stream.
///
/// # Panics
/// If an invariant is violated.
pub fn fuzz_decode(script: &[u8]) {
    let Some((options, stream)) = script.split_first() else { return };
    let version = Version::ALL[usize::from(options & 3)];
    let dialect = Dialect { version, table_ids: options & 4 != 0 };
    let mut framing = Framing::new();
    let taken = framing.push(stream);
    assert!(taken == stream.len() || framing.room() == 0, "framing takes what fits");
    while let Ok(Some(message)) = framing.next_message() {
        check(message, dialect);
    }
}

fn check(bytes: &[u8], dialect: Dialect) {
    let message = match decode(bytes, dialect) {
        Ok(message) => message,
        Err(error) => {
            assert!(bytes.starts_with(&error.data) && error.data.len() <= limits::ERROR_DATA, "{error}");
            return;
        }
    };
    // Messages in bundles have the identifier of the message that adds them.
    let xid = Header::read(bytes).map_or(0, |header| header.xid);
    let mut first = Vec::new();
    if encode(&message, dialect, xid, &mut first).is_err() {
        return;
    }
    let Ok(again) = decode(&first, dialect) else {
        // Lists that grew beyond one message are several.
        assert!(first.len() > limits::MESSAGE, "{message:?} is decoded again");
        return;
    };
    let mut second = Vec::new();
    assert_eq!(encode(&again, dialect, xid, &mut second), Ok(()), "{again:?} is encoded again");
    assert_eq!(first, second, "{message:?} has one encoding");
}
