//! Fuzzing of the protocols beside the IP layer.
//!
//! A script is arbitrary bytes; it stops at its end. Tests replay the corpora.

mod dhcp;
mod reassembly;
mod slaac;

pub use dhcp::fuzz_dhcp;
pub use reassembly::fuzz_reassembly;
pub use slaac::fuzz_slaac;

/// The rest of a script.
struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    /// The next byte; 0 at the end.
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    /// Up to `len` bytes.
    fn bytes(&mut self, len: u8) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(usize::from(len).min(self.0.len()));
        self.0 = rest;
        bytes
    }
}
