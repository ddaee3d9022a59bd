//! User data by the number of a connection, listener or socket.

use stack::tcp::ConnectionId;

/// User data by number; 0 where none was set.
#[derive(Debug, Default)]
pub(super) struct Table(Vec<u64>);

impl Table {
    pub(super) fn set(&mut self, at: usize, user: u64) {
        if self.0.len() <= at {
            self.0.resize(at + 1, 0);
        }
        self.0[at] = user;
    }

    pub(super) fn get(&self, at: usize) -> u64 {
        self.0.get(at).copied().unwrap_or_default()
    }
}

/// User data of a connection.
#[derive(Clone, Copy, Debug)]
struct Entry {
    connection: Option<ConnectionId>,
    user: u64,
}

/// User data by connection.
#[derive(Debug, Default)]
pub(super) struct Connections {
    /// By the number of the connection.
    entries: Vec<Entry>,
    /// Entries of connections that have ended and whose number is in use again, until their last completion.
    ended: Vec<Entry>,
}

impl Connections {
    #[inline]
    pub(super) fn set(&mut self, connection: ConnectionId, user: u64) {
        let at = connection.index();
        if self.entries.len() <= at {
            self.entries.resize(at + 1, Entry { connection: None, user: 0 });
        }
        let new = Entry { connection: Some(connection), user };
        let old = std::mem::replace(&mut self.entries[at], new);
        if old.connection.is_some_and(|old| old != connection) {
            self.ended.push(old);
        }
    }

    #[inline]
    pub(super) fn get(&self, connection: ConnectionId) -> u64 {
        match self.entries.get(connection.index()) {
            Some(entry) if entry.connection == Some(connection) => entry.user,
            _ => self.ended.iter().find(|entry| entry.connection == Some(connection)).map_or(0, |e| e.user),
        }
    }

    /// Removes the entry of a connection that has ended.
    pub(super) fn take(&mut self, connection: ConnectionId) -> u64 {
        if let Some(entry) = self.entries.get_mut(connection.index())
            && entry.connection == Some(connection)
        {
            entry.connection = None;
            return entry.user;
        }
        let at = self.ended.iter().position(|entry| entry.connection == Some(connection));
        at.map_or(0, |at| self.ended.swap_remove(at).user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_keeps_its_data_after_its_number_is_used_again() {
        let [first, second] = [1, 2].map(|generation| ConnectionId::from_bits(generation << 32 | 5));
        let mut users = Connections::default();
        assert_eq!(users.get(first), 0);
        users.set(first, 10);
        users.set(first, 11);
        users.set(second, 20);
        assert_eq!((users.get(first), users.get(second)), (11, 20));
        assert_eq!((users.take(first), users.take(first)), (11, 0));
        assert_eq!((users.take(second), users.get(second)), (20, 0));
        assert!(users.ended.is_empty());
    }
}
