//! Buffered reader for a parser: keeps only the bytes that the parser needs at a time.

use std::io::{self, Read};

/// Read size in bytes.
pub(super) const CHUNK: usize = 1 << 20;

/// A sliding window over a file.
pub(super) struct Window<R> {
    file: R,
    chunk: usize,
    bytes: Vec<u8>,
    /// Number of consumed bytes at the start of `bytes`.
    taken: usize,
    /// File offset of `bytes`.
    start: usize,
    ended: bool,
}

impl<R: Read> Window<R> {
    /// A window at the start of `file`, read in chunks of `chunk` bytes.
    pub(super) fn new(file: R, chunk: usize) -> Self {
        Self { file, chunk, bytes: Vec::new(), taken: 0, start: 0, ended: false }
    }

    /// File offset of [`Window::rest`].
    pub(super) fn offset(&self) -> usize {
        self.start + self.taken
    }

    /// Unconsumed bytes read so far.
    pub(super) fn rest(&self) -> &[u8] {
        &self.bytes[self.taken..]
    }

    /// Reads until [`Window::rest`] has `len` bytes or the file ends.
    pub(super) fn fill_to(&mut self, len: usize) -> io::Result<()> {
        if self.rest().len() >= len || self.ended {
            return Ok(());
        }
        self.start += self.taken;
        self.bytes.drain(..self.taken);
        self.taken = 0;
        while self.bytes.len() < len && !self.ended {
            self.bytes.try_reserve(self.chunk)?;
            let read = self.file.by_ref().take(self.chunk as u64).read_to_end(&mut self.bytes)?;
            self.ended = read == 0;
        }
        Ok(())
    }

    /// Consumes `len` bytes of [`Window::rest`].
    pub(super) fn take(&mut self, len: usize) {
        self.taken = (self.taken + len).min(self.bytes.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_is_read_once_within_the_window() {
        let file: Vec<u8> = (0..10_000_u32).map(|i| (i * 7) as u8).collect();
        for chunk in [1, 3, 64, 20_000] {
            let (mut window, mut seen) = (Window::new(&*file, chunk), Vec::<u8>::new());
            for step in (1..).map(|i| i * 17 % 90 + 1) {
                window.fill_to(step).unwrap();
                assert_eq!(window.offset(), seen.len());
                assert!(window.bytes.len() <= 90 + chunk, "{} bytes are kept", window.bytes.len());
                let Some(part) = window.rest().get(..step) else { break };
                seen.extend(part);
                window.take(step);
            }
            seen.extend(window.rest());
            assert_eq!(seen, file, "{chunk}");
        }
    }
}
