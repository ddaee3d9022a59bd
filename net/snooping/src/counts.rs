//! Counters of a port.

use crate::message::MessageError;

/// Counters of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Valid queries that were received.
    pub queries: u64,
    /// Valid reports, leave and done messages that were received.
    pub reports: u64,
    /// Memberships that were refused because of the limit of the port.
    pub port_full: u64,
    /// Memberships that were refused because of the limit of the bridge.
    pub bridge_full: u64,
    /// Records that were ignored because their group is not snooped, such as 224.0.0.1.
    pub reserved: u64,
    /// Invalid messages, by [`MessageError::NAMES`].
    pub invalid: [u64; MessageError::NAMES.len()],
}

impl Counts {
    /// Counts an invalid message.
    pub(crate) fn reject(&mut self, error: MessageError) {
        self.invalid[error as usize] += 1;
    }

    /// Reasons of invalid messages, with their numbers.
    pub fn invalid(&self) -> impl Iterator<Item = (&'static str, u64)> {
        MessageError::NAMES.into_iter().zip(self.invalid)
    }
}
