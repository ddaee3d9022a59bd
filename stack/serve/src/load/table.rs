//! Connections of the client: 32 bytes each, and a queue of those that may send.

use super::input::Framing;
use super::pending::NONE;
use stack::tcp::ConnectionId;

/// State of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The entry is not used.
    Free,
    /// Handshake.
    Connecting,
    /// Established.
    Open,
    /// Established; no further request is sent.
    Last,
    /// Closed here; not counted as open.
    Closing,
}

/// A connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Connection {
    pub(super) id: ConnectionId,
    /// Position in the reply to the oldest request.
    pub(super) framing: Framing,
    /// Its youngest request without a complete reply ([`super::pending`]).
    pub(super) last: u32,
    /// The next one of the queue.
    next: u32,
    /// Requests sent.
    pub(super) sent: u32,
    /// Requests without a complete reply.
    pub(super) outstanding: u16,
    pub(super) state: State,
    is_queued: bool,
}

/// All connections, by [`ConnectionId::index`].
#[derive(Debug)]
pub(super) struct Table {
    entries: Vec<Connection>,
    first: u32,
    last: u32,
}

impl Table {
    pub(super) fn new(connections: u32) -> Self {
        Self { entries: Vec::with_capacity(connections as usize), first: NONE, last: NONE }
    }

    /// Bytes of the table.
    pub(super) fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Connection>()
    }

    /// Number of entries, used or not.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Adds a connection in its handshake.
    pub(super) fn insert(&mut self, id: ConnectionId) -> &mut Connection {
        let at = id.index();
        let free = Connection {
            id,
            framing: Framing::default(),
            last: NONE,
            next: NONE,
            sent: 0,
            outstanding: 0,
            state: State::Free,
            is_queued: false,
        };
        if at >= self.entries.len() {
            self.entries.resize(at + 1, free);
        }
        let entry = &mut self.entries[at];
        // The entry may still be in the queue, by an earlier connection.
        *entry =
            Connection { state: State::Connecting, next: entry.next, is_queued: entry.is_queued, ..free };
        entry
    }

    /// The connection, if it exists.
    #[inline]
    pub(super) fn get_mut(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.entries.get_mut(id.index()).filter(|entry| entry.state != State::Free && entry.id == id)
    }

    /// Entries from number `from` on, at most `count`.
    pub(super) fn range_mut(&mut self, from: usize, count: usize) -> &mut [Connection] {
        let end = (from + count).min(self.entries.len());
        self.entries.get_mut(from..end).unwrap_or_default()
    }

    /// All connections.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Connection> {
        self.entries.iter().filter(|entry| entry.state != State::Free)
    }

    /// Adds a connection to the queue of those that may send, unless it is there.
    #[inline]
    pub(super) fn enqueue(&mut self, id: ConnectionId) {
        let at = id.index() as u32;
        let Some(entry) = self.get_mut(id).filter(|entry| !entry.is_queued) else { return };
        (entry.is_queued, entry.next) = (true, NONE);
        match self.entries.get_mut(self.last as usize) {
            Some(last) => last.next = at,
            None => self.first = at,
        }
        self.last = at;
    }

    /// Whether the queue is empty. Connections that ended may be in it.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.first == NONE
    }

    /// Takes the first connection of the queue. Returns `None` if the queue is empty; its connection may have ended.
    #[inline]
    pub(super) fn dequeue(&mut self) -> Option<&mut Connection> {
        let entry = self.entries.get_mut(self.first as usize)?;
        self.first = std::mem::replace(&mut entry.next, NONE);
        if self.first == NONE {
            self.last = NONE;
        }
        entry.is_queued = false;
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_needs_32_bytes() {
        assert_eq!(size_of::<Connection>(), 32);
    }
}
