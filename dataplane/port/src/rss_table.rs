//! Receive-side scaling of a network card: the queue at which packets of a flow arrive.
//!
//! A program that shares a port among threads uses it to choose source ports whose replies arrive at the right thread.
//! It must not decide what is correct, because the table can be changed while the port runs.

use wire::toeplitz::{KEY_LEN, Toeplitz};

/// Key and indirection table of a card that hashes addresses and ports of TCP segments by Toeplitz.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RssTable {
    key: [u8; KEY_LEN],
    queues: Vec<u16>,
}

impl RssTable {
    /// The table of a card. Returns `None` if its key is shorter than IPv6 needs, or if the table is not a power of two
    /// long, because cards select an entry by the low bits of the hash. Further bytes of the key have no effect.
    pub fn new(key: &[u8], queues: Vec<u16>) -> Option<Self> {
        let key = *key.first_chunk()?;
        queues.len().is_power_of_two().then_some(Self { key, queues })
    }

    /// Hash function.
    pub fn hash(&self) -> Toeplitz {
        Toeplitz::new(&self.key)
    }

    /// Queues, by the low bits of the hash.
    pub fn queues(&self) -> &[u16] {
        &self.queues
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::toeplitz::DEFAULT_KEY;

    #[test]
    fn tables_that_cannot_be_computed_are_refused() {
        let long = [&DEFAULT_KEY[..], &[9; 12]].concat();
        assert_eq!(RssTable::new(&long, vec![0, 1]), RssTable::new(&DEFAULT_KEY, vec![0, 1]));
        assert!(RssTable::new(&long, vec![0, 1]).is_some());
        for queues in [vec![], vec![0, 1, 2]] {
            assert_eq!(RssTable::new(&long, queues), None);
        }
        assert_eq!(RssTable::new(&DEFAULT_KEY[..39], vec![0]), None);
    }
}
