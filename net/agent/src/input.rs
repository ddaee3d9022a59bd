//! Received bytes, and the messages in them.

use openflow::{Framing, FramingError};

/// Received bytes that are not processed yet.
#[derive(Default)]
pub(crate) struct Input {
    framing: Framing,
    /// Bytes after those in `framing`, from `taken` on.
    rest: Vec<u8>,
    taken: usize,
}

impl Input {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.rest.drain(..std::mem::take(&mut self.taken));
        self.rest.extend_from_slice(bytes);
    }

    /// The next whole message; `None` if more bytes are needed.
    pub(crate) fn next_message(&mut self) -> Result<Option<Vec<u8>>, FramingError> {
        loop {
            if let Some(message) = self.framing.next_message()? {
                return Ok(Some(message.to_vec()));
            }
            let rest = &self.rest[self.taken..];
            if rest.is_empty() {
                return Ok(None);
            }
            self.taken += self.framing.push(rest);
        }
    }
}
