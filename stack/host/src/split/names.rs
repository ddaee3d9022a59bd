//! Connections by the identifiers of the application on the other thread.
//!
//! The side of the application chooses their identifiers, so that it needs no answer of the stack to name a connection
//! that it opens. An entry lives from the call or the event with which its connection begins until the last message
//! about it, so the stack has at most one answer on its way for each. The module must not know rings or threads.

use stack::tcp::ConnectionId;

/// Connection to which a call of the application belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// One of the stack.
    Known(ConnectionId),
    /// That of the last posted call to open one, for the entry with this number.
    Posted(u32),
}

/// A connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    generation: u32,
    /// `None` if the entry is free.
    target: Option<Target>,
    /// Send space that queued data takes, as [`stack::send_cost`] counts it.
    pub(super) used: usize,
    /// Whether the application waits for space.
    pub(super) wants_space: bool,
    /// Whether the application closed its sending side.
    pub(super) is_closed: bool,
    /// Whether acknowledgements are reported to the application.
    pub(super) reports_acks: bool,
}

impl Entry {
    fn new(generation: u32, target: Option<Target>) -> Self {
        Self { generation, target, used: 0, wants_space: false, is_closed: false, reports_acks: false }
    }

    /// Whether it was not used again since it had this name.
    fn is(&self, name: ConnectionId) -> bool {
        u64::from(self.generation) == name.to_bits() >> 32
    }
}

/// The table.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// By [`ConnectionId::index`] of the application.
    entries: Vec<Entry>,
    /// Numbers of free entries.
    free: Vec<u32>,
    /// Numbers of entries by [`ConnectionId::index`] of the stack.
    of_stack: Vec<u32>,
}

impl Names {
    /// Number of connections.
    pub(super) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// The name of the connection with this number.
    pub(super) fn id(&self, number: u32) -> ConnectionId {
        let generation = self.entries.get(number as usize).map_or(0, |entry| entry.generation);
        ConnectionId::from_bits(u64::from(generation) << 32 | u64::from(number))
    }

    /// Adds a connection that a posted call opens.
    pub(super) fn post(&mut self) -> ConnectionId {
        let number = self.free.pop().unwrap_or(self.entries.len() as u32);
        if number as usize == self.entries.len() {
            self.entries.push(Entry::new(0, None));
        }
        let entry = &mut self.entries[number as usize];
        *entry = Entry::new(entry.generation.wrapping_add(1), Some(Target::Posted(number)));
        self.id(number)
    }

    /// The stack opened the connection of a posted call.
    pub(super) fn opened(&mut self, number: u32, id: ConnectionId) {
        if let Some(entry) = self.entries.get_mut(number as usize) {
            entry.target = Some(Target::Known(id));
        }
        if self.of_stack.len() <= id.index() {
            self.of_stack.resize(id.index() + 1, 0);
        }
        self.of_stack[id.index()] = number;
    }

    /// The application's name of a connection of the stack. A connection that is not known is added.
    #[inline]
    pub(super) fn name(&mut self, id: ConnectionId) -> ConnectionId {
        let number = self.of_stack.get(id.index()).copied();
        let entry = number.and_then(|number| self.entries.get(number as usize));
        match (number, entry) {
            (Some(number), Some(entry)) if entry.target == Some(Target::Known(id)) => self.id(number),
            _ => {
                let name = self.post();
                self.opened(name.index() as u32, id);
                name
            }
        }
    }

    /// The connection, if it exists.
    #[inline]
    pub(super) fn get(&self, name: ConnectionId) -> Option<&Entry> {
        self.entries.get(name.index()).filter(|entry| entry.target.is_some() && entry.is(name))
    }

    /// The connection, if it exists, with the target of its calls.
    #[inline]
    pub(super) fn get_mut(&mut self, name: ConnectionId) -> Option<(Target, &mut Entry)> {
        let entry = self.entries.get_mut(name.index()).filter(|entry| entry.is(name))?;
        Some((entry.target?, entry))
    }

    /// Removes a connection, whose name is not valid any more.
    pub(super) fn remove(&mut self, name: ConnectionId) {
        if let Some((_, entry)) = self.get_mut(name) {
            entry.target = None;
            self.free.push(name.index() as u32);
        }
    }
}
