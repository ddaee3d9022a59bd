//! Whole messages from a byte stream.

use crate::limits;

/// A stream that is not OpenFlow. The connection must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FramingError {
    /// A length below that of the header.
    #[error("an OpenFlow message has a length of {0} bytes: the header alone has 8")]
    Length(u16),
}

/// Collects bytes and returns messages of every version. Holds at most [`limits::FRAMING`] bytes.
#[derive(Debug, Default)]
pub struct Framing {
    buffer: Vec<u8>,
    start: usize,
}

impl Framing {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of bytes that [`Self::push`] accepts.
    pub fn room(&self) -> usize {
        limits::FRAMING - (self.buffer.len() - self.start)
    }

    /// Adds received bytes and returns how many were taken, at most [`Self::room`]. All messages must be taken before
    /// the rest is offered again.
    pub fn push(&mut self, bytes: &[u8]) -> usize {
        let taken = bytes.len().min(self.room());
        self.buffer.drain(..std::mem::take(&mut self.start));
        self.buffer.extend_from_slice(&bytes[..taken]);
        taken
    }

    /// The next whole message; `None` if more bytes are needed.
    ///
    /// # Errors
    /// If the stream cannot be divided into messages. Every later call returns the same error.
    pub fn next_message(&mut self) -> Result<Option<&[u8]>, FramingError> {
        let Some(&[_, _, high, low]) = self.buffer[self.start..].first_chunk() else { return Ok(None) };
        let length = u16::from_be_bytes([high, low]);
        if length < 8 {
            return Err(FramingError::Length(length));
        }
        let end = self.start + usize::from(length);
        if self.buffer.len() < end {
            return Ok(None);
        }
        let message = std::mem::replace(&mut self.start, end)..end;
        Ok(Some(&self.buffer[message]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: [u8; 29] =
        [4, 2, 0, 8, 0, 0, 0, 1, 4, 2, 0, 13, 0, 0, 0, 2, 1, 2, 3, 4, 5, 4, 3, 0, 8, 0, 0, 0, 3];

    fn messages(framing: &mut Framing) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| framing.next_message().unwrap().map(<[u8]>::to_vec)).collect()
    }

    #[test]
    fn pieces_of_any_size_give_the_same_messages() {
        for size in 1..=STREAM.len() {
            let (mut framing, mut found) = (Framing::new(), Vec::new());
            for piece in STREAM.chunks(size) {
                assert_eq!(framing.push(piece), piece.len());
                found.extend(messages(&mut framing));
            }
            assert_eq!(found, [&STREAM[..8], &STREAM[8..21], &STREAM[21..]]);
        }
    }

    #[test]
    fn memory_is_bounded() {
        let mut framing = Framing::new();
        let long = [&[4, 2, 0xff, 0xff][..], &vec![0; 0xfffb]].concat();
        assert_eq!(framing.push(&long) + framing.push(&long), 2 * 0xffff);
        assert_eq!(framing.push(&long), 2);
        assert_eq!(messages(&mut framing), [long.clone(), long]);
        assert_eq!(framing.room(), limits::FRAMING - 2);
    }

    #[test]
    fn other_streams_are_refused() {
        let mut framing = Framing::new();
        framing.push(&[4, 0, 0, 7, 0, 0, 0, 0]);
        assert_eq!(framing.next_message(), Err(FramingError::Length(7)));
        assert_eq!(framing.next_message(), Err(FramingError::Length(7)));
    }
}
