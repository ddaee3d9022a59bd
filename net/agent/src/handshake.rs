//! The start of a session: HELLO messages and the version (OpenFlow 1.3.5, 6.3.1).

use crate::session::{Session, SessionError};
use openflow::{Dialect, ErrorCode, ErrorMessage, Header, Hello, Message, Version, decode};

/// Types of messages that all versions share.
const HELLO: u8 = 0;
pub(crate) const ERROR: u8 = 1;

/// Sends the HELLO of a new session.
pub(crate) fn greet(session: &mut Session, versions: &[Version]) {
    let hello = Message::Hello(Hello::new(versions));
    let newest = versions.iter().max().copied().unwrap_or(Version::V13);
    // Every version has this message.
    let _ = session.output.put(&hello, newest.into(), 0);
}

/// Processes the first message of the peer, which must be HELLO.
pub(crate) fn agree(session: &mut Session, message: &[u8], versions: &[Version]) -> Result<(), SessionError> {
    let (own, newest) = (Hello::new(versions), versions.iter().max().copied().unwrap_or(Version::V13));
    let header = Header::read(message);
    match header.map_or(HELLO, |header| header.kind) {
        HELLO => {}
        ERROR => return Err(SessionError::Refused),
        kind => return Err(SessionError::NoHello(kind)),
    }
    let Ok(Message::Hello(peer)) = decode(message, newest) else { return Err(SessionError::NoHello(HELLO)) };
    let Some(version) = own.agree(&peer) else {
        refuse(session, message, peer.version, versions);
        return Err(SessionError::NoVersion(peer.version));
    };
    session.dialect = Some(Dialect::from(version));
    session.settings.set_defaults(version);
    Ok(())
}

/// Sends the error of a failed handshake, in a version that the peer may know.
fn refuse(session: &mut Session, message: &[u8], peer: u8, versions: &[Version]) {
    let oldest = versions.iter().min().copied().unwrap_or(Version::V13);
    let version = Version::from_number(peer).unwrap_or(oldest);
    let names: Vec<_> = versions.iter().map(ToString::to_string).collect();
    let data = format!("this switch supports {}", names.join(", ")).into_bytes();
    let answer = ErrorMessage { error: ErrorCode::HelloIncompatible.wire(version), data };
    let xid = Header::read(message).map_or(0, |header| header.xid);
    session.counters.errors += 1;
    // Every version has this message.
    let _ = session.output.put(&Message::Error(answer), version.into(), xid);
}
