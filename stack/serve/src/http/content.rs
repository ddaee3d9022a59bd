//! Content of requests, which the server discards within a limit (RFC 9112 sections 6 and 7.1).

use super::request::Content;

/// Maximum length in bytes of a line between chunks.
const MAX_LINE: usize = 1024;

/// Next part of the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Bytes(u64),
    /// The line with the size of a chunk.
    Size,
    /// The rest of a chunk with its line end.
    Chunk(u64),
    Trailer,
}

/// Content that is discarded as it arrives.
#[derive(Clone, Copy, Debug)]
pub(super) struct Discarded {
    next: Next,
    /// Bytes that may still arrive, of any kind.
    budget: u64,
}

/// The content is malformed or too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InvalidContent;

impl Discarded {
    pub(super) const NONE: Self = Self { next: Next::Bytes(0), budget: 0 };

    /// Content of at most `limit` bytes. `None` if it is known to be longer.
    pub(super) fn new(content: Content, limit: u64) -> Option<Self> {
        let next = match content {
            Content::Length(length) if length > limit => return None,
            Content::Length(length) => Next::Bytes(length),
            Content::Chunked => Next::Size,
        };
        Some(Self { next, budget: limit })
    }

    /// Whether all of it has arrived.
    pub(super) fn is_complete(&self) -> bool {
        self.next == Next::Bytes(0)
    }

    /// Discards the beginning of `bytes`. Returns the number of bytes; more are needed if the content is not complete.
    pub(super) fn discard(&mut self, bytes: &[u8]) -> Result<usize, InvalidContent> {
        let mut done = 0;
        while !self.is_complete() {
            let n = self.step(bytes.get(done..).unwrap_or_default())?;
            if n == 0 {
                break;
            }
            self.budget = self.budget.checked_sub(n as u64).ok_or(InvalidContent)?;
            done += n;
        }
        Ok(done)
    }

    fn step(&mut self, rest: &[u8]) -> Result<usize, InvalidContent> {
        match self.next {
            Next::Bytes(left) => {
                let n = left.min(rest.len() as u64);
                self.next = Next::Bytes(left - n);
                Ok(n as usize)
            }
            Next::Chunk(left) => {
                let n = left.min(rest.len() as u64);
                self.next = if n == left { Next::Size } else { Next::Chunk(left - n) };
                Ok(n as usize)
            }
            Next::Size => match httparse::parse_chunk_size(rest) {
                Ok(httparse::Status::Complete((n, size))) => {
                    self.next = if size == 0 { Next::Trailer } else { Next::Chunk(size.saturating_add(2)) };
                    Ok(n)
                }
                Ok(httparse::Status::Partial) if rest.len() <= MAX_LINE => Ok(0),
                _ => Err(InvalidContent),
            },
            Next::Trailer => match memchr::memchr(b'\n', rest) {
                Some(at) => {
                    if matches!(rest.get(..at), Some(b"" | b"\r")) {
                        self.next = Next::Bytes(0);
                    }
                    Ok(at + 1)
                }
                None if rest.len() <= MAX_LINE => Ok(0),
                None => Err(InvalidContent),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CHUNKS: &[u8] = b"5;a=b\r\nhello\r\n0A\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n";

    /// Discards content that arrives in pieces; what is not discarded arrives again with the next piece.
    fn discard(content: Content, bytes: &[u8], cuts: &[usize]) -> Result<(usize, bool), InvalidContent> {
        let mut discarded = Discarded::new(content, 100).ok_or(InvalidContent)?;
        let mut done = 0;
        for end in cuts.iter().map(|cut| cut % bytes.len()).chain([bytes.len()]) {
            done += discarded.discard(bytes.get(done..end).unwrap_or_default())?;
        }
        Ok((done, discarded.is_complete()))
    }

    #[test]
    fn content_above_its_limits_is_rejected() {
        assert!(Discarded::new(Content::Length(101), 100).is_none());
        assert_eq!(discard(Content::Length(3), b"abcd", &[]), Ok((3, true)));
        assert_eq!(discard(Content::Length(5), b"abcd", &[]), Ok((4, false)));
        let long = [b"ff\r\n".to_vec(), vec![b'a'; 255], b"\r\n0\r\n\r\n".to_vec()].concat();
        assert_eq!(discard(Content::Chunked, &long, &[]), Err(InvalidContent));
        assert_eq!(discard(Content::Chunked, b"x\r\n", &[]), Err(InvalidContent));
    }

    proptest! {
        #[test]
        fn chunks_end_at_the_same_byte_however_they_arrive(mut cuts in prop::collection::vec(0..100usize, 0..9)) {
            let bytes = [CHUNKS, b"GET"].concat();
            for cut in &mut cuts {
                *cut %= bytes.len();
            }
            cuts.sort_unstable();
            prop_assert_eq!(discard(Content::Chunked, &bytes, &cuts), Ok((CHUNKS.len(), true)));
        }
    }
}
