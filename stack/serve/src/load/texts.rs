//! Incomplete lines and heads of replies, by connection.

use super::input::WrongReply;
use stack::tcp::ConnectionId;
use std::collections::HashMap;

/// Most connections with an incomplete line or head.
const MAX_PARTIAL: usize = 4096;

/// Texts of all connections. The buffer of a complete text is used again for the next segment.
#[derive(Debug, Default)]
pub(super) struct Texts {
    partial: HashMap<u32, Vec<u8>>,
    free: Vec<u8>,
}

impl Texts {
    /// Text of a connection so far, or an empty buffer.
    #[inline]
    pub(super) fn take(&mut self, id: ConnectionId) -> Vec<u8> {
        let partial = if self.partial.is_empty() { None } else { self.partial.remove(&key(id)) };
        partial.unwrap_or_else(|| std::mem::take(&mut self.free))
    }

    /// Stores the text of a connection after a segment.
    ///
    /// # Errors
    /// [`WrongReply`] if too many connections have one.
    #[inline]
    pub(super) fn put(&mut self, id: ConnectionId, text: Vec<u8>) -> Result<(), WrongReply> {
        if text.is_empty() {
            self.free = text;
        } else if self.partial.len() < MAX_PARTIAL {
            self.partial.insert(key(id), text);
        } else {
            return Err(WrongReply::new("too many incomplete heads", 0));
        }
        Ok(())
    }

    /// Removes the text of a connection that is not used any more.
    pub(super) fn remove(&mut self, id: ConnectionId) {
        self.partial.remove(&key(id));
    }
}

const fn key(id: ConnectionId) -> u32 {
    id.index() as u32
}
