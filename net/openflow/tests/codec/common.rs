//! Hexadecimal bytes, and lists of actions without the message around them.

use flow::{Action, Field, Match};
use openflow::{Dialect, ErrorCode, Message, PacketOut, Version, decode, encode};

/// Bytes of hexadecimal digits; spaces are ignored.
pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
    assert_eq!(digits.len() % 2, 0, "{text}");
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// Encodes a message with the transaction identifier `xid`.
pub(crate) fn bytes_of(message: &Message, dialect: impl Into<Dialect>, xid: u32) -> Vec<u8> {
    let mut out = Vec::new();
    encode(message, dialect, xid, &mut out).unwrap_or_else(|error| panic!("{message:?}: {error}"));
    out
}

/// Reads a list of actions as the part of a packet-out.
pub(crate) fn read_actions(list: &[u8], version: Version) -> Result<Vec<Action>, ErrorCode> {
    let mut bytes = prefix(&[], version);
    let actions_len = (list.len() as u16).to_be_bytes();
    let at = match version {
        Version::V10 => 14,
        Version::V13 | Version::V14 => 16,
        Version::V15 => 12,
    };
    bytes[at..at + 2].copy_from_slice(&actions_len);
    bytes.extend(list);
    let len = (bytes.len() as u16).to_be_bytes();
    bytes[2..4].copy_from_slice(&len);
    match decode(&bytes, version) {
        Ok(Message::PacketOut(packet)) => Ok(packet.actions),
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(error.code),
    }
}

/// Writes a list of actions.
pub(crate) fn write_actions(actions: &[Action], version: Version) -> Vec<u8> {
    let skip = prefix(&[], version).len();
    prefix(actions, version).split_off(skip)
}

/// A packet-out without data.
fn prefix(actions: &[Action], version: Version) -> Vec<u8> {
    let metadata = Match::any().with(Field::InPort, 1);
    let packet = PacketOut { buffer: None, metadata, actions: actions.to_vec(), data: Vec::new() };
    bytes_of(&Message::PacketOut(Box::new(packet)), version, 0)
}
