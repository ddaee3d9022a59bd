//! Options of an `AF_PACKET` port, and their ranges.

use super::blocks::BLOCK;
use crate::interface::{InterfaceError, Place};
use crate::queue::MAX_QUEUE_PAIRS;

/// Minimum number of blocks: one that the kernel fills, one that is read, and one for each burst in flight.
pub const MIN_BLOCKS: u16 = 4;
/// Maximum number of blocks.
pub const MAX_BLOCKS: u16 = 4096;
/// Default number of blocks. The kernel passes on a block that is not full after a millisecond, so this is also the
/// pause in milliseconds that the reading worker may make at a low rate without losing frames.
pub const BLOCKS: u16 = 64;

/// Options of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The interface.
    pub place: Place,
    /// Number of sockets, between which the kernel distributes flows; 1 to 128.
    pub queue_pairs: u16,
    /// Receive blocks of 128 KiB per socket.
    pub blocks: u16,
}

impl Options {
    /// Default options for a port on `place`.
    pub fn new(place: Place) -> Self {
        Self { place, queue_pairs: 1, blocks: BLOCKS }
    }

    /// Returns an error if an option is out of range.
    pub(super) fn check(&self) -> Result<(), InterfaceError> {
        self.place.check()?;
        let wrong = |reason: String, remedy: String| Err(InterfaceError::Options(reason, remedy));
        if !(1..=MAX_QUEUE_PAIRS).contains(&self.queue_pairs) {
            let reason = format!("invalid number of queues {}", self.queue_pairs);
            return wrong(reason, format!("write 1 to {MAX_QUEUE_PAIRS}"));
        }
        if !(MIN_BLOCKS..=MAX_BLOCKS).contains(&self.blocks) {
            let range = format!("write {MIN_BLOCKS} to {MAX_BLOCKS}");
            return wrong(format!("invalid number of blocks {}", self.blocks), range);
        }
        Ok(())
    }

    /// Bytes of the blocks of one socket.
    pub(super) fn bytes(&self) -> u64 {
        u64::from(self.blocks) * u64::from(BLOCK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Remedy;

    #[test]
    fn out_of_range_options_are_rejected() {
        let options = Options::new(Place { interface: "eth0".to_owned(), netns: None });
        assert_eq!(options.check(), Ok(()));
        for blocks in [0, 3, 4097] {
            let error = Options { blocks, ..options.clone() }.check().unwrap_err().in_one_line();
            assert!(error.starts_with(&format!("invalid number of blocks {blocks}")), "{error}");
        }
        assert!(Options { queue_pairs: 0, ..options.clone() }.check().is_err());
        assert!(Options { queue_pairs: 129, ..options }.check().is_err());
    }
}
